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
use cuda_std::{half, kernel, math::larger_magnitude, mem, shared::dynamic_shared_mem, thread};

use super::{
    largest::{largest_of_block, largest_of_four},
    rounding::split,
    scale::{Exponent, power_of_two},
    unrolled::unrolled,
};
use crate::index::{Divisor, Index};

/// Threads of a block.
pub const INPUT_PACKING_THREADS: u32 = 256;

/// Fours of words that a thread has under way together.
const UNDER_WAY: usize = 2;

/// What is packed, and where.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct InputPacking {
    /// Fours of words of a packed row.
    pub row_fours: Divisor,
    /// Rows of a channel.
    pub rows: Divisor,
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
    /// Words of the header, a multiple of four.
    pub header: u32,
    /// Zero.
    pub padding: u32,
}

/// Packs the samples as if the largest value of each were around one, and finds it.
///
/// # Safety
/// The pointers are device pointers: `input` to the input, `packed` to a header and as many words as the packed input has, aligned to 16 bytes, which nothing else accesses meanwhile. There are
/// `packing.blocks` blocks for each sample, of [`INPUT_PACKING_THREADS`] threads, with a word of shared memory for each warp.
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
    let scale = power_of_two(exponent);
    let step = p.blocks.value() as u32 * INPUT_PACKING_THREADS;
    // Of pairs of channels: if they are split, two fours of words each.
    let count = if SPLIT { p.fours / 2 } else { p.fours };
    let mut first = block * INPUT_PACKING_THREADS + thread::thread_idx_x();
    let mut largest = 0.0f32;
    while first < count {
        let mut fours = [[[0.0; 4]; 2]; UNDER_WAY];
        unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
            let four = first + NEXT as u32 * step;
            // SAFETY: the caller's promise.
            fours[NEXT] = unsafe { load(p, four, four < count, aligned, input) };
        });
        unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
            let four = first + NEXT as u32 * step;
            let [low, high] = fours[NEXT];
            largest = larger_magnitude(largest, larger_magnitude(largest_of_four(low), largest_of_four(high)));
            if four < count {
                let [low, high] = [low, high].map(|words| words.map(|word| word * scale));
                // SAFETY: as above: this four is this thread's.
                unsafe {
                    if SPLIT {
                        store_split(p, four, [low, high], packed);
                    } else {
                        mem::store(packed.add(four as usize), [0, 1, 2, 3].map(|word| half::pack([low[word], high[word]])));
                    }
                }
            }
        });
        first += UNDER_WAY as u32 * step;
    }
    largest
}

/// Stores the large parts of a four of pairs, and their small parts, eight words of a position further on.
///
/// # Safety
/// As [`pack_input_split`](fn@pack_input_split): the four is this thread's.
#[cfg_attr(gpu, inline(always))]
unsafe fn store_split(p: &InputPacking, four: u32, [low, high]: [[f32; 4]; 2], packed: *mut [u32; 4]) {
    const BLOCK: u32 = 8;
    let plane = p.rows.value() as u32 * p.row_fours.value() as u32;
    let (row, _) = four.divide(p.row_fours);
    let (pair, _) = row.divide(p.rows);
    let large = four + pair / BLOCK * BLOCK * plane;
    let (low, high) = (low.map(split::<0>), high.map(split::<0>));
    // SAFETY: the caller's promise.
    unsafe {
        let words = [0, 1, 2, 3].map(|word| half::pack([low[word].0, high[word].0]));
        mem::store(packed.add(large as usize), words);
        let words = [0, 1, 2, 3].map(|word| half::pack([low[word].1, high[word].1]));
        mem::store(packed.add((large + BLOCK * plane) as usize), words);
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
