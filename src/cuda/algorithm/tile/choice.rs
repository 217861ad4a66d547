//! The choice of a cut: a model of what a tile costs, and the cheapest of the cuts that are possible.
//!
//! The model counts, for all blocks together, the cycles of a multiprocessor that each of its resources is busy: tensor cores, shared
//! memory, issue of instructions, and the way from the L2 cache. The busiest one decides, next to the memory of the device, which
//! has to deliver and take every element once. Constants are those of an H200; only the order of the costs matters.

use std::{collections::BTreeSet, sync::Arc};

use conv_transpose_kernels::tile::{self, Variant};

use super::{
    Target, Task,
    layout::{Cut, Layout},
    tables::{Tables, input_ring, tap_groups},
};
use crate::{
    Axis, Phase, Precision, Problem,
    cuda::{error::Unsupported, parameters::reach},
};

/// The most table entries: products of a stage, of all passes.
const MOST_PRODUCTS: u128 = 1 << 19;

/// Cycles of a warp group's product of 64 rows by eight channels with few columns.
const LEAST_PRODUCT: f64 = 13.0;

/// Bytes per cycle that a multiprocessor gets from the L2 cache.
const L2_BYTES: f64 = 32.0;

/// Bytes per cycle that the memory of the device delivers to all multiprocessors.
const MEMORY_BYTES: f64 = 2500.0;

/// Cycles from the start of the kernel to the first product, and from the last one to the end.
const LATENCY: f64 = 6000.0;

/// Cycles from one instruction of a warp to the next.
const SERIAL_ISSUE: f64 = 2.5;

/// Cycles that a chunk takes a team besides its work: waiting at the barrier, and for the first fragment.
const CHUNK_LATENCY: f64 = 200.0;

/// Cycles that the end of a job takes besides its work.
const STORE_LATENCY: f64 = 1500.0;

/// The cheapest layout for a task with its tables, or why there is none.
pub(super) fn cut(task: &Task) -> Result<(Layout, Tables), Unsupported> {
    cuts_that_fit(task)?.next().ok_or(Unsupported::NoTile)
}

/// The layouts that fit, with their tables, the cheapest first.
pub(super) fn cuts_that_fit(task: &Task) -> Result<impl Iterator<Item = (Layout, Tables)>, Unsupported> {
    let layouts = candidates(task)?.into_iter();
    Ok(layouts.filter_map(|layout| fitting(task, &layout).map(|tables| (layout, tables))))
}

/// The kernels that a device has for a precision.
pub(super) fn variants(precision: Precision, target: &Target) -> impl Iterator<Item = &'static Variant> {
    let split = precision == Precision::F32;
    tile::VARIANTS.iter().filter(move |variant| variant.split == split && (target.large_tiles || !variant.large))
}

/// The layouts worth a thought, the cheapest first.
fn candidates(task: &Task) -> Result<Vec<Layout>, Unsupported> {
    let problem = &task.problem;
    check(problem)?;
    let phases = Arc::new(problem.axes().map(|axis| axis.phases()));
    let layouts = cuts(task, &phases).into_iter().filter_map(|cut| Layout::new(problem, &phases, cut));
    let mut candidates: Vec<(f64, Layout)> =
        layouts.filter_map(|layout| Some((cost(task, &layout)?, layout))).collect();
    candidates.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(candidates.into_iter().map(|(_, layout)| layout).collect())
}

/// The tables of a layout that fits the device. The model estimates its shared memory; only the tables know it.
fn fitting(task: &Task, layout: &Layout) -> Option<Tables> {
    let tables = Tables::new(&task.problem, layout);
    let words = u128::from(tables.packed_slabs(&task.problem, layout)) * u128::from(layout.slab_bytes() / 4);
    (tables.shared.total <= task.target.shared_bytes && words < 1 << 31).then_some(tables)
}

/// What no cut can do.
fn check(problem: &Problem<3>) -> Result<(), Unsupported> {
    const COUNTED: u128 = 1 << 31;
    let volume = |extent: fn(&Axis) -> usize| problem.axes().iter().map(|axis| extent(axis) as u128).product::<u128>();
    let products =
        problem.axes().iter().map(|axis| axis.kernel as u128 + axis.stride.min(axis.output) as u128).product();
    let counts = [
        ("the number of elements of an input channel", volume(|axis| axis.input), COUNTED),
        ("the number of elements of an output channel", volume(|axis| axis.output), COUNTED),
        ("the number of samples", problem.batch() as u128, COUNTED),
        ("the number of output channels per group", problem.out_channels_per_group() as u128, COUNTED),
        ("a coordinate", problem.axes().iter().map(reach).max().unwrap_or(0), COUNTED),
        ("the number of taps and phases", products, MOST_PRODUCTS / 8),
    ];
    for (what, value, limit) in counts {
        if value >= limit {
            return Err(Unsupported::TooLarge { what, value, limit });
        }
    }
    Ok(())
}

/// All cuts worth a thought.
fn cuts(task: &Task, phases: &[Vec<Phase>; 3]) -> Vec<Cut> {
    let problem = &task.problem;
    let positions = phases.each_ref().map(|phases| phases[0].positions);
    let blocks = problem.in_channels_per_group().div_ceil(8);
    let mut cuts = Vec::new();
    for variant in variants(task.precision, &task.target) {
        let boxes = boxes(problem, positions, tile::ROWS);
        for (phase_slots, row_axis) in slot_uses(variant, phases, positions) {
            for &extents in &boxes {
                let stage_blocks =
                    [1, 2, 4].into_iter().filter(|&stage_blocks| stage_blocks == 1 || stage_blocks <= blocks);
                cuts.extend(stage_blocks.map(|stage_blocks| Cut {
                    variant,
                    phases: phase_slots,
                    row_axis,
                    extents,
                    stage_blocks: stage_blocks as u32,
                }));
            }
        }
    }
    cuts
}

/// What the slots of a kernel can be used for: how many are phases of each axis, and along which axis the others lie.
fn slot_uses(variant: &Variant, phases: &[Vec<Phase>; 3], positions: [usize; 3]) -> Vec<([u32; 3], usize)> {
    let choices = |axis: usize, most: u32| BTreeSet::from([1, (phases[axis].len() as u32).min(most)]);
    let mut uses = BTreeSet::new();
    for x in choices(2, variant.slots) {
        for y in choices(1, variant.slots / x) {
            for z in choices(0, variant.slots / x / y) {
                let rows = variant.slots / (x * y * z);
                let axes = (0..3).filter(|&axis| axis == 2 || rows > 1 && positions[axis] > 1);
                uses.extend(axes.map(|axis| ([z, y, x], axis)));
            }
        }
    }
    uses.into_iter().collect()
}

/// Boxes of positions that fill the rows of the product well: samples, z, y, x.
fn boxes(problem: &Problem<3>, positions: [usize; 3], rows: u32) -> Vec<[u32; 4]> {
    let [z_extents, y_extents, x_extents] = positions.map(|positions| extents(positions, rows));
    let mut boxes = Vec::new();
    for &x in &x_extents {
        for &y in y_extents.iter().filter(|&&y| x * y <= rows) {
            for &z in z_extents.iter().filter(|&&z| x * y * z <= rows) {
                let samples = (rows / (x * y * z)).min(problem.batch().max(1).min(rows as usize) as u32);
                let samples = if fits_32_bits(problem, samples) { samples } else { 1 };
                boxes.push([samples, z, y, x]);
            }
        }
    }
    let fullest = boxes.iter().map(|extents| extents.iter().product::<u32>()).max().unwrap_or(0);
    boxes.retain(|extents| extents.iter().product::<u32>() * 4 >= fullest * 3);
    boxes
}

/// Extents of a box along an axis: powers of two, and even divisions of all positions.
fn extents(positions: usize, rows: u32) -> Vec<u32> {
    let powers = (0..=8).map(|power| 1 << power).filter(|&extent| extent <= positions.min(rows as usize));
    let divisions = (1..=4).map(|parts| positions.div_ceil(parts)).filter(|&extent| extent <= rows as usize);
    let extents: BTreeSet<usize> = powers.chain(divisions).collect();
    extents.into_iter().map(|extent| extent as u32).collect()
}

/// Whether offsets within that many samples fit in 32 bits.
fn fits_32_bits(problem: &Problem<3>, samples: u32) -> bool {
    let sample: u128 = problem.axes().iter().map(|axis| axis.input as u128).product();
    samples == 1 || sample * problem.in_channels() as u128 * u128::from(samples) < 1 << 32
}

/// Fragments and products of one stage, of all passes.
struct Work {
    fragments: f64,
    products: f64,
    slabs: f64,
}

impl Work {
    fn new(problem: &Problem<3>, layout: &Layout) -> Self {
        let axes = problem.axes();
        let cut = &layout.cut;
        let mut work =
            Self { fragments: f64::from(cut.stage_blocks), products: f64::from(cut.stage_blocks), slabs: 0.0 };
        for (axis, parameters) in axes.iter().enumerate() {
            let together = cut.phases[axis] as usize;
            let rows = if axis == cut.row_axis { cut.rows() } else { 1 };
            let distance = if axis == 2 { cut.extents[3] } else { 1 };
            let taps: usize = layout.phases[axis].iter().map(|phase| phase.taps).sum();
            work.products *= taps as f64 * f64::from(rows);
            let groups = layout.phases[axis].chunks(together);
            let fragments = |phases: &[Phase]| {
                if cut.is_dense() && axis == cut.row_axis {
                    let groups = tap_groups(phases[0].taps, axis < 2 && parameters.input_step() == 1);
                    groups.iter().map(|group| rows as usize + group.len() - 1).sum()
                } else {
                    distinct_reads(parameters, phases, rows, distance)
                }
            };
            work.fragments *= groups.map(|phases| fragments(phases) as f64).sum::<f64>();
        }
        work.slabs = work.products / f64::from(cut.rows());
        work
    }
}

/// How many fragments the slots of some phases need along an axis.
fn distinct_reads(axis: &Axis, phases: &[Phase], rows: u32, distance: u32) -> usize {
    let mut reads = BTreeSet::new();
    for row in 0..rows {
        for phase in phases {
            let first = phase.first_input as i64 + i64::from(row * distance);
            reads.extend((0..phase.taps).map(|tap| first - (tap * axis.input_step()) as i64));
        }
    }
    reads.len()
}

/// How often, on average, the lanes of a warp that load a fragment have to take turns because they want the same bank.
fn bank_conflicts(layout: &Layout) -> f64 {
    let [_, box_z, box_y, box_x] = layout.cut.extents;
    if box_x.is_multiple_of(8) {
        return 1.0;
    }
    let rows = tile::ROWS;
    let positions = layout.cut.extents.iter().product::<u32>();
    let word = |row: u32| {
        let row = if row < positions { row } else { 0 };
        let (x, y, z, n) = (row % box_x, row / box_x % box_y, row / box_x / box_y % box_z, row / box_x / box_y / box_z);
        let slice = n * layout.halo[0] + z * layout.cut.step(0);
        (slice * layout.halo[1] + y * layout.cut.step(1)) * layout.pitch + x
    };
    let turns = (0..rows / 8).map(|eight| {
        let mut words: [BTreeSet<u32>; 32] = Default::default();
        for lane in 0..32 {
            let word = word(eight * 8 + lane / 4) + lane % 4 * layout.channel_words;
            words[word as usize % 32].insert(word);
        }
        words.iter().map(BTreeSet::len).max().unwrap_or(1) as f64
    });
    turns.sum::<f64>() / f64::from(rows / 8)
}

/// Bytes that move for rows of some words when memory moves whole sectors of 32 bytes, at an average alignment.
fn row_bytes(words: f64) -> f64 {
    4.0 * words + 28.0
}

/// Cycles that a layout is estimated to take; `None` if it does not fit.
fn cost(task: &Task, layout: &Layout) -> Option<f64> {
    let problem = &task.problem;
    let Cut { variant, stage_blocks, phases, extents, .. } = layout.cut;
    let jobs = layout.jobs(problem.groups());
    let work = Work::new(problem, layout);
    let passes = layout.passes() as f64;
    let slabs = (work.slabs / passes).max(1.0);
    let chunk_slabs = f64::from(layout.chunk_slabs()).min(slabs);
    let chunks = (slabs / chunk_slabs).ceil();
    let shared = layout.shared(input_ring(chunks as u32), chunk_slabs as u32);
    if shared.total > task.target.shared_bytes || jobs >= 1 << 31 {
        return None;
    }

    let warp_groups = f64::from(tile::ROWS / 64);
    let columns = f64::from(variant.channels);
    let slots = f64::from(variant.slots);

    // Of a warp group, per stage of a job, on average over the passes.
    let (factors, loads) = if variant.split { (3.0, 10.0) } else { (1.0, 2.0) };
    let fragments = work.fragments / passes;
    let products = work.products / passes * factors;
    let tensor = products * (columns / 2.0).max(LEAST_PRODUCT);
    let reads = fragments * 16.0 * bank_conflicts(layout) + products * columns / 4.0;
    let instructions = if layout.cut.is_dense() {
        fragments * (14.0 + loads) + products * 3.0
    } else {
        fragments * (24.0 + 8.0 * slots + loads) + products * 2.0
    };
    let serial = tensor.max(instructions * SERIAL_ISSUE) + chunks * CHUNK_LATENCY;

    // Of the producers.
    let channels = f64::from(8 * stage_blocks);
    let rows = f64::from(extents[0] * layout.halo[0] * layout.halo[1]);
    let copies = f64::from(layout.copies());
    let weight_bytes = work.slabs / passes * f64::from(layout.slab_bytes());
    let staged_bytes = copies * f64::from(4 * layout.copy_words) * channels + weight_bytes;
    let fetched_bytes = rows * channels * row_bytes(f64::from(layout.halo[2])) + weight_bytes;
    let copy_instructions = f64::from(if layout.copy_words == 4 { 12 } else { 14 });
    let fetch = channels / 4.0 * (copies / 32.0).ceil() * copy_instructions + weight_bytes / 2048.0 * 10.0;

    // Of the end of a job.
    let outputs = slots * f64::from(tile::ROWS) * columns;
    let neighbours = if phases[2] as usize >= layout.phases[2].len() { f64::from(extents[3] * phases[2]) } else { 1.0 };
    let stored_bytes = outputs / neighbours * row_bytes(neighbours);
    let store_instructions = slots * columns / 2.0 * 8.0;
    let store = store_instructions * SERIAL_ISSUE + STORE_LATENCY;

    // A team works on one stage after the other, and both teams share what a multiprocessor has.
    let stages = if work.products > 0.0 { f64::from(layout.stages) } else { 0.0 };
    let resources = [
        stages * serial + store,
        stages * fetch * SERIAL_ISSUE,
        stages * tensor * warp_groups,
        stages * (reads * warp_groups + staged_bytes / 128.0) + outputs * 8.0 / 128.0,
        (stages * instructions + store_instructions) * warp_groups + stages * fetch,
        (stages * fetched_bytes + stored_bytes) / L2_BYTES,
    ];
    let job = resources.iter().copied().fold(0.0, f64::max) + 0.1 * resources.iter().sum::<f64>();
    let rounds = (jobs as f64 / f64::from(task.target.multiprocessors)).ceil();
    let busy = rounds * job + LATENCY;
    let waste = stored_bytes / (outputs * 4.0);
    // A sector that is written in part is read before, if its other part does not come soon.
    let output = problem.output_shape().len() as f64 * 4.0 * (1.0 + 2.0 * (waste - 1.0));
    let input = problem.input_shape().len() as f64 * 4.0;
    let moved = (input + output) / MEMORY_BYTES;
    Some(busy.max(moved) + 0.1 * busy + 0.1 * moved)
}
