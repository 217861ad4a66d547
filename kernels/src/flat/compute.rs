//! Computing: what a team does with what has been staged. Of the products, output channels are the rows and positions
//! the columns: there are always 64 rows to fill, and up to 256 positions read them once. In single precision sums move
//! on to other registers after some taps.

use cuda_std::{mem, shared::dynamic_shared_mem, warp};

use super::{
    CHANNELS, Flat, Job, MOST_TAPS_OF_SUMS, Operands, Part, Team, part,
    store::{Sum, Target},
    table,
};
use crate::{
    jobs::Jobs,
    tile::{Accumulators, Exponent, Positions, Ring, Sums, Weights, in_turn, of_weight},
};

/// Bytes of eight positions, of eight channels.
const EIGHT_BYTES: u32 = 8 * CHANNELS / 2 * 2;

/// The product of a job: what tensor cores add up, and what they had added up before it moved on.
struct Partial<const BLOCKS: usize, const SPLIT: bool> {
    accumulators: Accumulators<BLOCKS, 1>,
    sums: Sums<BLOCKS, 1>,
    /// Taps since then, if factors are split.
    taps: u32,
}

impl<const BLOCKS: usize, const SPLIT: bool> Partial<BLOCKS, SPLIT> {
    /// Moves the sums on, if they would be of too many taps with those of a run.
    ///
    /// # Safety
    /// All threads of the team come here together.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn make_room(&mut self, taps: u32) {
        if SPLIT {
            self.taps += taps;
            if self.taps > MOST_TAPS_OF_SUMS {
                // SAFETY: the caller's promise.
                unsafe {
                    self.accumulators.wait::<0>();
                    self.sums.take_over(&mut self.accumulators, None);
                }
                self.taps = taps;
            }
        }
    }

    /// Stores the product, which is complete, and begins anew.
    ///
    /// # Safety
    /// As [`Target::store`].
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store(&mut self, target: &Target, sum: Sum) {
        // SAFETY: the caller's promise.
        unsafe {
            if SPLIT {
                self.sums.take_over(&mut self.accumulators, None);
                target.store(&self.sums, sum);
                self.sums = Sums::ZERO;
                self.taps = 0;
            } else {
                target.store(&self.accumulators, sum);
                self.accumulators.empty();
            }
        }
    }
}

/// Computes and stores all jobs of the block.
///
/// # Safety
/// As the kernels; all threads of the team come here together, once everything is set up.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn consume<const BLOCKS: usize, const SPLIT: bool>(t: &Flat, operands: &Operands) {
    let mut ring = Ring::new(t.ring);
    // SAFETY: the caller's promise. A stage is read when it is full, and left when its products are complete.
    unsafe {
        let exponent_of_weight = of_weight(operands.weight, SPLIT);
        let first = first_position::<BLOCKS>(t);
        let accumulators = Accumulators::new();
        let mut partial = Partial::<BLOCKS, SPLIT> { accumulators, sums: Sums::ZERO, taps: 0 };
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
                    multiply(t, &mut partial, &part(number), ring.slot(), first, before);
                    ring.advance();
                }
            }
            let target = Target { t, operands, job };
            // On their way while the last products are.
            let exponent = Exponent::from_bits(mem::load_readonly(operands.input.wrapping_add(job.sample as usize)));
            let biases = target.biases();
            partial.accumulators.wait::<0>();
            ring.before().leave();
            in_turn::await_turn(in_turn, is_first_job);
            partial.store(&target, Sum { scales: exponent.inverse_with(exponent_of_weight), biases });
            in_turn::pass_on(in_turn);
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
unsafe fn multiply<const BLOCKS: usize, const SPLIT: bool>(
    t: &Flat,
    partial: &mut Partial<BLOCKS, SPLIT>,
    part: &Part,
    ring_slot: u32,
    first: u32,
    mut before: Option<Ring>,
) {
    let stage = dynamic_shared_mem::<u8>().add(t.stages_start + ring_slot * t.stage_bytes);
    // SAFETY: the caller's promise: all that runs name has been staged.
    unsafe {
        let input = Positions::<EIGHT_BYTES>::at(stage, t.plane_bytes);
        let mut slab = Weights::at(stage.add(t.weight_start + Team::this(t).weights_start())).slab(0);
        for number in part.first_run..part.first_run + part.runs {
            let [place, taps, ..] = table().add(t.first_run_row + number).load();
            let mut positions = input.from(place).add(first);
            partial.make_room(taps);
            let accumulators = &mut partial.accumulators;
            for _ in 0..taps {
                let filled = !accumulators.are_empty();
                accumulators.begin_batch();
                accumulators.add_product_of_weights::<0, EIGHT_BYTES>(slab, positions, filled);
                if SPLIT {
                    let (small_slab, small) = (slab.add(t.slab_bytes / 32), positions.add(t.plane_bytes / 8));
                    accumulators.add_product_of_weights::<0, EIGHT_BYTES>(slab, small, true);
                    accumulators.add_product_of_weights::<0, EIGHT_BYTES>(small_slab, positions, true);
                }
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
