//! The tile kernels on the emulator, in both precisions and on ordinary cores: sizes around the edges of tiles in every
//! tiled dimension. Small integers are exact in TF32, so the results have to be, too.
#![cfg(feature = "emulator")]

mod bare;
mod converted;
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

use std::collections::BTreeSet;

use conv_transpose::{
    ConvTranspose, Precision, Shape, Tensor,
    cuda::{Algorithm, EmulatedPlan, Options},
    oracle,
};
use random_tensors::random_tensors;
use relative_error::relative_error;

/// Kernels of each kind: those of `sm_70` are for ordinary cores, and the same in both precisions.
const KINDS: [(&str, Precision); 3] =
    [("sm_90a", Precision::Tf32), ("sm_90a", Precision::F32), ("sm_70", Precision::F32)];

/// Checks the plan that the model chooses, for each kind of kernels.
fn check<const D: usize>(layer: &ConvTranspose<D>, input: Shape<D>) {
    check_chosen(&KINDS, layer, input);
}

/// The same for some kinds of kernels.
fn check_chosen<const D: usize>(kinds: &[(&str, Precision)], layer: &ConvTranspose<D>, input: Shape<D>) {
    for &(architecture, precision) in kinds {
        let plan = EmulatedPlan::with_architecture(layer, input, options(precision), architecture);
        check_plan(layer, &plan.unwrap(), input);
    }
}

fn options(precision: Precision) -> Options {
    Options::default().algorithm(Algorithm::Tile).precision(precision)
}

fn check_plan<const D: usize>(layer: &ConvTranspose<D>, plan: &EmulatedPlan<D>, input: Shape<D>) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut integers = |shape| {
        let mut tensor = Tensor::filled(shape, 0.0f32).unwrap();
        tensor.as_mut_slice().fill_with(|| rng.i32(-4..=4) as f32);
        tensor
    };
    let (x, w) = (integers(input), integers(layer.weight_shape()));
    let bias: Vec<f32> = (0..plan.problem().out_channels()).map(|channel| channel as f32).collect();
    let y = plan.forward(&x, &w, Some(&bias)).unwrap_or_else(|error| panic!("{}, {input}: {error}", plan.describe()));
    for (index, &value) in y.as_slice().iter().enumerate() {
        let expected = oracle::output_at(plan.problem(), x.as_slice(), w.as_slice(), Some(&bias), index);
        assert_eq!(f64::from(value), expected, "{}, {input}: element {index}", plan.describe());
    }
}

/// Neither inputs nor weights lose a bit on their way to ordinary cores, whatever the precision.
#[test]
fn ordinary_cores_round_nothing() {
    let layer = ConvTranspose::<1>::builder(1, 1, [1]).build().unwrap();
    let shape = Shape::batched(1, 1, [8]);
    let [one, next] = [1.0, 1.0 + f32::EPSILON].map(|value| move |shape| Tensor::filled(shape, value).unwrap());
    for precision in [Precision::Tf32, Precision::F32] {
        let plan = EmulatedPlan::with_architecture(&layer, shape, options(precision), "sm_70").unwrap();
        for (x, w) in [(one(shape), next(layer.weight_shape())), (next(shape), one(layer.weight_shape()))] {
            assert_eq!(plan.forward(&x, &w, None).unwrap().as_slice(), [1.0 + f32::EPSILON; 8], "{precision}");
        }
    }
}

#[test]
fn rows_around_the_edge_of_a_tile() {
    let layer = ConvTranspose::<1>::builder(3, 5, [3]).build().unwrap();
    for length in [1, 61, 62, 63, 125, 126, 127, 254] {
        check(&layer, Shape::batched(1, 3, [length]));
    }
}

#[test]
fn images_around_the_edge_of_a_tile() {
    let layer = ConvTranspose::<2>::builder(5, 7, [3, 3]).build().unwrap();
    for extent in [[6, 9], [14, 29], [15, 30], [13, 31], [1, 1]] {
        check(&layer, Shape::batched(2, 5, extent));
    }
}

#[test]
fn channels_around_the_edges_of_blocks_and_tiles() {
    for (inputs, outputs) in [(7, 9), (8, 8), (9, 7), (15, 17), (17, 65), (1, 1)] {
        let layer = ConvTranspose::<1>::builder(inputs, outputs, [2]).build().unwrap();
        check(&layer, Shape::batched(1, inputs, [9]));
    }
}

#[test]
fn strides_dilations_and_groups() {
    let layer = ConvTranspose::<2>::builder(12, 9, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
    check(&layer, Shape::batched(3, 12, [5, 8]));
    let layer = ConvTranspose::<1>::builder(16, 33, [16]).stride([8]).padding([4]).build().unwrap();
    check(&layer, Shape::batched(1, 16, [37]));
    let layer = ConvTranspose::<3>::builder(8, 16, [3, 5, 3]).stride([2, 1, 3]).padding([1, 2, 0]);
    let layer = layer.dilation([2, 1, 2]).groups(2).build().unwrap();
    check(&layer, Shape::batched(2, 8, [3, 4, 5]));
    let layer = ConvTranspose::<1>::builder(32, 64, [5]).dilation([3]).build().unwrap();
    check(&layer, Shape::batched(1, 32, [300]));
}

/// The first layers of GANs: every output position has one tap, and phases along several axes share the columns.
#[test]
fn inputs_of_one_position() {
    let layer = |kernel| ConvTranspose::<2>::builder(20, 12, kernel);
    check(&layer([4, 4]).build().unwrap(), Shape::batched(9, 20, [1, 1]));
    check(&layer([5, 3]).padding([1, 0]).dilation([2, 3]).build().unwrap(), Shape::batched(2, 20, [1, 1]));
    check(&layer([4, 3]).stride([2, 2]).groups(4).build().unwrap(), Shape::batched(3, 20, [1, 5]));
    let layer = ConvTranspose::<3>::builder(9, 10, [4, 4, 4]).build().unwrap();
    check(&layer, Shape::batched(5, 9, [1, 1, 1]));
}

/// A signal as a picture of one column, and axes along which nothing happens: neighbouring ones are computed as one.
#[test]
fn axes_that_are_computed_as_one() {
    let column = ConvTranspose::<2>::builder(9, 10, [4, 1]).stride([2, 3]).padding([1, 0]).build().unwrap();
    check(&column, Shape::batched(2, 9, [33, 1]));
    let plan = EmulatedPlan::new(&column, Shape::batched(2, 9, [33, 1]), options(Precision::F32)).unwrap();
    let signal = ConvTranspose::<1>::builder(9, 10, [4]).stride([2]).padding([1]).build().unwrap();
    let same = EmulatedPlan::new(&signal, Shape::batched(2, 9, [33]), options(Precision::F32)).unwrap();
    assert_eq!(plan.describe(), same.describe());
    let layer = ConvTranspose::<3>::builder(12, 9, [3, 1, 1]).groups(3).build().unwrap();
    check(&layer, Shape::batched(2, 12, [3, 5, 7]));
    let layer = ConvTranspose::<3>::builder(12, 9, [1, 1, 3]).stride([1, 1, 2]).build().unwrap();
    check(&layer, Shape::batched(2, 12, [3, 5, 7]));
}

/// The second pass has no chunk of its own: kernels used to read past the table of chunks for it.
#[test]
fn a_last_phase_without_taps() {
    let layer = ConvTranspose::<2>::builder(1, 1, [2, 3]).stride([2, 1]).dilation([2, 1]).build().unwrap();
    check(&layer, Shape::batched(1, 1, [1, 4]));
}

/// Three of four rows have no taps, and get their biases from a kernel of its own.
#[test]
fn most_rows_without_taps() {
    let layer = ConvTranspose::<3>::builder(9, 10, [3, 2, 3]).stride([2; 3]).dilation([2; 3]).padding([1, 0, 1]);
    check(&layer.build().unwrap(), Shape::batched(2, 9, [3, 4, 5]));
    let layer = ConvTranspose::<2>::builder(4, 6, [1, 3]).stride([5, 4]).groups(2).build().unwrap();
    check(&layer, Shape::batched(3, 4, [4, 3]));
}

/// Rows without taps between others, of which each group of phases stores some: one group, or several with as many or
/// fewer; beside gaps along x, slices without taps, a bias, and partners.
#[test]
fn some_rows_without_taps() {
    for (kernel, stride, dilation) in [([3, 3], [5, 5], [2, 2]), ([1, 2], [2, 1], [1, 1]), ([2, 3], [7, 2], [1, 2])] {
        let layer = ConvTranspose::<2>::builder(9, 10, kernel).stride(stride).dilation(dilation).padding([1, 0]);
        check_all(&layer.build().unwrap(), Shape::batched(2, 9, [4, 7]), "tile");
    }
    let layer = ConvTranspose::<3>::builder(8, 6, [1, 2, 3]).stride([2, 3, 1]).groups(2).build().unwrap();
    check_all(&layer, Shape::batched(1, 8, [3, 2, 9]), "tile");
    let layer = ConvTranspose::<2>::builder(256, 9, [1, 3]).stride([2, 2]).build().unwrap();
    check_kinds(&KINDS[..2], &layer, Shape::batched(1, 256, [4, 5]), "partners");
}

/// FCN-32s has strides of 32; lines with gaps say where these are for 16 phases, and for words up to the 32nd. The
/// phases of a pass are neighbouring words of a line, if they are a power of two; with padding, the last ones of a row
/// are fewer.
#[test]
fn more_phases_than_a_table_of_gaps_has() {
    for (kernel, stride, padding) in [
        (64, 32, 0),
        (64, 32, 13),
        (32, 32, 3),
        (17, 20, 0),
        (20, 24, 0),
        (24, 24, 5),
        (33, 40, 0),
        (24, 32, 0),
        (8, 4, 2),
    ] {
        let layer = ConvTranspose::<1>::builder(9, 9, [kernel]).stride([stride]).padding([padding]).build().unwrap();
        check_all(&layer, Shape::batched(1, 9, [5]), "tile");
    }
}

/// Phases of up to four output channels, which may lie close together in the columns. Every way that the model takes
/// into account is tried, and some of them have such columns.
#[test]
fn few_output_channels() {
    for (channels, groups, kernel, stride, dilation) in
        [(1, 1, [9, 9], [3, 3], 1), (2, 1, [5, 4], [2, 2], 1), (3, 2, [4, 3], [4, 2], 1), (4, 1, [3, 3], [2, 5], 2)]
    {
        let layer = ConvTranspose::<2>::builder(9 * groups, channels * groups, kernel).stride(stride).groups(groups);
        let layer = layer.dilation([dilation; 2]).padding([1, 2]).build().unwrap();
        check_all(&layer, Shape::batched(2, 9 * groups, [9, 14]), "close together");
    }
}

/// Rows of few output channels, two of which may share the columns: with a number of taps that runs take together,
/// more, or fewer; with phases of their own, close together or not; and where the last row has nobody beside it.
#[test]
fn joined_rows() {
    // Ordinary cores multiply few columns as fast as many.
    let (on_tensor_cores, joined) = (&KINDS[..2], "2 joined along");
    for (channels, kernel, stride, dilation, extent) in [
        (16, [3, 3], [1, 1], 1, [13, 30]),
        (9, [5, 2], [1, 1], 1, [8, 9]),
        (8, [2, 3], [1, 1], 1, [7, 6]),
        (3, [4, 4], [2, 2], 1, [9, 14]),
        (1, [9, 5], [3, 1], 1, [7, 11]),
        (8, [3, 3], [2, 1], 1, [6, 13]),
        (6, [3, 1], [1, 1], 3, [9, 12]),
    ] {
        let layer = ConvTranspose::<2>::builder(9, channels, kernel).stride(stride).dilation([dilation; 2]);
        let layer = layer.padding([1, 0]).build().unwrap();
        check_kinds(on_tensor_cores, &layer, Shape::batched(2, 9, extent), joined);
    }
    let layer = ConvTranspose::<3>::builder(18, 22, [3, 5, 2]).groups(2).padding([0, 2, 0]).build().unwrap();
    check_kinds(on_tensor_cores, &layer, Shape::batched(1, 18, [4, 9, 10]), joined);
}

/// Dilated taps along the axis of rows, which slots have in common if they are boxes one behind the other: with all
/// taps in a run, more, or fewer; beside a stride, which leaves phases with fewer; along z; and where the last slots
/// are beyond the output.
#[test]
fn taps_along_rows_that_lie_apart() {
    let words = "one behind the other";
    for (kernel, stride, dilation, padding, extent) in [
        ([3, 3], [1, 1], [2, 2], [2, 2], [6, 60]),
        ([5, 2], [1, 1], [3, 1], [0, 0], [7, 40]),
        ([2, 3], [1, 1], [4, 3], [1, 0], [9, 26]),
        ([6, 3], [2, 1], [3, 1], [1, 1], [5, 40]),
    ] {
        let layer = ConvTranspose::<2>::builder(18, 10, kernel).stride(stride).dilation(dilation).padding(padding);
        check_all(&layer.groups(2).build().unwrap(), Shape::batched(1, 18, extent), words);
    }
    let layer = ConvTranspose::<3>::builder(9, 20, [3, 2, 3]).dilation([2, 1, 1]).build().unwrap();
    check_all(&layer, Shape::batched(1, 9, [6, 7, 30]), words);
}

/// What halves of the slots take differs by kernel, stride and padding: one of two taps, two of three, the same, or all
/// but one. Every way that the model takes into account for these is tried, and some of them have halves.
#[test]
fn halves_of_the_phases_along_x() {
    for (kernel, stride, padding) in [(3, 2, 0), (3, 2, 1), (4, 2, 1), (5, 2, 2), (7, 2, 3), (16, 8, 4)] {
        let layer = ConvTranspose::<2>::builder(9, 10, [2, kernel]).stride([1, stride]).padding([0, padding]);
        check_all(&layer.build().unwrap(), Shape::batched(2, 9, [3, 11]), "either half");
    }
}

/// Four phases of a position that are neighbours, in one half or in both, are staged together; and stored so, if rows
/// are multiples of four words. Otherwise, if there is a word more, or a lead, they are stored word by word.
#[test]
fn four_neighbouring_phases() {
    let layer = |kernel, stride| ConvTranspose::<2>::builder(9, 10, [2, kernel]).stride([1, stride]);
    for (kernel, stride, padding) in [(4, 4, 0), (8, 4, 2), (16, 8, 4), (6, 4, 1)] {
        let layer = layer(kernel, stride).padding([1, padding]).build().unwrap();
        check_kinds(&KINDS[..1], &layer, Shape::batched(2, 9, [3, 11]), "stored in fours");
    }
    for (kernel, stride, padding) in [(8, 4, 2), (10, 8, 1)] {
        let layer = layer(kernel, stride).padding([0, padding]).output_padding([0, 1]).build().unwrap();
        check(&layer, Shape::batched(2, 9, [3, 70]));
    }
    // More phases than columns: a pass has some of each position.
    let layer = ConvTranspose::<1>::builder(9, 9, [64]).stride([32]).padding([16]).build().unwrap();
    check_kinds(&KINDS[..1], &layer, Shape::batched(2, 9, [5]), "stored in fours");
    let layer = ConvTranspose::<1>::builder(6, 6, [5]).stride([4]).groups(2).output_padding([3]).build().unwrap();
    check(&layer, Shape::batched(3, 6, [130]));
}

/// Extents just beyond a multiple of 16: a few positions beyond it are regions of their own. Along x, along all axes,
/// and where strides, padding or dilation leave some regions without some taps, or part of the output is filled first.
#[test]
fn regions_of_positions() {
    let check = |layer: ConvTranspose<2>, input: Shape<2>| check_all(&layer, input, " and on ");
    let layer = |kernel, stride, dilation| ConvTranspose::<2>::builder(9, 10, kernel).stride(stride).dilation(dilation);
    check(layer([2, 3], [1, 1], [1, 1]).build().unwrap(), Shape::batched(1, 9, [3, 16]));
    check(layer([3, 3], [1, 1], [1, 1]).padding([1, 0]).build().unwrap(), Shape::batched(2, 9, [17, 32]));
    check(layer([3, 4], [2, 2], [1, 1]).build().unwrap(), Shape::batched(1, 9, [16, 17]));
    check(layer([3, 3], [2, 1], [2, 1]).build().unwrap(), Shape::batched(1, 9, [16, 15]));
    let layer = ConvTranspose::<3>::builder(8, 6, [3, 2, 3]).stride([2; 3]).dilation([2; 3]).groups(2).build().unwrap();
    check_all(&layer, Shape::batched(1, 8, [16, 3, 16]), " and on ");
}

/// Rows that are no whole sectors, of which warps pass words on to each other. With phases along y in the columns a
/// team stores every second block first, and with one or three blocks the last one and the first of the next tile
/// follow each other: what is passed on used to be overwritten then.
#[test]
fn rows_that_are_no_whole_sectors() {
    for (channels, kernel, stride, extent) in [
        (40, [4, 3], [2, 1], [6, 32]),
        (16, [6, 3], [3, 1], [5, 64]),
        (24, [3, 3], [1, 1], [18, 64]),
        (8, [3, 3], [1, 1], [18, 128]),
        (8, [1, 3], [1, 1], [18, 32]),
    ] {
        let layer = ConvTranspose::<2>::builder(9, channels, kernel).stride(stride).build().unwrap();
        check(&layer, Shape::batched(2, 9, extent));
        // The sums of all kinds of kernels are stored alike.
        check_kinds(&KINDS[..1], &layer, Shape::batched(2, 9, extent), "tile");
    }
    // Three groups of channels in tiles of two: the last group of a job and the first one of the next are passed on by
    // way of the same words.
    let layer = ConvTranspose::<2>::builder(9, 24, [4, 3]).stride([2, 1]).build().unwrap();
    check_those(&KINDS[..1], &layer, Shape::batched(2, 9, [16, 64]), "1x1x2x64 positions");
}

/// Lanes find places beyond the output then, where they store nothing, and the way there has more than 32 bits.
#[test]
fn a_stride_may_be_far_longer_than_the_output() {
    let layer = ConvTranspose::<2>::builder(20, 18, [5, 8]).stride([1, 360_473_601]);
    let layer = layer.padding_begin_end([[5, 6], [180_236_799, 180_236_799]]).build().unwrap();
    check(&layer, Shape::batched(1, 20, [9, 2]));
}

/// Slots side by side along x, whose words a line goes through. Other ways to compute such layers are checked above.
#[test]
fn lines_go_through_slots_that_lie_side_by_side() {
    for (layer, input) in long_lines::of_signals() {
        check_those(&KINDS, &layer, input, "in long lines");
    }
    check_each_of_those(&KINDS[..1], long_lines::of_even_rows(), "in long lines");
    check_each_of_those(&KINDS[..2], long_lines::of_images(), "in long lines");
    check_each_of_those(&KINDS[..2], long_lines::of_volumes(), "in long lines");
}

/// Lanes take words of short lines side by side, whatever line they are of.
#[test]
fn short_lines_are_stored_together() {
    check_each_of_those(&KINDS[..2], short_lines::of_signals(), "in short lines");
    check_each_of_those(&KINDS[..2], short_lines::of_images(), "in short lines");
    check_each_of_those(&KINDS[..2], short_lines::of_volumes(), "in short lines");
}

/// Rows without taps beside others where phases along y are more than bits of a word: 40, of an input of one row.
#[test]
fn bare_rows_of_many_phases() {
    let layer = ConvTranspose::<3>::builder(1, 1, [6, 13, 4]).stride([1, 1, 5]).dilation([2, 4, 2]);
    let layer = layer.padding_begin_end([[0, 0], [5, 4], [3, 3]]).build().unwrap();
    check(&layer, Shape::batched(1, 1, [1, 1, 4]));
}

/// What no tap reaches is written by producers, but for what lines write of the sectors at its ends.
#[test]
fn producers_write_bare_rows() {
    check_each_of_those(&KINDS[..2], bare::of_images(), "bare rows by producers");
    check_each_of_those(&KINDS[..2], bare::of_volumes(), "bare rows by producers");
}

/// The biases beside a line, in the sectors that it begins and ends in, are written with it; but not before the first
/// row of a slice, nor behind the last one.
#[test]
fn lines_have_biases_beside_them() {
    check_each_of_those(&KINDS[..2], margins::of_images(), "with margins");
    check_each_of_those(&KINDS[..2], margins::of_volumes(), "with margins");
    let (layer, input) = margins::of_neighbours();
    check(&layer, input);
}

/// Rows of taps are summed up eight at a time: of more, some follow; of a dilated row they lie apart.
#[test]
fn columns_of_long_rows_of_taps() {
    let options = Options::default().algorithm(Algorithm::Col2im);
    for (kernel, dilation) in [(8, 1), (9, 1), (17, 1), (11, 2)] {
        let layer = ConvTranspose::<2>::builder(6, 2, [2, kernel]).dilation([1, dilation]).build().unwrap();
        let input = Shape::batched(2, 6, [3, 30]);
        check_plan(&layer, &EmulatedPlan::new(&layer, input, options).unwrap(), input);
    }
}

/// Checks every fourth one of the ways that are described by some words, of which there are some for each kind of
/// kernels: neighbouring ways differ in little, and `cuda_tile.rs` runs all.
fn check_those<const D: usize>(kinds: &[(&str, Precision)], layer: &ConvTranspose<D>, input: Shape<D>, words: &str) {
    for &(architecture, precision) in kinds {
        let plans = EmulatedPlan::ways_with_architecture(layer, input, options(precision), architecture).unwrap();
        let those: Vec<_> = plans.iter().filter(|plan| plan.describe().contains(words)).collect();
        assert!(!those.is_empty(), "{architecture}, {precision}, {layer:?}");
        those.into_iter().step_by(4).for_each(|plan| check_plan(layer, plan, input));
    }
}

/// The same for each of some layers.
fn check_each_of_those<const D: usize>(
    kinds: &[(&str, Precision)],
    layers: Vec<(ConvTranspose<D>, Shape<D>)>,
    words: &str,
) {
    for (layer, input) in layers {
        check_those(kinds, &layer, input, words);
    }
}

/// Checks every way that the model takes into account for kernels of each kind, some of which are described by some
/// words.
fn check_all<const D: usize>(layer: &ConvTranspose<D>, input: Shape<D>, words: &str) {
    check_kinds(&KINDS, layer, input, words);
}

/// The same for some kinds of kernels. Neighbouring ways differ in little: every tenth one and every fifth one of
/// those that are described so will do; `cuda_tile.rs` runs all ways of layers like these on a GPU. Ordinary cores
/// differ in how they multiply and stage, which each way of theirs shows: every twelfth one.
fn check_kinds<const D: usize>(kinds: &[(&str, Precision)], layer: &ConvTranspose<D>, input: Shape<D>, words: &str) {
    for &(architecture, precision) in kinds {
        let plans = EmulatedPlan::ways_with_architecture(layer, input, options(precision), architecture).unwrap();
        let is_ordinary = architecture == "sm_70";
        let is_meant = |plan: &EmulatedPlan<D>| plan.describe().contains(words);
        let mut meant = 0;
        for (number, plan) in plans.iter().enumerate() {
            meant += usize::from(is_meant(plan));
            let is_checked =
                if is_ordinary { number % 12 == 0 } else { number % 10 == 0 || is_meant(plan) && meant % 5 == 1 };
            if is_checked {
                check_plan(layer, plan, input);
            }
        }
        assert!(meant > 0, "{architecture}, {precision}, {layer:?}");
    }
}

/// Tiles that take whole rows of the input, or whole slices: these are one stretch of words for a box, wherever it
/// begins and ends.
#[test]
fn whole_rows_and_slices_are_stretches() {
    for (layer, input, words) in stretches::of_rows() {
        check_kinds(&KINDS[..2], &layer, input, words);
    }
    for (layer, input, words) in stretches::of_slices() {
        check_kinds(&KINDS[..2], &layer, input, words);
    }
}

/// Phases that are counted from before the output, so that they read the same inputs.
#[test]
fn positions_begin_before_the_output() {
    for (layer, input) in leads::of_signals() {
        check_kinds(&KINDS, &layer, input, "before the output");
    }
    // The kernels of all kinds find positions alike.
    for (layer, input) in leads::of_images() {
        check_kinds(&KINDS[..2], &layer, input, "before the output");
    }
    for (layer, input) in leads::of_volumes() {
        check_kinds(&KINDS[..2], &layer, input, "before the output");
    }
}

/// Blocks with several tiles, of which some begin with the output, where a part of the first position is not stored,
/// others begin and end within it.
#[test]
fn tiles_that_begin_with_the_output_have_lines_of_their_own() {
    let layer = ConvTranspose::<1>::builder(8, 5, [4]).stride([2]).padding([1]).build().unwrap();
    let input = Shape::batched(400, 8, [290]);
    for &(architecture, precision) in &KINDS[..2] {
        let plans = EmulatedPlan::ways_with_architecture(&layer, input, options(precision), architecture).unwrap();
        let mut plans = plans.iter().filter(|plan| plan.describe().contains("before the output"));
        check_plan(&layer, plans.next().expect("there is such a way"), input);
    }
}

/// More channels than a team has biases of: it has those of its tile, which is another one from job to job.
#[test]
fn biases_are_those_of_the_tile() {
    let layer = ConvTranspose::<1>::builder(4, 1100, [4]).stride([2]).padding([1]).build().unwrap();
    check_chosen(&KINDS[..2], &layer, Shape::batched(6, 4, [300]));
}

/// Of large weights, blocks pack portions, the last one of a tile with fewer channels.
#[test]
fn large_weights_are_packed() {
    let layer = ConvTranspose::<2>::builder(210, 132, [3, 4]).build().unwrap();
    check_chosen(&KINDS[..2], &layer, Shape::batched(1, 210, [2, 1]));
}

/// Tiles that are too few for a GPU: blocks are partners, each with a share of the input channels of a group. Two, four
/// and eight; with groups, a bias, and channels beyond a tile.
#[test]
fn partners_share_the_input_channels() {
    let images = |channels, out| ConvTranspose::<2>::builder(channels, out, [4, 4]).stride([2, 2]).padding([1, 1]);
    let rows = |channels, out| ConvTranspose::<1>::builder(channels, out, [3]);
    for &(architecture, precision) in &KINDS[..2] {
        let mut partners = BTreeSet::new();
        let mut check_ways = |ways: Vec<String>| {
            let count = |way: &String| way.split_once("by ")?.1.split(' ').next()?.parse::<u32>().ok();
            partners.extend(ways.iter().filter_map(count));
        };
        for channels in [16, 64, 96, 128] {
            let layer = images(channels, 8).build().unwrap();
            check_ways(ways(&layer, Shape::batched(1, channels, [4, 4]), architecture, precision));
        }
        let layer = rows(96, 20).groups(2).build().unwrap();
        check_ways(ways(&layer, Shape::batched(3, 96, [17]), architecture, precision));
        // Two and four, because there are no more blocks of channels.
        for channels in [16, 32] {
            let layer = ConvTranspose::<2>::builder(channels, 24, [9, 9]).build().unwrap();
            check_ways(ways(&layer, Shape::batched(1, channels, [5, 6]), architecture, precision));
        }
        // Some phases have no taps.
        let layer = ConvTranspose::<2>::builder(64, 8, [1, 3]).stride([2, 1]).build().unwrap();
        check_ways(ways(&layer, Shape::batched(1, 64, [4, 10]), architecture, precision));
        assert_eq!(partners, BTreeSet::from([2, 4, 8]), "{precision}");
    }
}

/// Shares need not be even: partners have whole stages, the last of which may hold channels that there are none of.
/// Rows are copied in boxes, and element by element.
#[test]
fn shares_of_partners_may_end_beyond_the_channels() {
    for (channels, batch, extents) in [(65, 1, [4, 4]), (100, 2, [3, 5]), (72, 1, [5, 3])] {
        let layer = ConvTranspose::<2>::builder(channels, 12, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
        let input = Shape::batched(batch, channels, extents);
        for precision in [Precision::Tf32, Precision::F32] {
            let ways = plans_with(&layer, input, precision, "partners");
            assert!(!ways.is_empty(), "{precision}, {layer:?}");
            ways.iter().step_by(2).for_each(|plan| check_plan(&layer, plan, input));
        }
    }
}

/// What lies behind the last channel of a sample is the next sample: partners whose share ends beyond it do not read
/// it, neither in boxes, nor element by element, which is where rows are not aligned.
#[test]
fn partners_do_not_read_the_next_sample() {
    let layer = ConvTranspose::<2>::builder(72, 12, [4, 4]).build().unwrap();
    for (width, in_boxes) in [(4, true), (5, false)] {
        let input = Shape::batched(2, 72, [3, width]);
        let mut x = Tensor::filled(input, 1.0f32).unwrap();
        x.as_mut_slice()[72 * 3 * width..].fill(f32::INFINITY);
        let w = Tensor::filled(layer.weight_shape(), 1.0f32).unwrap();
        for precision in [Precision::Tf32, Precision::F32] {
            let mut ways = plans_with(&layer, input, precision, "partners");
            ways.retain(|plan| plan.describe().contains("in boxes") == in_boxes);
            assert!(!ways.is_empty(), "{precision}, width {width}");
            for plan in ways.iter().step_by(4) {
                let y = plan.forward(&x, &w, None).unwrap();
                let (first, _) = y.as_slice().split_at(y.as_slice().len() / 2);
                for (index, &value) in first.iter().enumerate() {
                    let expected = oracle::output_at(plan.problem(), x.as_slice(), w.as_slice(), None, index);
                    assert_eq!(f64::from(value), expected, "{}, element {index}", plan.describe());
                }
            }
        }
    }
}

/// Checks every second way to compute a layer: what they are.
fn ways<const D: usize>(
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    architecture: &str,
    precision: Precision,
) -> Vec<String> {
    let plans = EmulatedPlan::ways_with_architecture(layer, input, options(precision), architecture).unwrap();
    let check = |plan: &EmulatedPlan<D>| {
        check_plan(layer, plan, input);
        plan.describe()
    };
    plans.iter().step_by(2).map(check).collect()
}

/// All plans whose descriptions have some words.
fn plans_with<const D: usize>(
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    precision: Precision,
    words: &str,
) -> Vec<EmulatedPlan<D>> {
    let mut plans = EmulatedPlan::ways(layer, input, options(precision)).unwrap();
    plans.retain(|plan| plan.describe().contains(words));
    plans
}

/// All plans that convert the input in a certain way.
fn plans_that_convert<const D: usize>(
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    way: &converted::Way,
) -> Vec<EmulatedPlan<D>> {
    let plans = plans_with(layer, input, way.precision, way.words);
    assert!(!plans.is_empty() || !way.is_for_all(), "{}, {layer:?}", way.words);
    plans
}

/// The first one.
fn plan_that_converts<const D: usize>(
    layer: &ConvTranspose<D>,
    input: Shape<D>,
    way: &converted::Way,
) -> EmulatedPlan<D> {
    plans_that_convert(layer, input, way).swap_remove(0)
}

/// Checks every fourth one of them, of every way; `cuda_tile.rs` runs all.
fn check_converted<const D: usize>(layer: &ConvTranspose<D>, input: Shape<D>) -> Vec<EmulatedPlan<D>> {
    let some = |way| plans_that_convert(layer, input, way).into_iter().step_by(4);
    let plans: Vec<_> = converted::WAYS.iter().flat_map(some).collect();
    plans.iter().for_each(|plan| check_plan(layer, plan, input));
    plans
}

/// The same: what they are.
fn descriptions_of_converted<const D: usize>(layer: &ConvTranspose<D>, input: Shape<D>) -> Vec<String> {
    check_converted(layer, input).iter().map(EmulatedPlan::describe).collect()
}

#[test]
fn inputs_that_are_converted() {
    // A GPU runs all of them.
    let pictures = converted::pictures().into_iter().step_by(2);
    let mut plans: Vec<_> = pictures.flat_map(|(layer, input)| descriptions_of_converted(&layer, input)).collect();
    let (layer, input) = converted::volume();
    plans.extend(descriptions_of_converted(&layer, input));
    for way in &converted::WAYS {
        let count = plans.iter().filter(|plan| plan.contains(way.words)).count();
        assert!(count > 1, "{}: {count}", way.words);
    }
}

/// Two taps of eight channels are multiplied together, in place of 16 channels of one.
#[test]
fn taps_that_are_paired() {
    let single = &KINDS[1..2];
    check_each_of_those(single, paired_taps::pictures(), paired_taps::WORDS);
    check_each_of_those(single, paired_taps::volumes(), paired_taps::WORDS);
}

/// One team stores, and then the other one; the model's choice alone, since there are many jobs.
#[test]
fn teams_store_in_turn() {
    for (layer, input) in in_turn::of_signals() {
        let plan = EmulatedPlan::with_architecture(&layer, input, options(Precision::Tf32), "sm_90a").unwrap();
        assert!(plan.describe().contains(in_turn::WORDS), "{}", plan.describe());
        check_plan(&layer, &plan, input);
    }
}

/// The model's choice alone, since there are many jobs.
#[test]
fn long_jobs_come_first() {
    for (layer, input) in long_jobs::of_volumes() {
        for precision in [Precision::F32, Precision::Tf32] {
            let plan = EmulatedPlan::with_architecture(&layer, input, options(precision), "sm_90a").unwrap();
            assert!(plan.describe().contains(long_jobs::WORDS), "{}", plan.describe());
            check_plan(&layer, &plan, input);
        }
    }
}

/// Whatever the magnitudes, the error is that of the precision, and a weight's do not matter either: of several stages,
/// of a last one that is not full, and of so few taps that sums do not move on with each stage.
#[test]
fn inputs_of_any_magnitude_are_converted() {
    let mut pictures = converted::pictures();
    let few_taps = ConvTranspose::<2>::builder(48, 104, [1, 5]).build().unwrap();
    let few_taps = (few_taps, Shape::batched(1, 48, [5, 20]));
    for (layer, input) in [pictures.swap_remove(2), pictures.swap_remove(0), few_taps] {
        let input = Shape { batch: Some(1), ..input };
        let mut random = random_tensors(3);
        let plans = converted::WAYS.each_ref().map(|way| (way, plan_that_converts(&layer, input, way)));
        // A GPU runs all of them.
        for exponent in converted::EXPONENTS.into_iter().step_by(2) {
            let (mut x, mut w) = (random(input), random(layer.weight_shape()));
            converted::scale_channels(&mut x, exponent);
            w.as_mut_slice().iter_mut().for_each(|weight| *weight *= 2f32.powi(-exponent(0) / 2));
            let exact = oracle::forward(plans[0].1.problem(), x.as_slice(), w.as_slice(), None);
            for (way, plan) in &plans {
                let actual = plan.forward(&x, &w, None).unwrap();
                let error = relative_error(actual.as_slice(), &exact);
                assert!(error <= way.error, "{error:e}, {}, channel 0 times 2^{}", plan.describe(), exponent(0));
            }
        }
    }
}

/// Sums are divided by both powers, also where their product is no number.
#[test]
fn results_may_be_as_small_as_numbers_are() {
    let (layer, input) = converted::pictures().swap_remove(2);
    let mut random = random_tensors(3);
    let (mut x, mut w) = (random(input), random(layer.weight_shape()));
    x.as_mut_slice().iter_mut().for_each(|value| *value *= 2f32.powi(-100));
    w.as_mut_slice().iter_mut().for_each(|value| *value *= 2f32.powi(-20));
    for way in &converted::WAYS {
        let plan = plan_that_converts(&layer, input, way);
        let actual = plan.forward(&x, &w, None).unwrap();
        let exact = oracle::forward(plan.problem(), x.as_slice(), w.as_slice(), None);
        let error = relative_error(actual.as_slice(), &exact);
        assert!(error <= way.error, "{error:e}, {}", plan.describe());
    }
}

/// A sample that is packed has a scale of its own, also where a tile has several samples; in single precision, the
/// input is converted by teams only where no tile has.
#[test]
fn samples_do_not_depend_on_each_other() {
    let (layer, input) = converted::samples();
    let mut random = random_tensors(3);
    let (mut x, w) = (random(input), random(layer.weight_shape()));
    converted::scale_samples(&mut x);
    check_converted(&layer, input);
    for way in converted::WAYS.iter().filter(|way| way.scales_samples()) {
        for plan in plans_that_convert(&layer, input, way) {
            let actual = plan.forward(&x, &w, None).unwrap();
            let exact = oracle::forward(plan.problem(), x.as_slice(), w.as_slice(), None);
            let error = converted::error_of_samples(actual.as_slice(), &exact, input.batch.unwrap());
            assert!(error <= way.error, "{error:e}, {}", plan.describe());
        }
    }
}

/// In single precision, values beside one that is much larger keep their bits: `f16` factors are sums of two, which
/// reach far below the largest value of a sample, and further below that of a stage.
#[test]
fn values_beside_a_large_one_keep_their_bits() {
    let (layer, input) = converted::pictures().swap_remove(0);
    let mut random = random_tensors(3);
    let (mut x, w) = (random(input), random(layer.weight_shape()));
    for (way, large) in converted::WAYS.iter().filter(|way| way.precision == Precision::F32).zip([12, 17]) {
        x.as_mut_slice()[0] = 2f32.powi(large);
        let plan = plan_that_converts(&layer, input, way);
        let actual = plan.forward(&x, &w, None).unwrap();
        let exact = oracle::forward(plan.problem(), x.as_slice(), w.as_slice(), None);
        let others = actual.as_slice().iter().zip(exact).filter(|(_, exact)| exact.abs() < 64.0);
        let (actual, exact): (Vec<f32>, Vec<f64>) = others.unzip();
        assert!(exact.len() > 1000);
        let error = relative_error(&actual, &exact);
        assert!(error <= way.error, "{error:e}, {}", plan.describe());
    }
}

/// Whether a plan computes what the definition says, to the bit.
fn is_exact<const D: usize>(plan: &EmulatedPlan<D>, x: &Tensor<f32, D>, w: &Tensor<f32, D>) -> bool {
    let exact = oracle::forward(plan.problem(), x.as_slice(), w.as_slice(), None);
    let actual = plan.forward(x, w, None).unwrap();
    actual.as_slice().iter().zip(&exact).all(|(&value, &exact)| f64::from(value) == exact)
}

/// A single element may be larger than `f16` numbers are, wherever it is.
#[test]
fn the_largest_input_may_be_anywhere() {
    for (channels, extent) in [(32, [5, 9]), (20, [4, 7])] {
        let layer = ConvTranspose::<2>::builder(channels, 57, [3, 3]).build().unwrap();
        let input = Shape::batched(1, channels, extent);
        let w = Tensor::filled(layer.weight_shape(), 1.0f32).unwrap();
        let plans = check_converted(&layer, input);
        for element in (0..channels * extent[0] * extent[1]).step_by(193) {
            let mut x = Tensor::filled(input, 0.0f32).unwrap();
            x.as_mut_slice()[element] = 2f32.powi(40);
            for plan in &plans {
                assert!(is_exact(plan, &x, &w), "{}, element {element}", plan.describe());
            }
        }
    }
}

/// The same of a weight's elements, the last of which is beyond those that are looked at four at a time.
#[test]
fn the_largest_weight_may_be_anywhere() {
    let layer = ConvTranspose::<2>::builder(21, 57, [3, 3]).build().unwrap();
    let input = Shape::batched(1, 21, [5, 9]);
    let x = Tensor::filled(input, 1.0f32).unwrap();
    let plans = converted::WAYS.each_ref().map(|way| plan_that_converts(&layer, input, way));
    let zeros = Tensor::filled(layer.weight_shape(), 0.0f32).unwrap();
    let count = zeros.as_slice().len();
    assert_eq!(count % 4, 1);
    for element in [0, count / 2, count - 2, count - 1] {
        let mut w = zeros.clone();
        w.as_mut_slice()[element] = 2f32.powi(40);
        for plan in &plans {
            assert!(is_exact(plan, &x, &w), "{}, element {element}", plan.describe());
        }
    }
}

/// An infinite element changes what it reaches, and nothing else, where there is one phase, which shares columns with
/// no other. In single precision that is not a number then: what is left of an infinite value is none.
#[test]
fn an_infinite_input_is_converted() {
    let layer = ConvTranspose::<2>::builder(32, 40, [3, 5]).build().unwrap();
    let input = Shape::batched(1, 32, [14, 32]);
    for plan in check_converted(&layer, input) {
        let mut x = Tensor::filled(input, 1.0f32).unwrap();
        x.as_mut_slice()[3 * 14 * 32 + 7 * 32 + 20] = f32::INFINITY;
        let w = Tensor::filled(layer.weight_shape(), 1.0f32).unwrap();
        let actual = plan.forward(&x, &w, None).unwrap();
        for (index, &value) in actual.as_slice().iter().enumerate() {
            let expected = oracle::output_at(plan.problem(), x.as_slice(), w.as_slice(), None, index);
            let is_right = match plan.describe().contains("_f32") && expected.is_infinite() {
                true => value.is_nan(),
                false => f64::from(value) == expected,
            };
            assert!(is_right, "{}: {value}, not {expected}", plan.describe());
        }
    }
}
