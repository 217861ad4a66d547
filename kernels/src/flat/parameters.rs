//! What the host tells the flat kernels: how positions lie, what a tile has of them, and what is staged and multiplied.

use bytemuck::{Pod, Zeroable};

use crate::index::Divisor;

/// A layer, and how its tiles are computed.
///
/// The positions of a sample are numbered along a *flat axis*: row by row, each as long as output and input need it,
/// slice by slice. A position may stand for some neighbours along an axis, one for each *residue*:
/// `coordinate = position * residues + residue`. There are two residues along x or one, and some along one of the other
/// axes; those along x are counted first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Flat {
    /// Positions of a row.
    pub row: Divisor,
    /// Rows of a slice.
    pub slice: Divisor,
    /// Tiles of positions of a sample.
    pub tiles: Divisor,
    /// Tiles of output channels of a group.
    pub channel_tiles: Divisor,
    /// Groups.
    pub groups: Divisor,
    /// Positions of a staged stretch.
    pub stretch: Divisor,
    /// Output extents.
    pub output: [u32; 3],
    /// Residues along each axis: those along one of the two outer ones are 1, or along both.
    pub residues: [u32; 3],
    /// From one residue along an outer axis to the next in the output, in elements.
    pub residue_step: u32,
    /// Positions of a packed plane: of one residue of eight channels.
    pub plane: u32,
    /// Words before the packed input: its header, which begins with the exponents of the samples.
    pub input_header: u32,
    /// Elements of an output channel.
    pub output_plane: u32,
    /// Output channels of a group.
    pub out_per_group: u32,
    /// Tiles of all samples, groups and output channels.
    pub jobs: u32,
    /// The logarithm of how many residues share the rows of a product, those along x among them: they are *joined*.
    pub joined: u32,
    /// Output channels of a tile, a multiple of 8.
    pub tile_channels: u32,
    /// Positions of a tile.
    pub tile_positions: u32,
    /// Whether teams divide the channels of a tile, and not its positions.
    pub divides_channels: u32,
    /// Whether, where they do not, the positions of the second team are the same ones of further residues, and not those
    /// behind the first team's.
    pub divides_residues: u32,
    /// Blocks of 16 input channels.
    pub channel_blocks: u32,
    /// Parts of a block of channels, which are staged one after the other.
    pub parts: u32,
    /// Slabs of the packed weight of a block of channels.
    pub slabs: u32,
    /// Bytes of a slab, of the large parts and of the small ones.
    pub slab_bytes: u32,
    /// From one tap of a run to the next, in positions.
    pub tap_step: u32,
    /// Stages that are kept in shared memory.
    pub ring: u32,
    /// Bytes of a plane of a staged input: of eight channels.
    pub plane_bytes: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Where the weights begin in it.
    pub weight_start: u32,
    /// Where the stages begin in shared memory.
    pub stages_start: u32,
    /// Rows of the table.
    pub table_rows: u32,
    /// The first row of the table of runs.
    pub first_run_row: u32,
    /// Blocks of the grid.
    pub blocks: u32,
}

/// How the input is packed: as positions of [`Flat`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FlatPacking {
    /// Positions of a row.
    pub row: Divisor,
    /// Rows of a slice.
    pub slice: Divisor,
    /// Positions of the planes of both residues along x, or of the only one.
    pub planes: Divisor,
    /// Residues along the outer axes.
    pub outer_residues: Divisor,
    /// Blocks of eight channels of a group, an even number.
    pub channel_blocks: Divisor,
    /// Blocks of threads for each sample.
    pub blocks: Divisor,
    /// Elements of an input sample.
    pub sample: u64,
    /// Input extents, outermost first.
    pub input: [u32; 3],
    /// Where the input begins in coordinates of positions: those before are zero.
    pub begin: [u32; 3],
    /// Residues along each axis, as in [`Flat`].
    pub residues: [u32; 3],
    /// Elements of an input channel.
    pub input_plane: u32,
    /// Input channels of a group.
    pub in_per_group: u32,
    /// Samples.
    pub batch: u32,
    /// Packed positions of a sample, of all channels and residues, below 2^31; if values are split, those of large
    /// parts.
    pub positions: u32,
    /// Those that a block packs, a multiple of the number of its threads.
    pub positions_of_block: u32,
    /// Words of the header, a multiple of four.
    pub header: u32,
    /// Positions of a plane.
    pub plane: u32,
}

/// What is staged together of a block of 16 input channels, and multiplied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Part {
    /// The first stretch.
    pub first_stretch: u32,
    /// Stretches.
    pub stretches: u32,
    /// The first run.
    pub first_run: u32,
    /// Runs.
    pub runs: u32,
    /// The first slab within those of the block of channels.
    pub first_slab: u32,
    /// Slabs: the taps of all runs.
    pub slabs: u32,
    /// Zero.
    pub padding: [u32; 2],
}

/// Neighbouring positions of the input, all of one residue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Stretch {
    /// From the first position of a tile to the first one of the stretch.
    pub shift: u32,
    /// The residue.
    pub residue: u32,
    /// Zero.
    pub padding: [u32; 2],
}

/// Taps along a row, of which neighbours read neighbouring positions, or those `tap_step` apart.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Run {
    /// Where the positions that the first tap multiplies begin in the staged input, for the first team.
    pub place: u32,
    /// Taps: one slab each.
    pub taps: u32,
    /// Zero.
    pub padding: [u32; 2],
}

/// Rows of the table that an entry takes.
pub const fn rows<T>() -> u32 {
    (size_of::<T>() / 16) as u32
}
