//! The patch kernels: layers whose kernel reaches no further than their stride, on the tensor cores of compute capability
//! 9.0.
//!
//! `layout.rs` says what is open when such a layer is divided into tiles, `cost.rs` what that is estimated to take. The
//! cheapest layout that fits is taken.

mod cost;
mod layout;

use conv_transpose_kernels::{
    Divisor,
    patch::{self, CHANNELS, Patch, Variant},
    tile::{Packing, Slab, WEIGHT_HEADER},
};

use super::{Algorithm, Implementation, Target, Task, tile};
use crate::{
    Axis, Precision, Problem,
    cuda::{
        error::Unsupported,
        parameters::check_limits,
        recipe::{
            Argument::{self, Bias, Input, Output, PackedWeight},
            Launch, Recipe, Table,
        },
    },
};
use layout::Layout;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Patch,
    repeatable: true,
    worth: |_| true,
    only_if_worth: false,
    kernels,
    recipe,
    others,
};

/// Input channels of a slab of the packed weight.
const SLAB_CHANNELS: u32 = 2 * CHANNELS;

fn kernels(precision: Precision, target: &Target) -> Vec<&'static str> {
    if !target.large_tiles {
        return Vec::new();
    }
    variants(precision)
        .map(|variant| variant.kernel)
        .chain([tile::WEIGH, tile::pack_f16(precision.splits_factors())])
        .collect()
}

/// The kernels for a precision.
fn variants(precision: Precision) -> impl Iterator<Item = &'static Variant> {
    patch::VARIANTS.iter().filter(move |variant| variant.split == precision.splits_factors())
}

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    let problem = &task.problem;
    if !task.target.large_tiles {
        return Err(Unsupported::Hopper);
    }
    let [z, y, x] = problem.axes();
    let has_patches = [z, y, x].into_iter().all(makes_patches);
    // Of no samples there are no rows, whatever they would be.
    let has_aligned_rows = problem.batch() == 0 || x.input.is_multiple_of(2) && input_plane(problem).is_multiple_of(4);
    if !has_patches || !has_aligned_rows {
        return Err(Unsupported::NoPatches);
    }
    if task.wide {
        return Err(Unsupported::TooLarge { what: "the number of elements", value: 1 << 31, limit: (1 << 31) - 1 });
    }
    check_limits(problem)
}

/// Whether each input position makes a patch of its own along an axis, and nothing else is in the output: elements of a
/// patch that no tap reaches are, up to those of the last position.
fn makes_patches(axis: &Axis) -> bool {
    let reach = (axis.kernel - 1).saturating_mul(axis.dilation);
    let has_all = axis.pad_begin == 0 && axis.input.checked_mul(axis.stride) == Some(axis.output);
    reach < axis.stride && axis.stride.is_power_of_two() && has_all
}

/// Elements of an input channel.
fn input_plane(problem: &Problem<3>) -> usize {
    problem.axes().iter().map(|axis| axis.input).product()
}

/// The layouts that fit, with what they are estimated to take, the cheapest first.
fn candidates(task: &Task) -> Result<Vec<(f64, Layout)>, Unsupported> {
    can_implement(task)?;
    let mut candidates: Vec<_> =
        Layout::all(task).into_iter().map(|layout| (cost::cycles(task, &layout), layout)).collect();
    candidates.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(candidates)
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    let candidates = candidates(task)?;
    let cheapest = candidates.first().ok_or(Unsupported::NoTile)?;
    Ok(recipe_for(task, cheapest))
}

/// The recipes of all other layouts.
fn others(task: &Task) -> Vec<Recipe> {
    candidates(task).unwrap_or_default().iter().skip(1).map(|candidate| recipe_for(task, candidate)).collect()
}

fn recipe_for(task: &Task, (cycles, layout): &(f64, Layout)) -> Recipe {
    let packing = packing(&task.problem, layout);
    let parameters = parameters(&task.problem, layout);
    let arguments = vec![Argument::value(&parameters), Input, PackedWeight, Bias, Output];
    let compute = Launch {
        blocks: [layout.blocks, 1],
        threads: patch::THREADS,
        shared_bytes: layout.shared_bytes(),
        beside: true,
        ..Launch::per_element(layout.tile.variant.kernel, 0, arguments)
    };
    Recipe {
        tables: vec![Table::new(&slabs(&task.problem))],
        packed_len: WEIGHT_HEADER as usize + (layout.tile.parts() * packing.words) as usize,
        pack: tile::pack_as_f16(task, task.precision.splits_factors(), &packing, 0),
        description: layout.to_string(),
        cycles: Some(*cycles),
        launches: vec![compute],
        ..Recipe::default()
    }
}

/// Elements of a patch; more than a `u32` holds are more than any tile has room for.
fn elements(problem: &Problem<3>) -> u32 {
    let elements = problem.axes().iter().fold(1, |product: usize, axis| product.saturating_mul(axis.stride));
    elements.try_into().unwrap_or(u32::MAX)
}

/// For each element of a patch, which is a phase along each axis, the tap that reaches it.
fn slabs(problem: &Problem<3>) -> Vec<Slab> {
    let [z, y, x] = problem.axes().each_ref().map(Axis::phases);
    let [_, rows, columns] = problem.axes().each_ref().map(|axis| axis.kernel);
    let mut slabs = Vec::new();
    for z in &z {
        for y in &y {
            for x in &x {
                let is_reached = z.taps > 0 && y.taps > 0 && x.taps > 0;
                let tap = (z.first_tap * rows + y.first_tap) * columns + x.first_tap;
                let tap = if is_reached { tap as u32 } else { Slab::NO_TAP };
                slabs.push(Slab { taps: [tap; 2], channels: [0, CHANNELS] });
            }
        }
    }
    slabs
}

/// How the weight is packed: the elements of a patch share the columns as phases do.
fn packing(problem: &Problem<3>, layout: &Layout) -> Packing {
    let slab_words = layout.tile.rows() * CHANNELS;
    Packing {
        stage_slabs: Divisor::new(1),
        stages: Divisor::new(layout.slabs().into()),
        channel_tiles: Divisor::new(layout.channel_tiles.into()),
        slab_words: Divisor::new(slab_words.into()),
        column_phases: Divisor::new(elements(problem).into()),
        in_channels: problem.in_channels() as u64,
        close_channels: 0,
        pair_distance: 1,
        in_per_share: problem.in_channels_per_group() as u32,
        out_per_group: problem.out_channels_per_group() as u32,
        stage_channels: SLAB_CHANNELS,
        taps: problem.taps() as u32,
        tile_channels: layout.tile_channels,
        words: layout.weight_tiles * layout.slabs() * slab_words,
    }
}

fn parameters(problem: &Problem<3>, layout: &Layout) -> Patch {
    let axes = problem.axes();
    let [_, y, x] = axes.each_ref().map(|axis| axis.input as u64);
    let [output_z, output_y, output_x] = axes.each_ref().map(|axis| axis.output as u32);
    Patch {
        sample: Divisor::new(input_plane(problem) as u64),
        slice: Divisor::new(y * x),
        row: Divisor::new(x),
        weight_tiles: Divisor::new(layout.weight_tiles.into()),
        channel_tiles: Divisor::new(layout.channel_tiles.into()),
        stretch_tiles: Divisor::new(layout.stretch_tiles.max(1).into()),
        stretch: layout.stretch,
        extents: axes.each_ref().map(|axis| axis.stride.ilog2()),
        output_row: output_x,
        output_slice: output_y * output_x,
        output_plane: output_z * output_y * output_x,
        out_channels: problem.out_channels() as u32,
        out_per_group: problem.out_channels_per_group() as u32,
        in_channels: problem.in_channels() as u32,
        in_per_group: problem.in_channels_per_group() as u32,
        tile_channels: layout.tile_channels,
        tile_positions: layout.tile.positions(),
        chunks: layout.chunks,
        chunk_blocks: layout.tile.chunk_blocks(),
        ring: layout.ring,
        keeps_weights: layout.keeps_weights.into(),
        has_all: layout.has_all(problem).into(),
        block_bytes: layout.tile.block_bytes(),
        slab_bytes: layout.tile.slab_bytes(),
        chunk_bytes: layout.tile.chunk_bytes(),
        weights_start: layout.weights_start(),
        jobs: layout.jobs,
        blocks: layout.blocks,
    }
}
