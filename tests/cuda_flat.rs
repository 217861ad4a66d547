//! The flat kernels on a GPU, in each way that the model takes into account.
#![cfg(feature = "cuda")]

mod flat_layers;
mod gpu;
mod gpu_ways;
mod scaled_samples;

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};
use gpu::{computed, device_of_capability_9 as device, expected, whole_numbers};
use gpu_ways::check_all;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Flat).precision(precision)
}

#[test]
fn signals() {
    let Some(device) = device("signals") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::signals(), false);
    }
}

#[test]
fn pictures() {
    let Some(device) = device("pictures") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::pictures(), false);
        check_all(&device, options(precision), flat_layers::with_many_taps(), false);
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    let Some(device) = device("both_parts_count") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for (layer, input) in flat_layers::with_many_taps() {
        let (x, mut w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        w.as_mut_slice().iter_mut().enumerate().for_each(|(index, value)| *value += (index % 7 * 1001) as f32);
        let bias = vec![1.0; layer.out_channels()];
        let exact = expected(&layer, &x, &w, Some(&bias));
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        let bias = device.upload_slice(&bias).unwrap();
        for plan in Plan::ways(&device, &layer, input, options(Precision::F32)).unwrap() {
            let output = computed(&device, &stream, &plan, &x, &w, &bias);
            assert!(output.as_slice() == exact, "{}, {input}", plan.describe());
        }
    }
}

/// More jobs than multiprocessors, so that teams store in turn; planes that are no multiple of a sector, too.
#[test]
fn large_pictures() {
    let Some(device) = device("large_pictures") else { return };
    let large = |channels: usize, extent: [usize; 2]| {
        let layer = ConvTranspose::<2>::builder(channels, 70, [3, 5]).padding([1, 1]).build().unwrap();
        (layer, Shape::batched(3, channels, extent))
    };
    for precision in PRECISIONS {
        check_all(&device, options(precision), vec![large(24, [211, 197]), large(40, [256, 256])], false);
    }
}

#[test]
fn volumes() {
    let Some(device) = device("volumes") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::volumes(), false);
    }
}

#[test]
fn each_sample_has_a_scale_of_its_own() {
    let Some(device) = device("each_sample_has_a_scale_of_its_own") else { return };
    for precision in PRECISIONS {
        check_all(&device, options(precision), flat_layers::volumes(), true);
    }
}
