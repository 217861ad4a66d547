//! What the host tells the patch kernels: how positions and their patches lie, and what a tile has of them.

use bytemuck::{Pod, Zeroable};

use crate::index::Divisor;

/// A layer, and how its tiles are computed.
///
/// The positions of all samples are numbered one after the other, as they lie in an input channel. The rows of a product
/// are eight output channels for each element of the patch, then the next eight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Patch {
    /// Positions of a sample.
    pub sample: Divisor,
    /// Positions of a slice.
    pub slice: Divisor,
    /// Positions of a row.
    pub row: Divisor,
    /// Tiles of rows of the packed weight, of all groups.
    pub weight_tiles: Divisor,
    /// Those of a group.
    pub channel_tiles: Divisor,
    /// Tiles of positions of a stretch.
    pub stretch_tiles: Divisor,
    /// Positions that tiles divide: those of all samples, or of one, if no tile is to have several.
    pub stretch: u32,
    /// Logarithms of the extents of a patch.
    pub extents: [u32; 3],
    /// Elements of an output row.
    pub output_row: u32,
    /// Elements of an output slice.
    pub output_slice: u32,
    /// Elements of an output channel.
    pub output_plane: u32,
    /// Output channels of all groups.
    pub out_channels: u32,
    /// Output channels of a group.
    pub out_per_group: u32,
    /// Input channels of all groups.
    pub in_channels: u32,
    /// Input channels of a group.
    pub in_per_group: u32,
    /// Output channels of a tile, a multiple of 8.
    pub tile_channels: u32,
    /// Positions of a tile: those of a slot, or of two, if teams divide positions and not rows.
    pub tile_positions: u32,
    /// Chunks of input channels, which are staged one after the other.
    pub chunks: u32,
    /// Blocks of eight input channels of a chunk, an even number.
    pub chunk_blocks: u32,
    /// Stages that are kept in shared memory.
    pub ring: u32,
    /// Whether all chunks of weights stay in shared memory: each block has one tile of them then.
    pub keeps_weights: u32,
    /// Whether there is nothing beyond the last position of a stretch and the last input channel in any tile and chunk.
    pub has_all: u32,
    /// Bytes of eight input channels of a staged tile, or of their large parts.
    pub block_bytes: u32,
    /// Bytes of the weights of 16 channels, with their small parts if they are split.
    pub slab_bytes: u32,
    /// Bytes of the weights of a chunk.
    pub chunk_bytes: u32,
    /// Where the weights begin in shared memory.
    pub weights_start: u32,
    /// Tiles of all positions and rows.
    pub jobs: u32,
    /// Blocks of the grid.
    pub blocks: u32,
}

impl Patch {
    /// Input channels of a chunk.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn chunk_channels(&self) -> u32 {
        self.chunk_blocks * super::CHANNELS
    }

    /// The logarithm of the elements of a patch.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn elements(&self) -> u32 {
        let [z, y, x] = self.extents;
        z + y + x
    }
}
