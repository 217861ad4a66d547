//! The patch kernels on the emulator, with each layout that there is.
#![cfg(feature = "emulator")]

mod patch_layers;
mod scaled_samples;
mod ways;

use conv_transpose::{
    ConvTranspose, ConvTransposeBuilder, Error, Precision, Shape,
    cuda::{Algorithm, CudaError, EmulatedPlan, Options, Unsupported},
};
use ways::{check, check_all, integers};

fn options() -> Options {
    Options::default().algorithm(Algorithm::Patch).precision(Precision::Tf32)
}

#[test]
fn signals() {
    let descriptions = check_all(options(), patch_layers::signals());
    for words in ["patch_64", "patch_128", "256 rows and 128", "128 rows and 256", "64 rows and 256", "weights kept"] {
        assert!(descriptions.contains(words), "{words}");
    }
}

#[test]
fn pictures() {
    check_all(options(), patch_layers::pictures());
}

#[test]
fn volumes() {
    check_all(options(), patch_layers::volumes());
}

#[test]
fn threads_may_come_in_any_order() {
    let (layer, input) = patch_layers::pictures().swap_remove(0);
    let (x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    for seed in 0..3 {
        check(&EmulatedPlan::new(&layer, input, options()).unwrap().seed(seed), &x, &w, true);
    }
}

/// `f16` holds no values of 2^40, and those of 2^-30 without their bits. Tiles that are begun with a wrong power of two
/// are computed again.
#[test]
fn tiles_have_a_scale_of_their_own() {
    for (layer, input) in patch_layers::tiles_of_samples() {
        let (mut x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
        scaled_samples::scale_samples(&mut x);
        check(&EmulatedPlan::new(&layer, input, options()).unwrap(), &x, &w, false);
    }
}

/// What is not finite decides no power of two, and reaches nothing but its own patch.
#[test]
fn infinities_stay_in_their_patch() {
    let (layer, input) = patch_layers::pictures().swap_remove(1);
    let (mut x, mut w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    w.as_mut_slice().iter_mut().for_each(|weight| *weight += 5.0);
    x.as_mut_slice()[0] = f32::INFINITY;
    let plan = EmulatedPlan::new(&layer, input, options()).unwrap();
    let y = plan.forward(&x, &w, None).unwrap();
    let extents = y.shape().extent;
    for (index, &value) in y.as_slice().iter().enumerate() {
        let (row, column) = (index / extents[1] % extents[0], index % extents[1]);
        let is_of_first = index < y.as_slice().len() / 2 && row < 2 && column < 2;
        assert_eq!(value == f32::INFINITY, is_of_first, "{index}");
        assert!(!value.is_nan(), "{index}");
    }
}

#[test]
fn of_no_samples_nothing_is_computed() {
    let layer = ConvTranspose::<2>::builder(16, 16, [2, 2]).stride([2, 2]).build().unwrap();
    let input = Shape::batched(0, 16, [8, 8]);
    for plan in EmulatedPlan::ways(&layer, input, options()).unwrap() {
        let output = plan.forward(&integers(input, 1), &integers(layer.weight_shape(), 2), None).unwrap();
        assert_eq!(output.shape(), Shape::batched(0, 16, [16, 16]));
    }
}

#[test]
fn what_it_is_not_for_is_refused() {
    let refusal = |builder: ConvTransposeBuilder<2>, extent: [usize; 2], precision: Precision, architecture: &str| {
        let layer = builder.build().unwrap();
        let options = options().precision(precision);
        match EmulatedPlan::with_architecture(&layer, Shape::batched(1, 16, extent), options, architecture) {
            Err(Error::Cuda(CudaError::Unsupported { algorithm: Algorithm::Patch, reason })) => Some(reason),
            other => other.err().map(|error| panic!("{error}")),
        }
    };
    let layer = |kernel, stride| ConvTranspose::<2>::builder(16, 16, kernel).stride(stride);
    let tf32 = |builder, extent| refusal(builder, extent, Precision::Tf32, "sm_90a");
    assert_eq!(tf32(layer([2, 2], [2, 2]), [8, 8]), None);
    assert_eq!(tf32(layer([2, 2], [2, 2]).dilation([2, 1]), [8, 8]), Some(Unsupported::NoPatches));
    for (builder, extent) in [
        (layer([3, 2], [2, 2]), [8, 8]),
        (layer([2, 2], [3, 2]), [8, 8]),
        (layer([3, 3], [3, 3]), [8, 8]),
        (layer([2, 4], [2, 4]), [8, 8]),
        (layer([2, 2], [2, 2]).padding([0, 1]), [8, 8]),
        (layer([2, 2], [2, 2]).output_padding([1, 0]), [8, 8]),
        (layer([2, 2], [2, 2]), [8, 7]),
        (layer([2, 2], [2, 2]), [7, 6]),
    ] {
        assert_eq!(tf32(builder, extent), Some(Unsupported::NoPatches), "{builder:?}, {extent:?}");
    }
    let picture = layer([2, 2], [2, 2]);
    assert_eq!(refusal(picture, [8, 8], Precision::F32, "sm_90a"), Some(Unsupported::Tf32OnHopper));
    assert_eq!(refusal(picture, [8, 8], Precision::Tf32, "sm_80"), Some(Unsupported::Tf32OnHopper));
}
