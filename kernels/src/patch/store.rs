//! Storing: straight from the product. A lane has two neighbouring positions of two rows in each block of columns; where
//! patches are two wide, these rows are the same output channel and neighbours along x, and all four lie side by side.

use cuda_std::{math, mem, thread, warp};

use super::{Job, Operands, PLACES, Patch, SLOT_ROWS, Team, compute::BLOCKS};
use crate::{
    index::Index,
    tile::{Product, TEAM_THREADS, sync_team},
    unrolled::unrolled,
};

/// The place of positions that do not exist.
const NOWHERE: u32 = u32::MAX;

/// Where a team stores its sums.
pub(super) struct Target<'a> {
    pub(super) t: &'a Patch,
    pub(super) operands: &'a Operands,
    pub(super) job: Job,
}

/// By what the products are multiplied: two numbers.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) scales: [f32; 2],
}

/// A row of the product: an element of the patch in an output channel.
struct Row {
    /// Where it lies in the output, for the first position of the first sample.
    output: *mut f32,
    bias: f32,
    exists: bool,
}

impl Target<'_> {
    /// Stores what becomes of a product.
    ///
    /// # Safety
    /// As the kernels; all threads of the team come here together, and the product is complete.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store<const SLOTS: usize>(&self, product: &impl Product<BLOCKS, SLOTS>, sum: Sum) {
        // SAFETY: the caller's promise; barriers lie between writing and reading.
        unsafe {
            sync_team();
            self.find_places();
            sync_team();
            // Places are even, and multiples of four where there are fours.
            let is_aligned = |words: usize| self.operands.output.addr().is_multiple_of(4 * words);
            unrolled!(SLOT in 0..SLOTS, at most 2 => {
                match self.t.extents[2] {
                    0 if is_aligned(2) => self.store_pairs::<SLOTS, SLOT>(product, sum, |place, pair| {
                        mem::store(place.cast(), pair)
                    }),
                    0 => self.store_pairs::<SLOTS, SLOT>(product, sum, store_words),
                    _ if is_aligned(4) => self.store_fours::<SLOTS, SLOT>(product, sum, |place, fours| {
                        mem::store(place.cast(), fours)
                    }),
                    _ => self.store_fours::<SLOTS, SLOT>(product, sum, store_words),
                }
            });
        }
    }

    /// Finds where the patches of each two of the team's positions begin in the first output channel.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[cfg_attr(gpu, inline(always))]
    unsafe fn find_places(&self) {
        let t = self.t;
        let team = Team::this(t);
        let number = thread::thread_idx_x() % TEAM_THREADS;
        if number < PLACES {
            let position = self.job.first + team.first_position() + 2 * number;
            let (sample, within) = position.divide(t.sample);
            let (z, slice) = within.divide(t.slice);
            let (y, x) = slice.divide(t.row);
            let [log_z, log_y, log_x] = t.extents;
            let plane = sample.wrapping_mul(t.out_channels).wrapping_mul(t.output_plane);
            let [z, y, x] =
                [(z << log_z).wrapping_mul(t.output_slice), (y << log_y).wrapping_mul(t.output_row), x << log_x];
            let place = plane.wrapping_add(z).wrapping_add(y).wrapping_add(x);
            // SAFETY: the caller's promise: the entry is this thread's.
            unsafe { team.places().add(number).store(if position < self.job.end { place } else { NOWHERE }) };
        }
    }

    /// The lane's row in the first or the second eight of the warp's rows of a slot.
    ///
    /// # Safety
    /// As the kernels.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn row<const SLOTS: usize>(&self, slot: u32, half: u32) -> Row {
        let t = self.t;
        let first = Team::this(t).first_row::<SLOTS>() + slot * SLOT_ROWS;
        let block = first / 8 + thread::thread_idx_x() % TEAM_THREADS / 32 * 2 + half;
        let [_, log_y, log_x] = t.extents;
        let element = block & ((1 << t.elements()) - 1);
        let (z, y, x) =
            (element >> (log_y + log_x), (element >> log_x) & ((1 << log_y) - 1), element & ((1 << log_x) - 1));
        let channel = self.job.channel_tile * t.tile_channels + (block >> t.elements()) * 8 + warp::lane_id() / 4;
        let exists = channel < t.out_per_group;
        let channel = self.job.group * t.out_per_group + channel;
        let place = channel.wrapping_mul(t.output_plane).wrapping_add(z * t.output_slice + y * t.output_row + x);
        let has_bias = exists && !self.operands.bias.is_null();
        Row {
            output: self.operands.output.wrapping_add(place as usize),
            // SAFETY: the caller's promise: there is such a channel.
            bias: unsafe { mem::load_readonly_if(has_bias, self.operands.bias.wrapping_add(channel as usize)) },
            exists,
        }
    }

    /// Stores both halves of the warp's rows of a slot, which are neighbours along x, with a function that stores four
    /// words.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_fours<const SLOTS: usize, const SLOT: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        sum: Sum,
        store: impl Fn(*mut f32, [f32; 4]),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let row = self.row::<SLOTS>(SLOT as u32, 0);
            let places = Team::this(self.t).places().add(warp::lane_id() % 4);
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let place = places.add(BLOCK as u32 * 4).load();
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                let fours = [a, c, b, d].map(|value| sum.of(value, row.bias));
                if row.exists && place != NOWHERE {
                    store(row.output.wrapping_add(place as usize), fours);
                }
            });
        }
    }

    /// Stores both halves of the warp's rows of a slot, which have nothing to do with each other, with a function that
    /// stores two words.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_pairs<const SLOTS: usize, const SLOT: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        sum: Sum,
        store: impl Fn(*mut f32, [f32; 2]),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = [0, 1].map(|half| self.row::<SLOTS>(SLOT as u32, half));
            let places = Team::this(self.t).places().add(warp::lane_id() % 4);
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let place = places.add(BLOCK as u32 * 4).load();
                let [a, b, c, d] = product.values::<SLOT, BLOCK>();
                unrolled!(HALF in 0..2, at most 2 => {
                    let row = &rows[HALF];
                    let pair = [[a, b], [c, d]][HALF].map(|value| sum.of(value, row.bias));
                    if row.exists && place != NOWHERE {
                        store(row.output.wrapping_add(place as usize), pair);
                    }
                });
            });
        }
    }
}

/// Stores words one by one.
#[cfg_attr(gpu, inline(always))]
fn store_words<const WORDS: usize>(place: *mut f32, words: [f32; WORDS]) {
    for (number, word) in words.into_iter().enumerate() {
        // SAFETY: whoever stores so vouches for all of them.
        unsafe { mem::store(place.wrapping_add(number), word) };
    }
}

impl Sum {
    /// What becomes of a product.
    #[cfg_attr(gpu, inline(always))]
    fn of(&self, product: f32, bias: f32) -> f32 {
        let [most, rest] = self.scales;
        math::fma(product * most, rest, bias)
    }
}
