//! Pack: brings the input into the form in which the flat kernels stage it, by two grids (`tile/packing_grids.rs`).
//!
//! The packed input is a tensor `[sample][group][eight channels][residue][position][channel]` of `f16` behind their
//! header: of each position the channels side by side, 16 bytes. There are an even number of blocks of eight channels.
//! Positions are those that taps read: where there is no input, and in channels that there are not, it is zero. In
//! single precision (`_split`) every value is the sum of two numbers: of 16 channels the planes of the large parts are
//! followed by those of the small ones.
//!
//! A thread packs one position of eight channels at a time. Neighbouring threads have neighbouring coordinates along x,
//! so that each load of a warp is a line of the cache, and each store four, or two of each of two residues.

use cuda_std::{half, kernel, math::larger_magnitude, mem, thread};

use super::{FlatPacking, parts_of_factor};
use crate::{
    index::Index,
    tile::{Exponent, INPUT_PACKING_THREADS, Share, largest_of_pairs, power_of_two, split},
    unrolled::unrolled,
};

/// Channels of a packed position.
const CHANNELS: usize = 8;

/// Positions that a thread has under way together.
const UNDER_WAY: usize = 2;

/// Packs the samples as if the largest value of each were around one, and finds it.
///
/// # Safety
/// The pointers are device pointers: `input` to the input, `packed` to a header and as many words as the packed input
/// has, aligned to 16 bytes, which nothing else accesses meanwhile. There are `packing.blocks` blocks for each sample,
/// of [`INPUT_PACKING_THREADS`] threads, with a word of shared memory for each warp.
#[kernel]
pub unsafe fn pack_flat(packing: FlatPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_first(false, packed, |exponent| pack::<false>(&packing, &share, exponent, input, packed)) }
}

/// Notes the exponents of the samples, and packs those again for which another one is right.
///
/// # Safety
/// As [`pack_flat`](fn@pack_flat), which has packed the same input, or is about to end, if this grid need not wait for
/// it.
#[kernel]
pub unsafe fn repack_flat(packing: FlatPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_again(false, packed, |exponent| pack::<false>(&packing, &share, exponent, input, packed)) }
}

/// As [`pack_flat`](fn@pack_flat), with values that are split.
///
/// # Safety
/// As [`pack_flat`](fn@pack_flat), with twice as many words behind the header.
#[kernel]
pub unsafe fn pack_flat_split(packing: FlatPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_first(true, packed, |exponent| pack::<true>(&packing, &share, exponent, input, packed)) }
}

/// As [`repack_flat`](fn@repack_flat), with values that are split.
///
/// # Safety
/// As [`repack_flat`](fn@repack_flat), behind [`pack_flat_split`](fn@pack_flat_split).
#[kernel]
pub unsafe fn repack_flat_split(packing: FlatPacking, input: *const f32, packed: *mut u32) {
    let share = Share::of_block(packing.batch, packing.blocks);
    // SAFETY: the caller's promise.
    unsafe { share.pack_again(true, packed, |exponent| pack::<true>(&packing, &share, exponent, input, packed)) }
}

/// Packs a block's share of a sample. Returns the largest finite magnitude among this thread's values.
///
/// # Safety
/// As [`pack_flat`](fn@pack_flat), or `pack_flat_split` if values are `SPLIT`.
#[cfg_attr(gpu, inline(always))]
unsafe fn pack<const SPLIT: bool>(
    p: &FlatPacking,
    share: &Share,
    exponent: Exponent,
    input: *const f32,
    packed: *mut u32,
) -> f32 {
    let input = input.wrapping_add(share.sample as usize * p.sample as usize);
    let packed = packed.wrapping_add(p.header as usize).cast::<[u32; 4]>();
    let packed = packed.wrapping_add(share.sample as usize * p.positions as usize * parts_of_factor(SPLIT) as usize);
    let scale = power_of_two(exponent);
    let begin = share.block * p.positions_of_block;
    let end = p.positions.min(begin + p.positions_of_block);
    let mut first = begin + thread::thread_idx_x();
    let mut largest = 0.0;
    while first < end {
        let (mut places, mut values) = ([0; UNDER_WAY], [[0.0; CHANNELS]; UNDER_WAY]);
        unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
            let number = first + NEXT as u32 * INPUT_PACKING_THREADS;
            // SAFETY: the caller's promise.
            (places[NEXT], values[NEXT]) = unsafe { load::<SPLIT>(p, input, number, number < end) };
        });
        unrolled!(NEXT in 0..UNDER_WAY, at most 2 => {
            let number = first + NEXT as u32 * INPUT_PACKING_THREADS;
            let [a, b, c, d, e, f, g, h] = values[NEXT];
            largest = larger_magnitude(largest, largest_of_pairs([[a, b, c, d], [e, f, g, h]]));
            if number < end {
                let scaled = values[NEXT].map(|value| value * scale);
                // SAFETY: the caller's promise: the position is this thread's.
                unsafe { store::<SPLIT>(p, packed.wrapping_add(places[NEXT] as usize), scaled) };
            }
        });
        first += UNDER_WAY as u32 * INPUT_PACKING_THREADS;
    }
    largest
}

/// Stores the channels of a position; if they are split the large parts, and the small ones in the plane that much
/// further on.
///
/// # Safety
/// As [`pack_flat`](fn@pack_flat), for a position of this thread.
#[cfg_attr(gpu, inline(always))]
unsafe fn store<const SPLIT: bool>(p: &FlatPacking, place: *mut [u32; 4], values: [f32; CHANNELS]) {
    let words = |values: [f32; CHANNELS]| [0, 2, 4, 6].map(|pair| half::pack([values[pair], values[pair + 1]]));
    // SAFETY: the caller's promise.
    unsafe {
        if SPLIT {
            let parts = values.map(split::<0>);
            let distance = 2 * p.outer_residues.value() as usize * p.planes.value() as usize;
            mem::store(place, words(parts.map(|(large, _)| large)));
            mem::store(place.wrapping_add(distance), words(parts.map(|(_, small)| small)));
        } else {
            mem::store(place, words(values));
        }
    }
}

/// Where the packed position of that number lies, which there is if it `exists`, and its channels; zero where there is
/// no input.
///
/// # Safety
/// As [`pack_flat`](fn@pack_flat), of a sample that begins there.
#[cfg_attr(gpu, inline(always))]
unsafe fn load<const SPLIT: bool>(
    p: &FlatPacking,
    sample: *const f32,
    number: u32,
    exists: bool,
) -> (u32, [f32; CHANNELS]) {
    let residues = p.residues[2];
    let (planes, within) = number.divide(p.planes);
    let (position, inner) = if residues > 1 { (within / 2, within % 2) } else { (within, 0) };
    let (blocks, outer) = planes.divide(p.outer_residues);
    // The small parts of two blocks of channels lie behind their large parts.
    let planes = if SPLIT { (blocks + (blocks & !1)) * p.outer_residues.value() as u32 + outer } else { planes };
    let packed = (planes * residues + inner) * p.plane + position;
    let (group, block) = blocks.divide(p.channel_blocks);
    let (rows, x) = position.divide(p.row);
    let (slice, row) = rows.divide(p.slice);
    let along = |axis: usize, position: u32| {
        let residue = if p.residues[axis] > 1 { outer } else { 0 };
        (position * p.residues[axis] + residue).wrapping_sub(p.begin[axis])
    };
    let (z, y, x) = (along(0, slice), along(1, row), (x * residues + inner).wrapping_sub(p.begin[2]));
    let is_input = exists && x < p.input[2] && y < p.input[1] && z < p.input[0];
    let channels = p.in_per_group.saturating_sub(block * CHANNELS as u32);
    let first = (group * p.in_per_group + block * CHANNELS as u32) as usize * p.input_plane as usize;
    let place = z.wrapping_mul(p.input[1]).wrapping_add(y).wrapping_mul(p.input[2]).wrapping_add(x);
    let mut source = sample.wrapping_add(first.wrapping_add(place as usize));
    let mut values = [0.0; CHANNELS];
    unrolled!(CHANNEL in 0..CHANNELS, at most 8 => {
        // SAFETY: the caller's promise: the position is within the input, and the channel within the group.
        values[CHANNEL] = unsafe { mem::load_readonly_if(is_input && (CHANNEL as u32) < channels, source) };
        source = source.wrapping_add(p.input_plane as usize);
    });
    (packed, values)
}
