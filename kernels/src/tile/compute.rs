//! Computing: the products of a run.

use cuda_std::{hint, mem};

use super::{
    fragment::{Factor, Fragment},
    multiply::{Accumulators, Weights},
    parameters::{HALVES, Run, Tiling, rows},
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
    let halved = run.flags >> Run::HALVED_SHIFT;
    let is = |neighbours: u16, taps: u16| {
        (run.neighbours, run.taps) == (neighbours, taps) && has_kind(t, Run::whole_kind(neighbours, taps))
    };
    // SAFETY: the caller's promise.
    unsafe {
        if SLOTS.is_multiple_of(2) && halved != 0 {
            return multiply_halves::<BLOCKS, SLOTS, SPLIT>(t, accumulators, staged, run, halved);
        }
        match () {
            () if is(1, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 1, 1, WHOLE>(t, accumulators, staged, run),
            () if is(2, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 1, WHOLE>(t, accumulators, staged, run),
            () if is(3, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 1, WHOLE>(t, accumulators, staged, run),
            () if is(1, 3) => run_products::<BLOCKS, SLOTS, SPLIT, 1, 3, WHOLE>(t, accumulators, staged, run),
            () if is(2, 3) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 3, WHOLE>(t, accumulators, staged, run),
            () if is(3, 3) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 3, WHOLE>(t, accumulators, staged, run),
            () => cuda_std::trap(),
        }
    }
}

/// Whether there are runs of a kind. Where that is a constant, the code for other kinds goes.
#[inline(always)]
fn has_kind(t: &Tiling, kind: u32) -> bool {
    t.run_kinds >> kind & 1 == 1
}

/// Whether a lane's two positions are neighbours, the first one at an even word. It is a constant where it is the same for all runs.
#[inline(always)]
fn is_aligned(t: &Tiling, run: &Run) -> bool {
    let is_any = |bit: u32| t.run_kinds & bit != 0;
    is_any(Run::SOME_ALIGNED) && (!is_any(Run::SOME_UNALIGNED) || run.flags & Run::ALIGNED != 0)
}

/// Adds the products of a run whose slots are halved, in the way of that number.
#[inline(always)]
unsafe fn multiply_halves<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    halved: u16,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match halved {
            1 if has_kind(t, 1) => run_products::<BLOCKS, SLOTS, SPLIT, 1, 1, 1>(t, accumulators, staged, run),
            2 if has_kind(t, 2) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 1, 2>(t, accumulators, staged, run),
            3 if has_kind(t, 3) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 1, 3>(t, accumulators, staged, run),
            4 if has_kind(t, 4) => run_products::<BLOCKS, SLOTS, SPLIT, 2, 1, 4>(t, accumulators, staged, run),
            5 if has_kind(t, 5) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 1, 5>(t, accumulators, staged, run),
            6 if has_kind(t, 6) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 1, 6>(t, accumulators, staged, run),
            7 if has_kind(t, 7) => run_products::<BLOCKS, SLOTS, SPLIT, 3, 1, 7>(t, accumulators, staged, run),
            _ => cuda_std::trap(),
        }
    }
}

/// The number of a way to halve the slots: they are not.
const WHOLE: usize = 0;

/// Slots of an output row.
const fn row_slots(halved: usize) -> usize {
    if halved == WHOLE { 1 } else { 2 }
}

/// The neighbouring taps that a slot takes, a bit for each.
const fn taken(halved: usize, slot: usize) -> u32 {
    if halved == WHOLE { u32::MAX } else { HALVES[halved - 1][slot % 2] }
}

/// Slabs of eight channels that come before that of a neighbouring tap, for a slot and the first tap along the axis of rows.
const fn slabs_before(halved: usize, taps: usize, neighbour: usize, slot: usize) -> u32 {
    if halved == WHOLE {
        return (neighbour * taps) as u32;
    }
    let before = (1 << neighbour) - 1;
    let earlier = (taken(halved, 0) & before).count_ones() + (taken(halved, 1) & before).count_ones();
    earlier + if slot % 2 == 1 { taken(halved, 0) >> neighbour & 1 } else { 0 }
}

/// Adds the products of a run of `NEIGHBOURS` taps along x times `TAPS` along the axis of rows, with slots `HALVED` in the way of that number.
#[inline(always)]
unsafe fn run_products<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
    const HALVED: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let slabs = slabs_before(HALVED, TAPS, NEIGHBOURS, 0);
    let mut block = 0;
    // SAFETY: the caller's promise; the conditions are the same for all lanes, which come here together.
    unsafe {
        loop {
            // Found anew for each block, not kept in registers meanwhile.
            let number = hint::opaque(block);
            let input = staged.input.shifted(run.offset + number * t.block_bytes);
            let weight = staged.weight.slab(run.first_slab + number * slabs * slab_units);
            if SPLIT || TAPS > 1 || HALVED != WHOLE {
                row_by_row::<BLOCKS, SLOTS, SPLIT, NEIGHBOURS, TAPS, HALVED>(t, accumulators, input, weight, run);
            } else {
                rows_together::<BLOCKS, SLOTS, NEIGHBOURS>(t, accumulators, input, weight, run);
            }
            accumulators.fill();
            block += 1;
            if block == u32::from(run.blocks) {
                break;
            }
        }
    }
}

/// Adds the products of a run for eight channels, of one input row after the other: each is loaded once for all slots that it contributes to.
#[inline(always)]
#[allow(unused_assignments, reason = "the last of the unrolled rows has none behind it")]
unsafe fn row_by_row<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
    const HALVED: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    input: Fragment,
    weight: Weights,
    run: &Run,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let fresh = accumulators.are_empty();
    let aligned = is_aligned(t, run);
    let mut row = input;
    // SAFETY: the caller's promise.
    unsafe {
        let mut next = row.load::<NEIGHBOURS>(aligned);
        unrolled!(FRAGMENT in 0..SLOTS / row_slots(HALVED) + TAPS - 1, at most 10 => {
            let is_last = FRAGMENT + 1 == SLOTS / row_slots(HALVED) + TAPS - 1;
            let fragments = next;
            if !is_last {
                // On its way while these are multiplied.
                row = row.shifted(t.row_step);
                next = row.load::<NEIGHBOURS>(aligned);
            }
            // What is multiplied has to be there when a batch begins: here all of it, or as much as registers are enough for.
            let rounded = if SPLIT { None } else { Some(Factor::rounded(&fragments)) };
            if !SPLIT {
                accumulators.begin();
            }
            unrolled!(NEIGHBOUR in 0..NEIGHBOURS, at most 3 => {
                let factor = rounded.map_or_else(|| Factor::split::<NEIGHBOUR>(&fragments), |rounded| rounded[NEIGHBOUR % 3]);
                if SPLIT {
                    accumulators.begin();
                }
                unrolled!(SLOT in 0..SLOTS, at most 8 => {
                    let output_row = SLOT / row_slots(HALVED);
                    let takes = taken(HALVED, SLOT) >> NEIGHBOUR & 1 == 1;
                    if (output_row..output_row + TAPS).contains(&FRAGMENT) && takes {
                        let tap = FRAGMENT.wrapping_sub(output_row);
                        let number = slabs_before(HALVED, TAPS, NEIGHBOUR, SLOT) + tap as u32;
                        let is_first = NEIGHBOUR as u32 == taken(HALVED, SLOT).trailing_zeros() && tap == 0;
                        let slab = weight.add(number * slab_units);
                        multiply::<BLOCKS, SLOTS, SPLIT, SLOT>(accumulators, &factor, slab, !is_first || !fresh);
                    }
                });
                if SPLIT {
                    finish_batch::<BLOCKS, SLOTS, SPLIT>(accumulators, is_last && NEIGHBOUR + 1 == NEIGHBOURS);
                }
            });
            if !SPLIT {
                finish_batch::<BLOCKS, SLOTS, SPLIT>(accumulators, is_last);
            }
        });
    }
}

/// Adds the products of a run of one tap along the axis of rows for eight channels, of some input rows at a time: each contributes to
/// one slot.
#[inline(always)]
#[allow(unused_assignments, reason = "the last of the unrolled rows has none behind it")]
unsafe fn rows_together<const BLOCKS: usize, const SLOTS: usize, const NEIGHBOURS: usize>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    input: Fragment,
    weight: Weights,
    run: &Run,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, false) / 16;
    let fresh = accumulators.are_empty();
    let aligned = is_aligned(t, run);
    let mut row = input;
    // SAFETY: the caller's promise.
    unsafe {
        unrolled!(FIRST in 0..SLOTS, at most 8 => {
            // As many rows as registers are enough for.
            let rows = if NEIGHBOURS == 1 && SLOTS <= 4 { 4 } else { 2 };
            if FIRST.is_multiple_of(rows) {
                let mut factors = [[Factor::ZERO; 3]; 4];
                unrolled!(ROW in 0..4, at most 4 => {
                    if ROW < rows && FIRST + ROW < SLOTS {
                        factors[ROW % 4] = Factor::rounded(&row.load::<NEIGHBOURS>(aligned));
                        row = row.shifted(t.row_step);
                    }
                });
                accumulators.begin();
                unrolled!(NEIGHBOUR in 0..NEIGHBOURS, at most 3 => {
                    let slab = weight.add(NEIGHBOUR as u32 * slab_units);
                    unrolled!(ROW in 0..4, at most 4 => {
                        const SLOT: usize = FIRST + ROW;
                        if ROW < rows && SLOT < SLOTS {
                            let factor = &factors[ROW % 4][NEIGHBOUR % 3];
                            multiply::<BLOCKS, SLOTS, false, SLOT>(accumulators, factor, slab, NEIGHBOUR != 0 || !fresh);
                        }
                    });
                });
                finish_batch::<BLOCKS, SLOTS, false>(accumulators, FIRST + rows >= SLOTS);
            }
        });
    }
}

/// Whether a kernel has registers enough to make a batch of products while the one before is under way. Sums take as many as accumulators.
pub const fn is_pipelined(tile_columns: u32, slots: u32, split: bool) -> bool {
    tile_columns / 8 * slots * if split { 2 } else { 1 } <= 32
}

/// Ends a batch of products. The registers of a batch are free when the products of the next one are under way. Where accumulators take
/// most of the registers, a batch is complete before the next one is made, and so it is where a loop begins anew with the same registers.
///
/// # Safety
/// All threads of the team come here together.
#[inline(always)]
unsafe fn finish_batch<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    is_last: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_pipelined(8 * BLOCKS as u32, SLOTS as u32, SPLIT) && !is_last {
            accumulators.finish::<1>();
        } else {
            accumulators.finish::<0>();
        }
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
