//! Pack: brings the weight into the form in which the tile kernels stage it, one thread per packed word.
//!
//! A slab is the matrix of one kernel element: eight input channels, or eight pairs of them as `f16`, which are
//! neighbours or four apart, by the output channels of a tile. Or it is that of two, with eight channels each. Within
//! it, eight output channels are 64 words, ordered `[input channel / 4][output channel][input channel % 4]`: what
//! `wgmma` calls a K-major operand without swizzle, and what the lanes of `mma.sync` read without bank conflicts. Slabs
//! follow one another in the order in which blocks stage them: `[group][tile of channels][stage][slab]`. Where phases
//! share the columns, blocks of eight columns belong to them in turn; or, of up to four channels, one, two or four
//! columns each. Channels beyond the last one are zero, and so is a phase that has no tap where others have one.

#[cfg(not(cuda_arch = "sm_70"))]
use cuda_std::{half, math::larger_magnitude, shared::dynamic_shared_mem, warp};
use cuda_std::{kernel, mem, thread};

use super::parameters::{Packing, Slab};
#[cfg(not(cuda_arch = "sm_70"))]
use super::{
    largest::{finite, largest_of_block, largest_of_four},
    rounding::{round_to_tf32, split},
    scale::{Exponent, power_of_two},
};
use crate::index::Index;
#[cfg(not(cuda_arch = "sm_70"))]
use crate::unrolled::unrolled;

/// Words of the header of a weight that is packed as `f16`: the largest magnitudes that as many blocks have found in
/// it.
pub const WEIGHT_HEADER: u32 = 128;

/// Threads of such a block.
pub const WEIGHING_THREADS: u32 = 256;

/// Words of eight input channels by eight output channels.
const BLOCK_WORDS: u32 = 64;

/// Input channels of half a slab, if it has 16.
const HALF: u32 = 8;

/// Packs weights as they are, for ordinary cores.
///
/// # Safety
/// The pointers are device pointers: `slabs` to the stage's table of slabs, `weight` to the weight, `packed` to
/// `packing.words` words that nothing else accesses meanwhile. The grid is one-dimensional and has at least that many
/// threads.
#[cfg(any(cuda_arch = "sm_70", not(gpu)))]
#[kernel]
pub unsafe fn pack(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let value = weight_at(slab, within, 0, &packing, slabs, weight);
            mem::store(packed.add(index as usize), value);
        }
    }
}

/// Packs weights rounded to TF32.
///
/// # Safety
/// As [`pack`](fn@pack).
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_tf32(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let value = weight_at(slab, within, 0, &packing, slabs, weight);
            mem::store(packed.add(index as usize), round_to_tf32::<0>(value));
        }
    }
}

/// Finds the largest finite magnitudes of the weight, each block that of a part of its elements: the header of the
/// packed weight.
///
/// # Safety
/// The pointers are device pointers: `weight` to so many elements, `header` to [`WEIGHT_HEADER`] words that nothing
/// else accesses meanwhile. There are as many blocks, of [`WEIGHING_THREADS`] threads, with a word of shared memory for
/// each warp.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn weigh(elements: u64, weight: *const f32, header: *mut u32) {
    // What packs the weight may begin, and waits for the header.
    #[cfg(cuda_arch = "sm_90a")]
    cuda_std::grid::launch_dependents();
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
/// The pointers are device pointers: `slabs` to the stage's table of slabs, `weight` to the weight, `packed` to a
/// header that is complete, or is when the grid before this one has ended, and behind it `packing.words` words that
/// nothing else accesses meanwhile. The grid is one-dimensional and has at least that many threads, in whole warps.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_f16(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // There are whole slabs, so that lanes of a warp have a word each, or none has.
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let channels = [0, 1].map(|channel| weight_at(slab, within, channel, &packing, slabs, weight));
            let scale = scale_behind_weighing(packed, false);
            let word = half::pack(channels.map(|value| value * scale));
            mem::store(packed.add((WEIGHT_HEADER + index) as usize).cast(), word);
        }
    }
}

/// Packs weights as sums of two TF32 numbers: for each slab one of the large parts, then one of the small parts.
///
/// # Safety
/// As [`pack`](fn@pack), with twice as many words behind `packed`.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_split(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let (large, small) = split::<0>(weight_at(slab, within, 0, &packing, slabs, weight));
            let place = packed.add(2 * (index - within) as usize + within as usize);
            mem::store(place, large);
            mem::store(place.add(packing.slab_words.value() as usize), small);
        }
    }
}

/// Packs weights as sums of two `f16` numbers, two input channels in a word, scaled to what these hold: for each slab
/// one of the large parts, then one of the small parts.
///
/// # Safety
/// As [`pack_f16`](fn@pack_f16), with twice as many words behind the header.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_split_f16(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    // There are whole slabs, so that lanes of a warp have a word each, or none has.
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let channels = [0, 1].map(|channel| weight_at(slab, within, channel, &packing, slabs, weight));
            let scale = scale_behind_weighing(packed, true);
            let parts = channels.map(|value| split::<0>(value * scale));
            let place = packed.add(WEIGHT_HEADER as usize + 2 * (index - within) as usize + within as usize);
            mem::store(place.cast(), half::pack(parts.map(|(large, _)| large)));
            let place = place.add(packing.slab_words.value() as usize);
            mem::store(place.cast(), half::pack(parts.map(|(_, small)| small)));
        }
    }
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

/// The weight in word `within` of a slab, of the given one of its channels; zero if there is none.
///
/// # Safety
/// As [`pack`](fn@pack), of a slab of the packed weight.
#[cfg_attr(gpu, inline(always))]
unsafe fn weight_at(
    slab: u32,
    within: u32,
    channel: u32,
    packing: &Packing,
    slabs: *const Slab,
    weight: *const f32,
) -> f32 {
    let (stages, slab) = slab.divide(packing.stage_slabs);
    let (tiles, stage) = stages.divide(packing.stages);
    let (group, tile) = tiles.divide(packing.channel_tiles);
    let (block, word) = (within / BLOCK_WORDS, within % BLOCK_WORDS);
    let column = word % 32 / 4;
    let (phase, tile_channel) = if packing.close_channels > 0 {
        let column = block * 8 + column;
        // A power of two.
        (column >> packing.close_channels.trailing_zeros(), column & (packing.close_channels - 1))
    } else {
        let (channel_block, phase) = block.divide(packing.column_phases);
        (phase, channel_block * 8 + column)
    };
    if phase >= packing.column_phases.value() as u32 {
        return 0.0;
    }
    let entry = slabs.wrapping_add((slab * packing.column_phases.value() as u32 + phase) as usize);
    // SAFETY: the table has an entry for each slab of a stage and each phase.
    let entry: Slab = bytemuck::cast(unsafe { mem::load_readonly(entry.cast::<[u32; 4]>()) });
    let (pair, distance) = (word / 32 * 4 + word % 4, packing.pair_distance);
    let first = (pair & (distance - 1)) + (pair >> distance.trailing_zeros()) * 2 * distance;
    let number = first + distance * channel;
    let half = if number < HALF { 0 } else { 1 };
    let tap = entry.taps[half];
    let in_channel = stage * packing.stage_channels + entry.channels[half] + number % HALF;
    let out_channel = tile * packing.tile_channels + tile_channel;
    let exists = tap != Slab::NO_TAP && tile_channel < packing.tile_channels;
    if !exists || in_channel >= packing.in_per_group || out_channel >= packing.out_per_group {
        return 0.0;
    }
    let row = (group as u64 * packing.in_per_group as u64 + in_channel as u64) * packing.out_per_group as u64;
    let element = (row + out_channel as u64) * packing.taps as u64 + tap as u64;
    // SAFETY: both channels are within the group, the tap within the kernel.
    unsafe { mem::load_readonly(weight.add(element as usize)) }
}
