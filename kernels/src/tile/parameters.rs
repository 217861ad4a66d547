//! What the tile kernels are told: extents and strides by value, everything that varies from pass to pass in tables.
//!
//! The tables lie one behind the other in rows of four words: passes, each with its places, then chunks, runs, and
//! stretches of bare rows. What multiplies knows nothing of strides, taps or dilation: the host has resolved all of it
//! into offsets. What stores knows the stride, the lead, and how many phases share the columns.

use bytemuck::{Pod, Zeroable};

use crate::index::Divisor;

/// Taps along the axis of rows that a run may take together, if it takes more than one.
pub const ROW_TAPS: u32 = 3;

/// Neighbouring rows of few output channels that may share the columns: they are joined. Those of the next slot are as
/// many input rows further on.
pub const JOINED_ROWS: u32 = 2;

/// Taps along the axis of rows that a run of joined rows may take together, if it takes more than one: three of each
/// row.
pub const JOINED_ROW_TAPS: u32 = ROW_TAPS + JOINED_ROWS - 1;

/// The most neighbouring taps along x that a run takes.
pub const MOST_NEIGHBOURS: u32 = 3;

/// Which of the neighbouring taps of a run the halves of the slots take, a bit for each: the ways there are. The larger
/// ones come last.
pub const HALVES: [[u32; 2]; 7] =
    [[0b1, 0b1], [0b11, 0b10], [0b01, 0b11], [0b11, 0b11], [0b011, 0b110], [0b111, 0b110], [0b111, 0b111]];

/// One problem cut into tiles. Positions are counted per phase: those of a phase are neighbours, whatever the stride.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Tiling {
    /// Tiles of output channels of a group, as a divisor of the number of a job: the fastest.
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
    /// Lines of a place of a team: the rows of the box that its positions are in.
    pub segments: Divisor,
    /// Lines of an output channel of a team: those of all places of a pass.
    pub lines: Divisor,
    /// Output channels of all tiles of a group: its own, and what fills the last tile.
    pub tiled_channels: Divisor,
    /// Output words from one position of a line to the next: as many as a line has for each, or the stride along x, if
    /// other phases lie between.
    pub line_period: Divisor,
    /// Words of a line for each position: all phases along x, or, if these are in different passes, those of each pass,
    /// if they are neighbours and a power of two, otherwise one.
    pub line_phases: Divisor,
    /// Pieces of the longest line: words, or fours of words.
    pub longest_line: Divisor,
    /// Phases along x that share the columns.
    pub columns_x: Divisor,
    /// Of the computed phases along x, which of a position's words of a line each one is: a byte for each. Of no
    /// meaning if all have taps.
    pub line_words: [u64; 2],
    /// Phases that share the columns of the matrix, a block of eight at a time; 1 if they lie close together.
    pub column_phases: Divisor,
    /// Blocks of columns that are staged for output at a time: a multiple of the phases that share the columns.
    pub slice_blocks: Divisor,
    /// Blocks, as a divisor. Each does one job after the other.
    pub workers: Divisor,
    /// Parts of what is bare of an output channel: as many stretches as lanes of a warp write at a time.
    pub parts_of_plane: Divisor,
    /// Output channels of all groups.
    pub out_channels: Divisor,
    /// Elements of one input channel.
    pub input_plane: u64,
    /// Elements of one output channel.
    pub output_plane: u64,
    /// Elements of one input sample.
    pub input_sample: u64,
    /// Elements of one output sample.
    pub output_sample: u64,
    /// Input channels of all groups.
    pub in_channels: u64,
    /// The position where the first tile begins, outermost axis first.
    pub first: [u32; 3],
    /// Distance between the origins of tiles along samples, z, y, x.
    pub tile: [u32; 4],
    /// Positions of a tile that exist: the product of the box's extents. At most the rows of the matrix product.
    pub positions: u32,
    /// Distance of the box's positions along z: rows that are slots lie between them.
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
    /// Elements before the first one of the output that position 0 begins with, outermost axis first: fewer than the
    /// stride. They are not stored.
    pub lead: [u32; 3],
    /// Input channels of a group, or of a partner's share of it. The last shares of a single group may end beyond it.
    pub in_per_share: u32,
    /// Output channels of a group.
    pub out_per_group: u32,
    /// Words of a staged input row.
    pub pitch: u32,
    /// Words of one staged channel: 8 or 24 modulo 32, so that what the lanes of a warp load falls on different banks.
    pub channel_words: u32,
    /// Groups of words that are copied together: 4 where all input rows are aligned to 16 bytes, otherwise 1.
    pub copy_words: u32,
    /// Copies of a staged channel.
    pub copies: u32,
    /// Output channels of a tile: eight for each block of columns that its phases share. If they lie close together,
    /// columns.
    pub tile_channels: u32,
    /// Columns of each phase if these lie close together: all output channels of a group, one, two or four.
    /// Otherwise 0.
    pub close_channels: u32,
    /// Blocks of eight columns that are used.
    pub used_blocks: u32,
    /// Channels of a stage, a multiple of 8; words that it has of each position.
    pub stage_channels: u32,
    /// Stages: these channels, divided.
    pub stages: u32,
    /// Slabs of the packed weight in a stage, of all passes.
    pub stage_slabs: u32,
    /// Stages of the input that are kept.
    pub input_ring: u32,
    /// Chunks of the weight that are kept.
    pub weight_ring: u32,
    /// Bytes of a staged input.
    pub input_bytes: u32,
    /// Bytes of a staged chunk of the weight.
    pub weight_bytes: u32,
    /// Where in shared memory the offsets of the staged input's elements are, in bytes.
    pub offsets_start: u32,
    /// From the fragments of a slot to those of the next, for the same tap, in the staged input, in bytes.
    pub row_step: u32,
    /// From a block of channels of a run to the next in the staged input, or from one step of its walk to the next, in
    /// bytes.
    pub block_bytes: u32,
    /// Where the staged inputs begin.
    pub input_start: u32,
    /// Where the staged weights begin.
    pub weight_start: u32,
    /// Where the tables of the teams' lines begin.
    pub lines_start: u32,
    /// Tables that a team has, a power of two: one for each pass, or one that passes share.
    pub line_tables: u32,
    /// Where the biases of the teams' channels begin.
    pub bias_start: u32,
    /// Biases that a team has: of all tiles of all groups, or of one tile.
    pub bias_words: u32,
    /// Where the staged outputs of the teams begin.
    pub output_start: u32,
    /// Bytes of a team's staged output.
    pub output_bytes: u32,
    /// Places of a pass: output rows, as a position counts them, or elements of them if phases along x are in different
    /// passes.
    pub places: u32,
    /// Slices of the output, which are staged one after the other.
    pub slices: u32,
    /// Output channels of a slice.
    pub slice_channels: u32,
    /// Phases of columns that lie close together, otherwise 0.
    pub close_phases: u32,
    /// Slots of a row: two if they are halves of its phases along x.
    pub halves: u32,
    /// Staged lines of a row: one for each of the computed phases along z and y, and along x if they are in different
    /// passes.
    pub row_lines: u32,
    /// Words from one output channel of a staged output to the next.
    pub staged_channel_words: u32,
    /// Of the words that a line has for each position, a bit for those that have no taps.
    pub line_gaps: u32,
    /// Lanes that store a line together, a power of two.
    pub line_lanes: u32,
    /// Groups of so many lanes that share the channels of a line, if lines are few; at least one.
    pub line_crews: u32,
    /// Words from where the first lane of a line begins to the end of the longest one, at most.
    pub line_reach: u32,
    /// Slots that a line goes through: all, where what they hold of an output row follow each other, otherwise one.
    pub line_slots: u32,
    /// Positions of other slots that are staged between the rows of the box that a slot has.
    pub staged_between_rows: u32,
    /// Rows with biases before the first word of theirs that is in a line, in the sector that it begins in, and such
    /// with biases behind the last one: a bit for each phase along y. It is so for all rows of the phase but the first
    /// one of a slice, or the last one. Nobody else writes there, unless before the kernel.
    pub margins: [u32; 2],
    /// The word of an output row behind the last one that is in a line.
    pub line_end: u32,
    /// Words of a line that a lane loads before it stores them: 2 to 5, or [`TWO_FOURS`](Self::TWO_FOURS).
    pub line_words_at_once: u32,
    /// A bit for each kind of run that there is, and [`Run::SOME_ODD`] and what follows it. Where this is a constant,
    /// the code for others goes.
    pub run_kinds: u32,
    /// What a lane holds of an output row: [`Tiling::ONE_PHASE`] and what follows it.
    pub held: u32,
    /// If lanes store straight from the product, which they do if the output is aligned, stretches of 16 words that
    /// follow each other in a row and are passed on: those of so many warps of a team, a power of two, in one slot, or in
    /// all if slots lie side by side. One, if each of them is whole sectors, or is not passed on. 0 if lanes do not store
    /// straight from the product.
    pub direct_words: u32,
    /// Words from one row to the next in a staged output channel.
    pub row_words: u32,
    /// Rows of a pass in the table.
    pub pass_rows: u32,
    /// The first row of the table of chunks.
    pub first_chunk_row: u32,
    /// The first row of the table of runs.
    pub first_run_row: u32,
    /// Passes over tiles of positions and output channels.
    pub jobs: u32,
    /// Jobs of a block, at most.
    pub rounds: u32,
    /// By how many places blocks change from one round of jobs to the next.
    pub turn: u32,
    /// Words of a row that boxes of the output have, 16 or 32, for compute capability 9.0; 0 if it is not stored in
    /// boxes.
    pub boxed_words: u32,
    /// Bytes of the box that the input's map describes, for compute capability 9.0; 0 if there is none.
    pub box_bytes: u32,
    /// Axes that boxes of the input take together with x, as one stretch of words: none, y, or y and z.
    pub merged_axes: u32,
    /// Neighbouring blocks that divide the input channels of a group among them, a power of two; 1 if blocks do their
    /// jobs alone.
    pub partners: u32,
    /// Where partners leave their products in shared memory, in bytes.
    pub products_start: u32,
    /// Rows of the table.
    pub table_rows: u32,
    /// Words before the first element of a packed input: its header, which begins with the exponents of the samples.
    /// Otherwise 0.
    pub input_header: u32,
    /// Stretches of an output channel that producers write: 0 if they are written before, or there are none.
    pub bare_stretches: u32,
    /// The first row of the table of stretches.
    pub first_stretch_row: u32,
    /// Parts of all output channels of all samples: see `parts_of_plane`.
    pub bare_parts: u32,
    /// Lanes of a warp that write them: a power of two.
    pub bare_lanes: u32,
    /// Where in shared memory its biases are, in bytes.
    pub bare_start: u32,
    /// Whether the grid waits for the one before it, beside which it may begin: for what that packs.
    pub awaits: u32,
    /// After how many stages partial sums move on, counted from the last one: a power of two.
    pub promotion_stages: u32,
    /// From the first eight words of a fragment of 16 to the others, in bytes: they are those of the next channels, or
    /// of another tap.
    pub second_half: u32,
    /// Whether one team stores after the other.
    pub in_turn: u32,
    /// Whether lines are short: lanes of a team take pieces side by side, whatever line they are of.
    pub short_lines: u32,
    /// Jobs of a pass, if passes are apart: all of them are done before those of the next pass. Otherwise one. Kernels
    /// for any layer never keep passes apart, for want of registers.
    pub pass_jobs: Divisor,
}

impl Tiling {
    /// Twice four words side by side: of lines that begin and end at multiples of four, where they are staged and in an
    /// output that is aligned to 16 bytes.
    pub const TWO_FOURS: u32 = 8;

    /// Two words, and between them those of other phases.
    pub const ONE_PHASE: u32 = 0;

    /// Two words side by side: the two positions that a lane has.
    pub const PAIRS: u32 = 1;

    /// Four words side by side: two phases of either position, which are neighbours in the columns.
    pub const QUADS: u32 = 2;

    /// Four words side by side: two phases of either position, which are those of an even slot and of the odd one that
    /// follows.
    pub const QUADS_OF_HALVES: u32 = 3;

    /// Four words side by side of either position: phases that are neighbours in the columns.
    pub const FOURS: u32 = 4;

    /// Four words side by side of either position: two phases that are neighbours in the columns, of an even slot, then
    /// of the odd one that follows.
    pub const FOURS_OF_HALVES: u32 = 5;

    /// Output channels of one of the slices that are staged one after the other.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn channels_of_slice(&self, slice: u32) -> u32 {
        self.slice_channels.min(self.tile_channels - slice * self.slice_channels)
    }
}

/// What a block does for the positions of its tile: some phases. In the table, its places follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Pass {
    /// The input position that the first staged element of a tile at the origin has, outermost first.
    pub origin: [i32; 3],
    /// Chunks of a stage.
    pub chunks: u32,
    /// The first chunk.
    pub first_chunk: u32,
    /// The first run. Runs of a pass follow one another.
    pub first_run: u32,
    /// The first slab within the slabs of a stage.
    pub first_slab: u32,
    /// Slabs of the first chunk, which can be fetched before its entry has been.
    pub first_slabs: u32,
}

/// What a pass writes for each row of positions: neighbouring output elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct OutputPlace {
    /// Where the first one lies for position 0, outermost first.
    pub origin: [u32; 3],
    /// Where its values are staged, in words. Or [`OutputPlace::BIAS`], or [`OutputPlace::NONE`].
    pub source: u32,
}

impl OutputPlace {
    /// The elements have no taps: their value is the bias.
    pub const BIAS: u32 = u32::MAX - 1;

    /// There are no such elements.
    pub const NONE: u32 = u32::MAX;
}

/// Runs whose weights are staged together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Chunk {
    /// The first slab within the slabs of the pass.
    pub first_slab: u32,
    /// Number of slabs.
    pub slabs: u32,
    /// Zero.
    pub padding: [u32; 2],
}

/// What lies of an output channel between lines, or beside the first or the last one: no tap reaches it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Stretch {
    /// Its first word.
    pub first: u32,
    /// The word behind its last one.
    pub end: u32,
    /// [`Stretch::BEGINS_WITH_LINE`] and what follows it.
    pub flags: u32,
    /// Zero.
    pub padding: u32,
}

impl Stretch {
    /// The line before it writes all of the sector that it ends in.
    pub const BEGINS_WITH_LINE: u32 = 1;

    /// It has all of the sector that it begins in.
    pub const BEGINS_WITH_SECTOR: u32 = 2;

    /// The line or stretch behind it has all of the sector that it begins in.
    pub const ENDS_WITH_OTHER: u32 = 4;
}

/// What is multiplied in a row. Slots are neighbouring rows of the output.
///
/// Of each input row, the fragments of up to [`MOST_NEIGHBOURS`] neighbouring taps along x are loaded together. Those
/// of row `u` are multiplied by one or [`ROW_TAPS`] taps along the axis of rows: by tap `j` for slot `u - j`. Slabs are
/// ordered by block of channels, then by tap along x, then by tap along the axis of rows.
///
/// If rows are joined, a slot has [`JOINED_ROWS`] of them, and the taps of both, by zero where one has none: one, or
/// [`JOINED_ROW_TAPS`]. Then row `u` is multiplied by tap `j` for the slot to which row `u - j` is the first one.
///
/// A run may *walk*, if a stage has one block of channels: it takes as many taps again, at the same distance from the
/// first ones everywhere, in place of those of the next block.
///
/// If slots are halved, even ones are the first half of the phases along x, odd ones the other half of the same row.
/// There is one tap along the axis of rows then, and each half has slabs of its own for those of the neighbouring taps
/// that it takes: see [`HALVES`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Run {
    /// Where the first fragment begins in the staged input, in bytes.
    pub offset: u32,
    /// Where the first slab begins in the staged weights, in units of 16 bytes.
    pub first_slab: u32,
    /// How many taps it takes together, and for which slots: [`Run::whole`] or [`Run::halved`].
    pub kind: u16,
    /// Blocks of eight channels, at least one: neighbours in the staged input, with slabs that follow each other. Where
    /// a stage has one block, steps of a walk in place of them.
    pub blocks: u16,
    /// [`Run::ALIGNED`] and what follows it.
    pub flags: u32,
}

impl Run {
    /// A lane's two positions are neighbours, the first one at an even word.
    pub const ALIGNED: u32 = 1;

    /// The last run of a chunk.
    pub const ENDS_CHUNK: u32 = 2;

    /// The last run of a stage.
    pub const ENDS_STAGE: u32 = 4;

    /// After this run, the last one of a chunk, the partial sums are moved out of the tensor cores; after the last one
    /// of a stage not each time: see [`Tiling::promotion_stages`].
    pub const PROMOTES: u32 = 8;

    /// In the kinds of runs that there are: some have an odd number of blocks.
    pub const SOME_ODD: u32 = 1 << 29;

    /// Some are aligned.
    pub const SOME_ALIGNED: u32 = 1 << 30;

    /// Some are not.
    pub const SOME_UNALIGNED: u32 = 1 << 31;

    /// The kind of a run of so many neighbouring taps along x, 1 to [`MOST_NEIGHBOURS`], times so many along the axis
    /// of rows, 1, [`ROW_TAPS`], or [`JOINED_ROW_TAPS`] if rows are joined.
    #[cfg_attr(gpu, inline(always))]
    pub const fn whole(neighbours: u16, taps: u16) -> u16 {
        8 + taps * 4 + neighbours
    }

    /// The kind of a run whose slots are halved, in the way that is number `way` of [`HALVES`].
    pub const fn halved(way: u16) -> u16 {
        way + 1
    }
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
    /// Phases that share the columns of a tile.
    pub column_phases: Divisor,
    /// Input channels of all groups.
    pub in_channels: u64,
    /// Columns of each phase if these lie close together, otherwise 0.
    pub close_channels: u32,
    /// How far the two input channels of a word are apart, a power of two; eight, if a word has one.
    pub pair_distance: u32,
    /// Input channels of a group, or of a partner's share of it. The last shares of a single group may end beyond it.
    pub in_per_share: u32,
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

/// How a weight is packed in portions, each of which a block reads as it lies. A portion is what a stage has of some
/// output channels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Portions {
    /// Kernel elements.
    pub taps: Divisor,
    /// Portions of a stage.
    pub of_stage: Divisor,
    /// Blocks of eight columns that a portion has of a slab: those of all phases.
    pub column_blocks: Divisor,
    /// Output channels, a multiple of eight; 0 if there are no portions: then each thread packs a word for itself.
    pub out_channels: u32,
    /// Words from one input channel to the next in shared memory, a multiple of four.
    pub row_words: u32,
}

impl Portions {
    /// Words between output channels of so many kernel elements in shared memory. Of eight output channels, those of an
    /// even number of fours would otherwise lie on half of the banks or fewer.
    #[cfg_attr(gpu, inline(always))]
    #[must_use]
    pub const fn padding(taps: u32) -> u32 {
        if taps.is_multiple_of(8) { 4 } else { 0 }
    }
}

/// Which weights a slab holds, for one of the phases that share its columns: a block of input channels times output
/// channels of the tile. One of 16 channels has two halves: they follow each other, or are the same eight channels for
/// two kernel elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Slab {
    /// The kernel element of either half, or [`Slab::NO_TAP`].
    pub taps: [u32; 2],
    /// The first input channel of either half within its stage.
    pub channels: [u32; 2],
}

impl Slab {
    /// The phase has no tap here: the weights are zero.
    pub const NO_TAP: u32 = u32::MAX;
}
