//! Pack input: makes `f16` numbers of the input, two channels in a word, before a tile kernel stages them.
//!
//! Tensor cores multiply twice as many channels of `f16` at a time as of TF32, and `f16` has as many bits of fraction; a word of two channels also takes half of the way from the L2 cache, and
//! half of the shared memory. What it lacks are exponents. So each sample is multiplied by a power of two before, and the sums are divided by that in the end.
//!
//! `pack_input` takes the power for values around one, and finds the largest value of each sample. `repack_input` looks whether that was right, which it is from 1/32 to 512, notes the exponent, and packs
//! those samples again that need another one. The packed input is a tensor, too, `[sample][group][pair of channels][z][y][x]`, behind a header: the exponents of the samples, then the largest values that
//! blocks have found. Rows are filled up to four words with zeros, which are what tile kernels take for positions beyond them anyway; so all of them are aligned.
//!
//! Of values that are less than `2^-15` of the largest one of a sample, `f16` may have fewer bits: they are rounded to a multiple of less than `2^-24` of it. Infinities and not-a-numbers stay what they
//! are, and decide nothing. Limit: a sample has fewer than 2^31 times four words.
//!
//! In single precision (`_split`) every value is the sum of two numbers, and of 16 channels there are eight words for each position with the large parts of pairs, then eight with the small ones. The power
//! is right from 1/4 to 8. Values from `2^-13` of the largest one of a sample on have all bits; others are rounded to a multiple of less than `2^-34` of it.

use bytemuck::{Pod, Zeroable};
use cuda_std::{
    async_copy::{commit_group, copy_4, copy_16, wait_group},
    half, kernel,
    math::larger_magnitude,
    mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

use super::{
    largest::{largest_of_block, largest_of_pairs},
    rounding::split,
    scale::{Exponent, power_of_two},
    unrolled::unrolled,
};
use crate::index::{Divisor, Index};

/// Threads of a block.
pub const INPUT_PACKING_THREADS: u32 = 256;

/// Fours of pairs that a thread has under way together, each in a slot of its own in shared memory: a copy takes no registers meanwhile, and no lines of the multiprocessor's cache. A power of two.
const UNDER_WAY: u32 = 4;

/// Shared memory of a block: a word for each warp, and the slots of its threads.
pub const INPUT_PACKING_BYTES: u32 = OF_WARPS_BYTES + UNDER_WAY * 2 * 16 * INPUT_PACKING_THREADS;

/// Bytes of the words of all warps, a multiple of 16.
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

/// Packs the samples as if the largest value of each were around one, and finds it.
///
/// # Safety
/// The pointers are device pointers: `input` to the input, `packed` to a header and as many words as the packed input has, aligned to 16 bytes, which nothing else accesses meanwhile. There are
/// `packing.blocks` blocks for each sample, of [`INPUT_PACKING_THREADS`] threads, with [`INPUT_PACKING_BYTES`] of shared memory.
#[kernel]
pub unsafe fn pack_input(packing: InputPacking, input: *const f32, packed: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { pack_first::<false>(&packing, input, packed) }
}

/// Notes the exponents of the samples, and packs those again for which another one is right.
///
/// # Safety
/// As [`pack_input`](fn@pack_input), which has packed the same input, or is about to end, if this grid need not wait for it.
#[kernel]
pub unsafe fn repack_input(packing: InputPacking, input: *const f32, packed: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { pack_again::<false>(&packing, input, packed) }
}

/// As [`pack_input`](fn@pack_input), with sums of two numbers.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[kernel]
pub unsafe fn pack_input_split(packing: InputPacking, input: *const f32, packed: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { pack_first::<true>(&packing, input, packed) }
}

/// As [`repack_input`](fn@repack_input), with sums of two numbers.
///
/// # Safety
/// As [`repack_input`](fn@repack_input), behind [`pack_input_split`](fn@pack_input_split).
#[kernel]
pub unsafe fn repack_input_split(packing: InputPacking, input: *const f32, packed: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { pack_again::<true>(&packing, input, packed) }
}

/// What the first grid does.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[cfg_attr(gpu, inline(always))]
unsafe fn pack_first<const SPLIT: bool>(packing: &InputPacking, input: *const f32, packed: *mut u32) {
    // What follows looks at what is found here, when this grid has ended.
    #[cfg(cuda_arch = "sm_90a")]
    cuda_std::grid::launch_dependents();
    let (sample, block) = thread::block_idx_x().divide(packing.blocks);
    // SAFETY: the caller's promise; all threads of the block come here together.
    unsafe {
        let largest = pack::<SPLIT>(packing, sample, block, Exponent::of_ones(SPLIT), input, packed);
        let largest = largest_of_block(largest, dynamic_shared_mem(), INPUT_PACKING_THREADS / 32);
        if thread::thread_idx_x() == 0 {
            mem::store(largest_value(packing, sample, block, packed), largest);
        }
    }
}

/// What the second grid does.
///
/// # Safety
/// As [`repack_input`](fn@repack_input).
#[cfg_attr(gpu, inline(always))]
unsafe fn pack_again<const SPLIT: bool>(packing: &InputPacking, input: *const f32, packed: *mut u32) {
    #[cfg(cuda_arch = "sm_90a")]
    {
        cuda_std::grid::launch_dependents();
        cuda_std::grid::await_prerequisites();
    }
    let (sample, block) = thread::block_idx_x().divide(packing.blocks);
    // SAFETY: the caller's promise; all threads of the block come here together.
    unsafe {
        let mut largest = 0.0;
        let mut other = thread::thread_idx_x();
        while other < packing.blocks.value() as u32 {
            largest = larger_magnitude(largest, mem::load(largest_value(packing, sample, other, packed).cast_const()));
            other += INPUT_PACKING_THREADS;
        }
        let largest = largest_of_block(largest, dynamic_shared_mem(), INPUT_PACKING_THREADS / 32);
        let exponent = Exponent::of_sample(largest.to_bits(), SPLIT);
        if thread::thread_idx_x() == 0 && block == 0 {
            mem::store(packed.add(sample as usize), exponent.bits());
        }
        if exponent != Exponent::of_ones(SPLIT) {
            let _ = pack::<SPLIT>(packing, sample, block, exponent, input, packed);
        }
    }
}

/// Where a block leaves the largest value that it has found.
#[cfg_attr(gpu, inline(always))]
fn largest_value(p: &InputPacking, sample: u32, block: u32, packed: *mut u32) -> *mut f32 {
    let behind_exponents = sample as usize * p.blocks.value() as usize + block as usize;
    packed.wrapping_add(p.batch as usize + behind_exponents).cast()
}

/// Packs a block's share of a sample. Returns the largest finite magnitude among this thread's values.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[cfg_attr(gpu, inline(always))]
unsafe fn pack<const SPLIT: bool>(
    p: &InputPacking,
    sample: u32,
    block: u32,
    exponent: Exponent,
    input: *const f32,
    packed: *mut u32,
) -> f32 {
    let input = input.wrapping_add(sample as usize * p.sample as usize);
    let packed = packed.wrapping_add(p.header as usize + 4 * (sample as usize * p.fours as usize)).cast::<[u32; 4]>();
    let aligned = p.width.is_multiple_of(4) && input.addr().is_multiple_of(16);
    let target = Target { packed, scale: power_of_two(exponent), plane: p.plane_fours.value() as u32 };
    // SAFETY: the caller's promise.
    unsafe {
        if aligned && p.channels == 2 * p.pairs.value() as u32 {
            pack_fours::<SPLIT>(p, block, &target, |four, slots| start_as_they_are(p, four, input, slots))
        } else {
            pack_fours::<SPLIT>(p, block, &target, |four, slots| start(p, four, aligned, input, slots))
        }
    }
}

/// Where a sample is packed, and how.
struct Target {
    packed: *mut [u32; 4],
    scale: f32,
    /// Fours of a channel.
    plane: u32,
}

/// The slots of either channel of a four of pairs.
type Slots = [SharedPtr<[f32; 4]>; 2];

/// Packs a block's share of fours of pairs, which `start` starts to copy to their slots.
///
/// # Safety
/// As [`pack_input`](fn@pack_input).
#[cfg_attr(gpu, inline(always))]
unsafe fn pack_fours<const SPLIT: bool>(
    p: &InputPacking,
    block: u32,
    target: &Target,
    start: impl Fn(u32, Slots),
) -> f32 {
    // If they are split, there are two fours of words for each.
    let count = if SPLIT { p.fours / 2 } else { p.fours };
    let begin = block * p.fours_of_block;
    let end = count.min(begin + p.fours_of_block);
    let mut four = begin + thread::thread_idx_x();
    let start = |four: u32| {
        if four < end {
            start(four, slots(four / INPUT_PACKING_THREADS));
        }
        commit_group();
    };
    for ahead in 0..UNDER_WAY {
        start(four + ahead * INPUT_PACKING_THREADS);
    }
    let mut largest = 0.0f32;
    while four < end {
        wait_group::<{ UNDER_WAY - 1 }>();
        // SAFETY: these are this thread's slots, and the copies to them are complete.
        let pairs = slots(four / INPUT_PACKING_THREADS).map(|slot| unsafe { slot.load() });
        largest = larger_magnitude(largest, largest_of_pairs(pairs));
        // SAFETY: the caller's promise: this four is this thread's.
        unsafe { store::<SPLIT>(p, four, pairs, target) };
        start(four + UNDER_WAY * INPUT_PACKING_THREADS);
        four += INPUT_PACKING_THREADS;
    }
    largest
}

/// This thread's slots for its four of that number, of which so many are under way at a time.
#[cfg_attr(gpu, inline(always))]
fn slots(number: u32) -> Slots {
    let first = number % UNDER_WAY * 2 * INPUT_PACKING_THREADS + thread::thread_idx_x();
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
    let Target { packed, scale, plane } = *target;
    let [low, high] = pairs.map(|words| words.map(|word| word * scale));
    let words = |low: [f32; 4], high: [f32; 4]| [0, 1, 2, 3].map(|word| half::pack([low[word], high[word]]));
    // SAFETY: the caller's promise.
    unsafe {
        if SPLIT {
            let (pair, _) = four.divide(p.plane_fours);
            let large = four + pair / BLOCK * BLOCK * plane;
            let (low, high) = (low.map(split::<0>), high.map(split::<0>));
            mem::store(packed.add(large as usize), words(low.map(|parts| parts.0), high.map(|parts| parts.0)));
            let small = large + BLOCK * plane;
            mem::store(packed.add(small as usize), words(low.map(|parts| parts.1), high.map(|parts| parts.1)));
        } else {
            mem::store(packed.add(four as usize), words(low, high));
        }
    }
}

/// Starts to copy four elements of either channel of a pair where nothing is filled up: rows are fours, and channels pairs.
///
/// # Safety
/// The sample has such a four, aligned to 16 bytes; the slots are this thread's, and nothing is on its way there.
#[cfg_attr(gpu, inline(always))]
unsafe fn start_as_they_are(p: &InputPacking, four: u32, sample: *const f32, [low, high]: Slots) {
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

/// Starts to copy four elements of either channel of a pair, zeros for those that there are not.
///
/// # Safety
/// As [`start_as_they_are`]; rows are aligned to 16 bytes if they are said to be.
#[cfg_attr(gpu, inline(always))]
unsafe fn start(p: &InputPacking, four: u32, aligned: bool, sample: *const f32, [low, high]: Slots) {
    let (row, within) = four.divide(p.row_fours);
    let (pair, row) = row.divide(p.rows);
    let (group, pair) = pair.divide(p.pairs);
    let channel_elements = p.rows.value() as usize * p.width as usize;
    let first_channel = group as usize * p.channels as usize + 2 * pair as usize;
    let first =
        sample.wrapping_add(first_channel * channel_elements + row as usize * p.width as usize + 4 * within as usize);
    // SAFETY: the caller's promise: if there is such a channel, it has such elements.
    let copy = |slot: SharedPtr<[f32; 4]>, first: *const f32, exists: bool| unsafe {
        if aligned {
            copy_16(slot.cast(), first.cast(), exists);
            return;
        }
        unrolled!(WORD in 0..4, at most 4 => {
            let is_in_row = 4 * within + (WORD as u32) < p.width;
            copy_4(slot.cast().add(WORD as u32), first.wrapping_add(WORD).cast(), exists && is_in_row);
        });
    };
    copy(low, first, 2 * pair < p.channels);
    copy(high, first.wrapping_add(channel_elements), 2 * pair + 1 < p.channels);
}
