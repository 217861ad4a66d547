//! The algorithms, and the one place where one is chosen.
//!
//! To add one: write its file, with an [`Implementation`], and add a line to [`IMPLEMENTATIONS`].

mod direct;
mod gather;
mod scatter;
mod tile;

use std::fmt;

use super::{
    error::{CudaError, Unsupported},
    parameters::needs_64_bits,
    recipe::Recipe,
};
use crate::{Axis, Precision, Problem};

/// How a plan computes its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The first algorithm that supports the problem, is bitwise repeatable and worth while.
    #[default]
    Auto,
    /// A few vectors of neighbouring outputs per thread, for layers with few channels in a group, such as depthwise ones. Any
    /// geometry, bitwise repeatable.
    Direct,
    /// One thread per output element, which sums the taps that reach it. Any geometry, bitwise repeatable.
    Gather,
    /// One thread per input position and output channel, which adds into the output atomically. Any geometry. **Not bitwise
    /// repeatable**: the order of the additions, and so their rounding, varies from run to run. Never chosen by `Auto`.
    Scatter,
    /// Implicit matrix products on tensor cores, tile by tile. Bitwise repeatable. Needs compute capability 8.0; packs the weight.
    Tile,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Tile => "tile",
        })
    }
}

/// What is to be computed, and on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) problem: Problem<3>,
    pub(super) precision: Precision,
    /// Whether indices have 64 bits.
    pub(super) wide: bool,
    pub(super) target: Target,
}

/// What the choice needs to know of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) multiprocessors: u32,
    /// The most shared memory that a block can ask for.
    pub(super) shared_bytes: u32,
    /// Whether the kernels for tensor cores are in its PTX.
    pub(super) tensor_cores: bool,
    /// Whether the large ones are.
    pub(super) large_tiles: bool,
}

#[cfg(any(test, feature = "emulator"))]
impl Target {
    /// What the emulator stands for: an H200.
    pub(super) const EMULATED: Self =
        Self { multiprocessors: 132, shared_bytes: 227 << 10, tensor_cores: true, large_tiles: true };
}

impl Task {
    pub(super) fn new(problem: Problem<3>, precision: Precision, target: Target) -> Self {
        Self { problem, precision, wide: needs_64_bits(&problem), target }
    }

    /// Whether most taps of an output position lie within the input, as they do unless the kernel is far larger than that. Algorithms that
    /// try all taps are not worth while otherwise.
    fn taps_are_mostly_inside(&self) -> bool {
        let tried = |axis: &Axis| axis.kernel.div_ceil(axis.tap_step());
        let reached = |axis: &Axis| axis.input.div_ceil(axis.input_step());
        self.problem.axes().iter().all(|axis| tried(axis) / 4 <= reached(axis))
    }
}

/// What the choice needs to know of an algorithm.
struct Implementation {
    algorithm: Algorithm,
    /// Whether two runs give the same bits.
    repeatable: bool,
    /// Whether `Auto` should take it for a task within the limits. Asked for by name, it runs whatever this says.
    worth: fn(&Task) -> bool,
    /// Tables and launches for a task, or which limit of the algorithm it exceeds.
    recipe: fn(&Task) -> Result<Recipe, Unsupported>,
}

/// In order of preference.
const IMPLEMENTATIONS: &[Implementation] =
    &[direct::IMPLEMENTATION, tile::IMPLEMENTATION, gather::IMPLEMENTATION, scatter::IMPLEMENTATION];

/// The algorithm that was asked for, or the preferred one of those that can solve the task; and what it does.
pub(super) fn choose(wanted: Algorithm, task: &Task) -> Result<(Algorithm, Recipe), CudaError> {
    let eligible = |candidate: &&Implementation| match wanted {
        Algorithm::Auto => candidate.repeatable && (candidate.worth)(task),
        wanted => candidate.algorithm == wanted,
    };
    let mut refusal = None;
    for Implementation { algorithm, recipe, .. } in IMPLEMENTATIONS.iter().filter(eligible) {
        match recipe(task) {
            Ok(recipe) => return Ok((*algorithm, recipe)),
            Err(reason) => refusal = Some(CudaError::Unsupported { algorithm: *algorithm, reason }),
        }
    }
    Err(refusal.expect("every algorithm has an implementation, and one of them is repeatable and always worth while"))
}

/// What each algorithm would do, in each precision and with either width of indices.
#[cfg(test)]
pub(super) fn all_recipes(problem: &Problem<3>) -> impl Iterator<Item = Recipe> {
    let tasks = [Precision::F32, Precision::Tf32].into_iter().flat_map(|precision| {
        [false, true].map(|wide| Task { wide, ..Task::new(*problem, precision, Target::EMULATED) })
    });
    tasks.flat_map(|task| IMPLEMENTATIONS.iter().map(move |implementation| (implementation.recipe)(&task).unwrap()))
}

/// The recipe that `docs/kernels.md` shows.
#[cfg(test)]
#[path = "../../../docs/pointwise_recipe.rs"]
mod pointwise;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose2d, Shape};

    #[test]
    fn the_document_shows_the_recipe_that_compiles() {
        let document = include_str!("../../../docs/kernels.md");
        assert!(document.contains(include_str!("../../../docs/pointwise_recipe.rs")));
    }

    #[test]
    fn direct_is_chosen_for_few_channels_and_runs_for_any() {
        let chosen = |wanted, channels, groups| {
            let layer =
                ConvTranspose2d::builder(channels, channels, [4, 4]).stride([2, 2]).groups(groups).build().unwrap();
            let problem = layer.problem(Shape::batched(2, channels, [5, 7])).unwrap().to_3d();
            choose(wanted, &Task::new(problem, Precision::F32, Target::EMULATED)).unwrap().0
        };
        assert_eq!(chosen(Algorithm::Auto, 64, 64), Algorithm::Direct);
        assert_eq!(chosen(Algorithm::Auto, 64, 16), Algorithm::Direct);
        assert_eq!(chosen(Algorithm::Auto, 64, 8), Algorithm::Tile);
        assert_eq!(chosen(Algorithm::Direct, 64, 4), Algorithm::Direct);
        let huge = ConvTranspose2d::builder(1, 1, [1, 1000]).build().unwrap();
        let problem = huge.problem(Shape::batched(1, 1, [1, 2])).unwrap().to_3d();
        let task = Task::new(problem, Precision::F32, Target::EMULATED);
        assert_eq!(choose(Algorithm::Auto, &task).unwrap().0, Algorithm::Gather);
    }

    #[test]
    fn the_documented_recipe_takes_one_tap_only() {
        let _: fn(&Task) -> Result<Recipe, Unsupported> = pointwise::recipe;
        let can_implement = |kernel, stride| {
            let layer = ConvTranspose2d::builder(4, 6, kernel).stride(stride).build().unwrap();
            let problem = layer.problem(Shape::batched(2, 4, [5, 7])).unwrap().to_3d();
            pointwise::can_implement(&Task::new(problem, Precision::F32, Target::EMULATED))
        };
        assert_eq!(can_implement([1, 1], [1, 1]), Ok(()));
        assert!(can_implement([1, 2], [1, 1]).unwrap_err().to_string().starts_with("a kernel extent is 2"));
        assert!(can_implement([1, 1], [3, 1]).unwrap_err().to_string().starts_with("a stride is 3"));
    }
}
