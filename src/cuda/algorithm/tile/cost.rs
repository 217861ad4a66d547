//! What a cut costs: a model.
//!
//! It counts, for all blocks together, the cycles of a multiprocessor that each of its resources is busy: tensor cores,
//! shared memory, issue of instructions, and the way from the L2 cache. The busiest one decides, next to the memory of
//! the device, which has to deliver and take every element once. Constants are those of an H200. Costs are added up for
//! regions, and compared with those of other algorithms. What is different on ordinary cores is in `ordinary.rs`.

use std::{ops::Range, slice};

use conv_transpose_kernels::tile::{self, Tiling, Variant};

use super::{
    Task,
    groups::Group,
    halves::neighbour_slabs,
    layout::{Cut, Layout},
    ordinary,
    tables::{begins_even, ranges},
    turns::MOST_ROUNDS_APART,
    walk::share_of_runs,
};
use crate::Problem;

/// Cycles of a warp group's product of 64 rows by eight channels with few columns.
const LEAST_PRODUCT: f64 = 14.3;

/// Bytes per cycle that a multiprocessor gets from the L2 cache.
const L2_BYTES: f64 = 32.0;

/// Bytes per cycle that the memory of the device delivers to all multiprocessors.
const MEMORY_BYTES: f64 = 2500.0;

/// Bytes that the edges of a row of a tile cost.
const EDGE_BYTES: f64 = 220.0;

/// How much more they cost while bare rows are on their way to memory.
const EDGES_BESIDE: f64 = 2.0;

/// How much of the shorter one of computing and moving does not overlap with the other.
const OVERLAP_LOSS: f64 = 0.3;

/// Cycles from the start of the kernel to the first product, and from the last one to the end.
pub(super) const LATENCY: f64 = 6000.0;

/// Cycles that it takes at least to pack the input: two grids.
const PACK_LATENCY: f64 = 6000.0;

/// Bytes per cycle that are packed, of the input and of what becomes of it: fewer than memory delivers, because the
/// model takes all else for slower than it is.
const PACK_BYTES: f64 = 1500.0;

/// How much longer kernels that read a packed input take than the model says.
const PACKED: f64 = 1.1;

/// The same if its factors are split.
const PACKED_SPLIT: f64 = 1.06;

/// Cycles from the request of an input or a weight to its arrival.
const FETCH_LATENCY: f64 = 1000.0;

/// The same in single precision, with twice the weights, where bare rows are on their way to memory meanwhile.
const FETCH_LATENCY_BESIDE: f64 = 2500.0;

/// Cycles from one instruction of a warp to the next.
const SERIAL_ISSUE: f64 = 2.0;

/// Cycles from one instruction of a warp that fetches to the next.
const FETCH_ISSUE: f64 = 5.0;

/// Instructions for four words that a thread measures.
const MEASURE_INSTRUCTIONS: f64 = 7.0;

/// Instructions for each stage that is measured, besides.
const STAGE_INSTRUCTIONS: f64 = 120.0;

/// Cycles until those who measure a stage know its largest value.
const MEASURE_LATENCY: f64 = 1500.0;

/// Threads that measure.
const MEASURING_THREADS: f64 = 96.0;

/// Cycles from one instruction of a warp that measures to the next.
const MEASURE_ISSUE: f64 = 2.5;

/// How much longer kernels take whose teams convert the input: as much as the model may be wrong there.
const CONVERTED_BY_TEAMS: f64 = 1.09;

/// The same if factors are split.
const SPLIT_BY_TEAMS: f64 = 1.13;

/// How much longer it takes partners besides, which have few stages each.
const SPLIT_BY_PARTNERS: f64 = 1.35;

/// The same where phases of few output channels lie close together.
const SPLIT_CLOSE: f64 = 1.15;

/// How much longer all else takes in TF32 where threads copy the input, which could be copied in boxes.
const WITHOUT_BOXES: f64 = 1.1;

/// The same in single precision, with three times the products.
const WITHOUT_BOXES_SPLIT: f64 = 1.02;

/// How much longer kernels take whose producers write bare rows, by as much as the model may be wrong there.
const BARE_ROWS: f64 = 1.1;

/// How much longer joined rows take in TF32 than the model says: an input row of a run is multiplied for two slots, not
/// for three.
const JOINED_ROWS: f64 = 1.07;

/// How much longer dilated taps along the axis of rows take in TF32 than the model says, where no run takes several of
/// them.
const SEPARATE_ROW_TAPS: f64 = 1.1;

/// How much longer a lead along x, or one of phases that lie close together, makes it in TF32 than the model says.
const LEAD_ALONG_X: f64 = 1.05;

/// The same for any other lead in TF32: fewer passes fetch the same input.
const LEAD_OF_ROWS: f64 = 0.99;

/// What a lead has to gain in single precision.
const LEAD_SPLIT: f64 = 1.01;

/// Cycles that the hardware takes for each row of a box, at least.
const BOX_ROW: f64 = 4.0;

/// Words of a row of a box that is short: it takes longer, so that pictures of 4 by 4 are better copied by threads
/// (`benchmarks/2026-11-28-gpu-short-rows.md`).
const SHORT_ROW: f64 = 12.0;

/// Cycles that the hardware takes for a short row, at least.
const SHORT_BOX_ROW: f64 = 12.0;

/// The same in single precision, where the model is better with less.
const SHORT_BOX_ROW_SPLIT: f64 = 8.0;

/// Words of a row that it asks the L2 cache for at a time, in a cycle.
const REQUEST_WORDS: usize = 16;

/// Cycles between batches of products.
const BATCH_LATENCY: f64 = 20.0;

/// Cycles that a team waits for each in which conflicting accesses keep the shared memory busy: those of both teams.
const CONFLICT_LATENCY: f64 = 2.0;

/// Cycles that a run takes a team besides its products.
const RUN_LATENCY: f64 = 150.0;

/// Cycles that a chunk takes a team besides its runs.
const CHUNK_LATENCY: f64 = 350.0;

/// Cycles that the end of a job takes besides its work.
const STORE_LATENCY: f64 = 1000.0;

/// Cycles that partners wait for each other.
const PARTNERS_LATENCY: f64 = 4000.0;

/// Bytes per cycle that a multiprocessor gets from the shared memory of others.
const PARTNER_BYTES: f64 = 14.0;

/// What a team does in one stage, on average over the passes.
struct Work {
    /// Slabs, each of which is multiplied for every row.
    slabs: f64,
    runs: f64,
    /// The most slabs of a run of one block of channels, which a chunk has room for in any case.
    run_slabs: f64,
    /// Batches of products that are made together: of an input row, or of some.
    batches: f64,
    /// Cycles that loading fragments takes the shared memory.
    loads: f64,
}

impl Work {
    /// On average over all passes.
    fn average(layout: &Layout) -> Self {
        Self::of(layout, layout.groups.each_ref().map(|groups| groups.as_slice()))
    }

    /// Of the pass that takes the longest.
    fn longest(layout: &Layout) -> Self {
        let longest = |axis: usize| {
            let groups = layout.groups[axis].iter();
            let longest = groups.max_by_key(|group| slabs_along(layout, axis, group));
            longest.map_or(&[][..], slice::from_ref)
        };
        Self::of(layout, [longest(0), longest(1), longest(2)])
    }

    /// On average over the passes of some groups of each axis.
    fn of(layout: &Layout, groups: [&[Group]; 3]) -> Self {
        let rows_of_tile = layout.cut.rows() as usize;
        let passes = groups.iter().map(|groups| groups.len()).product::<usize>() as f64;
        let mut work = Self { slabs: 1.0, runs: 1.0, run_slabs: 1.0, batches: 1.0, loads: 1.0 };
        for (axis, groups) in groups.iter().enumerate() {
            let (mut slabs, mut runs, mut run_slabs, mut batches, mut loads) = (0, 0, 0, 0, 0);
            for group in *groups {
                let mut is_even = begins_even(layout, group);
                for range in ranges(layout, axis, group) {
                    let rows = if axis != layout.cut.row_axis {
                        1
                    } else if axis < 2 {
                        (rows_of_tile - 1) * rows_apart(layout, &range) + range.len()
                    } else {
                        rows_of_tile
                    };
                    let takes_rows_together =
                        !layout.cut.variant.split && layout.cut.halves == 1 && (axis == 2 || range.len() == 1);
                    let of_range = slabs_of(layout, axis, group, &range);
                    slabs += of_range;
                    runs += 1;
                    run_slabs = run_slabs.max(of_range);
                    batches += if takes_rows_together { rows.div_ceil(3) } else { rows };
                    loads += rows * if axis == 2 { load_cycles(range.len(), layout.has_pairs() && is_even) } else { 1 };
                    is_even ^= range.len() % 2 == 1;
                }
            }
            work.slabs *= slabs as f64;
            work.runs *= runs as f64;
            work.run_slabs *= run_slabs as f64;
            work.batches *= batches as f64;
            work.loads *= loads as f64;
        }
        let most_steps = (f64::from(layout.chunk_slabs()) / work.run_slabs.max(1.0)).max(1.0);
        // Of halves in TF32 the choice is better without (`benchmarks/2026-11-28-gpu-walks.md`).
        let Variant { split, ordinary, .. } = *layout.cut.variant;
        if split || ordinary || layout.cut.halves == 1 {
            work.runs *= share_of_runs(layout, groups, most_steps as usize);
        }
        let stage_blocks = f64::from(layout.cut.stage_blocks);
        let share = stage_blocks / passes;
        let run_blocks = (f64::from(layout.chunk_slabs()) * work.runs / work.slabs.max(1.0)).floor();
        Self {
            slabs: work.slabs * share,
            runs: work.runs / passes * (stage_blocks / run_blocks.clamp(1.0, stage_blocks)).ceil(),
            run_slabs: work.run_slabs,
            batches: work.batches * share,
            loads: work.loads * share,
        }
    }
}

/// Slabs of a group along an axis, for each of those along the others.
pub(super) fn slabs_along(layout: &Layout, axis: usize, group: &Group) -> usize {
    ranges(layout, axis, group).iter().map(|taps| slabs_of(layout, axis, group, taps)).sum()
}

/// Those of some of its taps.
fn slabs_of(layout: &Layout, axis: usize, group: &Group, taps: &Range<usize>) -> usize {
    if axis == 2 { neighbour_slabs(layout, group, taps) } else { taps.len() }
}

/// Input rows between those of neighbouring slots, of which a run loads all if it takes several taps along the axis of
/// rows.
fn rows_apart(layout: &Layout, taps: &Range<usize>) -> usize {
    if taps.len() > 1 { layout.cut.joined_rows as usize } else { 1 }
}

/// Cycles that the four warps of a team take to load the fragments of neighbouring taps.
fn load_cycles(neighbours: usize, aligned: bool) -> usize {
    match (neighbours, aligned) {
        (1, true) => 16,
        (_, true) => 32,
        (neighbours, false) => 16 * neighbours.max(2),
    }
}

/// Bytes that move for rows of some words when memory moves whole sectors of 32 bytes, at an average alignment: rows
/// begin at multiples of so many words.
fn row_bytes(words: f64, alignment: u32) -> f64 {
    4.0 * words + 32.0 - 4.0 * f64::from(alignment)
}

/// Cycles that the hardware takes for a row of so many words of a box, at least.
fn box_row(words: f64, split: bool) -> f64 {
    match (words <= SHORT_ROW, split) {
        (false, _) => BOX_ROW,
        (true, false) => SHORT_BOX_ROW,
        (true, true) => SHORT_BOX_ROW_SPLIT,
    }
}

/// Requests for a row of so many words of a box. Those of rows that begin anywhere are cut at both ends.
fn requests(layout: &Layout, words: f64) -> f64 {
    let are_aligned = layout.input.extents[2].is_multiple_of(REQUEST_WORDS);
    words / REQUEST_WORDS as f64 + if are_aligned { 1.0 } else { 3.0 }
}

/// What it costs in bytes that what is written side by side does not begin and end with sectors of the memory. A sector
/// that is written in part is read before, if its other part does not come soon. Where a row ends, its biases may make
/// it whole.
fn edge_bytes(problem: &Problem<3>, layout: &Layout) -> f64 {
    let width = problem.axes()[2].output as u32;
    let extents = [width, layout.neighbouring_outputs(), layout.region.lead[2]];
    if extents.iter().all(|extent| extent.is_multiple_of(8)) {
        return 0.0;
    }
    let ends_of_rows = f64::from(layout.words_at_once().min(width)) / f64::from(width);
    let in_pieces = 1.0 - ends_of_rows * layout.share_of_margins();
    let beside = if layout.writes_bare_rows { EDGES_BESIDE } else { 1.0 };
    EDGE_BYTES * beside * in_pieces * (0.5 + 0.5 / f64::from(layout.rows_in_succession()))
}

/// What a team does at the end of a job.
struct Store {
    /// Of each warp.
    instructions: f64,
    /// Cycles besides.
    latency: f64,
    /// Cycles that the shared memory takes, and the way from it to the L2 cache.
    shared: f64,
    /// Bytes on their way to the L2 cache.
    bytes: f64,
}

impl Store {
    fn new(layout: &Layout, boxed: bool) -> Self {
        let outputs = f64::from(layout.places * layout.line_distance() * layout.stored_channels());
        let blocks = f64::from(layout.used_blocks());
        let matrices = blocks * f64::from(layout.cut.variant.slots);
        if boxed {
            return Self {
                instructions: matrices * 7.0 + 150.0,
                latency: STORE_LATENCY / 2.0,
                shared: outputs * 8.0 / 128.0,
                bytes: outputs * 4.0,
            };
        }
        if layout.is_direct() {
            // A lane's words of eight lanes lie together.
            let words = if layout.held() == Tiling::PAIRS { 2 } else { 4 };
            let neighbours = f64::from(8 * words);
            // In single precision the choice is better without (`benchmarks/2026-11-27-gpu-in-turn-sooner.md`).
            let alignment = if layout.cut.variant.split { 1 } else { layout.row_alignment() };
            return Self {
                instructions: (blocks * 50.0 + matrices * 12.0) * 2.0 / f64::from(words),
                latency: STORE_LATENCY / 2.0,
                shared: outputs * 8.0 / 128.0,
                bytes: outputs / neighbours * row_bytes(neighbours, alignment),
            };
        }
        let neighbours = f64::from(layout.neighbouring_outputs());
        let at_once = if layout.held() == Tiling::ONE_PHASE { 12.0 } else { 8.0 };
        Self {
            instructions: blocks * 20.0 + matrices * at_once + layout.line_instructions(),
            latency: f64::from(layout.slices()) * 200.0 + STORE_LATENCY,
            shared: outputs * 12.0 / 128.0,
            bytes: outputs / neighbours * row_bytes(neighbours, 1),
        }
    }
}

/// What it takes to measure the input of a stage, if that is done.
struct Measured {
    /// Instructions of each warp that does so.
    instructions: f64,
    /// Cycles until the result is known, besides.
    latency: f64,
    /// Bytes that are loaded from shared memory.
    bytes: f64,
}

impl Measured {
    fn new(layout: &Layout) -> Self {
        if !layout.cut.variant.teams_convert {
            return Self { instructions: 0.0, latency: 0.0, bytes: 0.0 };
        }
        let words = f64::from(layout.copies() * layout.copy_words * layout.cut.stage_words());
        Self {
            instructions: words / 4.0 / MEASURING_THREADS * MEASURE_INSTRUCTIONS + STAGE_INSTRUCTIONS,
            latency: MEASURE_LATENCY,
            bytes: words * 4.0,
        }
    }
}

/// What the products of a stage take a team.
pub(super) struct Products {
    /// Cycles that the cores of a multiprocessor are busy: tensor cores, or ordinary ones.
    pub(super) cores: f64,
    /// Cycles that shared memory is.
    pub(super) reads: f64,
    /// Instructions of each warp.
    pub(super) instructions: f64,
    /// Cycles that the team waits besides.
    pub(super) latency: f64,
}

/// Those on tensor cores, if conflicts prolong loads that much.
fn products(layout: &Layout, work: &Work, conflicts: f64) -> Products {
    let variant = layout.cut.variant;
    let columns = f64::from(variant.columns);
    let factors = if variant.split { 3.0 } else { 1.0 };
    let products = work.slabs * f64::from(layout.cut.rows()) * factors;
    let batches = if variant.split { work.batches * 1.5 } else { work.batches };
    // Twice as many words are loaded for a product if teams convert them, or they have two parts.
    let loads = work.loads * f64::from(layout.cut.fragment_words() / 8);
    let instructions = match (variant.split, variant.teams_convert) {
        (true, true) => 110.0,
        (false, false) => 40.0,
        _ => 60.0,
    };
    Products {
        cores: products * (columns / 2.0 + 1.0).max(LEAST_PRODUCT),
        reads: loads * conflicts + products * columns / 4.0,
        instructions: work.batches * instructions + products * 3.5,
        latency: batches * BATCH_LATENCY + loads * (conflicts - 1.0) * CONFLICT_LATENCY,
    }
}

/// Cycles that partners take to add up their products.
fn add_up(layout: &Layout) -> f64 {
    let partners = f64::from(layout.cut.partners);
    let bytes = f64::from(layout.products_bytes());
    if layout.cut.partners > 1 { PARTNERS_LATENCY + bytes * (partners - 1.0) / partners / PARTNER_BYTES } else { 0.0 }
}

/// Cycles that a layout is estimated to take, if conflicts prolong loads that much; `None` if it does not fit.
pub(super) fn cost(task: &Task, layout: &Layout, conflicts: f64) -> Option<f64> {
    let problem = &task.problem;
    let jobs = layout.jobs(problem.groups());
    // Partners have one job, and a product.
    let partners = layout.cut.partners;
    let can_be_partners = jobs <= task.target.most_jobs_of(partners).into() && layout.all_passes_have_taps();
    if jobs >= 1 << 31 || partners > 1 && !can_be_partners {
        return None;
    }
    let rounds = jobs as f64 / f64::from(task.target.multiprocessors);
    let is_first = layout.region.first == [0; 3];
    let has_few_rounds = rounds > 1.0 && rounds <= MOST_ROUNDS_APART as f64;
    let busy = if has_few_rounds && is_first && layout.may_have_passes_apart() {
        busiest(&passes(task, layout, conflicts)?, rounds)
    } else {
        // Where each block has one job, the longest one decides; otherwise all have as much to do as each other.
        let is_one_round = rounds <= 1.0 && layout.region.is_whole();
        let work = if is_one_round { Work::longest(layout) } else { Work::average(layout) };
        // Regions behind the first one also run on the multiprocessors that have nothing to do in the last round of
        // another.
        let rounds = if is_first { rounds.ceil() } else { (rounds + rounds.ceil()) / 2.0 };
        rounds * job(task, layout, &work, conflicts)?
    };
    let busy = busy + LATENCY;
    let row = 4.0 * f64::from(layout.words_at_once());
    let output = problem.output_shape().len() as f64 * 4.0 * (row + edge_bytes(problem, layout)) / row;
    let input = layout.input.len() as f64 * 4.0;
    let memory_bytes =
        if layout.cut.variant.ordinary { ordinary::memory_bytes(task.target.multiprocessors) } else { MEMORY_BYTES };
    let moved = (input + output) * layout.share() / memory_bytes;
    // What is beyond the first region finds the input packed.
    let packed = match layout.cut.variant {
        variant if !(variant.reads_packed() && is_first) => 1.0,
        variant if variant.split => PACKED_SPLIT,
        _ => PACKED,
    };
    let beside = if layout.writes_bare_rows { BARE_ROWS } else { 1.0 };
    let computed = (busy.max(moved) + OVERLAP_LOSS * busy.min(moved)) * packed * beside;
    let filled = if layout.fills_first() && !layout.writes_bare_rows && is_first { of_filling(task) } else { 0.0 };
    Some(computed + pack(problem, layout) * layout.share() + filled)
}

/// Cycles that packing the input takes, if it is packed.
pub(super) fn pack(problem: &Problem<3>, layout: &Layout) -> f64 {
    let bytes = 4.0 * (problem.input_shape().len() + layout.input.len()) as f64;
    if layout.cut.variant.reads_packed() { PACK_LATENCY + bytes / PACK_BYTES } else { 0.0 }
}

/// Cycles of a job of each pass, in their order, if conflicts prolong loads that much; `None` if one does not fit.
pub(super) fn passes(task: &Task, layout: &Layout, conflicts: f64) -> Option<Vec<f64>> {
    let cycles = |pass: usize| job(task, layout, &Work::of(layout, layout.pass(pass).map(slice::from_ref)), conflicts);
    layout.pass_order().into_iter().map(cycles).collect()
}

/// Cycles of the busiest multiprocessor, at least, where each has so many rounds of jobs on average, as many of each
/// pass, and the long ones come first: the average of all; and since of the longest jobs, `n` for each multiprocessor
/// and one more, somebody has `n + 1`, that many times the shortest of these.
fn busiest(passes: &[f64], rounds: f64) -> f64 {
    let average = passes.iter().sum::<f64>() / passes.len() as f64 * rounds;
    let mut longest_first = passes.to_vec();
    longest_first.sort_by(|a, b| b.total_cmp(a));
    let least = |round: usize| {
        let shortest = longest_first[(round as f64 / rounds * passes.len() as f64) as usize];
        (round + 1) as f64 * shortest
    };
    (0..rounds.ceil() as usize).map(least).fold(average, f64::max)
}

/// Slabs of a chunk of a stage with that much work. That it has all of a run in any case is of use in single precision
/// only: in TF32 the choice is better without (`benchmarks/2026-11-28-gpu-walks.md`).
fn chunk_slabs(layout: &Layout, work: &Work) -> f64 {
    let of_run = if layout.cut.variant.split { work.run_slabs } else { 1.0 };
    f64::from(layout.chunk_slabs()).max(of_run).min(work.slabs).max(1.0)
}

/// Chunks of weights of a stage with that much work.
fn chunks(layout: &Layout, work: &Work) -> f64 {
    (work.slabs / chunk_slabs(layout, work)).ceil()
}

/// What a stage with that much work takes a team: instructions of each warp, and cycles if nothing else is in its way.
fn stage(layout: &Layout, work: &Work, products: &Products) -> [f64; 2] {
    let chunks = chunks(layout, work);
    let instructions = products.instructions + work.runs * 60.0 + chunks * 60.0;
    let computing = products.cores.max(instructions * SERIAL_ISSUE) + products.latency;
    [instructions, computing + work.runs * RUN_LATENCY + chunks * CHUNK_LATENCY]
}

/// Whether teams had better store one after the other, if blocks have several jobs and the output is not stored in
/// boxes: where what lanes hold goes out at once. Otherwise teams are seldom in each other's way, or wait longer than
/// they are, as those do that stage what they store.
/// (`benchmarks/2026-11-26-gpu-in-turn.md`, `2026-11-30-gpu-lean-stores.md`)
pub(super) fn stores_in_turn(layout: &Layout) -> bool {
    let Cut { variant, partners, .. } = layout.cut;
    !variant.ordinary && partners == 1 && layout.is_direct()
}

/// Cycles of a job with that much work in a stage; `None` if it does not fit.
fn job(task: &Task, layout: &Layout, work: &Work, conflicts: f64) -> Option<f64> {
    let teams = f64::from(tile::TEAMS);

    let Cut { variant, extents, .. } = layout.cut;
    let chunks = chunks(layout, work);
    let shared = layout.shared(chunk_slabs(layout, work) as u32, chunks as u32, task.target.shared_bytes)?;

    // Of a team, per stage of a job.
    let products =
        if variant.ordinary { ordinary::products(layout, work.slabs) } else { products(layout, work, conflicts) };
    let [instructions, serial] = stage(layout, work, &products);
    let Products { cores, reads, .. } = products;

    // Of the producers.
    let fetch_latency = if layout.writes_bare_rows && variant.split { FETCH_LATENCY_BESIDE } else { FETCH_LATENCY };
    let channels = f64::from(layout.cut.stage_words());
    // What lies outside of the input is not fetched.
    let fetched = |axis: usize| f64::from(layout.halo[axis]).min(layout.input.extents[axis] as f64);
    let (rows, row) = if layout.merged_axes > 0 {
        (1.0, fetched(0) * fetched(1) * fetched(2))
    } else {
        (f64::from(extents[0]) * fetched(0) * fetched(1), fetched(2))
    };
    let copies = f64::from(layout.copies());
    let weight_bytes = work.slabs * f64::from(layout.slab_bytes());
    // Elements that are copied one by one, or four at a time, are written sector by sector.
    let writes_sectors = !layout.in_boxes && !variant.ordinary;
    let input_bytes = 4.0 * channels * f64::from(layout.channel_words);
    let measured = Measured::new(layout);
    let staged_bytes = input_bytes * if writes_sectors { 4.0 } else { 1.0 } + measured.bytes + weight_bytes;
    let fetched_bytes = rows * channels * row_bytes(row, layout.copy_words) + weight_bytes;
    let copy_instructions = match (layout.copy_words, variant.split) {
        (4, _) => 12.0,
        (_, false) => 14.0,
        // Teams that multiply three times as much leave more room for others' instructions.
        (_, true) => 10.0,
    };
    // Of each thread that fetches, and what they or the hardware take.
    let instructions_of_fetch =
        if layout.in_boxes { 0.0 } else { channels / 3.0 * (copies / 32.0).ceil() * copy_instructions };
    let fetch = if layout.in_boxes {
        rows * channels * box_row(row, variant.split).max(requests(layout, row))
    } else {
        instructions_of_fetch * FETCH_ISSUE
    };
    let fetch = if variant.ordinary {
        fetch.max(ordinary::fetch(layout)).max(ordinary::fetch_weights(weight_bytes))
    } else {
        fetch
    };
    // Threads that copy also measure; boxes are copied meanwhile.
    let measure = measured.instructions * MEASURE_ISSUE + measured.latency;
    let arrival = fetch_latency + fetch.max(fetched_bytes / L2_BYTES);
    let fetch = if layout.in_boxes { fetch.max(measure) } else { fetch + measure };
    // A slot of a ring is filled, then emptied by both teams, then filled again. Weights are left when products of the
    // next run are under way.
    let emptied = serial.max(cores * teams).max(instructions * teams);
    let held = emptied / chunks.max(1.0) + emptied / work.runs.max(1.0);
    let weight_round = fetch_latency + weight_bytes / chunks.max(1.0) / L2_BYTES + held;

    // Of the end of a job, for a team.
    let store = Store::new(layout, shared.boxed);

    // A team works on one stage after the other, and both teams share what a multiprocessor has.
    let stages = if work.slabs > 0.0 { f64::from(layout.stages) } else { 0.0 };
    let resources = [
        stages * serial + store.instructions * SERIAL_ISSUE + store.latency,
        stages * fetch,
        stages * (arrival + measure + emptied) / f64::from(shared.input_ring),
        stages * chunks * weight_round / f64::from(shared.weight_ring),
        stages * cores * teams,
        stages * (reads * teams + staged_bytes / 128.0) + teams * store.shared,
        (stages * instructions + store.instructions) * teams
            + stages * (instructions_of_fetch + measured.instructions) * 0.75,
        (stages * fetched_bytes + teams * store.bytes) / L2_BYTES,
    ];
    // Of the slots of the ring, about half are for stages that are on their way to be measured.
    let on_their_way = f64::from((shared.input_ring - 1) / 2 + 1);
    let measure_round = if variant.teams_convert { (arrival + measure) / on_their_way } else { 0.0 };
    let busiest = resources.iter().copied().fold(stages * measure_round, f64::max);
    let busy = busiest + 0.1 * resources.iter().sum::<f64>() + add_up(layout);
    let lacks_boxes = layout.cut.large_tiles && !layout.in_boxes;
    let without_boxes = if variant.split { WITHOUT_BOXES_SPLIT } else { WITHOUT_BOXES };
    let joined = if layout.cut.joined_rows > 1 && !variant.split { JOINED_ROWS } else { 1.0 };
    let separate = if has_separate_row_taps(layout) && !variant.split { SEPARATE_ROW_TAPS } else { 1.0 };
    let converted = match (variant.teams_convert, variant.split) {
        (false, _) => 1.0,
        (true, false) => CONVERTED_BY_TEAMS,
        (true, true) if layout.cut.partners > 1 => SPLIT_BY_TEAMS * SPLIT_BY_PARTNERS,
        (true, true) if layout.cut.close => SPLIT_BY_TEAMS * SPLIT_CLOSE,
        (true, true) => SPLIT_BY_TEAMS,
    };
    Some(busy * joined * separate * converted * lead(layout) * if lacks_boxes { without_boxes } else { 1.0 })
}

/// Cycles from a launch to the first instruction and from the last one to the end: the same for all ways to divide a
/// problem, but not for other algorithms.
pub(super) const LAUNCH: f64 = 3500.0;

/// Cycles that it takes to fill the output with the biases before.
fn of_filling(task: &Task) -> f64 {
    const ANOTHER_LAUNCH: f64 = 1800.0;
    const BYTES: f64 = 13.0;
    let bytes = 4.0 * task.problem.output_shape().len() as f64;
    ANOTHER_LAUNCH + bytes / BYTES / f64::from(task.target.multiprocessors)
}

/// Whether several taps of some phases lie apart along an axis whose rows could serve several slots, but do not.
fn has_separate_row_taps(layout: &Layout) -> bool {
    let lie_apart = |group: &Group| group.taps > 1 && group.step > 1;
    (0..2).any(|axis| layout.groups[axis].iter().any(lie_apart)) && !layout.cut.has_rows_apart()
}

/// How much longer a lead makes it than the rest of the model says.
fn lead(layout: &Layout) -> f64 {
    match layout.region.lead {
        [0, 0, 0] => 1.0,
        _ if layout.cut.variant.split => LEAD_SPLIT,
        [_, _, 0] if !layout.cut.close => LEAD_OF_ROWS,
        _ => LEAD_ALONG_X,
    }
}

#[cfg(test)]
mod tests {
    use super::busiest;

    #[test]
    fn the_busiest_block_has_no_less_than_its_share_of_long_jobs() {
        assert_eq!(busiest(&[1.0, 1.0], 1.5), 2.0, "two jobs");
        assert_eq!(busiest(&[1.0, 4.0, 2.0, 2.0], 1.5), 4.0, "a long one, or two of the next ones");
        assert_eq!(busiest(&[3.0, 1.0], 2.0), 4.0, "one of each: the average");
    }
}
