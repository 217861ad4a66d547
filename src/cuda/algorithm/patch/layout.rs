//! Layout: what is open when a layer of patches is divided into tiles, and what follows from each choice.

use std::fmt;

use conv_transpose_kernels::{
    patch::{self, CHANNELS, EIGHT_BYTES, SLOT_POSITIONS, SLOT_ROWS, STAGE_BYTES, STAGED, STAGES_START, Variant},
    tile::{MOST_RING_SLOTS, TEAMS},
};

use super::{SLAB_CHANNELS, Task, elements, input_plane};
use crate::Problem;

/// The fewest stages that are kept: one that is multiplied, one that is left, and one that is on its way.
const LEAST_RING: u32 = 3;

/// A way to divide positions and rows into tiles that fits the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) variant: &'static Variant,
    /// Whether teams divide the positions of a tile, and not its rows.
    pub(super) divides_positions: bool,
    /// Whether all weights of a tile stay in shared memory.
    pub(super) keeps_weights: bool,
    /// Blocks of eight input channels that are staged together, and chunks of as many.
    pub(super) chunk_blocks: u32,
    pub(super) chunks: u32,
    /// Output channels of a tile, tiles of those of a group, and of all groups.
    pub(super) tile_channels: u32,
    pub(super) channel_tiles: u32,
    pub(super) weight_tiles: u32,
    /// Positions of all samples.
    pub(super) positions: u32,
    pub(super) jobs: u32,
    /// Blocks of the grid.
    pub(super) blocks: u32,
    /// Stages.
    pub(super) ring: u32,
}

impl Layout {
    /// All that fit.
    pub(super) fn all(task: &Task) -> Vec<Self> {
        let mut layouts = Vec::new();
        for variant in patch::VARIANTS {
            for divides_positions in [false, true] {
                for keeps_weights in [false, true] {
                    layouts.extend(Self::new(task, variant, divides_positions, keeps_weights));
                }
            }
        }
        layouts
    }

    fn new(task: &Task, variant: &'static Variant, divides_positions: bool, keeps_weights: bool) -> Option<Self> {
        let problem = &task.problem;
        let mut layout = Self {
            variant,
            divides_positions,
            keeps_weights,
            chunk_blocks: 0,
            chunks: 0,
            tile_channels: 0,
            channel_tiles: 0,
            weight_tiles: 0,
            positions: (problem.batch() * input_plane(problem)) as u32,
            jobs: 0,
            blocks: 0,
            ring: 0,
        };
        layout.chunk_blocks = STAGED / CHANNELS / layout.tile_positions();
        layout.chunks = (problem.in_channels_per_group() as u32).div_ceil(layout.chunk_blocks * CHANNELS);
        layout.tile_channels = layout.rows() / elements(problem) / 8 * 8;
        if layout.tile_channels == 0 {
            return None;
        }
        layout.channel_tiles = (problem.out_channels_per_group() as u32).div_ceil(layout.tile_channels);
        let weight_tiles = problem.groups() as u64 * u64::from(layout.channel_tiles);
        let jobs = u64::from(layout.positions.div_ceil(layout.tile_positions())) * weight_tiles;
        let words = weight_tiles * u64::from(layout.chunks) * u64::from(layout.chunk_bytes()) / 4;
        let last_position = u64::from(layout.positions) + u64::from(layout.tile_positions());
        if [jobs, words, last_position].into_iter().any(|count| count >= 1 << 31) {
            return None;
        }
        (layout.weight_tiles, layout.jobs) = (weight_tiles as u32, jobs as u32);
        layout.blocks = layout.jobs.min(task.target.multiprocessors);
        if keeps_weights {
            layout.blocks -= layout.blocks % layout.weight_tiles;
        }
        let available = task.target.shared_bytes.checked_sub(STAGES_START)?;
        let kept = if keeps_weights { layout.chunks.checked_mul(layout.chunk_bytes())? } else { 0 };
        let stage = STAGE_BYTES + if keeps_weights { 0 } else { layout.chunk_bytes() };
        layout.ring = (available.checked_sub(kept)? / stage).min(MOST_RING_SLOTS);
        let has_blocks = layout.blocks > 0 || layout.jobs == 0;
        (has_blocks && layout.ring >= LEAST_RING).then_some(layout)
    }

    /// Positions of a tile.
    pub(super) fn tile_positions(&self) -> u32 {
        SLOT_POSITIONS * if self.divides_positions { TEAMS } else { 1 }
    }

    /// Rows of a tile.
    pub(super) fn rows(&self) -> u32 {
        SLOT_ROWS * self.variant.slots * if self.divides_positions { 1 } else { TEAMS }
    }

    /// Whether there is nothing beyond the last position and the last input channel in any tile and chunk.
    pub(super) fn has_all(&self, problem: &Problem<3>) -> bool {
        let channels = problem.in_channels_per_group() as u32;
        self.positions.is_multiple_of(self.tile_positions()) && channels.is_multiple_of(self.chunk_blocks * CHANNELS)
    }

    /// Bytes of eight input channels of a staged tile.
    pub(super) fn block_bytes(&self) -> u32 {
        self.tile_positions() / 8 * EIGHT_BYTES
    }

    /// Bytes of the input that is staged together.
    pub(super) fn chunk_input_bytes(&self) -> u32 {
        self.tile_positions() * self.chunk_blocks * CHANNELS * 4
    }

    /// Bytes of the weights of 16 input channels.
    pub(super) fn slab_bytes(&self) -> u32 {
        self.rows() * SLAB_CHANNELS * 2
    }

    /// Bytes of the weights of a chunk.
    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_blocks / 2 * self.slab_bytes()
    }

    /// Where the weights begin in shared memory.
    pub(super) fn weights_start(&self) -> u32 {
        STAGES_START + self.ring * STAGE_BYTES
    }

    /// The shared memory of a block.
    pub(super) fn shared_bytes(&self) -> u32 {
        let chunks = if self.keeps_weights { self.chunks } else { self.ring };
        self.weights_start() + chunks * self.chunk_bytes()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channels = self.chunk_blocks * CHANNELS;
        write!(f, "on {} rows and {} positions, {channels} channels at a time, ", self.rows(), self.tile_positions())?;
        if self.keeps_weights {
            f.write_str("weights kept, ")?;
        }
        write!(f, "{} stages", self.ring)
    }
}
