//! Output shapes of random geometries: the formula, the round trip through plain convolution, and every way to ask for
//! the same one.

mod geometries;

use conv_transpose::{ConvTranspose, GeometryError, Shape};
use geometries::{AxisCase, Draw, Failure, Geometry, Request, Stop, Tally, for_all, geometries};
use proptest::{strategy::ValueTree, test_runner::TestRunner};

const GEOMETRIES: u32 = 4096;

macro_rules! in_1d_2d_3d {
    ($($property:ident),+ $(,)?) => {$(
        mod $property {
            #[test]
            fn in_1d() {
                crate::holds(stringify!($property), crate::$property::<1>());
            }

            #[test]
            fn in_2d() {
                crate::holds(stringify!($property), crate::$property::<2>());
            }

            #[test]
            fn in_3d() {
                crate::holds(stringify!($property), crate::$property::<3>());
            }
        }
    )+};
}

in_1d_2d_3d! {
    extents_follow_the_formula,
    convolution_gives_the_input_extent_back,
    all_requests_make_the_same_problem,
    the_extent_is_reached_by_output_size_from_no_other_input,
    the_random_geometries_reach_every_corner,
}

fn holds(property: &str, result: Result<Tally, Failure>) {
    match result {
        Ok(tally) => assert!(tally.ran > 0),
        Err(failure) => panic!("{property}: {failure}"),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Result<(), Stop> {
    if actual == expected { Ok(()) } else { Err(Stop::Failed(format!("{what} is {actual:?} instead of {expected:?}"))) }
}

/// Shapes, counts and axes of the problem are what the case computed on its own.
fn extents_follow_the_formula<const D: usize>() -> Result<Tally, Failure> {
    for_all(Draw::usual(GEOMETRIES), geometries::<D>(), |geometry| {
        let problem = geometry.problem();
        same("input shape", problem.input_shape(), geometry.input_shape())?;
        same("weight shape", problem.weight_shape(), geometry.weight_shape())?;
        same("weight shape of the layer", geometry.layer().weight_shape(), geometry.weight_shape())?;
        same("output shape", problem.output_shape(), geometry.output_shape())?;
        same("batch", problem.batch(), geometry.batch.unwrap_or(1))?;
        same("groups", problem.groups(), geometry.groups)?;
        same("input channels per group", problem.in_channels_per_group(), geometry.in_per_group)?;
        same("output channels per group", problem.out_channels_per_group(), geometry.out_per_group)?;
        for (actual, axis) in problem.axes().iter().zip(geometry.axes) {
            same("pad_begin", actual.pad_begin as i64, axis.begin)?;
            let AxisCase { input, kernel, stride, dilation, .. } = axis;
            same(
                "axis",
                [actual.input, actual.kernel, actual.stride, actual.dilation],
                [input, kernel, stride, dilation],
            )?;
        }
        let elements = |shape: Shape<D>| shape.dims().iter().product::<usize>();
        let input_positions: usize = geometry.axes.iter().map(|axis| axis.input).product();
        let products = problem.batch() * geometry.in_channels() * geometry.out_per_group * input_positions;
        same("flops", problem.flops(), (2 * products * geometry.kernel_volume()) as f64)?;
        let tensors = [geometry.input_shape(), geometry.weight_shape(), geometry.output_shape()];
        let moved = tensors.map(elements).iter().sum::<usize>() + geometry.out_channels();
        same("elements moved", problem.elements_moved(), moved as f64)?;

        let padded = problem.to_3d();
        same("axes of the 3d problem", &padded.axes()[3 - D..], &problem.axes()[..])?;
        same(
            "output elements of the 3d problem",
            padded.output_shape().checked_len(),
            geometry.output_shape().checked_len(),
        )
    })
}

/// A convolution with the same parameters maps the output extent to the input extent. Each full stride of output
/// padding, which only a dilation above the stride allows, adds one.
fn convolution_gives_the_input_extent_back<const D: usize>() -> Result<Tally, Failure> {
    for_all(Draw::usual(GEOMETRIES), geometries::<D>(), |geometry| {
        for (axis, resolved) in geometry.axes.iter().zip(geometry.problem().axes()) {
            let padded = resolved.output as i64 + axis.begin + axis.end;
            let reach = (axis.dilation * (axis.kernel - 1) + 1) as i64;
            let back = (padded - reach).div_euclid(axis.stride as i64) + 1;
            same("extent", back, (axis.input + axis.output_padding / axis.stride) as i64)?;
        }
        Ok(())
    })
}

/// Whatever it is asked for by, the same padding and output padding make the same problem.
fn all_requests_make_the_same_problem<const D: usize>() -> Result<Tally, Failure> {
    for_all(Draw::usual(GEOMETRIES), geometries::<D>(), |geometry| {
        let problem = geometry.problem();
        if let Some(by_padding) = geometry.layer_by_padding() {
            same("problem by padding", by_padding.problem(geometry.input_shape()).unwrap(), problem)?;
            let below_stride = geometry.axes.iter().all(|axis| axis.output_padding < axis.stride);
            if below_stride {
                let by_size = Geometry { request: Request::OutputSize, ..*geometry };
                same("problem by output_size", by_size.problem(), problem)?;
            }
        }
        if let Request::AutoPad(auto_pad) = geometry.request {
            let by_shape = Geometry { request: Request::OutputShape(auto_pad), ..*geometry };
            same("extents by output_shape", by_shape.problem().output_shape(), problem.output_shape())?;
        }
        Ok(())
    })
}

/// Where one output extent can come from two input extents, no `output_size` chooses: the ranges of neighbouring inputs
/// do not overlap, and leave no gap.
fn the_extent_is_reached_by_output_size_from_no_other_input<const D: usize>() -> Result<Tally, Failure> {
    for_all(Draw::usual(GEOMETRIES), geometries::<D>(), |geometry| {
        let by_size = |size: [usize; D]| {
            let layer = ConvTranspose::builder(1, 1, geometry.axes.map(|axis| axis.kernel))
                .stride(geometry.axes.map(|axis| axis.stride))
                .dilation(geometry.axes.map(|axis| axis.dilation));
            layer.output_size(size).build().unwrap()
        };
        let full = geometry.axes.map(|axis| axis.full() as usize);
        let input = geometry.axes.map(|axis| axis.input);
        for axis in 0..D {
            let stride = geometry.axes[axis].stride;
            let mut longer = input;
            longer[axis] += 1;
            for extra in 0..2 * stride {
                let mut size = full;
                size[axis] += extra;
                let from_this = by_size(size).problem(Shape::unbatched(1, input)).is_ok();
                let from_longer = by_size(size).problem(Shape::unbatched(1, longer)).is_ok();
                same("reached", [from_this, from_longer], [extra < stride, extra >= stride])?;
            }
            let mut size = full;
            size[axis] -= 1;
            let refusal = by_size(size).problem(Shape::unbatched(1, input)).unwrap_err();
            let (min, max) = (full[axis] as i128, (full[axis] + stride - 1) as i128);
            let expected = GeometryError::OutputSize { axis, value: full[axis] - 1, input: input[axis], min, max };
            same("refusal", refusal, expected)?;
        }
        Ok(())
    })
}

/// The random geometries are worth running only if each corner is often among them.
fn the_random_geometries_reach_every_corner<const D: usize>() -> Result<Tally, Failure> {
    type Corner<const D: usize> = (&'static str, fn(&Geometry<D>) -> bool);
    fn any_axis<const D: usize>(geometry: &Geometry<D>, corner: fn(&AxisCase) -> bool) -> bool {
        geometry.axes.iter().any(corner)
    }
    let corners: &[Corner<D>] = &[
        ("empty batch", |g| g.batch == Some(0)),
        ("unbatched", |g| g.batch.is_none()),
        ("several samples", |g| g.batch > Some(1)),
        ("groups", |g| g.groups > 1 && g.in_per_group > 1 && g.out_per_group > 1),
        ("depthwise", |g| g.groups > 1 && g.in_per_group == 1 && g.out_per_group == 1),
        ("odd channels", |g| g.in_channels() % 2 == 1 && g.out_channels() % 2 == 1 && g.in_channels() > 1),
        ("extent 1", |g| any_axis(g, |a| a.input == 1)),
        ("kernel 1", |g| any_axis(g, |a| a.kernel == 1)),
        ("large kernel", |g| any_axis(g, |a| a.kernel > 7)),
        ("kernel larger than the input", |g| any_axis(g, |a| a.kernel > a.input && a.input > 1)),
        ("stride 1", |g| any_axis(g, |a| a.stride == 1)),
        ("stride larger than the kernel", |g| any_axis(g, |a| a.stride > a.kernel && a.kernel > 1)),
        ("stride beyond the reach of the kernel", |g| any_axis(g, |a| a.dilation * (a.kernel - 1) + 1 < a.stride)),
        ("stride and dilation share a divisor", |g| {
            any_axis(g, |a| a.stride.is_multiple_of(2) && a.dilation.is_multiple_of(2) && a.kernel > 1)
        }),
        ("dilation larger than the stride", |g| any_axis(g, |a| a.dilation > a.stride && a.kernel > 1)),
        ("asymmetric padding", |g| any_axis(g, |a| a.begin != a.end && a.begin > 0)),
        ("negative padding", |g| any_axis(g, |a| a.begin < 0)),
        ("odd negative padding", |g| any_axis(g, |a| a.begin + a.end < 0 && (a.begin + a.end) % 2 != 0)),
        ("padding beyond the reach of the kernel", |g| any_axis(g, |a| a.begin > (a.dilation * (a.kernel - 1)) as i64)),
        ("output padding", |g| any_axis(g, |a| a.output_padding > 0)),
        ("output padding of a stride or more", |g| any_axis(g, |a| a.output_padding >= a.stride)),
        ("largest output padding", |g| {
            any_axis(g, |a| a.output_padding > 0 && a.output_padding + 1 == a.stride.max(a.dilation))
        }),
        ("output extent 1", |g| any_axis(g, |a| a.output() == 1)),
        ("output_size", |g| g.request == Request::OutputSize),
        ("output_shape", |g| matches!(g.request, Request::OutputShape(_))),
        ("auto_pad", |g| matches!(g.request, Request::AutoPad(_))),
        ("unlike axes", |g| D == 1 || (1..D).all(|axis| g.axes[axis] != g.axes[0])),
    ];
    let mut runner = TestRunner::deterministic();
    let drawn: Vec<Geometry<D>> = (0..GEOMETRIES)
        .map(|_| proptest::strategy::Strategy::new_tree(&geometries::<D>(), &mut runner).unwrap().current())
        .collect();
    for (corner, is_there) in corners {
        let often = drawn.iter().filter(|geometry| is_there(geometry)).count();
        assert!(often * 100 >= drawn.len(), "{corner}: only {often} of {} geometries", drawn.len());
    }
    Ok(Tally { ran: GEOMETRIES, unsupported: 0 })
}
