//! Matrix product into columns, which are then added into the output.
//!
//! The weight as it lies is a matrix with a row per input channel and a column per output channel and kernel element;
//! its product with the input has, for each input position, the column of values that this position adds to the output.
//! No product is in vain, whatever stride, dilation and extents are, and vectors run along the weight's rows, so that
//! they are full even for a single input position. That makes it the algorithm for the problems that
//! [`direct`](super::direct) is not for.
//!
//! Results do not depend on the number of threads: a task has some output channels of some samples to itself, and adds
//! to an element by input position, then by kernel element.
//!
//! Limit: every product's sum over the input channels is added to memory on its own, which costs more than the product
//! itself if there are few input channels.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    microkernel::{Block, Kernels, MAX_ROWS, Start, vectors_per_row},
    shared::SharedOutput,
    split::{part, steps},
};
use crate::{Axis, Problem};

/// Columns of one product.
const COLUMNS: usize = 480;
/// Input positions of one product.
const POSITIONS: usize = 96;
/// Input channels of one product: its rows of the weight stay in the second-level cache.
const CHANNELS: usize = 128;
/// Columns of one task that are aimed at.
const COLUMNS_PER_TASK: usize = 1024;
/// What a product costs, and what adding one element to the output costs, in products of the direct algorithm: as
/// measured.
const COST_OF_PRODUCT: f64 = 1.5;
const COST_OF_ADDING: f64 = 50.0;

/// The column algorithm for one problem.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    problem: Problem<3>,
    kernels: Kernels,
    /// Elements of a kernel, and of a channel of the input and the output.
    kernel: usize,
    input: usize,
    output: usize,
    /// Parts into which the output channels of a group are split.
    channel_parts: usize,
    /// Parts into which the samples are split.
    sample_parts: usize,
}

/// What one thread works in.
struct Scratch {
    /// The input of some positions: blocks of positions, channels, positions of a block.
    input: Vec<f32>,
    /// Some columns of the weight: channels, columns.
    weight: Vec<f32>,
    /// Their product: positions, columns.
    product: Vec<f32>,
}

/// Some output channels of some samples.
struct Task {
    group: usize,
    /// Output channels, within their group.
    channels: Range<usize>,
    samples: Range<usize>,
}

impl Columns {
    pub fn new(problem: &Problem<3>, kernels: Kernels) -> Self {
        let volume = |extent: fn(&Axis) -> usize| problem.axes().iter().map(extent).product::<usize>();
        let (kernel, input) = (volume(|axis| axis.kernel), volume(|axis| axis.input));
        let channels_per_task = (COLUMNS_PER_TASK / kernel).max(1);
        let samples_per_task = POSITIONS.div_ceil(input);
        Self {
            problem: *problem,
            kernels,
            kernel,
            input,
            output: volume(|axis| axis.output),
            channel_parts: problem.out_channels_per_group().div_ceil(channels_per_task),
            sample_parts: problem.batch().div_ceil(samples_per_task).max(1),
        }
    }

    /// What the problem costs, in multiplications of the direct algorithm.
    pub fn cost(&self) -> f64 {
        let columns = self.problem.out_channels() as f64 * self.kernel as f64;
        let positions = self.problem.batch() as f64 * self.input as f64;
        let per_position = self.problem.in_channels_per_group() as f64 * COST_OF_PRODUCT + COST_OF_ADDING;
        columns * positions * per_position
    }

    fn channels_at_once(&self) -> usize {
        CHANNELS.min(self.problem.in_channels_per_group())
    }

    /// Columns that a thread has room for: whole vectors.
    fn column_pitch(&self) -> usize {
        let columns = self.problem.out_channels_per_group().saturating_mul(self.kernel);
        COLUMNS.min(columns).next_multiple_of(self.kernels.lanes)
    }

    /// Elements that one thread works in.
    pub fn elements_per_thread(&self) -> usize {
        (POSITIONS + self.column_pitch()) * self.channels_at_once() + POSITIONS * self.column_pitch()
    }

    /// Computes the output from slices of the problem's shapes.
    pub fn forward(&self, input: &[f32], weight: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
        let output = SharedOutput::new(output);
        let scratch = || Scratch {
            input: vec![0.0; POSITIONS * self.channels_at_once()],
            weight: vec![0.0; self.column_pitch() * self.channels_at_once()],
            product: vec![0.0; POSITIONS * self.column_pitch()],
        };
        let tasks = self.problem.groups() * self.channel_parts * self.sample_parts;
        (0..tasks).into_par_iter().for_each_init(scratch, |scratch, index| {
            let task = self.task(index);
            self.fill(&task, bias, &output);
            let positions = task.samples.start * self.input..task.samples.end * self.input;
            let columns = task.channels.start * self.kernel..task.channels.end * self.kernel;
            for positions in steps(positions, POSITIONS) {
                for columns in steps(columns.clone(), COLUMNS) {
                    self.multiply(&task, &positions, &columns, input, weight, scratch);
                    self.add(&task, &positions, &columns, &scratch.product, &output);
                }
            }
        });
    }

    fn task(&self, index: usize) -> Task {
        let (index, sample_part) = (index / self.sample_parts, index % self.sample_parts);
        let (group, channel_part) = (index / self.channel_parts, index % self.channel_parts);
        Task {
            group,
            channels: part(self.problem.out_channels_per_group(), self.channel_parts, channel_part),
            samples: part(self.problem.batch(), self.sample_parts, sample_part),
        }
    }

    /// Sets a task's output to the bias.
    fn fill(&self, task: &Task, bias: Option<&[f32]>, output: &SharedOutput<'_>) {
        for sample in task.samples.clone() {
            for channel in task.channels.clone() {
                let channel = task.group * self.problem.out_channels_per_group() + channel;
                let start = (sample * self.problem.out_channels() + channel) * self.output;
                // SAFETY: the channels of a task's samples are its own, and it has no other piece now.
                let elements = unsafe { output.piece(start, self.output) };
                elements.fill(bias.map_or(0.0, |bias| bias[channel]));
            }
        }
    }

    /// The product of some input positions, counted over all samples, with some columns of the weight.
    fn multiply(
        &self,
        task: &Task,
        positions: &Range<usize>,
        columns: &Range<usize>,
        input: &[f32],
        weight: &[f32],
        scratch: &mut Scratch,
    ) {
        let group_channels = self.problem.in_channels_per_group();
        let blocks = positions.len().div_ceil(MAX_ROWS);
        let vectors = columns.len().div_ceil(self.kernels.lanes);
        let at_once = vectors_per_row(MAX_ROWS.min(positions.len()));
        for channels in steps(0..group_channels, CHANNELS) {
            let all = task.group * group_channels + channels.start..task.group * group_channels + channels.end;
            self.copy_input(positions, &all, input, &mut scratch.input);
            self.copy_weight(columns, &all, weight, &mut scratch.weight);
            for part_of_vectors in steps(0..vectors, at_once) {
                let column = part_of_vectors.start * self.kernels.lanes;
                for rows in (0..blocks).map(|block| part(positions.len(), blocks, block)) {
                    let block = Block {
                        taps: &[0],
                        steps: all.len(),
                        coefficients: scratch.input[rows.start * all.len()..].as_ptr(),
                        lines: scratch.weight[column..].as_ptr(),
                        line_pitch: self.column_pitch(),
                        results: scratch.product[rows.start * self.column_pitch() + column..].as_mut_ptr(),
                        result_pitch: self.column_pitch(),
                        start: if channels.start == 0 { Start::Values(&[0.0; MAX_ROWS]) } else { Start::Results },
                    };
                    // SAFETY: the input is packed for these rows and channels; rows of weight and product have room for
                    // the columns in whole vectors.
                    unsafe { self.kernels.run(rows.len(), &block, part_of_vectors.len()) };
                }
            }
        }
    }

    /// Packs the input of some positions as coefficients.
    fn copy_input(&self, positions: &Range<usize>, channels: &Range<usize>, input: &[f32], packed: &mut [f32]) {
        let blocks = positions.len().div_ceil(MAX_ROWS);
        for rows in (0..blocks).map(|block| part(positions.len(), blocks, block)) {
            for (m, row) in rows.clone().enumerate() {
                let position = positions.start + row;
                let (sample, position) = (position / self.input, position % self.input);
                for (step, channel) in channels.clone().enumerate() {
                    let from = (sample * self.problem.in_channels() + channel) * self.input + position;
                    packed[rows.start * channels.len() + step * rows.len() + m] = input[from];
                }
            }
        }
    }

    /// Copies some columns of the weight, so that its rows lie close together.
    fn copy_weight(&self, columns: &Range<usize>, channels: &Range<usize>, weight: &[f32], copy: &mut [f32]) {
        let row = self.problem.out_channels_per_group() * self.kernel;
        for (channel, to) in channels.clone().zip(copy.chunks_exact_mut(self.column_pitch())) {
            to[..columns.len()].copy_from_slice(&weight[channel * row + columns.start..channel * row + columns.end]);
        }
    }

    /// Adds a product to the output.
    fn add(
        &self,
        task: &Task,
        positions: &Range<usize>,
        columns: &Range<usize>,
        product: &[f32],
        output: &SharedOutput<'_>,
    ) {
        let [z, y, x] = self.problem.axes();
        for (position, product) in positions.clone().zip(product.chunks_exact(self.column_pitch())) {
            let (sample, position) = (position / self.input, position % self.input);
            let plane = position / x.input;
            let [iz, iy, ix] = [plane / y.input, plane % y.input, position % x.input];
            for kernel_row in columns.start / x.kernel..columns.end.div_ceil(x.kernel) {
                let kernel_plane = kernel_row / y.kernel;
                let [kz, ky] = [kernel_plane % z.kernel, kernel_row % y.kernel];
                let (Some(oz), Some(oy)) = (landing(z, iz, kz), landing(y, iy, ky)) else { continue };
                let channel = task.group * self.problem.out_channels_per_group() + kernel_plane / z.kernel;
                let start =
                    (((sample * self.problem.out_channels() + channel) * z.output + oz) * y.output + oy) * x.output;
                // SAFETY: the channels of a task's samples are its own, and it has no other piece now.
                let row = unsafe { output.piece(start, x.output) };
                let first = kernel_row * x.kernel;
                let in_columns = columns.start.max(first) - first..columns.end.min(first + x.kernel) - first;
                let taps = intersection(&in_columns, &taps_within(x, ix));
                let Some(at) = taps.clone().next().and_then(|kx| landing(x, ix, kx)) else { continue };
                let values = &product[first + taps.start - columns.start..][..taps.len()];
                for (element, value) in row[at..].iter_mut().step_by(x.dilation).zip(values) {
                    *element += value;
                }
            }
        }
    }
}

/// The output position that a tap brings an input position to.
fn landing(axis: &Axis, input: usize, tap: usize) -> Option<usize> {
    let at = (input * axis.stride + tap * axis.dilation) as isize - axis.pad_begin;
    usize::try_from(at).ok().filter(|&at| at < axis.output)
}

/// The taps that bring an input position to a position of the output.
fn taps_within(axis: &Axis, input: usize) -> Range<usize> {
    let origin = (input * axis.stride) as isize - axis.pad_begin;
    let taps_below =
        |position: isize| usize::try_from(position - origin).map_or(0, |reach| reach.div_ceil(axis.dilation));
    taps_below(0)..taps_below(axis.output as isize).min(axis.kernel)
}

fn intersection(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}
