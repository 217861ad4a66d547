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
        let (mut squared_error, mut squared) = (0.0, 0.0);
        for &(index, expected) in &self.0 {
            // Element by element: the whole output may have gigabytes.
            let mut element = [0.0f32];
            output.buffer().index(index..index + 1).copy_to(&mut element)?;
            squared_error += (f64::from(element[0]) - expected).powi(2);
            squared += expected.powi(2);
        }
        Ok((squared_error / squared).sqrt())
    }
}
