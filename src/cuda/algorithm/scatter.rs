//! Launches the scatter kernel, after filling the output with the bias.

use std::ffi::c_void;

use conv_transpose_kernels as kernels;
use cust::sys;

use super::{Algorithm, Implementation, Prepared};
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

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { algorithm: Algorithm::Scatter, repeatable: false, can_implement, prepare };

#[derive(Debug)]
struct Scatter {
    fill_bias: Kernel,
    scatter: Kernel,
    problem: kernels::Problem,
    /// Threads of the scatter kernel: samples times output channels times input positions.
    threads: u64,
}

fn can_implement(problem: &Problem<3>) -> Result<(), Unsupported> {
    check_limits(problem)?;
    check_grid(problem.output_shape().len() as u128)?;
    check_grid(threads(problem))
}

fn threads(problem: &Problem<3>) -> u128 {
    let positions: u128 = problem.axes().iter().map(|axis| axis.input as u128).product();
    problem.batch() as u128 * problem.out_channels() as u128 * positions
}

fn prepare(device: &Device, problem: &Problem<3>) -> Result<Box<dyn Prepared>, CudaError> {
    let threads = threads(problem) as u64;
    let Parameters { problem, wide, .. } = Parameters::new(problem);
    Ok(Box::new(Scatter {
        fill_bias: device.kernel(if wide { "fill_bias_wide" } else { "fill_bias" })?,
        scatter: device.kernel(if wide { "scatter_wide" } else { "scatter" })?,
        problem,
        threads,
    }))
}

impl Prepared for Scatter {
    fn device_bytes(&self) -> usize {
        0
    }

    unsafe fn launch(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), CudaError> {
        let Operands { mut input, mut weight, mut bias, mut output } = *operands;
        let mut problem = self.problem;
        let mut threads = self.threads;
        // The parameters of `conv_transpose_kernels::fill_bias`, in order.
        let mut fill: [*mut c_void; 3] = [(&raw mut problem).cast(), (&raw mut bias).cast(), (&raw mut output).cast()];
        // SAFETY: the arguments are the kernel's; the caller vouches for the operands, stream and context.
        unsafe { self.fill_bias.launch(stream, blocks(self.problem.outputs), BLOCK, &mut fill)? };
        // The parameters of `conv_transpose_kernels::scatter`, in order.
        let mut scatter: [*mut c_void; 5] = [
            (&raw mut problem).cast(),
            (&raw mut threads).cast(),
            (&raw mut input).cast(),
            (&raw mut weight).cast(),
            (&raw mut output).cast(),
        ];
        // SAFETY: as above, and the output holds the bias.
        unsafe { self.scatter.launch(stream, blocks(self.threads), BLOCK, &mut scatter) }
    }
}
