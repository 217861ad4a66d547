//! Tensors of random numbers.

use conv_transpose::{Shape, Tensor};

/// Tensors of numbers between -1/2 and 1/2, different ones for each seed.
pub fn random_tensors(seed: u64) -> impl FnMut(Shape<2>) -> Tensor<f32, 2> {
    let mut rng = fastrand::Rng::with_seed(seed);
    move |shape| {
        let len = shape.checked_len().unwrap();
        Tensor::from_vec(shape, (0..len).map(|_| rng.f32() - 0.5).collect()).unwrap()
    }
}
