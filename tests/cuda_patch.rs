//! The patch kernels on a GPU, with each layout that there is.
#![cfg(feature = "cuda")]

mod gpu;
mod gpu_ways;
mod patch_layers;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, CudaError, Options, Plan},
};
use gpu::device_of_capability_9 as device;
use gpu_ways::check_all;

fn options() -> Options {
    Options::default().algorithm(Algorithm::Patch).precision(Precision::Tf32)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    check_all(&device, options(), patch_layers::signals(), false);
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    check_all(&device, options(), patch_layers::pictures(), false);
}

/// More jobs than multiprocessors, so that teams store in turn, blocks keep their weights, and what is next is brought
/// closer; with whole tiles, and not.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, outputs: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, outputs, [2, 2]).stride([2, 2]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    check_all(
        &device,
        options(),
        vec![large(128, 64, [96, 128]), large(72, 70, [102, 98]), large(600, 40, [64, 64])],
        false,
    );
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    check_all(&device, options(), patch_layers::volumes(), false);
}

#[test]
fn tiles_have_a_scale_of_their_own() {
    let Some(device) = device("tiles_have_a_scale_of_their_own") else { return };
    check_all(&device, options(), patch_layers::tiles_of_samples(), true);
}

#[test]
fn other_precisions_are_refused() {
    let Some(device) = device("other_precisions_are_refused") else { return };
    let layer = ConvTranspose::<1>::builder(16, 16, [2]).stride([2]).build().unwrap();
    let plan = Plan::new(&device, &layer, Shape::batched(1, 16, [100]), options().precision(Precision::F32));
    let is_refused = |error: &conv_transpose::Error| {
        matches!(error, conv_transpose::Error::Cuda(CudaError::Unsupported { algorithm: Algorithm::Patch, .. }))
    };
    assert!(plan.is_err_and(|error| is_refused(&error)));
}
