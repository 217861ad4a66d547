//! The scatter kernel, after the output was filled with the bias.

use super::{Algorithm, Implementation};
use crate::{
    Problem,
    cuda::{
        error::Unsupported,
        parameters::{Parameters, check_grid, check_limits, scatter_threads},
        recipe::{
            Argument::{Bias, Input, Output, Problem as Geometry, Threads, Weight},
            Launch, Recipe,
        },
    },
};

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { algorithm: Algorithm::Scatter, repeatable: false, can_implement, recipe };

fn can_implement(problem: &Problem<3>) -> Result<(), Unsupported> {
    check_limits(problem)?;
    check_grid(problem.output_shape().len() as u128)?;
    check_grid(scatter_threads(problem))
}

fn recipe(problem: &Problem<3>, wide: bool) -> Recipe {
    let threads = scatter_threads(problem) as u64;
    let Parameters { problem, .. } = Parameters::new(problem);
    let fill_bias = Launch {
        kernel: if wide { "fill_bias_wide" } else { "fill_bias" },
        threads: problem.outputs,
        arguments: &[Geometry, Bias, Output],
    };
    let scatter = Launch {
        kernel: if wide { "scatter_wide" } else { "scatter" },
        threads,
        arguments: &[Geometry, Threads, Input, Weight, Output],
    };
    Recipe { problem, phases: Vec::new(), launches: vec![fill_bias, scatter] }
}
