//! Storing: where the elements of a job lie in the output, and by which of three ways they get there.
//!
//! What a lane holds of the product are neighbouring elements of an output row (`held`). Where it can store them at
//! once, it does that itself (`direct`), and if rows are no whole sectors of the memory, warps pass some of them on to
//! each other first (`sectors`). Or, on compute capability 9.0, boxes of them are copied by the hardware (`boxed`),
//! where rows are aligned to 16 bytes. Elsewhere they go through shared memory, so that lanes write whole sectors of a
//! line (`staged`), or words of any line side by side where lines are short (`short_lines`).
//!
//! A line is what a team writes of an output row: where it begins is the same for every channel. A table in shared
//! memory has the lines of a job. Where there is room, each pass has a table of its own, which serves the next job of
//! that pass, too, and there are the biases of all channels: then few jobs have to find any.

#[cfg(cuda_arch = "sm_90a")]
mod boxed;
mod direct;
mod held;
mod sectors;
mod short_lines;
mod staged;

use core::ops::Range;

use bytemuck::{Pod, Zeroable};
#[cfg(cuda_arch = "sm_90a")]
use cuda_std::async_copy::TensorMap;
use cuda_std::{
    hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    STORE, TEAM_ROWS, TEAM_THREADS, is_specialised,
    multiply::Product,
    parameters::{OutputPlace, Tiling},
    place::{PassHead, Place},
};
use crate::index::Index;
pub use sectors::SECTOR_WORDS;

/// Where a job's outputs go.
pub(super) struct Target<'a> {
    pub(super) t: &'a Tiling,
    pub(super) tables: *const [u32; 4],
    pub(super) bias: *const f32,
    pub(super) output: *mut f32,
    #[cfg(cuda_arch = "sm_90a")]
    pub(super) output_map: *const TensorMap,
    pub(super) place: Place,
}

/// What a team writes of an output row, for every channel.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Line {
    /// Where in a channel it begins, counted from where the tile begins.
    offset: u32,
    /// Where its values are staged, in words; or [`OutputPlace::BIAS`].
    source: u32,
    /// Its words: none if there is no such row. With [`Line::BIASES_BEFORE`] and [`Line::BIASES_BEHIND`].
    words: u32,
    /// Its output row, counted from where the tile begins.
    row: u32,
}

impl Line {
    /// With the words: those before it in the sector that it begins in are biases.
    const BIASES_BEFORE: u32 = 1 << 31;

    /// With the words: those behind it in the sector that it ends in are biases.
    const BIASES_BEHIND: u32 = 1 << 30;

    /// The number of its words.
    #[cfg_attr(gpu, inline(always))]
    fn count(&self) -> u32 {
        self.words & !(Self::BIASES_BEFORE | Self::BIASES_BEHIND)
    }
}

/// What a table of lines is for, of no lines: no pass has this number.
pub(super) const NOTHING: u32 = u32::MAX;

/// Bytes of an entry of the table of lines.
pub const LINE_BYTES: u32 = size_of::<Line>() as u32;

impl Target<'_> {
    /// Finds the lines of the job, and the biases of the tile's channels, unless they are there, as nothing is in the
    /// first job of the block. What the only table of lines is for is `located`, if that is kept in a register.
    ///
    /// # Safety
    /// All threads of the team come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn locate(&self, located: &mut u32, is_first_job: bool) {
        let (team, _) = Self::team();
        let has_biases = self.has_all_biases() && !is_first_job;
        let (now, before) = (self.located(), *located);
        *located = now;
        // SAFETY: the caller's promise. Barriers lie before and behind what is written: nobody reads what is for the
        // jobs before any more, or what is for this one already.
        unsafe {
            let has_lines = if self.is_located_in_register() {
                before == now
            } else {
                !is_first_job && self.located_in(team, self.table()).load() == now
            };
            if has_biases && has_lines {
                return;
            }
            sync_team();
            if !has_biases {
                self.load_biases();
            }
            if !has_lines {
                self.find_lines(now, is_first_job);
            }
            if is_first_job && hint::opaque(self.t.line_gaps) != 0 {
                self.clear_staged();
                if self.gaps_stay() {
                    sync_team();
                    self.stage_gaps(0, self.t.channels_of_slice(0));
                }
            }
            sync_team();
        }
    }

    /// Whether what a table is for is kept in a register, not in shared memory: for one table, where there is a
    /// register for it.
    #[cfg_attr(gpu, inline(always))]
    fn is_located_in_register(&self) -> bool {
        is_specialised() && self.t.line_tables == 1
    }

    /// Whether lines are stored with the biases beside them. In a kernel for any layer there are no registers for that.
    #[cfg_attr(gpu, inline(always))]
    fn has_margins(&self) -> bool {
        is_specialised() && hint::opaque(self.t.line_end) > 0
    }

    /// What the tile's lines depend on: a bit for each axis along which some of them do not exist, at either end, and
    /// the pass. Tiles that are alike in these have the same lines, counted from where they begin.
    #[cfg_attr(gpu, inline(always))]
    fn located(&self) -> u32 {
        let t = self.t;
        let ends_beyond = |axis: usize| {
            let end = (self.place.origin[axis] + t.tile[axis + 1]).wrapping_mul(t.stride[axis]);
            end.wrapping_sub(t.lead[axis]) > t.output[axis]
        };
        let begins_before = |axis: usize| t.lead[axis] > 0 && self.place.origin[axis] == 0;
        let samples_end_beyond = self.place.sample + t.tile[0] > t.batch;
        let edges = [
            ends_beyond(0),
            ends_beyond(1),
            ends_beyond(2),
            samples_end_beyond,
            begins_before(0),
            begins_before(1),
            begins_before(2),
        ];
        let numbered = |before: u32, edge| before * 2 + u32::from(edge);
        let located = edges.into_iter().fold(self.place.pass, numbered);
        if !self.has_margins() {
            return located;
        }
        let [_, first_y, first_x] = self.origin();
        let end = |axis: usize, first: u32| first + t.tile[axis + 1] * t.stride[axis];
        let edges = [first_y == 0, end(1, first_y) >= t.output[1], first_x == 0, end(2, first_x) >= t.line_end];
        edges.into_iter().fold(located, numbered)
    }

    /// Brings the biases of the tile's channels to shared memory, or of all channels.
    ///
    /// # Safety
    /// All threads of the team come here together, when nobody reads the biases of the job before any more.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn load_biases(&self) {
        let t = self.t;
        let (team, thread) = Self::team();
        // A power of two, found again for each job and not kept in a register meanwhile.
        let close = hint::opaque(t.close_channels);
        let mut number = thread;
        while number < t.bias_words {
            let (group, channel) = if self.has_all_biases() {
                number.divide(t.tiled_channels)
            } else {
                (self.place.group, self.place.first_channel + number)
            };
            let channel = if close > 0 { channel & (close - 1) } else { channel };
            let exists = !self.bias.is_null() && channel < t.out_per_group;
            let channel = group as usize * t.out_per_group as usize + channel as usize;
            // SAFETY: a bias has an element per output channel; a team has room for so many biases.
            unsafe {
                let bias = if exists { mem::load_readonly(self.bias.add(channel)) } else { 0.0 };
                self.all_biases(team).add(number).store(bias);
            }
            number += TEAM_THREADS;
        }
    }

    /// Fills the pass's table of lines, by place of the pass, then by row of the box, and notes what it is for `now`;
    /// in the first job, that the others are for nothing.
    ///
    /// # Safety
    /// All threads of the team come here together, when nobody reads the lines of the job before any more.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn find_lines(&self, now: u32, is_first_job: bool) {
        let t = self.t;
        let (team, thread) = Self::team();
        let lines = t.lines.value() as u32;
        let mut number = thread;
        while number < lines {
            let (place, segment) = number.divide(t.segments);
            // SAFETY: the pass has such a place; the table has an entry for each line.
            unsafe {
                let place = PassHead::output(t, self.tables, self.place.pass, place);
                let mut line = self.line(&place, segment);
                if self.has_margins() {
                    line.words |= self.margins_beside(&place, segment, line.words);
                }
                self.lines(team).add(number).cast().store(bytemuck::cast::<Line, [u32; 4]>(line));
            }
            number += TEAM_THREADS;
        }
        let is_own = thread == self.table();
        if !self.is_located_in_register() && (is_own || is_first_job && thread < t.line_tables) {
            // SAFETY: there is such a table.
            unsafe { self.located_in(team, thread).store(if is_own { now } else { NOTHING }) };
        }
    }

    /// The line of a place in number `segment` of the rows of the box that the team's positions are in.
    #[cfg_attr(gpu, inline(always))]
    fn line(&self, place: &OutputPlace, segment: u32) -> Line {
        let t = self.t;
        let (row, positions) = self.segment(segment);
        let (slice, y) = row.divide(t.box_y);
        let (n, z) = slice.divide(t.box_z);
        let skipped = positions.start - row * t.box_x.value() as u32;
        let z = z * t.step_z * t.stride[0] + place.origin[0];
        let y = y * t.step_y * t.stride[1] + place.origin[1];
        let x = skipped * t.stride[2] + place.origin[2];
        let [first_z, first_y, first_x] = self.origin();
        let [depth, height, width] = t.output;
        let first_x = first_x.wrapping_add(x);
        // Words that are before the first one of the row.
        let ahead = if t.lead[2] > 0 { (first_x as i32).min(0).unsigned_abs() } else { 0 };
        // What lies before the output wraps around.
        let exists = place.source != OutputPlace::NONE
            && positions.start < positions.end
            && self.place.sample + n < t.batch
            && first_z.wrapping_add(z) < depth
            && first_y.wrapping_add(y) < height
            && first_x.wrapping_add(ahead) < width;
        let phases = t.line_phases.value() as u32;
        let words = || {
            let (whole, rest) = width.wrapping_sub(first_x).divide(t.line_period);
            let of_tile = (positions.end - positions.start) * t.line_slots * phases;
            (whole * phases + rest.min(phases)).min(of_tile).saturating_sub(ahead)
        };
        let source = match place.source {
            OutputPlace::BIAS => OutputPlace::BIAS,
            first => first.wrapping_add((positions.start % TEAM_ROWS) * t.line_slots * phases + ahead),
        };
        Line {
            offset: n * t.output_sample as u32 + (z * height + y) * width + x + ahead,
            source,
            words: if exists { words() } else { 0 },
            row: z * height + y,
        }
    }

    /// What is added to the `words` of a place's line in a row of the box: on which sides of them there are biases.
    #[cfg_attr(gpu, inline(always))]
    fn margins_beside(&self, place: &OutputPlace, segment: u32, words: u32) -> u32 {
        let t = self.t;
        let (row, positions) = self.segment(segment);
        let (_, y) = row.divide(t.box_y);
        let [_, first_y, first_x] = self.origin();
        let x = first_x + (positions.start - row * t.box_x.value() as u32) * t.stride[2] + place.origin[2];
        let y = first_y + y * t.step_y * t.stride[1] + place.origin[1];
        let [before, behind] = t.margins;
        let is_in = |phases: u32| phases >> (y % t.stride[1]) & 1 != 0;
        (u32::from(is_in(before) && y > 0 && x == 0) * Line::BIASES_BEFORE)
            | (u32::from(is_in(behind) && y < t.output[1] - 1 && x + words == t.line_end) * Line::BIASES_BEHIND)
    }

    /// A row of the box, the team's number `segment`, and those of its positions that are the team's.
    #[cfg_attr(gpu, inline(always))]
    fn segment(&self, segment: u32) -> (u32, Range<u32>) {
        let (team, _) = Self::team();
        let box_x = self.t.box_x.value() as u32;
        let (first, end) = (team * TEAM_ROWS, self.t.positions.min((team + 1) * TEAM_ROWS));
        let row = first.divide(self.t.box_x).0 + segment;
        (row, first.max(row * box_x)..end.min((row + 1) * box_x))
    }

    /// Where in the output the tile begins. What lies before the output wraps around.
    #[cfg_attr(gpu, inline(always))]
    fn origin(&self) -> [u32; 3] {
        let t = self.t;
        [0, 1, 2].map(|axis| (self.place.origin[axis] * t.stride[axis]).wrapping_sub(t.lead[axis]))
    }

    /// Stores the product of the team, or the biases where the pass has no taps.
    ///
    /// # Safety
    /// All threads of the team come here together, with a complete product if there is one; the lines have been found,
    /// and are the block's own.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        has_product: bool,
    ) {
        // The host knows the alignment of the rows to each other, not that of the first one.
        let is_aligned = |words: usize| self.output.addr().is_multiple_of(4 * words);
        let held = hint::opaque(self.t.held);
        let is_direct = has_product && hint::opaque(self.t.direct_words) != 0;
        #[cfg(cuda_arch = "sm_90a")]
        if has_product && is_specialised() && self.t.boxed_words != 0 && is_aligned(4) {
            // SAFETY: the caller's promise; the host's word for the map.
            return unsafe {
                match held {
                    Tiling::PAIRS => self.store_boxed::<BLOCKS, SLOTS, { Tiling::PAIRS }>(product),
                    Tiling::QUADS => self.store_boxed::<BLOCKS, SLOTS, { Tiling::QUADS }>(product),
                    _ => self.store_boxed::<BLOCKS, SLOTS, { Tiling::QUADS_OF_HALVES }>(product),
                }
            };
        }
        // SAFETY: the caller's promise; the host's word for the rows.
        unsafe {
            match held {
                Tiling::PAIRS if is_direct && is_aligned(2) => {
                    self.store_direct::<BLOCKS, SLOTS, { Tiling::PAIRS }>(product)
                }
                Tiling::QUADS if is_direct && is_aligned(4) => {
                    self.store_direct::<BLOCKS, SLOTS, { Tiling::QUADS }>(product)
                }
                Tiling::QUADS_OF_HALVES if is_direct && is_aligned(4) => {
                    self.store_direct::<BLOCKS, SLOTS, { Tiling::QUADS_OF_HALVES }>(product)
                }
                _ => self.store_staged(product, has_product),
            }
        }
    }

    /// Waits until all that the thread stores has left the shared memory, and for the launch before this one, if it
    /// runs beside it: a grid may not end before.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn finish() {
        #[cfg(cuda_arch = "sm_90a")]
        {
            cuda_std::async_copy::await_bulk_reads::<0>();
            cuda_std::grid::await_prerequisites();
        }
    }

    /// The output of the tile's first channel, where the tile begins, which may be before the output does.
    #[cfg_attr(gpu, inline(always))]
    fn first_output(&self) -> *mut f32 {
        let t = self.t;
        let channel = self.place.group as usize * t.out_per_group as usize + self.place.first_channel as usize;
        let sample = self.place.sample as usize * t.output_sample as usize;
        let [z, y, x] = self.origin();
        // A channel has fewer than 2^31 elements.
        let origin = z.wrapping_mul(t.output[1]).wrapping_add(y).wrapping_mul(t.output[2]).wrapping_add(x) as i32;
        let first = self.output.wrapping_add(sample + channel * t.output_plane as usize);
        first.wrapping_offset(origin as isize)
    }

    /// The tile's output channels from number `first` on.
    #[cfg_attr(gpu, inline(always))]
    fn channels_from(&self, first: u32) -> u32 {
        self.t.out_per_group.saturating_sub(self.place.first_channel + first)
    }

    /// The thread's team, and its number there.
    #[cfg_attr(gpu, inline(always))]
    fn team() -> (u32, u32) {
        let thread = hint::opaque(thread::thread_idx_x());
        (thread / TEAM_THREADS, thread % TEAM_THREADS)
    }

    /// The first of the two rows of the product that a thread of a team has; the other one follows.
    #[cfg_attr(gpu, inline(always))]
    fn first_row(thread: u32) -> u32 {
        thread / 32 * 16 + thread % 32 / 4 * 2
    }

    /// The number of the table that the pass's lines are in.
    #[cfg_attr(gpu, inline(always))]
    fn table(&self) -> u32 {
        // Found again for each job, not kept in a register meanwhile.
        self.place.pass & (hint::opaque(self.t.line_tables) - 1)
    }

    /// A table of a team's lines, with an entry behind them.
    #[cfg_attr(gpu, inline(always))]
    fn lines_in(&self, team: u32, table: u32) -> SharedPtr<Line> {
        let t = self.t;
        let number = team * t.line_tables + table;
        // Found again for each job, not kept in a register meanwhile.
        dynamic_shared_mem::<Line>()
            .add(t.lines_start / LINE_BYTES + number * (hint::opaque(t.lines.value() as u32) + 1))
    }

    /// The lines of the pass in its table.
    #[cfg_attr(gpu, inline(always))]
    fn lines(&self, team: u32) -> SharedPtr<Line> {
        self.lines_in(team, self.table())
    }

    /// What a table is for, in the entry behind its lines.
    #[cfg_attr(gpu, inline(always))]
    fn located_in(&self, team: u32, table: u32) -> SharedPtr<u32> {
        self.lines_in(team, table).add(self.t.lines.value() as u32).cast()
    }

    /// Whether a team has the biases of all channels.
    #[cfg_attr(gpu, inline(always))]
    fn has_all_biases(&self) -> bool {
        u64::from(self.t.bias_words) == self.t.groups.value() * self.t.tiled_channels.value()
    }

    /// The biases of the tile's channels.
    #[cfg_attr(gpu, inline(always))]
    fn biases(&self, team: u32) -> SharedPtr<f32> {
        let t = self.t;
        let before = self.place.group * t.tiled_channels.value() as u32 + self.place.first_channel;
        self.all_biases(team).add(if self.has_all_biases() { before } else { 0 })
    }

    /// The biases that a team has.
    #[cfg_attr(gpu, inline(always))]
    fn all_biases(&self, team: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add(self.t.bias_start / 4 + team * self.t.bias_words)
    }
}

/// Waits for all threads of this thread's team.
///
/// # Safety
/// They all come here.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn sync_team() {
    // SAFETY: the caller's promise.
    unsafe { thread::sync_named(STORE + thread::thread_idx_x() / TEAM_THREADS, TEAM_THREADS) };
}
