//! Staging, by the producers: asynchronous copies of input and packed weight into rings of shared memory.
//!
//! One warp stages weights, the others the input: they only fetch it, or also `measure` it for teams that convert it.

mod inputs;
mod measure;
#[cfg(not(cuda_arch = "sm_90a"))]
mod registers;

#[cfg(cuda_arch = "sm_90a")]
use cuda_std::{async_copy, warp};
use cuda_std::{hint, mem, shared::dynamic_shared_mem, thread};

use inputs::Inputs;

#[cfg(cuda_arch = "sm_90a")]
use super::ring::first_weights;
use super::{
    PRODUCERS, TEAM_THREADS, TEAMS,
    multiply::stage_weights,
    pack::WEIGHT_HEADER,
    parameters::{Chunk, Tiling, rows},
    place::{PassHead, Place, jobs},
    ring::Ring,
};

/// Threads that stage the input.
pub(super) const INPUT_PRODUCERS: u32 = PRODUCERS - WEIGHT_PRODUCERS;

/// Threads that stage weights.
const WEIGHT_PRODUCERS: u32 = 32;

/// The tensors that are staged.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) tables: *const [u32; 4],
    /// Of a packed input: its header.
    pub(super) header: *const f32,
    pub(super) input: *const f32,
    #[cfg(cuda_arch = "sm_90a")]
    pub(super) maps: *const async_copy::TensorMap,
    pub(super) weight: *const f32,
}

/// Whether the input is copied in boxes. Found again where it is asked for: from the start of the kernel on, it would
/// be one of more conditions than there are registers for, and those are kept on a stack.
#[cfg_attr(gpu, inline(always))]
pub(super) fn comes_in_boxes(t: &Tiling, operands: &Operands) -> bool {
    cfg!(cuda_arch = "sm_90a") && t.box_bytes > 0 && hint::opaque_pointer(operands.input).addr().is_multiple_of(16)
}

/// Arrivals that make what is fetched of the input complete.
#[cfg_attr(gpu, inline(always))]
pub(super) fn fetch_arrivals(t: &Tiling, operands: &Operands) -> u32 {
    if comes_in_boxes(t, operands) { 1 } else { INPUT_PRODUCERS }
}

/// What the producers do: fetch what the teams are going to need, of one job after the other, as far ahead as the rings
/// are long. Whether this one is one of those for the input.
///
/// # Safety
/// As the kernels; all producers of the block come here together.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn produce<const SPLIT: bool, const F16: bool, const CONVERT: bool, const ORDINARY: bool>(
    t: &Tiling,
    operands: &Operands,
    slab_bytes: u32,
) -> bool {
    let stages_input = thread::thread_idx_x() >= TEAMS * TEAM_THREADS + WEIGHT_PRODUCERS;
    // SAFETY: the caller's promise; the roles differ between warps.
    unsafe {
        if !stages_input {
            produce_weights::<F16, ORDINARY>(t, operands, slab_bytes);
        } else if CONVERT {
            measure::produce_inputs::<SPLIT>(t, operands);
        } else {
            produce_inputs::<ORDINARY>(t, operands);
        }
    }
    stages_input
}

/// The number of this thread among those that stage the input. Found again, not kept in a register meanwhile.
#[cfg_attr(gpu, inline(always))]
pub(super) fn producer() -> u32 {
    hint::opaque(thread::thread_idx_x()) - TEAMS * TEAM_THREADS - WEIGHT_PRODUCERS
}

/// Stages the input of all jobs, stage by stage.
///
/// # Safety
/// As [`produce`]; all threads that stage the input come here.
#[cfg_attr(gpu, inline(always))]
unsafe fn produce_inputs<const ORDINARY: bool>(t: &Tiling, operands: &Operands) {
    if comes_in_boxes(t, operands) && producer() > 0 {
        return;
    }
    let mut ring = Ring::inputs(t);
    let mut inputs = Inputs::new(t, operands);
    let mut stage = 0;
    // SAFETY: the caller's promise. A slot is filled when the teams have left it.
    unsafe {
        while inputs.seek() {
            await_first_weights(t, operands, stage == 1);
            ring.await_empty();
            let slot = dynamic_shared_mem().add(t.input_start + ring.slot() * t.input_bytes);
            inputs.fetch::<ORDINARY, 8>(slot, ring.full());
            ring.advance();
            stage += 1;
        }
    }
}

/// Waits, if this is the second stage, until the first weights are on their way: the teams need all weights of the
/// first stage before they need inputs of the second one, and boxes of these would come first.
///
/// # Safety
/// The barriers are set up.
#[cfg_attr(gpu, inline(always))]
unsafe fn await_first_weights(t: &Tiling, operands: &Operands, is_second: bool) {
    #[cfg(cuda_arch = "sm_90a")]
    if is_second && comes_in_boxes(t, operands) {
        // SAFETY: the caller's promise.
        unsafe { first_weights().wait(0) };
    }
    #[cfg(not(cuda_arch = "sm_90a"))]
    let _ = (t, operands, is_second);
}

/// Stages the weights of all jobs, chunk by chunk.
///
/// # Safety
/// As [`produce`]; all lanes of a warp come here together, those of one warp of the block.
#[cfg_attr(gpu, inline(always))]
unsafe fn produce_weights<const F16: bool, const ORDINARY: bool>(t: &Tiling, operands: &Operands, slab_bytes: u32) {
    let slab_words = slab_bytes as usize / 4;
    let stage_words = t.stage_slabs as usize * slab_words;
    let weight = operands.weight.wrapping_add(if F16 { WEIGHT_HEADER as usize } else { 0 });
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
                let source = weight.wrapping_add(first_slab + stage as usize * stage_words);
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

/// The table entry of a chunk.
///
/// # Safety
/// The table has such a chunk.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn chunk(t: &Tiling, tables: *const [u32; 4], number: u32) -> Chunk {
    let row = tables.wrapping_add((t.first_chunk_row + number * rows::<Chunk>()) as usize);
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { mem::load_readonly(row) })
}
