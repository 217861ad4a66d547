//! Computing: the products of a run.

use cuda_std::{hint, mem, thread, warp};

use super::{
    THREADS,
    fragment::{Factor, Fragment, Loaded},
    is_specialised,
    multiply::{Accumulators, Weights},
    parameters::{self, HALVES, JOINED_ROW_TAPS, JOINED_ROWS, MOST_NEIGHBOURS, ROW_TAPS, Run, Tiling},
    scale::Scale,
    slab_bytes,
};
use crate::unrolled::unrolled;

/// A chunk in shared memory.
pub(super) struct Staged {
    pub(super) input: Fragment,
    /// What makes `f16` factors of what was loaded.
    pub(super) scale: Scale,
    pub(super) weight: Weights,
}

/// Adds the products of a run. When it returns, those of earlier runs are complete: a run has more batches than may be
/// pending. What is to be done `meanwhile` is done once if the run [loads first](loads_first), when its first row is on
/// its way. As soon as those of earlier runs are complete, `go_on` is called, once; in a kernel for any layer there are
/// no registers for it, and the caller does that behind the run.
///
/// # Safety
/// The run's weights, at the latest after `meanwhile`, and its input are staged, and the weights stay so until its
/// products are complete; all threads of the team come here together.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn multiply_run<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    mut meanwhile: impl FnMut(),
    mut go_on: impl FnMut(),
) {
    let (meanwhile, go_on) = (&mut meanwhile, &mut go_on);
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! products {
            ($neighbours:literal, $taps:literal, $halved:expr) => {
                run_products::<BLOCKS, SLOTS, SPLIT, F16, CONVERT, $neighbours, $taps, { $halved }>(
                    t,
                    accumulators,
                    staged,
                    run,
                    meanwhile,
                    go_on,
                )
            };
        }
        macro_rules! joined_products {
            ($neighbours:literal) => {
                if const { may_join_rows(BLOCKS, SLOTS, F16) } {
                    products!($neighbours, 4, WHOLE)
                } else {
                    cuda_std::trap()
                }
            };
        }
        match kind(t, run) {
            kind if is_kind(t, kind, Run::whole(1, 1)) => products!(1, 1, WHOLE),
            kind if is_kind(t, kind, Run::whole(2, 1)) => products!(2, 1, WHOLE),
            kind if is_kind(t, kind, Run::whole(3, 1)) => products!(3, 1, WHOLE),
            kind if is_kind(t, kind, Run::whole(1, 3)) => products!(1, 3, WHOLE),
            kind if is_kind(t, kind, Run::whole(2, 3)) => products!(2, 3, WHOLE),
            kind if is_kind(t, kind, Run::whole(3, 3)) => products!(3, 3, WHOLE),
            kind if is_kind(t, kind, Run::whole(1, 4)) => joined_products!(1),
            kind if is_kind(t, kind, Run::whole(2, 4)) => joined_products!(2),
            kind if is_kind(t, kind, Run::whole(3, 4)) => joined_products!(3),
            _ if const { !may_have_halves(BLOCKS, SLOTS) } => cuda_std::trap(),
            kind if is_kind(t, kind, Run::halved(0)) => products!(1, 1, 1),
            kind if is_kind(t, kind, Run::halved(1)) => products!(2, 1, 2),
            kind if is_kind(t, kind, Run::halved(2)) => products!(2, 1, 3),
            kind if is_kind(t, kind, Run::halved(3)) => products!(2, 1, 4),
            kind if is_kind(t, kind, Run::halved(4)) => products!(3, 1, 5),
            kind if is_kind(t, kind, Run::halved(5)) => products!(3, 1, 6),
            kind if is_kind(t, kind, Run::halved(6)) => products!(3, 1, 7),
            _ => cuda_std::trap(),
        }
    }
}

/// Whether kernels of so many blocks of columns and slots know runs of joined rows. Others have no use for them, or too
/// many rows.
pub(super) const fn may_join_rows(blocks: usize, slots: usize, f16: bool) -> bool {
    !f16 && blocks >= 2 && blocks <= 6 && slots >= 2 && rows(slots, JOINED_ROW_TAPS as usize, WHOLE) > 0
}

/// Whether they know runs of slots that are halves. Few columns have hardly any use for them: what has as few output
/// channels shares the columns with all of its phases.
pub(super) const fn may_have_halves(blocks: usize, slots: usize) -> bool {
    slots.is_multiple_of(2) && (blocks >= 4 || slots == 2)
}

/// Whether a run's first row is loaded before its weights are waited for: where teams convert few rows. Elsewhere what
/// is loaded would stay in too many registers, or it takes longer than it spares.
#[cfg_attr(gpu, inline(always))]
pub(super) fn loads_first<const CONVERT: bool>(t: &Tiling, run: &Run) -> bool {
    CONVERT && kind(t, run) < Run::whole(0, 0)
}

/// The kinds of runs that there are, a bit for each. Asked anew, not kept in registers as an answer for each kind.
#[cfg_attr(gpu, inline(always))]
fn kinds(t: &Tiling) -> u32 {
    hint::opaque(t.run_kinds) & !(Run::SOME_ALIGNED | Run::SOME_UNALIGNED | Run::SOME_ODD)
}

/// The kinds of runs of several taps along the axis of rows.
const SEVERAL_ROW_TAPS: u32 = {
    let mut kinds = 0;
    let mut neighbours = 1;
    while neighbours <= MOST_NEIGHBOURS as u16 {
        kinds |= 1 << Run::whole(neighbours, ROW_TAPS as u16) | 1 << Run::whole(neighbours, JOINED_ROW_TAPS as u16);
        neighbours += 1;
    }
    kinds
};

/// The kind of a run. It is a constant where there is only one and the tiling is constant.
#[cfg_attr(gpu, inline(always))]
fn kind(t: &Tiling, run: &Run) -> u16 {
    let kinds = kinds(t);
    if kinds.is_power_of_two() { kinds.trailing_zeros() as u16 } else { run.kind }
}

/// Whether a run's kind is a certain one. Where the tiling is constant, the code for kinds that there are not goes.
#[cfg_attr(gpu, inline(always))]
fn is_kind(t: &Tiling, kind: u16, certain: u16) -> bool {
    kind == certain && kinds(t) >> certain & 1 == 1
}

/// Whether a lane's two positions are neighbours, the first one at an even word. It is a constant where it is the same
/// for all runs.
#[cfg_attr(gpu, inline(always))]
fn is_aligned(t: &Tiling, run: &Run) -> bool {
    let is_any = |bit: u32| t.run_kinds & bit != 0;
    is_any(Run::SOME_ALIGNED) && (!is_any(Run::SOME_UNALIGNED) || run.flags & Run::ALIGNED != 0)
}

/// How many kinds of runs a layer may have for products to stay under way from run to run, if factors are whole: those
/// of a whole batch are in registers, and there are not enough for more kinds.
const MOST_KINDS_UNDER_WAY: u32 = 2;

/// The number of a way to halve the slots: they are not.
const WHOLE: usize = 0;

/// Slots of an output row.
const fn row_slots(halved: usize) -> usize {
    if halved == WHOLE { 1 } else { 2 }
}

/// How many input rows lie between those of neighbouring slots, if runs take so many taps along the axis of rows.
const fn rows_apart(taps: usize) -> usize {
    if taps == JOINED_ROW_TAPS as usize { JOINED_ROWS as usize } else { 1 }
}

/// How many input rows are on their way while one is multiplied: two where products are asynchronous, and the shared
/// memory is busy with them, which it is half as much with `f16`.
const fn rows_ahead(f16: bool) -> usize {
    if cfg!(cuda_arch = "sm_90a") && !f16 { 2 } else { 1 }
}

/// The most input rows that a run loads.
const MOST_ROWS: usize = 10;

/// Input rows that a run loads.
const fn rows(slots: usize, taps: usize, halved: usize) -> usize {
    let rows = slots / row_slots(halved) * rows_apart(taps) + taps - rows_apart(taps);
    // Kernels with many slots know no runs of joined rows.
    if rows > MOST_ROWS { 0 } else { rows }
}

/// The neighbouring taps that a slot takes, a bit for each.
const fn taken(halved: usize, slot: usize) -> u32 {
    if halved == WHOLE { u32::MAX } else { HALVES[halved - 1][slot % 2] }
}

/// Slabs of eight channels that come before that of a neighbouring tap, for a slot and the first tap along the axis of
/// rows.
const fn slabs_before(halved: usize, taps: usize, neighbour: usize, slot: usize) -> u32 {
    if halved == WHOLE {
        return (neighbour * taps) as u32;
    }
    let before = (1 << neighbour) - 1;
    let earlier = (taken(halved, 0) & before).count_ones() + (taken(halved, 1) & before).count_ones();
    earlier + if slot % 2 == 1 { taken(halved, 0) >> neighbour & 1 } else { 0 }
}

/// A neighbouring tap of an input row, for a slot. Its constants are evaluated once, not for each kernel.
struct RowTap<const TAPS: usize, const HALVED: usize, const ROW: usize, const NEIGHBOUR: usize, const SLOT: usize>;

impl<const TAPS: usize, const HALVED: usize, const ROW: usize, const NEIGHBOUR: usize, const SLOT: usize>
    RowTap<TAPS, HALVED, ROW, NEIGHBOUR, SLOT>
{
    /// The first input row that the slot takes.
    const FIRST_ROW: usize = SLOT / row_slots(HALVED) * rows_apart(TAPS);
    /// Whether the slot takes it.
    const IS_TAKEN: bool =
        ROW >= Self::FIRST_ROW && ROW < Self::FIRST_ROW + TAPS && taken(HALVED, SLOT) >> NEIGHBOUR & 1 == 1;
    /// The tap along the axis of rows that the slot takes then.
    const TAP: usize = ROW.saturating_sub(Self::FIRST_ROW);
    /// The number of its slab of weights.
    const SLAB: u32 = slabs_before(HALVED, TAPS, NEIGHBOUR, SLOT) + Self::TAP as u32;
    /// Whether it is the slot's first one of the run.
    const IS_FIRST: bool = NEIGHBOUR as u32 == taken(HALVED, SLOT).trailing_zeros() && Self::TAP == 0;
}

/// Adds the products of a run of `NEIGHBOURS` taps along x times `TAPS` along the axis of rows, with slots `HALVED` in
/// the way of that number.
///
/// # Safety
/// As [`multiply_run`].
#[cfg_attr(gpu, inline(always))]
unsafe fn run_products<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
    const HALVED: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    meanwhile: &mut impl FnMut(),
    go_on: &mut impl FnMut(),
) {
    let batches = const { batches(SLOTS, SPLIT, CONVERT, NEIGHBOURS, TAPS, HALVED) };
    let by_two =
        const { goes_by_two(SLOTS, SPLIT, CONVERT, NEIGHBOURS, TAPS, HALVED) } && t.run_kinds & Run::SOME_ODD == 0;
    // Of no run the number of blocks is odd then: the loop ends.
    let mut block = 0;
    // SAFETY: the caller's promise; the conditions are the same for all lanes, which come here together.
    unsafe {
        loop {
            let pending = if by_two { 2 * batches - 1 } else { (batches - 1).min(1) };
            multiply_block::<BLOCKS, SLOTS, SPLIT, F16, CONVERT, NEIGHBOURS, TAPS, HALVED>(
                t,
                accumulators,
                staged,
                run,
                block,
                pending,
                || {
                    if const { HALVED != WHOLE && CONVERT } && block == 0 {
                        meanwhile()
                    }
                },
            );
            block += 1;
            if by_two {
                multiply_block::<BLOCKS, SLOTS, SPLIT, F16, CONVERT, NEIGHBOURS, TAPS, HALVED>(
                    t,
                    accumulators,
                    staged,
                    run,
                    block,
                    pending,
                    || (),
                );
                block += 1;
            }
            // A round has more batches than may be pending.
            if is_specialised() && block <= if by_two { 2 } else { 1 } {
                go_on();
            }
            if block == u32::from(run.blocks) {
                break;
            }
        }
    }
}

/// Whether input rows are multiplied one after the other, each for all slots that it contributes to, and not some of
/// them together, each for its slot.
const fn goes_row_by_row(split: bool, taps: usize, halved: usize) -> bool {
    split || taps > 1 || halved != WHOLE
}

/// Whether two blocks are computed by the same round of the loop, so that the factors of each have registers of their
/// own, and twice as many batches are under way: if these registers are not too many. Of three batches or more, enough
/// are under way as it is.
const fn goes_by_two(slots: usize, split: bool, convert: bool, neighbours: usize, taps: usize, halved: usize) -> bool {
    const MOST_REGISTERS: usize = 32;
    let batches = batches(slots, split, convert, neighbours, taps, halved);
    let rows = if goes_row_by_row(split, taps, halved) { 1 } else { rows_of_batch(slots, convert) };
    let registers = if split { 8 } else { 4 * neighbours * rows };
    batches <= 2 && 2 * batches * registers <= MOST_REGISTERS
}

/// Batches of products of a block of channels.
const fn batches(slots: usize, split: bool, convert: bool, neighbours: usize, taps: usize, halved: usize) -> usize {
    let batches = if !goes_row_by_row(split, taps, halved) {
        slots / rows_of_batch(slots, convert)
    } else if split {
        rows(slots, taps, halved) * neighbours
    } else {
        rows(slots, taps, halved)
    };
    // Some kinds of runs do not exist for some numbers of slots.
    if batches == 0 { 1 } else { batches }
}

/// Rows of one tap that are multiplied together: two batches at least, so that one is under way while the factors of
/// the other are made. What teams convert has twice as many channels.
const fn rows_of_batch(slots: usize, convert: bool) -> usize {
    if slots >= 4 && !convert { 2 } else { 1 }
}

/// Adds the products of a block of eight channels of a run, or of a step of its walk, with at most so many batches
/// `pending` while factors are made.
///
/// # Safety
/// As [`multiply_run`], with such a block of the run.
#[cfg_attr(gpu, inline(always))]
unsafe fn multiply_block<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
    const HALVED: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    block: u32,
    pending: usize,
    meanwhile: impl FnOnce(),
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let slabs = slabs_before(HALVED, TAPS, NEIGHBOURS, 0);
    // SAFETY: the caller's promise.
    unsafe {
        // Found anew for each block, not kept in registers meanwhile.
        let number = hint::opaque(block);
        let staged = Staged {
            input: staged.input.shifted(run.offset + number * t.block_bytes),
            weight: staged.weight.slab(run.first_slab + number * slabs * slab_units),
            ..*staged
        };
        if const { goes_row_by_row(SPLIT, TAPS, HALVED) } {
            row_by_row::<BLOCKS, SLOTS, SPLIT, F16, CONVERT, NEIGHBOURS, TAPS, HALVED>(
                t,
                accumulators,
                &staged,
                run,
                pending,
                meanwhile,
            );
        } else {
            rows_together::<BLOCKS, SLOTS, F16, CONVERT, NEIGHBOURS>(t, accumulators, &staged, run, pending);
        }
        accumulators.fill();
        accumulators.wait_unless_specialised();
        if !SPLIT && kinds(t).count_ones() > MOST_KINDS_UNDER_WAY {
            accumulators.wait::<0>();
        }
    }
}

/// Adds the products of a run for eight channels, of one input row after the other: each is loaded once for all slots
/// that it contributes to.
///
/// # Safety
/// As [`multiply_run`], with such a block of the run.
#[cfg_attr(gpu, inline(always))]
#[allow(unused_assignments, reason = "the last of the unrolled rows has none behind it")]
unsafe fn row_by_row<
    const BLOCKS: usize,
    const SLOTS: usize,
    const SPLIT: bool,
    const F16: bool,
    const CONVERT: bool,
    const NEIGHBOURS: usize,
    const TAPS: usize,
    const HALVED: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    pending: usize,
    meanwhile: impl FnOnce(),
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, SPLIT) / 16;
    let fresh = accumulators.are_empty();
    let aligned = is_aligned(t, run);
    let count = const { rows(SLOTS, TAPS, HALVED) };
    let rows_ahead = const { rows_ahead(F16) };
    let are_16 = const { CONVERT || SPLIT && F16 };
    let row_step = t.row_step / const { rows_apart(TAPS) as u32 };
    let mut row = staged.input;
    // SAFETY: the caller's promise; there are so many rows.
    unsafe {
        // The next rows, on their way while one is multiplied.
        let mut next = [row.load::<NEIGHBOURS>(t, aligned, are_16); 2];
        if rows_ahead > 1 && count > 1 {
            row = row.shifted(row_step);
            next[1] = row.load::<NEIGHBOURS>(t, aligned, are_16);
        }
        meanwhile();
        unrolled!(ROW in 0..{ rows(SLOTS, TAPS, HALVED) }, at most 10 => {
            let fragments = next[0];
            next[0] = next[1];
            if ROW + rows_ahead < count {
                row = row.shifted(row_step);
                next[rows_ahead - 1] = row.load::<NEIGHBOURS>(t, aligned, are_16);
            }
            // What is multiplied has to be there when a batch begins: here all of it, or as much as registers are
            // enough for.
            let mut whole = [Factor::ZERO; 3];
            if !SPLIT {
                whole = begin_batch(accumulators, ROW, pending, || Factor::whole::<F16, CONVERT>(&fragments, &staged.scale));
            }
            let mut factor = Factor::ZERO;
            unrolled!(NEIGHBOUR in 0..NEIGHBOURS, at most 3 => {
                factor = if SPLIT {
                    begin_batch(accumulators, ROW * NEIGHBOURS + NEIGHBOUR, pending, || Factor::split::<NEIGHBOUR, F16, CONVERT>(&fragments, &staged.scale, &factor))
                } else {
                    whole[NEIGHBOUR % 3]
                };
                unrolled!(SLOT in 0..SLOTS, at most 8 => {
                    type This<const TAPS: usize, const HALVED: usize> = RowTap<TAPS, HALVED, ROW, NEIGHBOUR, SLOT>;
                    if This::<TAPS, HALVED>::IS_TAKEN {
                        let slab = staged.weight.add(This::<TAPS, HALVED>::SLAB * slab_units);
                        let filled = !This::<TAPS, HALVED>::IS_FIRST || !fresh;
                        multiply::<BLOCKS, SLOTS, SPLIT, F16, SLOT>(accumulators, &factor, slab, filled);
                    }
                });
                if SPLIT || NEIGHBOUR + 1 == NEIGHBOURS {
                    accumulators.end_batch();
                }
            });
        });
    }
}

/// Adds the products of a run of one tap along the axis of rows for eight channels, of some input rows at a time: each
/// contributes to one slot.
///
/// # Safety
/// As [`multiply_run`], with such a block of the run.
#[cfg_attr(gpu, inline(always))]
#[allow(unused_assignments, reason = "the last of the unrolled rows has none behind it")]
unsafe fn rows_together<
    const BLOCKS: usize,
    const SLOTS: usize,
    const F16: bool,
    const CONVERT: bool,
    const NEIGHBOURS: usize,
>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    staged: &Staged,
    run: &Run,
    pending: usize,
) {
    let slab_units = slab_bytes(8 * BLOCKS as u32, false) / 16;
    let fresh = accumulators.are_empty();
    let aligned = is_aligned(t, run);
    let rows = const { rows_of_batch(SLOTS, CONVERT) };
    let are_16 = CONVERT;
    // SAFETY: the caller's promise; there is a row for each slot.
    unsafe {
        let load_rows = |first: usize| {
            let mut fragments = [Loaded::default(); 2];
            unrolled!(ROW in 0..2, at most 2 => {
                if ROW < rows {
                    fragments[ROW] = staged.input.shifted((first + ROW) as u32 * t.row_step).load::<NEIGHBOURS>(t, aligned, are_16);
                }
            });
            fragments
        };
        let mut next = load_rows(0);
        unrolled!(FIRST in 0..SLOTS, at most 8 => {
            if FIRST.is_multiple_of(rows) {
                let fragments = next;
                if FIRST + rows < SLOTS {
                    next = load_rows(FIRST + rows);
                }
                let whole = || fragments.each_ref().map(|loaded| Factor::whole::<F16, CONVERT>(loaded, &staged.scale));
                let factors = begin_batch(accumulators, FIRST / rows, pending, whole);
                unrolled!(NEIGHBOUR in 0..NEIGHBOURS, at most 3 => {
                    let slab = staged.weight.add(NEIGHBOUR as u32 * slab_units);
                    unrolled!(ROW in 0..2, at most 2 => {
                        const SLOT: usize = FIRST + ROW;
                        if ROW < rows && SLOT < SLOTS {
                            let factor = &factors[ROW][NEIGHBOUR % 3];
                            multiply::<BLOCKS, SLOTS, false, F16, SLOT>(accumulators, factor, slab, NEIGHBOUR != 0 || !fresh);
                        }
                    });
                });
                accumulators.end_batch();
            }
        });
    }
}

/// Begins a batch of products, number `batch` of a block of channels: makes its factors when their registers are free,
/// which they are with at most so many batches `pending`.
///
/// # Safety
/// All threads of the team come here together.
#[cfg_attr(gpu, inline(always))]
unsafe fn begin_batch<const BLOCKS: usize, const SLOTS: usize, F>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    batch: usize,
    pending: usize,
    factors: impl FnOnce() -> F,
) -> F {
    // SAFETY: the caller's promise.
    unsafe {
        match (batch, pending) {
            (0, 0) => accumulators.wait_if_specialised::<0>(),
            (0, 1) => accumulators.wait_if_specialised::<1>(),
            (0, _) => accumulators.wait_if_specialised::<3>(),
            (_, 0) => accumulators.wait::<0>(),
            (_, 1) => accumulators.wait::<1>(),
            (_, _) => accumulators.wait::<3>(),
        }
        let factors = factors();
        accumulators.begin_batch();
        factors
    }
}

/// Adds the product of a factor and a slab to a slot, or overwrites it if it is not `filled`.
///
/// # Safety
/// As [`Accumulators::add_product`].
#[cfg_attr(gpu, inline(always))]
unsafe fn multiply<const BLOCKS: usize, const SLOTS: usize, const SPLIT: bool, const F16: bool, const SLOT: usize>(
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    factor: &Factor,
    slab: Weights,
    filled: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if !SPLIT {
            return accumulators.add_product::<SLOT, F16>(factor.large, slab, filled);
        }
        let small_parts = slab.add(slab_bytes(8 * BLOCKS as u32, false) / 16);
        accumulators.add_product::<SLOT, F16>(factor.large, slab, filled);
        accumulators.add_product::<SLOT, F16>(factor.large, small_parts, true);
        accumulators.add_product::<SLOT, F16>(factor.small, slab, true);
    }
}

/// More threads than blocks have.
const MOST_THREADS: u32 = THREADS.next_power_of_two();

/// The table entry of a run, on its way: to take it apart is to wait for it.
#[derive(Clone, Copy)]
pub(super) struct PackedRun([u32; 4]);

impl PackedRun {
    /// # Safety
    /// The table has such a run.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn load(t: &Tiling, tables: *const [u32; 4], number: u32) -> Self {
        // Nothing, as no block has so many threads. If the compiler knew here that all lanes load the same, it would
        // move that to uniform registers, which waits for it.
        let zero = hint::opaque(thread::thread_idx_x()) / MOST_THREADS;
        let row = tables.wrapping_add((t.first_run_row + number * parameters::rows::<Run>() + zero) as usize);
        // SAFETY: the caller's promise.
        Self(unsafe { mem::load_readonly(row) })
    }

    /// The run, taken apart here and not where it was loaded. It goes through shuffles so that the compiler sees again
    /// that it is the same for all lanes, but where that takes longer than it spares: runs of TF32 factors without
    /// several taps along the axis of rows are short.
    ///
    /// # Safety
    /// All lanes of the warp come here together, with the same run.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn unpacked<const F16: bool>(self, t: &Tiling) -> Run {
        if !F16 && is_specialised() && kinds(t) & SEVERAL_ROW_TAPS == 0 {
            return bytemuck::cast(self.0.map(hint::opaque));
        }
        // SAFETY: the caller's promise.
        bytemuck::cast(self.0.map(|word| unsafe { warp::warp_shuffle_idx(u32::MAX, word, 0) }))
    }
}
