//! The flat kernels: layers of stride 1 on the tensor cores of compute capability 9.0.
//!
//! `positions.rs` lays the positions of a sample out along one axis, `cut.rs` says what is open when they are divided
//! into tiles, `parts.rs` what is staged together and multiplied, `cost.rs` what that is estimated to take, `packed.rs`
//! how the input is packed for it. The cheapest cut that fits is taken.

mod cost;
mod cut;
mod packed;
mod parts;
mod positions;

use std::collections::HashSet;

use conv_transpose_kernels::{
    Divisor,
    flat::{self, CHANNELS, Flat, Variant},
    tile::{Packing, WEIGHT_HEADER},
};

use super::{Algorithm, Implementation, Target, Task, gather, tile};
use crate::{
    Precision,
    cuda::{
        error::Unsupported,
        parameters::check_limits,
        recipe::{
            Argument::{self, Bias, Output, PackedInput, PackedWeight},
            Launch, Recipe, Table,
        },
    },
};
use cut::{Cut, Divided, Layout};
use packed::Packed;
use positions::Positions;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Flat,
    repeatable: true,
    worth: is_worth_it,
    only_if_worth: true,
    kernels,
    recipe,
    others,
};

/// The most cuts that are measured besides the cheapest one.
const MOST_OTHERS: usize = 7;

fn kernels(precision: Precision, target: &Target) -> Vec<&'static str> {
    if !target.large_tiles {
        return Vec::new();
    }
    let split = precision.splits_factors();
    let kernels = variants(precision).map(|variant| variant.kernel);
    kernels.chain([tile::WEIGH, tile::pack_f16(split)]).chain(packed::packers(split)).collect()
}

/// The kernels for a precision.
fn variants(precision: Precision) -> impl Iterator<Item = &'static Variant> {
    flat::VARIANTS.iter().filter(move |variant| variant.split == precision.splits_factors())
}

/// A product of matrices with one tap has nothing that taps have in common. Where most taps lie outside of the input,
/// `gather` may be faster, which leaves them out.
fn is_worth_it(task: &Task) -> bool {
    let has_taps = task.problem.most_taps().iter().product::<usize>() > 1;
    let is_fastest = || {
        let candidates = candidates(task).unwrap_or_default();
        candidates.first().is_some_and(|(cycles, _)| *cycles < gather::cycles_of_taps_inside(task))
    };
    can_implement(task).is_ok()
        && has_taps
        && takes_little_memory(task)
        && (task.taps_are_mostly_inside() || is_fastest())
}

/// Whether the packed input is smaller than twice input and output, which it is not where groups have few channels, or
/// taps are so far apart that most positions are zero.
fn takes_little_memory(task: &Task) -> bool {
    let problem = &task.problem;
    let channels = problem.groups() * problem.in_channels_per_group().next_multiple_of(CHANNELS as usize);
    let Some(positions) = Positions::new(problem.axes(), [1; 3]) else { return false };
    let bytes = f64::from(2 * flat::parts_of_factor(task.precision.splits_factors()));
    let packed = bytes * problem.batch() as f64 * channels as f64 * f64::from(positions.read);
    let [input, output] = [problem.input_shape(), problem.output_shape()].map(|shape| 4.0 * shape.len() as f64);
    packed <= 2.0 * (input + output)
}

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    let problem = &task.problem;
    if !task.target.large_tiles {
        return Err(Unsupported::Hopper);
    }
    // One input element with several taps counts as an axis of as large a stride: see `Problem::simplified`.
    let strides = problem.axes().iter().map(|axis| ("a stride, or the taps of a single input", axis.stride as u128, 1));
    let indices = [("the number of elements", if task.wide { 1 << 31 } else { 0 }, (1 << 31) - 1)];
    for (what, value, limit) in strides.chain(indices) {
        if value > limit {
            return Err(Unsupported::TooLarge { what, value, limit });
        }
    }
    check_limits(problem)
}

/// A layout, and what it is estimated to take.
type Candidate = (f64, Layout);

/// The layouts that fit, the cheapest first. Of those that are the same there is one.
fn candidates(task: &Task) -> Result<Vec<Candidate>, Unsupported> {
    can_implement(task)?;
    let layouts = Cut::all(task).into_iter().filter_map(|cut| Layout::new(task, cut));
    let mut candidates: Vec<_> = layouts.map(|layout| (cost::cycles(task, &layout), layout)).collect();
    candidates.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut descriptions = HashSet::new();
    candidates.retain(|(_, layout)| descriptions.insert((layout.cut.variant.kernel, layout.to_string())));
    Ok(candidates)
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    let candidates = candidates(task)?;
    let cheapest = candidates.first().ok_or(Unsupported::NoTile)?;
    Ok(recipe_for(task, cheapest))
}

/// The recipes of the next cheapest layouts, and of the cheapest one of each kind.
fn others(task: &Task) -> Vec<Recipe> {
    let candidates = candidates(task).unwrap_or_default();
    let largest = variants(task.precision).max_by_key(|variant| variant.positions);
    let kinds: [&dyn Fn(&Cut) -> bool; 7] = [
        &|cut| cut.all_joined() == 2,
        &|cut| cut.all_joined() > 2,
        &|cut| cut.joined_along_x > 1,
        &|cut| cut.rows() > 1,
        &|cut| cut.divided == Divided::Channels,
        &|cut| cut.axis == 0,
        &|cut| Some(cut.variant) == largest,
    ];
    let mut numbers: Vec<usize> = (1..candidates.len().min(1 + MOST_OTHERS)).collect();
    for is_such in kinds {
        numbers.extend(candidates.iter().position(|(_, layout)| is_such(&layout.cut)));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().filter(|&&number| number > 0).map(|&number| recipe_for(task, &candidates[number])).collect()
}

fn recipe_for(task: &Task, (cycles, layout): &Candidate) -> Recipe {
    let (packing, split) = (packing(task, layout), layout.cut.variant.split);
    let input = Packed::new(&task.problem, layout);
    Recipe {
        tables: vec![Table::new(&layout.parts.rows()), Table::new(&layout.parts.slabs)],
        packed_len: WEIGHT_HEADER as usize + (layout.cut.parts_of_factor() * packing.words) as usize,
        input_len: input.len(),
        pack: tile::pack_as_f16(task, split, &packing, 1),
        description: layout.to_string(),
        cycles: Some(*cycles),
        launches: input.pack(&task.problem, layout).into_iter().chain([compute(task, layout, &input)]).collect(),
        ..Recipe::default()
    }
}

/// The launch that computes. It may begin while the input is packed, and waits for that.
fn compute(task: &Task, layout: &Layout, input: &Packed) -> Launch {
    let parameters = parameters(task, layout, input);
    let arguments = vec![Argument::value(&parameters), Argument::Table(0), PackedInput, PackedWeight, Bias, Output];
    Launch {
        blocks: [parameters.blocks, 1],
        threads: flat::THREADS,
        shared_bytes: layout.shared.total,
        beside: true,
        ..Launch::per_element(layout.cut.variant.kernel, 0, arguments)
    }
}

/// How the weight is packed: residues share the columns as phases do.
fn packing(task: &Task, layout: &Layout) -> Packing {
    let problem = &task.problem;
    let columns = layout.cut.columns();
    let slabs = u64::from(layout.slabs()) * u64::from(layout.channel_blocks);
    let tiles = problem.groups() as u64 * u64::from(layout.channel_tiles);
    Packing {
        stage_slabs: Divisor::new(layout.slabs().into()),
        stages: Divisor::new(layout.channel_blocks.into()),
        channel_tiles: Divisor::new(layout.channel_tiles.into()),
        slab_words: Divisor::new(u64::from(8 * columns)),
        column_phases: Divisor::new(layout.cut.all_joined().into()),
        in_channels: problem.in_channels() as u64,
        close_channels: 0,
        pair_distance: 1,
        in_per_share: problem.in_channels_per_group() as u32,
        out_per_group: problem.out_channels_per_group() as u32,
        stage_channels: CHANNELS,
        taps: problem.taps() as u32,
        tile_channels: layout.tile_channels,
        words: (tiles * slabs) as u32 * 8 * columns,
    }
}

fn parameters(task: &Task, layout: &Layout, packed: &Packed) -> Flat {
    let (problem, positions, shared) = (&task.problem, &layout.positions, &layout.shared);
    let axes = problem.axes();
    let output = axes.each_ref().map(|axis| axis.output as u32);
    let divisor = |value: u32| Divisor::new(value.into());
    let residues = layout.cut.residues();
    let jobs = layout.jobs(problem) as u32;
    Flat {
        row: divisor(positions.row),
        slice: divisor(positions.slice),
        tiles: divisor(layout.tiles),
        channel_tiles: divisor(layout.channel_tiles),
        groups: divisor(problem.groups() as u32),
        stretch: divisor(layout.parts.stretch),
        output,
        residues,
        residue_step: if residues[0] > 1 { output[1] * output[2] } else { output[2] },
        plane: layout.plane,
        input_header: packed.header() as u32,
        output_plane: output.iter().product(),
        out_per_group: problem.out_channels_per_group() as u32,
        jobs,
        joined: layout.cut.all_joined().ilog2(),
        tile_channels: layout.tile_channels,
        tile_positions: layout.cut.tile_positions(),
        divides_channels: (layout.cut.divided == Divided::Channels).into(),
        divides_residues: (layout.cut.divided == Divided::Residues).into(),
        channel_blocks: layout.channel_blocks,
        parts: layout.parts.parts.len() as u32,
        slabs: layout.slabs(),
        slab_bytes: layout.cut.slab_bytes(),
        tap_step: layout.parts.tap_step,
        ring: shared.ring,
        plane_bytes: shared.plane_bytes,
        stage_bytes: shared.stage_bytes,
        weight_start: shared.weight_start,
        stages_start: shared.stages_start,
        table_rows: layout.parts.table_rows(),
        first_run_row: layout.parts.first_run_row(),
        blocks: jobs.min(task.target.multiprocessors),
    }
}
