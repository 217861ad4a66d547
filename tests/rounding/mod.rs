//! How far roundings can take a transposed convolution from its exact value, whatever the order of its additions.

use conv_transpose::{Problem, oracle};

/// For each output element the number of roundings that any one product can go through (its own, and one for each
/// addition) and the sum of the magnitudes of all products and the bias.
pub struct Rounding {
    roundings: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Rounding {
    pub fn of<const D: usize>(problem: &Problem<D>, x: &[f32], w: &[f32], b: Option<&[f32]>) -> Self {
        let absolute = |values: &[f32]| values.iter().map(|value| value.abs()).collect::<Vec<f32>>();
        let magnitudes = oracle::forward(problem, &absolute(x), &absolute(w), b.map(absolute).as_deref());
        let mut roundings = oracle::forward(problem, &vec![1.0; x.len()], &vec![1.0; w.len()], None);
        if b.is_some() {
            roundings.iter_mut().filter(|terms| **terms > 0.0).for_each(|terms| *terms += 1.0);
        }
        Self { roundings, magnitudes }
    }

    /// Fails if an element differs by more than two computations of these round-offs can: each is off by at most
    /// `gamma_n * (sum |x||w| + |bias|)`, with `gamma_n = n u / (1 - n u)` for `n` roundings. It holds for every order
    /// of additions, with or without fused multiply-add.
    pub fn check(&self, index: usize, actual: f64, expected: f64, roundoffs: [f64; 2]) -> Result<(), String> {
        let (n, magnitude) = (self.roundings[index], self.magnitudes[index]);
        let gamma = |u: f64| n * u / (1.0 - n * u);
        let bound = (gamma(roundoffs[0]) + gamma(roundoffs[1])) * magnitude;
        let error = (actual - expected).abs();
        // Not even a NaN is to slip through.
        if error <= bound {
            return Ok(());
        }
        Err(format!(
            "element {index}: {actual} instead of {expected}, off by {error:e}; {n} roundings at a total magnitude of {magnitude} \
             allow {bound:e}"
        ))
    }
}
