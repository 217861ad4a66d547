//! What the tile kernels are told: extents and strides by value, everything that varies from pass to pass in tables.
//!
//! The tables lie one behind the other in rows of four words: passes, then chunks, then runs. The kernels know nothing of taps,
//! strides, dilation or phases: the host has resolved all of it into offsets.

use bytemuck::{Pod, Zeroable};

use crate::index::Divisor;

/// The most accumulator slots of a kernel.
pub const MOST_SLOTS: usize = 8;

/// The most taps of a dense run.
pub const MOST_TAPS: u32 = 3;

/// One problem cut into tiles. Positions are counted per phase: those of a phase are neighbours, whatever the stride.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Tiling {
    /// Tiles of output channels of a group, as a divisor of the block index: the fastest.
    pub channel_tiles: Divisor,
    /// Passes, the next fastest.
    pub passes: Divisor,
    /// Groups.
    pub groups: Divisor,
    /// Tiles of positions along x.
    pub tiles_x: Divisor,
    /// Tiles of positions along y.
    pub tiles_y: Divisor,
    /// Tiles of positions along z. The rest are tiles of samples.
    pub tiles_z: Divisor,
    /// Positions of a tile along x, y, z as the rows of the matrix product take them.
    pub box_x: Divisor,
    /// Along y.
    pub box_y: Divisor,
    /// Along z.
    pub box_z: Divisor,
    /// Words, or groups of four words, of a staged input row.
    pub halo_x: Divisor,
    /// Staged input rows of a slice.
    pub halo_y: Divisor,
    /// Staged input slices of a sample.
    pub halo_z: Divisor,
    /// Slots that are neighbours in an output row.
    pub interleaved: Divisor,
    /// Blocks, as a divisor. Each does one job after the other.
    pub workers: Divisor,
    /// Elements of one input channel.
    pub input_plane: u64,
    /// Elements of one output channel.
    pub output_plane: u64,
    /// Elements of one input sample.
    pub input_sample: u64,
    /// Elements of one output sample.
    pub output_sample: u64,
    /// Distance between the origins of tiles along samples, z, y, x.
    pub tile: [u32; 4],
    /// Positions of a tile that exist: the product of the box's extents. At most the rows of the matrix product.
    pub positions: u32,
    /// Distance of the box's positions along z: interleaved slots lie between them.
    pub step_z: u32,
    /// Distance of the box's positions along y.
    pub step_y: u32,
    /// Samples.
    pub batch: u32,
    /// Extents of the input, outermost first.
    pub input: [u32; 3],
    /// Extents of the output.
    pub output: [u32; 3],
    /// Strides.
    pub stride: [u32; 3],
    /// Input channels of a group.
    pub in_per_group: u32,
    /// Output channels of a group.
    pub out_per_group: u32,
    /// Words of a staged input row.
    pub pitch: u32,
    /// Words of one staged channel: 8 or 24 modulo 32, so that four channels times eight positions fall on different banks.
    pub channel_words: u32,
    /// Groups of words that are copied together: 4 where all input rows are aligned to 16 bytes, otherwise 1.
    pub copy_words: u32,
    /// Copies of a staged channel.
    pub copies: u32,
    /// Output channels of a tile.
    pub tile_channels: u32,
    /// Channels of a stage, a multiple of 8.
    pub stage_channels: u32,
    /// Stages: the input channels of a group, divided.
    pub stages: u32,
    /// Slabs of the packed weight in a stage, of all passes.
    pub stage_slabs: u32,
    /// Stages of the input that are kept.
    pub input_ring: u32,
    /// Bytes of a staged input.
    pub input_bytes: u32,
    /// Bytes of a staged chunk of the weight.
    pub weight_bytes: u32,
    /// Where in shared memory the staged inputs begin, in bytes.
    pub input_start: u32,
    /// Where the staged weights begin.
    pub weight_start: u32,
    /// Where the staged output begins.
    pub output_start: u32,
    /// The first row of the table of chunks.
    pub first_chunk_row: u32,
    /// The first row of the table of runs.
    pub first_run_row: u32,
    /// Passes over tiles of positions and output channels.
    pub jobs: u32,
}

/// What a block does for the positions of its tile: some phases.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Pass {
    /// The input position that the first staged element of a tile at the origin has, outermost first.
    pub origin: [i32; 3],
    /// Chunks of a stage.
    pub chunks: u32,
    /// The first chunk.
    pub first_chunk: u32,
    /// The first slab within the slabs of a stage.
    pub first_slab: u32,
    /// Zero.
    pub padding: [u32; 2],
    /// For each slot: the output position of position 0, outermost first, and whether it is used.
    pub slots: [[u32; 4]; MOST_SLOTS],
}

/// Runs whose weights are staged together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Chunk {
    /// The first run.
    pub first_run: u32,
    /// Number of runs.
    pub runs: u32,
    /// The first slab within the slabs of the pass.
    pub first_slab: u32,
    /// Number of slabs, and [`Chunk::PROMOTE`].
    pub slabs: u32,
}

impl Chunk {
    /// Added to the number of slabs: after this chunk the partial sums are moved out of the tensor cores.
    pub const PROMOTE: u32 = 1 << 31;
}

/// Steps in equal distances. There are two kinds.
///
/// In a *dense* run, slots are neighbouring rows. A step takes as many fragments as there are slots and taps, less one, each a row
/// further on; fragment `u` is multiplied by tap `j` for slot `u - j`. The slabs of the taps follow one another.
///
/// In a *sparse* run, a step takes one fragment, and which slots it contributes to by which slab is listed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Run {
    /// Where the first fragment begins in the staged input, in bytes.
    pub offset: u32,
    /// From one step to the next, in bytes.
    pub offset_step: i32,
    /// Number of steps.
    pub steps: u32,
    /// From the slabs of a step to those of the next, in units of 16 bytes.
    pub slab_step: i32,
    /// Taps of a dense run, 1 to [`MOST_TAPS`]; 0 for a sparse run.
    pub taps: u32,
    /// In a dense run, from one fragment of a step to the next, in bytes.
    pub row_step: u32,
    /// In a dense run, where the first slab begins in the staged weights, in units of 16 bytes.
    pub first_slab: u32,
    /// Zero.
    pub padding: u32,
    /// In a sparse run, for each slot where its first slab begins in the staged weights, in units of 16 bytes; [`Run::NO_SLAB`] if the
    /// fragments do not contribute to it.
    pub slabs: [u16; MOST_SLOTS],
}

impl Run {
    /// Marks a slot that gets nothing.
    pub const NO_SLAB: u16 = u16::MAX;
}

/// Rows of a table entry.
pub(super) const fn rows<T>() -> u32 {
    (size_of::<T>() / 16) as u32
}

/// How the weight is packed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Packing {
    /// Slabs of a stage.
    pub stage_slabs: Divisor,
    /// Stages.
    pub stages: Divisor,
    /// Tiles of output channels of a group.
    pub channel_tiles: Divisor,
    /// Words of a slab: eight input channels by the output channels of a tile.
    pub slab_words: Divisor,
    /// Input channels of a group.
    pub in_per_group: u32,
    /// Output channels of a group.
    pub out_per_group: u32,
    /// Channels of a stage.
    pub stage_channels: u32,
    /// Kernel elements.
    pub taps: u32,
    /// Output channels of a tile.
    pub tile_channels: u32,
    /// Words of all slabs together, below 2^31.
    pub words: u32,
}

/// Which weights a slab holds: eight input channels times the output channels of a tile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Slab {
    /// The kernel element.
    pub tap: u32,
    /// The first input channel within its stage.
    pub channel: u32,
    /// Zero.
    pub padding: [u32; 2],
}
