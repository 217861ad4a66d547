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
            few_products: few_products(problem).map_or(0, u64::from),
        };
        Self { problem: problem_parameters, phases }
    }
}

fn axis_parameters(axis: &Axis, first_phase: usize) -> kernels::Axis {
    let (padding, stride) = (axis.pad_begin as i128, axis.stride as i128);
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
        pad_strides: padding.div_euclid(stride) as i64,
        pad_remainder: padding.rem_euclid(stride) as u64,
        least_taps: (axis.kernel / axis.stride) as u64,
        longer_phases: (axis.kernel % axis.stride) as u64,
        tabulated: u64::from(axis.stride > 1 && axis.dilation > 1 || axis.stride > MOST_PHASES),
        tap_step: axis.tap_step() as u64,
        input_step: axis.input_step() as u64,
        first_phase: first_phase as u64,
        most_taps: axis.most_taps() as u64,
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

/// The most products that an output element has, with those of taps beyond the input, if the gather kernel has all of
/// them under way at once.
pub(super) fn few_products(problem: &Problem<3>) -> Option<u32> {
    let products = problem.products(problem.most_taps());
    (products <= kernels::FEW_PRODUCTS).then_some(products as u32)
}

/// Threads that the scatter kernel needs: samples times output channels times input positions.
pub(super) fn scatter_threads(problem: &Problem<3>) -> u128 {
    let positions: u128 = problem.axes().iter().map(|axis| axis.input as u128).product();
    problem.batch() as u128 * problem.out_channels() as u128 * positions
}

/// Most phases of an axis: their table is made on the host and uploaded.
const MOST_PHASES: usize = 1 << 24;

/// The limits of the kernels: extents and channels of a group are counted in 32 bits, and phases are tabulated.
pub(super) fn check_limits(problem: &Problem<3>) -> Result<(), Unsupported> {
    const COUNTED: usize = u32::MAX as usize;
    let channels = ("the number of input channels per group", problem.in_channels_per_group(), COUNTED);
    let kernels = problem.axes().iter().map(|axis| ("a kernel extent", axis.kernel, COUNTED));
    let phases = problem.axes().iter().map(|axis| ("the number of phases", axis.stride.min(axis.output), MOST_PHASES));
    for (what, value, limit) in kernels.chain(phases).chain([channels]) {
        if value > limit {
            return Err(Unsupported::TooLarge { what, value: value as u128, limit: limit as u128 });
        }
    }
    Ok(())
}

/// Whether an element index, the number of a thread, or a coordinate on the way to one, may reach 2^31.
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
    counts.into_iter().chain(problem.axes().iter().map(reach)).any(|count| count >= LIMIT)
}

/// The largest coordinate on the way to one of an axis.
pub(super) fn reach(axis: &Axis) -> u128 {
    axis.output as u128
        + axis.pad_begin.unsigned_abs() as u128
        + axis.input as u128 * axis.stride as u128
        + axis.kernel as u128 * axis.dilation as u128
}

/// The limit of a grid with one thread per element: 2^31 - 1 blocks.
pub(super) fn check_grid(elements: u128) -> Result<(), Unsupported> {
    let limit = i32::MAX as u128 * BLOCK as u128;
    if elements > limit {
        return Err(Unsupported::TooLarge { what: "the number of threads", value: elements, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose1d, Shape};

    /// One axis; nothing is allocated for it.
    fn problem(batch: usize, channels: [usize; 2], input: usize, kernel: usize, stride: usize) -> Problem<3> {
        let layer = ConvTranspose1d::builder(channels[0], channels[1], [kernel]).stride([stride]).build().unwrap();
        layer.problem(Shape::batched(batch, channels[0], [input])).unwrap().to_3d()
    }

    #[test]
    fn tensors_from_2_to_the_31_elements_on_are_wide() {
        assert!(!needs_64_bits(&problem(1 << 16, [1, (1 << 15) - 1], 1, 1, 1)));
        assert!(needs_64_bits(&problem(1 << 16, [1, 1 << 15], 1, 1, 1)));
        assert!(needs_64_bits(&problem(1 << 16, [1 << 15, 1], 1, 1, 1)));
        assert!(needs_64_bits(&problem(1, [1 << 16, 1 << 15], 1, 1, 1)));
    }

    /// Three outputs in a row take four threads: two phases of two positions.
    #[test]
    fn threads_from_2_to_the_31_on_are_wide() {
        assert!(needs_64_bits(&problem(1 << 14, [1, 1 << 15], 2, 1, 2)));
        assert!(!needs_64_bits(&problem(1 << 14, [1, (1 << 15) - 1], 2, 1, 2)));
    }

    /// Of five input positions only one output position is left.
    #[test]
    fn threads_of_scatter_from_2_to_the_31_on_are_wide() {
        let cropped = |batch: usize| {
            let layer = ConvTranspose1d::builder(1, 1 << 15, [1]).padding([2]).build().unwrap();
            needs_64_bits(&layer.problem(Shape::batched(batch, 1, [5])).unwrap().to_3d())
        };
        assert!(cropped(1 << 14) && !cropped(1 << 13));
    }

    #[test]
    fn coordinates_from_2_to_the_31_on_are_wide() {
        let cropped = |stride: usize, kernel: usize, dilation: usize| {
            let layer = ConvTranspose1d::builder(1, 1, [kernel]).stride([stride]).dilation([dilation]);
            let padding = (stride + (kernel - 1) * dilation) / 2;
            let problem = layer.padding([padding]).build().unwrap().problem(Shape::batched(1, 1, [2])).unwrap();
            assert_eq!(problem.axes()[0].output, 1);
            needs_64_bits(&problem.to_3d())
        };
        assert!(cropped(1 << 30, 1, 2) && !cropped(1 << 29, 1, 2));
        assert!(cropped(2, 3, 1 << 30) && !cropped(2, 3, 1 << 28));
    }

    #[test]
    fn kernels_and_channels_are_counted_in_32_bits() {
        const MOST: usize = u32::MAX as usize;
        assert!(check_limits(&problem(1, [1, 1], 1, MOST, 1)).is_ok());
        assert!(check_limits(&problem(1, [1, 1], 1, MOST + 1, 1)).is_err());
        assert!(check_limits(&problem(1, [MOST, 1], 1, 1, 1)).is_ok());
        assert!(check_limits(&problem(1, [MOST + 1, 1], 1, 1, 1)).is_err());
    }

    #[test]
    fn phases_are_limited_to_what_a_table_can_be() {
        let strided = |stride| check_limits(&problem(1, [1, 1], 2, 1, stride));
        assert!(strided(MOST_PHASES).is_ok() && strided(MOST_PHASES + 1).is_err());
        assert!(check_limits(&problem(1, [1, 1], 1, 1, usize::MAX)).is_ok(), "one output position is one phase");
    }

    /// A batch of zero is legal with extents whose product is not.
    #[test]
    fn an_empty_batch_has_parameters_whatever_its_extents() {
        let far = 1 << 60;
        let layer = crate::ConvTranspose3d::builder(1, 1, [2; 3]).stride([2, 3, 1 << 40]).build().unwrap();
        let problem = layer.problem(Shape::batched(0, 1, [far, far, 1 << 20])).unwrap().to_compute();
        assert!(check_limits(&problem).is_ok() && check_grid(gather_threads(&problem)).is_ok());
        assert_eq!(Parameters::new(&problem).problem.outputs, 0);
    }

    #[test]
    fn a_grid_has_an_end() {
        let most = i32::MAX as u128 * 256;
        assert!(check_grid(most).is_ok() && check_grid(most + 1).is_err());
    }
}
