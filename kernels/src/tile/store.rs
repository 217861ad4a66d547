//! Storing: where the elements of a job lie in the output, and by which of two ways they get there.
//!
//! What a lane holds of the product are neighbouring elements of an output row. Where those are aligned, it stores them itself (`direct`).
//! Elsewhere they go through shared memory, so that lanes store neighbouring elements (`staged`).
//!
//! Where elements lie is the same for every channel. Each team looks it up in a table in shared memory: for each element its offset in
//! the output, and which staged words have its values. The table is made for the first job, and again where a tile differs.

mod direct;
mod staged;

use cuda_std::{
    hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    STORE, TEAM_ROWS, TEAM_THREADS,
    multiply::Product,
    parameters::{OutputPlace, Tiling},
    place::{PassHead, Place},
    unrolled::unrolled,
};
use crate::index::Index;
pub use staged::QUAD;

/// Where a job's outputs go.
pub(super) struct Target<'a> {
    pub(super) t: &'a Tiling,
    pub(super) tables: *const [u32; 4],
    pub(super) bias: *const f32,
    pub(super) output: *mut f32,
    pub(super) place: Place,
}

/// In the table of elements, as the offset: the element does not exist.
const NOWHERE: u32 = u32::MAX;

/// In the table of elements, as the staged words: there are none, the values are the biases.
const ONLY_BIAS: u32 = u32::MAX;

/// A place that a pass does not have.
const ABSENT: OutputPlace = OutputPlace { origin: [0; 3], source: OutputPlace::NONE };

/// What a team's table of elements is for: a pass, and at which edges of the output. Tiles that are alike in these have the same elements,
/// counted from where they begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Located(u32);

impl Located {
    /// Nothing has been looked up, and no biases.
    pub(super) const NOTHING: Self = Self(u32::MAX);
}

impl Target<'_> {
    /// Looks up where the elements of a channel lie, and the biases of the tile's channels.
    ///
    /// # Safety
    /// All threads of the team come here together.
    #[inline(always)]
    pub(super) unsafe fn locate(&self, located: &mut Located) {
        let (team, thread) = Self::team();
        let all_have_the_same_channels = self.t.channel_tiles.value() * self.t.groups.value() == 1;
        let has_biases = all_have_the_same_channels && *located != Located::NOTHING;
        let now = self.located();
        let has_elements = *located == now;
        *located = now;
        if has_biases && has_elements {
            return;
        }
        // SAFETY: the caller's promise. Barriers lie before and behind: nobody reads what is for the job before any more, or what is for
        // this one already.
        unsafe {
            self.sync_team();
            if !has_biases {
                self.load_biases(team, thread);
            }
            if !has_elements {
                self.fill_elements(team, thread);
            }
            self.sync_team();
        }
    }

    /// What the tile's elements depend on: a bit for each axis along which some of them do not exist, and the pass.
    #[inline(always)]
    fn located(&self) -> Located {
        let t = self.t;
        let ends_beyond =
            |axis: usize| (self.place.origin[axis] + t.tile[axis + 1]).wrapping_mul(t.stride[axis]) > t.output[axis];
        let samples_end_beyond = self.place.sample + t.tile[0] > t.batch;
        let edges = [ends_beyond(0), ends_beyond(1), ends_beyond(2), samples_end_beyond];
        Located(edges.into_iter().fold(self.place.pass, |number, edge| number * 2 + u32::from(edge)))
    }

    /// Brings the biases of the tile's channels to shared memory.
    #[inline(always)]
    unsafe fn load_biases(&self, team: u32, thread: u32) {
        let close = self.t.close_channels;
        // A power of two.
        let channel = self.place.first_channel + if close > 0 { thread & (close - 1) } else { thread };
        if thread < self.t.tile_channels {
            let exists = !self.bias.is_null() && channel < self.t.out_per_group;
            let channel = self.place.group as usize * self.t.out_per_group as usize + channel as usize;
            // SAFETY: a bias has an element per output channel.
            let bias = if exists { unsafe { mem::load_readonly(self.bias.add(channel)) } } else { 0.0 };
            // SAFETY: a team has room for the biases of its channels, which are fewer than its threads.
            unsafe { self.biases(team).add(thread).store(bias) };
        }
    }

    /// Fills the table of elements: for each place of the pass, what its rows of the product are, with interleaved places in turn.
    #[inline(always)]
    unsafe fn fill_elements(&self, team: u32, thread: u32) {
        let interleaved = self.t.interleaved.value() as u32;
        let lines = TEAM_ROWS * interleaved;
        let mut line = thread;
        while line < lines {
            let (row, neighbour) = line.divide(self.t.interleaved);
            let position = self.position(team * TEAM_ROWS + row);
            let mut element = self.elements(team).add(line);
            let mut number = neighbour;
            while number < self.t.places {
                let load = |place: u32| {
                    if place < self.t.places {
                        // SAFETY: the table has such a pass, and a pass has that many places.
                        unsafe { PassHead::output(self.t, self.tables, self.place.pass, place) }
                    } else {
                        ABSENT
                    }
                };
                // On their way together.
                let places = [0, 1, 2, 3].map(|next| load(number + next * interleaved));
                unrolled!(NEXT in 0..4, at most 4 => {
                    if number < self.t.places {
                        let place = places[NEXT % 4];
                        let word = match place.source {
                            OutputPlace::BIAS => ONLY_BIAS,
                            first => first.wrapping_add(row * QUAD),
                        };
                        // SAFETY: the table of elements has an entry for each place and row.
                        unsafe { element.store([self.offset(&place, position), word]) };
                    }
                    number += interleaved;
                    element = element.add(lines);
                });
            }
            line += TEAM_THREADS;
        }
    }

    /// The output position of a row of the product for the first phase, and its sample, counted from where the tile begins. Rows
    /// without a position get one beyond all samples.
    #[inline(always)]
    fn position(&self, row: u32) -> [u32; 4] {
        let t = self.t;
        let (line, x) = row.divide(t.box_x);
        let (slice, y) = line.divide(t.box_y);
        let (n, z) = slice.divide(t.box_z);
        let n = if row < t.positions { n } else { t.batch };
        [n, z * t.step_z * t.stride[0], y * t.step_y * t.stride[1], x * t.stride[2]]
    }

    /// Where in a channel the element of a place and a position is, counted from where the tile begins.
    #[inline(always)]
    fn offset(&self, output: &OutputPlace, [n, z, y, x]: [u32; 4]) -> u32 {
        let [z, y, x] = [z + output.origin[0], y + output.origin[1], x + output.origin[2]];
        let [first_z, first_y, first_x] = self.origin();
        let [depth, height, width] = self.t.output;
        let inside = first_z + z < depth && first_y + y < height && first_x + x < width;
        if output.source == OutputPlace::NONE || !inside || self.place.sample + n >= self.t.batch {
            return NOWHERE;
        }
        n * self.t.output_sample as u32 + (z * height + y) * width + x
    }

    /// Where in the output the tile begins.
    #[inline(always)]
    fn origin(&self) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.place.origin[axis] * self.t.stride[axis])
    }

    /// Stores the product of the team.
    ///
    /// # Safety
    /// All threads of the team come here together, with a complete product; the elements have been looked up, and are the block's own.
    #[inline(always)]
    pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(&self, product: &impl Product<BLOCKS, SLOTS>) {
        // The host knows the alignment of the rows to each other, not that of the first one.
        let is_aligned = |words: usize| self.output.addr().is_multiple_of(4 * words);
        // SAFETY: the caller's promise; the host's word for the rows.
        unsafe {
            match self.t.direct {
                Tiling::PAIRS if is_aligned(2) => self.store_pairs(product),
                Tiling::QUADS if is_aligned(4) => self.store_quads(product),
                Tiling::QUADS_OF_HALVES if is_aligned(4) => self.store_quads_of_halves(product),
                _ => self.store_staged(product),
            }
        }
    }

    /// The output of the tile's first channel, where the tile begins.
    #[inline(always)]
    fn first_output(&self) -> *mut f32 {
        let t = self.t;
        let channel = self.place.group as usize * t.out_per_group as usize + self.place.first_channel as usize;
        let sample = self.place.sample as usize * t.output_sample as usize;
        let [z, y, x] = self.origin();
        let origin = (z * t.output[1] + y) * t.output[2] + x;
        self.output.wrapping_add(sample + channel * t.output_plane as usize + origin as usize)
    }

    /// The tile's output channels from number `first` on.
    #[inline(always)]
    fn channels_from(&self, first: u32) -> u32 {
        self.t.out_per_group.saturating_sub(self.place.first_channel + first)
    }

    /// The thread's team, and its number there.
    #[inline(always)]
    fn team() -> (u32, u32) {
        let thread = hint::opaque(thread::thread_idx_x());
        (thread / TEAM_THREADS, thread % TEAM_THREADS)
    }

    /// The first of the two rows of the product that a thread of a team has; the other one follows.
    #[inline(always)]
    fn first_row(thread: u32) -> u32 {
        thread / 32 * 16 + thread % 32 / 4 * 2
    }

    #[inline(always)]
    unsafe fn sync_team(&self) {
        let team = thread::thread_idx_x() / TEAM_THREADS;
        // SAFETY: the whole team comes here.
        unsafe { thread::sync_named(STORE + team, TEAM_THREADS) };
    }

    /// The table of a team's elements: offset and staged word.
    #[inline(always)]
    fn elements(&self, team: u32) -> SharedPtr<[u32; 2]> {
        dynamic_shared_mem::<[u32; 2]>().add(self.t.places_start / 8 + team * self.t.places * TEAM_ROWS)
    }

    /// The biases of a team's channels.
    #[inline(always)]
    fn biases(&self, team: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add(self.t.bias_start / 4 + team * self.t.tile_channels)
    }
}
