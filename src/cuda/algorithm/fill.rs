//! Filling the output with the bias, before an algorithm that adds into it, or that writes no more than what has taps.

use conv_transpose_kernels::{self as kernels, FILLED};

use super::Task;
use crate::cuda::{
    error::Unsupported,
    parameters::check_grid,
    recipe::{
        Argument::{self, Bias, Output},
        Launch,
    },
};

/// The kernel to have in advance.
pub(super) const KERNEL: &str = "fill_bias";

/// What the grid cannot do.
pub(super) fn check(task: &Task) -> Result<(), Unsupported> {
    check_grid(task.problem.output_shape().len().div_ceil(FILLED as usize) as u128)
}

/// The launch, for the task's parameters.
pub(super) fn launch(task: &Task, problem: &kernels::Problem) -> Launch {
    let kernel = if task.wide { "fill_bias_wide" } else { KERNEL };
    Launch::per_element(kernel, problem.outputs.div_ceil(FILLED), vec![Argument::value(problem), Bias, Output])
}
