//! Storing: the sums go through shared memory, some channels at a time, so that a warp stores neighbouring elements of an output row.

use cuda_std::{
    hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    STORE, TEAM_ROWS, TEAM_THREADS, TEAMS,
    multiply::Product,
    parameters::Tiling,
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

/// Words from one slot to the next in a team's staged output. Interleaved slots are read in turn, by neighbouring lanes, so they are to
/// start on different banks.
const fn slot_words(slots: u32) -> u32 {
    TEAM_ROWS + 32 / slots % 32
}

/// Words from one channel to the next: 4 or 12 modulo 16, so that the lanes of a warp write to different banks.
const fn channel_words(slots: u32) -> u32 {
    slots * slot_words(slots) + 4
}

/// Blocks of eight channels that are staged at a time.
const fn slice_blocks(slots: u32) -> u32 {
    if slots < 4 { 4 / slots } else { 1 }
}

/// Words of shared memory that staging a team's output takes.
const fn team_words(slots: u32) -> u32 {
    8 * slice_blocks(slots) * channel_words(slots)
}

/// Words of shared memory that staging the output takes.
pub const fn output_words(slots: u32) -> u32 {
    TEAMS * team_words(slots)
}

impl Target<'_> {
    /// Stores the product of the team. It synchronises the team before the staged output is used again.
    ///
    /// # Safety
    /// All threads of the team come here together, with a complete product; the target is the block's own.
    #[inline(always)]
    pub(super) unsafe fn store<const BLOCKS: usize, const SLOTS: usize>(&self, product: &impl Product<BLOCKS, SLOTS>) {
        let slice = const { slice_blocks(SLOTS as u32) as usize };
        unrolled!(BLOCK in 0..BLOCKS => {
            let part = BLOCK % slice;
            // SAFETY: the caller's promise; barriers lie between writing and reading.
            unsafe {
                self.stage::<BLOCKS, SLOTS, BLOCK>(product, part as u32);
                if part + 1 == slice || BLOCK + 1 == BLOCKS {
                    self.sync_team();
                    self.store_slice::<SLOTS>((BLOCK - part) as u32 * 8, (part + 1) as u32 * 8);
                    self.sync_team();
                }
            }
        });
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

    /// The staged output of a team.
    #[inline(always)]
    fn staged(&self, team: u32, slots: u32) -> SharedPtr<f32> {
        dynamic_shared_mem::<f32>().add(self.t.output_start / 4 + team * team_words(slots))
    }

    /// Writes a block of eight channels to the staged output, as block number `part` there.
    #[inline(always)]
    unsafe fn stage<const BLOCKS: usize, const SLOTS: usize, const BLOCK: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        part: u32,
    ) {
        let (team, thread) = Self::team();
        let lane = thread % 32;
        let row = thread / 32 * 16 + lane / 4;
        let column = lane % 4 * 2;
        let words = channel_words(SLOTS as u32);
        let first = self.staged(team, SLOTS as u32).add((part * 8 + column) * words + row);
        // SAFETY: the staged output has room for the slice, and nobody else writes to these words; the product is complete.
        unsafe {
            let left = self.bias(BLOCK as u32 * 8 + column);
            let right = self.bias(BLOCK as u32 * 8 + column + 1);
            unrolled!(SLOT in 0..SLOTS => {
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                let place = first.add(SLOT as u32 * slot_words(SLOTS as u32));
                place.store(a + left);
                place.add(words).store(b + right);
                place.add(8).store(c + left);
                place.add(words + 8).store(d + right);
            });
        }
    }

    /// The bias of a channel of the tile.
    #[inline(always)]
    unsafe fn bias(&self, channel: u32) -> f32 {
        let channel = self.place.first_channel + channel;
        if self.bias.is_null() || channel >= self.t.out_per_group {
            return 0.0;
        }
        let channel = self.place.group as usize * self.t.out_per_group as usize + channel as usize;
        // SAFETY: a bias has an element per output channel.
        unsafe { mem::load_readonly(self.bias.add(channel)) }
    }

    /// Stores the staged channels, which begin with number `first` of the tile.
    #[inline(always)]
    unsafe fn store_slice<const SLOTS: usize>(&self, first: u32, channels: u32) {
        let first_channel = self.place.first_channel + first;
        let channels = self.t.out_per_group.saturating_sub(first_channel).min(channels);
        let plane = self.t.output_plane as usize;
        let group = self.place.group as usize * self.t.out_per_group as usize;
        let sample = self.place.sample as usize * self.t.output_sample as usize;
        let output = self.output.wrapping_add(sample + (group + first_channel as usize) * plane);
        let rows = TEAM_ROWS;
        let elements = SLOTS as u32 * rows;
        // Every slice computes its addresses anew: kept, they would take the registers of the sums.
        let (team, thread) = Self::team();
        let threads = TEAM_THREADS;
        // Where a channel has fewer elements than the team threads, threads share the channels.
        let sharers = if elements < threads { threads / elements } else { 1 };
        let mut element = thread % elements;
        let share = thread / elements % sharers;
        while element < elements {
            let (position, interleaved) = element.divide(self.t.interleaved);
            let slot = position / rows * self.t.interleaved.value() as u32 + interleaved;
            let row = position % rows;
            // SAFETY: the caller's promise.
            unsafe {
                if let Some(offset) = self.locate::<SLOTS>(slot, team * rows + row) {
                    let words = channel_words(SLOTS as u32);
                    let mut staged =
                        self.staged(team, SLOTS as u32).add(slot * slot_words(SLOTS as u32) + row + share * words);
                    let mut place = output.wrapping_add(offset + share as usize * plane);
                    let mut channel = share;
                    while channel < channels {
                        mem::store(place, staged.load());
                        staged = staged.add(words * sharers);
                        place = hint::opaque_pointer(place.wrapping_add(plane * sharers as usize)).cast_mut();
                        channel += sharers;
                    }
                }
            }
            element += threads;
        }
    }

    /// Where in a channel the element of a slot and row of the product goes, if it exists.
    #[inline(always)]
    unsafe fn locate<const SLOTS: usize>(&self, slot: u32, row: u32) -> Option<usize> {
        let t = self.t;
        if slot >= SLOTS as u32 || row >= t.positions {
            return None;
        }
        // SAFETY: the job's pass is in the table.
        let [slot_z, slot_y, slot_x, used] = unsafe { PassHead::slot(self.tables, self.place.pass, slot) };
        let (line, x) = row.divide(t.box_x);
        let (slice, y) = line.divide(t.box_y);
        let (n, z) = slice.divide(t.box_z);
        let [origin_z, origin_y, origin_x] = self.place.origin;
        let z = (origin_z + z * t.step_z).wrapping_mul(t.stride[0]).wrapping_add(slot_z);
        let y = (origin_y + y * t.step_y).wrapping_mul(t.stride[1]).wrapping_add(slot_y);
        let x = (origin_x + x).wrapping_mul(t.stride[2]).wrapping_add(slot_x);
        let [depth, height, width] = t.output;
        let exists = used != 0 && self.place.sample + n < t.batch && z < depth && y < height && x < width;
        let line = z.wrapping_mul(height).wrapping_add(y);
        let offset = line.wrapping_mul(width).wrapping_add(x);
        exists.then_some(n as usize * t.output_sample as usize + offset as usize)
    }
}
