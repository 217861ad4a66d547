//! Products by fused multiply-adds on ordinary cores, before compute capability 8.0: in plain `f32`, neither rounded
//! nor split.
//!
//! Accumulators and the packed weight are those of `mma`, and a lane has the same rows and columns of the product. But
//! where tensor cores pass factors on between lanes, each lane loads here all that it multiplies: of eight channels,
//! its two positions of every row, and the weights of its two columns of each block, four channels at a time. Lanes
//! with the same positions or columns load the same words at once. The weights of a tap serve all slots that take it,
//! so a lane with 48 sums loads some 14 words for 48 products; this is why taps come one after the other, and not, as
//! for tensor cores, input rows.

use cuda_std::{hint, math, shared::SharedPtr, warp};

use super::mma::{Accumulators, BLOCK_WORDS};
use crate::{
    tile::{
        fragment::Fragment,
        parameters::{HALVES, Run, Tiling},
        slab_bytes,
    },
    unrolled::unrolled,
};

/// Adds the products of a run, whose `input` and `weight` are staged from these places on.
///
/// # Safety
/// The run's weights and its input are staged. All lanes of the warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn multiply_run<const BLOCKS: usize, const SLOTS: usize>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    input: Fragment,
    weight: SharedPtr<u8>,
    run: &Run,
) {
    let input = input.of_first_channel(t).shifted(run.offset);
    let lane_columns = warp::lane_id() % 4 * 2;
    let mut slab = weight.add(run.first_slab * 16).cast::<[f32; 4]>().add(lane_columns);
    let slab_units = slab_bytes(8 * BLOCKS as u32, false) / 16;
    let kind = u32::from(run.kind);
    for block in 0..u32::from(run.blocks) {
        let input = input.shifted(block * t.block_bytes);
        let mut neighbour = 0;
        // SAFETY: the caller's promise. There are as many slabs, in this order, and as many rows and words of the
        // input.
        unsafe {
            while neighbour < neighbours(kind) {
                let rows = input.shifted(4 * neighbour);
                // An odd number of slots is never halved.
                if const { SLOTS.is_multiple_of(2) } && kind < Run::whole(1, 1).into() {
                    let [first_half, second_half] = [taken(kind, 0), taken(kind, 1)];
                    if first_half >> neighbour & 1 == 1 {
                        add_products::<BLOCKS, SLOTS, 0, 2>(t, accumulators, rows, slab);
                        slab = slab.add(slab_units);
                    }
                    if second_half >> neighbour & 1 == 1 {
                        add_products::<BLOCKS, SLOTS, 1, 2>(t, accumulators, rows, slab);
                        slab = slab.add(slab_units);
                    }
                } else {
                    for tap in 0..row_taps(kind) {
                        add_products::<BLOCKS, SLOTS, 0, 1>(t, accumulators, rows.shifted(tap * t.row_step), slab);
                        slab = slab.add(slab_units);
                    }
                }
                neighbour += 1;
            }
        }
    }
}

/// Bits for the ways to halve the slots, three for either half: which of the neighbouring taps it takes. A constant,
/// not a table in memory.
const TAKEN: u64 = {
    let (mut bits, mut way) = (0, 0);
    while way < HALVES.len() {
        let [first, second] = HALVES[way];
        bits |= ((first | second << 3) as u64) << (6 * way);
        way += 1;
    }
    bits
};

/// The neighbouring taps that a half of the slots takes in a run of a kind that halves them, a bit for each.
const fn taken(kind: u32, half: u32) -> u32 {
    (TAKEN >> (6 * (kind - Run::halved(0) as u32) + 3 * half)) as u32 & 0b111
}

/// Neighbouring taps along x of a kind of runs.
const fn neighbours(kind: u32) -> u32 {
    if kind < Run::whole(1, 1) as u32 {
        32 - (taken(kind, 0) | taken(kind, 1)).leading_zeros()
    } else {
        (kind - Run::whole(0, 0) as u32) % 4
    }
}

/// Taps along the axis of rows of a kind of runs that does not halve the slots.
const fn row_taps(kind: u32) -> u32 {
    (kind - Run::whole(0, 0) as u32) / 4
}

/// Adds the products of eight channels and a slab to the slots from number `FIRST` on, each `STEP` further: the first
/// one's positions are in row 0 of the input, the next one's in the row that follows.
///
/// # Safety
/// As [`multiply_run`]; the slots exist.
#[cfg_attr(gpu, inline(always))]
unsafe fn add_products<const BLOCKS: usize, const SLOTS: usize, const FIRST: usize, const STEP: usize>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    rows: Fragment,
    slab: SharedPtr<[f32; 4]>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        add_half::<BLOCKS, SLOTS, FIRST, STEP>(t, accumulators, rows, slab);
        let rows = rows.shifted(16 * t.channel_words);
        add_half::<BLOCKS, SLOTS, FIRST, STEP>(t, accumulators, rows, slab.add(BLOCK_WORDS / 2 / 4));
    }
}

/// The same of four channels.
///
/// # Safety
/// As [`add_products`].
#[cfg_attr(gpu, inline(always))]
unsafe fn add_half<const BLOCKS: usize, const SLOTS: usize, const FIRST: usize, const STEP: usize>(
    t: &Tiling,
    accumulators: &mut Accumulators<BLOCKS, SLOTS>,
    rows: Fragment,
    slab: SharedPtr<[f32; 4]>,
) {
    // Found anew each time: otherwise all places would be counted through the loops, each in a register.
    let rows = rows.opaque();
    let (row_step, channel_words) = (hint::opaque(t.row_step), hint::opaque(t.channel_words));
    let mut positions = [[[0.0; 2]; 4]; SLOTS];
    // SAFETY: the caller's promise.
    unsafe {
        unrolled!(SLOT in 0..SLOTS, at most 8 => {
            if const { SLOT % STEP == FIRST } {
                let row = rows.shifted((SLOT / STEP) as u32 * row_step);
                positions[SLOT] = row.load_channels(channel_words);
            }
        });
        unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
            let column = slab.add(BLOCK as u32 * (BLOCK_WORDS / 4));
            let columns = [column.load(), column.add(1).load()];
            unrolled!(SLOT in 0..SLOTS, at most 8 => {
                if const { SLOT % STEP == FIRST } {
                    multiply(&mut accumulators.0[SLOT][BLOCK], &positions[SLOT], &columns);
                }
            });
        });
    }
}

/// Adds the products of two positions and two columns, of four channels each.
#[cfg_attr(gpu, inline(always))]
fn multiply(sums: &mut [f32; 4], positions: &[[f32; 2]; 4], [left, right]: &[[f32; 4]; 2]) {
    unrolled!(CHANNEL in 0..4, at most 4 => {
        let [first, second] = positions[CHANNEL];
        sums[0] = math::fma(first, left[CHANNEL], sums[0]);
        sums[1] = math::fma(first, right[CHANNEL], sums[1]);
        sums[2] = math::fma(second, left[CHANNEL], sums[2]);
        sums[3] = math::fma(second, right[CHANNEL], sums[3]);
    });
}

/// Kinds are read as they are written.
const _: () = {
    let mut along_x = 1;
    while along_x <= 3 {
        let [one_row, three_rows] = [Run::whole(along_x, 1) as u32, Run::whole(along_x, 3) as u32];
        assert!(neighbours(one_row) == along_x as u32 && row_taps(one_row) == 1);
        assert!(neighbours(three_rows) == along_x as u32 && row_taps(three_rows) == 3);
        along_x += 1;
    }
    let mut way = 0;
    while way < HALVES.len() {
        let kind = Run::halved(way as u16) as u32;
        let [first, second] = HALVES[way];
        assert!(taken(kind, 0) == first && taken(kind, 1) == second);
        assert!(neighbours(kind) == (first | second).ilog2() + 1);
        way += 1;
    }
};
