//! From a [`Problem`] to the parameters that the kernels take, and the choice between 32-bit and 64-bit indices.

use conv_transpose_kernels as kernels;

use super::{error::Unsupported, recipe::BLOCK};
use crate::{Axis, Problem};

/// What the geometry kernels take besides the tensors.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) problem: kernels::Problem,
    pub(super) phases: Vec<kernels::Phase>,
}

impl Parameters {
    /// Tabulates a problem that is within the limits.
    pub(super) fn new(problem: &Problem<3>) -> Self {
        let mut phases = Vec::new();
        let axes = problem.axes().map(|axis| {
            let parameters = axis_parameters(&axis, phases.len());
            phases.extend(axis.phases().into_iter().map(|phase| kernels::Phase {
                taps: phase.taps as u32,
                first_tap: phase.first_tap as u32,
                first_input: phase.first_input as i64,
            }));
            parameters
        });
        let volume = |extent: fn(&Axis) -> usize| problem.axes().iter().map(|axis| extent(axis) as u64).product();
        let problem_parameters = kernels::Problem {
            axes,
            out_channels_divisor: kernels::Divisor::new(problem.out_channels() as u64),
            out_per_group_divisor: kernels::Divisor::new(problem.out_channels_per_group() as u64),
            groups: problem.groups() as u64,
            out_per_group: problem.out_channels_per_group() as u64,
            in_per_group: problem.in_channels_per_group() as u64,
            input_plane: volume(|axis| axis.input),
            output_plane: volume(|axis| axis.output),
            taps: volume(|axis| axis.kernel),
            outputs: problem.output_shape().len() as u64,
            row_threads_divisor: kernels::Divisor::new(row_threads(problem) as u64),
            gather_threads: gather_threads(problem) as u64,
        };
        Self { problem: problem_parameters, phases }
    }
}

fn axis_parameters(axis: &Axis, first_phase: usize) -> kernels::Axis {
    kernels::Axis {
        input_divisor: kernels::Divisor::new(axis.input as u64),
        output_divisor: kernels::Divisor::new(axis.output as u64),
        stride_divisor: kernels::Divisor::new(axis.stride as u64),
        positions_divisor: kernels::Divisor::new(axis.output.div_ceil(axis.stride) as u64),
        input_step_divisor: kernels::Divisor::new(axis.input_step() as u64),
        input: axis.input as u64,
        output: axis.output as u64,
        kernel: axis.kernel as u64,
        stride: axis.stride as u64,
        dilation: axis.dilation as u64,
        pad_begin: axis.pad_begin as i64,
        tap_step: axis.tap_step() as u64,
        input_step: axis.input_step() as u64,
        first_phase: first_phase as u64,
    }
}

/// Threads that the gather kernel needs for one output row: its phases, all as long as the longest.
fn row_threads(problem: &Problem<3>) -> u128 {
    let row = problem.axes()[2];
    row.stride.min(row.output) as u128 * row.output.div_ceil(row.stride) as u128
}

/// Threads that the gather kernel needs.
pub(super) fn gather_threads(problem: &Problem<3>) -> u128 {
    let rows = problem.output_shape().len() / problem.axes()[2].output;
    rows as u128 * row_threads(problem)
}

/// Threads that the scatter kernel needs: samples times output channels times input positions.
pub(super) fn scatter_threads(problem: &Problem<3>) -> u128 {
    let positions: u128 = problem.axes().iter().map(|axis| axis.input as u128).product();
    problem.batch() as u128 * problem.out_channels() as u128 * positions
}

/// The limits of the kernels: extents and channels of a group are counted in 32 bits.
pub(super) fn check_limits(problem: &Problem<3>) -> Result<(), Unsupported> {
    let limit = u32::MAX as usize;
    let channels = ("the number of input channels per group", problem.in_channels_per_group());
    let kernels = problem.axes().iter().map(|axis| ("a kernel extent", axis.kernel));
    for (what, value) in kernels.chain([channels]) {
        if value > limit {
            return Err(Unsupported::TooLarge { what, value: value as u128, limit: limit as u128 });
        }
    }
    Ok(())
}

/// Whether an element index, or a coordinate on the way to one, may reach 2^31.
pub(super) fn needs_64_bits(problem: &Problem<3>) -> bool {
    const LIMIT: u128 = 1 << 31;
    let elements = |shape: crate::Shape<3>| shape.len() as u128;
    let counts = [
        elements(problem.input_shape()),
        elements(problem.weight_shape()),
        elements(problem.output_shape()),
        gather_threads(problem),
        scatter_threads(problem),
    ];
    let reach = |axis: &Axis| {
        axis.output as u128
            + axis.pad_begin.unsigned_abs() as u128
            + axis.input as u128 * axis.stride as u128
            + axis.kernel as u128 * axis.dilation as u128
    };
    counts.into_iter().chain(problem.axes().iter().map(reach)).any(|count| count >= LIMIT)
}

/// The limit of a grid with one thread per element: 2^31 - 1 blocks.
pub(super) fn check_grid(elements: u128) -> Result<(), Unsupported> {
    let limit = i32::MAX as u128 * BLOCK as u128;
    if elements > limit {
        return Err(Unsupported::TooLarge { what: "the number of threads", value: elements, limit });
    }
    Ok(())
}
