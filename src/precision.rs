//! How exactly a GPU computes.

use std::fmt;

/// How exactly a GPU computes the products of `f32` elements. Sums are `f32` always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As exact as `f32` arithmetic: relative error of an output tensor (L2 norm) at most 2e-6.
    ///
    /// On tensor cores each factor is the sum of two numbers: of TF32, or on compute capability 9.0 of `f16`, after
    /// inputs and weights have been multiplied by powers of two. A plan's description names the kernel then
    /// (`_f32_f16`, `flat_`, `patch_`). Inputs of any magnitude are as exact, unless others in the same sample are more
    /// than 2^13 times as large (`patch_`: 2^10), or weights unless others are more than 2^18 times as large: the small
    /// ones are rounded to a multiple of at most 2^-34 (2^-31, 2^-39) of the largest then. Samples do not depend on
    /// each other, but for `patch_`, where the power of two may be that of the sample before, and with it the last bits.
    /// An infinite input or weight makes NaN of what it reaches.
    #[default]
    F32,
    /// Factors are rounded to TF32, with 10 bits behind the binary point, which is what PyTorch does with convolutions
    /// by default: relative error of an output tensor (L2 norm) at most 5e-4, and up to three times as fast on tensor
    /// cores. Algorithms without tensor cores compute in `f32` none the less.
    ///
    /// That is 3e-4 for values at random, of outputs that are many. Where few elements cancel out to little, as any sum
    /// may, less of what is left is right: of eight elements of 512 products each, 5.6e-4 was measured.
    ///
    /// On compute capability 9.0, layers with many products for each input element may be computed with `f16` factors,
    /// which have as many bits of fraction, after inputs and weights have been multiplied by powers of two. Inputs of
    /// any magnitude are as exact as in TF32, unless others in the same sample, or the same tile, are more than 2^15
    /// times as large, or weights unless others are more than 2^19 times as large: then the small ones are rounded to a
    /// multiple of at most 2^-24 (2^-29) of the largest. A plan's description names the kernel (`_f16`, `flat_`,
    /// `patch_`).
    Tf32,
}

#[cfg(feature = "cuda")]
impl Precision {
    /// Whether tensor cores get each factor as the sum of two numbers.
    pub(crate) fn splits_factors(self) -> bool {
        self == Self::F32
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
        })
    }
}
