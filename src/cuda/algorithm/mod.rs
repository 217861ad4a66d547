//! The algorithms, and the one place where one is chosen.
//!
//! To add one: write its file, with an [`Implementation`], and add a line to [`IMPLEMENTATIONS`].

mod col2im;
mod direct;
mod fill;
mod flat;
mod gather;
mod patch;
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
    /// Of the bitwise repeatable algorithms that support the problem and are worth while, the one that a model expects
    /// to be the fastest; where there is no model of one, the first.
    #[default]
    Auto,
    /// A matrix product of the input with all taps at once, by the kernels of [`Tile`](Self::Tile), and a sum of what
    /// reaches each output element. For layers with few output channels and many taps, for inputs not much larger than
    /// the kernel, and for layers of few positions. Any geometry, bitwise repeatable; packs the weight, and has memory
    /// for an element for each input position, output channel and tap.
    Col2im,
    /// A few vectors of neighbouring outputs per thread, for layers with few channels in a group, such as depthwise
    /// ones. Any geometry, bitwise repeatable.
    Direct,
    /// Matrix products on tensor cores that read both factors from shared memory. For strides of 1, on compute capability
    /// 9.0, tensors of fewer than 2^31 elements, and kernels of which a part fits in shared memory. Bitwise repeatable;
    /// packs the weight and the input.
    Flat,
    /// One thread per output element, which sums the taps that reach it. Any geometry, bitwise repeatable.
    Gather,
    /// Matrix products on tensor cores for layers whose kernel is as large as their stride, as the upsampling steps of
    /// U-Nets, or smaller, if the output is as many times as large as the input all the same (by its output padding).
    /// For strides that are powers of two, without padding, rows of an even number of positions, and planes of a multiple
    /// of four, on compute capability 9.0, and tensors of fewer than 2^31 elements. Bitwise repeatable; packs the weight.
    Patch,
    /// One thread per input position and output channel, which adds into the output atomically. Any geometry. **Not
    /// bitwise repeatable**: the order of the additions, and so their rounding, varies from run to run. Never chosen by
    /// `Auto`.
    Scatter,
    /// Implicit matrix products, tile by tile: on tensor cores from compute capability 8.0 on, before that on ordinary
    /// ones. Bitwise repeatable; packs the weight.
    Tile,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Col2im => "col2im",
            Self::Direct => "direct",
            Self::Flat => "flat",
            Self::Gather => "gather",
            Self::Patch => "patch",
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
    /// Whether the kernels for tensor cores are in its PTX. Otherwise those for ordinary cores are.
    pub(super) tensor_cores: bool,
    /// Whether the large ones are.
    pub(super) large_tiles: bool,
    /// How many clusters of two, four and eight blocks run at the same time; none before compute capability 9.0.
    pub(super) clusters: [u32; 3],
}

/// Instructions of threads that a multiprocessor of an H200 carries out in a cycle, in kernels whose threads compute
/// each for itself: `direct` and `gather`.
const ISSUE: f64 = 54.0;

/// Bytes that memory moves in a cycle for each multiprocessor in such kernels.
const BYTES: f64 = 15.8;

impl Target {
    /// How many jobs run at the same time if so many blocks, a power of two, are partners in each.
    pub(super) fn most_jobs_of(&self, partners: u32) -> u32 {
        let others = partners.ilog2().checked_sub(1);
        others.map_or(self.multiprocessors, |power| self.clusters.get(power as usize).copied().unwrap_or(0))
    }
}

#[cfg(any(test, feature = "emulator"))]
impl Target {
    /// What the emulator stands for: an H200.
    pub(super) const EMULATED: Self = Self {
        multiprocessors: 132,
        shared_bytes: 227 << 10,
        tensor_cores: true,
        large_tiles: true,
        clusters: [66, 30, 15],
    };

    /// What it stands for with the kernels for compute capability 8.0.
    pub(super) const EMULATED_OLDER: Self = Self { large_tiles: false, clusters: [0; 3], ..Self::EMULATED };

    /// What it stands for with kernels without tensor cores: a T4, which has the least shared memory of all GPUs that
    /// run them.
    pub(super) const EMULATED_ORDINARY: Self =
        Self { multiprocessors: 40, shared_bytes: 64 << 10, tensor_cores: false, large_tiles: false, clusters: [0; 3] };
}

impl Task {
    pub(super) fn new(problem: Problem<3>, precision: Precision, target: Target) -> Self {
        let problem = problem.simplified();
        Self { problem, precision, wide: needs_64_bits(&problem), target }
    }

    /// Whether most taps of an output position lie within the input, as they do unless the kernel is far larger than
    /// that. Algorithms that try all taps are not worth while otherwise.
    fn taps_are_mostly_inside(&self) -> bool {
        let reached = |axis: &Axis| axis.input.div_ceil(axis.input_step());
        self.problem.axes().iter().zip(self.problem.most_taps()).all(|(axis, tried)| tried / 4 <= reached(axis))
    }

    /// The share of all taps of all output positions that lie within the input, about: nothing is cut off.
    fn share_inside(&self) -> f64 {
        let along = |axis: &Axis| {
            let tried: f64 = axis.phases().iter().map(|phase| phase.positions as f64 * phase.taps as f64).sum();
            axis.input as f64 * axis.kernel as f64 / tried.max(1.0)
        };
        self.problem.axes().iter().map(|axis| along(axis).min(1.0)).product()
    }
}

/// What the choice needs to know of an algorithm.
struct Implementation {
    algorithm: Algorithm,
    /// Whether two runs give the same bits.
    repeatable: bool,
    /// Whether `Auto` should take it for a task within the limits. Asked for by name, it runs whatever this says.
    worth: fn(&Task) -> bool,
    /// Whether it is not even measured where it is not worth it, because of the memory that it takes.
    only_if_worth: bool,
    /// The kernels that recipes name, except those with 64-bit indices.
    kernels: fn(Precision, &Target) -> Vec<&'static str>,
    /// Tables and launches for a task, or which limit of the algorithm it exceeds.
    recipe: fn(&Task) -> Result<Recipe, Unsupported>,
    /// What else it could do for a task that has a recipe, the most promising first.
    others: fn(&Task) -> Vec<Recipe>,
}

/// A way to compute: an algorithm, and what it does.
pub(super) type Way = (Algorithm, Recipe);

impl Implementation {
    /// Whether it is what was asked for: by name, or as one that `Auto` may take.
    fn answers(&self, wanted: Algorithm, auto_may_take_it: bool) -> bool {
        match wanted {
            Algorithm::Auto => self.repeatable && auto_may_take_it,
            wanted => self.algorithm == wanted,
        }
    }
}

/// In order of preference.
const IMPLEMENTATIONS: &[Implementation] = &[
    direct::IMPLEMENTATION,
    tile::IMPLEMENTATION,
    col2im::IMPLEMENTATION,
    flat::IMPLEMENTATION,
    patch::IMPLEMENTATION,
    gather::IMPLEMENTATION,
    scatter::IMPLEMENTATION,
];

/// The algorithm that was asked for, or the preferred one of those that can solve the task; and what it does. Where
/// models say what an algorithm and the next ones take, it is the fastest.
pub(super) fn choose(wanted: Algorithm, task: &Task) -> Result<Way, CudaError> {
    let eligible = |candidate: &&Implementation| candidate.answers(wanted, (candidate.worth)(task));
    let mut refusal = None;
    let mut chosen: Option<Way> = None;
    for Implementation { algorithm, recipe, .. } in IMPLEMENTATIONS.iter().filter(eligible) {
        let recipe = match recipe(task) {
            Ok(recipe) => recipe,
            Err(reason) => {
                refusal = Some(CudaError::Unsupported { algorithm: *algorithm, reason });
                continue;
            }
        };
        let has_model = recipe.cycles.is_some();
        let is_faster = |(_, best): &Way| recipe.cycles.zip(best.cycles).is_some_and(|(cycles, best)| cycles < best);
        if chosen.as_ref().is_none_or(is_faster) {
            chosen = Some((*algorithm, recipe));
        }
        if !has_model {
            break;
        }
    }
    let none = || {
        refusal.expect("every algorithm has an implementation, and one of them is repeatable and always worth while")
    };
    chosen.ok_or_else(none)
}

/// The choice, and after it all that might be faster: the ways of the same algorithm, then those of the others, if any
/// will do. Algorithms that try all taps are not among them where that could take for ever.
pub(super) fn ways(wanted: Algorithm, task: &Task) -> Result<Vec<Way>, CudaError> {
    let (chosen, recipe) = choose(wanted, task)?;
    let mut ways = vec![(chosen, recipe)];
    let ends = |candidate: &&Implementation| {
        (candidate.worth)(task) || !candidate.only_if_worth && task.taps_are_mostly_inside()
    };
    let mut rest: Vec<_> =
        IMPLEMENTATIONS.iter().filter(|candidate| candidate.answers(wanted, ends(candidate))).collect();
    rest.sort_by_key(|implementation| (implementation.algorithm != chosen, !(implementation.worth)(task)));
    for Implementation { algorithm, recipe, others, .. } in rest {
        if *algorithm != chosen {
            let Ok(recipe) = recipe(task) else { continue };
            ways.push((*algorithm, recipe));
        }
        ways.extend(others(task).into_iter().map(|recipe| (*algorithm, recipe)));
    }
    Ok(ways)
}

/// The kernels that an algorithm may take in some precision, each once, except those with 64-bit indices; those of all
/// repeatable ones for `Auto`.
pub(super) fn kernels(wanted: Algorithm, precision: Precision, target: &Target) -> Vec<&'static str> {
    let eligible = IMPLEMENTATIONS.iter().filter(|candidate| candidate.answers(wanted, true));
    let mut kernels: Vec<_> = eligible.flat_map(|candidate| (candidate.kernels)(precision, target)).collect();
    // Some algorithms have kernels in common.
    kernels.sort_unstable();
    kernels.dedup();
    kernels
}

/// What each algorithm would do, in each precision and with either width of indices, on GPUs with tensor cores and
/// without.
#[cfg(all(test, feature = "emulator"))]
pub(super) fn all_recipes(problem: Problem<3>) -> impl Iterator<Item = Recipe> {
    let targets = [Target::EMULATED, Target::EMULATED_ORDINARY];
    let cases =
        targets.into_iter().flat_map(|target| [Precision::F32, Precision::Tf32].map(|precision| (target, precision)));
    let tasks = cases.flat_map(move |(target, precision)| {
        [false, true].map(|wide| Task { wide, ..Task::new(problem, precision, target) })
    });
    tasks.flat_map(|task| {
        IMPLEMENTATIONS
            .iter()
            .flat_map(move |Implementation { recipe, others, .. }| recipe(&task).into_iter().chain(others(&task)))
    })
}

/// The recipe that `docs/kernels.md` shows.
#[cfg(test)]
#[path = "../../../docs/pointwise_recipe.rs"]
mod pointwise;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeBuilder, Shape, cuda::embedded};

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
            let problem = layer.problem(Shape::batched(2, channels, [50, 70])).unwrap().to_3d();
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

    /// What `Auto` chooses for a layer in `f32`.
    fn chosen_on<const D: usize>(
        target: Target,
        layer: ConvTransposeBuilder<D>,
        batch: usize,
        input: [usize; D],
    ) -> Algorithm {
        chosen_in(Precision::F32, target, layer, batch, input)
    }

    /// What it chooses in a precision.
    fn chosen_in<const D: usize>(
        precision: Precision,
        target: Target,
        layer: ConvTransposeBuilder<D>,
        batch: usize,
        input: [usize; D],
    ) -> Algorithm {
        let layer = layer.build().unwrap();
        let problem = layer.problem(Shape::batched(batch, layer.in_channels(), input)).unwrap().to_compute();
        choose(Algorithm::Auto, &Task::new(problem, precision, target)).unwrap().0
    }

    /// Phases are as many as a stride is long: nothing lists them before they are known to be few.
    #[test]
    fn strides_beyond_the_limits_are_refused_at_once() {
        let layer = ConvTranspose1d::builder(4, 64, [4]).stride([1 << 40]).dilation([1 << 40]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 4, [1])).unwrap().to_compute();
        let task = Task::new(problem, Precision::F32, Target::EMULATED);
        assert!(matches!(choose(Algorithm::Auto, &task), Err(CudaError::Unsupported { .. })));
    }

    /// Of these layers the algorithms were measured, in `f32`: the fastest one took 0.073 instead of 0.237 ms, 0.055
    /// instead of 0.128 and 0.223, 0.56 instead of 1.00, 0.031 instead of 0.051, and 0.077 instead of 0.099.
    #[test]
    fn the_model_overrules_the_limits_of_channels_in_clear_cases_only() {
        fn chosen<const D: usize>(layer: ConvTransposeBuilder<D>, batch: usize, input: [usize; D]) -> Algorithm {
            chosen_on(Target::EMULATED, layer, batch, input)
        }
        use Algorithm::{Col2im, Direct, Tile};
        assert_eq!(chosen(ConvTranspose1d::builder(32, 1, [7]).padding([3]), 8, [256000]), Direct);
        assert_eq!(chosen(ConvTranspose3d::builder(22, 1, [4; 3]).padding([1, 0, 0]), 19, [53, 6, 32]), Col2im);
        let layer = ConvTranspose2d::builder(24, 6, [4; 2]).stride([3; 2]).groups(3);
        assert_eq!(chosen(layer, 8, [628; 2]), Tile);
        assert_eq!(chosen(ConvTranspose3d::builder(1, 16, [3; 3]).padding([1; 3]), 2, [64; 3]), Direct);
        let layer = ConvTranspose2d::builder(1, 16, [4; 2]).stride([2; 2]).padding([1; 2]);
        assert_eq!(chosen(layer, 4, [512; 2]), Direct);
    }

    /// Of these layers the algorithms were measured, in `f32` (`benchmarks/2026-11-27-gpu-small-layers.md`): the first
    /// three take `gather` 5.4, 5.4 and 4.9 us, and others 6.6, 9.6 and 7.1 at least; the last one 131, and
    /// `direct` 30.
    #[test]
    fn gather_is_chosen_for_what_takes_a_few_microseconds() {
        let (target, ordinary) = (Target::EMULATED, Target::EMULATED_ORDINARY);
        let few_products = || ConvTranspose2d::builder(8, 1, [1, 5]).stride([2, 1]);
        assert_eq!(chosen_on(target, few_products(), 2, [43, 6]), Algorithm::Gather);
        assert_ne!(chosen_on(ordinary, few_products(), 2, [43, 6]), Algorithm::Gather, "not measured");
        let signal = |inputs, outputs, stride| ConvTranspose1d::builder(inputs, outputs, [1]).stride([stride]);
        assert_eq!(chosen_on(target, signal(16, 8, 2), 8, [555]), Algorithm::Gather);
        assert_eq!(chosen_on(target, signal(4, 2, 3), 8, [478]), Algorithm::Gather);
        assert_ne!(chosen_on(target, signal(1, 128, 3), 16, [4002]), Algorithm::Gather);
        // With all factors under way at once 5.0 and 5.2 us, `direct` 5.9 and `tile` 7.3.
        let picture = ConvTranspose2d::builder(1, 32, [3, 3]).padding([1, 1]);
        assert_eq!(chosen_on(target, picture, 4, [65, 34]), Algorithm::Gather);
        let of_some_channels = ConvTranspose1d::builder(4, 181, [4]);
        assert_eq!(chosen_on(target, of_some_channels, 12, [76]), Algorithm::Gather);
        // The first layer of a GAN: of one sample 5.8 us, of 32 16.9; `tile` 10.6 and 11.9.
        let first = || ConvTranspose2d::builder(100, 512, [4; 2]);
        assert_eq!(chosen_on(target, first(), 1, [1; 2]), Algorithm::Gather);
        assert_eq!(chosen_on(target, first(), 32, [1; 2]), Algorithm::Tile);
    }

    /// With one tap there is nothing to sum up, and with many channels tiles waste nothing; nor is memory taken for as
    /// many columns as there may be.
    #[test]
    fn col2im_is_chosen_for_few_channels_and_many_taps() {
        let chosen = |outputs, kernel, extent, target| {
            let layer = ConvTranspose2d::builder(64, outputs, [kernel; 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(4, 64, [extent; 2])).unwrap().to_3d();
            choose(Algorithm::Auto, &Task::new(problem, Precision::F32, target)).unwrap().0
        };
        use Algorithm::{Col2im, Tile};
        assert_eq!(chosen(2, 9, 64, Target::EMULATED), Col2im);
        assert_eq!(chosen(2, 1, 256, Target::EMULATED), Tile);
        assert_ne!(chosen(64, 9, 64, Target::EMULATED), Col2im);
        assert_ne!(chosen(2, 9, 1024, Target::EMULATED), Col2im, "more columns than memory is taken for");
        assert_eq!(chosen(2, 9, 64, Target::EMULATED_ORDINARY), Tile, "which was not measured");
    }

    /// With stride 1, tiles of these layers multiply zeros for the most part: `col2im` takes 0.36, 0.41, 0.53 and 0.56 of
    /// the time of `tile` on an H200. Of larger inputs most taps lie inside.
    #[test]
    fn col2im_is_chosen_for_small_inputs() {
        let chosen = |channels, outputs, kernel, batch, extent| {
            let layer = ConvTranspose3d::builder(channels, outputs, [kernel; 3]);
            chosen_on(Target::EMULATED, layer, batch, [extent; 3])
        };
        use Algorithm::Col2im;
        assert_eq!(chosen(256, 256, 4, 64, 4), Col2im);
        assert_eq!(chosen(64, 64, 4, 128, 2), Col2im);
        assert_eq!(chosen(512, 128, 3, 16, 2), Col2im);
        assert_eq!(chosen(128, 128, 5, 4, 5), Col2im);
        assert_ne!(chosen(256, 256, 4, 1, 32), Col2im);
    }

    /// Of few positions tiles are too few for the device: these layers take `col2im` 0.69 and 0.64 of the time of `tile` on
    /// an H200 (`benchmarks/2026-11-30-gpu-uneven-shares.md`).
    #[test]
    fn col2im_is_chosen_for_few_columns() {
        let layer = ConvTranspose3d::builder(200, 128, [4; 3]).padding([1; 3]);
        assert_eq!(chosen_on(Target::EMULATED, layer, 1, [8; 3]), Algorithm::Col2im);
        let layer = ConvTranspose3d::builder(768, 128, [3; 3]).stride([2; 3]).padding([1; 3]).output_padding([1; 3]);
        assert_eq!(chosen_on(Target::EMULATED, layer, 2, [6; 3]), Algorithm::Col2im);
    }

    /// Of these layers the first three take `flat` 0.79, 0.65 and 0.90 of the time of `tile` in TF32 on an H200, the next
    /// two 1.62 and 1.53 (`benchmarks/2026-11-27-gpu-flat.md`); in `f32` 0.49, 0.75 and 0.99, and 1.59 and 1.45.
    #[test]
    fn flat_is_chosen_where_tiles_waste_much() {
        fn chosen<const D: usize>(
            layer: ConvTransposeBuilder<D>,
            batch: usize,
            input: [usize; D],
            target: Target,
        ) -> [Algorithm; 2] {
            [Precision::F32, Precision::Tf32].map(|precision| chosen_in(precision, target, layer, batch, input))
        }
        let (target, older) = (Target::EMULATED, Target::EMULATED_OLDER);
        let volume = || ConvTranspose3d::builder(32, 16, [3, 5, 7]).padding([1; 3]);
        let picture = |channels, kernel| ConvTranspose2d::builder(channels, channels, [kernel; 2]);
        use Algorithm::{Flat, Tile};
        assert_eq!(chosen(volume(), 16, [16, 32, 64], target), [Flat; 2], "problem 58");
        assert_eq!(chosen(picture(64, 7), 8, [61, 67], target), [Flat; 2]);
        assert_eq!(chosen(picture(128, 5).padding([2; 2]), 16, [56; 2], target), [Flat; 2]);
        // What is packed of a signal is little more than the input: in `f32` 0.74 of the time of `tile`.
        let signal = ConvTranspose1d::builder(115, 71, [6]).padding([1]).dilation([3]).output_padding([1]);
        assert_eq!(chosen(signal, 5, [3524], target), [Flat, Tile]);
        assert_eq!(chosen(picture(64, 3), 8, [1024; 2], target), [Tile; 2], "problem 57");
        assert_eq!(chosen(picture(256, 3).padding([1; 2]).groups(4), 8, [64; 2], target), [Tile; 2]);
        assert_eq!(chosen(volume(), 16, [16, 32, 64], older), [Tile; 2]);
    }

    /// Of these layers the first four take `patch` 0.78, 0.79, 0.59 and 0.82 of the time of `tile` in TF32 on an H200,
    /// the next two 1.2 and 1.5 (`benchmarks/2026-11-28-gpu-patch.md`); in `f32` 0.89, 0.60, 0.76, 0.96, 1.2 and 1.4
    /// (`benchmarks/2026-11-28-gpu-patch-f32.md`). The one between, of DPT, takes 0.74 and 0.80. Those with elements that
    /// no tap reaches take 0.64 in both, 1.63 and 0.72, and 1.13 and 1.30 (`benchmarks/2026-11-28-gpu-gaps.md`).
    #[test]
    fn patch_is_chosen_where_kernels_reach_no_further_than_strides() {
        fn is_chosen<const D: usize>(layer: ConvTransposeBuilder<D>, batch: usize, input: [usize; D]) -> [bool; 2] {
            [Precision::F32, Precision::Tf32]
                .map(|precision| chosen_in(precision, Target::EMULATED, layer, batch, input) == Algorithm::Patch)
        }
        let picture = |inputs, outputs| ConvTranspose2d::builder(inputs, outputs, [2; 2]).stride([2; 2]);
        let anisotropic = ConvTranspose3d::builder(320, 256, [1, 2, 2]).stride([1, 2, 2]);
        assert_eq!(is_chosen(picture(512, 256), 8, [56; 2]), [true; 2]);
        assert_eq!(is_chosen(picture(256, 128), 8, [112; 2]), [true; 2]);
        assert_eq!(is_chosen(anisotropic, 2, [8, 16, 16]), [true; 2]);
        assert_eq!(is_chosen(ConvTranspose2d::builder(1024, 1024, [1; 2]), 8, [32; 2]), [true; 2]);
        let wide = ConvTranspose2d::builder(256, 256, [4; 2]).stride([4; 2]);
        assert_eq!(is_chosen(wide, 4, [24; 2]), [true; 2]);
        let with_gaps = |channels, kernel, stride| {
            let layer = ConvTranspose2d::builder(channels, channels, [kernel; 2]).stride([stride; 2]);
            layer.output_padding([stride - kernel; 2])
        };
        assert_eq!(is_chosen(with_gaps(64, 3, 4), 8, [64; 2]), [true; 2]);
        assert_eq!(is_chosen(with_gaps(512, 1, 2), 32, [8; 2]), [false, true]);
        assert_eq!(is_chosen(with_gaps(64, 1, 4), 8, [64; 2]), [false; 2]);
        assert_eq!(is_chosen(picture(64, 64), 1, [14; 2]), [false; 2]);
        assert_eq!(is_chosen(picture(512, 96), 2, [14; 2]), [false; 2]);
        let older = chosen_in(Precision::Tf32, Target::EMULATED_OLDER, picture(512, 256), 8, [56; 2]);
        assert_eq!(older, Algorithm::Tile);
    }

    /// Most taps lie outside of the input, or most positions are zero, or most channels that are packed.
    #[test]
    fn flat_is_not_thought_of_where_most_of_it_is_zero() {
        let ways = |layer: ConvTransposeBuilder<2>, batch: usize, input: [usize; 2]| {
            let layer = layer.build().unwrap();
            let problem = layer.problem(Shape::batched(batch, layer.in_channels(), input)).unwrap().to_compute();
            let ways = ways(Algorithm::Auto, &Task::new(problem, Precision::Tf32, Target::EMULATED)).unwrap();
            ways.into_iter().map(|(algorithm, _)| algorithm).collect::<Vec<_>>()
        };
        let picture = |channels, kernel| ConvTranspose2d::builder(channels, channels, kernel);
        for (layer, batch, input) in [
            (picture(1, [40, 20]), 1, [2, 2]),
            (picture(1, [21, 21]), 1, [4, 4]),
            (picture(16, [2, 2]).dilation([1 << 16, 1]).padding([1 << 15, 0]), 8, [64, 64]),
            (picture(1024, [3, 3]).padding([1, 1]).groups(1024), 127, [128, 128]),
        ] {
            let ways = ways(layer, batch, input);
            assert!(!ways.contains(&Algorithm::Flat), "{layer:?}");
        }
        assert_eq!(ways(picture(64, [16, 16]), 64, [3, 3])[0], Algorithm::Flat, "many channels fill products");
    }

    /// Where the output has few elements, so has the GPU few threads, and each of them much to load.
    #[test]
    fn tiles_are_chosen_where_threads_would_wait() {
        let chosen = |inputs, outputs, extent| {
            let layer = ConvTranspose2d::builder(inputs, outputs, [3, 3]).padding([1, 1]).build().unwrap();
            let problem = layer.problem(Shape::batched(4, inputs, [extent; 2])).unwrap().to_3d();
            choose(Algorithm::Auto, &Task::new(problem, Precision::F32, Target::EMULATED)).unwrap().0
        };
        use Algorithm::{Direct, Tile};
        assert_eq!((chosen(8, 1, 256), chosen(8, 1, 1024)), (Tile, Direct));
        assert_eq!((chosen(1, 8, 256), chosen(3, 3, 256)), (Direct, Direct), "nine rows");
    }

    /// Without tensor cores, tiles are computed as exactly as anything else, and in the same way in both precisions.
    #[test]
    fn ordinary_cores_compute_tiles_unless_most_of_a_block_is_empty() {
        let chosen = |inputs, outputs, stride, precision| {
            let layer = ConvTranspose2d::builder(inputs, outputs, [4, 4]).stride([stride; 2]).build().unwrap();
            let problem = layer.problem(Shape::batched(2, inputs, [25, 27])).unwrap().to_3d();
            choose(Algorithm::Auto, &Task::new(problem, precision, Target::EMULATED_ORDINARY)).unwrap()
        };
        use Algorithm::{Direct, Tile};
        for (inputs, outputs, stride, algorithm) in [
            (64, 64, 2, Tile),
            (8, 8, 1, Tile),
            (3, 3, 1, Tile),
            (3, 3, 2, Direct),
            (2, 2, 1, Direct),
            (16, 2, 2, Direct),
            (64, 1, 2, Tile),
        ] {
            let ways = [Precision::F32, Precision::Tf32].map(|precision| chosen(inputs, outputs, stride, precision));
            assert_eq!(ways[0].0, algorithm, "{inputs} to {outputs}, stride {stride}");
            assert_eq!(ways[0].1.describe(), ways[1].1.describe());
        }
    }

    fn task(channels: usize, groups: usize, kernel: usize, precision: Precision, target: Target) -> Task {
        let layer = ConvTranspose2d::builder(channels, channels, [4, kernel]).stride([2, 2]).groups(groups);
        let problem = layer.build().unwrap().problem(Shape::batched(2, channels, [9, 11])).unwrap();
        Task::new(problem.to_3d(), precision, target)
    }

    #[test]
    fn the_choice_comes_first_and_what_is_like_it_next() {
        let algorithms = |wanted, channels, groups, kernel| -> Vec<Algorithm> {
            let task = task(channels, groups, kernel, Precision::F32, Target::EMULATED);
            let ways = ways(wanted, &task).unwrap();
            let (algorithm, recipe) = choose(wanted, &task).unwrap();
            assert_eq!((ways[0].0, ways[0].1.describe()), (algorithm, recipe.describe()));
            let mut algorithms: Vec<_> = ways.iter().map(|(algorithm, _)| *algorithm).collect();
            algorithms.dedup();
            algorithms
        };
        use Algorithm::{Auto, Col2im, Direct, Gather, Scatter, Tile};
        assert_eq!(algorithms(Auto, 64, 1, 4), [Tile, Col2im, Gather, Direct], "what is not worth while comes last");
        assert_eq!(algorithms(Auto, 64, 64, 4), [Gather, Tile, Direct]);
        assert_eq!(algorithms(Auto, 4, 4, 1000), [Gather], "nobody tries a thousand taps that lie outside");
        for wanted in [Col2im, Direct, Gather, Scatter, Tile] {
            assert_eq!(algorithms(wanted, 64, 1, 4), [wanted]);
        }
    }

    #[test]
    fn all_ways_have_descriptions_of_their_own() {
        for (channels, groups, kernel) in [(64, 1, 4), (64, 8, 3), (8, 1, 16), (24, 1, 1)] {
            for precision in [Precision::F32, Precision::Tf32] {
                let ways = ways(Algorithm::Auto, &task(channels, groups, kernel, precision, Target::EMULATED)).unwrap();
                let descriptions: std::collections::BTreeSet<_> =
                    ways.iter().map(|(_, recipe)| recipe.describe()).collect();
                assert_eq!(descriptions.len(), ways.len());
                assert!(ways.len() > 3, "some cuts, direct and gather");
            }
        }
    }

    #[test]
    fn kernels_to_load_are_those_that_recipes_name() {
        let (older, oldest) = (Target::EMULATED_OLDER, Target::EMULATED_ORDINARY);
        for (precision, target) in [Precision::F32, Precision::Tf32]
            .into_iter()
            .flat_map(|p| [Target::EMULATED, older, oldest].map(|t| (p, t)))
        {
            for Implementation { kernels, recipe, others, .. } in IMPLEMENTATIONS {
                let task = task(8, 2, 4, precision, target);
                for recipe in recipe(&task).into_iter().chain(others(&task)) {
                    for launch in recipe.pack.iter().chain(&recipe.launches) {
                        assert!(kernels(precision, &target).contains(&launch.kernel), "{}", launch.kernel);
                    }
                }
            }
        }
    }

    #[test]
    fn jobs_of_partners_are_as_many_as_there_are_clusters() {
        let most = |target: Target| [1, 2, 4, 8].map(|partners| target.most_jobs_of(partners));
        assert_eq!(most(Target::EMULATED), [132, 66, 30, 15]);
        assert_eq!(most(Target::EMULATED_ORDINARY), [40, 0, 0, 0]);
    }

    #[test]
    fn all_kernels_to_load_are_there() {
        for (capability, tensor_cores, large_tiles) in
            [((7, 0), false, false), ((8, 0), true, false), ((9, 0), true, true)]
        {
            let target = Target { tensor_cores, large_tiles, ..Target::EMULATED };
            let embedded = embedded::newest("", capability).unwrap();
            for wanted in [Algorithm::Auto, Algorithm::Scatter] {
                for name in [Precision::F32, Precision::Tf32].iter().flat_map(|&p| kernels(wanted, p, &target)) {
                    assert!(embedded.kernels.iter().any(|&(kernel, _)| kernel == name), "{name}, {capability:?}");
                }
            }
        }
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
