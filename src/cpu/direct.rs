//! Direct convolution by phase.
//!
//! Every phase of the output is a dense convolution of its own, without a single multiplication by the zeros that a
//! stride would insert. A task computes one tile (see [`grid`](super::grid)) of all phases, for some output channels of
//! a group: it copies the window of the input that the tile reads, lets the micro-kernel compute line after line of
//! each phase, and interleaves the phases of the last axis while storing. Windows and results stay in the second-level
//! cache.
//!
//! Results do not depend on the number of threads: the cut into tasks follows from the problem alone, and the sum for
//! an output element is always over blocks of input channels, then taps, then channels.
//!
//! Limit: it is not for problems that have many more phases than taps, or whose kernels reach far beyond a small input,
//! where windows are zeros for the most part; see [`columns`](super::columns).

use std::ops::Range;

use rayon::prelude::*;

use super::{
    grid::{Grid, GridAxis, PHASES_AT_ONCE},
    microkernel::{Block, Kernels, MAX_ROWS, Start, vectors_per_row},
    pack::Packing,
    shared::SharedOutput,
    split::{part, steps},
    weave::{Weave, Woven},
};
use crate::{Axis, Phase, Problem};

/// Tasks that are aimed at where there are few tiles, enough for the threads of a large machine.
const ENOUGH_TASKS: usize = 64;
/// Fewest output channels that are worth the copy of a window.
const FEWEST_CHANNELS: usize = 16;
/// Most phases, taps and output channels of a group, for each of which there are tables, and most elements of a window,
/// that this algorithm is used for.
const MOST_PHASES: usize = 4096;
const MOST_TAPS: usize = 1 << 20;
const MOST_CHANNELS: usize = 1 << 20;
const MOST_WINDOW_ELEMENTS: f64 = (8 << 20) as f64;

/// The direct algorithm for one problem.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    problem: Problem<3>,
    kernels: Kernels,
    grid: Grid,
    packing: Packing,
    /// The distance of each tap in the window, phase after phase; the order of [`Packing::taps`].
    tap_distances: Vec<usize>,
    /// Where the taps of each phase begin, and where those of the last one end.
    phase_starts: Vec<usize>,
    /// Parts into which the output channels of a group are split.
    channel_parts: usize,
}

/// What one thread works in.
struct Scratch {
    window: Vec<f32>,
    results: Vec<f32>,
}

/// The operands of a call.
struct Operands<'a> {
    input: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    output: SharedOutput<'a>,
    weave: Weave,
}

/// What is computed between two stores: some rows, output channels and phases of the last axis, in one phase of the
/// others.
struct Band {
    /// Rows of the tile, a whole number of lines of them.
    rows: Range<usize>,
    /// Rows that one line runs through.
    line_rows: usize,
    /// Blocks of output channels.
    blocks: Range<usize>,
    /// The phases of the outer axes, as one number.
    outer_phase: usize,
    /// The phases of the last axis.
    phases: Range<usize>,
}

/// One tile for some output channels.
struct Task {
    group: usize,
    /// Blocks of output channels.
    blocks: Range<usize>,
    /// First position and number of positions on each axis.
    origin: [usize; 4],
    extent: [usize; 4],
}

impl Direct {
    /// The algorithm for a problem, unless its phases, taps or channels are too many, or its windows too large.
    pub fn new(problem: &Problem<3>, kernels: Kernels) -> Option<Self> {
        let phases = |axis: &Axis| axis.stride.min(axis.output);
        let phases = problem.axes().iter().map(phases).fold(1, usize::saturating_mul);
        let kernel = problem.taps();
        if phases > MOST_PHASES || kernel > MOST_TAPS || problem.out_channels_per_group() > MOST_CHANNELS {
            return None;
        }
        let grid = Grid::new(problem, problem.out_channels_per_group().min(MAX_ROWS), kernels.lanes);
        if grid.window_elements(problem.in_channels_per_group()) > MOST_WINDOW_ELEMENTS {
            return None;
        }
        let (taps, tap_distances, phase_starts) = taps(problem, &grid);
        let packing = Packing::new(problem, taps);
        let split = ENOUGH_TASKS.div_ceil((grid.tiles() * problem.groups()).max(1));
        let channel_parts = split.min(packing.out_channels / FEWEST_CHANNELS).max(1);
        Some(Self { problem: *problem, kernels, grid, packing, tap_distances, phase_starts, channel_parts })
    }

    /// What the problem costs, in multiplications: those that are made, also those whose results are thrown away, and
    /// one for each element that is copied into a window, as measured.
    pub fn cost(&self) -> f64 {
        let channels = self.problem.in_channels() as f64 * self.packing.out_channels as f64;
        let products = channels * self.packing.taps.len() as f64 * self.grid.positions_computed(self.kernels.lanes);
        let copied = self.tasks() as f64 * self.grid.window_elements(self.packing.in_channels);
        products + copied
    }

    /// Number of tasks.
    fn tasks(&self) -> usize {
        self.grid.tiles() * self.problem.groups() * self.channel_parts
    }

    /// Elements of the packed weights.
    pub fn shared_elements(&self) -> usize {
        self.packing.elements()
    }

    /// Elements of the window and the results of one thread.
    pub fn elements_per_thread(&self) -> usize {
        self.packing.in_channels * self.grid.channel_pitch + self.result_rows() * self.result_pitch()
    }

    fn result_rows(&self) -> usize {
        self.blocks_at_once() * MAX_ROWS.min(self.packing.out_channels)
    }

    /// Blocks of output channels that are computed between two stores.
    fn blocks_at_once(&self) -> usize {
        let rows = MAX_ROWS.min(self.packing.out_channels);
        (self.grid.channels_at_once / rows).clamp(1, self.packing.out_blocks.len())
    }

    /// Distance between the results of two output channels.
    fn result_pitch(&self) -> usize {
        self.grid.phases_at_once * self.phase_pitch()
    }

    /// Distance between the results of two phases of the last axis.
    fn phase_pitch(&self) -> usize {
        self.grid.lines_at_once * self.grid.line_elements
    }

    /// Computes the output from slices of the problem's shapes.
    pub fn forward(&self, input: &[f32], weight: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
        let weight = self.packing.pack(weight);
        let weave = Weave::new(&self.kernels, output.len(), self.grid.axes[3].tile * self.problem.axes()[2].stride);
        let operands = Operands { input, weight: &weight, bias, output: SharedOutput::new(output), weave };
        let scratch = || Scratch {
            window: vec![0.0; self.packing.in_channels * self.grid.channel_pitch],
            results: vec![0.0; self.result_rows() * self.result_pitch()],
        };
        (0..self.tasks()).into_par_iter().for_each_init(scratch, |scratch, index| {
            self.run(&self.task(index), &operands, scratch);
            weave.finish();
        });
    }

    fn task(&self, index: usize) -> Task {
        let (index, channel_part) = (index / self.channel_parts, index % self.channel_parts);
        let mut tile = index / self.problem.groups();
        let (mut origin, mut extent) = ([0; 4], [0; 4]);
        for (a, axis) in self.grid.axes.iter().enumerate().rev() {
            origin[a] = tile % axis.tiles() * axis.tile;
            extent[a] = axis.tile.min(axis.positions - origin[a]);
            tile /= axis.tiles();
        }
        let blocks = part(self.packing.out_blocks.len(), self.channel_parts, channel_part);
        Task { group: index % self.problem.groups(), blocks, origin, extent }
    }

    fn run(&self, task: &Task, operands: &Operands<'_>, scratch: &mut Scratch) {
        self.copy_window(task, operands.input, &mut scratch.window);
        let [_, z, y, x] = self.grid.axes.each_ref().map(|axis| axis.phases.len());
        let rows: usize = task.extent[..3].iter().product();
        let line_rows: usize = task.extent[3 - self.grid.line_axes..3].iter().product();
        for outer_phase in 0..z * y {
            for rows in steps(0..rows, line_rows * self.grid.lines_at_once) {
                for blocks in steps(task.blocks.clone(), self.blocks_at_once()) {
                    for phases in steps(0..x, self.grid.phases_at_once) {
                        let band = Band { rows: rows.clone(), line_rows, blocks: blocks.clone(), outer_phase, phases };
                        self.compute(task, &band, operands, scratch);
                        self.store(task, &band, operands, &scratch.results);
                    }
                }
            }
        }
    }

    /// Copies what a task reads, with zeros around the input.
    fn copy_window(&self, task: &Task, input: &[f32], window: &mut [f32]) {
        let axes = &self.grid.axes;
        let extent: [usize; 4] = std::array::from_fn(|a| task.extent[a] + axes[a].span);
        let first: [isize; 4] = std::array::from_fn(|a| axes[a].first + task.origin[a] as isize);
        let width = extent[3];
        let [before, after] =
            [-first[3], axes[3].input as isize - first[3]].map(|at| at.clamp(0, width as isize) as usize);
        // An index below zero becomes one beyond the extent.
        let index = |a: usize, at: usize| (first[a] + at as isize) as usize;
        for (channel, to) in window.chunks_exact_mut(self.grid.channel_pitch).enumerate() {
            let channel = task.group * self.packing.in_channels + channel;
            for row in 0..extent[..3].iter().product() {
                let place = coordinates(row, &extent);
                let to = &mut to[self.distance(&place)..][..width];
                let [n, z, y] = [0, 1, 2].map(|a| index(a, place[a]));
                if z >= axes[1].input || y >= axes[2].input || before == after {
                    to.fill(0.0);
                    continue;
                }
                let row = ((n * self.problem.in_channels() + channel) * axes[1].input + z) * axes[2].input + y;
                let from = row * axes[3].input + index(3, before);
                to[..before].fill(0.0);
                to[before..after].copy_from_slice(&input[from..from + after - before]);
                to[after..].fill(0.0);
            }
        }
    }

    /// Where the row at a place of the tile begins in the window.
    fn distance(&self, place: &[usize; 3]) -> usize {
        place.iter().zip(&self.grid.axes).map(|(at, axis)| at * axis.pitch).sum()
    }

    /// Computes the results of a band.
    fn compute(&self, task: &Task, band: &Band, operands: &Operands<'_>, scratch: &mut Scratch) {
        let lanes = self.kernels.lanes;
        let blocks = &self.packing.out_blocks[band.blocks.clone()];
        for in_block in &self.packing.in_blocks {
            for (number, rows) in steps(band.rows.clone(), band.line_rows).enumerate() {
                let start = self.distance(&coordinates(rows.start, &task.extent));
                let end = self.distance(&coordinates(rows.end - 1, &task.extent)) + task.extent[3];
                let vectors = (end - start).div_ceil(lanes);
                // Several blocks share a piece of the line while it is in the first-level cache.
                let at_once = if blocks.len() == 1 { vectors } else { vectors_per_row(blocks[0].len()) };
                for piece in steps(0..vectors, at_once) {
                    let place = Place {
                        line: in_block.start * self.grid.channel_pitch + start + piece.start * lanes,
                        result: number * self.grid.line_elements + piece.start * lanes,
                        vectors: piece.len(),
                    };
                    for phase in band.phases.clone() {
                        for out_block in blocks {
                            self.compute_block(task.group, band, phase, in_block, out_block, &place, operands, scratch);
                        }
                    }
                }
            }
        }
    }

    /// One call of the micro-kernel.
    #[expect(clippy::too_many_arguments, reason = "it is the body of a loop over as many things")]
    #[inline]
    fn compute_block(
        &self,
        group: usize,
        band: &Band,
        phase: usize,
        in_block: &Range<usize>,
        out_block: &Range<usize>,
        place: &Place,
        operands: &Operands<'_>,
        scratch: &mut Scratch,
    ) {
        let number = band.outer_phase * self.grid.axes[3].phases.len() + phase;
        let taps = self.phase_starts[number]..self.phase_starts[number + 1];
        let weights = self.packing.start(group, in_block, out_block, taps.start);
        let weights = &operands.weight[weights..][..taps.len() * in_block.len() * out_block.len()];
        let channel = group * self.packing.out_channels + out_block.start;
        let bias = operands.bias.map_or(&[0.0; MAX_ROWS][..], |bias| &bias[channel..channel + out_block.len()]);
        let first_channel = self.packing.out_blocks[band.blocks.start].start;
        let results = (out_block.start - first_channel) * self.result_pitch()
            + (phase - band.phases.start) * self.phase_pitch()
            + place.result;
        let block = Block {
            taps: &self.tap_distances[taps],
            steps: in_block.len(),
            coefficients: weights.as_ptr(),
            lines: scratch.window[place.line..].as_ptr(),
            line_pitch: self.grid.channel_pitch,
            results: scratch.results[results..].as_mut_ptr(),
            result_pitch: self.result_pitch(),
            start: if in_block.start == 0 { Start::Values(bias) } else { Start::Results },
        };
        // SAFETY: the coefficients are those of all taps, steps and rows. A position of the tile and a tap's distance
        // add up to a place in a channel's window, behind which a channel has room for one more vector. The result rows
        // hold a line in whole vectors.
        unsafe { self.kernels.run(out_block.len(), &block, place.vectors) };
    }

    /// Stores the results of a band.
    fn store(&self, task: &Task, band: &Band, operands: &Operands<'_>, results: &[f32]) {
        let axes = &self.grid.axes;
        let [az, ay, ax] = self.problem.axes();
        let phase_y = band.outer_phase % axes[2].phases.len();
        let phase_z = band.outer_phase / axes[2].phases.len();
        let counts: [usize; PHASES_AT_ONCE] = std::array::from_fn(|i| {
            let positions = axes[3].phases.get(band.phases.start + i).map_or(0, |phase| phase.positions);
            positions.saturating_sub(task.origin[3]).min(task.extent[3])
        });
        let counts = &counts[..band.phases.len()];
        let reach = |(r, &count): (usize, &usize)| count.checked_sub(1).map(|q| q * ax.stride + r + 1);
        let Some(len) = counts.iter().enumerate().filter_map(reach).max() else { return };

        let blocks = &self.packing.out_blocks[band.blocks.clone()];
        let channels = blocks[0].start..blocks[blocks.len() - 1].end;
        for (number, rows) in steps(band.rows.clone(), band.line_rows).enumerate() {
            let line_start = self.distance(&coordinates(rows.start, &task.extent));
            for row in rows {
                let place = coordinates(row, &task.extent);
                let [n, z, y] = [0, 1, 2].map(|a| task.origin[a] + place[a]);
                if z >= axes[1].phases[phase_z].positions || y >= axes[2].phases[phase_y].positions {
                    continue;
                }
                let result = number * self.grid.line_elements + self.distance(&place) - line_start;
                for channel in channels.clone() {
                    let plane = n * self.problem.out_channels() + task.group * self.packing.out_channels + channel;
                    let row = (plane * az.output + z * az.stride + phase_z) * ay.output + y * ay.stride + phase_y;
                    let start = row * ax.output + task.origin[3] * ax.stride + band.phases.start;
                    let woven = Woven {
                        lines: results,
                        first: (channel - channels.start) * self.result_pitch() + result,
                        pitch: self.phase_pitch(),
                        counts,
                    };
                    // SAFETY: tasks differ in their tile, their group or their channels, so that their positions
                    // differ; the elements from the first to the last position of a row's tile are all the tile's.
                    let row = unsafe { operands.output.piece(start, len) };
                    operands.weave.store(&woven, row, ax.stride);
                }
            }
        }
    }
}

/// Where a call of the micro-kernel reads and writes.
struct Place {
    /// In the window.
    line: usize,
    /// In the results of an output channel and a phase.
    result: usize,
    vectors: usize,
}

/// The sample, and the position on the two outer axes, of a row of a box of that extent.
fn coordinates(row: usize, extent: &[usize; 4]) -> [usize; 3] {
    let plane = row / extent[2];
    [plane / extent[1], plane % extent[1], row % extent[2]]
}

/// For all phases, one after the other: the kernel index and the distance in the window of each tap, and where phases
/// begin.
fn taps(problem: &Problem<3>, grid: &Grid) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let [z, y, x] = [0, 1, 2].map(|a| axis_taps(&problem.axes()[a], &grid.axes[a + 1]));
    let [_, ky, kx] = problem.axes().map(|axis| axis.kernel);
    let (mut indices, mut distances, mut starts) = (Vec::new(), Vec::new(), vec![0]);
    for phase_z in &z {
        for phase_y in &y {
            for phase_x in &x {
                for tap_z in phase_z {
                    for tap_y in phase_y {
                        for tap_x in phase_x {
                            indices.push((tap_z.index * ky + tap_y.index) * kx + tap_x.index);
                            distances.push(tap_z.distance + tap_y.distance + tap_x.distance);
                        }
                    }
                }
                starts.push(indices.len());
            }
        }
    }
    (indices, distances, starts)
}

/// A tap of one axis.
struct Tap {
    index: usize,
    /// From a position's place in the window to the element that the tap reads.
    distance: usize,
}

/// The taps of each phase of an axis.
fn axis_taps(axis: &Axis, grid: &GridAxis) -> Vec<Vec<Tap>> {
    let tap = |phase: &Phase, t: usize| {
        let input = phase.first_input - (t * axis.input_step()) as isize;
        Tap { index: phase.first_tap + t * axis.tap_step(), distance: (input - grid.first) as usize * grid.pitch }
    };
    grid.phases.iter().map(|phase| (0..phase.taps).map(|t| tap(phase, t)).collect()).collect()
}
