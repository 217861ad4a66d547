//! The scatter kernel, after the output was filled with the bias.

use super::{Algorithm, Implementation, Task};
use crate::cuda::{
    error::Unsupported,
    parameters::{Parameters, check_grid, check_limits, scatter_threads},
    recipe::{
        Argument::{self, Bias, Input, Output, Weight},
        Launch, Recipe,
    },
};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Scatter,
    repeatable: false,
    worth: |_| true,
    kernels: |_, _| vec!["fill_bias", "scatter"],
    recipe,
    others: |_| Vec::new(),
};

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    check_limits(&task.problem)?;
    check_grid(task.problem.output_shape().len() as u128)?;
    check_grid(scatter_threads(&task.problem))
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    can_implement(task)?;
    let threads = scatter_threads(&task.problem) as u64;
    let Parameters { problem, .. } = Parameters::new(&task.problem);
    let geometry = || Argument::value(&problem);
    let (fill_bias, scatter) = if task.wide { ("fill_bias_wide", "scatter_wide") } else { ("fill_bias", "scatter") };
    let launches = vec![
        Launch::per_element(fill_bias, problem.outputs, vec![geometry(), Bias, Output]),
        Launch::per_element(scatter, threads, vec![geometry(), Argument::value(&threads), Input, Weight, Output]),
    ];
    Ok(Recipe { launches, ..Recipe::default() })
}
