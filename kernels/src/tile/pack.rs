//! Pack: brings the weight into the form in which the tile kernels stage it, one thread per packed word.
//!
//! A slab is the matrix of one kernel element: eight input channels by the output channels of a tile. Within it, eight output
//! channels are 64 words, ordered `[input channel / 4][output channel][input channel % 4]`: what `wgmma` calls a K-major operand
//! without swizzle, and what the lanes of `mma.sync` read without bank conflicts. Slabs follow one another in the order in which
//! blocks stage them: `[group][tile of channels][stage][slab]`. Where phases share the columns, blocks of eight columns belong to them in
//! turn; or, of up to four channels, one, two or four columns each. Channels beyond the last one are zero, and so is a phase that has no tap
//! where others have one.

use cuda_std::{kernel, mem, thread};

use super::parameters::{Packing, Slab};
#[cfg(not(cuda_arch = "sm_70"))]
use super::rounding::{round_to_tf32, split};
use crate::index::Index;

/// Words of eight input channels by eight output channels.
const BLOCK_WORDS: u32 = 64;

/// Packs weights as they are, for ordinary cores.
///
/// # Safety
/// As [`pack_tf32`].
#[cfg(any(cuda_arch = "sm_70", not(target_arch = "nvptx64")))]
#[kernel]
pub unsafe fn pack(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let value = weight_at(slab, within, &packing, slabs, weight);
            mem::store(packed.add(index as usize), value);
        }
    }
}

/// Packs weights rounded to TF32.
///
/// # Safety
/// The pointers are device pointers: `slabs` to the stage's table of slabs, `weight` to the weight, `packed` to `packing.words` words
/// that nothing else accesses meanwhile. The grid is one-dimensional and has at least that many threads.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_tf32(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let value = weight_at(slab, within, &packing, slabs, weight);
            mem::store(packed.add(index as usize), round_to_tf32::<0>(value));
        }
    }
}

/// Packs weights as sums of two TF32 numbers: for each slab one of the large parts, then one of the small parts.
///
/// # Safety
/// As [`pack_tf32`], with twice as many words behind `packed`.
#[cfg(not(cuda_arch = "sm_70"))]
#[kernel]
pub unsafe fn pack_split(packing: Packing, slabs: *const Slab, weight: *const f32, packed: *mut f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < packing.words {
        let (slab, within) = index.divide(packing.slab_words);
        // SAFETY: the caller's promise, and the index is within the packed weight.
        unsafe {
            let (large, small) = split::<0>(weight_at(slab, within, &packing, slabs, weight));
            let place = packed.add(2 * (index - within) as usize + within as usize);
            mem::store(place, large);
            mem::store(place.add(packing.slab_words.value() as usize), small);
        }
    }
}

/// The weight in word `within` of a slab, zero if there is none.
///
/// # Safety
/// As [`pack_tf32`], of a slab of the packed weight.
#[inline(always)]
unsafe fn weight_at(slab: u32, within: u32, packing: &Packing, slabs: *const Slab, weight: *const f32) -> f32 {
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
    let in_channel = stage * packing.stage_channels + entry.channel + word / 32 * 4 + word % 4;
    let out_channel = tile * packing.tile_channels + tile_channel;
    let exists = entry.tap != Slab::NO_TAP && tile_channel < packing.tile_channels;
    if !exists || in_channel >= packing.in_per_group || out_channel >= packing.out_per_group {
        return 0.0;
    }
    let row = (group as u64 * packing.in_per_group as u64 + in_channel as u64) * packing.out_per_group as u64;
    let element = (row + out_channel as u64) * packing.taps as u64 + entry.tap as u64;
    // SAFETY: both channels are within the group, the tap within the kernel.
    unsafe { mem::load_readonly(weight.add(element as usize)) }
}
