//! A sample of a problem's outputs as the oracle has them, to compare those of a GPU with.

use anyhow::Result;
use conv_transpose::{Problem, Tensor, cuda::DeviceTensor, oracle};
use cust::memory::CopyDestination;
use rayon::prelude::*;

const COUNT: usize = 512;

/// Some row-major indices of outputs with their values.
pub struct Samples(Vec<(usize, f64)>);

impl Samples {
    /// Asks the oracle.
    pub fn new<const D: usize>(
        problem: &Problem<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Self {
        let len: usize = problem.output_shape().dims().iter().product();
        let mut rng = fastrand::Rng::with_seed(7);
        let indices: Vec<usize> = (0..COUNT).map(|_| rng.usize(..len)).collect();
        let expected = |index| oracle::output_at(problem, input.as_slice(), weight.as_slice(), bias, index);
        Self(indices.into_par_iter().map(|index| (index, expected(index))).collect())
    }

    /// The relative L2 error of an output over the sample. Work on it must be done.
    pub fn error<const D: usize>(&self, output: &DeviceTensor<f32, D>) -> Result<f64> {
        let mut pairs = Vec::new();
        for &(index, expected) in &self.0 {
            // Element by element: the whole output may have gigabytes.
            let mut element = [0.0f32];
            output.buffer().index(index..index + 1).copy_to(&mut element)?;
            pairs.push((f64::from(element[0]), expected));
        }
        Ok(relative_error(&pairs))
    }
}

/// The relative L2 error of values, each with what is expected.
fn relative_error(pairs: &[(f64, f64)]) -> f64 {
    let squared_error: f64 = pairs.iter().map(|(value, expected)| (value - expected).powi(2)).sum();
    let squared: f64 = pairs.iter().map(|(_, expected)| expected.powi(2)).sum();
    // Zeros that are as they should be would give no number, as if one of them were missing.
    if squared_error == 0.0 { 0.0 } else { (squared_error / squared).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_relative_to_what_is_expected() {
        assert_eq!(relative_error(&[(3.0, 3.0), (4.5, 4.0)]), 0.1);
    }

    #[test]
    fn zeros_have_no_error_unless_something_else_was_written_or_nothing() {
        assert_eq!(relative_error(&[(0.0, 0.0), (-0.0, 0.0)]), 0.0);
        assert_eq!(relative_error(&[(0.0, 0.0), (1e-30, 0.0)]), f64::INFINITY);
        assert!(relative_error(&[(0.0, 0.0), (f64::NAN, 0.0)]).is_nan());
    }
}
