//! Storing by way of shared memory: a team stages some channels at a time, each line of them as it lies in the output,
//! then its warps store the lines.
//!
//! A sector of the memory that is written in pieces costs several times as much as one that is written whole, and lines
//! begin anywhere. So lanes begin where lines of the cache do, before the first word of a line if need be, and only the
//! ends of a line are pieces. What a word costs is instructions: there are three for each, one to load it, one to store
//! it and a comparison, because a line ends somewhere.

use cuda_std::{
    hint,
    mem::{self, Transfer},
    shared::{SharedPtr, dynamic_shared_mem},
};

use super::{Line, SECTOR_WORDS, Target, sync_team};
use crate::{
    index::Index,
    tile::{
        TEAM_ROWS, TEAM_THREADS, is_specialised,
        multiply::Product,
        parameters::{OutputPlace, Tiling},
    },
    unrolled::unrolled,
};

impl Target<'_> {
    /// Stores a product by way of shared memory, or the biases if there is none. It synchronises the team before the
    /// staged output is used again.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_staged<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        has_product: bool,
    ) {
        let t = self.t;
        for slice in 0..t.slices {
            let channel = slice * t.slice_channels;
            let channels = t.channels_of_slice(slice);
            let used_blocks = hint::opaque(t.used_blocks);
            let lane = self.lane_staging(channel);
            // SAFETY: the caller's promise; barriers lie between writing and reading.
            unsafe {
                unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                    const NEXT: usize = BLOCK + 1;
                    const THIRD: usize = BLOCK + 2;
                    const FOURTH: usize = BLOCK + 3;
                    // Of these only the slice varies. Found again for each job, not kept in registers meanwhile.
                    let (its_slice, part) = hint::opaque(BLOCK as u32).divide(t.slice_blocks);
                    if has_product && its_slice == slice && (BLOCK as u32) < used_blocks {
                        self.stage::<BLOCKS, SLOTS, BLOCK, NEXT, THIRD, FOURTH>(product, &lane, part);
                    }
                });
                if has_product && hint::opaque(t.line_gaps) != 0 && !self.gaps_stay() {
                    self.stage_gaps(channel, channels);
                }
                sync_team();
                // The host knows the alignment of the lines to each other, not that of the output.
                let at_once = t.line_words_at_once;
                let are_fours = is_specialised() && at_once == Tiling::TWO_FOURS;
                let are_aligned = self.output.addr().is_multiple_of(16);
                let are_short = is_specialised() && hint::opaque(t.short_lines) != 0;
                match at_once {
                    _ if are_fours && are_aligned && are_short => {
                        self.store_short_lines::<[f32; 4], 2>(channel, channels)
                    }
                    _ if are_fours && are_aligned => self.store_channels::<[f32; 4], false>(channel, channels),
                    2 if are_short => self.store_short_lines::<f32, 2>(channel, channels),
                    3 if are_short => self.store_short_lines::<f32, 3>(channel, channels),
                    4 if are_short => self.store_short_lines::<f32, 4>(channel, channels),
                    5 if are_short => self.store_short_lines::<f32, 5>(channel, channels),
                    _ if self.has_margins() => self.store_channels::<f32, true>(channel, channels),
                    _ => self.store_channels::<f32, false>(channel, channels),
                }
                sync_team();
            }
        }
    }

    /// The staged output of a team.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn staged(&self, team: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add((self.t.output_start + team * self.t.output_bytes) / 4)
    }

    /// Where the lane stages, beginning with number `first_channel` of the tile.
    #[cfg_attr(gpu, inline(always))]
    fn lane_staging(&self, first_channel: u32) -> LaneStaging {
        let t = self.t;
        let (team, thread) = Self::team();
        let column = thread % 4 * 2;
        let row = Self::first_row(thread);
        let before = if is_specialised() && t.staged_between_rows == 0 {
            0
        } else {
            row.divide(t.box_x).0 * t.staged_between_rows
        };
        let position = self.staged(team).add((row + before) * t.line_phases.value() as u32);
        LaneStaging {
            column,
            position,
            channels: position.add(column * t.staged_channel_words),
            biases: self.biases(team).add(first_channel + column),
        }
    }

    /// Writes a block of eight columns to the staged output, where it is number `part`; with the next one, or three, if
    /// they have neighbouring phases.
    ///
    /// # Safety
    /// The product is complete, the staged output has room for the part, and nobody reads or writes it there.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn stage<
        const BLOCKS: usize,
        const SLOTS: usize,
        const BLOCK: usize,
        const NEXT_BLOCK: usize,
        const THIRD_BLOCK: usize,
        const FOURTH_BLOCK: usize,
    >(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        lane: &LaneStaging,
        part: u32,
    ) {
        let t = self.t;
        let LaneStaging { column, position, channels, biases } = *lane;
        let (row_words, held) = (hint::opaque(t.row_words), hint::opaque(t.held));
        let (group, phase) = part.divide(t.column_phases);
        // The part of the address that all lanes have in common.
        let words = [0, 1].map(|half| group * 8 * t.staged_channel_words + self.staged_word(phase, half));
        // SAFETY: the staged output has room for the slice, and nobody else writes to these words; the product is
        // complete.
        unsafe {
            let [left, right] = biases.add(group * 8).cast::<[f32; 2]>().load();
            unrolled!(SLOT in 0..SLOTS, at most 8 => {
                const NEXT: usize = SLOT + 1;
                let slot = SLOT as u32;
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                let [a, b, c, d] = [a + left, b + right, c + left, d + right];
                match held {
                    Tiling::QUADS if BLOCK.is_multiple_of(2) && NEXT_BLOCK < BLOCKS => {
                        let place = channels.add(words[0] + slot * row_words).cast::<[f32; 4]>();
                        let [e, f, g, h] = product.values::<SLOT, NEXT_BLOCK>();
                        place.store([a, e + left, c, g + left]);
                        place.add(t.staged_channel_words / 4).store([b, f + right, d, h + right]);
                    }
                    Tiling::QUADS_OF_HALVES if SLOT.is_multiple_of(2) && NEXT < SLOTS => {
                        let place = channels.add(words[0] + slot / 2 * row_words).cast::<[f32; 4]>();
                        let [e, f, g, h] = product.values::<NEXT, BLOCK>();
                        place.store([a, e + left, c, g + left]);
                        place.add(t.staged_channel_words / 4).store([b, f + right, d, h + right]);
                    }
                    Tiling::FOURS if BLOCK.is_multiple_of(4) && FOURTH_BLOCK < BLOCKS => {
                        let (row, half) = self.row_and_half(slot);
                        let place = channels.add(if half == 0 { words[0] } else { words[1] } + row * row_words);
                        let next = product.values::<SLOT, NEXT_BLOCK>();
                        let third = product.values::<SLOT, THIRD_BLOCK>();
                        let fourth = product.values::<SLOT, FOURTH_BLOCK>();
                        self.stage_fours(place, [product.values::<SLOT, BLOCK>(), next, third, fourth], [left, right]);
                    }
                    Tiling::FOURS_OF_HALVES if BLOCK.is_multiple_of(2) && NEXT_BLOCK < BLOCKS && SLOT.is_multiple_of(2) && NEXT < SLOTS => {
                        let place = channels.add(words[0] + slot / 2 * row_words);
                        let next = product.values::<SLOT, NEXT_BLOCK>();
                        let third = product.values::<NEXT, BLOCK>();
                        let fourth = product.values::<NEXT, NEXT_BLOCK>();
                        self.stage_fours(place, [product.values::<SLOT, BLOCK>(), next, third, fourth], [left, right]);
                    }
                    Tiling::QUADS | Tiling::QUADS_OF_HALVES | Tiling::FOURS | Tiling::FOURS_OF_HALVES => {}
                    Tiling::PAIRS => {
                        let place = channels.add(words[0] + slot * row_words).cast::<[f32; 2]>();
                        place.store([a, c]);
                        place.add(t.staged_channel_words / 2).store([b, d]);
                    }
                    _ if hint::opaque(t.close_channels) == 0 => {
                        let (row, half) = self.row_and_half(slot);
                        let place = channels.add(if half == 0 { words[0] } else { words[1] } + row * row_words);
                        self.stage_apart(place, [a, c]);
                        self.stage_apart(place.add(t.staged_channel_words), [b, d]);
                    }
                    _ => {
                        self.stage_close(position, slot, part * 8 + column, [a, c]);
                        self.stage_close(position, slot, part * 8 + column + 1, [b, d]);
                    }
                }
            });
        }
    }

    /// Stages what four neighbouring phases have for a lane's two positions in two channels, of which it is given the
    /// biases.
    ///
    /// # Safety
    /// The staged output has these words, at multiples of four, and nobody else reads or writes them.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn stage_fours(&self, place: SharedPtr<f32>, phases: [[f32; 4]; 4], [left, right]: [f32; 2]) {
        let position = self.t.line_phases.value() as u32 / 4;
        let place = place.cast::<[f32; 4]>();
        let next_channel = place.add(self.t.staged_channel_words / 4);
        // SAFETY: the caller's promise.
        unsafe {
            place.store(phases.map(|[a, ..]| a + left));
            place.add(position).store(phases.map(|[_, _, c, _]| c + left));
            next_channel.store(phases.map(|[_, b, ..]| b + right));
            next_channel.add(position).store(phases.map(|[.., d]| d + right));
        }
    }

    /// The row of a slot, and which half of its phases along x it has.
    #[cfg_attr(gpu, inline(always))]
    fn row_and_half(&self, slot: u32) -> (u32, u32) {
        if hint::opaque(self.t.halves) == 2 { (slot / 2, slot % 2) } else { (slot, 0) }
    }

    /// Where in a staged channel, from where a row begins, the line of a phase begins, or the phase's word of it.
    #[cfg_attr(gpu, inline(always))]
    fn staged_word(&self, phase: u32, half: u32) -> u32 {
        let t = self.t;
        let (line, column) = phase.divide(t.columns_x);
        let columns = t.columns_x.value() as u32;
        let x = half * columns + column;
        let (line, word) = if hint::opaque(t.line_phases.value() as u32) > 1 {
            let [low, high] = t.line_words;
            let place = (if x < 8 { low } else { high } >> (8 * (x % 8))) as u32 & 0xff;
            (line, if hint::opaque(t.line_gaps) == 0 { x } else { place })
        } else {
            (line * columns * t.halves + x, 0)
        };
        line * t.line_slots * TEAM_ROWS * t.line_phases.value() as u32 + word
    }

    /// Stages what a column has for a lane's two positions.
    ///
    /// # Safety
    /// The staged output has these two words, and nobody else reads or writes them.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn stage_apart(&self, place: SharedPtr<f32>, values: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            place.store(values[0]);
            place.add(self.t.line_phases.value() as u32).store(values[1]);
        }
    }

    /// Stages what a column has where phases lie close together. The last ones may be none's.
    ///
    /// # Safety
    /// As [`stage`](Self::stage).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn stage_close(&self, position: SharedPtr<f32>, row: u32, column: u32, values: [f32; 2]) {
        let t = self.t;
        // A power of two.
        let (channel, phase) = (column & (t.close_channels - 1), column >> t.close_channels.trailing_zeros());
        if phase < t.close_phases {
            let word = self.staged_word(phase, 0) + row * t.row_words;
            // SAFETY: the caller's promise.
            unsafe { self.stage_apart(position.add(channel * t.staged_channel_words + word), values) };
        }
    }

    /// Writes zero to all that is staged, and so to the words without taps.
    ///
    /// # Safety
    /// Nobody else reads or writes what the team stages.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn clear_staged(&self) {
        let (team, thread) = Self::team();
        let mut word = thread;
        while word < hint::opaque(self.t.output_bytes) / 4 {
            // SAFETY: the caller's promise; the word is one of the team's.
            unsafe { self.staged(team).add(word).store(0.0) };
            word += TEAM_THREADS;
        }
    }

    /// Whether the words without taps stay for all jobs what they are in the first one: each job has the same channels
    /// and stages all of them at once.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn gaps_stay(&self) -> bool {
        let t = self.t;
        hint::opaque(t.slices) == 1 && t.bias_words == t.tile_channels && self.has_all_biases()
    }

    /// Writes the biases, if there are any, to those words of the staged lines that have no taps, for so many channels
    /// from number `first` of the tile on. Each warp has channels of its own.
    ///
    /// # Safety
    /// The biases are there, and nobody else reads or writes these words.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn stage_gaps(&self, first: u32, channels: u32) {
        const WARPS: u32 = TEAM_THREADS / 32;
        let t = self.t;
        let (team, thread) = Self::team();
        let phases = hint::opaque(t.line_phases.value() as u32);
        // What pads a channel is part of no line.
        let rows = hint::opaque(t.staged_channel_words).divide(t.line_phases).0 / TEAM_ROWS;
        // Without biases the words stay zero.
        let channels = if self.bias.is_null() { 0 } else { channels };
        let mut channel = thread / 32;
        while channel < channels {
            let staged = self.staged(team).add(channel * t.staged_channel_words);
            // SAFETY: the tile has the channel.
            let bias = unsafe { self.biases(team).add(first + channel).load() };
            let mut gaps = hint::opaque(t.line_gaps);
            while gaps != 0 {
                let phase = gaps.trailing_zeros();
                let mut place = staged.add(thread % 32 * phases + phase);
                for _ in 0..rows {
                    // SAFETY: the caller's promise; the words are within the staged output.
                    unsafe {
                        place.store(bias);
                        place.add(TEAM_ROWS / 2 * phases).store(bias);
                    }
                    place = place.add(TEAM_ROWS * phases);
                }
                gaps &= gaps - 1;
            }
            channel += WARPS;
        }
    }

    /// Stores channels of the tile from number `first` on, which are staged or biases, piece by piece.
    ///
    /// # Safety
    /// All threads of the team come here together, after a barrier; lines begin and end at multiples of a piece.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_channels<P: Piece, const MARGINS: bool>(&self, first: u32, channels: u32) {
        let t = self.t;
        let channels = self.channels_from(first).min(channels);
        let output = self.first_output().wrapping_add(first as usize * t.output_plane as usize).cast::<P>();
        let (team, thread) = Self::team();
        let (period, phases) = (hint::opaque(t.line_period.value() as u32), hint::opaque(t.line_phases.value() as u32));
        let crew = Crew {
            lanes: hint::opaque(t.line_lanes),
            lane: thread & (t.line_lanes - 1),
            phases: phases / P::WORDS,
            // Not divided where it is not needed: a compiler that knows both numbers finds out this much.
            step: if period == phases { 1 } else { period.divide(t.line_phases).0 },
            plane: hint::opaque(t.output_plane as u32) / P::WORDS,
        };
        // Where lines are of fours, the first lane may begin as many pieces before them as otherwise words.
        let ahead = if P::WORDS > 1 { t.line_lanes - 1 } else { 0 };
        let reach = t.line_reach.saturating_sub(ahead) / P::WORDS + ahead;
        let lanes_log2 = crew.lanes.trailing_zeros();
        let (crews, number) = (TEAM_THREADS >> lanes_log2, thread >> lanes_log2);
        let (part, mut number) = if hint::opaque(t.line_crews) > 1 { number.divide(t.lines) } else { (0, number) };
        while number < t.lines.value() as u32 && part < t.line_crews {
            // SAFETY: the caller's promise.
            unsafe {
                let line: Line = bytemuck::cast(self.lines(team).add(number).cast::<[u32; 4]>().load());
                let output = output.wrapping_add((line.offset / P::WORDS) as usize);
                let staged = self.staged(team).add(line.source).cast::<P>();
                let pieces = if MARGINS { line.count() } else { line.words } / P::WORDS;
                let mut channel = part;
                // The last ones of a table may be empty.
                while pieces > 0 && channel < channels {
                    let next = channel + t.line_crews;
                    let bias = |channel: u32| self.biases(team).add(first + channel).load();
                    let share = |channel: u32| {
                        let staged = staged.add(channel * t.staged_channel_words / P::WORDS);
                        let share = crew.share(output, staged, channel, if channel < channels { pieces } else { 0 });
                        if MARGINS && channel < channels {
                            share.with_margins(&line, P::of(bias(channel)))
                        } else {
                            share
                        }
                    };
                    let [mut a, mut b] = [share(channel), share(next)];
                    if line.source == OutputPlace::BIAS {
                        a.store_all(&crew, reach, P::of(bias(channel)));
                        b.store_all(&crew, reach, P::of(if next < channels { bias(next) } else { 0.0 }));
                    } else {
                        match t.line_words_at_once {
                            _ if P::WORDS > 1 => store_both::<P, MARGINS, 2>(&mut a, &mut b, &crew, reach),
                            2 => store_both::<P, MARGINS, 2>(&mut a, &mut b, &crew, reach),
                            4 => store_both::<P, MARGINS, 4>(&mut a, &mut b, &crew, reach),
                            5 => store_both::<P, MARGINS, 5>(&mut a, &mut b, &crew, reach),
                            _ => store_both::<P, MARGINS, 3>(&mut a, &mut b, &crew, reach),
                        }
                    }
                    channel = next + t.line_crews;
                }
            }
            number += crews;
        }
    }
}

/// Where a lane stages its two positions of each block of eight columns.
struct LaneStaging {
    /// The first one of its two columns in a block.
    column: u32,
    /// The first position in the first staged channel.
    position: SharedPtr<f32>,
    /// The same in the channel of its first column.
    channels: SharedPtr<f32>,
    /// The bias of that channel; those of the others follow.
    biases: SharedPtr<f32>,
}

/// What a lane stores at once: a word, or four.
pub(super) trait Piece: Transfer {
    const WORDS: u32;

    /// The same value in all words.
    fn of(value: f32) -> Self;
}

impl Piece for f32 {
    const WORDS: u32 = 1;

    #[cfg_attr(gpu, inline(always))]
    fn of(value: f32) -> Self {
        value
    }
}

impl Piece for [f32; 4] {
    const WORDS: u32 = 4;

    #[cfg_attr(gpu, inline(always))]
    fn of(value: f32) -> Self {
        [value; 4]
    }
}

/// Stores two staged lines, which do not reach further than that from the first lanes', so many pieces of each lane at
/// once: the pieces of one are on their way while those of the other are.
///
/// # Safety
/// The lines are staged, and the block's own.
#[cfg_attr(gpu, inline(always))]
unsafe fn store_both<P: Piece, const MARGINS: bool, const PIECES: usize>(
    a: &mut Share<P>,
    b: &mut Share<P>,
    crew: &Crew,
    reach: u32,
) {
    let mut done = 0;
    while done < reach {
        // SAFETY: the caller's promise.
        unsafe {
            let values = [a.load::<MARGINS, PIECES>(crew), b.load::<MARGINS, PIECES>(crew)];
            a.store(crew, values[0]);
            b.store(crew, values[1]);
        }
        a.advance::<PIECES>(crew);
        b.advance::<PIECES>(crew);
        done += PIECES as u32 * crew.lanes;
    }
}

/// Lanes that store a line together. What does not change is kept here, not found again for each line. All counts are
/// of pieces.
struct Crew {
    /// How many they are, a power of two.
    lanes: u32,
    /// Which of them this is.
    lane: u32,
    /// Those of a line for each position: a power of two, unless the step is one.
    phases: u32,
    /// From one of a line to the next in the output, on average over those of a position.
    step: u32,
    /// From one channel to the next.
    plane: u32,
}

/// What a lane has still to store of a line of a channel: one piece of so many.
struct Share<P> {
    /// Its next piece in the output, which may lie before the line.
    place: *mut P,
    /// The same piece where it is staged.
    values: SharedPtr<P>,
    /// The number of its first piece in the line; negative if it lies before it.
    first: i32,
    /// Pieces from there that lead to the end of the line; what the lane has gone on is not counted.
    all_pieces: i32,
    /// The same for its next piece alone, which does not exist if it lies before the line.
    pieces: i32,
    /// What is not staged of it.
    margins: Margins<P>,
}

/// Biases beside a line that are written with it, so that the sectors that it begins and ends in are written as a
/// whole.
#[derive(Clone, Copy)]
struct Margins<P> {
    /// Pieces of them behind the line.
    behind: i32,
    /// Pieces of the line itself.
    line: i32,
    bias: P,
}

impl Crew {
    /// The lane's share in a line of so many `pieces`, which begins at `output` in the first channel, and is `staged`.
    #[cfg_attr(gpu, inline(always))]
    fn share<P: Piece>(&self, output: *mut P, staged: SharedPtr<P>, channel: u32, pieces: u32) -> Share<P> {
        let bytes = 4 * P::WORDS as usize;
        let start = output.wrapping_add(channel as usize * self.plane as usize);
        let (place, first) = if self.step == 1 {
            let ahead = (start.addr() / bytes) as u32 & (self.lanes - 1);
            // Where a line of the cache begins, or a part of it, and the lane's piece there.
            let mask = bytes * self.lanes as usize - 1;
            (
                start.map_addr(|address| (address & !mask) | (bytes * self.lane as usize)),
                self.lane as i32 - ahead as i32,
            )
        } else {
            let (position, phase) = (self.lane & !(self.phases - 1), self.lane & (self.phases - 1));
            (start.wrapping_add(position as usize * self.step as usize + phase as usize), self.lane as i32)
        };
        let all_pieces = pieces as i32;
        let pieces = if first < 0 { i32::MIN } else { all_pieces };
        let margins = Margins { behind: 0, line: 0, bias: P::of(0.0) };
        Share { place, values: staged.add(first as u32), first, all_pieces, pieces, margins }
    }

    /// The lane has the piece of a share that is so many times its lanes further on if its first one is below this.
    #[cfg_attr(gpu, inline(always))]
    fn limit<P>(&self, share: &Share<P>, further: usize) -> i32 {
        if further == 0 { share.pieces } else { share.all_pieces - further as i32 * self.lanes as i32 }
    }
}

impl<P: Piece> Share<P> {
    /// The share in the line with the biases beside it, as far as the sectors go that it begins and ends in.
    #[cfg_attr(gpu, inline(always))]
    fn with_margins(self, line: &Line, bias: P) -> Self {
        let sector = SECTOR_WORDS / P::WORDS;
        let place =
            |number: i32| ((self.place.addr() / size_of::<P>()) as u32).wrapping_add((number - self.first) as u32);
        let (begin, end) = (place(0) % sector, place(self.all_pieces).wrapping_neg() % sector);
        let before = if line.words & Line::BIASES_BEFORE != 0 { begin as i32 } else { 0 };
        let behind = if line.words & Line::BIASES_BEHIND != 0 { end as i32 } else { 0 };
        let (first, all_pieces) = (self.first + before, before + self.all_pieces + behind);
        let pieces = if first < 0 { i32::MIN } else { all_pieces };
        let margins = Margins { behind, line: self.all_pieces, bias };
        Self { first, all_pieces, pieces, margins, ..self }
    }

    /// The lane's next pieces.
    ///
    /// # Safety
    /// The line is staged.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load<const MARGINS: bool, const PIECES: usize>(&self, crew: &Crew) -> [P; PIECES] {
        let mut values = [P::of(0.0); PIECES];
        unrolled!(PIECE in 0..PIECES, at most 8 => {
            let place = self.values.add(PIECE as u32 * crew.lanes);
            // SAFETY: the caller's promise; the line has such a piece if the condition holds.
            values[PIECE % PIECES] = unsafe {
                if MARGINS {
                    self.load_or_bias(place, PIECE as i32 * crew.lanes as i32)
                } else {
                    place.load_below(self.first, crew.limit(self, PIECE))
                }
            };
        });
        values
    }

    /// The piece at a place, that many further on than the next one; or the bias, if it is none of the line itself.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load_or_bias(&self, place: SharedPtr<P>, further: i32) -> P {
        let Margins { behind, line, bias, .. } = self.margins;
        // Pieces of the line behind this one: as an unsigned number, fewer than all if this is one of them.
        let left = self.all_pieces - further - self.first - behind - 1;
        // SAFETY: the caller's promise.
        let value = unsafe { place.load_below(left ^ i32::MIN, line ^ i32::MIN) };
        if (left as u32) < line as u32 { value } else { bias }
    }

    /// Stores them.
    ///
    /// # Safety
    /// The line is the block's own.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store<const PIECES: usize>(&self, crew: &Crew, values: [P; PIECES]) {
        unrolled!(PIECE in 0..PIECES, at most 8 => {
            let place = self.place.wrapping_add((PIECE as u32 * crew.lanes).wrapping_mul(crew.step) as usize);
            // SAFETY: the caller's promise; the line has such a piece if the condition holds.
            unsafe { mem::store_below(self.first, crew.limit(self, PIECE), place, values[PIECE % PIECES]) };
        });
    }

    /// Stores the same value in all pieces, which are not further than `reach` from the first lane's.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_all(&mut self, crew: &Crew, reach: u32, value: P) {
        let mut done = 0;
        while done < reach {
            // SAFETY: the caller's promise.
            unsafe { self.store(crew, [value; 3]) };
            self.advance::<3>(crew);
            done += 3 * crew.lanes;
        }
    }

    /// Goes on to the pieces after those.
    #[cfg_attr(gpu, inline(always))]
    fn advance<const PIECES: usize>(&mut self, crew: &Crew) {
        let pieces = PIECES as u32 * crew.lanes;
        self.place = self.place.wrapping_add(pieces.wrapping_mul(crew.step) as usize);
        self.values = self.values.add(pieces);
        self.all_pieces -= pieces as i32;
        self.pieces = self.all_pieces;
    }
}
