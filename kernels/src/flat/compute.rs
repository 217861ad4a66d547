//! Computing: what a team does with what has been staged. Of the products, output channels are the rows and positions
//! the columns: there are always 64 rows to fill, and up to 256 positions read them once.

use cuda_std::{mem, shared::dynamic_shared_mem, warp};

use super::{
    CHANNELS, Flat, Job, Operands, Part, Team, part,
    store::{Sum, Target},
    table,
};
use crate::{
    jobs::Jobs,
    tile::{Accumulators, Exponent, Positions, Ring, Weights, in_turn, of_weight},
};

/// Bytes of eight positions, of eight channels.
const EIGHT_BYTES: u32 = 8 * CHANNELS / 2 * 2;

/// Computes and stores all jobs of the block.
///
/// # Safety
/// As the kernels; all threads of the team come here together, once everything is set up.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn consume<const BLOCKS: usize>(t: &Flat, operands: &Operands) {
    let mut ring = Ring::new(t.ring);
    // SAFETY: the caller's promise. A stage is read when it is full, and left when its products are complete.
    unsafe {
        let exponent_of_weight = of_weight(operands.weight, false);
        let first = first_position::<BLOCKS>(t);
        let mut accumulators = Accumulators::<BLOCKS, 1>::new();
        // Where blocks have one job there is nothing to compute meanwhile.
        let in_turn = t.jobs > t.blocks;
        let mut is_first_job = true;
        let mut jobs = Jobs::all();
        while let Some(job) = Job::next(t, &mut jobs) {
            for block in 0..t.channel_blocks {
                for number in 0..t.parts {
                    ring.await_full();
                    let is_first = block == 0 && number == 0;
                    let before = if is_first { None } else { Some(ring.before()) };
                    multiply(t, &mut accumulators, &part(number), ring.slot(), first, before);
                    ring.advance();
                }
            }
            let target = Target { t, operands, job };
            // On their way while the last products are.
            let exponent = Exponent::from_bits(mem::load_readonly(operands.input.wrapping_add(job.sample as usize)));
            let biases = target.biases();
            accumulators.wait::<0>();
            ring.before().leave();
            in_turn::await_turn(in_turn, is_first_job);
            target.store(&accumulators, Sum { scales: exponent.inverse_with(exponent_of_weight), biases });
            in_turn::pass_on(in_turn);
            accumulators.empty();
            is_first_job = false;
        }
        in_turn::end(in_turn);
    }
}

/// Where the positions of the team begin in the staged input, counted from those of the first team.
///
/// # Safety
/// All lanes of the warp come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn first_position<const BLOCKS: usize>(t: &Flat) -> u32 {
    let (row, place) = Team::this(t).positions::<BLOCKS>(t);
    let place = (row << t.joined) * t.stretch.value() as u32 + place;
    // So that the compiler sees that it is the same for all lanes.
    // SAFETY: the caller's promise.
    unsafe { warp::warp_shuffle_idx(u32::MAX, place, 0) }
}

/// Starts the products of a part that is staged in that slot of the ring. When those of its first tap are under way,
/// those of the stage before are complete, and that is left.
///
/// # Safety
/// The stage is full; all threads of the team come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn multiply<const BLOCKS: usize>(
    t: &Flat,
    accumulators: &mut Accumulators<BLOCKS, 1>,
    part: &Part,
    ring_slot: u32,
    first: u32,
    mut before: Option<Ring>,
) {
    let stage = dynamic_shared_mem::<u8>().add(t.stages_start + ring_slot * t.stage_bytes);
    // SAFETY: the caller's promise: all that runs name has been staged.
    unsafe {
        let input = Positions::<EIGHT_BYTES>::at(stage, t.half_bytes);
        let mut slab = Weights::at(stage.add(t.weight_start + Team::this(t).weights_start())).slab(0);
        for number in part.first_run..part.first_run + part.runs {
            let [place, taps, ..] = table().add(t.first_run_row + number).load();
            let mut positions = input.from(place).add(first);
            for _ in 0..taps {
                let filled = !accumulators.are_empty();
                accumulators.begin_batch();
                accumulators.add_product_of_weights::<0, EIGHT_BYTES>(slab, positions, filled);
                accumulators.fill();
                accumulators.end_batch();
                if let Some(before) = before.take() {
                    accumulators.wait::<1>();
                    before.leave();
                }
                positions = positions.add(t.tap_step);
                slab = slab.add(t.slab_bytes / 16);
            }
        }
    }
}
