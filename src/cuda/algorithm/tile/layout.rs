//! A cut: how a problem is divided into tiles, and what follows from that for shared memory and the grid.

use std::{cmp::Reverse, collections::BTreeSet, fmt, sync::Arc};

use conv_transpose_kernels::tile::{self, Variant};

use super::{
    groups::Group,
    input::Input,
    lines::{are_whole_rows, line_phases},
    regions::Region,
};
use crate::{Axis, Phase, Problem, cuda::tensor_map::Boxes, geometry::gcd};

/// Parts of shared memory begin at multiples of this many bytes.
const ALIGN: u32 = 128;

/// A chunk of weights ends where another run would exceed this many bytes.
const CHUNK_BYTES: u32 = 24 << 10;

/// A chunk of `f16` weights has room for at least that many slabs: those of two blocks of channels with two taps in
/// either half. A run of one block has one batch, and the next is made when that is complete.
const LEAST_SLABS_OF_F16: u32 = 8;

/// The most bytes of weights of a run.
const RUN_BYTES: u32 = 36 << 10;

/// The same on ordinary cores: GPUs without others have 64 KiB of shared memory, and taps take longer.
const ORDINARY_CHUNK_BYTES: u32 = 8 << 10;

/// The most bytes of weights of a run there.
const ORDINARY_RUN_BYTES: u32 = 12 << 10;

/// In single precision, partial sums are moved out of the tensor cores after at most that many products of eight
/// channels, or of 16 as `f16`, where runs allow it. The error of the sums grows with their number.
const PROMOTE_AFTER: u32 = 16;

/// Staged boxes of the output begin at multiples of this many bytes: units are exchanged with each other within so
/// many.
const BOXES_ALIGN: u32 = 1024;

/// The fewest elements of an output that is large: about as many as the L2 cache of an H200 holds.
const LARGE_OUTPUT: usize = 12 << 20;

/// The most elements of an input, and of an output, that the L2 cache of an H200 keeps while a layer is computed.
const MOST_KEPT: usize = 6 << 20;

/// The fewest output channels of a tile that are stored in boxes.
const LEAST_BOXED_CHANNELS: u32 = 16;

/// The most bytes of a team's output that are staged in boxes.
const MOST_BOXED_BYTES: u32 = 32 << 10;

/// The most passes of which a team keeps the lines of each.
const MOST_LINE_TABLES: usize = 8;

/// The most biases that a team has besides those of a tile.
const MOST_BIASES: u32 = 1024;

/// Words of rows that are too short to be copied in boxes, if there is more of them: the hardware fetches whole lines
/// of the cache for each.
const NARROW: u32 = 8;

/// The choices that are open when a problem is divided into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The kernel: columns of a tile, slots, precision.
    pub(super) variant: &'static Variant,
    /// Phases with taps that share the columns: along z, y and x.
    pub(super) phases: [u32; 3],
    /// Halves of the phases along x that have slots of their own: two, or one if they have not. The columns are those
    /// of a half.
    pub(super) halves: u32,
    /// Whether phases lie close together in the columns: each has one, two or four, for all of a group's output
    /// channels.
    pub(super) close: bool,
    /// The axis along which slots are neighbours.
    pub(super) row_axis: usize,
    /// Whether slots are boxes one behind the other along that axis, as they always are along x, so that an input row
    /// serves several slots where taps are as far apart as a box is long. Otherwise they are neighbouring rows.
    pub(super) one_behind_the_other: bool,
    /// The axis, z or y, along which runs take two taps of eight channels in place of 16 channels of one, if they do:
    /// where groups have so few.
    pub(super) taps_paired_along: Option<usize>,
    /// Neighbouring positions along that axis, z or y, whose rows share the columns as phases do, for few output
    /// channels: one, or more.
    pub(super) joined_rows: u32,
    /// Positions of the tile for each slot: samples, z, y, x.
    pub(super) extents: [u32; 4],
    /// Blocks of channels of a stage: eight channels each, or 16 as `f16`.
    pub(super) stage_blocks: u32,
    /// Blocks that divide a group's input channels among them.
    pub(super) partners: u32,
    /// Whether the device has compute capability 9.0, and can copy boxes: see [`Target::large_tiles`].
    pub(super) large_tiles: bool,
}

/// The groups of each axis.
pub(super) type AxisGroups = [Arc<Vec<Group>>; 3];

/// What follows from a cut.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) cut: Cut,
    /// What it reads.
    pub(super) input: Input,
    /// The positions that are computed.
    pub(super) region: Region,
    /// The phases of each axis.
    pub(super) phases: Arc<[Vec<Phase>; 3]>,
    /// The axes, outermost first.
    pub(super) axes: [Axis; 3],
    pub(super) groups: AxisGroups,
    /// Distance between the origins of tiles: samples, z, y, x.
    pub(super) tile: [u32; 4],
    /// Tiles along samples, z, y, x.
    pub(super) tiles: [u32; 4],
    /// Staged extents: z, y, x.
    pub(super) halo: [u32; 3],
    /// Words of a staged row.
    pub(super) pitch: u32,
    /// Words of a staged channel.
    pub(super) channel_words: u32,
    /// Words that are copied at once.
    pub(super) copy_words: u32,
    /// Whether the input is copied in boxes: a stage at once.
    pub(super) in_boxes: bool,
    /// Axes that boxes take together with x, as one stretch of words: none, y, or y and z.
    pub(super) merged_axes: u32,
    /// Output channels of a tile; columns, if phases lie close together.
    pub(super) tile_channels: u32,
    /// Output channels of a group.
    pub(super) out_channels: u32,
    /// Groups.
    pub(super) channel_groups: u32,
    /// Tiles of output channels.
    pub(super) channel_tiles: u32,
    /// Stages of input channels.
    pub(super) stages: u32,
    /// Words that a line has for each position: all phases along x, or one if they are in different passes.
    pub(super) line_phases: u32,
    /// Slots that a line goes through: all of a team's where what they hold of an output row follow each other,
    /// otherwise one.
    pub(super) line_slots: u32,
    /// What a pass writes for each row of positions: output rows, or elements of them if phases along x are in
    /// different passes.
    pub(super) places: u32,
    /// Elements of the output.
    pub(super) outputs: usize,
    /// Whether producers write the rows that no tap reaches.
    pub(super) writes_bare_rows: bool,
}

/// Rings and places in shared memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) input_ring: u32,
    pub(super) weight_ring: u32,
    pub(super) offsets_start: u32,
    pub(super) input_start: u32,
    pub(super) input_bytes: u32,
    pub(super) weight_start: u32,
    pub(super) lines_start: u32,
    /// Tables of lines of a team.
    pub(super) line_tables: u32,
    pub(super) bias_start: u32,
    /// Biases of a team.
    pub(super) bias_words: u32,
    pub(super) output_start: u32,
    /// Of a team.
    pub(super) output_bytes: u32,
    /// Whether it is for boxes.
    pub(super) boxed: bool,
    /// Where partners leave their products.
    pub(super) products_start: u32,
    /// Where the biases of those are that write bare rows.
    pub(super) bare_start: u32,
    pub(super) total: u32,
}

/// What a team keeps of what it has found for its jobs.
#[derive(Clone, Copy)]
struct Found {
    /// Tables of lines, a power of two: one for each pass, or one.
    line_tables: u32,
    /// Biases: all, or those of a tile.
    bias_words: u32,
}

impl Cut {
    /// Input channels that are multiplied together.
    pub(super) fn block_channels(&self) -> u32 {
        if self.variant.f16 && self.taps_paired_along.is_none() { 16 } else { 8 }
    }

    /// Staged words that these are for each position.
    pub(super) fn block_words(&self) -> u32 {
        if self.taps_paired_along.is_some() { 8 } else { self.fragment_words() }
    }

    /// Words of a fragment, of one position, or of two if taps are paired.
    pub(super) fn fragment_words(&self) -> u32 {
        if self.variant.teams_convert || self.variant.splits_to_f16() { 16 } else { 8 }
    }

    /// How far the two input channels of a word of the packed weight are apart; eight, if a word has one.
    pub(super) fn pair_distance(&self) -> u32 {
        match (self.variant.f16, self.variant.teams_convert) {
            (false, _) => 8,
            (true, false) => 1,
            (true, true) => 4,
        }
    }

    /// Input channels of a stage.
    pub(super) fn stage_channels(&self) -> u32 {
        self.block_channels() * self.stage_blocks
    }

    /// Words that a stage has of each position.
    pub(super) fn stage_words(&self) -> u32 {
        self.block_words() * self.stage_blocks
    }

    /// Phases that share the columns.
    pub(super) fn column_phases(&self) -> u32 {
        self.phases.iter().product()
    }

    /// Phases along each axis that a pass computes.
    pub(super) fn computed_phases(&self) -> [u32; 3] {
        let [z, y, x] = self.phases;
        [z, y, x * self.halves]
    }

    /// Rows of the output, or joined ones, each of which has a slot, or one for either half of the phases.
    pub(super) fn rows(&self) -> u32 {
        self.variant.slots / self.halves
    }

    /// How many positions along an axis lie between neighbouring ones of the box.
    pub(super) fn step(&self, axis: usize) -> u32 {
        if axis == self.row_axis && !self.one_behind_the_other { self.rows() * self.joined_rows } else { 1 }
    }

    /// How many positions along their axis lie between the rows of one slot and those of the next.
    pub(super) fn row_distance(&self) -> u32 {
        if self.one_behind_the_other { self.extents[self.row_axis + 1] } else { self.joined_rows }
    }

    /// Whether slots are boxes one behind the other that could be neighbouring rows.
    pub(super) fn has_rows_apart(&self) -> bool {
        self.one_behind_the_other && self.row_axis < 2
    }

    /// Whether what a team has of a row of the box lies side by side in all slots: those are neighbours along x, and
    /// the team has whole rows of the box.
    pub(super) fn has_slots_side_by_side(&self) -> bool {
        let x = self.extents[3];
        self.row_axis == 2 && self.rows() > 1 && x.is_multiple_of(tile::WARP_ROWS) && tile::TEAM_ROWS.is_multiple_of(x)
    }

    /// How many positions taps along the axis of rows lie apart that a run takes together.
    pub(super) fn distance_of_row_taps(&self) -> u32 {
        self.row_distance() / self.joined_rows
    }

    /// How often the warps of a block access shared memory to load a pair of words per lane from a staged input of some
    /// extents, z, y and x, whose channels are so many words apart, modulo 32. Twice each, if all lanes that are served
    /// together find their words on different banks.
    pub(super) fn load_wavefronts(&self, [halo_z, halo_y, pitch]: [u32; 3], channel_words: u32) -> u32 {
        const SERVED_TOGETHER: u32 = 4;
        let [_, box_z, box_y, box_x] = self.extents;
        let pair = |number: u32| {
            let row = if 2 * number < self.extents.iter().product() { 2 * number } else { 0 };
            let (line, x) = (row / box_x, row % box_x);
            let (slice, y) = (line / box_y, line % box_y);
            let (n, z) = (slice / box_z, slice % box_z);
            let slice = n * halo_z + z * self.step(0);
            ((slice * halo_y + y * self.step(1)) * pitch + x) / 2
        };
        let wavefronts = |first: u32| {
            // Lanes that load the same words are one.
            let pairs: BTreeSet<u32> = (first..first + SERVED_TOGETHER).map(pair).collect();
            let mut banks = [0; 16];
            for channel in 0..4 {
                pairs.iter().for_each(|pair| banks[((pair + channel * channel_words / 2) % 16) as usize] += 1);
            }
            banks.into_iter().max().unwrap_or(1)
        };
        (0..tile::ROWS / 2).step_by(SERVED_TOGETHER as usize).map(wavefronts).sum()
    }

    /// Whether partners have whole blocks of a group's input channels, as many each.
    pub(super) fn has_even_shares(&self, problem: &Problem<3>) -> bool {
        let blocks_of_all = self.block_channels() as usize * self.partners as usize;
        self.partners == 1 || problem.in_channels_per_group().is_multiple_of(blocks_of_all)
    }

    /// Input channels that a block sums over: those of a group, or a share of them. If shares are not even, they are
    /// whole stages, and what the last ones have beyond the group is zero.
    pub(super) fn in_channels(&self, problem: &Problem<3>) -> usize {
        let share = problem.in_channels_per_group().div_ceil(self.partners as usize);
        if self.has_even_shares(problem) { share } else { share.next_multiple_of(self.stage_channels() as usize) }
    }

    /// Words of each position that these are in an input.
    pub(super) fn in_words(&self, input: &Input, problem: &Problem<3>) -> usize {
        let blocks = || self.in_channels(problem) / self.block_channels() as usize;
        if self.partners == 1 { input.channels } else { blocks() * self.block_words() as usize }
    }

    /// How many positions of an axis a tile covers.
    pub(super) fn reach(&self, axis: usize) -> u32 {
        self.extents[axis + 1] * if axis == self.row_axis { self.rows() * self.joined_rows } else { 1 }
    }
}

impl Layout {
    /// The layout of a cut of a region, for the problem's phases, those of joined rows being different ones, and their
    /// groups, which may leave out what is filled first; `None` where tiles would reach into the next region, or counts
    /// overflow.
    pub(super) fn new(
        problem: &Problem<3>,
        phases: &Arc<[Vec<Phase>; 3]>,
        groups: &AxisGroups,
        region: Region,
        cut: Cut,
    ) -> Option<Self> {
        let axes = problem.axes();
        let input = Input::new(problem, cut.variant);
        let width = input.extents[2];
        let reach = [0, 1, 2].map(|axis| cut.reach(axis));
        let tiles = [0, 1, 2].map(|axis| region.extents[axis].div_ceil(reach[axis]));
        // Tiles end where the next region begins: nobody else writes there.
        let ends_within = |axis: usize| region.is_last[axis] || region.extents[axis].is_multiple_of(reach[axis]);
        if !(0..3).all(ends_within) {
            return None;
        }
        let most = |axis: usize, count: &dyn Fn(&Group) -> u64| groups[axis].iter().map(count).max().unwrap_or(1);
        let written = [0, 1, 2].map(|axis| most(axis, &|group| group.written.len() as u64) as u32);
        let wide_copies = width.is_multiple_of(4) && (tiles[2] == 1 || reach[2].is_multiple_of(4));
        let copy_words = if wide_copies { 4 } else { 1 };
        // A row that is copied four words at a time begins up to three words before its first element.
        let before = |group: &Group| group.first.rem_euclid(i64::from(copy_words)) as u64;
        let spans = [most(0, &Group::span), most(1, &Group::span), most(2, &|group| before(group) + group.span())];
        // The last of joined rows is where the first is, and its phases read further on.
        let last = |axis: usize| reach[axis] - if axis == cut.row_axis { cut.joined_rows } else { 1 };
        let halo = [0, 1, 2].map(|axis| (u64::from(last(axis)) + spans[axis]).try_into().ok());
        let [Some(z), Some(y), Some(x)]: [Option<u32>; 3] = halo else { return None };
        // Pairs of words begin at even ones in all rows.
        let pitch = x.checked_next_multiple_of(copy_words.max(2))?;
        let is_narrow = pitch <= NARROW && width > pitch as usize;
        let may_copy_boxes = cut.large_tiles && has_whole_boxes(&input, problem, &cut);
        let can_merge = may_copy_boxes && cut.extents[0] == 1;
        let merged_axes = if can_merge { merged_axes(&input, groups, &region, reach, [z, y, pitch]) } else { 0 };
        let in_boxes = if merged_axes > 0 {
            Some([z, y, pitch])
        } else if may_copy_boxes && wide_copies && !is_narrow {
            box_extents(cut.extents[0], [z, y, pitch])
        } else {
            None
        };
        let [z, y, pitch] = in_boxes.unwrap_or([z, y, pitch]);
        let words = cut.extents[0].checked_mul(z)?.checked_mul(y)?.checked_mul(pitch)?;
        if words > 1 << 16 {
            return None;
        }
        // Of other lines, words that are not stored would not all come first.
        if region.lead[2] > 0 && !are_whole_rows(&groups[2], &phases[2]) {
            return None;
        }
        let line_phases = line_phases(&groups[2], &phases[2], axes[2].stride);
        let out_channels = problem.out_channels_per_group() as u32;
        let tile_channels = if cut.close {
            (cut.column_phases() * out_channels.next_power_of_two()).next_multiple_of(8)
        } else {
            (cut.variant.columns / 8 / cut.column_phases() * 8).min(out_channels.next_multiple_of(8))
        };
        let layout = Self {
            cut,
            input,
            region,
            phases: phases.clone(),
            axes: *axes,
            groups: groups.clone(),
            tile: [cut.extents[0], reach[0], reach[1], reach[2]],
            tiles: [(problem.batch() as u32).div_ceil(cut.extents[0]), tiles[0], tiles[1], tiles[2]],
            halo: [z, y, x],
            pitch,
            channel_words: channel_words(words),
            copy_words,
            in_boxes: in_boxes.is_some(),
            merged_axes,
            tile_channels,
            out_channels,
            channel_groups: problem.groups() as u32,
            channel_tiles: out_channels.div_ceil(tile_channels),
            stages: (cut.in_channels(problem) as u32).div_ceil(cut.stage_channels()),
            line_phases,
            line_slots: 1,
            places: cut.rows() * written[0] * written[1] * written[2] / line_phases,
            outputs: problem.output_shape().len(),
            writes_bare_rows: false,
        };
        let layout = layout.with_long_lines();
        Some(Self { writes_bare_rows: layout.can_write_bare_rows(), ..layout })
    }

    /// With lines that go through all slots of a team, if these lie side by side in the output, and go through shared
    /// memory.
    fn with_long_lines(self) -> Self {
        if !self.cut.has_slots_side_by_side() || !self.has_whole_rows() || self.is_direct() {
            return self;
        }
        let rows = self.cut.rows();
        Self { line_slots: rows, places: self.places / rows, ..self }
    }

    /// The share of the region in all positions.
    pub(super) fn share(&self) -> f64 {
        let along = |axis: usize| f64::from(self.region.extents[axis]) / self.phases[axis][0].positions as f64;
        along(0) * along(1) * along(2)
    }

    /// Number of passes.
    pub(super) fn passes(&self) -> usize {
        self.groups.iter().map(|groups| groups.len()).product()
    }

    /// Whether some phases are in no pass, because the output is filled with the biases first.
    pub(super) fn fills_first(&self) -> bool {
        let written = |axis: usize| self.groups[axis].iter().map(|group| group.written.len()).sum::<usize>();
        (0..3).any(|axis| written(axis) < self.phases[axis].len())
    }

    /// Whether there is something to multiply in every pass.
    pub(super) fn all_passes_have_taps(&self) -> bool {
        self.groups.iter().all(|groups| groups.iter().all(|group| !group.computed.is_empty()))
    }

    /// The numbers of all passes, those with the most taps first.
    pub(super) fn pass_order(&self) -> Vec<usize> {
        let taps = |&number: &usize| self.pass(number).iter().map(|group| group.taps).product();
        let mut order: Vec<usize> = (0..self.passes()).collect();
        order.sort_by_key(|number| Reverse::<usize>(taps(number)));
        order
    }

    /// Whether all jobs of a pass may come before those of the next one, in kernels that are compiled for their layer.
    /// Passes read the same input, and write rows of their own, if each has all phases along x. So the input has to stay
    /// in the L2 cache, and so has the output where rows begin or end within sectors: those that neighbours share would
    /// be written in pieces.
    pub(super) fn may_have_passes_apart(&self) -> bool {
        let width = self.axes[2].output as u32;
        let keeps_output = width.is_multiple_of(tile::SECTOR_WORDS) || self.outputs <= MOST_KEPT;
        let has_rows = self.passes() > 1 && self.groups[2].len() == 1;
        self.cut.large_tiles && has_rows && self.input.len() <= MOST_KEPT && keeps_output
    }

    /// The groups of a pass.
    pub(super) fn pass(&self, number: usize) -> [&Group; 3] {
        let [_, y, x] = self.groups.each_ref().map(|groups| groups.len());
        let numbers = [number / x / y, number / x % y, number % x];
        [0, 1, 2].map(|axis| &self.groups[axis][numbers[axis]])
    }

    /// Blocks of eight columns that are used.
    pub(super) fn used_blocks(&self) -> u32 {
        self.tile_channels / 8 * self.block_phases()
    }

    /// Phases that share the columns a block of eight at a time.
    pub(super) fn block_phases(&self) -> u32 {
        if self.cut.close { 1 } else { self.cut.column_phases() }
    }

    /// Columns of each phase if these lie close together, otherwise 0.
    pub(super) fn close_channels(&self) -> u32 {
        if self.cut.close { self.out_channels.next_power_of_two() } else { 0 }
    }

    /// Output channels that a tile stores.
    pub(super) fn stored_channels(&self) -> u32 {
        if self.cut.close { self.out_channels } else { self.tile_channels }
    }

    /// By how much conflicts over banks of shared memory prolong the loads of fragments: 1 if there are none.
    pub(super) fn load_conflicts(&self) -> f64 {
        let [z, y, _] = self.halo;
        let wavefronts = self.cut.load_wavefronts([z, y, self.pitch], self.channel_words);
        f64::from(wavefronts) / f64::from(tile::ROWS / 8)
    }

    /// Bytes of a stage.
    pub(super) fn stage_bytes(&self) -> u32 {
        4 * self.cut.stage_words() * self.channel_words
    }

    /// What copies take of the input, if they take boxes.
    pub(super) fn input_boxes(&self) -> Option<Boxes> {
        let [z, y, _] = self.halo;
        let (samples, channels) = (self.cut.extents[0], self.cut.stage_words());
        let boxed = match self.merged_axes {
            0 => [self.pitch, y, z, samples, channels],
            _ => [self.channel_words, 1, 1, samples, channels],
        };
        let Input { extents, channels, groups, batch, header, .. } = self.input;
        self.in_boxes.then(|| Boxes::of_input(extents, [batch, channels * groups], header, self.merged_axes, boxed))
    }

    /// What copies bring to the output, if they bring boxes.
    pub(super) fn output_boxes(&self, problem: &Problem<3>) -> Boxes {
        Boxes::of_output(problem, self.boxed_words(), self.tile_channels)
    }

    /// The words that the rows of the box, or what a team has of each, consist of, if the output can be stored in boxes
    /// of them, and that is worth it: of few channels or words it is not, nor if what is staged leaves too little room
    /// for what is multiplied, or if the cache takes the output anyway. Otherwise 0.
    pub(super) fn boxed_words(&self) -> u32 {
        let is_worth_it = self.outputs >= LARGE_OUTPUT
            && self.tile_channels >= LEAST_BOXED_CHANNELS
            && self.boxed_bytes() <= MOST_BOXED_BYTES;
        if !(self.cut.large_tiles && self.has_rows_at_multiples(4) && self.holds_pieces() && is_worth_it) {
            return 0;
        }
        let words = gcd(self.cut.extents[3] as usize, tile::TEAM_ROWS as usize) as u32 * self.line_phases;
        [32, 16].into_iter().find(|&boxed| words.is_multiple_of(boxed)).unwrap_or(0)
    }

    /// Whether what tiles write of each output row begins at multiples of so many words, which it does if the rows do,
    /// and no lead moves it.
    pub(super) fn has_rows_at_multiples(&self, words: usize) -> bool {
        self.axes[2].output.is_multiple_of(words) && self.region.lead[2] == 0
    }

    /// What tiles write of each output row begins at multiples of so many words, up to those of a sector, if no lead
    /// moves it.
    pub(super) fn row_alignment(&self) -> u32 {
        let of_tile = self.cut.extents[3] * self.line_phases;
        gcd(gcd(self.axes[2].output, of_tile as usize), tile::SECTOR_WORDS as usize) as u32
    }

    /// Bytes of a team's staged boxes.
    fn boxed_bytes(&self) -> u32 {
        4 * self.tile_channels * self.cut.rows() * self.staged_row_words()
    }

    /// Copies of a staged channel.
    pub(super) fn copies(&self) -> u32 {
        self.cut.extents[0] * self.halo[0] * self.halo[1] * (self.pitch / self.copy_words)
    }

    /// Bytes of a staged slab.
    pub(super) fn slab_bytes(&self) -> u32 {
        tile::slab_bytes(self.cut.variant.columns, self.cut.variant.split)
    }

    /// The most slabs of a chunk, unless one run alone has more.
    pub(super) fn chunk_slabs(&self) -> u32 {
        let bytes = if self.cut.variant.ordinary { ORDINARY_CHUNK_BYTES } else { CHUNK_BYTES };
        let slabs = (bytes / self.slab_bytes()).max(1);
        match self.cut.variant {
            variant if variant.split => slabs.min(PROMOTE_AFTER),
            variant if variant.f16 => slabs.max(LEAST_SLABS_OF_F16),
            _ => slabs,
        }
    }

    /// The most slabs of a run.
    pub(super) fn run_slabs(&self) -> u32 {
        let bytes = if self.cut.variant.ordinary { ORDINARY_RUN_BYTES } else { RUN_BYTES };
        (bytes / self.slab_bytes()).max(1)
    }

    /// Whether partial sums move on after that many products.
    pub(super) fn promotes(&self, products: u32) -> bool {
        products >= PROMOTE_AFTER / 2
    }

    /// After how many stages of so many products partial sums move on at the latest, a power of two.
    pub(super) fn promotion_stages(&self, products: u32) -> u32 {
        let stages = if self.cut.variant.split { PROMOTE_AFTER / products.max(1) } else { 1 };
        1 << stages.max(1).ilog2()
    }

    /// Jobs: a pass over a tile of positions and output channels, each.
    pub(super) fn jobs(&self, groups: usize) -> u64 {
        let tiles: u64 = self.tiles.iter().map(|&tiles| u64::from(tiles)).product();
        tiles * u64::from(self.channel_tiles) * self.passes() as u64 * groups as u64
    }

    /// Words from one staged position along an axis to the next.
    pub(super) fn axis_words(&self, axis: usize) -> u32 {
        match axis {
            0 => self.halo[1] * self.pitch,
            1 => self.pitch,
            _ => 1,
        }
    }

    /// Words from one row of fragments to the next.
    pub(super) fn row_words(&self) -> u32 {
        self.cut.row_distance() * self.axis_words(self.cut.row_axis)
    }

    /// Words from the first half of a fragment of 16 to the second one: eight channels, or from one of paired taps to
    /// the other.
    pub(super) fn half_fragment_words(&self) -> u32 {
        match self.cut.taps_paired_along {
            Some(axis) => self.paired_taps_distance(axis).unwrap_or(0) * self.axis_words(axis),
            None => 8 * self.channel_words,
        }
    }

    /// How many positions paired taps lie apart, which all groups of their axis have two of at least; `None` if they
    /// have not.
    fn paired_taps_distance(&self, axis: usize) -> Option<u32> {
        let mut groups = self.groups[axis].iter().filter(|group| group.taps > 0);
        let distance = groups.clone().next()?.step;
        groups.all(|group| group.taps > 1 && group.step == distance).then_some(distance as u32)
    }

    /// Whether runs can take two taps of eight channels, if they are to.
    pub(super) fn can_pair_taps(&self) -> bool {
        self.cut.taps_paired_along.is_none_or(|axis| self.paired_taps_distance(axis).is_some())
    }

    /// The most shared memory that is of use within `limit`, for chunks of at most that many slabs, of which a stage
    /// has at most `stage_chunks`; `None` if there is not even enough for one of everything.
    pub(super) fn shared(&self, chunk_slabs: u32, stage_chunks: u32, limit: u32) -> Option<Shared> {
        let boxed = if self.boxed_words() > 0 { self.shared_and(true, chunk_slabs, stage_chunks, limit) } else { None };
        // Boxes are not worth it if teams wait for what they multiply.
        let boxed = boxed.filter(|shared| shared.input_ring >= 2 && shared.weight_ring >= 3);
        boxed.or_else(|| self.shared_and(false, chunk_slabs, stage_chunks, limit))
    }

    /// The same with room for staged boxes of the output, or without. What rings leave is for what spares teams to look
    /// lines and biases up again.
    fn shared_and(&self, boxed: bool, chunk_slabs: u32, stage_chunks: u32, limit: u32) -> Option<Shared> {
        let rings = self.rings(boxed, chunk_slabs, stage_chunks, limit)?;
        let with = |found| self.shared_with(rings, found, boxed, chunk_slabs).filter(|shared| shared.total <= limit);
        [self.most_found(), Found { line_tables: 1, ..self.most_found() }, self.least_found()]
            .into_iter()
            .find_map(with)
    }

    /// The slots of the rings of inputs and of weights that there is room for.
    fn rings(&self, boxed: bool, chunk_slabs: u32, stage_chunks: u32, limit: u32) -> Option<[u32; 2]> {
        let fits = |rings: [u32; 2]| {
            let shared = || self.shared_with(rings, self.least_found(), boxed, chunk_slabs);
            rings.iter().all(|&slots| slots <= tile::MOST_RING_SLOTS) && shared().is_some_and(|it| it.total <= limit)
        };
        // A chunk is left when products of the next one are under way.
        let mut rings = [1, 2];
        if !fits(rings) {
            return None;
        }
        loop {
            let [inputs, weights] = rings;
            // Whichever does not reach as far ahead, if it can grow.
            let (more_inputs, more_weights) = ([inputs + 1, weights], [inputs, weights + 1]);
            let weights_first = (weights - 1) < (inputs - 1) * stage_chunks;
            let order = if weights_first { [more_weights, more_inputs] } else { [more_inputs, more_weights] };
            match order.into_iter().find(|&rings| fits(rings)) {
                Some(larger) => rings = larger,
                None => return Some(rings),
            }
        }
    }

    /// What a team has to have found for a job.
    fn least_found(&self) -> Found {
        Found { line_tables: 1, bias_words: self.tile_channels }
    }

    /// What is of use for the next jobs, too: the lines of each pass, if passes are few, and all biases.
    fn most_found(&self) -> Found {
        let line_tables = self.passes().next_power_of_two();
        let all_biases = self.all_biases();
        Found {
            line_tables: if line_tables <= MOST_LINE_TABLES { line_tables as u32 } else { 1 },
            bias_words: if all_biases <= MOST_BIASES { all_biases } else { self.tile_channels },
        }
    }

    /// Bytes of the product that a block leaves for its partners, if it has any.
    pub(super) fn products_bytes(&self) -> u32 {
        let Variant { columns, slots, .. } = *self.cut.variant;
        if self.cut.partners > 1 { tile::product_bytes(columns / 8 * slots) } else { 0 }
    }

    /// Shared memory for rings of some inputs and chunks of weights.
    fn shared_with(
        &self,
        [input_ring, weight_ring]: [u32; 2],
        Found { line_tables, bias_words }: Found,
        boxed: bool,
        chunk_slabs: u32,
    ) -> Option<Shared> {
        let align = |bytes: u32| bytes.checked_next_multiple_of(ALIGN);
        let offsets_start = tile::CONTROL_BYTES;
        let input_start = align(offsets_start + 4 * self.copies())?;
        let input_bytes = align(self.stage_bytes())?;
        let weight_start = input_start.checked_add(input_ring.checked_mul(input_bytes)?)?;
        let weight_bytes = weight_ring.checked_mul(chunk_slabs.checked_mul(self.slab_bytes())?)?;
        let lines_start = align(weight_start.checked_add(weight_bytes)?)?;
        let lines_bytes = tile::TEAMS * line_tables * (self.lines() + 1) * tile::LINE_BYTES;
        let bias_start = lines_start.checked_add(lines_bytes)?;
        let biases_end = bias_start.checked_add(tile::TEAMS * 4 * bias_words)?;
        let output_start = biases_end.checked_next_multiple_of(if boxed { BOXES_ALIGN } else { ALIGN })?;
        let staged_bytes = 4 * self.slice_channels() * self.staged_channel_words();
        let output_bytes = if boxed {
            staged_bytes.max(self.boxed_bytes()).checked_next_multiple_of(BOXES_ALIGN)?
        } else {
            staged_bytes
        };
        let output_end = output_start.checked_add(tile::TEAMS * output_bytes)?;
        // Where the rings were, if there is enough room.
        let products_bytes = self.products_bytes();
        let products_start = if products_bytes <= lines_start - input_start { input_start } else { align(output_end)? };
        let bare_start = align(output_end.max(products_start.checked_add(products_bytes)?))?;
        let bare_bytes = if self.writes_bare_rows { tile::BARE_WRITERS * tile::BARE_BYTES } else { 0 };
        Some(Shared {
            input_ring,
            weight_ring,
            offsets_start,
            input_start,
            input_bytes,
            weight_start,
            lines_start,
            line_tables,
            bias_start,
            bias_words,
            output_start,
            output_bytes,
            boxed,
            products_start,
            bare_start,
            total: bare_start.checked_add(bare_bytes)?,
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { phases, row_axis, extents: [n, z, y, x], .. } = self.cut;
        write!(f, "on {n}x{z}x{y}x{x} positions")?;
        if self.cut.rows() > 1 {
            write!(f, " times {} along {}", self.cut.rows(), ["z", "y", "x"][row_axis])?;
        }
        if self.cut.has_rows_apart() {
            write!(f, ", one behind the other")?;
        }
        if self.cut.joined_rows > 1 {
            write!(f, ", {} joined along {}", self.cut.joined_rows, ["z", "y", "x"][row_axis])?;
        }
        if let [1, 1, 1] = phases {
        } else {
            let [z, y, x] = phases;
            write!(f, ", {z}x{y}x{x} phases")?;
        }
        if self.cut.halves > 1 {
            write!(f, " in either half")?;
        }
        if self.cut.close {
            write!(f, " close together")?;
        }
        write!(f, ", {} channels at a time", self.cut.stage_channels())?;
        if let Some(axis) = self.cut.taps_paired_along {
            write!(f, ", two taps along {}", ["z", "y"][axis])?;
        }
        if self.has_long_lines() {
            write!(f, ", in long lines")?;
        }
        if self.has_short_lines() && !self.is_direct() {
            write!(f, ", in short lines")?;
        }
        if self.has_margins() {
            write!(f, ", with margins")?;
        }
        if self.writes_bare_rows {
            write!(f, ", bare rows by producers")?;
        }
        if self.in_boxes {
            write!(f, ", in boxes{}", ["", " of whole rows", " of whole slices"][self.merged_axes as usize])?;
        }
        if self.cut.partners > 1 {
            write!(f, ", by {} partners", self.cut.partners)?;
        }
        match self.region.lead {
            [0, 0, 0] => Ok(()),
            [z, y, x] => write!(f, ", from {z}x{y}x{x} before the output"),
        }
    }
}

/// Whether boxes hold what a stage takes and nothing else: channels beyond the last one become zero, those of another
/// group would not.
fn has_whole_boxes(input: &Input, problem: &Problem<3>, cut: &Cut) -> bool {
    let has_one_share = input.groups == 1 && cut.partners == 1;
    let whole_stages = cut.in_words(input, problem).is_multiple_of(cut.stage_words() as usize);
    input.batch * input.sample() > 0 && (has_one_share || whole_stages)
}

/// The axes that boxes of one sample take together with x, as one stretch of the input: y where tiles stage whole rows,
/// z where they stage whole slices, too. The hardware fetches each row of a box by itself, which takes long if rows are
/// short.
fn merged_axes(input: &Input, groups: &AxisGroups, region: &Region, reach: [u32; 3], staged: [u32; 3]) -> u32 {
    let first = |axis: usize| groups[axis].iter().map(|group| group.first);
    let is_whole = |axis: usize| {
        let has_one_tile = region.first[axis] == 0 && region.extents[axis] <= reach[axis];
        has_one_tile && first(axis).all(|first| first == 0) && staged[axis] as usize == input.extents[axis]
    };
    let outermost = if staged[0] == 1 { 1 } else { 0 };
    if !(outermost + 1..3).all(is_whole) {
        return 0;
    }
    // Stretches begin at multiples of 16 bytes, as channels do.
    let words: usize = input.extents[outermost + 1..].iter().product();
    let are_aligned = |first: i64| (first * words as i64) % 4 == 0;
    let origins = [reach[outermost], region.first[outermost], input.extents[outermost] as u32].map(i64::from);
    let all_aligned = origins.into_iter().chain(first(outermost)).all(are_aligned);
    let staged_words: u64 = staged.iter().map(|&extent| u64::from(extent)).product();
    let fit = staged_words <= u64::from(Boxes::MOST) && channel_words(staged_words as u32) <= Boxes::MOST;
    if all_aligned && fit { 2 - outermost as u32 } else { 0 }
}

/// The extents z, y and x of a box that holds at least as much of each sample, whose channels lie 8 or 24 words modulo
/// 32 apart (see [`channel_words`]) without anything in between; `None` if there is none.
fn box_extents(samples: u32, [z, y, x]: [u32; 3]) -> Option<[u32; 3]> {
    let more = |extent: u32| if extent > 1 { extent..extent + 4 } else { 1..2 };
    let extents = more(z).flat_map(|z| more(y).flat_map(move |y| (x..x + 32).step_by(4).map(move |x| [z, y, x])));
    let fitting = extents.filter(|extents| {
        let words: u64 = extents.iter().map(|&extent| u64::from(extent)).product::<u64>() * u64::from(samples);
        extents.iter().all(|&extent| extent <= Boxes::MOST) && samples <= Boxes::MOST && matches!(words % 32, 8 | 24)
    });
    fitting.min_by_key(|extents| extents.iter().product::<u32>())
}

/// At least that many words, and 8 or 24 modulo 32: four channels times eight neighbouring pairs then lie on 32 banks.
fn channel_words(words: u32) -> u32 {
    let rest = words % 32;
    words - rest
        + if rest <= 8 {
            8
        } else if rest <= 24 {
            24
        } else {
            40
        }
}

#[cfg(test)]
mod tests {
    use super::{super::groups::groups, *};
    use crate::{ConvTranspose1d, ConvTranspose3d, Shape};

    fn cut(extents: [u32; 4], slots: u32) -> Cut {
        let variant = tile::VARIANTS.iter().find(|variant| variant.slots == slots).unwrap();
        Cut {
            variant,
            phases: [1; 3],
            halves: 1,
            close: false,
            row_axis: 0,
            one_behind_the_other: false,
            taps_paired_along: None,
            joined_rows: 1,
            extents,
            stage_blocks: 1,
            partners: 1,
            large_tiles: true,
        }
    }

    /// One with a slot, along x.
    fn cut_along_x(extents: [u32; 4]) -> Cut {
        Cut { row_axis: 2, one_behind_the_other: true, ..cut(extents, 1) }
    }

    /// The groups of each axis, of one phase each.
    fn groups_of(problem: &Problem<3>, phases: &[Vec<Phase>; 3]) -> AxisGroups {
        [0, 1, 2].map(|axis| Arc::new(groups(&problem.axes()[axis], &phases[axis], 0, 1, axis == 2)))
    }

    #[test]
    fn channels_of_a_box_are_on_different_banks() {
        for (samples, least) in [(1, [1, 1, 20]), (1, [10, 10, 20]), (1, [6, 6, 36]), (2, [6, 6, 20]), (3, [1, 5, 68])]
        {
            let extents @ [z, y, x] = box_extents(samples, least).unwrap();
            assert!(extents.iter().zip(least).all(|(&extent, least)| extent >= least), "{extents:?}");
            assert_eq!(x % 4, 0);
            assert!([8, 24].contains(&(samples * z * y * x % 32)), "{samples} times {extents:?}");
        }
        // Whatever is added, four samples of rows of four words are 16 words.
        assert_eq!(box_extents(4, [6, 6, 12]), None);
        assert_eq!(box_extents(1, [1, 1, 516]), None);
    }

    /// A layout of rows that are two longer than the input, of their first positions or of all.
    fn layout(input: usize, extents: [u32; 4], first_positions: Option<u32>) -> Option<Layout> {
        layout_of(input, cut_along_x(extents), first_positions)
    }

    /// The same for any cut.
    fn layout_of(input: usize, cut: Cut, first_positions: Option<u32>) -> Option<Layout> {
        let layer = ConvTranspose1d::builder(8, 8, [3]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 8, [input])).unwrap().to_compute();
        let phases = Arc::new(problem.axes().map(|axis| axis.phases()));
        let groups = groups_of(&problem, &phases);
        let whole = Region::whole([0; 3], &phases, false);
        let region = match first_positions {
            Some(positions) => Region { extents: [1, 1, positions], is_last: [true, true, false], ..whole },
            None => whole,
        };
        Layout::new(&problem, &phases, &groups, region, cut)
    }

    /// The axes that boxes merge with x, for tiles of some positions.
    fn merged(kernel: [usize; 3], stride: [usize; 3], input: [usize; 3], extents: [u32; 4]) -> u32 {
        merged_of(ConvTranspose3d::builder(8, 8, kernel).stride(stride).build().unwrap(), input, extents)
    }

    fn merged_of(layer: ConvTranspose3d, input: [usize; 3], extents: [u32; 4]) -> u32 {
        let problem = layer.problem(Shape::batched(2, 8, input)).unwrap();
        let phases = Arc::new(problem.axes().map(|axis| axis.phases()));
        let groups = groups_of(&problem, &phases);
        let region = Region::whole([0; 3], &phases, false);
        Layout::new(&problem, &phases, &groups, region, cut_along_x(extents)).unwrap().merged_axes
    }

    #[test]
    fn boxes_merge_axes_where_tiles_take_whole_rows_or_slices() {
        let merged_2d =
            |input: [usize; 2], y: u32, x: u32| merged([1, 2, 2], [1, 2, 2], [1, input[0], input[1]], [1, 1, y, x]);
        assert_eq!(merged_2d([28, 28], 4, 28), 1);
        assert_eq!(merged_2d([28, 28], 4, 16), 0, "half a row");
        assert_eq!(merged_2d([28, 28], 4, 32), 0, "words beyond the row");
        let longer = ConvTranspose3d::builder(8, 8, [1, 2, 2]).stride([1, 2, 2]).output_padding([0, 0, 1]).build();
        assert_eq!(merged_of(longer.unwrap(), [1, 28, 28], [1, 1, 4, 28]), 0, "a second tile beyond the row");
        assert_eq!(merged_2d([14, 14], 2, 14), 1);
        assert_eq!(merged_2d([14, 14], 3, 14), 0, "the second tile begins at 168 bytes");
        assert_eq!(merged_2d([7, 7], 7, 7), 0, "channels of 196 bytes");
        assert_eq!(merged_2d([32, 64], 2, 64), 1);
        assert_eq!(merged_2d([32, 128], 1, 128), 1);
        assert_eq!(merged([1, 1, 3], [1; 3], [1, 4, 28], [1, 1, 4, 28]), 0, "columns of zeros beside the rows");
        assert_eq!(merged([1, 3, 1], [1; 3], [1, 8, 28], [1, 1, 2, 28]), 1, "rows of zeros above and below");
        assert_eq!(merged([1, 2, 2], [1, 2, 2], [1, 8, 8], [2, 1, 8, 8]), 0, "two samples");
        let merged_3d = |extents: [u32; 3]| merged([2; 3], [2; 3], [8; 3], [1, extents[0], extents[1], extents[2]]);
        assert_eq!(merged_3d([2, 8, 8]), 2);
        assert_eq!(merged_3d([2, 4, 8]), 0, "half of each slice");
        assert_eq!(merged_3d([1, 4, 8]), 1, "half of one");
        assert_eq!(merged_3d([4, 8, 4]), 0);
    }

    #[test]
    fn no_tile_reaches_into_the_next_region() {
        assert!(layout(128, [1, 1, 1, 48], None).is_some(), "beyond the output nobody writes");
        assert!(layout(128, [1, 1, 1, 64], Some(128)).is_some());
        assert!(layout(128, [1, 1, 1, 48], Some(128)).is_none());
    }

    #[test]
    fn warps_pass_words_on_where_rows_are_no_whole_sectors() {
        let words = |input: usize, extents: [u32; 4]| layout(input, extents, None).unwrap().direct_words();
        assert_eq!(words(128, [1, 1, 1, 128]), 4, "rows of 130: a team has 64 neighbouring words");
        assert_eq!(words(128, [1, 1, 1, 32]), 2);
        assert_eq!(words(128, [1, 1, 1, 16]), 1, "a warp by itself");
        let side_by_side = Cut { row_axis: 2, one_behind_the_other: true, ..cut([1, 1, 1, 32], 4) };
        assert_eq!(layout_of(128, side_by_side, None).unwrap().direct_words(), 2 * 4, "through all slots");
        assert_eq!(words(128, [1, 1, 1, 20]), 1, "warps have words of two rows");
        assert_eq!(words(126, [1, 1, 1, 64]), 1, "rows of 128 are whole sectors");
        assert_eq!(words(127, [1, 1, 1, 64]), 0, "rows of 129 begin anywhere");
    }

    #[test]
    fn wavefronts_are_those_of_the_busiest_banks() {
        // Rows of 16 positions: eight neighbouring words for each of four channels.
        assert_eq!(cut([1, 1, 8, 16], 8).load_wavefronts([10, 10, 20], 8), 16);
        assert_eq!(cut([1, 1, 8, 16], 8).load_wavefronts([10, 10, 20], 24), 16);
        // All channels on the same banks.
        assert_eq!(cut([1, 1, 8, 16], 8).load_wavefronts([10, 10, 20], 32), 64);
        // Rows of four positions, 16 words apart: two channels on each bank. The other team has no positions, so that
        // all of its lanes load the same words.
        assert_eq!(cut([1, 1, 16, 4], 8).load_wavefronts([10, 18, 16], 8), 8 * 2 + 8);
    }
}
