//! The tile kernels on a GPU, in every way that the model takes into account, and in the one that it chooses compiled
//! for the layer. Small whole numbers are exact in either precision, so the results have to be, too.
#![cfg(feature = "cuda")]

mod bare;
mod converted;
mod gpu;
mod in_turn;
mod leads;
mod long_jobs;
mod long_lines;
mod margins;
mod paired_taps;
mod random_tensors;
mod relative_error;
mod short_lines;
mod stretches;

use std::{
    thread,
    time::{Duration, Instant},
};

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Device, Options, Plan},
    oracle,
};
use converted::Way;
use cust::stream::{Stream, StreamFlags};
use gpu::{Exact, computed, devices, expected, whole_numbers};
use random_tensors::random_tensors;
use relative_error::relative_error;

/// Checks every way to compute a layer in both precisions; by the first device, the descriptions of some of them
/// contain some words.
fn check<const D: usize>(devices: &[Device], layer: &ConvTranspose<D>, input: Shape<D>, words: &str) {
    check_in(&[Precision::Tf32, Precision::F32], devices, layer, input, words);
}

/// The same in some precisions.
fn check_in<const D: usize>(
    precisions: &[Precision],
    devices: &[Device],
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    words: &str,
) {
    if devices.is_empty() {
        // What is expected takes a while to compute.
        return;
    }
    let (x, w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
    let bias: Vec<f32> = (0..layer.out_channels()).map(|channel| channel as f32).collect();
    let exact = expected(layer, &x, &w, Some(&bias));
    for (number, device) in devices.iter().enumerate() {
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        for &precision in precisions {
            let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
            let device_bias = device.upload_slice(&bias).unwrap();
            let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
            let mut plans = Plan::ways(device, layer, input, options.specialised(false)).unwrap();
            assert!(plans.iter().all(|plan| !plan.is_specialised()));
            plans.push(Plan::new(device, layer, input, options.compile_within(Duration::MAX)).unwrap());
            assert!(plans.last().is_some_and(Plan::is_specialised));
            let described = plans.iter().any(|plan| plan.describe().contains(words));
            assert!(described || number > 0, "{precision}, {layer:?}");
            for plan in plans {
                let output = computed(device, &stream, &plan, &x, &w, &device_bias);
                let architecture = device.architecture();
                assert_eq!(output.as_slice(), exact, "{architecture}, {precision}, {}, {layer:?}", plan.describe());
            }
        }
    }
}

/// The same for each of some layers.
fn check_each<const D: usize>(devices: &[Device], layers: Vec<(ConvTranspose<D>, Shape<D>)>, words: &str) {
    for (layer, input) in layers {
        check(devices, &layer, input, words);
    }
}

#[test]
fn halves_of_the_phases_along_x() {
    let devices = devices("halves_of_the_phases_along_x");
    for (kernel, stride, padding) in [(3, 2, 0), (3, 2, 1), (4, 2, 1), (5, 2, 2), (7, 2, 3), (16, 8, 4)] {
        for (channels, extent, words) in [(10, [3, 11], "either half"), (64, [9, 36], "tile")] {
            let layer = ConvTranspose::<2>::builder(9, channels, [2, kernel]).stride([1, stride]).padding([0, padding]);
            check(&devices, &layer.build().unwrap(), Shape::batched(2, 9, extent), words);
        }
    }
}

#[test]
fn few_output_channels() {
    let devices = devices("few_output_channels");
    for (channels, groups, kernel, stride, dilation) in
        [(1, 1, [9, 9], [3, 3], 1), (2, 1, [5, 4], [2, 2], 1), (3, 2, [4, 3], [4, 2], 1), (4, 1, [3, 3], [2, 5], 2)]
    {
        for extent in [[9, 14], [30, 40]] {
            let layer = ConvTranspose::<2>::builder(9 * groups, channels * groups, kernel).stride(stride);
            let layer = layer.groups(groups).dilation([dilation; 2]).padding([1, 2]).build().unwrap();
            check(&devices, &layer, Shape::batched(2, 9 * groups, extent), "close together");
        }
    }
}

/// With four taps along the axis of rows, more, and fewer; aligned rows and others.
#[test]
fn joined_rows() {
    let devices = devices("joined_rows");
    for (channels, kernel, stride, extent) in [
        (16, [3, 3], [1, 1], [13, 30]),
        (9, [5, 2], [1, 1], [18, 64]),
        (3, [4, 4], [2, 2], [19, 36]),
        (1, [9, 5], [3, 1], [7, 11]),
    ] {
        let layer = ConvTranspose::<2>::builder(9, channels, kernel).stride(stride).padding([1, 0]).build().unwrap();
        check(&devices, &layer, Shape::batched(2, 9, extent), "2 joined along");
    }
    let layer = ConvTranspose::<3>::builder(18, 22, [3, 5, 2]).groups(2).padding([0, 2, 0]).build().unwrap();
    check(&devices, &layer, Shape::batched(1, 18, [4, 9, 10]), "2 joined along");
}

/// Rows without taps between others, which are stored together with them: odd rows, rows with gaps, and rows of several
/// phases.
#[test]
fn some_rows_without_taps() {
    let devices = devices("some_rows_without_taps");
    for (channels, kernel, stride, extent) in
        [(40, [3, 3], [5, 5], [9, 30]), (20, [1, 2], [2, 1], [17, 64]), (70, [2, 5], [4, 3], [9, 42])]
    {
        let layer = ConvTranspose::<2>::builder(16, channels, kernel).stride(stride).padding([0, 1]).build().unwrap();
        check(&devices, &layer, Shape::batched(2, 16, extent), "tile");
    }
}

/// Layers whose output is the bias, with so many columns that inputs would be packed for products.
#[test]
fn no_tap_reaches_any_output() {
    let devices = devices("no_tap_reaches_any_output");
    for (channels, kernel, stride, extent) in [([16, 512], [1, 1], [1, 2], [3, 2]), ([64, 64], [1, 8], [2, 1], [2, 9])]
    {
        let layer = ConvTranspose::<2>::builder(channels[0], channels[1], kernel).stride(stride);
        let padding = stride.map(|stride| stride - 1);
        let layer = layer.padding(padding).build().unwrap();
        check(&devices, &layer, Shape::batched(2, channels[0], extent), "tile");
    }
}

/// Dilated taps along the axis of rows: in pictures of whole tiles and of others, in boxes and not; beside a stride,
/// and along z.
#[test]
fn taps_along_rows_that_lie_apart() {
    let devices = devices("taps_along_rows_that_lie_apart");
    for (kernel, stride, dilation, samples, extent, words) in [
        ([3, 3], [1, 1], [2, 2], 2, [60, 64], "one behind the other"),
        ([3, 3], [1, 1], [2, 2], 8, [60, 65], "one behind the other"),
        ([5, 2], [1, 1], [3, 1], 2, [31, 64], "tile"),
        ([6, 3], [2, 1], [3, 1], 2, [21, 30], "tile"),
    ] {
        let layer = ConvTranspose::<2>::builder(16, 40, kernel).stride(stride).dilation(dilation).padding([2, 2]);
        check(&devices, &layer.build().unwrap(), Shape::batched(samples, 16, extent), words);
    }
    let layer = ConvTranspose::<3>::builder(9, 20, [3, 2, 3]).dilation([2, 1, 1]).build().unwrap();
    check(&devices, &layer, Shape::batched(1, 9, [9, 15, 30]), "tile");
}

#[test]
fn strides_larger_than_the_columns_have_room_for() {
    let devices = devices("strides_larger_than_the_columns_have_room_for");
    for (kernel, stride, padding) in [(64, 32, 0), (64, 32, 13), (24, 24, 5), (33, 40, 0), (8, 4, 2)] {
        for (channels, extent) in [(9, 5), (70, 150)] {
            let layer = ConvTranspose::<1>::builder(9, channels, [kernel]).stride([stride]).padding([padding]);
            check(&devices, &layer.build().unwrap(), Shape::batched(2, 9, [extent]), "tile");
        }
    }
}

#[test]
fn a_stride_of_one_in_one_to_three_dimensions() {
    let devices = devices("a_stride_of_one_in_one_to_three_dimensions");
    let layer = ConvTranspose::<1>::builder(17, 33, [5]).dilation([3]).build().unwrap();
    check(&devices, &layer, Shape::batched(3, 17, [300]), "tile");
    let layer = ConvTranspose::<2>::builder(16, 24, [3, 3]).padding([1, 1]).build().unwrap();
    check(&devices, &layer, Shape::batched(2, 16, [20, 36]), "tile");
    let layer = ConvTranspose::<3>::builder(8, 48, [3, 5, 7]).build().unwrap();
    check(&devices, &layer, Shape::batched(1, 8, [5, 6, 16]), "tile");
}

/// A few positions beyond a multiple of 16 are regions of their own, which are computed beside the others; and rows
/// that do not begin with sectors of the memory, of which warps pass words on to each other.
#[test]
fn regions_of_positions() {
    let devices = devices("regions_of_positions");
    let layer = ConvTranspose::<2>::builder(16, 24, [3, 3]).build().unwrap();
    check(&devices, &layer, Shape::batched(2, 16, [31, 64]), " and on ");
    check(&devices, &layer, Shape::batched(1, 16, [128, 136]), " and on ");
    let layer = ConvTranspose::<2>::builder(16, 24, [3, 3]).stride([2, 2]).build().unwrap();
    check(&devices, &layer, Shape::batched(2, 16, [32, 64]), " and on ");
    let layer = ConvTranspose::<3>::builder(8, 48, [3, 2, 3]).build().unwrap();
    check(&devices, &layer, Shape::batched(1, 8, [16, 3, 32]), " and on ");
    let layer = ConvTranspose::<3>::builder(8, 6, [3, 2, 3]).stride([2; 3]).dilation([2; 3]).groups(2).build().unwrap();
    check(&devices, &layer, Shape::batched(1, 8, [16, 3, 16]), " and on ");
    let layer = ConvTranspose::<1>::builder(16, 64, [3]).build().unwrap();
    check(&devices, &layer, Shape::batched(3, 16, [508]), "tile");
}

/// Tiles that take whole rows of the input, or whole slices: these are one stretch of words for a box, wherever it
/// begins and ends.
#[test]
fn whole_rows_and_slices_are_stretches() {
    let devices = devices("whole_rows_and_slices_are_stretches");
    for (layer, input, words) in stretches::of_rows() {
        check(&devices, &layer, input, words);
    }
    for (layer, input, words) in stretches::of_slices() {
        check(&devices, &layer, input, words);
    }
}

/// Slots side by side along x, whose words a line goes through.
#[test]
fn lines_go_through_slots_that_lie_side_by_side() {
    let devices = devices("lines_go_through_slots_that_lie_side_by_side");
    for (layer, input) in long_lines::of_signals() {
        check(&devices, &layer, input, "in long lines");
    }
    for (layer, input) in long_lines::of_even_rows() {
        check_in(&[Precision::Tf32], &devices, &layer, input, "in long lines");
    }
    check_each(&devices, long_lines::of_images(), "in long lines");
    check_each(&devices, long_lines::of_volumes(), "in long lines");
}

/// Lanes take words of short lines side by side, whatever line they are of, in kernels that are compiled for their layer.
#[test]
fn short_lines_are_stored_together() {
    let Some(device) = gpu::device_of_capability_9("short_lines_are_stored_together") else { return };
    check_each_compiled(&device, short_lines::of_signals(), "in short lines");
    check_each_compiled(&device, short_lines::of_images(), "in short lines");
    check_each_compiled(&device, short_lines::of_volumes(), "in short lines");
}

/// Checks, for each of some layers, every third one of those ways that are described by some words, with kernels
/// compiled for the layer.
fn check_each_compiled<const D: usize>(device: &Device, layers: Vec<(ConvTranspose<D>, Shape<D>)>, words: &str) {
    for (layer, input) in layers {
        check_compiled(device, &layer, input, words);
    }
}

fn check_compiled<const D: usize>(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>, words: &str) {
    let Exact { stream, input: x, weight: w, bias, output: exact } = Exact::new(device, layer, input);
    for precision in [Precision::Tf32, Precision::F32] {
        let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
        let plans = Plan::ways(device, layer, input, options.compile_within(Duration::ZERO)).unwrap();
        let meant: Vec<_> = plans.iter().filter(|plan| plan.describe().contains(words)).step_by(3).collect();
        assert!(!meant.is_empty(), "{precision}, {layer:?}");
        for plan in meant {
            let start = Instant::now();
            while !plan.is_specialised() {
                assert!(start.elapsed() < Duration::from_secs(60), "{} is not compiled", plan.describe());
                thread::sleep(Duration::from_millis(1));
            }
            let output = computed(device, &stream, plan, &x, &w, &bias);
            assert_eq!(output.as_slice(), exact, "{precision}, {}, {layer:?}", plan.describe());
        }
    }
}

/// What no tap reaches is written by producers, but for what lines write of the sectors at its ends.
#[test]
fn producers_write_bare_rows() {
    let devices = devices("producers_write_bare_rows");
    check_each(&devices, bare::of_images(), "bare rows by producers");
    check_each(&devices, bare::of_volumes(), "bare rows by producers");
    // More planes than warps that write.
    let layer = ConvTranspose::<2>::builder(8, 24, [2, 3]).stride([3, 2]).padding([1, 1]).build().unwrap();
    check(&devices[..devices.len().min(1)], &layer, Shape::batched(40, 8, [20, 72]), "bare rows by producers");
}

/// The biases beside a line, in the sectors that it begins and ends in, are written with it; but not before the first
/// row of a slice, nor behind the last one.
#[test]
fn lines_have_biases_beside_them() {
    let devices = devices("lines_have_biases_beside_them");
    check_each(&devices, margins::of_images(), "with margins");
    check_each(&devices, margins::of_volumes(), "with margins");
    let (layer, input) = margins::of_neighbours();
    check(&devices, &layer, input, "fill_bias");
    // More tiles than multiprocessors, of which those with the last row of the output, with which they end, have other
    // lines than those before.
    let layer = ConvTranspose::<2>::builder(8, 8, [2, 3]).stride([3, 2]).dilation([3, 1]).padding([1, 1]);
    let layer = layer.output_padding([1, 0]).build().unwrap();
    check(&devices[..devices.len().min(1)], &layer, Shape::batched(60, 8, [40, 32]), "with margins");
}

/// Phases that are counted from before the output, so that they read the same inputs.
#[test]
fn positions_begin_before_the_output() {
    let devices = devices("positions_begin_before_the_output");
    for (layer, input) in leads::of_signals() {
        check(&devices, &layer, input, "before the output");
    }
    for (layer, input) in leads::of_images() {
        check(&devices, &layer, input, "before the output");
    }
    for (layer, input) in leads::of_volumes() {
        check(&devices, &layer, input, "before the output");
    }
}

/// Tiles that are too few for the device: blocks are partners, each with a share of the input channels of a group.
#[test]
fn partners_share_the_input_channels() {
    let devices = devices("partners_share_the_input_channels");
    for (channels, out, extent, words) in [
        (16, 8, [4, 4], "tile"),
        (64, 8, [4, 4], "tile"),
        (256, 8, [4, 4], "partners"),
        (256, 100, [7, 7], "partners"),
        (512, 70, [4, 4], "partners"),
    ] {
        let layer = ConvTranspose::<2>::builder(channels, out, [4, 4]).stride([2, 2]).padding([1, 1]);
        check(&devices, &layer.build().unwrap(), Shape::batched(1, channels, extent), words);
    }
    let layer = ConvTranspose::<1>::builder(96, 20, [3]).groups(2).build().unwrap();
    check(&devices, &layer, Shape::batched(3, 96, [17]), "tile");
    let layer = ConvTranspose::<3>::builder(320, 40, [2; 3]).stride([2; 3]).build().unwrap();
    check(&devices, &layer, Shape::batched(2, 320, [4; 3]), "partners");
}

/// Outputs that are stored in boxes are large: of these, only what the model chooses is checked.
#[test]
fn large_outputs_stored_in_boxes() {
    let Some(device) = gpu::device("large_outputs_stored_in_boxes") else { return };
    let check = |layer: ConvTranspose<2>, input: Shape<2>| {
        let (x, w) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        let bias: Vec<f32> = (0..layer.out_channels()).map(|channel| channel as f32).collect();
        let exact = expected(&layer, &x, &w, Some(&bias));
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        let device_bias = device.upload_slice(&bias).unwrap();
        for precision in [Precision::Tf32, Precision::F32] {
            let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
            let plan = Plan::new(&device, &layer, input, options.compile_within(Duration::MAX)).unwrap();
            assert!(plan.is_specialised());
            let in_boxes = plan.describe().contains("stored in boxes");
            assert!(in_boxes || precision == Precision::Tf32, "{}, {layer:?}", plan.describe());
            let output = computed(&device, &stream, &plan, &x, &w, &device_bias);
            assert!(output.as_slice() == exact, "{}, {layer:?}", plan.describe());
        }
    };
    let layer = |channels, kernel| ConvTranspose::<2>::builder(16, channels, kernel);
    // Rows that are no multiple of a box.
    check(layer(72, [1, 3]).padding([0, 1]).build().unwrap(), Shape::batched(3, 16, [61, 1060]));
    // Two groups, whose channels do not fill the columns; slots are rows.
    check(layer(80, [3, 3]).groups(2).padding([1, 1]).build().unwrap(), Shape::batched(3, 16, [250, 252]));
    // Both phases in the columns.
    check(layer(72, [2, 2]).stride([2, 2]).build().unwrap(), Shape::batched(3, 16, [121, 126]));
    // In halves.
    check(layer(72, [1, 4]).stride([1, 2]).padding([0, 1]).build().unwrap(), Shape::batched(3, 16, [67, 474]));
}

#[test]
fn taps_that_are_paired() {
    let devices = devices("taps_that_are_paired");
    for (layer, input) in paired_taps::pictures() {
        check_in(&[Precision::F32], &devices, &layer, input, paired_taps::WORDS);
    }
    for (layer, input) in paired_taps::volumes() {
        check_in(&[Precision::F32], &devices, &layer, input, paired_taps::WORDS);
    }
}

/// One team stores, and then the other one.
#[test]
fn teams_store_in_turn() {
    let devices = devices("teams_store_in_turn");
    for (layer, input) in in_turn::of_signals() {
        check_in(&[Precision::Tf32], &devices, &layer, input, in_turn::WORDS);
    }
}

#[test]
fn long_jobs_come_first() {
    check_each(&devices("long_jobs_come_first"), long_jobs::of_volumes(), long_jobs::WORDS);
}

/// Joined rows of a packed input, of which there are fewer kernels.
#[test]
fn joined_rows_of_packed_words() {
    let layer = ConvTranspose::<2>::builder(32, 16, [5, 7]).padding([1, 0]).build().unwrap();
    check_in(
        &[Precision::Tf32],
        &devices("joined_rows_of_packed_words"),
        &layer,
        Shape::batched(2, 32, [13, 40]),
        "pack_input",
    );
}

#[test]
fn inputs_that_are_converted() {
    let devices = devices("inputs_that_are_converted");
    for (layer, input) in converted::pictures() {
        check(&devices, &layer, input, "tile");
        check_converted(&devices, &layer, input);
    }
    let (layer, input) = converted::volume();
    check(&devices, &layer, input, "tile");
    check_converted(&devices, &layer, input);
}

/// All plans that convert the input in a certain way, by general kernels and by those that are compiled for the layer.
/// On compute capability 9.0 there are such.
fn plans_that_convert<const D: usize>(
    device: &Device,
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    way: &Way,
) -> Vec<Plan<D>> {
    let options = Options::default().algorithm(Algorithm::Tile).precision(way.precision);
    let options = [options.specialised(false), options.compile_within(Duration::MAX)];
    let ways = options.map(|options| Plan::ways(device, layer, input, options).unwrap());
    let plans: Vec<Plan<D>> = ways.into_iter().flatten().filter(|plan| plan.describe().contains(way.words)).collect();
    assert!(!plans.is_empty() || !way.is_for_all(), "{}, {layer:?}", way.words);
    plans
}

/// A sample that is packed has a scale of its own, also where a tile has several samples; in single precision, the
/// input is converted by teams only where no tile has.
#[test]
fn samples_do_not_depend_on_each_other() {
    let devices = devices("samples_do_not_depend_on_each_other");
    let Some(device) = devices.first().filter(|device| device.architecture() == "sm_90a") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let (layer, input) = converted::samples();
    let (mut x, w) = (whole_numbers(input, 3), whole_numbers(layer.weight_shape(), 4));
    converted::scale_samples(&mut x);
    let exact = oracle::forward(&layer.problem(input).unwrap(), x.as_slice(), w.as_slice(), None);
    let no_bias = device.upload_slice(&vec![0.0f32; layer.out_channels()]).unwrap();
    let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
    for way in converted::WAYS.iter().filter(|way| way.scales_samples()) {
        for plan in plans_that_convert(device, &layer, input, way) {
            let output = computed(device, &stream, &plan, &x, &w, &no_bias);
            let error = converted::error_of_samples(output.as_slice(), &exact, input.batch.unwrap());
            assert!(error <= way.error, "{error:e}, {}", plan.describe());
        }
    }
}

/// What teams make of a sample, to the bit, does not depend on those that they have computed before it: the scale is
/// found anew for each job. Most of the last samples is so small beside their largest value that the scale decides its
/// bits.
#[test]
fn jobs_do_not_depend_on_those_before() {
    const SAMPLES: usize = 1000;
    // As many as may share a tile.
    const LAST: usize = 16;
    let devices = devices("jobs_do_not_depend_on_those_before");
    let Some(device) = devices.first().filter(|device| device.architecture() == "sm_90a") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let layer = ConvTranspose::<2>::builder(32, 24, [3, 5]).build().unwrap();
    let input = Shape::batched(SAMPLES, 32, [14, 12]);
    let mut random = random_tensors(3);
    let (x, w) = (random(input), random(layer.weight_shape()));
    let before_last = |len: usize| len / SAMPLES * (SAMPLES - LAST);
    let with_others = |exponent| {
        let mut x = x.clone();
        let before = before_last(x.as_slice().len());
        let (others, last) = x.as_mut_slice().split_at_mut(before);
        others.iter_mut().for_each(|value| *value *= 2f32.powi(exponent));
        for sample in last.chunks_mut(last.len() / LAST) {
            sample.iter_mut().for_each(|value| *value *= 2f32.powi(-20));
            sample[0] = 0.9;
        }
        device.upload(&x).unwrap()
    };
    let inputs = [0, -3, -8].map(with_others);
    let w = device.upload(&w).unwrap();
    let no_bias = device.upload_slice(&vec![0.0f32; layer.out_channels()]).unwrap();
    for way in converted::WAYS.iter().filter(|way| way.words.ends_with("_raw")) {
        for plan in plans_that_convert(device, &layer, input, way) {
            let [expected, a, b] = inputs.each_ref().map(|x| {
                let output = computed(device, &stream, &plan, x, &w, &no_bias);
                output.as_slice()[before_last(output.as_slice().len())..].to_vec()
            });
            assert!(a == expected && b == expected, "{}", plan.describe());
        }
    }
}

/// Whatever the magnitudes, the error of all ways that convert the input is that of their precision.
fn check_converted<const D: usize>(devices: &[Device], layer: &ConvTranspose<D>, input: Shape<D>) {
    let Some(device) = devices.first().filter(|device| device.architecture() == "sm_90a") else { return };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let plans: Vec<_> =
        converted::WAYS.iter().map(|way| (way.error, plans_that_convert(device, layer, input, way))).collect();
    let no_bias = device.upload_slice(&vec![0.0f32; layer.out_channels()]).unwrap();
    for exponent in converted::EXPONENTS {
        let (mut x, w) = (whole_numbers(input, 3), whole_numbers(layer.weight_shape(), 4));
        converted::scale_channels(&mut x, exponent);
        let exact = oracle::forward(&layer.problem(input).unwrap(), x.as_slice(), w.as_slice(), None);
        let [x, w] = [device.upload(&x).unwrap(), device.upload(&w).unwrap()];
        for (most, plan) in plans.iter().flat_map(|(most, plans)| plans.iter().map(move |plan| (most, plan))) {
            let output = computed(device, &stream, plan, &x, &w, &no_bias);
            let error = relative_error(output.as_slice(), &exact);
            assert!(error <= *most, "{error:e}, {}, {layer:?}", plan.describe());
        }
    }
}
