//! The gather kernel: one thread per output element.

use super::{Algorithm, Implementation, Task};
use crate::cuda::{
    error::Unsupported,
    parameters::{Parameters, check_grid, check_limits, gather_threads},
    recipe::{
        Argument::{self, Bias, Input, Output, Weight},
        Launch, Recipe, Table,
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
    let gather = Launch::per_element(kernel, problem.gather_threads, arguments);
    Ok(Recipe { tables: vec![Table::new(&phases)], launches: vec![gather], ..Recipe::default() })
}
