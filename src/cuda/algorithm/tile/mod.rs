//! The tile kernels: implicit matrix products, on tensor cores where these take TF32.

mod bare;
mod choice;
mod cost;
mod groups;
mod halves;
mod input;
mod layout;
mod leads;
mod lines;
mod ordinary;
mod pack;
mod regions;
mod side_by_side;
mod tables;
mod turns;
mod walk;

use bytemuck::{Pod, bytes_of, cast_slice};
use conv_transpose_kernels::tile::{self, Variant};

use super::{Algorithm, Implementation, Target, Task, fill};
use crate::cuda::{
    error::Unsupported,
    parameters::{Parameters, check_limits},
    recipe::{
        Argument::{self, Bias, Input, Output, PackedInput, PackedWeight},
        Launch, Recipe, Table,
    },
};
use crate::{Precision, Problem};
use choice::{Candidate, Part, cycles_of};
pub(super) use input::PACKING_BLOCKS;
pub(super) use pack::{WEIGH, pack_as_f16, pack_f16};
use turns::Turns;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Tile,
    repeatable: true,
    worth: Task::taps_are_mostly_inside,
    only_if_worth: false,
    kernels,
    recipe,
    others,
};

/// The most cuts that are measured besides the cheapest one.
const MOST_OTHERS: usize = 15;

/// The share of all cycles of a part that is worth a kernel compiled for it. Small parts take longer than the model
/// says: where the first one is divided along x, they wait for memory.
const COMPILED: f64 = 0.01;

pub(super) fn kernels(precision: Precision, target: &Target) -> Vec<&'static str> {
    let variants = || choice::variants(precision, target);
    let pack = variants().next().map(pack_kernel);
    let f16 = variants().find(|variant| variant.f16).into_iter().flat_map(|variant| [pack_kernel(variant), WEIGH]);
    let packed = variants().find(|variant| variant.reads_packed());
    let packers = packed.into_iter().flat_map(|variant| input::packers(variant.split));
    variants().map(|variant| variant.kernel).chain(pack).chain(f16).chain([fill::KERNEL]).chain(packers).collect()
}

pub(super) fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    Ok(recipe_for(task, &cheapest_parts(task, &candidates(task)?)?))
}

/// The layouts worth a thought for all positions, the cheapest first.
fn candidates(task: &Task) -> Result<Vec<Candidate>, Unsupported> {
    check_limits(&task.problem)?;
    choice::candidates(task, None)
}

/// The cheapest way to compute a task, as a whole or in regions, with whichever lead.
fn cheapest_parts(task: &Task, candidates: &[Candidate]) -> Result<Vec<Part>, Unsupported> {
    let wholes = choice::cheapest_of_leads(task, candidates).into_iter();
    let ways = wholes.map(|whole| regions::parts(task, whole));
    ways.min_by(|a, b| cycles_of(a).total_cmp(&cycles_of(b))).ok_or(Unsupported::NoTile)
}

/// The recipes of the next cheapest cuts, of the cheapest ones of joined rows, with a lead and without one, of a
/// division into regions, one part after the other and side by side, if there are such.
fn others(task: &Task) -> Vec<Recipe> {
    let candidates = candidates(task).unwrap_or_default();
    let Ok(chosen) = cheapest_parts(task, &candidates) else { return Vec::new() };
    let whole = choice::several(task, &candidates, 1 + MOST_OTHERS);
    let divided = regions::all_parts(task, whole[0].clone());
    let several = if chosen.len() > 1 { &chosen } else { divided.as_ref().unwrap_or(&chosen) };
    let on = |blocks: Vec<u32>| recipe_on(task, several, &blocks);
    let side_by_side: Vec<_> = side_by_side::ways(task, several).into_iter().map(on).collect();
    let ways = whole.into_iter().map(|part| vec![part]).chain(divided);
    let chosen = recipe_for(task, &chosen).describe();
    let one_after_the_other = ways.map(|parts| recipe_for(task, &parts)).filter(|recipe| recipe.describe() != chosen);
    one_after_the_other.chain(side_by_side).collect()
}

/// The kernel that packs the weight for another one: as it is, split in two, as `f16`, both, or rounded.
fn pack_kernel(variant: &Variant) -> &'static str {
    match *variant {
        Variant { ordinary: true, .. } => pack::PACK,
        Variant { f16: true, split, .. } => pack_f16(split),
        Variant { split: true, .. } => "pack_split",
        _ => "pack_tf32",
    }
}

/// Writes the biases of what has no taps, and of all else, which is written again. Kernels that are compiled for their
/// layer may do so themselves.
fn fill_first(task: &Task, parts: &[Part]) -> Launch {
    let is_spared = matches!(parts, [part] if part.layout.writes_bare_rows);
    Launch { is_spared, ..fill::launch(task, &Parameters::new(&task.problem).problem) }
}

/// The recipe of some parts, one after the other.
fn recipe_for(task: &Task, parts: &[Part]) -> Recipe {
    recipe_on(task, parts, &side_by_side::one_after_the_other(task, parts))
}

/// The recipe of some parts on so many blocks each, at most, with a launch for each. Those whose weight is packed alike
/// share it.
fn recipe_on(task: &Task, parts: &[Part], blocks: &[u32]) -> Recipe {
    let mut recipe = Recipe::default();
    if let Some(part) = parts.iter().find(|part| part.layout.cut.variant.reads_packed()) {
        let input = part.layout.input;
        recipe.input_len = input.len();
        recipe.launches.extend(input.pack(&task.problem));
    }
    if parts[0].layout.fills_first() {
        recipe.launches.push(fill_first(task, parts));
    }
    let turns: Vec<Turns> = parts.iter().zip(blocks).map(|(part, &blocks)| part.turns(task, blocks)).collect();
    let mut starts = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let alike = parts[..number].iter().position(|other| is_packed_alike(&task.problem, other, part));
        let first_packed = alike.map_or_else(|| add_packing(&mut recipe, task, part), |other| starts[other]);
        starts.push(first_packed);
        let table = add_table(&mut recipe, &part.tables.rows);
        recipe.launches.push(compute(task, parts, number, turns[number], table, first_packed));
    }
    let describe = |(part, turns): (&Part, &Turns)| {
        let order = if turns.are_apart { ", long jobs first" } else { "" };
        let stored = match part.tables.shared.boxed {
            true => ", stored in boxes",
            _ if part.layout.has_lines_of_fours() => ", stored in fours",
            _ if part.stores_in_turn(task) => ", stored in turn",
            _ => "",
        };
        format!("{}{order}{stored}", part.layout)
    };
    recipe.description = parts.iter().zip(&turns).map(describe).collect::<Vec<_>>().join(" and ");
    if blocks[0] < task.target.multiprocessors {
        recipe.description += &format!(", side by side on {} and {} multiprocessors", blocks[0], blocks[1]);
    }
    recipe.cycles = Some(cost::LAUNCH + cycles_of(parts));
    recipe
}

/// Whether the packed weight of one part is that of another one.
fn is_packed_alike(problem: &Problem<3>, part: &Part, other: &Part) -> bool {
    let [packing, other_packing] = [part, other].map(|part| part.tables.packing(problem, &part.layout));
    let [slabs, other_slabs] = [part, other].map(|part| cast_slice::<_, u8>(&part.tables.slabs));
    let [kernel, other_kernel] = [part, other].map(|part| pack_kernel(part.layout.cut.variant));
    kernel == other_kernel && bytes_of(&packing) == bytes_of(&other_packing) && slabs == other_slabs
}

/// Adds the packing of a part's weight to a recipe: where in the packed weight it begins.
fn add_packing(recipe: &mut Recipe, task: &Task, part: &Part) -> usize {
    let first_packed = recipe.packed_len;
    let packing = part.tables.packing(&task.problem, &part.layout);
    let variant = part.layout.cut.variant;
    let slabs = add_table(recipe, &part.tables.slabs);
    if packing.words > 0 {
        let launches = if variant.f16 {
            recipe.packed_len += tile::WEIGHT_HEADER as usize;
            pack_as_f16(task, variant.split, &packing, slabs)
        } else {
            vec![pack::pack(pack_kernel(variant), task, &packing, slabs)]
        };
        recipe.pack.extend(launches.into_iter().map(|launch| Launch { first_packed, ..launch }));
        recipe.packed_len += packing.words as usize * if variant.split { 2 } else { 1 };
    }
    first_packed
}

/// Adds a table to a recipe: its number.
fn add_table<T: Pod>(recipe: &mut Recipe, entries: &[T]) -> usize {
    recipe.tables.push(Table::new(entries));
    recipe.tables.len() - 1
}

/// The launch that computes one of the parts, whose blocks share jobs out by turns, with the table of that number.
fn compute(task: &Task, parts: &[Part], number: usize, turns: Turns, table: usize, first_packed: usize) -> Launch {
    let Part { layout, tables, cycles } = &parts[number];
    let cycles_without_packing = cycles - cost::pack(&task.problem, layout);
    let partners = layout.cut.partners;
    let is_packed = layout.cut.variant.reads_packed();
    // The first part may begin while what it reads is packed, and waits for that. Parts write different elements, and
    // need nothing of each other.
    let awaits = number == 0;
    Launch {
        kernel: layout.cut.variant.kernel,
        blocks: [partners, turns.workers],
        threads: tile::THREADS,
        shared_bytes: tables.shared.total,
        first_packed,
        gains_from_constants: *cycles >= COMPILED * cycles_of(parts),
        least_blocks: 0,
        cluster: partners,
        beside: task.target.large_tiles,
        is_spared: false,
        arguments: vec![
            Argument::value(&tables.tiling(
                &task.problem,
                layout,
                turns,
                cycles_without_packing,
                awaits,
                parts[number].stores_in_turn(task),
            )),
            Argument::Table(table),
            if is_packed { PackedInput } else { Input },
            Argument::TensorMaps(Box::new([
                layout.input_boxes(),
                tables.shared.boxed.then(|| layout.output_boxes(&task.problem)),
            ])),
            PackedWeight,
            Bias,
            Output,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Shape, cuda::algorithm::ways};

    #[test]
    fn the_output_is_filled_first_where_most_rows_have_no_taps() {
        let kernels = |kernel: [usize; 3], stride: [usize; 3], dilation: [usize; 3]| {
            let layer = ConvTranspose3d::builder(8, 8, kernel).stride(stride).dilation(dilation).build().unwrap();
            let problem = layer.problem(Shape::batched(1, 8, [4, 5, 6])).unwrap().to_compute();
            let recipe = recipe(&Task::new(problem, Precision::F32, Target::EMULATED)).unwrap();
            recipe.launches.iter().map(|launch| launch.kernel == fill::KERNEL).collect::<Vec<_>>()
        };
        assert_eq!(kernels([3; 3], [2; 3], [2; 3]), [true, false], "one row of four has taps");
        assert_eq!(kernels([1; 3], [3, 1, 1], [1; 3]), [true, false], "one of three");
        assert_eq!(kernels([1; 3], [1, 2, 1], [1; 3]), [false], "one of two");
        assert_eq!(kernels([1; 3], [1, 1, 4], [1; 3]), [false], "every row, if only at some positions");
    }

    /// Inputs were packed then, to where there was no memory for them.
    #[test]
    fn nothing_is_packed_where_no_tap_reaches_the_output() {
        let layer = ConvTranspose1d::builder(16, 512, [1]).stride([2]).padding([1]).build().unwrap();
        let problem = layer.problem(Shape::batched(3, 16, [2])).unwrap().to_compute();
        for precision in [Precision::Tf32, Precision::F32] {
            let task = Task::new(problem, precision, Target::EMULATED);
            let ways = ways(Algorithm::Tile, &task).unwrap();
            let packed: Vec<_> = ways.iter().map(|(_, recipe)| (recipe.packed_len, recipe.scratch_len())).collect();
            assert!(packed.len() > 1 && packed.iter().all(|&lens| lens == (0, 0)), "{packed:?}");
        }
    }

    #[test]
    fn large_aligned_outputs_are_stored_in_boxes() {
        let stored_in_boxes = |batch: usize, extent: usize, target: Target| {
            let layer = ConvTranspose1d::builder(16, 72, [3]).padding([1]).build().unwrap();
            let problem = layer.problem(Shape::batched(batch, 16, [extent])).unwrap().to_compute();
            recipe(&Task::new(problem, Precision::F32, target)).unwrap().description.contains("stored in boxes")
        };
        assert!(stored_in_boxes(3, 1 << 16, Target::EMULATED));
        assert!(!stored_in_boxes(3, (1 << 16) + 2, Target::EMULATED), "rows that are not aligned to 16 bytes");
        assert!(!stored_in_boxes(2, 1 << 16, Target::EMULATED), "an output that the cache holds");
        assert!(!stored_in_boxes(3, 1 << 16, Target::EMULATED_OLDER), "an older GPU");
    }

    /// Of rows of 65 words, which share sectors, the 35 million of a layer took 0.256 ms so, instead of 0.233
    /// (`benchmarks/2026-11-29-gpu-long-jobs-first.md`).
    #[test]
    fn long_jobs_come_first_where_the_cache_keeps_what_passes_share() {
        let come_first = |batch: usize, extent: usize, target: Target| {
            let layer = ConvTranspose2d::builder(512, 512, [3, 3]).stride([2, 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(batch, 512, [extent, extent])).unwrap().to_compute();
            let task = Task::new(problem, Precision::Tf32, target);
            let ways = ways(Algorithm::Tile, &task).unwrap();
            ways.iter().any(|(_, recipe)| recipe.description.contains("long jobs first"))
        };
        assert!(come_first(4, 16, Target::EMULATED));
        assert!(!come_first(16, 32, Target::EMULATED));
        assert!(!come_first(4, 16, Target::EMULATED_OLDER), "kernels that are compiled for any layer");
    }

    /// Pictures of 4 by 4 took 0.0179 and 0.0251 ms so, instead of 0.0252 and 0.0373
    /// (`benchmarks/2026-11-28-gpu-short-rows.md`).
    #[test]
    fn threads_copy_the_shortest_rows() {
        let in_boxes = |extent: usize, precision: Precision| {
            let layer = ConvTranspose2d::builder(192, 192, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
            let problem = layer.problem(Shape::batched(128, 192, [extent, extent])).unwrap().to_compute();
            recipe(&Task::new(problem, precision, Target::EMULATED)).unwrap().description.contains("in boxes")
        };
        for precision in [Precision::Tf32, Precision::F32] {
            assert!(!in_boxes(4, precision), "{precision:?}");
            assert!(in_boxes(16, precision), "{precision:?}");
        }
    }

    /// The cheapest way to compute a problem.
    fn parts_of(problem: Problem<3>, precision: Precision) -> Vec<Part> {
        let task = Task::new(problem, precision, Target::EMULATED);
        cheapest_parts(&task, &candidates(&task).unwrap()).unwrap()
    }

    /// Of problem 69, 32 channels at a time took 2.69 ms, 16 at a time, stored in boxes, 2.34: its runs of nine slabs
    /// are chunks of nine (`benchmarks/2026-11-28-gpu-walks.md`).
    #[test]
    fn chunks_have_room_for_all_of_a_run() {
        let layer = ConvTranspose2d::builder(64, 128, [3, 5]).build().unwrap();
        let problem = layer.problem(Shape::batched(64, 64, [128, 256])).unwrap().to_compute();
        let parts = parts_of(problem, Precision::F32);
        assert!(parts[0].layout.cut.stage_channels() == 16 && parts[0].tables.shared.boxed, "{}", parts[0].layout);
    }

    /// Of a layer with few output channels, eight channels at a time took 0.0087 ms, 16 at a time 0.0114: runs walk then
    /// (`benchmarks/2026-11-28-gpu-walks.md`).
    #[test]
    fn stages_of_one_block_of_channels_have_fewer_runs() {
        let layer = ConvTranspose1d::builder(48, 16, [16]).stride([2]).padding([7]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 48, [500])).unwrap().to_compute();
        let parts = parts_of(problem, Precision::F32);
        assert_eq!(parts[0].layout.cut.stage_channels(), 8, "{}", parts[0].layout);
    }

    #[test]
    fn regions_leave_rows_whole_where_that_is_cheaper() {
        let divides_rows = |batch: usize, channels: [usize; 2], input: [usize; 3], kernel: [usize; 3]| {
            let layer = ConvTranspose3d::builder(channels[0], channels[1], kernel).build().unwrap();
            let problem = layer.problem(Shape::batched(batch, channels[0], input)).unwrap().to_compute();
            let parts = parts_of(problem, Precision::Tf32);
            assert!(parts.len() > 1);
            !parts[0].layout.region.is_last[2]
        };
        assert!(divides_rows(8, [48, 48], [64; 3], [3; 3]), "66 positions of a row: problem 61");
        assert!(!divides_rows(16, [32, 16], [16, 32, 64], [3, 5, 7]), "70 of a row: problem 58");
    }

    #[test]
    fn teams_store_in_turn_what_goes_out_at_once() {
        let in_turn = |batch: usize, channels: usize, width: usize, precision: Precision, target: Target| {
            let layer = ConvTranspose2d::builder(channels, channels, [3, 3]).build().unwrap();
            let problem = layer.problem(Shape::batched(batch, channels, [512, width])).unwrap().to_compute();
            recipe(&Task::new(problem, precision, target)).unwrap().description.contains("stored in turn")
        };
        assert!(in_turn(8, 32, 1024, Precision::Tf32, Target::EMULATED));
        assert!(in_turn(8, 32, 1024, Precision::F32, Target::EMULATED));
        assert!(in_turn(8, 64, 1024, Precision::F32, Target::EMULATED), "six times the products");
        assert!(!in_turn(8, 32, 1023, Precision::Tf32, Target::EMULATED), "odd rows, which are staged");
        assert!(!in_turn(1, 32, 64, Precision::Tf32, Target::EMULATED), "one job for each block");
        assert!(!in_turn(8, 32, 1024, Precision::Tf32, Target::EMULATED_OLDER), "an older GPU");
    }

    #[test]
    fn all_of_the_input_is_packed_or_nothing() {
        let reads_packed = |channels: usize, [kernel, stride]: [usize; 2], extent: usize| {
            let layer = ConvTranspose2d::builder(channels, channels, [kernel; 2]).stride([stride; 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(8, channels, [extent; 2])).unwrap().to_compute();
            let recipe = recipe(&Task::new(problem, Precision::Tf32, Target::EMULATED)).unwrap();
            let reads = |launch: &Launch| launch.arguments.iter().any(|argument| matches!(argument, PackedInput));
            recipe.launches.iter().map(|launch| (launch.kernel, reads(launch))).collect::<Vec<_>>()
        };
        let large = reads_packed(64, [3, 1], 1024);
        assert!(large.len() > 1 && large.iter().all(|(_, reads)| !reads), "{large:?}");
        let many_channels = reads_packed(1024, [2, 2], 28);
        assert_eq!(many_channels[..2], input::packers(false).map(|kernel| (kernel, true)), "{many_channels:?}");
        assert!(many_channels[2].1);
    }

    #[test]
    fn teams_keep_what_they_have_found_if_there_is_room() {
        let found = |layer: ConvTranspose2d, [y, x]: [usize; 2]| {
            let problem = layer.problem(Shape::batched(2, 16, [y, x])).unwrap().to_compute();
            let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
            let parts = choice::several(&task, &candidates(&task).unwrap(), usize::MAX);
            let found = parts.iter().map(|Part { layout, tables, .. }| {
                let has_all_biases = tables.shared.bias_words == layout.all_biases();
                (layout.passes(), tables.shared.line_tables as usize, has_all_biases)
            });
            found.collect::<Vec<_>>()
        };
        let builder = |out, stride| ConvTranspose2d::builder(16, out, [3; 2]).stride([stride; 2]);
        let few_passes = found(builder(32, 3).groups(4).build().unwrap(), [64; 2]);
        let have_all = |(passes, tables, all): &(usize, usize, bool)| *tables == passes.next_power_of_two() && *all;
        assert!(few_passes.iter().any(|found| found.0 > 1 && have_all(found)));
        let many_passes = found(builder(16, 7).build().unwrap(), [32; 2]);
        assert!(many_passes.iter().any(|(passes, ..)| *passes > 8));
        for (passes, tables, _) in few_passes.into_iter().chain(many_passes) {
            assert!(tables == 1 || passes <= 8 && tables == passes.next_power_of_two());
        }
        let many_channels = found(builder(2048, 1).build().unwrap(), [32; 2]);
        assert!(many_channels.iter().all(|(.., all)| !all), "more than are kept");
    }

    /// All cuts of a layer whose tiles are few.
    fn cuts_of_few_tiles(kernel: usize) -> Vec<Part> {
        let layer = ConvTranspose2d::builder(256, 8, [kernel; 2]).stride([2; 2]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 256, [4, 4])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
        choice::several(&task, &candidates(&task).unwrap(), usize::MAX)
    }

    #[test]
    fn passes_without_taps_have_no_partners() {
        let has_partners = |part: &Part| part.layout.cut.partners > 1;
        assert!(cuts_of_few_tiles(2).iter().any(has_partners));
        assert!(!cuts_of_few_tiles(1).iter().any(|part| has_partners(part) && !part.layout.all_passes_have_taps()));
    }

    #[test]
    fn products_of_partners_lie_where_nothing_is_needed_any_more() {
        let (mut in_rings, mut behind) = (0, 0);
        for part in cuts_of_few_tiles(2).iter().filter(|part| part.layout.cut.partners > 1) {
            let (shared, bytes) = (part.tables.shared, part.layout.products_bytes());
            let products = shared.products_start..shared.products_start + bytes;
            assert!(products.end <= shared.total, "{}", part.layout);
            let output_end = shared.output_start + tile::TEAMS * shared.output_bytes;
            if products.start < shared.lines_start {
                assert!(products.start >= shared.input_start && products.end <= shared.lines_start, "{}", part.layout);
                in_rings += 1;
            } else {
                assert!(products.start >= output_end, "{}", part.layout);
                behind += 1;
            }
        }
        assert!(in_rings > 0 && behind > 0, "{in_rings} in rings, {behind} behind all else");
    }

    /// Where the slots of such cuts begin is not counted in 32 bits.
    #[test]
    fn slots_may_lie_far_beyond_the_output() {
        let layer = ConvTranspose1d::builder(9, 24, [5]).stride([1 << 30]).build().unwrap();
        let problem = layer.problem(Shape::batched(3, 9, [1])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
        let cuts = choice::several(&task, &candidates(&task).unwrap(), usize::MAX);
        assert!(cuts.iter().any(|part| part.layout.cut.variant.slots == 8));
    }
}
