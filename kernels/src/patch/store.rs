//! Storing: straight from the product. A lane has two neighbouring positions of two rows of each slot in each block of
//! columns, and rows of the slots take turns. Where patches are two wide, each two rows are the same output channel and
//! neighbours along x, so that four words lie side by side; where they are four wide, and there are two slots, all four
//! rows are. Elsewhere sectors are written in pieces.

use cuda_std::{math, mem, thread, warp};

use super::{Job, Operands, PLACES, Patch, Team, compute::BLOCKS};
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
            match self.t.extents[2] {
                0 if is_aligned(2) => {
                    self.store_pairs::<SLOTS>(product, sum, |place, pair| mem::store(place.cast(), pair))
                }
                0 => self.store_pairs::<SLOTS>(product, sum, store_words),
                1 if is_aligned(4) => {
                    self.store_fours::<SLOTS>(product, sum, |place, fours| mem::store(place.cast(), fours))
                }
                1 => self.store_fours::<SLOTS>(product, sum, store_words),
                _ if SLOTS == 2 && is_aligned(4) => self.store_exchanged::<SLOTS>(product, sum),
                log_x if is_aligned(2) => self.store_fours::<SLOTS>(product, sum, |place, [a, b, c, d]| {
                    mem::store(place.cast(), [a, b]);
                    mem::store(place.wrapping_add(1 << log_x).cast(), [c, d]);
                }),
                log_x => self.store_fours::<SLOTS>(product, sum, |place, [a, b, c, d]| {
                    store_words(place, [a, b]);
                    store_words(place.wrapping_add(1 << log_x), [c, d]);
                }),
            }
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

    /// The lane's row in one of the eights of rows that the warp has, one behind the other: two in each slot.
    ///
    /// # Safety
    /// As the kernels.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn row<const SLOTS: usize>(&self, number: u32) -> Row {
        let t = self.t;
        let warp = thread::thread_idx_x() % TEAM_THREADS / 32;
        let block = Team::this(t).first_row::<SLOTS>() / 8 + warp * 2 * SLOTS as u32 + number;
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

    /// Stores each two eights of the warp's rows, which are neighbours along x, with a function that stores two words
    /// of each of two positions.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_fours<const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        sum: Sum,
        store: impl Fn(*mut f32, [f32; 4]),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = [0, 2].map(|number| self.row::<SLOTS>(number));
            let places = Team::this(self.t).places().add(warp::lane_id() % 4);
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let place = places.add(BLOCK as u32 * 4).load();
                let values = eights::<SLOTS, BLOCK>(product);
                unrolled!(PAIR in 0..SLOTS, at most 2 => {
                    let row = &rows[PAIR];
                    let ([a, c], [b, d]) = (values[2 * PAIR], values[2 * PAIR + 1]);
                    let fours = [a, b, c, d].map(|value| sum.of(value, row.bias));
                    if row.exists && place != NOWHERE {
                        store(row.output.wrapping_add(place as usize), fours);
                    }
                });
            });
        }
    }

    /// Stores the warp's four eights of rows, which are four neighbours along x. Lanes exchange the words of a position
    /// with the lane beside them: first both store those of the even lane's positions, then of the odd lane's.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found; the output is aligned to 16 bytes.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_exchanged<const SLOTS: usize>(&self, product: &impl Product<BLOCKS, SLOTS>, sum: Sum) {
        // SAFETY: the caller's promise.
        unsafe {
            let row = self.row::<SLOTS>(0);
            let lane = warp::lane_id();
            let is_odd = !lane.is_multiple_of(2);
            let places = Team::this(self.t).places().add(lane % 4);
            // Odd lanes store the second one of two positions.
            let second = if is_odd { 1 << self.t.extents[2] } else { 0 };
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let place = places.add(BLOCK as u32 * 4).load();
                let values = eights::<SLOTS, BLOCK>(product).map(|pair| pair.map(|value| sum.of(value, row.bias)));
                let given = values.map(|[first, second]| if is_odd { first } else { second });
                let taken = given.map(|value| f32::from_bits(warp::warp_shuffle_xor(u32::MAX, value.to_bits(), 1)));
                let place_beside = warp::warp_shuffle_xor(u32::MAX, place, 1);
                let kept = values.map(|[first, second]| if is_odd { second } else { first });
                let [of_even, of_odd] = if is_odd { [place_beside, place] } else { [place, place_beside] };
                let [words_of_even, words_of_odd] = if is_odd { [taken, kept] } else { [kept, taken] };
                if row.exists && of_even != NOWHERE {
                    mem::store(row.output.wrapping_add((of_even + second) as usize).cast(), words_of_even);
                }
                if row.exists && of_odd != NOWHERE {
                    mem::store(row.output.wrapping_add((of_odd + second) as usize).cast(), words_of_odd);
                }
            });
        }
    }

    /// Stores the warp's eights of rows, which have nothing to do with each other, with a function that stores two
    /// words.
    ///
    /// # Safety
    /// As [`store`](Self::store), when places have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store_pairs<const SLOTS: usize>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
        sum: Sum,
        store: impl Fn(*mut f32, [f32; 2]),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = [0, 1, 2, 3].map(|number| self.row::<SLOTS>(number));
            let places = Team::this(self.t).places().add(warp::lane_id() % 4);
            unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                let place = places.add(BLOCK as u32 * 4).load();
                let values = eights::<SLOTS, BLOCK>(product);
                unrolled!(NUMBER in 0..{ 2 * SLOTS }, at most 4 => {
                    let row = &rows[NUMBER];
                    let pair = values[NUMBER].map(|value| sum.of(value, row.bias));
                    if row.exists && place != NOWHERE {
                        store(row.output.wrapping_add(place as usize), pair);
                    }
                });
            });
        }
    }
}

/// The sums of a lane's two positions in each of the warp's eights of rows, of which there are two in each slot.
///
/// # Safety
/// As [`Product::values`].
#[cfg_attr(gpu, inline(always))]
unsafe fn eights<const SLOTS: usize, const BLOCK: usize>(product: &impl Product<BLOCKS, SLOTS>) -> [[f32; 2]; 4] {
    // SAFETY: the caller's promise. The slots take turns.
    unsafe {
        let [a, b, c, d] = product.values::<0, BLOCK>();
        if const { SLOTS == 1 } {
            return [[a, b], [c, d], [0.0; 2], [0.0; 2]];
        }
        let [e, f, g, h] = product.values::<1, BLOCK>();
        [[a, b], [e, f], [c, d], [g, h]]
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
