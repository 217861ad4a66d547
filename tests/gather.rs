//! The gather kernel on the emulator.
#![cfg(feature = "emulator")]

mod gather_layers;
mod ways;

use conv_transpose::{
    ConvTranspose, Shape, Tensor,
    cuda::{Algorithm, EmulatedPlan, Options},
};
use ways::check_all;

fn options() -> Options {
    Options::default().algorithm(Algorithm::Gather)
}

#[test]
fn signals() {
    check_all(options(), gather_layers::signals());
}

#[test]
fn pictures() {
    check_all(options(), gather_layers::pictures());
}

#[test]
fn volumes() {
    check_all(options(), gather_layers::volumes());
}

/// What a tap would multiply by zero may be infinite.
#[test]
fn taps_beyond_the_input_are_no_products() {
    for kernel in [3, 200] {
        let layer = ConvTranspose::<1>::builder(1, 1, [kernel]).build().unwrap();
        let input = Shape::batched(1, 1, [1]);
        let x = Tensor::filled(input, 1.0).unwrap();
        let mut w = Tensor::filled(layer.weight_shape(), f32::INFINITY).unwrap();
        w.as_mut_slice()[1] = 2.0;
        let y = EmulatedPlan::new(&layer, input, options()).unwrap().forward(&x, &w, None).unwrap();
        let expected: Vec<f32> = (0..kernel).map(|tap| if tap == 1 { 2.0 } else { f32::INFINITY }).collect();
        assert_eq!(y.as_slice(), expected);
    }
}
