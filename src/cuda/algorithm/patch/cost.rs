//! What a layout costs: a model, linear in what there is to do but for what happens at the same time. Its constants were
//! fitted to 90 layers with up to eight layouts each on an H200, from 6 us to 0.6 ms, in TF32 and in `f32`, of which it
//! is wrong by 9 % on average; the layouts that it takes are 1 % slower than the fastest ones, or less
//! (`benchmarks/2026-11-28-gpu-patch.md`, `2026-11-28-gpu-patch-f32.md`).

use super::{Task, layout::Layout};

/// Cycles from the launch to the first product, and from the last one to the end.
const LATENCY: f64 = 10_600.0;

/// Cycles that it takes to load and convert a stage, while what was converted before is multiplied, and bytes per cycle
/// that a multiprocessor gets meanwhile from the L2 cache.
const STAGE: (f64, f64) = (1230.0, 37.0);

/// The same where values are split: half as many.
const SPLIT_STAGE: (f64, f64) = (1010.0, 28.0);

/// Bytes per cycle that a multiprocessor stores.
const STORED_BYTES: f64 = 27.0;

/// How many times as long it takes to store sectors in pieces.
const IN_PIECES: f64 = 3.2;

/// Bytes per cycle that memory moves.
const MOVED_BYTES: f64 = 1970.0;

/// By how much the model of tiles takes these for slower than they are. With it, the layers of the 90 that are computed
/// so, half of them, take 0.52 to 1.06 of the time that they took otherwise.
const AS_TILES: f64 = 1.3;

/// The same in TF32 if elements have no taps: it takes tiles with gaps for faster than they are. With it, what is chosen
/// for 16 such layers in both precisions takes 1.01 times as long as the faster one, and 1.19 times at most
/// (`benchmarks/2026-11-28-gpu-gaps.md`).
const AS_TILES_WITH_GAPS: f64 = 1.02;

/// Cycles from the launch to the end.
pub(super) fn cycles(task: &Task, layout: &Layout) -> f64 {
    let (problem, tile) = (&task.problem, &layout.tile);
    let staged = tile.positions() * tile.chunk_channels() * 4;
    let weights = if layout.keeps_weights { 0 } else { tile.chunk_bytes() };
    let (converting, fetched_bytes) = if tile.variant.split { SPLIT_STAGE } else { STAGE };
    let stage = converting.max(f64::from(staged + weights) / fetched_bytes);
    let pieces = if tile.stores_sectors(problem) { 1.0 } else { IN_PIECES };
    let stored = pieces * f64::from(tile.rows() * tile.positions() * 4) / STORED_BYTES;
    let rounds = layout.jobs.div_ceil(layout.blocks.max(1));
    let computing = f64::from(rounds) * (f64::from(layout.chunks) * stage + stored);
    let [input, output] = [problem.input_shape(), problem.output_shape()].map(|shape| 4.0 * shape.len() as f64);
    let has_gaps = problem.axes().iter().any(|axis| axis.kernel < axis.stride);
    let as_tiles = if has_gaps && !tile.variant.split { AS_TILES_WITH_GAPS } else { AS_TILES };
    as_tiles * (LATENCY + beside(computing, (input + output) / MOVED_BYTES))
}

/// What takes so long and so long beside each other: more than the longer one, where neither is much longer.
fn beside(one: f64, other: f64) -> f64 {
    (one.powi(6) + other.powi(6)).powf(1.0 / 6.0)
}
