//! The gather kernel: one thread per output element. It is also the fastest one for most of what takes a few
//! microseconds: it has the most threads, and compiled for its layer, each of them has what it loads under way at once,
//! if products are few.

use super::{Algorithm, BYTES, ISSUE, Implementation, Task};
use crate::{
    Axis,
    cuda::{
        error::Unsupported,
        parameters::{Parameters, check_grid, check_limits, few_products, gather_threads},
        recipe::{
            Argument::{self, Bias, Input, Output, Weight},
            Launch, Recipe, Table,
        },
    },
};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Gather,
    repeatable: true,
    worth: |_| true,
    only_if_worth: false,
    kernels: |_, _| vec!["gather"],
    recipe,
    others: |_| Vec::new(),
};

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    check_limits(&task.problem)?;
    check_grid(gather_threads(&task.problem))
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    can_implement(task)?;
    let Parameters { problem, phases } = Parameters::new(&task.problem);
    let kernel = if task.wide { "gather_wide" } else { "gather" };
    let arguments = vec![Argument::value(&problem), Argument::Table(0), Input, Weight, Bias, Output];
    let gather =
        Launch { gains_from_constants: true, ..Launch::per_element(kernel, problem.gather_threads, arguments) };
    let cycles = cycles_if_small(task);
    Ok(Recipe { tables: vec![Table::new(&phases)], launches: vec![gather], cycles, ..Recipe::default() })
}

/// The most cycles that are compared with those of other algorithms: what takes longer is not what the model was fitted
/// to.
const MOST_CYCLES: f64 = 20_000.0;

/// Whether a small layer takes fewer cycles than these.
pub(super) fn takes_less_than(task: &Task, cycles: f64) -> bool {
    cycles_if_small(task).is_some_and(|own| own < cycles)
}

/// What the model expects, if that is a few microseconds, on GPUs like the one that it was fitted to.
fn cycles_if_small(task: &Task) -> Option<f64> {
    Some(expected_cycles(task)).filter(|&cycles| task.target.tensor_cores && cycles <= MOST_CYCLES)
}

/// What the model expects of the kernel that is compiled for its layer.
fn expected_cycles(task: &Task) -> f64 {
    cycles(task, |axis| [axis.most_taps() as f64, axis.kernel as f64 / axis.stride as f64])
}

/// What the model expects where most taps lie outside of the input: threads leave these out, if there are many.
pub(super) fn cycles_of_taps_inside(task: &Task) -> f64 {
    cycles(task, |axis| {
        let reached = axis.input.div_ceil(axis.input_step()).min(axis.most_taps());
        [reached as f64, axis.input as f64 * axis.kernel as f64 / axis.output as f64]
    })
}

/// That, by the taps of an output along each axis that threads do not leave out: the most, and those on average.
fn cycles(task: &Task, taps: impl Fn(&Axis) -> [f64; 2]) -> f64 {
    match few_products(&task.problem) {
        Some(products) => cycles_of_few(task, products),
        None => cycles_of_many(task, taps),
    }
}

/// With all that an element needs under way at once: what it takes until it is there, and what all of them keep a
/// multiprocessor busy for. The constants were fitted to 387 layers of up to 20 us on an H200, of which the model is
/// wrong by 6 % (`benchmarks/2026-11-29-gpu-flat-f32.md`). How many weights there are makes no difference.
fn cycles_of_few(task: &Task, products: u32) -> f64 {
    const LAUNCH: f64 = 8035.0;
    const PRODUCT_LATENCY: f64 = 16.3;
    /// For each element that is written, each of its products, and each element of the input.
    const OUTPUT: f64 = 0.76;
    const PRODUCT: f64 = 0.0571;
    const INPUT: f64 = 1.85;
    /// For each product besides, whose weight is for one lane, because its neighbours have other output channels.
    const OWN_WEIGHT: f64 = 0.0453;

    let Elements { inputs, outputs, .. } = Elements::of(task);
    let positions: usize = task.problem.axes().iter().map(|axis| axis.output).product();
    let product = PRODUCT + OWN_WEIGHT * (32.0 / positions as f64).min(1.0);
    let busy = outputs * (OUTPUT + f64::from(products) * product) + inputs * INPUT;
    LAUNCH + f64::from(products) * PRODUCT_LATENCY + busy / f64::from(task.target.multiprocessors)
}

/// With one product after the other: the time of the thread that waits longest, and what all of them keep a
/// multiprocessor busy for. The constants were fitted to 347 small layers on an H200
/// (`benchmarks/2026-11-27-gpu-small-layers.md`), when all were computed so.
fn cycles_of_many(task: &Task, taps: impl Fn(&Axis) -> [f64; 2]) -> f64 {
    const LAUNCH: f64 = 8530.0;
    /// Until the inputs of a row of taps are there, and for each product.
    const ROW_LATENCY: f64 = 191.0;
    const PRODUCT_LATENCY: f64 = 28.1;
    /// Instructions of a thread, of each tap, and of each product.
    const THREAD: f64 = 46.3;
    const TAP: f64 = 5.0;
    const PRODUCT: f64 = 6.7;

    let channels = task.problem.in_channels_per_group() as f64;
    let [[z, z_average], [y, y_average], [x, x_average]] = task.problem.axes().each_ref().map(taps);
    let taps_on_average = z_average * y_average * x_average;
    let Elements { inputs, weights, outputs } = Elements::of(task);
    let waiting = z * y * (ROW_LATENCY + x * channels * PRODUCT_LATENCY);
    let instructions = outputs * (THREAD + taps_on_average * (TAP + channels * PRODUCT));
    let bytes = 4.0 * (inputs + weights + outputs);
    LAUNCH + waiting + (instructions / ISSUE + bytes / BYTES) / f64::from(task.target.multiprocessors)
}

/// Elements of the tensors.
struct Elements {
    inputs: f64,
    weights: f64,
    outputs: f64,
}

impl Elements {
    fn of(task: &Task) -> Self {
        let problem = &task.problem;
        let [inputs, outputs] = [problem.input_shape(), problem.output_shape()].map(|shape| shape.len() as f64);
        Self { inputs, weights: problem.weight_shape().len() as f64, outputs }
    }
}
