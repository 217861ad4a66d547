//! What a decision holds for, and what was decided, in words that can be kept in a file.

use serde::{Deserialize, Serialize};

use crate::cuda::{
    algorithm::{Algorithm, Task, Way},
    device::Device,
    embedded,
    plan::Options,
};

/// The version of the library, which is part of a case.
const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Everything that the fastest way depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Case {
    library: String,
    gpu: Gpu,
    /// What was asked for.
    algorithm: String,
    /// Whether kernels may be compiled for the plan.
    specialised: bool,
    precision: String,
    batch: usize,
    in_channels: usize,
    out_channels: usize,
    groups: usize,
    /// Of each axis: input, output, kernel, stride, dilation, padding at the beginning.
    axes: [[i64; 6]; 3],
}

/// A device, and the kernels that it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Gpu {
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    /// The hash of the kernels' PTX.
    kernels: String,
}

/// The way that was the fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Choice {
    algorithm: String,
    /// The kernels and how they are used, as plans describe it.
    way: String,
}

impl Gpu {
    pub(super) fn of(device: &Device) -> Self {
        Self {
            name: device.name().to_owned(),
            capability: device.compute_capability(),
            multiprocessors: device.multiprocessors(),
            kernels: device.kernels_hash().to_owned(),
        }
    }
}

impl Case {
    pub(super) fn new(gpu: Gpu, options: Options, task: &Task) -> Self {
        let problem = &task.problem;
        let axes = problem.axes().map(|axis| {
            let extents =
                [axis.input, axis.output, axis.kernel, axis.stride, axis.dilation].map(|extent| extent as i64);
            let [input, output, kernel, stride, dilation] = extents;
            [input, output, kernel, stride, dilation, axis.pad_begin as i64]
        });
        Self {
            library: LIBRARY.to_owned(),
            gpu,
            algorithm: options.algorithm.to_string(),
            specialised: !options.generic,
            precision: task.precision.to_string(),
            batch: problem.batch(),
            in_channels: problem.in_channels(),
            out_channels: problem.out_channels(),
            groups: problem.groups(),
            axes,
        }
    }

    /// Whether this build of the library may meet the case: it has the version and the kernels.
    pub(super) fn is_current(&self) -> bool {
        self.library == LIBRARY && embedded::includes(&self.gpu.kernels)
    }
}

impl Choice {
    pub(super) fn of(algorithm: Algorithm, description: &str) -> Self {
        Self { algorithm: algorithm.to_string(), way: description.to_owned() }
    }

    /// Which of these ways it is, if any.
    pub(super) fn find(&self, ways: &[Way]) -> Option<usize> {
        ways.iter().position(|(algorithm, recipe)| *self == Self::of(*algorithm, &recipe.describe()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        ConvTranspose2d, Precision, Shape,
        cuda::algorithm::{self, Target},
    };

    pub(in super::super) fn task(batch: usize, stride: usize, precision: Precision) -> Task {
        let layer = ConvTranspose2d::builder(16, 24, [4, 4]).stride([stride, 2]).padding([1, 1]).build().unwrap();
        let problem = layer.problem(Shape::batched(batch, 16, [9, 11])).unwrap();
        Task::new(problem.to_compute(), precision, Target::EMULATED)
    }

    pub(in super::super) fn gpu() -> Gpu {
        let kernels = embedded::newest("", (9, 0)).unwrap().hash.to_owned();
        Gpu { name: "A GPU".to_owned(), capability: (9, 0), multiprocessors: 132, kernels }
    }

    #[test]
    fn cases_differ_in_whatever_matters() {
        let usual = || Case::new(gpu(), Options::default(), &task(2, 2, Precision::F32));
        assert_eq!(usual(), usual());
        let others = [
            Case::new(gpu(), Options::default().algorithm(Algorithm::Tile), &task(2, 2, Precision::F32)),
            Case::new(gpu(), Options::default().specialised(false), &task(2, 2, Precision::F32)),
            Case::new(gpu(), Options::default(), &task(3, 2, Precision::F32)),
            Case::new(gpu(), Options::default(), &task(2, 3, Precision::F32)),
            Case::new(gpu(), Options::default(), &task(2, 2, Precision::Tf32)),
            Case::new(Gpu { name: "Another GPU".to_owned(), ..gpu() }, Options::default(), &task(2, 2, Precision::F32)),
            Case::new(Gpu { capability: (9, 1), ..gpu() }, Options::default(), &task(2, 2, Precision::F32)),
            Case::new(Gpu { multiprocessors: 114, ..gpu() }, Options::default(), &task(2, 2, Precision::F32)),
            Case::new(Gpu { kernels: String::new(), ..gpu() }, Options::default(), &task(2, 2, Precision::F32)),
        ];
        for other in others {
            assert_ne!(usual(), other);
        }
    }

    #[test]
    fn a_case_is_current_for_this_version_and_these_kernels() {
        let case = Case::new(gpu(), Options::default(), &task(2, 2, Precision::F32));
        assert!(case.is_current());
        assert!(!Case { library: "0.0.1".to_owned(), ..case.clone() }.is_current());
        assert!(!Case { gpu: Gpu { kernels: "0".repeat(64), ..gpu() }, ..case }.is_current());
    }

    #[test]
    fn a_choice_is_found_again_among_the_ways() {
        for precision in [Precision::F32, Precision::Tf32] {
            let ways = algorithm::ways(Algorithm::Auto, &task(2, 2, precision)).unwrap();
            for (index, (algorithm, recipe)) in ways.iter().enumerate() {
                assert_eq!(
                    Choice::of(*algorithm, &recipe.describe()).find(&ways),
                    Some(index),
                    "two ways have one name"
                );
            }
        }
    }

    #[test]
    fn a_choice_that_is_no_way_any_more_is_not_found() {
        let ways = algorithm::ways(Algorithm::Auto, &task(2, 2, Precision::F32)).unwrap();
        assert_eq!(Choice::of(Algorithm::Tile, "tile_7x7_f32 on 1x1x1x1 positions").find(&ways), None);
        assert_eq!(Choice::of(Algorithm::Scatter, "gather").find(&ways), None);
    }
}
