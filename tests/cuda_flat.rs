//! The flat kernels on a GPU, in each way that the model takes into account.
#![cfg(feature = "cuda")]

mod flat_layers;
mod gpu;
mod gpu_ways;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, CudaError, Options, Plan},
};
use gpu::device_of_capability_9 as device;
use gpu_ways::check_all;

fn options() -> Options {
    Options::default().algorithm(Algorithm::Flat).precision(Precision::Tf32)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    check_all(&device, options(), flat_layers::signals(), false);
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    check_all(&device, options(), flat_layers::pictures(), false);
}

/// More jobs than multiprocessors, so that teams store in turn; planes that are no multiple of a sector, too.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, 70, [3, 5]).padding([1, 1]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    check_all(&device, options(), vec![large(24, [211, 197]), large(40, [256, 256])], false);
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    check_all(&device, options(), flat_layers::volumes(), false);
}

#[test]
fn each_sample_has_a_scale_of_its_own() {
    let Some(device) = device("each_sample_has_a_scale_of_its_own") else { return };
    check_all(&device, options(), flat_layers::volumes(), true);
}

#[test]
fn other_precisions_are_refused() {
    let Some(device) = device("other_precisions_are_refused") else { return };
    let layer = ConvTranspose::<1>::builder(16, 16, [3]).build().unwrap();
    let plan = Plan::new(&device, &layer, Shape::batched(1, 16, [100]), options().precision(Precision::F32));
    let is_refused = |error: &conv_transpose::Error| {
        matches!(error, conv_transpose::Error::Cuda(CudaError::Unsupported { algorithm: Algorithm::Flat, .. }))
    };
    assert!(plan.is_err_and(|error| is_refused(&error)));
}
