//! How exactly a GPU computes.

use std::fmt;

/// How exactly a GPU computes the products of `f32` elements. Sums are `f32` always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As exact as `f32` arithmetic: relative error of an output tensor (L2 norm) at most 2e-6.
    #[default]
    F32,
    /// Factors are rounded to TF32, with 10 bits behind the binary point, which is what PyTorch does with convolutions by
    /// default: relative error of an output tensor (L2 norm) at most 5e-4, and several times faster on tensor cores. Algorithms
    /// without tensor cores compute in `f32` none the less.
    Tf32,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
        })
    }
}
