//! The choice of a cut: those that are possible, and which of them the model (`cost.rs`) finds the cheapest.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use conv_transpose_kernels::tile::{self, Variant};
use rayon::prelude::*;

use super::{
    Target, Task,
    cost::{cost, passes, slabs_along, stores_in_turn},
    fill,
    groups::{Group, groups, reaches},
    input::Input,
    layout::{AxisGroups, Cut, Layout},
    leads::{leads, phases},
    regions::Region,
    tables::Tables,
    turns::{Jobs, Turns},
};
use crate::{
    Axis, Phase, Precision, Problem,
    cuda::{error::Unsupported, parameters::reach},
};

/// The most table entries: products of a stage, of all passes.
const MOST_PRODUCTS: u128 = 1 << 19;

/// How many times the cycles of the cheapest lead another one may take, to be thought of in regions.
const MOST_DEARER: f64 = 1.1;

/// Of how many layouts the conflicts over banks of shared memory are counted, which takes a while.
const MOST_PROMISING: usize = 1000;

/// A layout that fits the device.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) layout: Layout,
    pub(super) tables: Tables,
    /// What it is estimated to take.
    pub(super) cycles: f64,
}

impl Part {
    /// Whether one team stores after the other: in jobs that blocks have several of, on compute capability 9.0, where
    /// that was measured.
    pub(super) fn stores_in_turn(&self, task: &Task) -> bool {
        let has_several_jobs = self.layout.jobs(task.problem.groups()) > task.target.multiprocessors.into();
        task.target.large_tiles && has_several_jobs && !self.tables.shared.boxed && stores_in_turn(&self.layout)
    }

    /// How so many blocks at most, or clusters of partners, share the jobs out.
    pub(super) fn turns(&self, task: &Task, blocks: u32) -> Turns {
        let jobs = self.layout.jobs(task.problem.groups());
        let jobs = Jobs {
            workers: jobs.min(blocks.into()) as usize,
            jobs: jobs as usize,
            channel_tiles: self.layout.channel_tiles as usize,
            passes: &passes(task, &self.layout, 1.0).unwrap_or_default(),
            may_be_apart: self.layout.may_have_passes_apart(),
        };
        jobs.best_turns()
    }
}

/// What some parts are estimated to take, one after the other.
pub(super) fn cycles_of(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.cycles).sum()
}

/// A layout, and what it is estimated to take. There may be a hundred thousand of them to sort, so the layout stays
/// where it is.
pub(super) type Candidate = (f64, Box<Layout>);

/// The cheapest layout for a region of a task, one that reads the packed input only if it `may`; or why there is none.
pub(super) fn cheapest(task: &Task, region: Region, may_read_packed: bool) -> Result<Part, Unsupported> {
    let candidates = candidates(task, Some(region))?;
    let mut allowed = candidates.iter().filter(|(_, layout)| may_read_packed || !layout.cut.variant.reads_packed());
    allowed.find_map(|candidate| fitting(task, candidate)).ok_or(Unsupported::NoTile)
}

/// Of each lead that is not much dearer than another one, the cheapest of the `candidates` that fits, the cheapest of
/// all first.
pub(super) fn cheapest_of_leads(task: &Task, candidates: &[Candidate]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for candidate @ (cycles, layout) in candidates {
        if parts.first().is_some_and(|cheapest| *cycles > MOST_DEARER * cheapest.cycles) {
            break;
        }
        let is_known = parts.iter().any(|part| part.layout.region.lead == layout.region.lead);
        parts.extend(if is_known { None } else { fitting(task, candidate) });
    }
    parts
}

/// So many of the `candidates` that fit, the cheapest first; and the cheapest one whose input is packed, or converted
/// by teams, perhaps of two taps at a time, or neither, whose rows are joined or lie apart, whose slots are halves, with
/// long lines, with bare rows written by producers, or without, with a lead, or without one, if none of these is such.
pub(super) fn several(task: &Task, candidates: &[Candidate], most: usize) -> Vec<Part> {
    let mut parts: Vec<Part> = candidates.iter().filter_map(|candidate| fitting(task, candidate)).take(most).collect();
    let kinds: [fn(&Layout) -> bool; 12] = [
        |layout| layout.writes_bare_rows,
        |layout| !layout.writes_bare_rows,
        |layout| layout.cut.variant.reads_packed(),
        |layout| layout.cut.variant.teams_convert,
        |layout| layout.cut.taps_paired_along.is_some(),
        |layout| !layout.cut.variant.f16,
        |layout| layout.cut.joined_rows > 1,
        |layout| layout.cut.has_rows_apart(),
        |layout| layout.cut.halves > 1,
        |layout| layout.line_slots > 1,
        |layout| layout.region.lead != [0; 3],
        |layout| layout.region.lead == [0; 3],
    ];
    for is_such in kinds {
        if !parts.iter().any(|part| is_such(&part.layout)) {
            let mut such = candidates.iter().filter(|(_, layout)| is_such(layout));
            parts.extend(such.find_map(|candidate| fitting(task, candidate)));
        }
    }
    parts
}

/// The kernels that a device has for a precision. On ordinary cores there is one for both: products are as exact as
/// `f32`.
pub(super) fn variants(precision: Precision, target: &Target) -> impl Iterator<Item = &'static Variant> {
    let split = precision.splits_factors();
    tile::VARIANTS.iter().filter(move |variant| {
        if target.tensor_cores {
            !variant.ordinary && variant.split == split && (target.large_tiles || !variant.large)
        } else {
            variant.ordinary
        }
    })
}

/// The layouts worth a thought for a region, or for all positions, with each lead; the cheapest first.
pub(super) fn candidates(task: &Task, region: Option<Region>) -> Result<Vec<Candidate>, Unsupported> {
    check(&task.problem)?;
    let without_lead = phases(&task.problem, [0; 3]);
    let rows = rows_with_taps(task, &without_lead);
    let fills_first = rows.is_some_and(fills_first);
    let whole = |lead| Region::whole(lead, &phases(&task.problem, lead), fills_first);
    let regions = region.map_or_else(|| leads(&task.problem).into_iter().map(whole).collect(), |region| vec![region]);
    let mut candidates: Vec<Candidate> =
        regions.into_iter().flat_map(|region| layouts(task, region, fills_first)).collect();
    if region.is_none() && !fills_first && rows.is_some_and(|rows| may_write_bare_rows(task, rows)) {
        let layouts = layouts(task, Region::whole([0; 3], &without_lead, true), true);
        candidates.extend(layouts.into_iter().filter(|(_, layout)| layout.writes_bare_rows));
    }
    let sort = |candidates: &mut [Candidate]| candidates.par_sort_by(|(a, _), (b, _)| a.total_cmp(b));
    sort(&mut candidates);
    let promising = candidates.len().min(MOST_PROMISING);
    let promising = &mut candidates[..promising];
    promising.par_iter_mut().for_each(|(cycles, layout)| {
        *cycles = cost(task, layout, layout.load_conflicts()).unwrap_or(*cycles);
    });
    sort(promising);
    Ok(candidates)
}

/// The layouts of a region, in the order of the cuts, with what they are estimated to take.
fn layouts(task: &Task, region: Region, fills_first: bool) -> Vec<Candidate> {
    let problem = &task.problem;
    let phases = Arc::new(phases(problem, region.lead));
    let rows_are_together = !fills_first && are_staged(problem, &phases);
    // What cuts have in common is made once by each thread.
    let nothing = || (AllGroups { region, fills_first, rows_are_together, made: HashMap::new() }, HashMap::new());
    let layout = |(groups, joined): &mut (AllGroups, HashMap<_, _>), cut: Cut| {
        let Cut { row_axis, joined_rows, .. } = cut;
        let join = || Arc::new(join_rows(&phases, row_axis));
        let phases = if joined_rows > 1 { joined.entry(row_axis).or_insert_with(join) } else { &phases };
        let groups = groups.of(problem, phases, &cut);
        let layout = Layout::new(problem, phases, &groups, region, cut)?;
        let is_worth_it = halves_differ(&layout) && is_worth_converting(&layout) && layout.can_pair_taps();
        is_worth_it.then(|| Some((cost(task, &layout, 1.0)?, Box::new(layout)))).flatten()
    };
    let candidates = cuts(task, &phases, &region).into_par_iter().map_init(nothing, layout);
    candidates.filter_map(|candidate| candidate).collect()
}

/// Whether the halves, if there are two, have different taps. Otherwise they had better share the columns.
fn halves_differ(layout: &Layout) -> bool {
    let differ = |group: &Group| slabs_along(layout, 2, group) < 2 * group.taps;
    layout.cut.halves == 1 || layout.groups[2].iter().any(differ)
}

/// The fewest products of each input element for which packing it can be worth it: with half of the time for these,
/// others take longer to pack.
const LEAST_PRODUCTS_TO_PACK: usize = 512;

/// Whether there are enough products for each input to think of packing it.
fn is_worth_packing(problem: &Problem<3>) -> bool {
    problem.out_channels_per_group().saturating_mul(problem.taps()) >= LEAST_PRODUCTS_TO_PACK
}

/// The fewest taps for which it is worth it that teams convert the input: with fewer they wait for those who measure
/// it.
const LEAST_TAPS_FOR_TEAMS: usize = 3;

/// Whether there are enough products for each input that teams convert it, if they are to.
fn is_worth_converting(layout: &Layout) -> bool {
    let most = |axis: usize| layout.groups[axis].iter().map(|group| group.taps).max().unwrap_or(0);
    !layout.cut.variant.teams_convert || most(0) * most(1) * most(2) >= LEAST_TAPS_FOR_TEAMS
}

/// A layout with its tables, if it fits the device. The model estimates its shared memory; only the tables know it.
/// Without products there is nothing to pack the input for.
fn fitting(task: &Task, (cycles, layout): &Candidate) -> Option<Part> {
    let tables = Tables::new(&task.problem, layout, task.target.shared_bytes)?;
    let words = u128::from(tables.packed_slabs(&task.problem, layout)) * u128::from(layout.slab_bytes() / 4);
    let has_use = words > 0 || !layout.cut.variant.reads_packed();
    (has_use && words < 1 << 31).then(|| Part { layout: Layout::clone(layout), tables, cycles: *cycles })
}

/// The groups of each axis, made once for each number of phases.
struct AllGroups {
    region: Region,
    fills_first: bool,
    /// Whether rows without taps are stored together with those that have some, where one pass has all of these.
    rows_are_together: bool,
    made: HashMap<(usize, u32, usize), Arc<Vec<Group>>>,
}

impl AllGroups {
    fn of(&mut self, problem: &Problem<3>, phases: &[Vec<Phase>; 3], cut: &Cut) -> AxisGroups {
        let columns = cut.computed_phases();
        let mut along = |axis: usize| {
            let make = || {
                let (along, region) = (&problem.axes()[axis], self.region);
                let first = self.region.first[axis];
                let together = axis == 2 || self.rows_are_together;
                let mut groups = groups(along, &phases[axis], first, columns[axis] as usize, together);
                groups.retain(|group| !self.fills_first || !group.computed.is_empty());
                let within = |group: Group| group.within(along, region.first[axis], region.extents[axis]);
                Arc::new(groups.into_iter().map(within).collect())
            };
            self.made.entry((axis, columns[axis], phases[axis].len())).or_insert_with(make).clone()
        };
        [along(0), along(1), along(2)]
    }
}

/// The phases where neighbouring positions along an axis are joined: each position has phases of its own, which read
/// from that much further on.
fn join_rows(phases: &[Vec<Phase>; 3], axis: usize) -> [Vec<Phase>; 3] {
    let mut joined = phases.clone();
    let of = |row: isize| {
        let further = move |phase: &Phase| Phase { first_input: phase.first_input + row, ..*phase };
        phases[axis].iter().map(further)
    };
    joined[axis] = (0..tile::JOINED_ROWS as isize).flat_map(of).collect();
    joined
}

/// How many rows of the phases along z and y have taps, and how many there are; `None` where nothing has any, or the
/// output cannot be filled before.
fn rows_with_taps(task: &Task, phases: &[Vec<Phase>; 3]) -> Option<[usize; 2]> {
    let with_taps = |axis: usize| phases[axis].iter().filter(|phase| phase.taps > 0).count();
    let rows_with_taps = with_taps(0) * with_taps(1);
    let can_fill = rows_with_taps * with_taps(2) > 0 && fill::check(task).is_ok();
    can_fill.then_some([rows_with_taps, phases[0].len() * phases[1].len()])
}

/// Whether the output is filled with the biases first, so that there need be no passes without taps: where at least two
/// of three rows have none. Those that have some are written twice, the others faster than such passes do it.
fn fills_first([rows_with_taps, rows]: [usize; 2]) -> bool {
    rows_with_taps * 3 <= rows
}

/// Whether some cut may have producers write rows without taps, where teams store them otherwise.
fn may_write_bare_rows(task: &Task, [rows_with_taps, rows]: [usize; 2]) -> bool {
    task.target.large_tiles && rows_with_taps < rows
}

/// Whether products go through shared memory before they are stored, whatever the cut, because rows are odd, have gaps,
/// or more phases than a lane holds. Otherwise a pass that also stores rows without taps would be slower than passes of
/// their own.
fn are_staged(problem: &Problem<3>, phases: &[Vec<Phase>; 3]) -> bool {
    let [.., x] = problem.axes();
    let has_gaps = phases[2].iter().any(|phase| phase.taps == 0);
    !x.output.is_multiple_of(2) || has_gaps || phases[2].len() > 2
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
    let boxes = boxes(problem, positions, tile::ROWS);
    let mut cuts = Vec::new();
    let may_be_packed = is_worth_packing(problem) && Input::can_be_packed(problem, task.precision == Precision::F32);
    for variant in variants(task.precision, &task.target).filter(|variant| !variant.reads_packed() || may_be_packed) {
        for ColumnUse { phases: column_phases, halves, close, joined_along } in
            column_uses(variant, problem, phases, region)
        {
            let rows = variant.slots / halves;
            let joined_rows = if joined_along.is_some() { tile::JOINED_ROWS } else { 1 };
            let has_rows = |&axis: &usize| axis == 2 || rows > 1 && positions[axis] > 1;
            for row_axis in (0..3).filter(|axis| joined_along.map_or(has_rows(axis), |joined| joined == *axis)) {
                for &extents in
                    boxes.iter().filter(|extents| extents[0] == 1 || !(variant.split && variant.teams_convert))
                {
                    let cut = Cut {
                        variant,
                        phases: column_phases,
                        halves,
                        close,
                        row_axis,
                        one_behind_the_other: row_axis == 2,
                        taps_paired_along: None,
                        joined_rows,
                        extents,
                        stage_blocks: 1,
                        partners: 1,
                        large_tiles: task.target.large_tiles,
                    };
                    let cuts_of_region = with_slots(problem, cut)
                        .flat_map(|cut| with_pairs(problem, cut))
                        .flat_map(|cut| with_partners(task, *region, cut));
                    cuts.extend(cuts_of_region.flat_map(|cut| with_stages(task, cut)));
                }
            }
        }
    }
    cuts
}

/// A cut whose slots are neighbouring rows; and with slots one behind the other, where taps are as far apart as its box
/// is long.
fn with_slots(problem: &Problem<3>, cut: Cut) -> impl Iterator<Item = Cut> {
    let distance = problem.axes()[cut.row_axis].input_step();
    let are_as_far = distance > 1 && cut.extents[cut.row_axis + 1] as usize == distance;
    let apart = Cut { one_behind_the_other: true, ..cut };
    let may_be_apart = are_as_far && cut.row_axis < 2 && cut.joined_rows == 1;
    [cut].into_iter().chain(may_be_apart.then_some(apart))
}

/// A cut whose runs take 16 channels of one tap; and eight of two, where that may leave out zeros, in single precision:
/// in TF32, eight channels of one tap are no more than what is multiplied together anyway, and teams need not convert
/// them.
fn with_pairs(problem: &Problem<3>, cut: Cut) -> impl Iterator<Item = Cut> {
    let channels = problem.in_channels_per_group() % 16;
    let Variant { teams_convert, split, .. } = *cut.variant;
    let may_pair = teams_convert && split && (1..=8).contains(&channels) && cut.joined_rows == 1;
    let axes = (0..2).filter(move |&axis| may_pair && problem.axes()[axis].kernel > 1);
    [None].into_iter().chain(axes.map(Some)).map(move |taps_paired_along| Cut { taps_paired_along, ..cut })
}

/// A cut with each number of blocks that may be partners, with whole blocks of channels for each, and as many each if
/// there are several groups: as many partners as the device has for the fewest tiles that there can be. Where a problem
/// is divided into regions, these fill the device together.
fn with_partners(task: &Task, region: Region, cut: Cut) -> impl Iterator<Item = Cut> {
    let Task { problem, target, .. } = *task;
    let positions: u128 = region.extents.iter().map(|&extent| u128::from(extent)).product();
    let rows = positions * problem.batch() as u128 * problem.groups() as u128;
    let tiles = rows.div_ceil(u128::from(tile::ROWS * cut.rows()));
    let blocks = problem.in_channels_per_group().div_ceil(cut.block_channels() as usize);
    let may_be_uneven = problem.groups() == 1 && cut.taps_paired_along.is_none();
    let cuts = (0..=tile::MOST_PARTNERS.ilog2()).map(move |power| Cut { partners: 1 << power, ..cut });
    cuts.filter(move |cut| {
        let Cut { partners, .. } = *cut;
        // Most of them have something to do.
        let have_shares = cut.has_even_shares(&problem) || may_be_uneven && blocks > partners as usize / 2;
        let are_few = tiles <= u128::from(target.most_jobs_of(partners));
        partners == 1 || region.is_whole() && cut.variant.has_partners() && have_shares && are_few
    })
}

/// A cut with each number of channels that a stage may have.
fn with_stages(task: &Task, cut: Cut) -> impl Iterator<Item = Cut> {
    let blocks = cut.in_channels(&task.problem).div_ceil(cut.block_channels() as usize) as u32;
    let stage_blocks = [1, 2, 4].into_iter().filter(move |&stage_blocks| stage_blocks == 1 || stage_blocks <= blocks);
    stage_blocks.map(move |stage_blocks| Cut { stage_blocks, ..cut })
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

/// How phases with taps can share the columns of a kernel: along each axis one, all, or half of them; along x perhaps
/// all of them in two halves; and close together if channels are few.
fn column_uses(variant: &Variant, problem: &Problem<3>, phases: &[Vec<Phase>; 3], region: &Region) -> Vec<ColumnUse> {
    let with_taps = [0, 1, 2].map(|axis| {
        let reaching = phases[axis].iter().filter(|phase| reaches(phase, region.first[axis]));
        reaching.filter(|phase| phase.taps > 0).count() as u32
    });
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
                if 8 * count <= variant.columns && 2 * x == with_taps[2] && variant.has_halves() {
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
    // A lead is for phases that share columns.
    let has_use_for_lead = |each: &ColumnUse| {
        let [z, y, x] = each.phases;
        let computed = [z, y, x * each.halves];
        (0..3).all(|axis| region.lead[axis] == 0 || computed[axis] >= with_taps[axis])
    };
    uses.retain(has_use_for_lead);
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
    let [z_extents, y_extents, x_extents] =
        [0, 1, 2].map(|axis| extents(positions[axis], problem.axes()[axis].input_step(), rows));
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

/// Those of some extents that are not more than `most`, and the one that divides all positions evenly into as few tiles
/// as that allows.
fn with_filling(extents: &[u32], positions: usize, most: u32) -> BTreeSet<u32> {
    let tiles = positions.div_ceil(most as usize).max(1);
    let filling = positions.div_ceil(tiles).max(1) as u32;
    extents.iter().copied().filter(|&extent| extent <= most).chain([filling]).collect()
}

/// Extents of a box along an axis: powers of two, the distance of taps, and divisions of all positions, also rounded up
/// to pairs.
fn extents(positions: usize, taps_are_apart: usize, rows: u32) -> Vec<u32> {
    let powers = (0..=8).map(|power| 1 << power).chain([taps_are_apart]).filter(|&extent| extent <= positions);
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
