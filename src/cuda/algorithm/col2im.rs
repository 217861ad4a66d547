//! `col2im`: a matrix product of the input with all taps at once, and a kernel that sums up what reaches each output
//! element.
//!
//! Tensor cores multiply eight output channels at least, so tiles of one channel waste seven eighths of each tap's
//! product. Taken as channels of a layer with one tap, the taps of all channels fill the columns of a single product.
//! What that costs is memory for these, the columns, which are written once and read once.

use super::{Algorithm, Implementation, Task, tile};
use crate::{
    Precision, Problem,
    cuda::{
        error::Unsupported,
        parameters::{Parameters, check_grid, check_limits, gather_threads},
        recipe::{
            Argument::{self, Bias, Columns, Output},
            Launch, Recipe, Table,
        },
    },
};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Col2im,
    repeatable: true,
    worth,
    only_if_worth: true,
    kernels: |precision, target| [&tile::kernels(precision, target)[..], &[KERNEL]].concat(),
    recipe,
    others: |_| Vec::new(),
};

const KERNEL: &str = "col2im";

/// Few output channels, of which tensor cores multiply no more than up to 26 in the same time, or inputs so small that
/// tiles multiply zeros for the most part, or so few columns that the cache has room for most of them: with few
/// positions, tiles are too few for all multiprocessors, which columns are not. Some input channels to sum up, and some
/// taps; and memory for the columns within reason. The model decides among these. On ordinary cores it was not measured.
fn worth(task: &Task) -> bool {
    const MOST_CHANNELS: usize = 32;
    const MOST_INSIDE: f64 = 0.5;
    const LEAST_INPUTS: usize = 4;
    const LEAST_TAPS: usize = 4;
    const MOST_COLUMNS: usize = 1 << 28;
    /// 64 MiB, of which the L2 cache of an H200 has room for most. Whether it pays with more was not measured.
    const FEW_COLUMNS: usize = 1 << 24;
    let taps: usize = task.problem.most_taps().iter().product();
    let columns = columns(task).map_or(usize::MAX, |problem| problem.output_shape().len());
    let problem = &task.problem;
    let few = columns <= FEW_COLUMNS || problem.out_channels_per_group() <= MOST_CHANNELS;
    let is_for_it = || few || task.share_inside() <= MOST_INSIDE;
    let sums_up = problem.in_channels_per_group() >= LEAST_INPUTS && taps >= LEAST_TAPS;
    let is_possible =
        task.target.tensor_cores && sums_up && columns <= MOST_COLUMNS && check_limits(&task.problem).is_ok();
    is_possible && is_for_it() && task.taps_are_mostly_inside()
}

/// The matrix product.
fn columns(task: &Task) -> Result<Problem<3>, Unsupported> {
    task.problem.columns().map_err(|_| {
        let elements: u128 = task.problem.weight_shape().len() as u128 * task.problem.input_shape().len() as u128;
        Unsupported::TooLarge { what: "the number of products", value: elements, limit: isize::MAX as u128 }
    })
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    check_limits(&task.problem)?;
    check_grid(gather_threads(&task.problem))?;
    let product = Task::new(columns(task)?, task.precision, task.target);
    let mut recipe = tile::recipe(&product)?;
    for argument in recipe.launches.iter_mut().flat_map(|launch| &mut launch.arguments) {
        match argument {
            Output => *argument = Columns,
            Bias => *argument = Argument::value(&0u64),
            _ => {}
        }
    }
    recipe.columns_len = product.problem.output_shape().len();
    let Parameters { problem, phases } = Parameters::new(&task.problem);
    let kernel = if task.wide || product.wide { "col2im_wide" } else { KERNEL };
    let arguments = vec![Argument::value(&problem), Argument::Table(recipe.tables.len()), Columns, Bias, Output];
    recipe.tables.push(Table::new(&phases));
    let sum_up = Launch::per_element(kernel, problem.gather_threads, arguments);
    recipe.launches.push(Launch { gains_from_constants: true, ..sum_up });
    recipe.cycles =
        recipe.cycles.map(|cycles| clearly(task.precision) * (cycles + summing_up(task, recipe.columns_len)));
    Ok(recipe)
}

/// How many times as fast as others it has to be by the models, as these are not exact, in TF32 even less.
fn clearly(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 1.2,
        Precision::Tf32 => 1.25,
    }
}

/// Cycles that it takes to sum up the columns. Fitted to 346 layers and precisions on an H200
/// (`benchmarks/2026-11-30-gpu-uneven-shares.md`): what the model chooses of this and tiles takes 1.4 % longer than the
/// faster one of them, on average.
fn summing_up(task: &Task, columns: usize) -> f64 {
    const LAUNCH: f64 = 4400.0;
    /// Bytes of columns per cycle for each multiprocessor.
    const BYTES: f64 = 20.0;
    /// Output elements in the same time.
    const OUTPUTS: f64 = 0.54;
    let outputs = task.problem.output_shape().len() as f64;
    LAUNCH + (4.0 * columns as f64 / BYTES + outputs / OUTPUTS) / f64::from(task.target.multiprocessors)
}
