//! The patch kernels on the emulator, with every second layout that there is; on a GPU with each (`cuda_patch.rs`).
#![cfg(feature = "emulator")]

mod long_factors;
mod patch_layers;
mod scaled_samples;
mod ways;

use conv_transpose::{
    ConvTranspose, ConvTransposeBuilder, Error, Precision, Shape,
    cuda::{Algorithm, CudaError, EmulatedPlan, Options, Unsupported},
};
use ways::{check, check_all, check_ways, integers};

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Tf32];

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Patch).precision(precision)
}

#[test]
fn signals() {
    for precision in PRECISIONS {
        let descriptions = check_all(options(precision), patch_layers::signals());
        let kernels = match precision {
            Precision::F32 => ["patch_64_f32", "patch_128_f32"],
            Precision::Tf32 => ["patch_64 ", "patch_128 "],
        };
        let tiles = ["256 rows and 128", "128 rows and 256", "64 rows and 256", "weights kept"];
        for words in kernels.into_iter().chain(tiles) {
            assert!(descriptions.contains(words), "{words}");
        }
    }
}

#[test]
fn pictures() {
    for precision in PRECISIONS {
        check_all(options(precision), patch_layers::pictures());
    }
}

#[test]
fn pictures_with_gaps() {
    for precision in PRECISIONS {
        check_all(options(precision), patch_layers::pictures_with_gaps());
    }
}

#[test]
fn volumes() {
    for precision in PRECISIONS {
        check_all(options(precision), patch_layers::volumes());
    }
}

/// In single precision factors are sums of two numbers. With such that have more bits than one of them, and few enough
/// in all for exact sums, the results are exact.
#[test]
fn both_parts_count() {
    for (layer, input) in patch_layers::few_and_many_channels() {
        let (mut x, mut w) = (integers(input, 1), integers(layer.weight_shape(), 2));
        long_factors::lengthen(&layer, &mut x, &mut w);
        check_ways(&layer, options(Precision::F32), &x, &w, true);
    }
}

#[test]
fn threads_may_come_in_any_order() {
    let (layer, input) = patch_layers::pictures().swap_remove(0);
    let (x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    for seed in 0..3 {
        for precision in PRECISIONS {
            check(&EmulatedPlan::new(&layer, input, options(precision)).unwrap().seed(seed), &x, &w, true);
        }
    }
}

/// `f16` holds no values of 2^40, and those of 2^-30 without their bits. Tiles that are begun with a wrong power of two
/// are computed again.
#[test]
fn tiles_have_a_scale_of_their_own() {
    for (layer, input) in patch_layers::tiles_of_samples() {
        let (mut x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
        scaled_samples::scale_samples(&mut x);
        for precision in PRECISIONS {
            check(&EmulatedPlan::new(&layer, input, options(precision)).unwrap(), &x, &w, false);
        }
    }
}

/// In single precision a tile has one sample, however small.
#[test]
fn samples_have_tiles_of_their_own() {
    let (layer, input) = patch_layers::pictures().swap_remove(0);
    let (mut x, w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    scaled_samples::scale_samples(&mut x);
    check_ways(&layer, options(Precision::F32), &x, &w, false);
}

/// What is not finite decides no power of two, and reaches nothing but its own patch. In single precision what is left
/// of an infinite value is no number.
#[test]
fn infinities_stay_in_their_patch() {
    let (layer, input) = patch_layers::pictures().swap_remove(1);
    let (mut x, mut w) = (integers(input, 1), integers(layer.weight_shape(), 2));
    w.as_mut_slice().iter_mut().for_each(|weight| *weight += 5.0);
    x.as_mut_slice()[0] = f32::INFINITY;
    for precision in PRECISIONS {
        let plan = EmulatedPlan::new(&layer, input, options(precision)).unwrap();
        let y = plan.forward(&x, &w, None).unwrap();
        let extents = y.shape().extent;
        for (index, &value) in y.as_slice().iter().enumerate() {
            let (row, column) = (index / extents[1] % extents[0], index % extents[1]);
            let is_of_first = index < y.as_slice().len() / 2 && row < 2 && column < 2;
            assert_eq!(!value.is_finite(), is_of_first, "{index}");
            assert_eq!(value.is_nan(), is_of_first && precision == Precision::F32, "{index}");
        }
    }
}

#[test]
fn of_no_samples_nothing_is_computed() {
    let layer = ConvTranspose::<2>::builder(16, 16, [2, 2]).stride([2, 2]).build().unwrap();
    let input = Shape::batched(0, 16, [8, 8]);
    for plan in
        PRECISIONS.into_iter().flat_map(|precision| EmulatedPlan::ways(&layer, input, options(precision)).unwrap())
    {
        let output = plan.forward(&integers(input, 1), &integers(layer.weight_shape(), 2), None).unwrap();
        assert_eq!(output.shape(), Shape::batched(0, 16, [16, 16]));
    }
}

#[test]
fn what_it_is_not_for_is_refused() {
    let refusal = |builder: ConvTransposeBuilder<2>, extent: [usize; 2], precision: Precision, architecture: &str| {
        let layer = builder.build().unwrap();
        match EmulatedPlan::with_architecture(&layer, Shape::batched(1, 16, extent), options(precision), architecture) {
            Err(Error::Cuda(CudaError::Unsupported { algorithm: Algorithm::Patch, reason })) => Some(reason),
            other => other.err().map(|error| panic!("{error}")),
        }
    };
    let layer = |kernel, stride| ConvTranspose::<2>::builder(16, 16, kernel).stride(stride);
    for precision in PRECISIONS {
        let refusal = |builder, extent| refusal(builder, extent, precision, "sm_90a");
        assert_eq!(refusal(layer([2, 2], [2, 2]), [8, 8]), None);
        assert_eq!(refusal(layer([2, 1], [2, 4]).output_padding([0, 3]), [8, 8]), None);
        assert_eq!(refusal(layer([1, 1], [64, 8]).output_padding([63, 7]), [8, 8]), Some(Unsupported::NoTile));
        for (builder, extent) in [
            (layer([3, 2], [2, 2]), [8, 8]),
            (layer([2, 2], [3, 2]), [8, 8]),
            (layer([3, 3], [3, 3]), [8, 8]),
            (layer([2, 2], [2, 2]).dilation([2, 1]), [8, 8]),
            (layer([2, 2], [2, 2]).padding([0, 1]), [8, 8]),
            (layer([2, 1], [2, 4]).output_padding([0, 2]), [8, 8]),
            (layer([2, 2], [2, 2]).output_padding([1, 0]), [8, 8]),
            (layer([2, 2], [2, 2]), [8, 7]),
            (layer([2, 2], [2, 2]), [7, 6]),
        ] {
            assert_eq!(refusal(builder, extent), Some(Unsupported::NoPatches), "{builder:?}, {extent:?}");
        }
    }
    let picture = || layer([2, 2], [2, 2]);
    for (precision, architecture) in [(Precision::F32, "sm_80"), (Precision::Tf32, "sm_80"), (Precision::F32, "sm_70")]
    {
        assert_eq!(refusal(picture(), [8, 8], precision, architecture), Some(Unsupported::Hopper));
    }
}
