//! Lines: what a team writes of an output row, how lines are staged, and how lanes store them.
//!
//! What a kernel finds out of this when it runs is in its `store` modules.

use conv_transpose_kernels::tile::{self, Tiling};

use super::{groups::Group, layout::Layout, regions::Region};
use crate::{Phase, geometry::gcd};

/// The most phases along y of rows that have biases beside them: a bit for each.
const MOST_PHASES_WITH_MARGINS: usize = 32;

/// The most instructions that short lines may take, of those that they take if lanes take a line together: their sectors
/// are written in more pieces.
const MOST_OF_LONG_LINES: f64 = 0.8;

/// Blocks of columns whose output is staged at a time, if slots are few.
const STAGED_BLOCKS: u32 = 4;

/// The same on ordinary cores.
const ORDINARY_STAGED_BLOCKS: u32 = 2;

/// The most lanes that store a line together.
const MOST_LINE_LANES: usize = 32;

/// The most computed phases along x of lines that have gaps: one byte each in the table that says where they are.
const MOST_BETWEEN_GAPS: usize = 16;

impl Layout {
    /// Blocks of columns that are staged for output at a time: whole groups of phases, more where a channel has few
    /// elements.
    pub(super) fn slice_blocks(&self) -> u32 {
        let phases = self.cut.column_phases();
        if self.cut.close {
            self.used_blocks()
        } else {
            let blocks = if self.cut.variant.ordinary { ORDINARY_STAGED_BLOCKS } else { STAGED_BLOCKS };
            (blocks / self.cut.variant.slots / phases).max(1) * phases
        }
    }

    /// Whether lines are stretches of output rows, with all phases along x.
    pub(super) fn has_whole_rows(&self) -> bool {
        are_whole_rows(&self.groups[2], &self.phases[2])
    }

    /// Whether tiles have all of each output row that they write.
    fn has_all_of_rows(&self) -> bool {
        let Region { first, is_last, .. } = self.region;
        self.has_whole_rows() && self.tiles[3] == 1 && first[2] == 0 && is_last[2]
    }

    /// Output words from one position of a line to the next.
    pub(super) fn line_period(&self) -> u32 {
        if self.has_whole_rows() { self.line_phases } else { self.axes[2].stride as u32 }
    }

    /// Whether a line has all phases along x that a pass writes.
    pub(super) fn has_all_phases_in_lines(&self) -> bool {
        self.has_whole_rows() || self.line_phases > 1
    }

    /// Rows of the box that the positions of a team are in, at most: so many lines a place has.
    pub(super) fn segments(&self) -> u32 {
        let [n, z, y, box_x] = self.cut.extents;
        let positions = n * z * y * box_x;
        let rows = |team: u32| {
            let (first, end) = (team * tile::TEAM_ROWS, positions.min((team + 1) * tile::TEAM_ROWS));
            if first < end { (end - 1) / box_x - first / box_x + 1 } else { 1 }
        };
        (0..tile::TEAMS).map(rows).max().unwrap_or(1)
    }

    /// Lines of an output channel of a team.
    pub(super) fn lines(&self) -> u32 {
        self.places * self.segments()
    }

    /// Biases of all tiles of all groups.
    pub(super) fn all_biases(&self) -> u32 {
        self.channel_groups.saturating_mul(self.channel_tiles * self.tile_channels)
    }

    /// Staged lines of a row: one for each of the computed phases along z and y, and along x if they are in different
    /// passes.
    pub(super) fn row_lines(&self) -> u32 {
        let [z, y, x] = self.cut.computed_phases();
        z * y * if self.has_all_phases_in_lines() { 1 } else { x }
    }

    /// Words from the staged lines of one place of an output channel to those of the next.
    pub(super) fn line_distance(&self) -> u32 {
        self.line_slots * tile::TEAM_ROWS * self.line_phases
    }

    /// Words from one row to the next in a staged output channel.
    pub(super) fn staged_row_words(&self) -> u32 {
        if self.line_slots > 1 {
            self.cut.extents[3] * self.line_phases
        } else {
            self.row_lines() * self.line_distance()
        }
    }

    /// Positions of other slots that are staged between the rows of the box that a slot has; none if that is one row.
    pub(super) fn staged_between_rows(&self) -> u32 {
        let x = self.cut.extents[3];
        if x == tile::TEAM_ROWS { 0 } else { (self.line_slots - 1) * x }
    }

    /// Words from one output channel of a staged output to the next. Where a lane writes all that it holds at once, 4
    /// modulo 16, and all lanes find different banks; otherwise an odd number, and two lanes share a bank.
    pub(super) fn staged_channel_words(&self) -> u32 {
        let words = self.cut.rows() * self.row_lines() * tile::TEAM_ROWS * self.line_phases;
        words + if self.held() == Tiling::ONE_PHASE { 1 } else { 4 }
    }

    /// Output channels that are staged at a time.
    pub(super) fn slice_channels(&self) -> u32 {
        if self.cut.close { self.close_channels() } else { self.slice_blocks() / self.cut.column_phases() * 8 }
    }

    /// Slices of the output, which are staged one after the other.
    pub(super) fn slices(&self) -> u32 {
        self.used_blocks().div_ceil(self.slice_blocks())
    }

    /// The most words of a line.
    fn most_line_words(&self) -> u32 {
        self.cut.extents[3].min(tile::TEAM_ROWS) * self.line_slots * self.line_phases
    }

    /// The most words of a line that are in the output.
    fn most_words_in_output(&self) -> u32 {
        self.most_line_words().min(self.axes[2].output as u32)
    }

    /// Lanes that store a line together: as many as it takes for the words of one, or a warp.
    pub(super) fn line_lanes(&self) -> u32 {
        self.most_line_words().next_power_of_two().clamp(4, MOST_LINE_LANES as u32)
    }

    /// Groups of so many lanes that share the channels of a line, if lines are few.
    pub(super) fn line_crews(&self) -> u32 {
        (tile::TEAM_THREADS / self.line_lanes() / self.lines()).max(1)
    }

    /// Words from where the first lane of a line begins to the end of the longest one, at most.
    pub(super) fn line_reach(&self) -> u32 {
        let ahead = if self.has_whole_rows() { self.line_lanes() - 1 } else { 0 };
        let behind = if self.has_margins() { tile::SECTOR_WORDS - 1 } else { 0 };
        self.most_line_words() + ahead + behind
    }

    /// The rows, by phase along y, with biases before what a line has of them, or behind it: see [`Tiling::margins`].
    pub(super) fn margins(&self) -> [u32; 2] {
        if self.has_margins() { self.beside_bare_rows() } else { [0; 2] }
    }

    /// The rows with taps, a bit for each phase along y, that lie behind one without, or before one.
    fn beside_bare_rows(&self) -> [u32; 2] {
        let rows = self.with_taps(1);
        let bare = |next: usize| rows.clone().map(|has_taps| !has_taps).cycle().skip(next);
        let beside = |next: usize| {
            let is_so = rows.clone().zip(bare(next)).map(|(has_taps, is_bare)| has_taps && is_bare);
            is_so.enumerate().fold(0, |bits, (phase, is_so)| bits | u32::from(is_so) << phase)
        };
        [beside(rows.len() - 1), beside(1)]
    }

    /// Of the ends of rows that lines have, the share with biases beside them.
    pub(super) fn share_of_margins(&self) -> f64 {
        let ends: u32 = self.margins().iter().map(|phases| phases.count_ones()).sum();
        f64::from(ends) / (2.0 * self.with_taps(1).filter(|has_taps| *has_taps).count().max(1) as f64)
    }

    /// Whether lines have biases beside them: if producers write what is between them, or the output is filled before
    /// and each line has all of a row. Shorter lines would take longer for it.
    pub(super) fn has_margins(&self) -> bool {
        let x = self.cut.extents[3];
        let goes_through_all = self.cut.rows() == 1 || self.cut.row_axis < 2 || self.line_slots > 1;
        let have_one_row = tile::TEAM_ROWS.is_multiple_of(x) && goes_through_all && self.has_all_of_rows();
        self.can_have_margins() && (self.writes_bare_rows || have_one_row)
    }

    /// Whether they can have them: where other rows are written before, or by producers, lines are stretches of rows,
    /// and beside some there is a row that no line has. Kernels for older GPUs have no registers for that.
    pub(super) fn can_have_margins(&self) -> bool {
        let width = self.axes[2].output as u32;
        let have_sectors =
            self.line_lanes().min(width) >= tile::SECTOR_WORDS && !width.is_multiple_of(tile::SECTOR_WORDS);
        let Region { lead, first, is_last, .. } = self.region;
        let is_possible = self.cut.large_tiles && self.fills_first() && lead == [0; 3] && first[2] == 0 && is_last[2];
        let can_be_told = self.with_taps(1).len() <= MOST_PHASES_WITH_MARGINS;
        let are_stretches = self.has_whole_rows() && !self.is_direct();
        is_possible && have_sectors && can_be_told && are_stretches && self.beside_bare_rows() != [0; 2]
    }

    /// Words of a line that a lane loads before it stores them: two fours if it can, otherwise as many as leave the
    /// fewest for nothing.
    pub(super) fn line_words_at_once(&self) -> u32 {
        match self.has_lines_of_fours() {
            true => Tiling::TWO_FOURS,
            false if self.has_short_lines() => loaded_at_once(self.pieces_of_lane()),
            false => loaded_at_once(self.words_of_lane()),
        }
    }

    /// Pieces of the longest line, which are what a lane stores at once: words, or fours of words.
    pub(super) fn longest_line(&self) -> u32 {
        let words = self.most_words_in_output();
        if self.has_lines_of_fours() { words.div_ceil(4) } else { words }
    }

    /// Words of a line that each lane goes through if lanes take lines together.
    fn words_of_lane(&self) -> u32 {
        self.line_reach().div_ceil(self.line_lanes())
    }

    /// Pieces that each lane goes through if lines are short.
    fn pieces_of_lane(&self) -> u32 {
        (self.lines() * self.longest_line()).div_ceil(tile::TEAM_THREADS)
    }

    /// Instructions of each warp that stores the lines of a job.
    pub(super) fn line_instructions(&self) -> f64 {
        if self.has_short_lines() { self.short_line_instructions() } else { self.long_line_instructions() }
    }

    /// The same if lanes take lines together.
    fn long_line_instructions(&self) -> f64 {
        let lines =
            f64::from(self.lines() * self.stored_channels() * self.line_lanes()) / f64::from(tile::TEAM_THREADS);
        let words = self.words_of_lane();
        let pieces = if self.has_lines_of_fours() {
            words.next_multiple_of(Tiling::TWO_FOURS) / 4
        } else {
            words.next_multiple_of(loaded_at_once(words))
        };
        lines * (14.0 + 3.5 * f64::from(pieces))
    }

    /// The same if lines are short.
    fn short_line_instructions(&self) -> f64 {
        let pieces = self.pieces_of_lane();
        let at_once = if self.has_lines_of_fours() { 2 } else { loaded_at_once(pieces) };
        f64::from(pieces.next_multiple_of(at_once))
            * (f64::from(self.slices()) * 16.0 + f64::from(self.stored_channels()) * 5.0)
    }

    /// Whether lines are so short that lanes take pieces side by side, whatever line they are of. Kernels for older GPUs
    /// have no registers for that, nor are there pieces of several words that are not staged.
    pub(super) fn has_short_lines(&self) -> bool {
        let are_possible = self.cut.large_tiles && !self.has_margins();
        let are_staged = !self.has_lines_of_fours() || !self.writes_rows_without_taps();
        let are_short = || self.short_line_instructions() < MOST_OF_LONG_LINES * self.long_line_instructions();
        are_possible && are_staged && are_short()
    }

    /// Whether some lines have biases only, which are not staged.
    fn writes_rows_without_taps(&self) -> bool {
        self.groups.iter().any(|groups| groups.iter().any(Group::writes_without_taps))
    }

    /// Whether lines begin and end at multiples of four words, in an output that does.
    pub(super) fn has_lines_of_fours(&self) -> bool {
        let begins_at_multiple = |group: &Group| group.written.first().is_none_or(|phase| phase.is_multiple_of(4));
        let are_fours = matches!(self.held(), Tiling::FOURS | Tiling::FOURS_OF_HALVES);
        are_fours && self.has_rows_at_multiples(4) && self.groups[2].iter().all(begins_at_multiple)
    }

    /// What a lane holds of an output row, of [`Tiling`]'s ways.
    pub(super) fn held(&self) -> u32 {
        let all_phases = self.line_phases == self.cut.computed_phases()[2];
        if self.cut.close || !all_phases {
            return Tiling::ONE_PHASE;
        }
        match (self.cut.phases[2], self.cut.halves) {
            (1, 1) if self.has_whole_rows() => Tiling::PAIRS,
            (2, 1) if self.has_whole_rows() => Tiling::QUADS,
            (1, 2) if self.has_whole_rows() => Tiling::QUADS_OF_HALVES,
            (2, 2) => Tiling::FOURS_OF_HALVES,
            (phases, _) if phases.is_multiple_of(4) => Tiling::FOURS,
            _ => Tiling::ONE_PHASE,
        }
    }

    /// Whether what a lane holds are pieces of output rows, and together they are all of the output.
    pub(super) fn holds_pieces(&self) -> bool {
        let all_are_computed = self.places * self.line_slots == self.cut.rows() * self.row_lines();
        let are_pieces = matches!(self.held(), Tiling::PAIRS | Tiling::QUADS | Tiling::QUADS_OF_HALVES);
        are_pieces && all_are_computed && self.has_pairs()
    }

    /// Whether lanes store what they hold straight from the product, if the output is aligned.
    pub(super) fn is_direct(&self) -> bool {
        let words = if self.held() == Tiling::PAIRS { 2 } else { 4 };
        self.holds_pieces() && self.has_rows_at_multiples(words)
    }

    /// How many times 16 words a team has side by side in a row, each held by a warp in a slot, which passes words on
    /// so that they write whole sectors; one if they have no need, or cannot. 0 if lanes do not store what they hold
    /// straight from the product.
    pub(super) fn direct_words(&self) -> u32 {
        let words = gcd(self.cut.extents[3] as usize, tile::TEAM_ROWS as usize) as u32;
        let slots = if self.cut.has_slots_side_by_side() { self.cut.rows() } else { 1 };
        let are_sectors = self.axes[2].output.is_multiple_of(tile::SECTOR_WORDS as usize);
        match self.held() {
            _ if !self.is_direct() => 0,
            Tiling::PAIRS if !are_sectors && words.is_multiple_of(tile::WARP_ROWS) => words / tile::WARP_ROWS * slots,
            _ => 1,
        }
    }

    /// Whether what a team writes of a row goes through all slots, which lie side by side.
    pub(super) fn has_long_lines(&self) -> bool {
        self.line_slots > 1 || self.direct_words() > 1 && self.cut.has_slots_side_by_side()
    }

    /// Neighbouring words that are written at about the same time: of all but the first and the last sector the whole.
    pub(super) fn words_at_once(&self) -> u32 {
        match self.direct_words() {
            1.. if self.boxed_words() == 0 => self.line_phases * tile::WARP_ROWS * self.direct_words(),
            _ => self.neighbouring_outputs(),
        }
    }

    /// Output elements that a pass writes side by side: whole rows of a tile, or the phases of one position.
    pub(super) fn neighbouring_outputs(&self) -> u32 {
        if self.has_whole_rows() { self.most_words_in_output() } else { self.line_phases }
    }

    /// How many output rows a pass writes of which each begins where the one before ends.
    pub(super) fn rows_in_succession(&self) -> u32 {
        let phases = self.phases[1].len();
        let has_all_rows = self.groups[1].iter().all(|group| group.written.len() == phases);
        if self.has_all_of_rows() && has_all_rows { self.cut.reach(1) * phases as u32 } else { 1 }
    }

    /// Whether the two positions of a lane are neighbours in a row.
    pub(super) fn has_pairs(&self) -> bool {
        self.cut.extents[3].is_multiple_of(2)
    }
}

/// Words of a line for each position, where phases along x have a certain stride.
pub(super) fn line_phases(groups: &[Group], phases: &[Phase], stride: usize) -> u32 {
    if are_whole_rows(groups, phases) {
        return phases.len() as u32;
    }
    let count = groups.first().map_or(1, |group| group.written.len());
    let are_neighbours = |group: &Group| {
        let written = &group.written;
        let has_gaps = !group.computed.is_empty() && group.computed != *written;
        written.len() == count && !has_gaps && written.windows(2).all(|pair| pair[1] == pair[0] + 1)
    };
    let lanes_have_the_same = count.is_power_of_two() && count <= MOST_LINE_LANES && stride.is_multiple_of(count);
    if lanes_have_the_same && groups.iter().all(are_neighbours) { count as u32 } else { 1 }
}

/// Whether a pass writes all phases along x, so that what it writes of a row is a stretch of it.
pub(super) fn are_whole_rows(groups: &[Group], phases: &[Phase]) -> bool {
    matches!(groups, [group] if group.written.len() == phases.len()
        && (!group.writes_without_taps() || group.computed.len() <= MOST_BETWEEN_GAPS))
}

/// Words of a line that a lane loads before it stores them, if it goes through so many: two if it has no more, otherwise
/// three to five, whichever leave the fewest for nothing.
fn loaded_at_once(words: u32) -> u32 {
    match words {
        0..=2 => 2,
        _ => (3..=5).min_by_key(|at_once| words.next_multiple_of(*at_once)).unwrap_or(3),
    }
}
