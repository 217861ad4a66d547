//! Layout: what is open when a layer of patches is divided into tiles, and what follows from each choice.

use std::fmt;

use conv_transpose_kernels::{
    patch::{
        self, CHANNELS, EIGHT_BYTES, PROMOTE_AFTER, SLOT_POSITIONS, SLOT_ROWS, STAGE_BYTES, STAGES_START, Variant,
    },
    tile::{MOST_RING_SLOTS, TEAMS},
};

use super::{SLAB_CHANNELS, Task, elements, input_plane, variants};
use crate::Problem;

/// The fewest stages that are kept: one that is multiplied, one that is left, and one that is on its way.
const LEAST_RING: u32 = 3;

/// What a block computes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) variant: &'static Variant,
    /// Whether teams divide its positions, and not its rows.
    divides_positions: bool,
}

impl Tile {
    pub(super) fn positions(&self) -> u32 {
        SLOT_POSITIONS * if self.divides_positions { TEAMS } else { 1 }
    }

    pub(super) fn rows(&self) -> u32 {
        SLOT_ROWS * self.variant.slots * if self.divides_positions { 1 } else { TEAMS }
    }

    /// Bytes of eight input channels.
    pub(super) fn block_bytes(&self) -> u32 {
        self.positions() / 8 * EIGHT_BYTES
    }

    /// Whether there are registers for sums besides those of the tensor cores.
    fn moves_on(&self) -> bool {
        patch::moves_on(self.variant.slots, self.variant.split)
    }

    /// Whether lanes have enough neighbours along x to store whole sectors.
    pub(super) fn stores_sectors(&self, problem: &Problem<3>) -> bool {
        problem.axes()[2].stride <= if self.variant.slots == 2 { 4 } else { 2 }
    }

    /// Blocks of eight input channels that are staged together: a chunk.
    pub(super) fn chunk_blocks(&self) -> u32 {
        patch::staged(self.variant.split) / CHANNELS / self.positions()
    }

    /// Input channels of a chunk.
    pub(super) fn chunk_channels(&self) -> u32 {
        self.chunk_blocks() * CHANNELS
    }

    /// Numbers that a factor is the sum of.
    pub(super) fn parts(&self) -> u32 {
        if self.variant.split { 2 } else { 1 }
    }

    /// Bytes of the weights of 16 input channels.
    pub(super) fn slab_bytes(&self) -> u32 {
        self.rows() * SLAB_CHANNELS * 2 * self.parts()
    }

    /// Bytes of the weights of a chunk.
    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_blocks() / 2 * self.slab_bytes()
    }
}

/// A way to divide a layer into tiles that fits the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) tile: Tile,
    /// Whether all weights of a tile stay in shared memory.
    pub(super) keeps_weights: bool,
    /// Chunks of input channels.
    pub(super) chunks: u32,
    /// Output channels of a tile, tiles of those of a group, and of all groups.
    pub(super) tile_channels: u32,
    pub(super) channel_tiles: u32,
    pub(super) weight_tiles: u32,
    /// Positions that tiles divide, of all samples or of one, and tiles of these.
    pub(super) stretch: u32,
    pub(super) stretch_tiles: u32,
    pub(super) jobs: u32,
    /// Blocks of the grid.
    pub(super) blocks: u32,
    /// Stages.
    pub(super) ring: u32,
}

impl Layout {
    /// All that fit.
    pub(super) fn all(task: &Task) -> Vec<Self> {
        let both = [false, true];
        let tiles = variants(task.precision)
            .flat_map(|variant| both.map(|divides_positions| Tile { variant, divides_positions }));
        tiles.flat_map(|tile| both.map(|keeps_weights| Self::new(task, tile, keeps_weights))).flatten().collect()
    }

    fn new(task: &Task, tile: Tile, keeps_weights: bool) -> Option<Self> {
        let problem = &task.problem;
        let chunks = (problem.in_channels_per_group() as u32).div_ceil(tile.chunk_channels());
        let tile_channels = Some(tile.rows() / elements(problem) / 8 * 8).filter(|&channels| channels > 0)?;
        if tile.variant.split && !tile.moves_on() && problem.in_channels_per_group() > PROMOTE_AFTER as usize {
            return None;
        }
        let channel_tiles = (problem.out_channels_per_group() as u32).div_ceil(tile_channels);
        let weight_tiles = problem.groups() as u64 * u64::from(channel_tiles);
        let (stretches, stretch) = stretches(problem, &tile);
        let stretch_tiles = stretch.div_ceil(tile.positions());
        let positions = u64::from(stretches) * u64::from(stretch);
        let jobs = u64::from(stretches) * u64::from(stretch_tiles) * weight_tiles;
        let words = weight_tiles * u64::from(chunks) * u64::from(tile.chunk_bytes()) / 4;
        let last_position = positions + u64::from(tile.positions());
        if [jobs, words, last_position].into_iter().any(|count| count >= 1 << 31) {
            return None;
        }
        let (weight_tiles, jobs) = (weight_tiles as u32, jobs as u32);
        let most_blocks = jobs.min(task.target.multiprocessors);
        let blocks = if keeps_weights { most_blocks - most_blocks % weight_tiles } else { most_blocks };
        let kept = if keeps_weights { chunks.checked_mul(tile.chunk_bytes())? } else { 0 };
        let stage = STAGE_BYTES + if keeps_weights { 0 } else { tile.chunk_bytes() };
        let available = task.target.shared_bytes.checked_sub(STAGES_START)?.checked_sub(kept)?;
        let ring = (available / stage).min(MOST_RING_SLOTS);
        let layout = Self {
            tile,
            keeps_weights,
            chunks,
            tile_channels,
            channel_tiles,
            weight_tiles,
            stretch,
            stretch_tiles,
            jobs,
            blocks,
            ring,
        };
        ((blocks > 0 || jobs == 0) && ring >= LEAST_RING).then_some(layout)
    }

    /// Whether there is nothing beyond the last position of a stretch and the last input channel in any tile and chunk.
    pub(super) fn has_all(&self, problem: &Problem<3>) -> bool {
        let channels = problem.in_channels_per_group() as u32;
        self.stretch.is_multiple_of(self.tile.positions()) && channels.is_multiple_of(self.tile.chunk_channels())
    }

    /// Slabs of the packed weight that a tile of it has, of 16 input channels each.
    pub(super) fn slabs(&self) -> u32 {
        self.chunks * self.tile.chunk_blocks() / 2
    }

    /// Where the weights begin in shared memory.
    pub(super) fn weights_start(&self) -> u32 {
        STAGES_START + self.ring * STAGE_BYTES
    }

    /// The shared memory of a block.
    pub(super) fn shared_bytes(&self) -> u32 {
        let chunks = if self.keeps_weights { self.chunks } else { self.ring };
        self.weights_start() + chunks * self.tile.chunk_bytes()
    }
}

/// How many stretches of positions tiles divide, and how long each is. In single precision these are samples: a tile has
/// one scale, and no sample is to be much less exact because of others.
fn stretches(problem: &Problem<3>, tile: &Tile) -> (u32, u32) {
    let (batch, plane) = (problem.batch() as u32, input_plane(problem) as u32);
    if tile.variant.split { (batch, plane) } else { (1, batch * plane) }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile, .. } = self;
        let (rows, positions, channels) = (tile.rows(), tile.positions(), tile.chunk_channels());
        write!(f, "on {rows} rows and {positions} positions, {channels} channels at a time, ")?;
        if self.keeps_weights {
            f.write_str("weights kept, ")?;
        }
        write!(f, "{} stages", self.ring)
    }
}
