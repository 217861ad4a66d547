//! The flat kernels on a GPU, in each way that the model takes into account. Small whole numbers are exact in TF32, so
//! the results have to be, too.
#![cfg(feature = "cuda")]

mod flat_layers;
mod gpu;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, CudaError, Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};
use gpu::{computed, device_of_capability_9 as device, expected, whole_numbers};

fn options() -> Options {
    Options::default().algorithm(Algorithm::Flat).precision(Precision::Tf32)
}

/// Checks each way to compute some layers, twice: the second time, the workspace holds what the first one has left.
fn check_all<const D: usize>(device: &Device, layers: Vec<(ConvTranspose<D>, Shape<D>)>, scales_samples: bool) {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for (layer, input) in layers {
        let (mut x, w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        if scales_samples {
            flat_layers::scale_samples(&mut x);
        }
        // Biases that vanish beside large values would not be exact.
        let bias: Vec<f32> =
            (0..layer.out_channels()).map(|channel| if scales_samples { 0 } else { channel } as f32).collect();
        let exact = expected(&layer, &x, &w, Some(&bias));
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        let bias = device.upload_slice(&bias).unwrap();
        for plan in Plan::ways(device, &layer, input, options()).unwrap() {
            for _ in 0..2 {
                let output = computed(device, &stream, &plan, &x, &w, &bias);
                assert!(output.as_slice() == exact, "{}, {layer:?}, {input}", plan.describe());
            }
        }
    }
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    check_all(&device, flat_layers::signals(), false);
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    check_all(&device, flat_layers::pictures(), false);
}

/// More jobs than multiprocessors, so that teams store in turn; planes that are no multiple of a sector, too.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, 70, [3, 5]).padding([1, 1]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    check_all(&device, vec![large(24, [211, 197]), large(40, [256, 256])], false);
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    check_all(&device, flat_layers::volumes(), false);
}

#[test]
fn each_sample_has_a_scale_of_its_own() {
    let Some(device) = device("each_sample_has_a_scale_of_its_own") else { return };
    check_all(&device, flat_layers::volumes(), true);
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
