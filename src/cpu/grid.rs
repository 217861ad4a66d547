//! Tiles: which part of the output one task computes, and the window of the input that it reads.
//!
//! Positions are counted per phase: tile and window have four axes, the batch and three spatial ones, and position `q`
//! of every phase of an axis lies in the same tile. A tile's window is copied with zeros for what lies outside of the
//! input. After that a tap is nothing but a fixed distance from a position's place in the window, for all axes at once:
//! positions of many rows, planes and samples form one line, which keeps the vectors full however short a row is. What
//! such a line computes between the rows is thrown away.
//!
//! Limit: this multiplies zeros wherever kernels reach beyond the input. [`Grid::positions_computed`] tells how many
//! positions are computed, so that a caller can choose another algorithm where most of them are in vain.

use crate::{Axis, Phase, Problem};

/// Elements of a window, over all of its channels, that are aimed at: 320 KiB, most of a second-level cache.
const WINDOW_ELEMENTS: usize = 80 << 10;
/// Elements of the results that are computed between two stores: 128 KiB, which fit beside the window.
const RESULT_ELEMENTS: usize = 32 << 10;
/// Results have room for this many output channels of a line before they have room for another line.
const CHANNELS_WITH_MANY_LINES: usize = 48;
/// A line that is shorter than this is not cut.
const SHORTEST_CUT: usize = 192;
/// Most phases of the last axis that are interleaved at once.
pub(super) const PHASES_AT_ONCE: usize = 32;

/// One axis of the tiles.
#[derive(Clone, Debug)]
pub(super) struct GridAxis {
    /// The phases of the axis.
    pub phases: Vec<Phase>,
    /// Most positions that a phase has.
    pub positions: usize,
    /// Positions of one tile; the last tile may have fewer.
    pub tile: usize,
    /// Input extent.
    pub input: usize,
    /// The input position that the window of the first tile begins with.
    pub first: isize,
    /// How much longer a window is than its tile.
    pub span: usize,
    /// Distance in the window between neighbours on this axis.
    pub pitch: usize,
    /// How much neighbours on the next outer axis overlap: where both hold zeros, they share them.
    overlap: usize,
}

impl GridAxis {
    fn samples(batch: usize) -> Self {
        let phase = Phase { positions: batch, taps: 1, first_tap: 0, first_input: 0 };
        Self::new(vec![phase], 1, batch, batch)
    }

    fn spatial(axis: &Axis) -> Self {
        Self::new(axis.phases(), axis.input_step(), axis.input, axis.output.div_ceil(axis.stride))
    }

    fn new(phases: Vec<Phase>, input_step: usize, input: usize, positions: usize) -> Self {
        let reaching = || phases.iter().filter(|phase| phase.taps > 0);
        let lowest = |phase: &Phase| phase.first_input - ((phase.taps - 1) * input_step) as isize;
        let first = reaching().map(lowest).min().unwrap_or(0);
        let last = reaching().map(|phase| phase.first_input).max().unwrap_or(0);
        Self { phases, positions, tile: 1, input, first, span: last.abs_diff(first), pitch: 1, overlap: 0 }
    }

    /// Cuts the axis into tiles of about equal size, none above `limit`.
    fn cut(&mut self, limit: usize) {
        let tiles = self.positions.div_ceil(limit).max(1);
        self.tile = self.positions.div_ceil(tiles).max(1);
        if tiles == 1 {
            let before = usize::try_from(-self.first).unwrap_or(0);
            let after = (self.first + self.window() as isize - self.input as isize).max(0) as usize;
            self.overlap = before.min(after).min(self.span);
        }
    }

    /// Positions of the window.
    pub fn window(&self) -> usize {
        self.tile + self.span
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.positions.div_ceil(self.tile)
    }
}

/// The tiles of a problem.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Batch, and the three spatial axes.
    pub axes: [GridAxis; 4],
    /// Distance between the channels of a window.
    pub channel_pitch: usize,
    /// How many of the axes a line runs through: 0 for a row of positions, 1 for a plane, 2 for a volume, 3 for all
    /// samples.
    pub line_axes: usize,
    /// Longest line, in whole vectors.
    pub line_elements: usize,
    /// Phases of the last axis that are computed between two stores.
    pub phases_at_once: usize,
    /// Lines that are computed between two stores: all of them meet a weight while it is in the second-level cache.
    pub lines_at_once: usize,
    /// Output channels that are computed between two stores, unless one block has more.
    pub channels_at_once: usize,
}

impl Grid {
    /// Chooses tiles for a problem whose blocks have `rows` output channels and whose vectors have `lanes` elements.
    pub fn new(problem: &Problem<3>, rows: usize, lanes: usize) -> Self {
        let [z, y, x] = problem.axes().each_ref().map(GridAxis::spatial);
        let mut axes = [GridAxis::samples(problem.batch()), z, y, x];
        let phases_at_once = axes[3].phases.len().min(PHASES_AT_ONCE);

        let window = (WINDOW_ELEMENTS / problem.in_channels_per_group()).max(SHORTEST_CUT);
        let halo = axes[1].span.saturating_add(1).saturating_mul(axes[2].span.saturating_add(1));
        let longest = (RESULT_ELEMENTS / (phases_at_once * rows)).max(SHORTEST_CUT);
        let mut inner = 1;
        for (a, axis) in axes.iter_mut().enumerate().rev() {
            let limit = (window / inner).saturating_sub(axis.span);
            let row_limit = (window / halo).saturating_sub(axis.span).clamp(SHORTEST_CUT, longest);
            axis.cut(if a == 3 { row_limit } else { limit.max(1) });
            axis.pitch = inner;
            inner = inner.saturating_mul(axis.window() - axis.overlap);
        }

        let mut grid = Self {
            channel_pitch: channel_pitch(&axes, lanes),
            axes,
            line_axes: 0,
            line_elements: 0,
            phases_at_once,
            lines_at_once: 1,
            channels_at_once: 0,
        };
        let fits = |level: &usize| *level == 0 || grid.line(*level) <= RESULT_ELEMENTS / (phases_at_once * rows);
        let cheapest =
            (0..4).filter(fits).min_by(|&a, &b| grid.line_cost(a, lanes).total_cmp(&grid.line_cost(b, lanes)));
        grid.line_axes = cheapest.unwrap_or(0);
        grid.line_elements = grid.line(grid.line_axes).next_multiple_of(lanes);
        let channels = problem.out_channels_per_group().min(CHANNELS_WITH_MANY_LINES);
        let lines = grid.lines(grid.line_axes).max(1);
        grid.lines_at_once = (RESULT_ELEMENTS / (grid.line_elements * phases_at_once * channels)).clamp(1, lines);
        grid.channels_at_once = RESULT_ELEMENTS / (grid.line_elements * grid.lines_at_once * phases_at_once);
        grid
    }

    /// Elements of a line through `level` axes beside the last one.
    fn line(&self, level: usize) -> usize {
        let reach = |axis: &GridAxis| (axis.tile - 1).saturating_mul(axis.pitch);
        self.axes[3 - level..].iter().map(reach).fold(1, usize::saturating_add)
    }

    /// Lines of a tile.
    fn lines(&self, level: usize) -> usize {
        self.axes[..3 - level].iter().map(|axis| axis.tile).product()
    }

    /// What the lines of a tile cost, in vectors. A single vector takes more than half the time of two.
    fn line_cost(&self, level: usize, lanes: usize) -> f64 {
        let vectors = self.line(level).div_ceil(lanes);
        self.lines(level) as f64 * (vectors as f64 + if vectors.is_multiple_of(2) { 0.0 } else { 0.3 })
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.axes.iter().map(GridAxis::tiles).product()
    }

    /// Elements of a window of that many channels, with what the last vectors read beyond it.
    pub fn window_elements(&self, channels: usize) -> f64 {
        channels as f64 * self.channel_pitch as f64
    }

    /// Positions per phase that all tiles together compute, with those that are thrown away.
    pub fn positions_computed(&self, lanes: usize) -> f64 {
        self.tiles() as f64 * self.line_cost(self.line_axes, lanes) * lanes as f64
    }
}

/// Room for one channel's window and for the last vector's reads beyond it: an odd number of cache lines, since
/// channels at multiples of a page would fall into the same few places of the first-level cache.
fn channel_pitch(axes: &[GridAxis; 4], lanes: usize) -> usize {
    const CACHE_LINE: usize = 16;
    let reach = |axis: &GridAxis| (axis.window() - 1).saturating_mul(axis.pitch);
    let last = axes.iter().map(reach).fold(0, usize::saturating_add);
    let cache_lines = last.saturating_add(1 + lanes).div_ceil(CACHE_LINE);
    (cache_lines | 1).saturating_mul(CACHE_LINE)
}
