//! The ways to compute some layers, on the emulator: the chosen one, and every second one of the others, which differ in
//! little. On a GPU all of them are tried (`gpu_ways`). Small integers are exact in TF32, so the results have to be, too.

use conv_transpose::{
    ConvTranspose, Shape, Tensor,
    cuda::{EmulatedPlan, Options},
    oracle,
};

/// A tensor of small integers, different for each seed.
pub fn integers<const D: usize>(shape: Shape<D>, seed: u64) -> Tensor<f32, D> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut tensor = Tensor::filled(shape, 0.0f32).unwrap();
    tensor.as_mut_slice().fill_with(|| rng.i32(-4..=4) as f32);
    tensor
}

/// Checks what a plan computes, with a bias unless the values are not around one.
pub fn check<const D: usize>(plan: &EmulatedPlan<D>, x: &Tensor<f32, D>, w: &Tensor<f32, D>, has_bias: bool) {
    let bias: Vec<f32> = (0..plan.problem().out_channels()).map(|channel| channel as f32).collect();
    let bias = has_bias.then_some(&bias[..]);
    let y = plan.forward(x, w, bias).unwrap_or_else(|error| panic!("{}, {}: {error}", plan.describe(), x.shape()));
    for (index, &value) in y.as_slice().iter().enumerate() {
        let expected = oracle::output_at(plan.problem(), x.as_slice(), w.as_slice(), bias, index);
        assert_eq!(f64::from(value), expected, "{}, {}: element {index}", plan.describe(), x.shape());
    }
}

/// Checks ways to compute some layers. Returns what all of them are.
pub fn check_all<const D: usize>(options: Options, layers: Vec<(ConvTranspose<D>, Shape<D>)>) -> String {
    let check_layer = |(layer, input): (ConvTranspose<D>, Shape<D>)| {
        check_ways(&layer, options, &integers(input, 1), &integers(layer.weight_shape(), 2), true)
    };
    layers.into_iter().map(check_layer).collect()
}

/// Checks ways to compute a layer of some inputs and weights. Returns what all of them are.
pub fn check_ways<const D: usize>(
    layer: &ConvTranspose<D>,
    options: Options,
    x: &Tensor<f32, D>,
    w: &Tensor<f32, D>,
    has_bias: bool,
) -> String {
    let plans = EmulatedPlan::ways(layer, x.shape(), options).unwrap();
    plans.iter().step_by(2).for_each(|plan| check(plan, x, w, has_bias));
    plans.iter().map(EmulatedPlan::describe).collect()
}
