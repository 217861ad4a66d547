//! The floor: the time below which a GPU cannot get, by what its memory and its tensor cores can do.

use conv_transpose::{Precision, Problem};
use serde::Serialize;

/// What a GPU can do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ceiling {
    /// The rate of a copy, bytes read and written.
    pub copy_gb_per_s: f64,
    /// The rate of TF32 matrix products.
    pub tf32_tflop_per_s: f64,
}

impl Ceiling {
    /// The rate of the arithmetic in TFLOP/s. As exact as `f32`, a product takes three of TF32's.
    pub fn tflop_per_s(&self, precision: Precision) -> f64 {
        match precision {
            Precision::F32 => self.tf32_tflop_per_s / 3.0,
            Precision::Tf32 => self.tf32_tflop_per_s,
        }
    }

    /// The floor of some work, in milliseconds.
    pub fn floor_ms(&self, work: &Work, precision: Precision) -> f64 {
        (work.bytes / self.copy_gb_per_s / 1e6).max(work.flops / self.tflop_per_s(precision) / 1e9)
    }
}

/// What a problem asks of a GPU.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Work {
    /// Input, weight, output, and the bias if there is one, once.
    pub bytes: f64,
    /// The usual count, cut-off products included.
    pub flops: f64,
}

impl Work {
    pub fn of<const D: usize>(problem: &Problem<D>, has_bias: bool) -> Self {
        // The library counts a bias.
        let surplus = if has_bias { 0 } else { problem.out_channels() };
        let elements = problem.elements_moved() - surplus as f64;
        Self { bytes: elements * size_of::<f32>() as f64, flops: problem.flops() }
    }
}

#[cfg(test)]
mod tests {
    use conv_transpose::{ConvTranspose1d, Shape};

    use super::*;

    #[test]
    fn the_scarcer_resource_decides() {
        let layer = ConvTranspose1d::builder(1000, 1000, [1]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 1000, [1000])).unwrap();
        assert_eq!(Work::of(&problem, true).bytes, 12e6 + 4e3);
        let work = Work::of(&problem, false);
        assert_eq!((work.bytes, work.flops), (12e6, 2e9));
        let ceiling = |copy_gb_per_s| Ceiling { copy_gb_per_s, tf32_tflop_per_s: 100.0 };
        assert_eq!(ceiling(1000.0).floor_ms(&work, Precision::Tf32), 0.02);
        assert_eq!(ceiling(100.0).floor_ms(&work, Precision::Tf32), 0.12);
        assert!((ceiling(1000.0).floor_ms(&work, Precision::F32) - 0.06).abs() < 1e-12);
    }
}
