//! What a layout costs: a model, linear in what there is to do. Its constants were fitted to 53 layers in TF32 on an
//! H200, from 13 us to 2.7 ms, of which it is wrong by 4 % on average (`benchmarks/2026-11-27-gpu-flat.md`). Of 168 in
//! single precision it is wrong by 6 %, though it does not count what it takes that sums move on
//! (`benchmarks/2026-11-29-gpu-flat-f32.md`).

use conv_transpose_kernels::{flat::Part, tile::TEAMS};

use super::{Task, cut::Layout};

/// Cycles from the first launch to the first product, and from the last one to the end, besides packing.
const LATENCY: f64 = 16_400.0;

/// Bytes per cycle that are packed on all multiprocessors, of the input and of what becomes of it.
const PACKED_BYTES: f64 = 3110.0;

/// Bytes per cycle of the packed input and of the output that memory moves while tiles are computed, as far as that
/// takes longer for it.
const MOVED_BYTES: f64 = 2040.0;

/// The share of the cycles that products should take which they take: the clock is faster than the one that is reckoned
/// with.
const PRODUCTS: f64 = 0.815;

/// Bytes per cycle that are copied to shared memory.
const COPIED_BYTES: f64 = 144.0;

/// Cycles that a stage takes besides.
const STAGE: f64 = 109.0;

/// Cycles that a job takes at its end.
const JOB: f64 = 3040.0;

/// By how much the model of tiles takes these for slower than they are, where both are close. With it, the 29 layers of
/// 287 with stride 1 that are computed so take 0.52 to 1.07 of the time that they took otherwise.
const AS_TILES: f64 = 1.35;

/// By how much shared memory takes longer for products while stages are copied there. It decides for those of few
/// positions, which shared memory is as busy with as tensor cores.
const READS: f64 = 1.15;

/// Cycles that a product of 64 channels by so many positions takes: shared memory delivers the channels and a quarter
/// of a cycle's worth of each position, tensor cores take half a cycle for each position, and each product begins once.
fn product(positions: u32) -> f64 {
    let positions = f64::from(positions);
    (READS * (16.0 + positions / 4.0)).max(positions / 2.0) + 1.0
}

/// Cycles from the first launch to the end.
pub(super) fn cycles(task: &Task, layout: &Layout) -> f64 {
    let (problem, cut) = (&task.problem, &layout.cut);
    let factors = cut.parts_of_factor();
    let stage = |part: &Part| {
        let copied = part.stretches * layout.parts.stretch * cut.position_bytes() + part.slabs * cut.slab_bytes();
        let products = f64::from(part.slabs * TEAMS * (2 * factors - 1)) * product(cut.variant.positions);
        PRODUCTS * products + f64::from(copied) / COPIED_BYTES + STAGE
    };
    let stages: f64 = layout.parts.parts.iter().map(stage).sum();
    let job = f64::from(layout.channel_blocks) * stages + JOB;
    let rounds = layout.jobs(problem).div_ceil(task.target.multiprocessors.into());
    let packed = 16.0 * f64::from(factors) * problem.batch() as f64 * layout.packed_positions(problem) as f64;
    let [input, output] = [problem.input_shape(), problem.output_shape()].map(|shape| 4.0 * shape.len() as f64);
    let moving = (input + packed) / PACKED_BYTES + (packed + output) / MOVED_BYTES;
    AS_TILES * (LATENCY + moving + rounds as f64 * job)
}
