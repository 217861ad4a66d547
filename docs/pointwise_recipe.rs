//! The pointwise kernel: one thread per output element.

use crate::cuda::{
    algorithm::Task,
    error::Unsupported,
    parameters::{Parameters, check_grid, check_limits},
    recipe::{
        Argument::{self, Bias, Input, Output, Weight},
        Launch, Recipe,
    },
};

/// One tap, which stays where it is.
pub(super) fn can_implement(task: &Task) -> Result<(), Unsupported> {
    let problem = &task.problem;
    for axis in problem.axes() {
        check("a kernel extent", axis.kernel as u128, 1)?;
        check("a stride", axis.stride as u128, 1)?;
        check("the padding", axis.pad_begin.unsigned_abs() as u128, 0)?;
        check("an output extent", axis.output as u128, axis.input as u128)?;
    }
    check_limits(problem)?;
    check_grid(problem.output_shape().len() as u128)
}

fn check(what: &'static str, value: u128, limit: u128) -> Result<(), Unsupported> {
    if value > limit { Err(Unsupported::TooLarge { what, value, limit }) } else { Ok(()) }
}

pub(super) fn recipe(task: &Task) -> Result<Recipe, Unsupported> {
    can_implement(task)?;
    let Parameters { problem, .. } = Parameters::new(&task.problem);
    let kernel = if task.wide { "pointwise_wide" } else { "pointwise" };
    let arguments = vec![Argument::value(&problem), Input, Weight, Bias, Output];
    Ok(Recipe { launches: vec![Launch::per_element(kernel, problem.outputs, arguments)], ..Recipe::default() })
}
