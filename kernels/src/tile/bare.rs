//! Bare rows: output rows that no tap reaches, written by producers that have nothing else to do while teams compute
//! and store the others.
//!
//! What is bare is the same in every output channel: *stretches* between the lines of the teams, of which the host
//! makes a table. Two warps of each block share them out. Each keeps the bias of a channel in shared memory many times
//! over, and copies from there in bulk: that takes the fewest instructions, of which the teams want all that there are.
//! Copies are of whole sectors. What is left at the ends of a stretch is part of the sectors that lines begin and end
//! in, and is written with these (`Line::BIASES_BEFORE`), or word by word if no line does so.
//!
//! Inputs and weights wait behind what is copied, so that teams wait, too, if these warps are faster than they need to
//! be: the host says how many lanes copy at a time. All blocks write the same channels at about the same time, and not
//! far from what the teams write: memory likes that better.
//!
//! Limits: only in kernels that are compiled for their layer, because lines have biases beside them only there;
//! elsewhere the output is filled first.

#[cfg(cuda_arch = "sm_90a")]
use cuda_std::{async_copy, tensor_core};
use cuda_std::{
    mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{
    SECTOR_WORDS, is_specialised,
    parameters::{Stretch, Tiling, rows},
    stage::producer,
};
use crate::index::Index;

/// Warps of a block that write bare rows: the last ones of those that stage the input, if it does not come in boxes.
pub const BARE_WRITERS: u32 = 2;

/// Bytes of biases that each of them keeps in shared memory: the most that a stretch has.
pub const BARE_BYTES: u32 = 4096;

/// Every lane of a warp.
const ALL_LANES: u32 = u32::MAX;

/// Bytes of a sector.
const SECTOR: usize = 4 * SECTOR_WORDS as usize;

/// Writes the block's share of what is bare.
///
/// # Safety
/// As the kernels; all threads that stage the input come here, whole warps of them but for the first one.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn write_bare_rows(t: &Tiling, tables: *const [u32; 4], bias: *const f32, output: *mut f32) {
    let warp = producer() / 32;
    if !is_specialised() || t.bare_stretches == 0 || warp == 0 {
        return;
    }
    let biases = dynamic_shared_mem::<u8>().add(t.bare_start + (warp - 1) * BARE_BYTES);
    let first = thread::block_idx_y() * BARE_WRITERS + warp - 1;
    let mut staged = 0.0;
    let mut number = first;
    while number < t.bare_parts {
        let (plane, part) = number.divide(t.parts_of_plane);
        // SAFETY: the caller's promise. What is staged is read by copies of this warp only, which have been waited for.
        unsafe {
            let bias = bias_of(t, bias, plane);
            if number == first || bias.to_bits() != f32::to_bits(staged) {
                stage(biases, bias);
                staged = bias;
            }
            let lane = warp::lane_id();
            let stretch = part * t.bare_lanes + lane;
            if lane < t.bare_lanes && stretch < t.bare_stretches {
                let row = tables.wrapping_add((t.first_stretch_row + stretch * rows::<Stretch>()) as usize);
                let stretch: Stretch = bytemuck::cast(mem::load_readonly(row));
                write(output.wrapping_add(plane as usize * t.output_plane as usize), &stretch, biases, bias);
                // Where all lanes copy, they are in a hurry.
                if t.bare_lanes < 32 { await_reads::<0>() } else { await_reads::<1>() }
            }
        }
        number += t.workers.value() as u32 * BARE_WRITERS;
    }
    await_reads::<0>();
}

/// The bias of a plane: an output channel of a sample.
///
/// # Safety
/// A bias that is not null has an element per output channel.
#[cfg_attr(gpu, inline(always))]
unsafe fn bias_of(t: &Tiling, bias: *const f32, plane: u32) -> f32 {
    if bias.is_null() {
        return 0.0;
    }
    let (_, channel) = plane.divide(t.out_channels);
    // SAFETY: the caller's promise.
    unsafe { mem::load_readonly(bias.add(channel as usize)) }
}

/// Fills the warp's shared memory with a bias, when nobody copies from there any more.
///
/// # Safety
/// All lanes of the warp come here together; the memory is theirs.
#[cfg_attr(gpu, inline(always))]
unsafe fn stage(biases: SharedPtr<u8>, bias: f32) {
    const PIECES: u32 = BARE_BYTES / 16;
    await_reads::<0>();
    // SAFETY: the caller's promise; barriers lie before and behind what is written.
    unsafe {
        warp::sync_warp(ALL_LANES);
        let mut number = warp::lane_id();
        while number < PIECES {
            biases.cast::<[f32; 4]>().add(number).store([bias; 4]);
            number += 32;
        }
        #[cfg(cuda_arch = "sm_90a")]
        tensor_core::fence_async_proxy();
        warp::sync_warp(ALL_LANES);
    }
}

/// Writes a stretch of an output channel: whole sectors, and what else no line writes.
///
/// # Safety
/// The stretch is the lane's own; the biases are staged.
#[cfg_attr(gpu, inline(always))]
unsafe fn write(output: *mut f32, stretch: &Stretch, biases: SharedPtr<u8>, bias: f32) {
    let (first, end) = (output.wrapping_add(stretch.first as usize), output.wrapping_add(stretch.end as usize));
    let is_so = |flag: u32| stretch.flags & flag != 0;
    let within = if is_so(Stretch::BEGINS_WITH_SECTOR) { 0 } else { SECTOR - 1 };
    let sectors = first.map_addr(|address| (address + within) / SECTOR * SECTOR);
    let behind = end.map_addr(|address| address / SECTOR * SECTOR);
    // SAFETY: the caller's promise.
    unsafe {
        if !is_so(Stretch::BEGINS_WITH_LINE) {
            write_words(first, if sectors < end { sectors } else { end }, bias);
        }
        if !is_so(Stretch::ENDS_WITH_OTHER) {
            write_words(if behind < sectors { sectors } else { behind }, end, bias);
        }
        if sectors < behind {
            copy(sectors, biases, (behind.addr() - sectors.addr()) as u32, bias);
        }
    }
}

/// Writes some words, up to the `end`.
///
/// # Safety
/// They are the lane's own.
#[cfg_attr(gpu, inline(always))]
unsafe fn write_words(mut place: *mut f32, end: *mut f32, bias: f32) {
    while place < end {
        // SAFETY: the caller's promise.
        unsafe { mem::store(place, bias) };
        place = place.wrapping_add(1);
    }
}

/// Copies biases to some sectors.
///
/// # Safety
/// The sectors are the lane's own; as many biases are staged.
#[cfg_attr(gpu, inline(always))]
unsafe fn copy(place: *mut f32, biases: SharedPtr<u8>, bytes: u32, bias: f32) {
    #[cfg(cuda_arch = "sm_90a")]
    {
        let _ = bias;
        // SAFETY: the caller's promise; sectors are aligned, and so is what is staged.
        unsafe { async_copy::store_bulk(place.cast(), biases, bytes) };
        async_copy::commit_bulk_group();
    }
    #[cfg(not(cuda_arch = "sm_90a"))]
    {
        let _ = biases;
        // SAFETY: the caller's promise.
        unsafe { write_words(place, place.wrapping_byte_add(bytes as usize), bias) };
    }
}

/// Waits until what the lane copies has been read from shared memory, but for some of the newest.
#[cfg_attr(gpu, inline(always))]
fn await_reads<const PENDING: u32>() {
    #[cfg(cuda_arch = "sm_90a")]
    async_copy::await_bulk_reads::<PENDING>();
}
