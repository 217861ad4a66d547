//! The tile kernels: implicit matrix products on tensor cores.

mod choice;
mod groups;
mod halves;
mod layout;
mod tables;

use conv_transpose_kernels::tile;

use super::{Algorithm, Implementation, Target, Task, fill};
use crate::Precision;
use crate::cuda::{
    error::Unsupported,
    parameters::{Parameters, check_limits},
    recipe::{
        Argument::{self, Bias, Input, Output, PackedWeight, Weight},
        Launch, Recipe, Table,
    },
};
use layout::Layout;
use tables::Tables;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Tile,
    repeatable: true,
    worth: Task::taps_are_mostly_inside,
    kernels,
    recipe,
    others,
};

/// The most cuts that are measured besides the cheapest one.
const MOST_OTHERS: usize = 15;

fn kernels(precision: Precision, target: &Target) -> Vec<&'static str> {
    if !target.tensor_cores {
        return Vec::new();
    }
    let tiles = choice::variants(precision, target).map(|variant| variant.kernel);
    tiles.chain([pack_kernel(precision == Precision::F32), fill::KERNEL]).collect()
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    if !task.target.tensor_cores {
        return Err(Unsupported::NoTensorCores);
    }
    check_limits(&task.problem)?;
    let (layout, tables) = choice::cut(task)?;
    Ok(recipe_for(task, &layout, &tables))
}

/// The recipes of the next cheapest cuts.
fn others(task: &Task) -> Vec<Recipe> {
    let cuts = choice::cuts_that_fit(task).into_iter().flatten().skip(1).take(MOST_OTHERS);
    cuts.map(|(layout, tables)| recipe_for(task, &layout, &tables)).collect()
}

/// The kernel that packs the weight, for factors that are split in two or not.
fn pack_kernel(split: bool) -> &'static str {
    if split { "pack_split" } else { "pack_tf32" }
}

/// Writes the biases of what has no taps, and of all else, which is written again.
fn fill_first(task: &Task) -> Launch {
    fill::launch(task, &Parameters::new(&task.problem).problem)
}

fn recipe_for(task: &Task, layout: &Layout, tables: &Tables) -> Recipe {
    let packing = tables.packing(&task.problem, layout);
    let split = layout.cut.variant.split;
    let pack = Launch::per_element(
        pack_kernel(split),
        packing.words.into(),
        vec![Argument::value(&packing), Argument::Table(1), Weight, PackedWeight],
    );
    let workers = layout.jobs(task.problem.groups()).min(task.target.multiprocessors.into()) as u32;
    let compute = Launch {
        kernel: layout.cut.variant.kernel,
        blocks: workers,
        threads: tile::THREADS,
        shared_bytes: tables.shared.total,
        gains_from_constants: true,
        arguments: vec![
            Argument::value(&tables.tiling(&task.problem, layout, workers)),
            Argument::Table(0),
            Input,
            Argument::TensorMaps([
                layout.input_boxes(&task.problem),
                tables.shared.boxed.then(|| layout.output_boxes(&task.problem)),
            ]),
            PackedWeight,
            Bias,
            Output,
        ],
    };
    Recipe {
        tables: vec![Table::new(&tables.rows), Table::new(&tables.slabs)],
        packed_len: packing.words as usize * if split { 2 } else { 1 },
        pack: if packing.words > 0 { vec![pack] } else { Vec::new() },
        description: format!("{layout}{}", if tables.shared.boxed { ", stored in boxes" } else { "" }),
        launches: if layout.fills_first() { vec![fill_first(task), compute] } else { vec![compute] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose1d, ConvTranspose3d, Shape};

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
        assert!(!stored_in_boxes(3, 1 << 16, Target { large_tiles: false, ..Target::EMULATED }), "an older GPU");
    }

    /// Where the slots of such cuts begin is not counted in 32 bits.
    #[test]
    fn slots_may_lie_far_beyond_the_output() {
        let layer = ConvTranspose1d::builder(9, 24, [5]).stride([1 << 30]).build().unwrap();
        let problem = layer.problem(Shape::batched(3, 9, [1])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
        let cuts = choice::cuts_that_fit(&task).unwrap();
        assert!(cuts.map(|(layout, _)| layout.cut.variant.slots).any(|slots| slots == 8));
    }
}
