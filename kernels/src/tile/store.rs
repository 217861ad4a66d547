//! Storing: the sums go through shared memory, some channels at a time, so that a warp stores neighbouring elements of an output row.
//!
//! Which elements these are is the same for every channel. Each team looks them up once per job, in a table in shared memory: for
//! each element its offset in the output, and which staged word has its value.

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

/// In the table of elements, as the staged word: there is none, the value is the bias.
const ONLY_BIAS: u32 = u32::MAX;

/// Elements that a thread has under way at a time.
const BATCH: usize = 8;

/// What a team's table of elements is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Located(u32);

impl Located {
    /// Nothing has been looked up, and no biases.
    pub(super) const NOTHING: Self = Self(u32::MAX);

    /// A tile that lies outside of the output in part.
    const AT_EDGE: Self = Self(u32::MAX - 1);

    /// The tiles of a pass that lie inside of the output as a whole: they have the same elements.
    const fn inside(pass: u32) -> Self {
        Self(pass)
    }
}

impl Target<'_> {
    /// Looks up where the elements of a channel lie, and the biases of the tile's channels.
    ///
    /// # Safety
    /// All threads of the team come here together, and none is storing any more.
    #[inline(always)]
    pub(super) unsafe fn locate(&self, located: &mut Located) {
        let (team, thread) = Self::team();
        // SAFETY: the caller's promise.
        unsafe {
            let all_have_the_same_channels = self.t.channel_tiles.value() * self.t.groups.value() == 1;
            if !all_have_the_same_channels || *located == Located::NOTHING {
                self.load_biases(team, thread);
                self.sync_team();
            }
            let now = if self.is_inside() { Located::inside(self.place.pass) } else { Located::AT_EDGE };
            if now == Located::AT_EDGE || *located != now {
                self.fill_elements(team, thread);
            }
            *located = now;
        }
    }

    /// Whether all elements of the tile exist.
    #[inline(always)]
    fn is_inside(&self) -> bool {
        let t = self.t;
        let ends_by = |axis: usize| (self.place.origin[axis] + t.tile[axis + 1]) * t.stride[axis] <= t.output[axis];
        ends_by(0) && ends_by(1) && ends_by(2) && self.place.sample + t.tile[0] <= t.batch
    }

    /// Brings the biases of the tile's channels to shared memory.
    #[inline(always)]
    unsafe fn load_biases(&self, team: u32, thread: u32) {
        let channel = self.place.first_channel + thread;
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
            let mut place = self.elements(team).add(line);
            let mut number = neighbour;
            while number < self.t.places {
                // SAFETY: the caller's promise; the table has an entry per element, and a pass has that many places.
                unsafe {
                    let output = PassHead::output(self.t, self.tables, self.place.pass, number);
                    let word = match output.source {
                        OutputPlace::BIAS => ONLY_BIAS,
                        matrix => matrix.wrapping_mul(self.t.plane_words).wrapping_add(row),
                    };
                    place.store([self.offset(&output, position), word]);
                }
                number += interleaved;
                place = place.add(lines);
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

    /// Stores the product of the team. It synchronises the team before the staged output is used again.
    ///
    /// # Safety
    /// All threads of the team come here together, with a complete product; the elements have been looked up, and are the block's own.
    #[inline(always)]
    pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(&self, product: &impl Product<BLOCKS, SLOTS>) {
        let mut first = 0;
        while first < self.t.used_blocks {
            let slice = self.t.slice_blocks.min(self.t.used_blocks - first);
            let channel = first.divide(self.t.column_phases).0 * 8;
            let channels = slice.divide(self.t.column_phases).0 * 8;
            // SAFETY: the caller's promise; barriers lie between writing and reading.
            unsafe {
                unrolled!(BLOCK in 0..BLOCKS => {
                    let part = (BLOCK as u32).wrapping_sub(first);
                    if part < slice {
                        self.stage::<BLOCKS, SLOTS, BLOCK>(product, channel, part);
                    }
                });
                self.sync_team();
                self.store_slice(channel, channels);
                self.sync_team();
            }
            first += slice;
        }
    }

    /// The thread's team, and its number there.
    #[inline(always)]
    fn team() -> (u32, u32) {
        let thread = hint::opaque(thread::thread_idx_x());
        (thread / TEAM_THREADS, thread % TEAM_THREADS)
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

    /// The staged output of a team.
    #[inline(always)]
    fn staged(&self, team: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add((self.t.output_start + team * self.t.output_bytes) / 4)
    }

    /// Writes a block of eight columns to the staged output, where it is number `part`. Staging begins with number `first_channel` of the
    /// tile.
    #[inline(always)]
    unsafe fn stage<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        first_channel: u32,
        part: u32,
    ) {
        let (team, thread) = Self::team();
        let lane = thread % 32;
        let position = thread / 32 * 16 + lane / 4 * 2;
        let (block, phase) = part.divide(self.t.column_phases);
        let channel = block * 8 + lane % 4 * 2;
        let words = self.t.staged_words;
        let slot_words = self.t.column_phases.value() as u32 * self.t.plane_words;
        let word = channel * words + phase * self.t.plane_words + position;
        let first = self.staged(team).add(word);
        // SAFETY: the staged output has room for the slice, and nobody else writes to these words; the product is complete.
        unsafe {
            let [left, right] = self.biases(team).add(first_channel + channel).cast::<[f32; 2]>().load();
            unrolled!(SLOT in 0..SLOTS => {
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                let place = first.add(SLOT as u32 * slot_words);
                place.cast::<[f32; 2]>().store([a + left, c + left]);
                place.add(words).cast::<[f32; 2]>().store([b + right, d + right]);
            });
        }
    }

    /// Stores the staged channels, which begin with number `first` of the tile.
    #[inline(always)]
    unsafe fn store_slice(&self, first: u32, channels: u32) {
        let first_channel = self.place.first_channel + first;
        let channels = self.t.out_per_group.saturating_sub(first_channel).min(channels);
        let plane = self.t.output_plane as usize;
        let group = self.place.group as usize * self.t.out_per_group as usize;
        let sample = self.place.sample as usize * self.t.output_sample as usize;
        let [z, y, x] = self.origin();
        let origin = (z * self.t.output[1] + y) * self.t.output[2] + x;
        let output = self.output.wrapping_add(sample + (group + first_channel as usize) * plane + origin as usize);
        let (team, thread) = Self::team();
        let elements = self.t.places * TEAM_ROWS;
        // Where a channel has fewer elements than the team threads, threads share the channels.
        let sharers = if self.t.places == 1 { TEAM_THREADS / TEAM_ROWS } else { 1 };
        let (mut element, share) = if sharers > 1 { (thread % TEAM_ROWS, thread / TEAM_ROWS) } else { (thread, 0) };
        while element < elements {
            // SAFETY: the caller's promise.
            unsafe {
                let [offset, word] = self.elements(team).add(element).load();
                if offset != NOWHERE {
                    let place = output.wrapping_add(offset as usize + share as usize * plane);
                    // Neighbouring lanes store together, whether they have a sum or a bias.
                    let (values, distance) = if word == ONLY_BIAS {
                        (self.biases(team).add(first), 1)
                    } else {
                        (self.staged(team).add(word), self.t.staged_words)
                    };
                    let channels = Channels { next: share, step: sharers, end: channels };
                    self.copy(values.add(share * distance), distance * sharers, place, channels);
                }
            }
            element += TEAM_THREADS;
        }
    }

    /// Copies an element of some channels from shared memory, where they lie `words` words apart.
    #[inline(always)]
    unsafe fn copy(&self, mut values: SharedPtr<f32>, words: u32, mut place: *mut f32, mut channels: Channels) {
        let distance = hint::opaque(self.t.output_plane as u32) as usize * channels.step as usize;
        // SAFETY: the caller's promise.
        unsafe {
            while channels.next + (BATCH as u32 - 1) * channels.step < channels.end {
                let mut batch = [0.0; BATCH];
                unrolled!(NUMBER in 0..BATCH => {
                    batch[NUMBER % BATCH] = values.load();
                    values = values.add(words);
                });
                unrolled!(NUMBER in 0..BATCH => {
                    mem::store(place, batch[NUMBER % BATCH]);
                    place = hint::opaque_pointer(place.wrapping_add(distance)).cast_mut();
                });
                channels.next += BATCH as u32 * channels.step;
            }
            while channels.next < channels.end {
                mem::store(place, values.load());
                values = values.add(words);
                place = hint::opaque_pointer(place.wrapping_add(distance)).cast_mut();
                channels.next += channels.step;
            }
        }
    }
}

/// Channels: every `step`th from `next` on.
struct Channels {
    next: u32,
    step: u32,
    end: u32,
}
