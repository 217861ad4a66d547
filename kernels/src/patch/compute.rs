//! Computing: what a team does with what has been staged.

use cuda_std::shared::dynamic_shared_mem;
#[cfg(cuda_arch = "sm_90a")]
use cuda_std::tensor_core;

use super::{
    EIGHT_BYTES, Job, Operands, PROMOTE_AFTER, Patch, SLOT_POSITIONS, SMALL_PARTS, STAGE_BYTES, STAGES_START, Team,
    moves_on,
    store::{Sum, Target},
    verdict, weight_slot,
};
use crate::{
    jobs::Jobs,
    tile::{Accumulators, Positions, Ring, Sums, Weights, in_turn, of_weight},
    unrolled::unrolled,
};

/// Blocks of eight positions of a slot.
pub(super) const BLOCKS: usize = SLOT_POSITIONS as usize / 8;

/// From the first rows of a slot to those of the next one in a slab, in units of 16 bytes: eight rows of 16 channels.
const SLOT_UNITS: u32 = 16;

/// Computes and stores all jobs of the block.
///
/// # Safety
/// As the kernels; all threads of the team come here together, once everything is set up.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn consume<const SLOTS: usize, const SPLIT: bool>(t: &Patch, operands: &Operands) {
    let moves_on = const { moves_on(SLOTS as u32, SPLIT) };
    let mut ring = Ring::new(t.ring);
    // SAFETY: the caller's promise. A stage is read when it is full, and left when its products are complete.
    unsafe {
        let exponent_of_weight = of_weight(operands.weight, SPLIT);
        let first = First::find::<SLOTS>(t);
        let mut accumulators = Accumulators::<BLOCKS, SLOTS>::new();
        // Where blocks have one job there is nothing to compute meanwhile.
        let in_turn = t.jobs > t.blocks;
        let mut is_first_job = true;
        let mut jobs = Jobs::all();
        while let Some(job) = Job::next(t, &mut jobs) {
            let (exponent, mut sums) = loop {
                accumulators.empty();
                let mut sums = Sums::<BLOCKS, SLOTS>::ZERO;
                for chunk in 0..t.chunks {
                    if moves_on && chunk != 0 && (chunk * t.chunk_channels()).is_multiple_of(PROMOTE_AFTER) {
                        accumulators.wait::<0>();
                        sums.take_over(&mut accumulators, None);
                    }
                    ring.await_full();
                    // Those who convert write to shared memory as any thread does, and tensor cores read it by themselves.
                    #[cfg(cuda_arch = "sm_90a")]
                    tensor_core::fence_async_proxy();
                    let before = if chunk == 0 { None } else { Some(ring.before()) };
                    multiply::<SLOTS, SPLIT>(t, &mut accumulators, first.of(t, &ring, chunk), before);
                    ring.advance();
                }
                accumulators.wait::<0>();
                let last = ring.before();
                let verdict = verdict::read(&last);
                last.leave();
                if let Some(exponent) = verdict {
                    break (exponent, sums);
                }
            };
            let target = Target { t, operands, job };
            let scales = Sum { scales: exponent.inverse_with(exponent_of_weight) };
            if moves_on {
                sums.take_over(&mut accumulators, None);
            }
            in_turn::await_turn(in_turn, is_first_job);
            if moves_on {
                target.store(&sums, scales);
            } else {
                target.store(&accumulators, scales);
            }
            in_turn::pass_on(in_turn);
            is_first_job = false;
        }
        in_turn::end(in_turn);
    }
}

/// What the team's first products of a stage and a chunk are of.
#[derive(Clone, Copy)]
struct First {
    positions: Positions<EIGHT_BYTES>,
    slab: Weights,
}

impl First {
    /// Those of the first stage and the first chunk, found once for all lanes.
    ///
    /// # Safety
    /// All lanes of the warp come here together.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn find<const SLOTS: usize>(t: &Patch) -> Self {
        let team = Team::this(t);
        let stages = dynamic_shared_mem::<u8>().add(STAGES_START + team.first_position() / 8 * EIGHT_BYTES);
        let weights = dynamic_shared_mem::<u8>().add(t.weights_start + team.first_row::<SLOTS>() * 32);
        // SAFETY: the caller's promise.
        unsafe { Self { positions: Positions::at(stages, t.block_bytes).from(0), slab: Weights::at(weights).slab(0) } }
    }

    /// Those of a stage and a chunk.
    #[cfg_attr(gpu, inline(always))]
    fn of(self, t: &Patch, ring: &Ring, chunk: u32) -> Self {
        let positions = self.positions.add(ring.slot() * (STAGE_BYTES / 16));
        Self { positions, slab: self.slab.add(weight_slot(t, ring, chunk) * (t.chunk_bytes / 16)) }
    }
}

/// Starts the products of a stage. When the first of them are under way, those of the stage before are complete, and
/// that is left.
///
/// # Safety
/// The stage and its weights are full; all threads of the team come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn multiply<const SLOTS: usize, const SPLIT: bool>(
    t: &Patch,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    First { mut positions, mut slab }: First,
    mut before: Option<Ring>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for _ in 0..t.chunk_blocks / 2 {
            let filled = !accumulators.are_empty();
            accumulators.begin_batch();
            unrolled!(SLOT in 0..SLOTS, at most 2 => {
                let rows = slab.add(SLOT as u32 * SLOT_UNITS);
                accumulators.add_product_of_weights::<SLOT, EIGHT_BYTES>(rows, positions, filled);
                if SPLIT {
                    let (small_rows, small) = (rows.add(t.slab_bytes / 32), positions.add(SMALL_PARTS / 16));
                    accumulators.add_product_of_weights::<SLOT, EIGHT_BYTES>(rows, small, true);
                    accumulators.add_product_of_weights::<SLOT, EIGHT_BYTES>(small_rows, positions, true);
                }
            });
            accumulators.fill();
            accumulators.end_batch();
            if let Some(before) = before.take() {
                accumulators.wait::<1>();
                before.leave();
            }
            positions = positions.add(t.block_bytes / 8);
            slab = slab.add(t.slab_bytes / 16);
        }
    }
}
