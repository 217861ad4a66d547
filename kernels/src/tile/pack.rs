//! Pack: brings the weight into the form in which the tile kernels stage it. Which thread packs what, `words` says.
//!
//! A slab is the matrix of one kernel element: eight input channels, or eight pairs of them as `f16`, which are
//! neighbours or four apart, by the output channels of a tile. Or it is that of two, with eight channels each. Within
//! it, eight output channels are 64 words, ordered `[input channel / 4][output channel][input channel % 4]`: what
//! `wgmma` calls a K-major operand without swizzle, and what the lanes of `mma.sync` read without bank conflicts. Slabs
//! follow one another in the order in which blocks stage them:
//! `[group, or a partner's share of it][tile of channels][stage][slab]`. Where phases share the columns, blocks of
//! eight columns belong to them in turn; or, of up to four channels, one, two or four columns each. Channels beyond the
//! last one are zero, and so is a phase that has no tap where others have one.

#[cfg(not(cuda_arch = "sm_70"))]
use cuda_std::{half, math::larger_magnitude, shared::dynamic_shared_mem, thread, warp};
use cuda_std::{kernel, mem};

use super::parameters::{Packing, Slab};
#[cfg(any(cuda_arch = "sm_70", not(gpu)))]
use super::words::{weights_of, word_of_thread};
#[cfg(not(cuda_arch = "sm_70"))]
use super::{
    largest::{finite, largest_of_block, largest_of_four},
    parameters::Portions,
    rounding::{round_to_tf32, split},
    scale::{Exponent, power_of_two},
    words::for_each_word,
};
#[cfg(not(cuda_arch = "sm_70"))]
use crate::unrolled::unrolled;

/// Words of the header of a weight that is packed as `f16`: the largest magnitudes that as many blocks have found in
/// it.
pub const WEIGHT_HEADER: u32 = 128;

/// Threads of such a block.
pub const WEIGHING_THREADS: u32 = 512;

/// Packs weights as they are, for ordinary cores.
///
/// # Safety
/// The pointers are device pointers: `slabs` to the stage's table of slabs, `weight` to the weight, `packed` to
/// `packing.words` words that nothing else accesses meanwhile. The grid is one-dimensional and has at least that many
/// threads.
#[cfg(any(cuda_arch = "sm_70", not(gpu)))]
#[kernel]
pub unsafe fn pack(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    if let Some((slab, within)) = word_of_thread(&packing) {
        // SAFETY: the caller's promise, and the word is within the packed weight.
        unsafe {
            let [value] = weights_of(slab, within, &packing, slabs, weight);
            mem::store(packed.add(word_at(&packing, slab, within)), value);
        }
    }
}

/// Packs weights rounded to TF32.
///
/// # Safety
/// As [`pack`](fn@pack), if there are no portions. Otherwise the grid has a block of
/// [`PORTION_THREADS`](super::PORTION_THREADS) threads for each of them, with shared memory for the stage's table of
/// slabs and, behind it, `row_words` for each input channel.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel(launch_bounds(512, 1))]
pub unsafe fn pack_tf32(
    packing: Packing,
    portions: Portions,
    slabs: *const Slab,
    weight: *const f32,
    packed: *mut f32,
) {
    let store = |(), slab, within, [value]: [f32; 1]| {
        // SAFETY: the caller's promise: the word is within the packed weight.
        unsafe { mem::store(packed.add(word_at(&packing, slab, within)), round_to_tf32::<0>(value)) };
    };
    let_dependents_begin();
    // SAFETY: the caller's promise.
    unsafe { for_each_word(&packing, &portions, slabs, weight, || (), store) };
}

/// Finds the largest finite magnitudes of the weight, each block that of a part of its elements: the header of the
/// packed weight.
///
/// # Safety
/// The pointers are device pointers: `weight` to so many elements, `header` to [`WEIGHT_HEADER`] words that nothing
/// else accesses meanwhile. There are as many blocks, of [`WEIGHING_THREADS`] threads, with a word of shared memory for
/// each warp.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel(launch_bounds(512, 1))]
pub unsafe fn weigh(elements: u64, weight: *const f32, header: *mut u32) {
    let_dependents_begin();
    let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
    let first = u64::from(block * WEIGHING_THREADS + thread);
    let fours = if weight.addr().is_multiple_of(16) { elements / 4 } else { 0 };
    let fours_weight = weight.cast::<[f32; 4]>();
    // SAFETY: the caller's promise; all threads of the block come here together.
    unsafe {
        let of_fours = largest_of_share(first, fours, |has, four| {
            largest_of_four(mem::load_readonly_if(has, fours_weight.wrapping_add(four as usize)))
        });
        let of_rest = largest_of_share(4 * fours + first, elements, |has, element| {
            finite(mem::load_readonly_if(has, weight.wrapping_add(element as usize)))
        });
        let largest = larger_magnitude(of_fours, of_rest);
        let largest = largest_of_block(largest, dynamic_shared_mem(), WEIGHING_THREADS / 32);
        if thread == 0 {
            mem::store(header.add(block as usize), largest.to_bits());
        }
    }
}

/// The largest magnitude of every so many of what comes before the end, from a first one on, of which eight are under
/// way together. What is beyond the end is zero.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn largest_of_share(mut first: u64, end: u64, load: impl Fn(bool, u64) -> f32) -> f32 {
    const STEP: u64 = (WEIGHT_HEADER * WEIGHING_THREADS) as u64;
    const UNDER_WAY: usize = 8;
    let mut largest = 0.0f32;
    while first < end {
        let mut values = [0.0; UNDER_WAY];
        unrolled!(NEXT in 0..UNDER_WAY, at most 8 => {
            let number = first + NEXT as u64 * STEP;
            values[NEXT] = load(number < end, number);
        });
        unrolled!(NEXT in 0..UNDER_WAY, at most 8 => {
            largest = larger_magnitude(largest, values[NEXT]);
        });
        first += UNDER_WAY as u64 * STEP;
    }
    largest
}

/// Packs weights as `f16`, two input channels in a word, scaled to what these hold.
///
/// # Safety
/// As [`pack_tf32`](fn@pack_tf32), but `packed` begins with a header, which is complete, or is when the grid before this
/// one has ended. Blocks have whole warps.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel(launch_bounds(512, 1))]
pub unsafe fn pack_f16(packing: Packing, portions: Portions, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let store = |scale, slab, within, channels: [f32; 2]| {
        let word = half::pack(channels.map(|value| value * scale));
        // SAFETY: the caller's promise: the word is within the packed weight.
        unsafe { mem::store(packed.add(WEIGHT_HEADER as usize + word_at(&packing, slab, within)).cast(), word) };
    };
    let_dependents_begin();
    // SAFETY: the caller's promise; `prepare` is for whole warps.
    unsafe { for_each_word(&packing, &portions, slabs, weight, || scale_behind_weighing(packed, false), store) };
}

/// Packs weights as sums of two TF32 numbers: for each slab one of the large parts, then one of the small parts.
///
/// # Safety
/// As [`pack_tf32`](fn@pack_tf32), with twice as many words behind `packed`.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel(launch_bounds(512, 1))]
pub unsafe fn pack_split(
    packing: Packing,
    portions: Portions,
    slabs: *const Slab,
    weight: *const f32,
    packed: *mut f32,
) {
    let store = |(), slab, within, [value]: [f32; 1]| {
        let (large, small) = split::<0>(value);
        // SAFETY: the caller's promise: both words are within the packed weight.
        unsafe {
            let place = packed.add(large_part_at(&packing, slab, within));
            mem::store(place, large);
            mem::store(place.add(packing.slab_words.value() as usize), small);
        }
    };
    let_dependents_begin();
    // SAFETY: the caller's promise.
    unsafe { for_each_word(&packing, &portions, slabs, weight, || (), store) };
}

/// Packs weights as sums of two `f16` numbers, two input channels in a word, scaled to what these hold: for each slab
/// one of the large parts, then one of the small parts.
///
/// # Safety
/// As [`pack_f16`](fn@pack_f16), with twice as many words behind the header.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel(launch_bounds(512, 1))]
pub unsafe fn pack_split_f16(
    packing: Packing,
    portions: Portions,
    slabs: *const Slab,
    weight: *const f32,
    packed: *mut f32,
) {
    let store = |scale, slab, within, channels: [f32; 2]| {
        let parts = channels.map(|value| split::<0>(value * scale));
        // SAFETY: the caller's promise: both words are within the packed weight.
        unsafe {
            let place = packed.add(WEIGHT_HEADER as usize + large_part_at(&packing, slab, within));
            mem::store(place.cast(), half::pack(parts.map(|(large, _)| large)));
            let place = place.add(packing.slab_words.value() as usize);
            mem::store(place.cast(), half::pack(parts.map(|(_, small)| small)));
        }
    };
    let_dependents_begin();
    // SAFETY: the caller's promise; `prepare` is for whole warps.
    unsafe { for_each_word(&packing, &portions, slabs, weight, || scale_behind_weighing(packed, true), store) };
}

/// Where a word of a slab is in the packed weight.
#[cfg_attr(gpu, inline(always))]
fn word_at(packing: &Packing, slab: u32, within: u32) -> usize {
    (slab * packing.slab_words.value() as u32 + within) as usize
}

/// Where its large part is, if small parts follow those of a slab.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn large_part_at(packing: &Packing, slab: u32, within: u32) -> usize {
    word_at(packing, 2 * slab, within)
}

/// Lets the next grid begin, which waits for this one before it reads what is packed here.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
fn let_dependents_begin() {
    #[cfg(cuda_arch = "sm_90a")]
    cuda_std::grid::launch_dependents();
}

/// The power of two for a weight whose largest values the grid before this one finds, once it has ended.
///
/// # Safety
/// `header` is that of a weight; all lanes of the warp come here together.
#[cfg(not(cuda_arch = "sm_70"))]
#[cfg_attr(gpu, inline(always))]
unsafe fn scale_behind_weighing(header: *const f32, split: bool) -> f32 {
    #[cfg(cuda_arch = "sm_90a")]
    cuda_std::grid::await_prerequisites();
    // SAFETY: the caller's promise; the header is aligned, as all packed weights are.
    let largest = unsafe { mem::load(header.cast::<[u32; 4]>().add(warp::lane_id() as usize)) };
    // SAFETY: the caller's promise.
    power_of_two(unsafe { Exponent::of_header(largest, split) })
}
