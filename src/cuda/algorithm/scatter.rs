//! The scatter kernel, after the output was filled with the bias.

use super::{Algorithm, Implementation, Task, fill};
use crate::cuda::{
    error::Unsupported,
    parameters::{Parameters, check_grid, check_limits, scatter_threads},
    recipe::{
        Argument::{self, Input, Output, Weight},
        Launch, Recipe,
    },
};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    algorithm: Algorithm::Scatter,
    repeatable: false,
    worth: |_| true,
    only_if_worth: false,
    kernels: |_, _| vec![fill::KERNEL, "scatter"],
    recipe,
    others: |_| Vec::new(),
};

fn can_implement(task: &Task) -> Result<(), Unsupported> {
    check_limits(&task.problem)?;
    fill::check(task)?;
    check_grid(scatter_threads(&task.problem))
}

fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    can_implement(task)?;
    let threads = scatter_threads(&task.problem) as u64;
    let Parameters { problem, .. } = Parameters::new(&task.problem);
    let scatter = if task.wide { "scatter_wide" } else { "scatter" };
    let arguments = vec![Argument::value(&problem), Argument::value(&threads), Input, Weight, Output];
    let launches = vec![fill::launch(task, &problem), Launch::per_element(scatter, threads, arguments)];
    Ok(Recipe { launches, ..Recipe::default() })
}
