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
            BLOCK, Launch, Recipe, Table,
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

/// The largest stride for quads, which keeps their coordinates far from overflowing.
const MOST_STRIDE: usize = 1 << 16;

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    check_limits(&task.problem)?;
    check_grid(Layout::of(&task.problem).threads)
}

/// With few channels in a group, and not where most taps lie beyond the input, as with a kernel far larger than that:
/// these kernels try them all. Where they are not the usual choice, a model says how they compare to tiles; and for
/// layers of a few microseconds, how they compare to `gather`.
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
    task.problem.products(task.problem.axes().map(|axis| axis.kernel)) <= MOST_PRODUCTS
}

/// Whether an output is the sum of so few products that there is nothing to gain by computing them faster, but all by
/// what is written, however large a layer is: of one, or of two with a stride
/// (`benchmarks/2026-11-27-gpu-small-layers.md`).
fn has_hardly_any_products(task: &Task) -> bool {
    let has_stride = task.problem.axes().iter().any(|axis| axis.stride > 1);
    let most = if has_stride { 2 } else { 1 };
    task.target.tensor_cores && task.problem.products(task.problem.most_taps()) <= most
}

/// Channels of a group: of the input, and of the output.
fn channels(task: &Task) -> [usize; 2] {
    [task.problem.in_channels_per_group(), task.problem.out_channels_per_group()]
}

/// Cycles that a task takes, to be compared with those of tiles; `None` if these kernels are taken whatever tiles take.
/// The limits of channels were measured with usual layers. So it has to be a clear case if the model is to overrule
/// them, unless products are few and the layer is small (`benchmarks/2026-11-26-gpu-single-precision-by-f16.md`).
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
    let [z, y, _] = task.problem.most_taps();
    task.problem.products([z, y, 1])
}

/// What the model expects of the kernel that is compiled for its layer. Its constants were fitted to 647 layers of any
/// geometry on an H200 (`benchmarks/2026-11-27-gpu-windows.md`).
fn expected_cycles(task: &Task, layout: &Layout) -> f64 {
    const LAUNCH: f64 = 8600.0;
    /// Until the first windows of a slice are there, and for each row of the kernel and each of its products for a
    /// piece.
    const SLICE_LATENCY: f64 = 670.0;
    const ROW_LATENCY: f64 = 116.0;
    const PRODUCT_LATENCY: f64 = 19.0;
    /// Instructions of a thread, of each load, of each product for all pieces, and of asking whether there is such a
    /// product where only the thread knows.
    const THREAD: f64 = 147.0;
    const LOAD: f64 = 3.17;
    const PRODUCT: f64 = 3.24;
    const CONDITION: f64 = 2.28;
    /// How much of what takes less time is not done beside what takes the longest.
    const NOT_BESIDE: f64 = 0.31;

    let multiprocessors = f64::from(task.target.multiprocessors);
    let [z, rows, taps] = task.problem.most_taps();
    let [_, _, x] = task.problem.axes();
    let window = Window::of(x, layout.columns);
    let loads = (window.entries / window.vector) as f64;
    let slices = task.problem.products([z, 1, 1]) as f64;
    let rows = rows as f64;
    let products = if layout.columns == 1 { taps as f64 } else { (layout.columns * x.kernel) as f64 / x.stride as f64 };
    let asked = if layout.columns.is_multiple_of(x.stride) { 0 } else { window.entries * layout.columns } as f64;
    // Of pieces below each other, all windows are loaded before the first row, and one for each row behind it; of
    // others, all for each row.
    let (before, for_each_row) = if layout.step[0] > 0 { (PIECES as f64, 1.0) } else { (0.0, PIECES as f64) };
    let of_a_row = for_each_row * loads * LOAD + products * PRODUCT + asked * CONDITION;
    let instructions = THREAD + slices * (before * loads * LOAD + rows * of_a_row);
    let bytes = 4.0 * (task.problem.input_shape().len() + task.problem.output_shape().len()) as f64;
    let times = [
        slices * (SLICE_LATENCY + rows * (ROW_LATENCY + products * PRODUCT_LATENCY)),
        layout.threads as f64 * instructions / ISSUE / multiprocessors,
        bytes / BYTES / multiprocessors,
    ];
    let longest = times.into_iter().fold(0.0, f64::max);
    LAUNCH + longest + NOT_BESIDE * (times.into_iter().sum::<f64>() - longest)
}

/// Whether there are so few pairs of channels in a group that these kernels are faster than tensor cores. Those
/// multiply blocks of eight channels at least, so the fewer there are, the more they multiply zeros. The limits were
/// measured on an H200, see `benchmarks/2026-11-24-gpu-few-channels.md`; they are higher where neighbouring outputs
/// have taps of their own. Those for GPUs whose tensor cores do not take TF32 are estimated.
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

/// Whether threads are so few, and have so many rows to load one after the other, that they do nothing but wait: as for
/// one output channel of several input channels.
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
    let direct = Launch {
        gains_from_constants: true,
        least_blocks: layout.blocks_of_registers(&task.problem),
        ..Launch::per_element(kernel, pieces.threads, arguments)
    };
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
            let (rows, step, input_step) = stack(y);
            let first = [(x.output as u128).div_ceil(columns as u128), rows];
            Self { columns, first, step: [step, 0], input_step: [input_step, 0], threads: slices * first[0] * rows }
        };
        let beside = {
            let (reach, step, input_step) = spread(x, columns);
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

    /// For how many blocks of a kernel that is compiled for its layer a multiprocessor has registers. What a thread
    /// needs are its sums, the windows, that which moves in meanwhile, and some for everything else
    /// (`benchmarks/2026-11-27-gpu-windows.md`).
    fn blocks_of_registers(&self, problem: &Problem<3>) -> u32 {
        const ELSE: usize = 30;
        const REGISTERS: usize = 64 << 10;
        let [_, y, x] = problem.axes();
        let has_next_row = self.step[0] > 0 && y.most_taps() > 1;
        let windows = PIECES + usize::from(has_next_row);
        let entries = Window::of(x, self.columns).reaching.min(kernels::WINDOW_OF_QUADS);
        let registers = (ELSE + PIECES * self.columns + windows * entries).next_multiple_of(8);
        (REGISTERS / registers / BLOCK as usize).clamp(2, 4) as u32
    }

    fn pieces(&self, problem: &Problem<3>) -> kernels::Pieces {
        let [.., row] = problem.axes();
        let window = Window::of(row, self.columns);
        let neighbours = if self.step[0] > 0 { self.step[0] } else { self.first[1] };
        kernels::Pieces {
            columns_divisor: kernels::Divisor::new(self.first[0] as u64),
            rows_divisor: kernels::Divisor::new(self.first[1] as u64),
            neighbours_divisor: kernels::Divisor::new(neighbours as u64),
            row_step: self.step[0] as u64,
            column_step: self.step[1] as u64,
            input_row_step: self.input_step[0] as u64,
            input_column_step: self.input_step[1] as u64,
            vector: window.vector as u64,
            lead: window.lead as u64,
            entries: window.entries as u64,
            threads: self.threads as u64,
        }
    }
}

/// Pieces below each other: the rows that have first pieces, and the distance to the next piece in the output and in
/// the input. Pieces follow each other as the taps of a row do, so that the next row of the kernel reads, for a piece,
/// what this one reads for the piece before.
fn stack(axis: &Axis) -> (u128, u128, u128) {
    let output = axis.output as u128;
    let input_step = axis.input_step() as u128;
    // A next piece that would be beyond the output may be anywhere there: steps have no limit, kernels count to 2^64.
    let [step, input_step] = [input_step * axis.stride as u128, input_step].map(|step| step.min(output));
    let block = step * PIECES as u128;
    (output / block * step + (output % block).min(step), step, input_step)
}

/// The least first pieces in a row that has others beside them: a warp of them.
const NEIGHBOURS: usize = 32;

/// Pieces beside each other: the columns that have first pieces, and the distance to the next piece in the output and
/// in the input. The distance is a multiple of the stride, and of the columns of a piece.
fn spread(axis: &Axis, columns: usize) -> (u128, u128, u128) {
    let positions = axis.output.div_ceil(axis.stride);
    let first = positions.div_ceil(PIECES).max(NEIGHBOURS.min(positions)).next_multiple_of(columns);
    if first >= positions {
        // A thread has one piece, and the next one would be beyond the output.
        return (axis.output as u128, axis.output as u128, 0);
    }
    let step = first as u128 * axis.stride as u128;
    (step, step, first as u128)
}

/// What a piece reads of a row of the input.
struct Window {
    /// Words that are loaded at once.
    vector: usize,
    /// Positions behind the last one that reaches the piece, so that vectors are aligned.
    lead: usize,
    /// Positions that reach the piece.
    reaching: usize,
    /// Positions of all vectors.
    entries: usize,
}

impl Window {
    fn of(x: &Axis, columns: usize) -> Self {
        if columns == 1 {
            return Self::of_words(x.most_taps());
        }
        let (padding, stride) = (x.pad_begin as i128, x.stride as i128);
        if !columns.is_multiple_of(x.stride) {
            // The last position may reach any column by the first tap.
            return Self::of_words((x.kernel + columns - 1).div_ceil(x.stride));
        }
        let last = (columns - 1) as i128 + padding.rem_euclid(stride);
        let (position, tap) = (last / stride + padding.div_euclid(stride), (last % stride) as usize);
        let reaching = (x.kernel + columns - 1 - tap).div_ceil(x.stride);
        let by = |vector: usize| {
            let lead = (-1 - position).rem_euclid(vector as i128) as usize;
            Self { vector, lead, reaching, entries: (lead + reaching).next_multiple_of(vector) }
        };
        let has_room = |window: &Self| {
            window.vector <= columns / x.stride
                && x.input.is_multiple_of(window.vector)
                && window.entries <= kernels::MOST_IN_VECTORS
        };
        [4, 2].map(by).into_iter().find(has_room).unwrap_or_else(|| Self::of_words(reaching))
    }

    /// Without vectors.
    fn of_words(reaching: usize) -> Self {
        Self { vector: 1, lead: 0, reaching, entries: reaching }
    }
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
        assert_eq!(of(layer([4, 4], [2, 2], [1, 1]), [12, 30]), ([15, 6], [2, 0], [1, 0]));
        assert_eq!(of(layer([1, 4], [1, 2], [0, 1]), [1, 300]), ([38, 1], [0, 152], [0, 76]));
    }

    /// Windows begin with the last position that reaches a piece, or with the end of its vector.
    #[test]
    fn windows_consist_of_vectors_where_rows_do() {
        let of = |kernel: usize, stride: usize, padding: usize, extent: usize| {
            let problem = problem(&layer([1, kernel], [1, stride], [0, padding]), [1, extent]);
            let Window { vector, lead, reaching, entries } = Window::of(&problem.axes()[2], QUAD);
            [vector, lead, reaching, entries]
        };
        // Columns 0 to 3 read positions -1 to 4, of the vectors that begin at -4, 0 and 4.
        assert_eq!(of(3, 1, 1, 16), [4, 3, 6, 12]);
        assert_eq!(of(3, 1, 1, 18), [2, 1, 6, 8]);
        assert_eq!(of(3, 1, 1, 17), [1, 0, 6, 6]);
        // Positions -1 to 2, of the pairs that begin at -2, 0 and 2.
        assert_eq!(of(4, 2, 1, 16), [2, 1, 4, 6]);
        assert_eq!(of(8, 4, 2, 16), [1, 0, 3, 3]);
        // A stride that is no part of a piece: any phase may be the first.
        assert_eq!(of(9, 3, 3, 16), [1, 0, 4, 4]);
        // -11 to 14 are more than are loaded by vectors.
        assert_eq!(of(23, 1, 11, 32), [1, 0, 26, 26]);
    }

    #[test]
    fn registers_are_for_as_many_blocks_as_there_is_room_for() {
        let of = |kernel: [usize; 2], stride: [usize; 2], extent: [usize; 2]| {
            let problem = problem(&layer(kernel, stride, [0, 1]), extent);
            Layout::of(&problem).blocks_of_registers(&problem)
        };
        assert_eq!(of([4, 4], [2, 2], [64, 64]), 3);
        assert_eq!(of([7, 7], [1, 1], [64, 64]), 2);
        assert_eq!(of([1, 4], [1, 2], [1, 1000]), 4);
        assert_eq!(of([1, 1], [1, 1], [64, 64]), 4);
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
        assert!(is_direct(1, 96, [2, 2], 64));
        assert!(!is_direct(1, 96, [2, 2], 500), "too large for the model to be sure");
        assert!(!is_direct(8, 96, [2, 2], 64), "more products than that");
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
            spread(&Axis { input: 1, output: 3, kernel: 3, stride: 7, dilation: 1, pad_begin: 0 }, 1),
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

    /// Strides whose taps are known and others, rows of whole vectors and rows that are not, and pieces below and
    /// beside each other.
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
        let kernels = [
            (2, 2, 0),
            (3, 2, 1),
            (4, 2, 1),
            (4, 2, 0),
            (8, 4, 2),
            (16, 8, 4),
            (3, 1, 1),
            (5, 1, 0),
            (5, 3, 1),
            // Two windows, and more than have code of their own.
            (11, 1, 5),
            (29, 1, 14),
        ];
        for ((kernel, stride, padding), extent) in
            kernels.into_iter().flat_map(|kernel| [(kernel, [9, 6]), (kernel, [1, 152]), (kernel, [18, 16])])
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
