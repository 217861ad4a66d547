//! Staging: a warp that has the packed input and the packed weight copied to shared memory, in bulk, a stage ahead of
//! the teams or more.

use cuda_std::{
    async_copy::copy_bulk,
    mbarrier::Mbarrier,
    shared::{SharedPtr, dynamic_shared_mem},
    warp,
};

use super::{CHANNELS, Flat, Job, Operands, Part, Stretch, part, parts_of_factor, rows, table};
use crate::{
    jobs::Jobs,
    tile::{Ring, WEIGHT_HEADER},
};

/// Bytes of a position in a plane: of eight channels.
const POSITION_BYTES: u32 = CHANNELS / 2 * 2;

/// Stages all jobs of the block.
///
/// # Safety
/// As the kernels; all lanes of a warp come here together, once everything is set up.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn produce<const SPLIT: bool>(t: &Flat, operands: &Operands) {
    let mut ring = Ring::new(t.ring);
    let mut jobs = Jobs::all();
    while let Some(job) = Job::next(t, &mut jobs) {
        for block in 0..t.channel_blocks {
            for number in 0..t.parts {
                // SAFETY: the caller's promise. A stage is filled when the teams have left it.
                unsafe {
                    let part = part(number);
                    ring.await_empty();
                    let stage = dynamic_shared_mem::<u8>().add(t.stages_start + ring.slot() * t.stage_bytes);
                    let weights = part.slabs * t.slab_bytes;
                    let stretch = t.stretch.value() as u32 * POSITION_BYTES;
                    if warp::lane_id() == 0 {
                        ring.full().arrive_expect(weights + part.stretches * planes(SPLIT) * stretch);
                        let source = weights_of(t, operands, &job, block, part.first_slab);
                        copy_bulk(stage.add(t.weight_start), source, weights, ring.full());
                    }
                    // Nobody copies before that many bytes are expected.
                    warp::sync_warp(u32::MAX);
                    stage_input::<SPLIT>(t, operands, &job, block, &part, stage, ring.full());
                    ring.advance();
                }
            }
        }
    }
}

/// Where the packed weights of a part begin.
#[cfg_attr(gpu, inline(always))]
fn weights_of(t: &Flat, operands: &Operands, job: &Job, block: u32, first_slab: u32) -> *const u8 {
    let tile = job.group * t.channel_tiles.value() as u32 + job.channel_tile;
    let slab = (tile * t.channel_blocks + block) * t.slabs + first_slab;
    operands
        .weight
        .wrapping_add(WEIGHT_HEADER as usize)
        .cast::<u8>()
        .wrapping_add(slab as usize * t.slab_bytes as usize)
}

/// Packed planes of 16 channels: those of either half, the large parts before the small ones.
const fn planes(split: bool) -> u32 {
    2 * parts_of_factor(split)
}

/// Starts to copy what a part reads of a block of 16 channels: of each stretch all planes of these, by a lane each.
///
/// # Safety
/// As [`produce`], for a stage that is empty.
#[cfg_attr(gpu, inline(always))]
unsafe fn stage_input<const SPLIT: bool>(
    t: &Flat,
    operands: &Operands,
    job: &Job,
    block: u32,
    part: &Part,
    stage: SharedPtr<u8>,
    full: Mbarrier,
) {
    let bytes = t.stretch.value() as u32 * POSITION_BYTES;
    let packed = operands.input.wrapping_add(t.input_header as usize).cast::<u8>();
    let mut number = warp::lane_id();
    while number < planes(SPLIT) * part.stretches {
        let (stretch, plane) = (number / planes(SPLIT), number % planes(SPLIT));
        // SAFETY: the caller's promise: the table has such a stretch, and all that it names has been packed.
        unsafe {
            let row = t.parts * rows::<Part>() + (part.first_stretch + stretch) * rows::<Stretch>();
            let Stretch { shift, residue, .. } = bytemuck::cast(table().add(row).load());
            let channels = (job.sample * t.groups.value() as u32 + job.group) * t.channel_blocks + block;
            let [z, y, x] = t.residues;
            let plane_of_channels = channels as usize * planes(SPLIT) as usize + plane as usize;
            let plane_of_residue = plane_of_channels * (z * y * x) as usize + residue as usize;
            let position = plane_of_residue * t.plane as usize + (job.first + shift) as usize;
            let source = packed.wrapping_add(position * POSITION_BYTES as usize);
            copy_bulk(stage.add(plane * t.plane_bytes + stretch * bytes), source, bytes, full);
        }
        number += 32;
    }
}
