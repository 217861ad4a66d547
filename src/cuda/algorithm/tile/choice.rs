//! The choice of a cut: a model of what a tile costs, and the cheapest of the cuts that are possible.
//!
//! The model counts, for all blocks together, the cycles of a multiprocessor that each of its resources is busy: tensor cores, shared
//! memory, issue of instructions, and the way from the L2 cache. The busiest one decides, next to the memory of the device, which
//! has to deliver and take every element once. Constants are those of an H200; only the order of the costs matters. What is different on ordinary
//! cores is in `ordinary.rs`.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use conv_transpose_kernels::tile::{self, Tiling, Variant};
use rayon::prelude::*;

use super::{
    Target, Task, fill,
    groups::{Group, groups},
    halves::neighbour_slabs,
    layout::{AxisGroups, Cut, Layout},
    ordinary,
    regions::Region,
    tables::{Tables, begins_even, ranges},
};
use crate::{
    Axis, Phase, Precision, Problem,
    cuda::{error::Unsupported, parameters::reach},
};

/// The most table entries: products of a stage, of all passes.
const MOST_PRODUCTS: u128 = 1 << 19;

/// Of how many layouts the conflicts over banks of shared memory are counted, which takes a while.
const MOST_PROMISING: usize = 400;

/// Cycles of a warp group's product of 64 rows by eight channels with few columns.
const LEAST_PRODUCT: f64 = 14.3;

/// Bytes per cycle that a multiprocessor gets from the L2 cache.
const L2_BYTES: f64 = 32.0;

/// Bytes per cycle that the memory of the device delivers to all multiprocessors.
const MEMORY_BYTES: f64 = 2500.0;

/// Bytes that the edges of a row of a tile cost.
const EDGE_BYTES: f64 = 220.0;

/// How much of the shorter one of computing and moving does not overlap with the other.
const OVERLAP_LOSS: f64 = 0.3;

/// Cycles from the start of the kernel to the first product, and from the last one to the end.
const LATENCY: f64 = 6000.0;

/// Cycles from the request of an input or a weight to its arrival.
const FETCH_LATENCY: f64 = 1000.0;

/// Cycles from one instruction of a warp to the next.
const SERIAL_ISSUE: f64 = 2.0;

/// Cycles from one instruction of a warp that fetches to the next.
const FETCH_ISSUE: f64 = 5.0;

/// How much longer all else takes in TF32 where threads copy the input, which could be copied in boxes.
const WITHOUT_BOXES: f64 = 1.1;

/// The same in single precision, with three times the products.
const WITHOUT_BOXES_SPLIT: f64 = 1.02;

/// How much longer joined rows take in TF32 than the model says: an input row of a run is multiplied for two slots, not for three.
const JOINED_ROWS: f64 = 1.1;

/// Cycles that the hardware takes for each row of a box.
const BOX_ROW: f64 = 4.0;

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

/// A layout that fits the device.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) layout: Layout,
    pub(super) tables: Tables,
    /// What it is estimated to take.
    pub(super) cycles: f64,
}

/// The cheapest layout for a region of a task, or for all of it, or why there is none.
pub(super) fn cheapest(task: &Task, region: Option<Region>) -> Result<Part, Unsupported> {
    cuts_that_fit(task, region)?.next().ok_or(Unsupported::NoTile)
}

/// The layouts that fit, the cheapest first.
pub(super) fn cuts_that_fit(task: &Task, region: Option<Region>) -> Result<impl Iterator<Item = Part>, Unsupported> {
    Ok(those_that_fit(task, candidates(task, region)?))
}

/// The cheapest layout whose rows are joined, if there is one.
pub(super) fn cheapest_of_joined_rows(task: &Task) -> Option<Part> {
    let mut candidates = candidates(task, None).ok()?;
    candidates.retain(|(_, layout)| layout.cut.joined_rows > 1);
    those_that_fit(task, candidates).next()
}

fn those_that_fit(task: &Task, candidates: Vec<(f64, Layout)>) -> impl Iterator<Item = Part> {
    let part = |(cycles, layout)| fitting(task, &layout).map(|tables| Part { layout, tables, cycles });
    candidates.into_iter().filter_map(part)
}

/// The kernels that a device has for a precision. On ordinary cores there is one for both: products are as exact as `f32`.
pub(super) fn variants(precision: Precision, target: &Target) -> impl Iterator<Item = &'static Variant> {
    let split = precision == Precision::F32;
    tile::VARIANTS.iter().filter(move |variant| {
        if target.tensor_cores {
            !variant.ordinary && variant.split == split && (target.large_tiles || !variant.large)
        } else {
            variant.ordinary
        }
    })
}

/// The layouts worth a thought, the cheapest first.
fn candidates(task: &Task, region: Option<Region>) -> Result<Vec<(f64, Layout)>, Unsupported> {
    let problem = &task.problem;
    check(problem)?;
    let phases = Arc::new(problem.axes().map(|axis| axis.phases()));
    let fills_first = fills_first(task, &phases);
    let region = region.unwrap_or_else(|| Region::whole(&phases, fills_first));
    let mut groups = AllGroups { region, fills_first, made: HashMap::new() };
    let mut joined = HashMap::new();
    let layouts = cuts(task, &phases, &region).into_iter().filter_map(|cut| {
        let Cut { row_axis, joined_rows, .. } = cut;
        let join = || Arc::new(join_rows(&phases, row_axis));
        let phases = if joined_rows > 1 { joined.entry(row_axis).or_insert_with(join) } else { &phases };
        let groups = groups.of(problem, phases, &cut);
        Layout::new(problem, phases, &groups, region, cut).filter(halves_differ)
    });
    let mut candidates: Vec<(f64, Layout)> =
        layouts.filter_map(|layout| Some((cost(task, &layout, 1.0)?, layout))).collect();
    let sort = |candidates: &mut [(f64, Layout)]| candidates.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    sort(&mut candidates);
    let promising = candidates.len().min(MOST_PROMISING);
    let promising = &mut candidates[..promising];
    promising.par_iter_mut().for_each(|(cycles, layout)| {
        *cycles = cost(task, layout, layout.load_conflicts()).unwrap_or(*cycles);
    });
    sort(promising);
    Ok(candidates)
}

/// Whether the halves, if there are two, have different taps. Otherwise they had better share the columns.
fn halves_differ(layout: &Layout) -> bool {
    let differ = |group: &Group| {
        let ranges = ranges(layout, 2, group);
        ranges.iter().map(|range| neighbour_slabs(layout, group, range)).sum::<usize>() < 2 * group.taps
    };
    layout.cut.halves == 1 || layout.groups[2].iter().any(differ)
}

/// The tables of a layout that fits the device. The model estimates its shared memory; only the tables know it.
fn fitting(task: &Task, layout: &Layout) -> Option<Tables> {
    let tables = Tables::new(&task.problem, layout, task.target.shared_bytes)?;
    let words = u128::from(tables.packed_slabs(&task.problem, layout)) * u128::from(layout.slab_bytes() / 4);
    (words < 1 << 31).then_some(tables)
}

/// The groups of each axis, made once for each number of phases.
struct AllGroups {
    region: Region,
    fills_first: bool,
    made: HashMap<(usize, u32, usize), Arc<Vec<Group>>>,
}

impl AllGroups {
    fn of(&mut self, problem: &Problem<3>, phases: &[Vec<Phase>; 3], cut: &Cut) -> AxisGroups {
        let columns = cut.computed_phases();
        let mut along = |axis: usize| {
            let make = || {
                let (along, region) = (&problem.axes()[axis], self.region);
                let mut groups = groups(along, &phases[axis], columns[axis] as usize, axis == 2);
                groups.retain(|group| !self.fills_first || !group.computed.is_empty());
                let within = |group: Group| group.within(along, region.first[axis], region.extents[axis]);
                Arc::new(groups.into_iter().map(within).collect())
            };
            self.made.entry((axis, columns[axis], phases[axis].len())).or_insert_with(make).clone()
        };
        [along(0), along(1), along(2)]
    }
}

/// The phases where neighbouring positions along an axis are joined: each position has phases of its own, which read from that much further on.
fn join_rows(phases: &[Vec<Phase>; 3], axis: usize) -> [Vec<Phase>; 3] {
    let mut joined = phases.clone();
    let of = |row: isize| {
        let further = move |phase: &Phase| Phase { first_input: phase.first_input + row, ..*phase };
        phases[axis].iter().map(further)
    };
    joined[axis] = (0..tile::JOINED_ROWS as isize).flat_map(of).collect();
    joined
}

/// Whether the output is filled with the biases first, so that there need be no passes without taps: where at least two of three rows have
/// none. Those that have some are written twice, the others faster than such passes do it.
fn fills_first(task: &Task, phases: &[Vec<Phase>; 3]) -> bool {
    let with_taps = |axis: usize| phases[axis].iter().filter(|phase| phase.taps > 0).count();
    let rows = phases[0].len() * phases[1].len();
    let rows_with_taps = with_taps(0) * with_taps(1);
    rows_with_taps * with_taps(2) > 0 && rows_with_taps * 3 <= rows && fill::check(task).is_ok()
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
fn cuts(task: &Task, phases: &[Vec<Phase>; 3], region: &Region) -> Vec<Cut> {
    let problem = &task.problem;
    let positions = region.extents.map(|extent| extent as usize);
    let blocks = problem.in_channels_per_group().div_ceil(8);
    let boxes = boxes(problem, positions, tile::ROWS);
    let mut cuts = Vec::new();
    for variant in variants(task.precision, &task.target) {
        for ColumnUse { phases: column_phases, halves, close, joined_along } in column_uses(variant, problem, phases) {
            let rows = variant.slots / halves;
            let joined_rows = if joined_along.is_some() { tile::JOINED_ROWS } else { 1 };
            let has_rows = |&axis: &usize| axis == 2 || rows > 1 && positions[axis] > 1;
            for row_axis in (0..3).filter(|axis| joined_along.map_or(has_rows(axis), |joined| joined == *axis)) {
                for &extents in &boxes {
                    let blocks =
                        [1, 2, 4].into_iter().filter(|&stage_blocks| stage_blocks == 1 || stage_blocks <= blocks);
                    cuts.extend(blocks.map(|stage_blocks| Cut {
                        variant,
                        phases: column_phases,
                        halves,
                        close,
                        row_axis,
                        joined_rows,
                        extents,
                        stage_blocks: stage_blocks as u32,
                        may_copy_boxes: task.target.large_tiles,
                    }));
                }
            }
        }
    }
    cuts
}

/// How the columns of a kernel may be used: see [`Cut`].
struct ColumnUse {
    phases: [u32; 3],
    halves: u32,
    close: bool,
    /// The axis along which rows are joined, if they are.
    joined_along: Option<usize>,
}

/// The most output channels of a group whose rows may be joined.
const MOST_JOINED: usize = 16;

/// The most output channels of a group whose phases may lie close together.
const MOST_CLOSE: usize = 4;

/// How phases with taps can share the columns of a kernel: along each axis one, all, or half of them; along x perhaps all of them in two halves;
/// and close together if channels are few.
fn column_uses(variant: &Variant, problem: &Problem<3>, phases: &[Vec<Phase>; 3]) -> Vec<ColumnUse> {
    let with_taps = phases.each_ref().map(|phases| phases.iter().filter(|phase| phase.taps > 0).count() as u32);
    let choices = with_taps.map(|count| {
        let count = count.clamp(1, 16);
        BTreeSet::from([1, count.div_ceil(2), count])
    });
    let out_channels = problem.out_channels_per_group();
    let mut uses = Vec::new();
    for &z in &choices[0] {
        for &y in &choices[1] {
            for &x in &choices[2] {
                let (phases, count) = ([z, y, x], z * y * x);
                if 8 * count <= variant.columns {
                    uses.push(ColumnUse { phases, halves: 1, close: false, joined_along: None });
                }
                if 8 * count <= variant.columns && 2 * x == with_taps[2] && variant.slots.is_multiple_of(2) {
                    uses.push(ColumnUse { phases, halves: 2, close: false, joined_along: None });
                }
                let columns = out_channels.next_power_of_two() as u32;
                if (1..=MOST_CLOSE).contains(&out_channels) && count > 1 && columns * count <= variant.columns {
                    uses.push(ColumnUse { phases, halves: 1, close: true, joined_along: None });
                }
            }
        }
    }
    uses.extend(joined_uses(variant, problem, phases, with_taps));
    uses
}

/// How joined rows of few channels can share the columns of a kernel, with all of their phases.
fn joined_uses(
    variant: &Variant,
    problem: &Problem<3>,
    phases: &[Vec<Phase>; 3],
    with_taps: [u32; 3],
) -> Vec<ColumnUse> {
    let out_channels = problem.out_channels_per_group();
    // Three slots are slower than the model thinks: problem 58 takes 1.0 ms in single precision, with two slots 0.87.
    let can_join = variant.joins_rows() && variant.slots.is_multiple_of(2) && out_channels <= MOST_JOINED;
    if !can_join || with_taps.iter().any(|count| !(1..=16).contains(count)) {
        return Vec::new();
    }
    let close = out_channels <= MOST_CLOSE;
    let channels = if close { out_channels.next_power_of_two() } else { out_channels.next_multiple_of(8) } as u32;
    // Where there are fewer phases than the stride has, there is one position.
    let has_neighbours =
        |axis: usize| phases[axis].len() == problem.axes()[axis].stride && phases[axis][0].positions > 1;
    let joined_along = |axis: usize| {
        let mut phases = with_taps;
        phases[axis] *= tile::JOINED_ROWS;
        ColumnUse { phases, halves: 1, close, joined_along: Some(axis) }
    };
    let uses = (0..2).filter(|&axis| has_neighbours(axis)).map(joined_along);
    uses.filter(|each| channels * each.phases.iter().product::<u32>() <= variant.columns).collect()
}

/// Boxes of positions, samples, z, y, x, of which few cover all positions.
fn boxes(problem: &Problem<3>, positions: [usize; 3], rows: u32) -> Vec<[u32; 4]> {
    let [z_extents, y_extents, x_extents] = positions.map(|positions| extents(positions, rows));
    let mut boxes = Vec::new();
    for &x in &x_extents {
        for y in with_filling(&y_extents, positions[1], rows / x) {
            for z in with_filling(&z_extents, positions[0], rows / (x * y)) {
                let samples = (rows / (x * y * z)).min(problem.batch().max(1).min(rows as usize) as u32);
                let samples = if fits_32_bits(problem, samples) { samples } else { 1 };
                boxes.push([samples, z, y, x]);
            }
        }
    }
    let tiles = |extents: &[u32; 4]| {
        let along = |axis: usize| positions[axis].div_ceil(extents[axis + 1] as usize) as u128;
        problem.batch().div_ceil(extents[0] as usize) as u128 * along(0) * along(1) * along(2)
    };
    let fewest = boxes.iter().map(tiles).min().unwrap_or(0);
    boxes.retain(|extents| tiles(extents) * 3 <= fewest * 4);
    boxes
}

/// Those of some extents that are not more than `most`, and the one that divides all positions evenly into as few tiles as that allows.
fn with_filling(extents: &[u32], positions: usize, most: u32) -> BTreeSet<u32> {
    let tiles = positions.div_ceil(most as usize).max(1);
    let filling = positions.div_ceil(tiles).max(1) as u32;
    extents.iter().copied().filter(|&extent| extent <= most).chain([filling]).collect()
}

/// Extents of a box along an axis: powers of two, and divisions of all positions, also rounded up to pairs.
fn extents(positions: usize, rows: u32) -> Vec<u32> {
    let powers = (0..=8).map(|power| 1 << power).filter(|&extent| extent <= positions);
    let divisions = (1..=8).map(|parts| positions.div_ceil(parts));
    let divisions = divisions.flat_map(|extent| [extent, extent.next_multiple_of(2)]);
    let extents: BTreeSet<usize> = powers.chain(divisions).filter(|&extent| extent <= rows as usize).collect();
    extents.into_iter().map(|extent| extent as u32).collect()
}

/// Whether offsets within that many samples fit in 32 bits.
fn fits_32_bits(problem: &Problem<3>, samples: u32) -> bool {
    let sample: u128 = problem.axes().iter().map(|axis| axis.input as u128).product();
    let output: u128 = problem.axes().iter().map(|axis| axis.output as u128).product();
    let elements = (sample * problem.in_channels() as u128).max(output * problem.out_channels() as u128);
    samples == 1 || elements * u128::from(samples) < 1 << 32
}

/// What a team does in one stage, on average over the passes.
struct Work {
    /// Slabs, each of which is multiplied for every row.
    slabs: f64,
    runs: f64,
    /// Batches of products that are made together: of an input row, or of some.
    batches: f64,
    /// Cycles that loading fragments takes the shared memory.
    loads: f64,
}

impl Work {
    fn new(layout: &Layout) -> Self {
        let rows_of_tile = layout.cut.rows() as usize;
        let passes = layout.passes() as f64;
        let mut work = Self { slabs: 1.0, runs: 1.0, batches: 1.0, loads: 1.0 };
        for axis in 0..3 {
            let (mut slabs, mut runs, mut batches, mut loads) = (0, 0, 0, 0);
            for group in layout.groups[axis].iter() {
                let mut is_even = begins_even(layout, group);
                for range in ranges(layout, axis, group) {
                    let rows = match axis == layout.cut.row_axis {
                        true if axis < 2 => (rows_of_tile - 1) * rows_apart(layout, &range) + range.len(),
                        true => rows_of_tile,
                        false => 1,
                    };
                    let takes_rows_together =
                        !layout.cut.variant.split && layout.cut.halves == 1 && (axis == 2 || range.len() == 1);
                    slabs += if axis == 2 { neighbour_slabs(layout, group, &range) } else { range.len() };
                    runs += 1;
                    batches += if takes_rows_together { rows.div_ceil(3) } else { rows };
                    loads += rows * if axis == 2 { load_cycles(range.len(), layout.has_pairs() && is_even) } else { 1 };
                    is_even ^= range.len() % 2 == 1;
                }
            }
            work.slabs *= slabs as f64;
            work.runs *= runs as f64;
            work.batches *= batches as f64;
            work.loads *= loads as f64;
        }
        let stage_blocks = f64::from(layout.cut.stage_blocks);
        let share = stage_blocks / passes;
        let run_blocks = (f64::from(layout.chunk_slabs()) * work.runs / work.slabs.max(1.0)).floor();
        Self {
            slabs: work.slabs * share,
            runs: work.runs / passes * (stage_blocks / run_blocks.clamp(1.0, stage_blocks)).ceil(),
            batches: work.batches * share,
            loads: work.loads * share,
        }
    }
}

/// Input rows between those of neighbouring slots, of which a run loads all if it takes several taps along the axis of rows.
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

/// Bytes that move for rows of some words when memory moves whole sectors of 32 bytes, at an average alignment.
fn row_bytes(words: f64) -> f64 {
    4.0 * words + 28.0
}

/// What it costs in bytes that what is written side by side does not begin and end with sectors of the memory. A sector that is written in
/// part is read before, if its other part does not come soon.
fn edge_bytes(problem: &Problem<3>, layout: &Layout) -> f64 {
    let are_sectors = problem.axes()[2].output.is_multiple_of(8) && layout.neighbouring_outputs().is_multiple_of(8);
    if are_sectors { 0.0 } else { EDGE_BYTES }
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
        let outputs = f64::from(layout.places * layout.line_phases * tile::TEAM_ROWS * layout.stored_channels());
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
            return Self {
                instructions: (blocks * 50.0 + matrices * 12.0) * 2.0 / f64::from(words),
                latency: STORE_LATENCY / 2.0,
                shared: outputs * 8.0 / 128.0,
                bytes: outputs / neighbours * row_bytes(neighbours),
            };
        }
        let neighbours = f64::from(layout.neighbouring_outputs());
        let lines =
            f64::from(layout.places * layout.segments() * layout.stored_channels() * layout.line_lanes()) / 128.0;
        let words = layout.line_reach().div_ceil(layout.line_lanes()).next_multiple_of(layout.line_words_at_once());
        let at_once = if layout.held() == Tiling::ONE_PHASE { 12.0 } else { 8.0 };
        Self {
            instructions: blocks * 20.0 + matrices * at_once + lines * (14.0 + 3.5 * f64::from(words)),
            latency: f64::from(layout.slices()) * 200.0 + STORE_LATENCY,
            shared: outputs * 12.0 / 128.0,
            bytes: outputs / neighbours * row_bytes(neighbours),
        }
    }
}

/// Cycles that a layout is estimated to take, if conflicts prolong loads that much; `None` if it does not fit.
fn cost(task: &Task, layout: &Layout, conflicts: f64) -> Option<f64> {
    let problem = &task.problem;
    let Cut { variant, stage_blocks, extents, .. } = layout.cut;
    let jobs = layout.jobs(problem.groups());
    let work = Work::new(layout);
    let chunks = (work.slabs / f64::from(layout.chunk_slabs())).ceil();
    let chunk_slabs = f64::from(layout.chunk_slabs()).min(work.slabs).max(1.0);
    let shared = layout.shared(chunk_slabs as u32, chunks as u32, task.target.shared_bytes)?;
    if jobs >= 1 << 31 {
        return None;
    }
    let teams = f64::from(tile::TEAMS);
    let columns = f64::from(variant.columns);
    let rows_of_tile = f64::from(layout.cut.rows());

    // Of a team, per stage of a job.
    let factors = if variant.split { 3.0 } else { 1.0 };
    let products = work.slabs * rows_of_tile * factors;
    let tensor = products * (columns / 2.0 + 1.0).max(LEAST_PRODUCT);
    let batches = if variant.split { work.batches * 1.5 } else { work.batches };
    let reads = work.loads * conflicts + products * columns / 4.0;
    let instructions =
        work.batches * if variant.split { 60.0 } else { 40.0 } + products * 3.5 + work.runs * 60.0 + chunks * 60.0;
    let latency = batches * BATCH_LATENCY
        + work.runs * RUN_LATENCY
        + chunks * CHUNK_LATENCY
        + work.loads * (conflicts - 1.0) * CONFLICT_LATENCY;
    let (tensor, reads, instructions, latency) = if variant.ordinary {
        let of = ordinary::Products::new(layout, work.slabs);
        let instructions = of.instructions + work.runs * 60.0 + chunks * 60.0;
        (of.cores, of.reads, instructions, of.latency + work.runs * RUN_LATENCY + chunks * CHUNK_LATENCY)
    } else {
        (tensor, reads, instructions, latency)
    };
    let serial = tensor.max(instructions * SERIAL_ISSUE) + latency;

    // Of the producers.
    let channels = f64::from(8 * stage_blocks);
    // What lies outside of the input is not fetched.
    let fetched = |axis: usize| f64::from(layout.halo[axis]).min(problem.axes()[axis].input as f64);
    let rows = f64::from(extents[0]) * fetched(0) * fetched(1);
    let copies = f64::from(layout.copies());
    let weight_bytes = work.slabs * f64::from(layout.slab_bytes());
    // Elements that are copied one by one, or four at a time, are written sector by sector.
    let writes_sectors = !layout.in_boxes && !variant.ordinary;
    let staged_bytes = 4.0 * f64::from(layout.stage_words()) * if writes_sectors { 4.0 } else { 1.0 } + weight_bytes;
    let fetched_bytes = rows * channels * row_bytes(fetched(2)) + weight_bytes;
    let copy_instructions = f64::from(if layout.copy_words == 4 { 12 } else { 14 });
    // Of each thread that fetches, and what they or the hardware take.
    let instructions_of_fetch =
        if layout.in_boxes { 0.0 } else { channels / 3.0 * (copies / 32.0).ceil() * copy_instructions };
    let fetch = if layout.in_boxes { rows * channels * BOX_ROW } else { instructions_of_fetch * FETCH_ISSUE };
    let fetch = if variant.ordinary {
        fetch.max(ordinary::fetch(layout)).max(ordinary::fetch_weights(weight_bytes))
    } else {
        fetch
    };
    // A slot of a ring is filled, then emptied by both teams, then filled again. Weights are left when products of the next run are under way.
    let emptied = serial.max(tensor * teams).max(instructions * teams);
    let input_round = FETCH_LATENCY + fetch.max(fetched_bytes / L2_BYTES) + emptied;
    let held = emptied / chunks.max(1.0) + emptied / work.runs.max(1.0);
    let weight_round = FETCH_LATENCY + weight_bytes / chunks.max(1.0) / L2_BYTES + held;

    // Of the end of a job, for a team.
    let store = Store::new(layout, shared.boxed);

    // A team works on one stage after the other, and both teams share what a multiprocessor has.
    let stages = if work.slabs > 0.0 { f64::from(layout.stages) } else { 0.0 };
    let resources = [
        stages * serial + store.instructions * SERIAL_ISSUE + store.latency,
        stages * fetch,
        stages * input_round / f64::from(shared.input_ring),
        stages * chunks * weight_round / f64::from(shared.weight_ring),
        stages * tensor * teams,
        stages * (reads * teams + staged_bytes / 128.0) + teams * store.shared,
        (stages * instructions + store.instructions) * teams + stages * instructions_of_fetch * 0.75,
        (stages * fetched_bytes + teams * store.bytes) / L2_BYTES,
    ];
    let job = resources.iter().copied().fold(0.0, f64::max) + 0.1 * resources.iter().sum::<f64>();
    let rounds = (jobs as f64 / f64::from(task.target.multiprocessors)).ceil();
    let lacks_boxes = layout.cut.may_copy_boxes && !layout.in_boxes;
    let without_boxes = if variant.split { WITHOUT_BOXES_SPLIT } else { WITHOUT_BOXES };
    let joined = if layout.cut.joined_rows > 1 && !variant.split { JOINED_ROWS } else { 1.0 };
    let busy = rounds * job * joined * if lacks_boxes { without_boxes } else { 1.0 } + LATENCY;
    let row = 4.0 * f64::from(layout.words_at_once());
    let output = problem.output_shape().len() as f64 * 4.0 * (row + edge_bytes(problem, layout)) / row;
    let input = problem.input_shape().len() as f64 * 4.0;
    let memory_bytes =
        if variant.ordinary { ordinary::memory_bytes(task.target.multiprocessors) } else { MEMORY_BYTES };
    let moved = (input + output) * layout.share() / memory_bytes;
    Some(busy.max(moved) + OVERLAP_LOSS * busy.min(moved))
}
