//! Every refusal: the exact variant with argument, axis, value and limit, the message that says them, and nothing
//! written.

use conv_transpose::{
    Argument, AutoPad, ConvTranspose, ConvTranspose2d, ConvTransposeBuilder, Error, GeometryError, Problem, Shape,
    Tensor, cpu,
};

/// A layer that is fine until a test spoils it.
fn fine<const D: usize>() -> ConvTransposeBuilder<D> {
    ConvTranspose::builder(6, 4, [3; D]).stride([2; D]).groups(2)
}

fn input<const D: usize>(extent: [usize; D]) -> Shape<D> {
    Shape::batched(2, 6, extent)
}

fn bind<const D: usize>(builder: ConvTransposeBuilder<D>, input: Shape<D>) -> Result<Problem<D>, GeometryError> {
    builder.build().unwrap_or_else(|error| panic!("refused before any input is known: {error}")).problem(input)
}

/// `value` on one axis, `others` on all others.
fn on_axis<const D: usize>(axis: usize, value: usize, others: usize) -> [usize; D] {
    let mut extents = [others; D];
    extents[axis] = value;
    extents
}

/// Asserts the exact refusal, and that its message holds each of the given parts, in this order.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, GeometryError>, expected: GeometryError, message: &[&str]) {
    let error = result.expect_err("it is not refused");
    assert_eq!(error, expected);
    let text = error.to_string();
    let mut rest = &text[..];
    for part in message {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing in {text:?}"));
        rest = &rest[at + part.len()..];
    }
    // The library's own error adds nothing to it.
    assert_eq!(Error::from(expected).to_string(), text);
}

/// Stamps a generic test for 1, 2 and 3 dimensions.
macro_rules! in_1d_2d_3d {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            #[test]
            fn in_1d() {
                super::$test::<1>();
            }

            #[test]
            fn in_2d() {
                super::$test::<2>();
            }

            #[test]
            fn in_3d() {
                super::$test::<3>();
            }
        }
    )+};
}

in_1d_2d_3d! {
    zero_channels_and_groups,
    zero_extents,
    groups_that_do_not_divide,
    output_padding_at_its_limit,
    output_size_out_of_reach,
    an_output_extent_below_one,
    two_arguments_for_one_thing,
    the_wrong_number_of_dimensions,
    the_wrong_number_of_channels,
    extents_that_overflow,
    tensors_that_overflow,
    tensors_of_another_shape,
    a_bias_of_another_length,
    a_buffer_of_another_length,
}

fn zero_channels_and_groups<const D: usize>() {
    let zero = |argument| GeometryError::ZeroCount { argument };
    let builder = |in_channels, out_channels| ConvTranspose::builder(in_channels, out_channels, [3; D]);
    refused(builder(0, 4).build(), zero(Argument::InChannels), &["in_channels is 0", "at least 1"]);
    refused(builder(6, 0).build(), zero(Argument::OutChannels), &["out_channels is 0", "at least 1"]);
    refused(fine::<D>().groups(0).build(), zero(Argument::Groups), &["groups is 0", "at least 1"]);
}

fn zero_extents<const D: usize>() {
    for axis in 0..D {
        let extents = on_axis::<D>(axis, 0, 3);
        let zero = |argument| GeometryError::ZeroExtent { argument, axis };
        let place = format!("on spatial axis {axis},");
        let message = |argument| [argument, " is 0", &place, "at least 1"];
        refused(ConvTranspose::builder(6, 4, extents).build(), zero(Argument::Kernel), &message("kernel"));
        refused(fine::<D>().stride(extents).build(), zero(Argument::Stride), &message("stride"));
        refused(fine::<D>().dilation(extents).build(), zero(Argument::Dilation), &message("dilation"));
        let output_shape = ConvTranspose::builder(6, 4, [3; D]).output_shape(extents);
        refused(output_shape.build(), zero(Argument::OutputShape), &message("output_shape"));
        refused(bind(fine::<D>(), input(extents)), zero(Argument::Input), &message("input"));
        // Not even with an empty batch.
        refused(bind(fine::<D>(), Shape::batched(0, 6, extents)), zero(Argument::Input), &message("input"));
    }
}

fn groups_that_do_not_divide<const D: usize>() {
    let builder = |in_channels, out_channels| ConvTranspose::builder(in_channels, out_channels, [3; D]).groups(4);
    refused(
        builder(6, 8).build(),
        GeometryError::Groups { argument: Argument::InChannels, channels: 6, groups: 4 },
        &["in_channels is 6", "groups = 4"],
    );
    refused(
        builder(8, 6).build(),
        GeometryError::Groups { argument: Argument::OutChannels, channels: 6, groups: 4 },
        &["out_channels is 6", "groups = 4"],
    );
    // More groups than channels.
    refused(
        builder(4, 2).build(),
        GeometryError::Groups { argument: Argument::OutChannels, channels: 2, groups: 4 },
        &["out_channels is 2", "groups = 4"],
    );
}

fn output_padding_at_its_limit<const D: usize>() {
    for axis in 0..D {
        // The limit is the larger of the two, whichever that is.
        for (stride, dilation, limit) in [(1, 1, 1), (4, 3, 4), (2, 5, 5)] {
            let builder =
                || fine::<D>().stride(on_axis::<D>(axis, stride, 1)).dilation(on_axis::<D>(axis, dilation, 1));
            assert!(builder().output_padding(on_axis::<D>(axis, limit - 1, 0)).build().is_ok());
            for value in [limit, limit + 1, usize::MAX] {
                refused(
                    builder().output_padding(on_axis::<D>(axis, value, 0)).build(),
                    GeometryError::OutputPadding { axis, value, limit },
                    &[
                        "output_padding",
                        &value.to_string(),
                        &format!("on spatial axis {axis},"),
                        &format!("below max(stride, dilation) = {limit}"),
                    ],
                );
            }
        }
    }
}

fn output_size_out_of_reach<const D: usize>() {
    // Input 5, kernel 3, stride 2, padding 1: (5 - 1) * 2 - 2 + 2 + 1 = 9, and 10 with an output padding.
    let builder = || fine::<D>().padding([1; D]);
    assert!(bind(builder().output_size([9; D]), input([5; D])).is_ok());
    assert!(bind(builder().output_size([10; D]), input([5; D])).is_ok());
    for axis in 0..D {
        for value in [0, 1, 8, 11, usize::MAX] {
            refused(
                bind(builder().output_size(on_axis::<D>(axis, value, 9)), input([5; D])),
                GeometryError::OutputSize { axis, value, input: 5, min: 9, max: 10 },
                &[
                    "output_size",
                    &value.to_string(),
                    &format!("on spatial axis {axis},"),
                    "input extent of 5",
                    "9 to 10",
                ],
            );
        }
    }
}

fn an_output_extent_below_one<const D: usize>() {
    let message =
        |axis: usize, extent: &str| [extent.to_owned(), format!("on spatial axis {axis},"), "at least 1".into()];
    let check = |result, axis, extent: i128| {
        let message = message(axis, &format!(" {extent} "));
        refused(result, GeometryError::OutputExtent { axis, extent }, &message.each_ref().map(|part| &part[..]));
    };
    for axis in 0..D {
        // Input 2, kernel 3, stride 2: 5 before padding.
        for (padding, extent) in [([2, 2], 1), ([2, 3], 0), ([5, 0], 0), ([0, 5], 0), ([4, 4], -3)] {
            let mut all = [[0, 0]; D];
            all[axis] = padding;
            let result = bind(fine::<D>().padding_begin_end(all), input([2; D]));
            if extent == 1 {
                assert_eq!(result.unwrap().axes()[axis].output, 1);
            } else {
                check(result, axis, extent);
            }
        }
        // The largest padding there can be, on both ends: nothing wraps around.
        let result = bind(fine::<D>().padding(on_axis::<D>(axis, usize::MAX, 0)), input([2; D]));
        check(result, axis, 5 - 2 * usize::MAX as i128);
        // A target of zero.
        let padded = || fine::<D>().padding(on_axis::<D>(axis, 3, 0));
        check(bind(padded().output_size(on_axis::<D>(axis, 0, 5)), input([2; D])), axis, 0);
        // An output padding can save it.
        let saved =
            fine::<D>().padding(on_axis::<D>(axis, 3, 0)).stride([3; D]).output_padding(on_axis::<D>(axis, 2, 0));
        assert_eq!(bind(saved, input([2; D])).unwrap().axes()[axis].output, 2);
    }
}

fn two_arguments_for_one_thing<const D: usize>() {
    let conflict = |result: Result<ConvTranspose<D>, GeometryError>, first: Argument, second: Argument| {
        let Err(GeometryError::Conflict { reason, .. }) = result else { panic!("{result:?} is no conflict") };
        let message = [&first.to_string()[..], " and ", &second.to_string(), "cannot be given together", reason];
        assert!(!reason.is_empty());
        refused(result, GeometryError::Conflict { first, second, reason }, &message);
    };
    use Argument::{AutoPad as Auto, OutputPadding, OutputShape, OutputSize, Padding};
    for axis in 0..D {
        let one = on_axis::<D>(axis, 1, 0);
        conflict(fine::<D>().output_size([9; D]).output_padding(one).build(), OutputSize, OutputPadding);
        conflict(fine::<D>().output_shape([9; D]).padding(one).build(), OutputShape, Padding);
        for ends in [[1, 0], [0, 1]] {
            let mut padding = [[0, 0]; D];
            padding[axis] = ends;
            conflict(fine::<D>().padding_begin_end(padding).output_shape([9; D]).build(), OutputShape, Padding);
            for auto_pad in [AutoPad::Valid, AutoPad::SameUpper, AutoPad::SameLower] {
                conflict(fine::<D>().padding_begin_end(padding).auto_pad(auto_pad).build(), Auto, Padding);
            }
        }
    }
    for auto_pad in [AutoPad::Valid, AutoPad::SameUpper, AutoPad::SameLower] {
        conflict(fine::<D>().output_size([9; D]).auto_pad(auto_pad).build(), OutputSize, Auto);
    }
    // In either order.
    conflict(fine::<D>().output_size([9; D]).output_shape([9; D]).build(), OutputSize, OutputShape);
    conflict(fine::<D>().output_shape([9; D]).output_size([9; D]).build(), OutputSize, OutputShape);
    // What goes together.
    assert!(fine::<D>().output_size([9; D]).padding([1; D]).build().is_ok());
    assert!(fine::<D>().output_shape([9; D]).auto_pad(AutoPad::SameUpper).output_padding([1; D]).build().is_ok());
    assert!(fine::<D>().auto_pad(AutoPad::NotSet).padding([1; D]).build().is_ok());
}

fn the_wrong_number_of_dimensions<const D: usize>() {
    assert_eq!(Shape::<D>::from_dims(&[7; 5][..D + 1]), Ok(Shape::unbatched(7, [7; D])));
    assert_eq!(Shape::<D>::from_dims(&[7; 5][..D + 2]), Ok(Shape::batched(7, 7, [7; D])));
    for rank in (0..9).filter(|&rank| rank != D + 1 && rank != D + 2) {
        refused(
            Shape::<D>::from_dims(&vec![7; rank]),
            GeometryError::Rank { argument: Argument::Input, spatial_axes: D, rank },
            &[
                "input",
                &format!("{rank} dimensions"),
                &format!("{D} spatial axes"),
                &(D + 1).to_string(),
                "unbatched",
                &(D + 2).to_string(),
            ],
        );
    }
}

fn the_wrong_number_of_channels<const D: usize>() {
    for value in [0, 1, 5, 7, 12, usize::MAX] {
        for batch in [None, Some(0), Some(2)] {
            let shape = Shape { batch, channels: value, extent: [5; D] };
            refused(
                bind(fine::<D>(), shape),
                GeometryError::Channels { value, expected: 6 },
                &["input", &format!(" {value} channels"), "in_channels = 6"],
            );
        }
    }
}

/// The largest number in every position that an extent depends on.
fn extents_that_overflow<const D: usize>() {
    const LIMIT: usize = isize::MAX as usize / 2;
    let check = |result| {
        let expected = GeometryError::Overflow { argument: Argument::Output, limit: LIMIT };
        refused(result, expected, &["output", &LIMIT.to_string()]);
    };
    for axis in 0..D {
        for huge in [usize::MAX, usize::MAX / 2 + 1, isize::MAX as usize, LIMIT + 1] {
            let extents = on_axis::<D>(axis, huge, 2);
            check(bind(ConvTranspose::builder(6, 4, extents), input([2; D])));
            check(bind(fine::<D>().stride(extents), input([2; D])));
            check(bind(fine::<D>().dilation(extents), input([2; D])));
            check(bind(fine::<D>().stride([1; D]), input(extents)));
            check(bind(fine::<D>(), Shape::batched(0, 6, extents)));
            check(bind(fine::<D>().output_shape(extents), input([2; D])));
            check(bind(fine::<D>().stride(extents).auto_pad(AutoPad::SameLower), input([2; D])));
            check(bind(fine::<D>().stride(extents).dilation(extents), input(extents)));
            // An input extent of 1 takes no step, and a kernel extent of 1 has no reach, however large stride and
            // dilation are.
            let one = ConvTranspose::builder(6, 4, [1; D]).stride(extents).dilation(extents);
            assert_eq!(bind(one, input([1; D])).unwrap().output_shape().extent, [1; D]);
        }
        // Too much before padding, however little padding leaves of it.
        let far = ConvTranspose::builder(6, 4, [2; D]).dilation(on_axis::<D>(axis, LIMIT + 1, 1));
        let end = on_axis::<D>(axis, LIMIT, 0).map(|end| [0, end]);
        check(bind(far.padding_begin_end(end), input([1; D])));
        // Too much padding, however little output padding leaves of that.
        let step = |padding: usize| {
            let builder = ConvTranspose::builder(6, 4, [1; D]).stride(on_axis::<D>(axis, usize::MAX, 1));
            let begin = on_axis::<D>(axis, padding, 0).map(|begin| [begin, 0]);
            builder.padding_begin_end(begin).output_padding(on_axis::<D>(axis, padding + 2, 0))
        };
        for padding in [LIMIT + 1, isize::MAX as usize, isize::MAX as usize + 1, usize::MAX - 3] {
            check(bind(step(padding), input([1; D])));
        }
        assert_eq!(bind(step(LIMIT), input([1; D])).unwrap().axes()[axis].output, 3);
        // An output padding that alone is too much.
        let extents = on_axis::<D>(axis, usize::MAX, 1);
        let padded = ConvTranspose::builder(6, 4, [1; D]).stride(extents);
        check(bind(padded.output_padding(on_axis::<D>(axis, usize::MAX - 1, 0)), input([1; D])));
    }
}

fn tensors_that_overflow<const D: usize>() {
    const LIMIT: usize = isize::MAX as usize / 8;
    let check = |result, argument: Argument| {
        refused(
            result,
            GeometryError::Overflow { argument, limit: LIMIT },
            &[&argument.to_string(), "overflows", &LIMIT.to_string()],
        );
    };
    let plain = |in_channels, out_channels| ConvTranspose::builder(in_channels, out_channels, [1; D]);
    // One too many elements, and so many that even their count overflows.
    for huge in [LIMIT + 1, usize::MAX] {
        check(bind(plain(1, 1), Shape::batched(huge, 1, [1; D])), Argument::Input);
        check(bind(plain(huge, 1), Shape::batched(1, huge, [1; D])), Argument::Input);
        check(bind(plain(huge, 1), Shape::batched(0, huge, [1; D])), Argument::Weight);
        check(bind(plain(1, huge), Shape::batched(0, 1, [1; D])), Argument::Weight);
        check(bind(plain(huge, huge).groups(huge), Shape::batched(1, huge, [1; D])), Argument::Input);
    }
    // The product overflows, no factor does.
    let root = 1 << 32;
    check(bind(plain(root, 1), Shape::unbatched(root, [root; D])), Argument::Input);
    check(bind(plain(root, root), Shape::unbatched(root, [1; D])), Argument::Weight);
    check(bind(plain(1, root), Shape::batched(root, 1, [1; D])), Argument::Output);
    // What just fits, fits.
    assert!(bind(plain(1, 1), Shape::batched(LIMIT, 1, [1; D])).is_ok());
    assert!(bind(plain(1, LIMIT), Shape::unbatched(1, [1; D])).is_ok());
    // An empty batch has no elements whatever its extents.
    let empty = bind(plain(1, 1), Shape::batched(0, 1, [1 << 61; D])).unwrap();
    assert_eq!(empty.output_shape().checked_len(), Some(0));
}

/// Runs a plan on tensors of the given shapes and asserts the refusal, and that the output is untouched.
fn forward_is_refused<const D: usize>(
    shapes: [Shape<D>; 3],
    bias: Option<usize>,
    expected: GeometryError,
    message: &[&str],
) {
    let plan = cpu::Plan::new(&fine::<D>().build().unwrap(), input([5; D])).unwrap();
    let [input, weight, mut output] = shapes.map(|shape| Tensor::filled(shape, 7.0f32).unwrap());
    let bias = bias.map(|len| vec![7.0; len]);
    let result = match plan.forward(&input, &weight, bias.as_deref(), &mut output) {
        Err(Error::Geometry(error)) => Err(error),
        Err(other) => panic!("another error: {other}"),
        Ok(()) => Ok(()),
    };
    refused(result, expected, message);
    assert!(output.as_slice().iter().all(|&y| y == 7.0), "the output was written");
}

fn tensors_of_another_shape<const D: usize>() {
    let right = [input([5; D]), Shape::batched(6, 2, [3; D]), Shape::batched(2, 4, [11; D])];
    for (place, argument) in [Argument::Input, Argument::Weight, Argument::Output].into_iter().enumerate() {
        let expected = right[place];
        let batch = expected.batch.unwrap();
        let mut wrong = vec![
            Shape { batch: None, ..expected },
            Shape { batch: Some(0), ..expected },
            Shape { batch: Some(batch + 1), ..expected },
            Shape { channels: expected.channels + 1, ..expected },
            Shape { channels: 0, ..expected },
            // As many elements, but along other axes.
            Shape { batch: Some(expected.channels), channels: batch, ..expected },
        ];
        for axis in 0..D {
            let mut extent = expected.extent;
            extent[axis] -= 1;
            wrong.push(Shape { extent, ..expected });
            extent[axis] += 2;
            wrong.push(Shape { extent, ..expected });
        }
        for value in wrong {
            let mut shapes = right;
            shapes[place] = value;
            forward_is_refused(
                shapes,
                Some(4),
                GeometryError::ShapeMismatch { argument, value: value.dims(), expected: expected.dims() },
                &[&argument.to_string(), &value.to_string(), &expected.to_string()],
            );
        }
    }
}

fn a_bias_of_another_length<const D: usize>() {
    let right = [input([5; D]), Shape::batched(6, 2, [3; D]), Shape::batched(2, 4, [11; D])];
    // The last two are the output channels of one group, and the input channels.
    for value in [0, 1, 3, 5, 2, 6] {
        forward_is_refused(
            right,
            Some(value),
            GeometryError::Length { argument: Argument::Bias, value, expected: 4 },
            &["bias", &value.to_string(), "4 are needed"],
        );
    }
}

fn a_buffer_of_another_length<const D: usize>() {
    let shape = Shape::batched(2, 3, [2; D]);
    let expected = 6 << D;
    assert!(Tensor::from_vec(shape, vec![0.0f32; expected]).is_ok());
    for value in [0, expected - 1, expected + 1] {
        refused(
            Tensor::from_vec(shape, vec![0.0f32; value]),
            GeometryError::Length { argument: Argument::Input, value, expected },
            &[&format!(" {value} elements"), &format!("{expected} are needed")],
        );
    }
    // A shape that nothing can fill, and one that is filled by nothing.
    refused(
        Tensor::from_vec(Shape::batched(usize::MAX, 2, [2; D]), vec![0.0f32; 4]),
        GeometryError::Overflow { argument: Argument::Input, limit: usize::MAX },
        &["overflows", &usize::MAX.to_string()],
    );
    assert!(Tensor::from_vec(Shape::batched(0, usize::MAX, [usize::MAX; D]), Vec::<f32>::new()).is_ok());
}

#[test]
fn memory_that_is_not_there() {
    for len in [usize::MAX, isize::MAX as usize, usize::MAX / 4] {
        let error = Tensor::filled(Shape::unbatched(len, [1]), 0.0f32).unwrap_err();
        assert!(matches!(&error, Error::HostMemory { shape } if *shape == [len, 1]), "{error}");
        assert!(error.to_string().contains(&format!("[{len}, 1]")), "{error}");
    }
    let error = Tensor::filled(Shape::batched(usize::MAX, 2, [2]), 0.0f32).unwrap_err();
    assert!(matches!(error, Error::HostMemory { .. }), "{error}");
}

/// A plan is refused for what its problem is refused for.
#[test]
fn a_plan_of_a_refused_problem() {
    let layer = ConvTranspose2d::builder(6, 4, [3, 3]).build().unwrap();
    let error = cpu::Plan::new(&layer, Shape::batched(1, 5, [4, 4])).unwrap_err();
    assert!(matches!(error, Error::Geometry(GeometryError::Channels { value: 5, expected: 6 })), "{error}");
}

/// An empty batch of extents beyond all memory is no work at all.
#[test]
fn an_empty_batch_of_any_extent_runs() {
    let layer = ConvTranspose::<1>::builder(1, 1, [1]).stride([1 << 59]).build().unwrap();
    let plan = cpu::Plan::new(&layer, Shape::batched(0, 1, [2])).unwrap();
    let empty = |shape| Tensor::from_vec(shape, Vec::new()).unwrap();
    let (input, mut output) = (empty(Shape::batched(0, 1, [2])), empty(plan.output_shape()));
    let weight = Tensor::filled(layer.weight_shape(), 1.0f32).unwrap();
    plan.forward(&input, &weight, None, &mut output).unwrap();
}

/// The names of the arguments in messages are those of the methods and fields.
#[test]
fn arguments_have_the_names_of_the_api() {
    let names = [
        (Argument::InChannels, "in_channels"),
        (Argument::OutChannels, "out_channels"),
        (Argument::Kernel, "kernel"),
        (Argument::Stride, "stride"),
        (Argument::Padding, "padding"),
        (Argument::OutputPadding, "output_padding"),
        (Argument::OutputSize, "output_size"),
        (Argument::OutputShape, "output_shape"),
        (Argument::AutoPad, "auto_pad"),
        (Argument::Dilation, "dilation"),
        (Argument::Groups, "groups"),
        (Argument::Batch, "batch"),
        (Argument::Input, "input"),
        (Argument::Weight, "weight"),
        (Argument::Bias, "bias"),
        (Argument::Output, "output"),
    ];
    for (argument, name) in names {
        assert_eq!(argument.to_string(), name);
    }
}
