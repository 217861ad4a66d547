//! Launches the pointwise kernel: one thread per output element.

use std::ffi::c_void;

use conv_transpose_kernels as kernels;
use cust::sys;

use super::Prepared;
use crate::{
    Problem,
    cuda::{
        device::Device,
        error::{CudaError, Unsupported},
        module::Kernel,
        operands::Operands,
        parameters::{BLOCK, Parameters, blocks, check_grid, check_limits},
    },
};

#[derive(Debug)]
struct Pointwise {
    kernel: Kernel,
    problem: kernels::Problem,
}

/// One tap, which stays where it is.
pub(super) fn can_implement(problem: &Problem<3>) -> Result<(), Unsupported> {
    for axis in problem.axes() {
        check("a kernel extent", axis.kernel as u128, 1)?;
        check("a stride", axis.stride as u128, 1)?;
        check("the padding", axis.pad_begin.unsigned_abs() as u128, 0)?;
        check("an output extent", axis.output as u128, axis.input as u128)?;
    }
    check_limits(problem)?;
    check_grid(problem.output_shape().len() as u128)
}

fn check(what: &'static str, value: u128, limit: u128) -> Result<(), Unsupported> {
    if value > limit { Err(Unsupported::TooLarge { what, value, limit }) } else { Ok(()) }
}

pub(super) fn prepare(device: &Device, problem: &Problem<3>) -> Result<Box<dyn Prepared>, CudaError> {
    let Parameters { problem, wide, .. } = Parameters::new(problem);
    Ok(Box::new(Pointwise { kernel: device.kernel(if wide { "pointwise_wide" } else { "pointwise" })?, problem }))
}

impl Prepared for Pointwise {
    fn device_bytes(&self) -> usize {
        0
    }

    unsafe fn launch(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), CudaError> {
        let Operands { mut input, mut weight, mut bias, mut output } = *operands;
        let mut problem = self.problem;
        // The parameters of `conv_transpose_kernels::pointwise`, in order.
        let mut arguments: [*mut c_void; 5] = [
            (&raw mut problem).cast(),
            (&raw mut input).cast(),
            (&raw mut weight).cast(),
            (&raw mut bias).cast(),
            (&raw mut output).cast(),
        ];
        // SAFETY: the arguments are the kernel's; the caller vouches for the operands, stream and context.
        unsafe { self.kernel.launch(stream, blocks(problem.outputs), BLOCK, &mut arguments) }
    }
}
