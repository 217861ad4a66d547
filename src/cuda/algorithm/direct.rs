//! The direct kernels: a few vectors of outputs per thread, for layers with few channels in a group.

use conv_transpose_kernels as kernels;
use kernels::PIECES;

use super::{Algorithm, BYTES, ISSUE, Implementation, Task, gather};
use crate::{
    Axis, Precision, Problem,
    cuda::{
        error::Unsupported,
        parameters::{Parameters, check_grid, check_limits},
        recipe::{
            Argument::{self, Bias, Input, Output, Weight},
            Launch, Recipe, Table,
        },
    },
};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Direct,
    repeatable: true,
    worth,
    only_if_worth: false,
    kernels: |_, _| vec!["direct", "direct_quads"],
    recipe,
    others: |_| Vec::new(),
};

/// Columns of a piece for the kernels that compute several.
const QUAD: usize = 4;

/// The least first pieces in a row, where the other pieces follow in the same row: a warp of them.
const NEIGHBOURS: usize = 32;

/// The largest stride for quads, which keeps their coordinates far from overflowing.
const MOST_STRIDE: usize = 1 << 16;

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    check_limits(&task.problem)?;
    check_grid(Layout::of(&task.problem).threads)
}

/// With few channels in a group, and not where most taps lie beyond the input, as with a kernel far larger than that: these kernels try
/// them all. Where they are not the usual choice, a model says how they compare to tiles; and for layers of a few microseconds, how they compare to `gather`.
fn worth(task: &Task) -> bool {
    const MOST_PAIRS: usize = 64;
    let [inputs, outputs] = channels(task);
    let are_few = inputs.saturating_mul(outputs) <= MOST_PAIRS || has_few_products(task);
    (task.target.tensor_cores && are_few || has_few_channels(task) || has_hardly_any_products(task))
        && task.taps_are_mostly_inside()
        && !gather::takes_less_than(task, expected_cycles(task, &Layout::of(&task.problem)))
}

/// Whether an output has so few products that tiles are mostly empty, however many output channels there are.
fn has_few_products(task: &Task) -> bool {
    const MOST_PRODUCTS: usize = 16;
    products(task, task.problem.axes().map(|axis| axis.kernel)) <= MOST_PRODUCTS
}

/// Whether an output is the sum of so few products that there is nothing to gain by computing them faster, but all by what is written, however large a layer is: of one, or of two with a stride
/// (`benchmarks/2026-11-27-gpu-small-layers.md`).
fn has_hardly_any_products(task: &Task) -> bool {
    let has_stride = task.problem.axes().iter().any(|axis| axis.stride > 1);
    let most = if has_stride { 2 } else { 1 };
    task.target.tensor_cores && products(task, task.taps()) <= most
}

/// So many taps in all input channels of a group.
fn products(task: &Task, taps: [usize; 3]) -> usize {
    let [inputs, _] = channels(task);
    taps.into_iter().fold(inputs, usize::saturating_mul)
}

/// Channels of a group: of the input, and of the output.
fn channels(task: &Task) -> [usize; 2] {
    [task.problem.in_channels_per_group(), task.problem.out_channels_per_group()]
}

/// Cycles that a task takes, to be compared with those of tiles; `None` if these kernels are taken whatever tiles take. The limits of channels were measured with usual
/// layers. So it has to be a clear case if the model is to overrule them, unless products are few and the layer is small (`benchmarks/2026-11-26-gpu-single-precision-by-f16.md`).
fn cycles(task: &Task, layout: &Layout) -> Option<f64> {
    const CLEARLY: f64 = 1.5;
    const CLEARLY_IF_SMALL: f64 = 1.05;
    const MOST_CYCLES_IF_SMALL: f64 = 16_000.0;
    let is_usual = has_few_channels(task);
    let are_usually_faster = !task.target.tensor_cores || channels(task) == [1, 1] || rows(task) < FEW_ROWS;
    if is_usual && are_usually_faster || has_hardly_any_products(task) {
        return None;
    }
    let expected = expected_cycles(task, layout);
    let is_small = has_few_products(task) && expected <= MOST_CYCLES_IF_SMALL;
    let factor = match (is_usual, is_small) {
        (true, _) => 1.0 / CLEARLY,
        (false, true) => CLEARLY_IF_SMALL,
        (false, false) => CLEARLY,
    };
    Some(expected * factor)
}

/// With fewer rows of taps for an output, tiles have never been much faster where there are few channels.
const FEW_ROWS: usize = 5;

/// Rows of taps, in all input channels, that a thread takes one after the other.
fn rows(task: &Task) -> usize {
    let [z, y, _] = task.taps();
    products(task, [z, y, 1])
}

/// What the model expects. Its constants were fitted to 520 layers of any geometry on an H200 (`benchmarks/2026-11-25-gpu-random-layers.md`).
fn expected_cycles(task: &Task, layout: &Layout) -> f64 {
    const LAUNCH: f64 = 8400.0;
    /// Until a row of the input is there, for a thread that waits for it, and for each of its taps.
    const ROW_LATENCY: f64 = 550.0;
    const TAP_LATENCY: f64 = 50.0;
    /// Instructions of a thread, of each row, of each tap, and of its product for one of the columns.
    const THREAD: f64 = 36.0;
    const ROW: f64 = 12.0;
    const TAP: f64 = 11.7;
    const PRODUCT: f64 = 0.81;
    /// How much of what takes less time is not done beside what takes the longest.
    const NOT_BESIDE: f64 = 0.58;

    let multiprocessors = f64::from(task.target.multiprocessors);
    let [.., taps] = task.taps().map(|taps| taps as f64);
    let rows = rows(task) as f64;
    let instructions = THREAD + rows * (ROW + taps * (TAP + PRODUCT * (PIECES * layout.columns) as f64));
    let bytes = 4.0 * (task.problem.input_shape().len() + task.problem.output_shape().len()) as f64;
    let times = [
        rows * (ROW_LATENCY + taps * TAP_LATENCY),
        layout.threads as f64 * instructions / ISSUE / multiprocessors,
        bytes / BYTES / multiprocessors,
    ];
    let longest = times.into_iter().fold(0.0, f64::max);
    LAUNCH + longest + NOT_BESIDE * (times.into_iter().sum::<f64>() - longest)
}

/// Whether there are so few pairs of channels in a group that these kernels are faster than tensor cores. Those multiply blocks of eight
/// channels at least, so the fewer there are, the more they multiply zeros. The limits were measured on an H200, see
/// `benchmarks/2026-11-24-gpu-few-channels.md`; they are higher where neighbouring outputs have taps of their own. Those for GPUs whose tensor cores do not
/// take TF32 are estimated.
fn has_few_channels(task: &Task) -> bool {
    const BLOCK: usize = 8;
    let problem = &task.problem;
    let [inputs, outputs] = channels(task);
    let pairs = inputs.saturating_mul(outputs);
    let blocks = inputs.div_ceil(BLOCK).saturating_mul(outputs.div_ceil(BLOCK));
    let [.., x] = problem.axes();
    let has_stride = x.stride > 1 && columns(x) == QUAD;
    if !task.target.tensor_cores {
        // Tiles have the same cores then: they gain by what they need not load again, unless most of a block is empty.
        let least_share = if has_stride { 4 } else { 8 };
        return inputs <= 2 * BLOCK && pairs.saturating_mul(least_share) <= blocks.saturating_mul(BLOCK * BLOCK);
    }
    let are_few = match (task.precision, has_stride) {
        (Precision::F32, true) => pairs <= 16 || inputs <= 16 && pairs <= blocks.saturating_mul(BLOCK),
        (Precision::F32, false) | (Precision::Tf32, true) => pairs <= 9,
        (Precision::Tf32, false) => pairs <= 4,
    };
    are_few && !waits_for_loads(task)
}

/// Whether threads are so few, and have so many rows to load one after the other, that they do nothing but wait: as for one output channel of several
/// input channels.
fn waits_for_loads(task: &Task) -> bool {
    const MOST_CHANNELS: usize = 2;
    const MOST_ROWS: usize = 12;
    const BUSY_THREADS: u128 = 768;
    let [inputs, _] = channels(task);
    let threads = Layout::of(&task.problem).threads;
    inputs > MOST_CHANNELS && rows(task) > MOST_ROWS && threads < BUSY_THREADS * u128::from(task.target.multiprocessors)
}

/// Columns of a piece: several where neighbouring outputs have taps of their own, or read what their neighbours do.
fn columns(x: &Axis) -> usize {
    if x.stride <= MOST_STRIDE && x.dilation == 1 { QUAD } else { 1 }
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    can_implement(task)?;
    let Parameters { problem, phases } = Parameters::new(&task.problem);
    let layout = Layout::of(&task.problem);
    let kernel = match (layout.columns, task.wide || layout.reach() >= 1 << 31) {
        (QUAD, false) => "direct_quads",
        (QUAD, true) => "direct_quads_wide",
        (_, false) => "direct",
        (_, true) => "direct_wide",
    };
    let pieces = layout.pieces(&task.problem);
    let arguments =
        vec![Argument::value(&problem), Argument::value(&pieces), Argument::Table(0), Input, Weight, Bias, Output];
    let direct = Launch { gains_from_constants: true, ..Launch::per_element(kernel, pieces.threads, arguments) };
    let cycles = cycles(task, &layout);
    Ok(Recipe { tables: vec![Table::new(&phases)], launches: vec![direct], cycles, ..Recipe::default() })
}

/// How the threads share the output.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Columns of a piece.
    columns: usize,
    /// Number of first pieces in a row, and of rows of a slice with first pieces.
    first: [u128; 2],
    /// Output rows and output columns from a piece of a thread to its next.
    step: [u128; 2],
    /// The same in the input.
    input_step: [u128; 2],
    threads: u128,
}

impl Layout {
    /// Pieces below each other, unless there are so few rows that pieces side by side take fewer threads.
    fn of(problem: &Problem<3>) -> Self {
        let [_, y, x] = problem.axes();
        let columns = columns(x);
        let slices = problem.output_shape().len() as u128 / (y.output as u128 * x.output as u128);
        let below = {
            let (rows, step, input_step) = spread(y, 1, 1);
            let first = [(x.output as u128).div_ceil(columns as u128), rows];
            Self { columns, first, step: [step, 0], input_step: [input_step, 0], threads: slices * first[0] * rows }
        };
        let beside = {
            let (reach, step, input_step) = spread(x, columns, NEIGHBOURS);
            let first = [reach.div_ceil(columns as u128), y.output as u128];
            Self { columns, first, step: [0, step], input_step: [0, input_step], threads: slices * first[0] * first[1] }
        };
        if below.threads <= beside.threads { below } else { beside }
    }

    /// The largest coordinate on the way to one of the output.
    fn reach(&self) -> u128 {
        self.threads
            .max(PIECES as u128 * (self.step[0] + self.step[1] + self.first[0] * self.columns as u128 + self.first[1]))
    }

    fn pieces(&self, problem: &Problem<3>) -> kernels::Pieces {
        let [.., row] = problem.axes();
        let (padding, stride) = (row.pad_begin as i128, row.stride as i128);
        kernels::Pieces {
            columns_divisor: kernels::Divisor::new(self.first[0] as u64),
            rows_divisor: kernels::Divisor::new(self.first[1] as u64),
            row_step: self.step[0] as u64,
            column_step: self.step[1] as u64,
            input_row_step: self.input_step[0] as u64,
            input_column_step: self.input_step[1] as u64,
            first_input: padding.div_euclid(stride) as i64,
            first_tap: padding.rem_euclid(stride) as u64,
            threads: self.threads as u64,
        }
    }
}

/// Spreads the pieces of a thread over an axis: the positions that have a first piece, and the distance to the next piece in the
/// output and in the input. The distance is a multiple of the stride, and of the columns of a piece. `least` is the least number of
/// positions of a phase that have a first piece, if there are so many.
fn spread(axis: &Axis, columns: usize, least: usize) -> (u128, u128, u128) {
    let positions = axis.output.div_ceil(axis.stride);
    let first = positions.div_ceil(PIECES).max(least.min(positions)).next_multiple_of(columns);
    if first >= positions {
        // A thread has one piece, and the next one would be beyond the output.
        return (axis.output as u128, axis.output as u128, 0);
    }
    let step = first as u128 * axis.stride as u128;
    (step, step, first as u128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConvTranspose2d, Precision, Shape,
        cuda::algorithm::{Target, choose},
    };

    /// Four depthwise channels.
    fn layer(kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> ConvTranspose2d {
        ConvTranspose2d::builder(4, 4, kernel).stride(stride).padding(padding).groups(4).build().unwrap()
    }

    fn problem(layer: &ConvTranspose2d, extent: [usize; 2]) -> Problem<3> {
        layer.problem(Shape::batched(1, 4, extent)).unwrap().to_3d()
    }

    fn kernel(layer: &ConvTranspose2d, extent: [usize; 2]) -> &'static str {
        recipe(&Task::new(problem(layer, extent), Precision::F32, Target::EMULATED)).unwrap().launches[0].kernel
    }

    #[test]
    fn pieces_are_below_each_other_where_there_are_rows_for_it() {
        let of = |layer, extent| {
            let Layout { columns, first, step, input_step, threads } = Layout::of(&problem(&layer, extent));
            assert_eq!(columns, QUAD);
            assert_eq!(threads, 4 * first[0] * first[1]);
            (first, step, input_step)
        };
        assert_eq!(of(layer([4, 4], [2, 2], [1, 1]), [12, 30]), ([15, 6], [6, 0], [3, 0]));
        assert_eq!(of(layer([1, 4], [1, 2], [0, 1]), [1, 300]), ([38, 1], [0, 152], [0, 76]));
    }

    #[test]
    fn few_channels_are_those_of_which_blocks_would_be_empty() {
        for (precision, inputs, outputs, stride, are_few) in [
            (Precision::F32, 1, 64, 2, true),
            (Precision::F32, 1, 64, 1, false),
            (Precision::F32, 2, 8, 2, true),
            (Precision::F32, 2, 9, 2, false),
            (Precision::F32, 3, 3, 1, true),
            (Precision::F32, 2, 5, 1, false),
            (Precision::F32, 16, 1, 2, true),
            (Precision::F32, 24, 1, 2, false),
            (Precision::Tf32, 1, 8, 2, true),
            (Precision::Tf32, 1, 16, 2, false),
            (Precision::Tf32, 3, 3, 2, true),
            (Precision::Tf32, 2, 2, 1, true),
            (Precision::Tf32, 3, 3, 1, false),
            (Precision::Tf32, 8, 1, 2, true),
            (Precision::Tf32, 16, 1, 2, false),
        ] {
            let layer = ConvTranspose2d::builder(inputs, outputs, [4, 4]).stride([stride; 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(40, inputs, [250, 270])).unwrap().to_3d();
            let task = Task::new(problem, precision, Target::EMULATED);
            assert_eq!(has_few_channels(&task), are_few, "{precision}, {inputs} to {outputs}, stride {stride}");
        }
    }

    #[test]
    fn small_layers_of_few_products_are_direct_whatever_their_output_channels() {
        let is_direct = |inputs: usize, outputs: usize, kernel: [usize; 2], extent: usize| {
            let layer = ConvTranspose2d::builder(inputs, outputs, kernel).build().unwrap();
            let problem = layer.problem(Shape::batched(1, inputs, [extent; 2])).unwrap().to_compute();
            let (algorithm, _) =
                choose(Algorithm::Auto, &Task::new(problem, Precision::Tf32, Target::EMULATED)).unwrap();
            algorithm == Algorithm::Direct
        };
        assert!(is_direct(1, 96, [2, 2], 30));
        assert!(!is_direct(1, 96, [2, 2], 500), "too large for the model to be sure");
        assert!(!is_direct(8, 96, [2, 2], 30), "more products than that");
    }

    #[test]
    fn layers_of_one_or_two_products_for_each_output_are_direct() {
        let is_direct = |inputs: usize, outputs: usize, kernel: [usize; 2], stride: [usize; 2]| {
            let layer = ConvTranspose2d::builder(inputs, outputs, kernel).stride(stride).build().unwrap();
            let problem = layer.problem(Shape::batched(8, inputs, [512, 512])).unwrap().to_compute();
            [Precision::F32, Precision::Tf32].map(|precision| {
                choose(Algorithm::Auto, &Task::new(problem, precision, Target::EMULATED)).unwrap().0
                    == Algorithm::Direct
            })
        };
        assert_eq!(is_direct(1, 64, [1, 1], [1, 1]), [true; 2]);
        assert_eq!(is_direct(1, 32, [3, 3], [3, 3]), [true; 2]);
        assert_eq!(is_direct(2, 96, [1, 3], [1, 3]), [true; 2]);
        assert_eq!(is_direct(2, 64, [1, 1], [1, 1]), [false; 2], "without a stride");
        assert_eq!(is_direct(3, 64, [1, 1], [1, 1]), [false; 2]);
    }

    #[test]
    fn a_short_axis_has_one_piece_per_thread() {
        assert_eq!(
            spread(&Axis { input: 1, output: 3, kernel: 3, stride: 7, dilation: 1, pad_begin: 0 }, 1, 1),
            (3, 3, 0)
        );
    }

    #[test]
    fn quads_are_for_layers_without_dilation() {
        assert_eq!(kernel(&layer([3, 3], [2, 2], [1, 1]), [5, 5]), "direct_quads");
        assert_eq!(kernel(&layer([3, 3], [2, 1], [1, 1]), [5, 5]), "direct_quads");
        let dilated = ConvTranspose2d::builder(4, 4, [3, 3]).stride([2, 2]).dilation([1, 2]).build().unwrap();
        assert_eq!(kernel(&dilated, [5, 5]), "direct");
    }

    /// Pieces side by side are counted with twice the columns of the output.
    #[test]
    fn pieces_reach_beyond_the_output() {
        let reach = |input| {
            let layer = ConvTranspose2d::builder(1, 1, [1, 1]).dilation([1, 2]).build().unwrap();
            Layout::of(&layer.problem(Shape::batched(1, 1, [1, input])).unwrap().to_3d()).reach()
        };
        assert!(reach((1 << 30) - 4) < 1 << 31 && reach(1 << 30) >= 1 << 31);
    }

    /// Strides whose taps are known and others, rows that are aligned and rows that are not, and pieces below and beside each other.
    #[cfg(feature = "emulator")]
    #[test]
    fn the_usual_layers_equal_the_oracle() {
        use crate::{
            Tensor,
            cuda::{EmulatedPlan, Options},
            oracle,
        };
        let numbers = |shape: Shape<2>| {
            let values = (0..shape.len()).map(|index| (index * 7 % 11) as f32 - 5.0);
            Tensor::from_vec(shape, values.collect()).unwrap()
        };
        let kernels = [(2, 2, 0), (3, 2, 1), (4, 2, 1), (4, 2, 0), (8, 4, 2), (16, 8, 4), (3, 1, 1), (5, 1, 0)];
        for ((kernel, stride, padding), extent) in
            kernels.into_iter().flat_map(|kernel| [(kernel, [9, 6]), (kernel, [1, 150])])
        {
            let layer = layer([kernel; 2], [stride; 2], [padding; 2]);
            let input = numbers(Shape::batched(2, 4, extent));
            let (weight, bias) = (numbers(layer.weight_shape()), [1.0, -2.0, 3.0, -4.0]);
            let plan =
                EmulatedPlan::new(&layer, input.shape(), Options::default().algorithm(Algorithm::Direct)).unwrap();
            let output = plan.forward(&input, &weight, Some(&bias)).unwrap();
            let expected = oracle::forward(plan.problem(), input.as_slice(), weight.as_slice(), Some(&bias));
            let output: Vec<f64> = output.as_slice().iter().map(|&value| value.into()).collect();
            assert_eq!(output, expected, "kernel {kernel}, stride {stride}, input {extent:?}");
        }
    }
}
