//! Launches the gather kernel: one thread per output element.

use std::ffi::c_void;

use conv_transpose_kernels as kernels;
use cust::sys;

use super::{Algorithm, Implementation, Prepared};
use crate::{
    Problem,
    cuda::{
        device::Device,
        error::{CudaError, Unsupported},
        memory::DeviceMemory,
        module::Kernel,
        operands::Operands,
        parameters::{BLOCK, Parameters, blocks, check_grid, check_limits, gather_threads},
    },
};

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { algorithm: Algorithm::Gather, repeatable: true, can_implement, prepare };

#[derive(Debug)]
struct Gather {
    kernel: Kernel,
    problem: kernels::Problem,
    /// The table of [`kernels::Phase`]s.
    phases: DeviceMemory<u8>,
}

fn can_implement(problem: &Problem<3>) -> Result<(), Unsupported> {
    check_limits(problem)?;
    check_grid(gather_threads(problem))
}

fn prepare(device: &Device, problem: &Problem<3>) -> Result<Box<dyn Prepared>, CudaError> {
    let Parameters { problem, phases, wide } = Parameters::new(problem);
    Ok(Box::new(Gather {
        kernel: device.kernel(if wide { "gather_wide" } else { "gather" })?,
        problem,
        phases: DeviceMemory::new(device.clone(), device.upload_slice(bytemuck::cast_slice(&phases))?),
    }))
}

impl Prepared for Gather {
    fn device_bytes(&self) -> usize {
        self.phases.buffer().len()
    }

    unsafe fn launch(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), CudaError> {
        let Operands { mut input, mut weight, mut bias, mut output } = *operands;
        let mut problem = self.problem;
        let mut phases = self.phases.buffer().as_device_ptr().as_raw();
        // The parameters of `conv_transpose_kernels::gather`, in order.
        let mut arguments: [*mut c_void; 6] = [
            (&raw mut problem).cast(),
            (&raw mut phases).cast(),
            (&raw mut input).cast(),
            (&raw mut weight).cast(),
            (&raw mut bias).cast(),
            (&raw mut output).cast(),
        ];
        // SAFETY: the arguments are the kernel's; the caller vouches for the operands, stream and context.
        unsafe { self.kernel.launch(stream, blocks(problem.gather_threads), BLOCK, &mut arguments) }
    }
}
