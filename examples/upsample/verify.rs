//! Comparison of a result with the definition of transposed convolution.

use anyhow::{Result, ensure};
use conv_transpose::{ConvTranspose2d, Tensor, oracle};
use rayon::prelude::*;

/// How many elements are compared at most: some seconds' worth.
const MOST: usize = 1 << 22;
/// What rounding may make of it, full scale being 1.
const TOLERANCE: f64 = 1e-4;

/// What came of a comparison.
pub struct Verdict {
    /// The largest absolute difference, full scale being 1.
    pub difference: f64,
    /// Elements compared.
    pub compared: usize,
    /// Elements of the result.
    pub of: usize,
}

/// Compares the output of a layer, or an even sample of it, with the definition.
pub fn compare(
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
    output: &Tensor<f32, 2>,
) -> Result<Verdict> {
    let problem = layer.problem(input.shape())?;
    let of = output.as_slice().len();
    let step = step(of);
    let difference = (0..of)
        .into_par_iter()
        .step_by(step)
        .map(|index| {
            let expected = oracle::output_at(&problem, input.as_slice(), weight.as_slice(), None, index);
            (f64::from(output.as_slice()[index]) - expected).abs()
        })
        // Unlike `f64::max`, the total order keeps a NaN.
        .max_by(f64::total_cmp)
        .unwrap_or_default();
    ensure!(difference <= TOLERANCE, "the result is off by {difference:.1e} of full scale: nothing was written");
    Ok(Verdict { difference, compared: of.div_ceil(step), of })
}

/// The distance between compared elements. It shares no factor with any scale, so that every sub-pixel position is met.
fn step(len: usize) -> usize {
    let least = len.div_ceil(MOST).max(1);
    (least..).find(|step| [2, 3, 5, 7].iter().all(|factor| step % factor != 0)).unwrap_or(1)
}
