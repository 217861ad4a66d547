//! The gather kernel: one thread per output element.

use super::{Algorithm, Implementation};
use crate::{
    Problem,
    cuda::{
        error::Unsupported,
        parameters::{Parameters, check_grid, check_limits, gather_threads},
        recipe::{
            Argument::{Bias, Input, Output, Phases, Problem as Geometry, Weight},
            Launch, Recipe,
        },
    },
};

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { algorithm: Algorithm::Gather, repeatable: true, can_implement, recipe };

fn can_implement(problem: &Problem<3>) -> Result<(), Unsupported> {
    check_limits(problem)?;
    check_grid(gather_threads(problem))
}

fn recipe(problem: &Problem<3>, wide: bool) -> Recipe {
    let Parameters { problem, phases } = Parameters::new(problem);
    let gather = Launch {
        kernel: if wide { "gather_wide" } else { "gather" },
        threads: problem.gather_threads,
        arguments: &[Geometry, Phases, Input, Weight, Bias, Output],
    };
    Recipe { problem, phases, launches: vec![gather] }
}
