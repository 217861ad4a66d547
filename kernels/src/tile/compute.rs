//! Computing: the products of a run.

use cuda_std::mem;

use super::{
    fragment::{Factor, Fragment},
    multiply::{Accumulators, Weights},
    parameters::{Run, Tiling, rows},
    slab_bytes,
    unrolled::unrolled,
};

/// A chunk in shared memory.
pub(super) struct Staged {
    pub(super) input: Fragment,
    pub(super) weight: Weights,
}

/// Adds the products of a run.
///
/// # Safety
/// The run's weights and its input are staged, and stay so until the accumulators are waited for; all threads of the team come here
/// together.
#[inline(always)]
pub(super) unsafe fn multiply_run<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (run.neighbours, run.taps) {
            (1, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 1, 1>(t, accumulators, staged, run),
            (2, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 1>(t, accumulators, staged, run),
            (_, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 1>(t, accumulators, staged, run),
            (1, _) => run_products::<BLOCKS, SLOTS, SPLIT, 1, 3>(t, accumulators, staged, run),
            (2, _) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 3>(t, accumulators, staged, run),
            (_, _) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 3>(t, accumulators, staged, run),
        }
    }
}

/// Adds the products of a run of `NEIGHBOURS` taps along x times `TAPS` along the axis of rows.
#[inline(always)]
#[allow(unused_assignments, reason = "the last of the unrolled rows has none behind it")]
unsafe fn run_products<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let fresh = accumulators.are_empty();
    // SAFETY: all lanes come here together.
    let weight = unsafe { staged.weight.slab(run.first_slab) };
    let mut row = staged.input.shifted(run.offset);
    // SAFETY: the caller's promise; the conditions are the same for all lanes.
    unsafe {
        let mut next = row.load::<NEIGHBOURS>(run.flags & Run::ALIGNED != 0);
        unrolled!(FRAGMENT in 0..SLOTS + TAPS - 1 => {
            let fragments = next;
            if FRAGMENT + 1 < SLOTS + TAPS - 1 {
                // On its way while these are multiplied.
                row = row.shifted(t.row_step);
                next = row.load::<NEIGHBOURS>(run.flags & Run::ALIGNED != 0);
            }
            // What is multiplied has to be there when a batch begins: here all of it, or as much as registers are enough for.
            let rounded = if SPLIT { None } else { Some(Factor::rounded(&fragments)) };
            if !SPLIT {
                accumulators.begin();
            }
            unrolled!(NEIGHBOUR in 0..NEIGHBOURS => {
                let factor = rounded.map_or_else(|| Factor::split::<NEIGHBOUR>(&fragments), |rounded| rounded[NEIGHBOUR % 3]);
                if SPLIT {
                    accumulators.begin();
                }
                unrolled!(SLOT in 0..SLOTS => {
                    if (SLOT..SLOT + TAPS).contains(&FRAGMENT) {
                        let tap = FRAGMENT.wrapping_sub(SLOT);
                        let slab = weight.add((NEIGHBOUR * TAPS + tap) as u32 * slab_units);
                        let filled = NEIGHBOUR != 0 || tap != 0 || !fresh;
                        multiply::<BLOCKS, SLOTS, SPLIT, SLOT>(accumulators, &factor, slab, filled);
                    }
                });
                // The registers of a batch are free when the products of the next one are under way. Where these are many, they can
                // as well be complete, which saves registers.
                if SPLIT {
                    accumulators.finish::<0>();
                }
            });
            if !SPLIT {
                if SLOTS + TAPS - 1 > 1 && NEIGHBOURS * TAPS * BLOCKS * SLOTS < 96 {
                    accumulators.finish::<1>();
                } else {
                    accumulators.finish::<0>();
                }
            }
        });
        accumulators.fill();
    }
}

/// Adds the product of a factor and a slab to a slot, or overwrites it if it is not `filled`.
#[inline(always)]
unsafe fn multiply<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool, const SLOT: usize>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    factor: &Factor,
    slab: Weights,
    filled: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        accumulators.add_product::<SLOT>(factor.large, slab, filled);
        if SPLIT {
            let small_parts = slab.add(slab_bytes(8 * BLOCKS as u32, false) / 16);
            accumulators.add_product::<SLOT>(factor.large, small_parts, true);
            accumulators.add_product::<SLOT>(factor.small, slab, true);
        }
    }
}

/// The table entry of a run.
///
/// # Safety
/// The table has such a run.
#[inline(always)]
pub(super) unsafe fn load_run(t: &Tiling, tables: *const [u32; 4], number: u32) -> Run {
    let row = tables.wrapping_add((t.first_run_row + number * rows::<Run>()) as usize);
    // SAFETY: the caller's promise.
    bytemuck::cast(unsafe { mem::load_readonly(row) })
}
