//! Staging, by the producers: asynchronous copies of input and packed weight into rings of shared memory.
//!
//! One warp stages weights, the others the input. A tile's input is a box with its halo, the same box for every channel. On compute
//! capability 9.0, where all rows are aligned to 16 bytes, one thread starts the copy of a stage as a whole. Elsewhere threads copy
//! elements: where each one lies is looked up once per job, in a table in shared memory. Elements outside of the input become zero, which
//! is the padding. Before compute capability 8.0 they copy through `registers`.

#[cfg(not(cuda_arch = "sm_90a"))]
mod registers;

#[cfg(cuda_arch = "sm_90a")]
use cuda_std::warp;
use cuda_std::{
    async_copy, hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
    thread,
};

#[cfg(cuda_arch = "sm_90a")]
use super::ring::first_weights;
use super::{
    PRODUCERS, TEAM_THREADS, TEAMS,
    multiply::stage_weights,
    parameters::{Chunk, Tiling, rows},
    place::{PassHead, Place, jobs},
    ring::Ring,
};
use crate::index::Index;

/// Threads that stage the input.
pub(super) const INPUT_PRODUCERS: u32 = PRODUCERS - WEIGHT_PRODUCERS;

/// Threads that stage weights.
const WEIGHT_PRODUCERS: u32 = 32;

/// In the table of offsets: the element does not exist.
const OUTSIDE: u32 = u32::MAX;

/// The tensors that are staged.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) tables: *const [u32; 4],
    pub(super) input: *const f32,
    #[cfg(cuda_arch = "sm_90a")]
    pub(super) maps: *const async_copy::TensorMap,
    pub(super) weight: *const f32,
}

/// Whether the input is copied in boxes.
#[inline(always)]
pub(super) fn comes_in_boxes(t: &Tiling, operands: &Operands) -> bool {
    cfg!(cuda_arch = "sm_90a") && t.box_bytes > 0 && operands.input.addr().is_multiple_of(16)
}

/// What the producers do: fetch what the teams are going to need, of one job after the other, as far ahead as the rings are long.
///
/// # Safety
/// As the kernels; all producers of the block come here together.
#[inline(always)]
pub(super) unsafe fn produce<const ORDINARY: bool>(t: &Tiling, operands: &Operands, boxes: bool, slab_bytes: u32) {
    let producer = thread::thread_idx_x() - TEAMS * TEAM_THREADS;
    // SAFETY: the caller's promise; the roles differ between warps.
    unsafe {
        if producer < WEIGHT_PRODUCERS {
            produce_weights::<ORDINARY>(t, operands, slab_bytes);
        } else if boxes {
            #[cfg(cuda_arch = "sm_90a")]
            if producer == WEIGHT_PRODUCERS {
                produce_boxes(t, operands);
            }
        } else {
            produce_inputs::<ORDINARY>(t, operands, producer - WEIGHT_PRODUCERS);
        }
    }
}

/// Stages the weights of all jobs, chunk by chunk.
///
/// # Safety
/// As [`produce`]; all lanes of a warp come here together, those of one warp of the block.
#[inline(always)]
unsafe fn produce_weights<const ORDINARY: bool>(t: &Tiling, operands: &Operands, slab_bytes: u32) {
    let slab_words = slab_bytes as usize / 4;
    let stage_words = t.stage_slabs as usize * slab_words;
    let mut ring = Ring::weights(t);
    #[cfg(cuda_arch = "sm_90a")]
    let mut is_first = true;
    // SAFETY: the caller's promise. A slot is filled when the teams have left it; it has room for a chunk.
    unsafe {
        for job in jobs(t) {
            let place = Place::new(t, job);
            let pass = PassHead::load(t, operands.tables, place.pass);
            let tile = place.share * t.channel_tiles.value() as u32 + place.channel_tile;
            let first_slab = tile as usize * t.stages as usize * stage_words + pass.first_slab as usize * slab_words;
            for stage in 0..if pass.chunks > 0 { t.stages } else { 0 } {
                let source = operands.weight.wrapping_add(first_slab + stage as usize * stage_words);
                for number in 0..pass.chunks {
                    // Inputs that are asked for meanwhile would come first.
                    let chunk = if number == 0 {
                        Chunk { first_slab: 0, slabs: pass.first_slabs, padding: [0; 2] }
                    } else {
                        chunk(t, operands.tables, pass.first_chunk + number)
                    };
                    let source = source.wrapping_add(chunk.first_slab as usize * slab_words);
                    let target = dynamic_shared_mem().add(t.weight_start + ring.slot() * t.weight_bytes);
                    ring.await_empty();
                    let bytes = chunk.slabs * slab_bytes;
                    if ORDINARY {
                        #[cfg(not(cuda_arch = "sm_90a"))]
                        registers::stage_weights(target, source, bytes, ring.full());
                    } else {
                        stage_weights(target, source, bytes, ring.full());
                    }
                    #[cfg(cuda_arch = "sm_90a")]
                    if is_first && number + 1 == pass.chunks.min(t.weight_ring) {
                        is_first = false;
                        if warp::lane_id() == 0 {
                            first_weights().arrive();
                        }
                    }
                    ring.advance();
                }
            }
        }
    }
}

/// Stages the input of all jobs in boxes, stage by stage, by one thread.
///
/// # Safety
/// As [`produce`]; the input [comes in boxes](comes_in_boxes).
#[cfg(cuda_arch = "sm_90a")]
#[inline(always)]
unsafe fn produce_boxes(t: &Tiling, operands: &Operands) {
    let mut ring = Ring::inputs(t);
    let mut boxes = 0;
    // SAFETY: the caller's promise. A slot is filled when the teams have left it.
    unsafe {
        for job in jobs(t) {
            let place = Place::new(t, job);
            let pass = PassHead::load(t, operands.tables, place.pass);
            let [z, y, x] =
                box_origin(t, [0, 1, 2].map(|axis| place.origin[axis].wrapping_add(pass.origin[axis]) as i32));
            let mut channel = place.share * t.in_per_group;
            for _ in 0..if pass.chunks > 0 { t.stages } else { 0 } {
                // The teams need all weights of the first stage before they need inputs of the second one, and these would come first.
                if boxes == 1 {
                    first_weights().wait(0);
                }
                boxes += 1;
                ring.await_empty();
                ring.full().arrive_expect(t.box_bytes);
                let slot = dynamic_shared_mem::<u8>().add(t.input_start + ring.slot() * t.input_bytes);
                let first = [x, y, z, place.sample as i32, channel as i32];
                async_copy::copy_box(slot, operands.maps, first, ring.full());
                channel += t.stage_channels;
                ring.advance();
            }
        }
    }
}

/// Where a box begins, as the map of the input counts that: in axes that are merged with x, words of x.
#[cfg(cuda_arch = "sm_90a")]
#[inline(always)]
fn box_origin(t: &Tiling, [z, y, x]: [i32; 3]) -> [i32; 3] {
    let [_, height, width] = t.input.map(|extent| extent as i32);
    match t.merged_axes {
        0 => [z, y, x],
        1 => [z, 0, y * width + x],
        _ => [0, 0, (z * height + y) * width + x],
    }
}

/// Stages the input of all jobs, stage by stage. `producer` is the number of the thread.
///
/// # Safety
/// As [`produce`]; all threads that stage the input come here.
#[inline(always)]
unsafe fn produce_inputs<const ORDINARY: bool>(t: &Tiling, operands: &Operands, producer: u32) {
    let mut ring = Ring::inputs(t);
    // Tiles that lie inside of the input as a whole have the same offsets.
    let mut located_inside = false;
    // SAFETY: the caller's promise. A slot is filled when the teams have left it.
    unsafe {
        for job in jobs(t) {
            let place = Place::new(t, job);
            let pass = PassHead::load(t, operands.tables, place.pass);
            if pass.chunks == 0 {
                continue;
            }
            let origin = [0, 1, 2].map(|axis| place.origin[axis].wrapping_add(pass.origin[axis]));
            let inside = is_inside(t, place.sample, origin);
            if !(inside && located_inside) {
                locate(t, place.sample, origin, producer);
                located_inside = inside;
            }
            let first_channel = place.share as usize * t.in_per_group as usize;
            let first = place.sample as usize * t.input_sample as usize + first_channel * t.input_plane as usize;
            // Where the tile begins, which may be before the input does.
            let [z, y, x] = origin.map(|first| first as i32 as isize);
            let [_, height, width] = t.input.map(|extent| extent as isize);
            let input = operands.input.wrapping_add(first).wrapping_offset((z * height + y) * width + x);
            for stage in 0..t.stages {
                ring.await_empty();
                if ORDINARY {
                    #[cfg(not(cuda_arch = "sm_90a"))]
                    registers::fetch_input(t, operands, input, stage, ring.slot(), producer);
                    ring.full().arrive();
                } else {
                    fetch_input(t, input, stage, ring.slot(), producer);
                    ring.full().arrive_after_copies();
                }
                ring.advance();
            }
        }
    }
}

/// Whether all elements of a tile exist.
#[inline(always)]
fn is_inside(t: &Tiling, sample: u32, [z, y, x]: [u32; 3]) -> bool {
    let [depth, height, width] = t.input;
    let ends_by = |first: u32, count: u32, extent: u32| first <= extent && count <= extent - first;
    ends_by(z, t.halo_z.value() as u32, depth)
        && ends_by(y, t.halo_y.value() as u32, height)
        && ends_by(x, t.pitch, width)
        && ends_by(sample, t.tile[0], t.batch)
}

/// The table of offsets, one for each copy of a channel. Each thread writes and reads entries of its own.
#[inline(always)]
fn offsets(t: &Tiling) -> SharedPtr<u32> {
    dynamic_shared_mem::<u32>().add(t.offsets_start / 4)
}

/// Fills the table of offsets for the tile whose first staged element has the given coordinates, counted from that element.
///
/// # Safety
/// The table has room for `copies` words.
#[inline(always)]
unsafe fn locate(t: &Tiling, sample: u32, origin: [u32; 3], producer: u32) {
    let [depth, height, width] = t.input;
    let mut copy = producer;
    while copy < t.copies {
        let (row, x) = copy.divide(t.halo_x);
        let (slice, y) = row.divide(t.halo_y);
        let (n, z) = slice.divide(t.halo_z);
        let x = x * t.copy_words;
        // Positions before the first one become larger than any extent.
        let within = |axis: usize, position: u32, extent: u32| origin[axis].wrapping_add(position) < extent;
        let inside = sample + n < t.batch && within(0, z, depth) && within(1, y, height) && within(2, x, width);
        let row = z.wrapping_mul(height).wrapping_add(y);
        let offset = n.wrapping_mul(t.input_sample as u32).wrapping_add(row.wrapping_mul(width)).wrapping_add(x);
        // SAFETY: the caller's promise.
        unsafe { offsets(t).add(copy).store(if inside { offset } else { OUTSIDE }) };
        copy += INPUT_PRODUCERS;
    }
}

/// Starts copying the input of a stage. A thread copies the same elements of all channels, so that it looks each up once. `input` is
/// the first element of the tile in the first channel of the job's group.
///
/// # Safety
/// The slot is empty, and the table of offsets is that of the job.
#[inline(always)]
unsafe fn fetch_input(t: &Tiling, input: *const f32, stage: u32, slot: u32, producer: u32) {
    let first = stage * t.stage_channels;
    let channels = t.in_per_group - first;
    let input = input.wrapping_add(first as usize * t.input_plane as usize);
    let slot = dynamic_shared_mem::<u8>().add(t.input_start + slot * t.input_bytes);
    // The host knows the alignment of the rows to each other, not that of the first one.
    let wide = t.copy_words == 4 && input.addr().is_multiple_of(16);
    // Distances in registers once, not a register for each multiple of them.
    let plane = hint::opaque(t.input_plane as u32) as usize;
    let channel_bytes = hint::opaque(4 * t.channel_words);
    let mut copy = producer;
    while copy < t.copies {
        // SAFETY: this thread wrote the entry.
        let offset = unsafe { offsets(t).add(copy).load() };
        let inside = offset != OUTSIDE;
        let mut from = input.wrapping_add(offset as usize);
        let mut to = slot.add(copy * 4 * t.copy_words).address();
        for channel in (0..t.stage_channels).step_by(8) {
            for part in 0..8 {
                let exists = inside && channel + part < channels;
                // SAFETY: the slot has room for the stage's channels; an element that exists lies within the input.
                unsafe { copy_words(t, SharedPtr::from_address(to), from, exists, wide) };
                from = hint::opaque_pointer(from.wrapping_add(plane));
                to = hint::opaque(to + channel_bytes);
            }
        }
        copy += INPUT_PRODUCERS;
    }
}

/// Starts copying what one entry of the table stands for.
///
/// # Safety
/// As [`async_copy::copy_16`] if `wide`, else as [`async_copy::copy_4`] for each word.
#[inline(always)]
unsafe fn copy_words(t: &Tiling, to: SharedPtr<u8>, from: *const f32, exists: bool, wide: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if wide {
            return async_copy::copy_16(to.cast(), from.cast(), exists);
        }
        async_copy::copy_4(to.cast(), from.cast(), exists);
        if t.copy_words > 1 {
            for word in 1..4 {
                async_copy::copy_4(to.add(4 * word).cast(), from.wrapping_add(word as usize).cast(), exists);
            }
        }
    }
}

/// The table entry of a chunk.
///
/// # Safety
/// The table has such a chunk.
#[inline(always)]
pub(super) unsafe fn chunk(t: &Tiling, tables: *const [u32; 4], number: u32) -> Chunk {
    let row = tables.wrapping_add((t.first_chunk_row + number * rows::<Chunk>()) as usize);
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { mem::load_readonly(row) })
}
