//! Pack input: makes `f16` numbers of the input, two channels in a word, before a tile kernel stages them.
//!
//! Tensor cores multiply twice as many channels of `f16` at a time as of TF32, and `f16` has as many bits of fraction;
//! a word of two channels also takes half of the way from the L2 cache, and half of the shared memory. What it lacks
//! are exponents. So each sample is multiplied by a power of two before, and the sums are divided by that in the end.
//!
//! Which power that is, two grids find out (`packing_grids`): that of `pack_input` is right for largest values from 1/32
//! to 512, `repack_input` packs other samples again. The packed input is a tensor, too,
//! `[sample][group][pair of channels][z][y][x]`, behind their header. Rows are filled up to four words with zeros, which
//! are what tile kernels take for positions beyond them anyway; so all of them are aligned.
//!
//! Of values that are less than `2^-15` of the largest one of a sample, `f16` may have fewer bits: they are rounded to
//! a multiple of less than `2^-24` of it. Infinities and not-a-numbers stay what they are, and decide nothing. Limit: a
//! sample has fewer than 2^31 times four words.
//!
//! In single precision (`_split`) every value is the sum of two numbers, and of 16 channels there are eight words for
//! each position with the large parts of pairs, then eight with the small ones. The power is right from 1/4 to 8.
//! Values from `2^-13` of the largest one of a sample on have all bits; others are rounded to a multiple of less than
//! `2^-34` of it.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};
use cuda_std::{
    async_copy::{commit_group, copy_16, wait_group},
    half, kernel,
    math::larger_magnitude,
    mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    largest::largest_of_pairs,
    packing_grids::{INPUT_PACKING_THREADS, Share},
    rounding::split,
    scale::{Exponent, power_of_two},
};
use crate::{
    index::{Divisor, Index},
    unrolled::unrolled,
};

/// Fours of pairs that a thread has under way together in registers.
const IN_REGISTERS: usize = 2;

/// The same in shared memory, each in a slot of its own: a copy takes no registers meanwhile, and no lines of the
/// multiprocessor's cache. A power of two.
const IN_SLOTS: u32 = 4;

/// Shared memory of a block that has no slots: a word for each warp.
const OF_WARPS_BYTES: u32 = INPUT_PACKING_THREADS / 32 * 4;

/// What is packed, and where.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct InputPacking {
    /// Fours of words of a packed row.
    pub row_fours: Divisor,
    /// Rows of a channel.
    pub rows: Divisor,
    /// Fours of words of a packed channel.
    pub plane_fours: Divisor,
    /// Pairs of channels of a group.
    pub pairs: Divisor,
    /// Blocks for each sample.
    pub blocks: Divisor,
    /// Elements of an input sample.
    pub sample: u64,
    /// Elements of an input row.
    pub width: u32,
    /// Input channels of a group.
    pub channels: u32,
    /// Samples.
    pub batch: u32,
    /// Fours of words of a packed sample, below 2^31.
    pub fours: u32,
    /// Fours of pairs that a block packs, a multiple of the number of its threads.
    pub fours_of_block: u32,
    /// Words of the header, a multiple of four.
    pub header: u32,
}

impl InputPacking {
    /// Whether words go through slots in shared memory: where a thread has many of them, and nothing is filled up,
    /// neither rows nor channels. Otherwise that takes longer than it spares.
    #[cfg_attr(gpu, inline(always))]
    fn has_slots(&self) -> bool {
        let is_long = self.fours_of_block > IN_SLOTS * INPUT_PACKING_THREADS;
        is_long && self.width.is_multiple_of(4) && self.channels == 2 * self.pairs.value() as u32
    }

    /// Dynamic shared memory of a block.
    pub fn shared_bytes(&self) -> u32 {
        let slots = if self.has_slots() { IN_SLOTS * INPUT_PACKING_THREADS } else { 0 };
        OF_WARPS_BYTES + slots * size_of::<[[f32; 4]; 2]>() as u32
    }
}

/// Packs the samples as if the largest value of each were around one, and finds it.
///
/// # Safety
/// The pointers are device pointers: `input` to the input, `packed` to a header and as many words as the packed input
/// has, aligned to 16 bytes, which nothing else accesses meanwhile. There are `packing.blocks` blocks for each sample,
/// of [`INPUT_PACKING_THREADS`] threads, with as much shared memory as [`shared_bytes`](InputPacking::shared_bytes)
/// says.
#[kernel]
pub unsafe fn pack_input(packing: InputPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_first(false, packed, |exponent| pack::<false>(&packing, &share, exponent, input, packed)) }
}

/// Notes the exponents of the samples, and packs those again for which another one is right.
///
/// # Safety
/// As [`pack_input`](fn@pack_input), which has packed the same input, or is about to end, if this grid need not wait
/// for it.
#[kernel]
pub unsafe fn repack_input(packing: InputPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_again(false, packed, |exponent| pack::<false>(&packing, &share, exponent, input, packed)) }
}

/// As [`pack_input`](fn@pack_input), with sums of two numbers.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[kernel]
pub unsafe fn pack_input_split(packing: InputPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_first(true, packed, |exponent| pack::<true>(&packing, &share, exponent, input, packed)) }
}

/// As [`repack_input`](fn@repack_input), with sums of two numbers.
///
/// # Safety
/// As [`repack_input`](fn@repack_input), behind [`pack_input_split`](fn@pack_input_split).
#[kernel]
pub unsafe fn repack_input_split(packing: InputPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_again(true, packed, |exponent| pack::<true>(&packing, &share, exponent, input, packed)) }
}

/// Packs a block's share of a sample. Returns the largest finite magnitude among this thread's values.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[cfg_attr(gpu, inline(always))]
unsafe fn pack<const SPLIT: bool>(
    p: &InputPacking,
    &Share { sample, block, .. }: &Share,
    exponent: Exponent,
    input: *const f32,
    packed: *mut u32,
) -> f32 {
    let input = input.wrapping_add(sample as usize * p.sample as usize);
    let packed = packed.wrapping_add(p.header as usize + 4 * (sample as usize * p.fours as usize)).cast::<[u32; 4]>();
    let aligned = p.width.is_multiple_of(4) && input.addr().is_multiple_of(16);
    let target = Target { packed, scale: power_of_two(exponent) };
    // If they are split, there are two fours of words for each.
    let count = if SPLIT { p.fours / 2 } else { p.fours };
    let begin = block * p.fours_of_block;
    let fours = begin + thread::thread_idx_x()..count.min(begin + p.fours_of_block);
    // SAFETY: the caller's promise.
    unsafe {
        if aligned && p.has_slots() {
            pack_through_slots::<SPLIT>(p, fours, input, &target)
        } else {
            pack_through_registers::<SPLIT>(p, fours, aligned, input, &target)
        }
    }
}

/// Where a sample is packed, and how.
struct Target {
    packed: *mut [u32; 4],
    scale: f32,
}

/// Packs this thread's share of some fours of pairs, rows or channels of which may be filled up. Returns the largest
/// finite magnitude.
///
/// # Safety
/// As [`pack_input`](fn@pack_input); rows are aligned to 16 bytes if they are said to be.
#[cfg_attr(gpu, inline(always))]
unsafe fn pack_through_registers<const SPLIT: bool>(
    p: &InputPacking,
    fours: Range<u32>,
    aligned: bool,
    sample: *const f32,
    target: &Target,
) -> f32 {
    let Range { start: mut first, end } = fours;
    let mut largest = 0.0f32;
    while first < end {
        let mut pairs = [[[0.0; 4]; 2]; IN_REGISTERS];
        unrolled!(NEXT in 0..IN_REGISTERS, at most 2 => {
            let four = first + NEXT as u32 * INPUT_PACKING_THREADS;
            // SAFETY: the caller's promise.
            pairs[NEXT] = unsafe { load(p, four, four < end, aligned, sample) };
        });
        unrolled!(NEXT in 0..IN_REGISTERS, at most 2 => {
            let four = first + NEXT as u32 * INPUT_PACKING_THREADS;
            largest = larger_magnitude(largest, largest_of_pairs(pairs[NEXT]));
            if four < end {
                // SAFETY: the caller's promise: this four is this thread's.
                unsafe { store::<SPLIT>(p, four, pairs[NEXT], target) };
            }
        });
        first += IN_REGISTERS as u32 * INPUT_PACKING_THREADS;
    }
    largest
}

/// The slots of either channel of a four of pairs.
type Slots = [SharedPtr<[f32; 4]>; 2];

/// Packs this thread's share of some fours of pairs, where nothing is filled up. Returns the largest finite magnitude.
///
/// # Safety
/// As [`pack_input`](fn@pack_input); rows are aligned to 16 bytes, and there are slots.
#[cfg_attr(gpu, inline(always))]
unsafe fn pack_through_slots<const SPLIT: bool>(
    p: &InputPacking,
    fours: Range<u32>,
    sample: *const f32,
    target: &Target,
) -> f32 {
    let Range { start: mut four, end } = fours;
    let start = |four: u32| {
        if four < end {
            // SAFETY: the caller's promise: there is such a four. Nothing is on its way to this slot any more.
            unsafe { start(p, four, sample, slots(four / INPUT_PACKING_THREADS)) };
        }
        commit_group();
    };
    for ahead in 0..IN_SLOTS {
        start(four + ahead * INPUT_PACKING_THREADS);
    }
    let mut largest = 0.0f32;
    while four < end {
        wait_group::<{ IN_SLOTS - 1 }>();
        // SAFETY: these are this thread's slots, and the copies to them are complete.
        let pairs = slots(four / INPUT_PACKING_THREADS).map(|slot| unsafe { slot.load() });
        largest = larger_magnitude(largest, largest_of_pairs(pairs));
        // SAFETY: the caller's promise: this four is this thread's.
        unsafe { store::<SPLIT>(p, four, pairs, target) };
        start(four + IN_SLOTS * INPUT_PACKING_THREADS);
        four += INPUT_PACKING_THREADS;
    }
    largest
}

/// This thread's slots for its four of that number, of which so many are under way at a time.
#[cfg_attr(gpu, inline(always))]
fn slots(number: u32) -> Slots {
    let first = number % IN_SLOTS * 2 * INPUT_PACKING_THREADS + thread::thread_idx_x();
    let slots = dynamic_shared_mem::<u8>().add(OF_WARPS_BYTES).cast::<[f32; 4]>();
    [slots.add(first), slots.add(first + INPUT_PACKING_THREADS)]
}

/// Stores a four of pairs; if they are split the large parts, and the small ones eight words of a position further on.
///
/// # Safety
/// As [`pack_input`](fn@pack_input): the four is this thread's.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<const SPLIT: bool>(p: &InputPacking, four: u32, pairs: [[f32; 4]; 2], target: &Target) {
    const BLOCK: u32 = 8;
    let Target { packed, scale } = *target;
    let [low, high] = pairs.map(|words| words.map(|word| word * scale));
    let words = |low: [f32; 4], high: [f32; 4]| [0, 1, 2, 3].map(|word| half::pack([low[word], high[word]]));
    // SAFETY: the caller's promise.
    unsafe {
        if SPLIT {
            let (pair, _) = four.divide(p.plane_fours);
            let block_of_channels = BLOCK * p.plane_fours.value() as u32;
            let large = four + pair / BLOCK * block_of_channels;
            let (low, high) = (low.map(split::<0>), high.map(split::<0>));
            mem::store(packed.add(large as usize), words(low.map(|parts| parts.0), high.map(|parts| parts.0)));
            let small = large + block_of_channels;
            mem::store(packed.add(small as usize), words(low.map(|parts| parts.1), high.map(|parts| parts.1)));
        } else {
            mem::store(packed.add(four as usize), words(low, high));
        }
    }
}

/// Starts to copy a four of pairs to its slots, where nothing is filled up.
///
/// # Safety
/// The sample has such a four, aligned to 16 bytes; the slots are this thread's, and nothing is on its way there.
#[cfg_attr(gpu, inline(always))]
unsafe fn start(p: &InputPacking, four: u32, sample: *const f32, [low, high]: Slots) {
    let plane = p.plane_fours.value() as usize;
    let (pair, _) = four.divide(p.plane_fours);
    // Of two channels, the fours of the pairs before.
    let first = sample.cast::<[u32; 4]>().wrapping_add(four as usize + pair as usize * plane);
    // SAFETY: the caller's promise.
    unsafe {
        copy_16(low.cast(), first, true);
        copy_16(high.cast(), first.wrapping_add(plane), true);
    }
}

/// Loads four elements of either channel of a pair, zeros for those that there are not.
///
/// # Safety
/// If it `exists`, the sample has such a four; rows are aligned to 16 bytes if they are said to be.
#[cfg_attr(gpu, inline(always))]
unsafe fn load(p: &InputPacking, four: u32, exists: bool, aligned: bool, sample: *const f32) -> [[f32; 4]; 2] {
    let (row, within) = four.divide(p.row_fours);
    let (pair, row) = row.divide(p.rows);
    let (group, pair) = pair.divide(p.pairs);
    let channel_elements = p.rows.value() as usize * p.width as usize;
    let first_channel = group as usize * p.channels as usize + 2 * pair as usize;
    let first =
        sample.wrapping_add(first_channel * channel_elements + row as usize * p.width as usize + 4 * within as usize);
    [0, 1].map(|number: u32| {
        let exists = exists && 2 * pair + number < p.channels;
        let first = first.wrapping_add(number as usize * channel_elements);
        // SAFETY: the caller's promise: there is such a channel, and such an element of the row.
        unsafe {
            if !aligned {
                return [0, 1, 2, 3].map(|word: u32| {
                    let is_in_row = 4 * within + word < p.width;
                    mem::load_readonly_if(exists && is_in_row, first.wrapping_add(word as usize))
                });
            }
            if exists { mem::load_readonly(first.cast()) } else { [0.0; 4] }
        }
    })
}
