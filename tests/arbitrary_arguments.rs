//! Arbitrary numbers in every argument: never a panic or an overflow, and the same answer as a second, naive model of
//! the rules.
//!
//! The model below knows no error variants, only whether a geometry is legal and what its axes are. It computes in
//! `i128`, with checks. Every legal geometry is also planned for the CPU, and some for GPUs in every way that there is,
//! which must neither overflow nor take much memory, however large the tensors.
//!
//! Ten million cases: `PROPTEST_CASES=3334 cargo test --test arbitrary_arguments -- --nocapture`

mod allocations;

use allocations::{Counting, peak_of};
use conv_transpose::{AutoPad, Axis, ConvTranspose, Problem, Shape, cpu};
#[cfg(feature = "emulator")]
use conv_transpose::{
    Error, Precision,
    cuda::{CudaError, EmulatedPlan, Options},
};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that a plan may take while it is made, and a thread while it computes.
const MOST_FOR_A_PLAN: usize = 64 << 20;
const MOST_FOR_A_THREAD: usize = 40 << 20;

/// Of so many legal geometries one is planned for GPUs.
const ONE_OF: u32 = 1024;

/// The most bytes for all plans for a GPU, of phases above all, of which an axis may have 2^24.
#[cfg(feature = "emulator")]
const MOST_FOR_GPU_PLANS: usize = 4 << 30;

/// The largest extent and padding of an axis, and the largest number of elements of a tensor.
const MAX_EXTENT: i128 = isize::MAX as i128 / 2;
const MAX_ELEMENTS: i128 = isize::MAX as i128 / 8;

/// How large the numbers of one case are.
#[derive(Clone, Copy, Debug)]
enum Size {
    Small,
    Mixed,
    Any,
}

/// Turns random bits into a number that is often small, or else at some boundary.
fn number(size: Size, bits: u64) -> usize {
    const BOUNDARIES: [usize; 12] = [
        usize::MAX,
        usize::MAX / 2,
        usize::MAX / 3,
        usize::MAX / 4,
        usize::MAX / 8,
        usize::MAX / 16,
        u32::MAX as usize,
        i32::MAX as usize,
        u32::MAX as usize / 3,
        u16::MAX as usize,
        1 << 61,
        1 << 21,
    ];
    let (kind, rest) = (bits % 32, (bits / 32) as usize);
    let small = if rest % 32 == 0 { 0 } else { rest / 32 % 8 + 1 };
    match (size, kind) {
        (Size::Small, 0..31) | (Size::Mixed, 0..29) | (Size::Any, 0..12) => small,
        (_, 31) => BOUNDARIES[rest / 9 % BOUNDARIES.len()].saturating_sub(small).saturating_add(rest / 1000 % 3),
        (Size::Any, 12..16) => 1 << (rest / 9 % 64),
        (Size::Any, 16..20) => rest << 5 | small,
        (Size::Any, 20..24) => rest >> 32,
        _ => rest % 1000,
    }
}

/// Every argument of a layer, and the input shape; `None` is an argument that is not given.
#[derive(Clone, Debug)]
struct Arguments<const D: usize> {
    in_channels: usize,
    out_channels: usize,
    groups: Option<usize>,
    kernel: [usize; D],
    stride: Option<[usize; D]>,
    dilation: Option<[usize; D]>,
    padding: Option<[[usize; 2]; D]>,
    output_padding: Option<[usize; D]>,
    output_size: Option<[usize; D]>,
    output_shape: Option<[usize; D]>,
    auto_pad: AutoPad,
    batch: Option<usize>,
    channels: usize,
    input: [usize; D],
}

fn arguments<const D: usize>() -> impl Strategy<Value = Arguments<D>> {
    let sizes = prop_oneof![Just(Size::Small), Just(Size::Mixed), Just(Size::Any)];
    (sizes, any::<u16>(), prop::array::uniform32(any::<u64>())).prop_map(|(size, given, bits)| {
        let mut bits = bits.into_iter();
        let mut next = || number(size, bits.next().expect("no case takes more than 32 numbers"));
        let mut given = (0..16).map(|bit| given >> bit & 1 == 1);
        let mut is_given = || given.next().unwrap();
        let (in_per_group, out_per_group) = (next(), next());
        let groups = is_given().then(&mut next);
        // Mostly channels that the groups divide, and an input that has as many.
        let channels = |per_group: usize, divides: bool| {
            if divides { per_group.saturating_mul(groups.unwrap_or(1)) } else { per_group }
        };
        let (most, in_divides, out_divides) = (is_given() || is_given(), is_given(), is_given());
        let in_channels = channels(in_per_group, most || in_divides);
        let out_channels = channels(out_per_group, most || out_divides);
        let mut list = || [(); D].map(|()| next());
        let (kernel, input) = (list(), list());
        let stride = is_given().then(&mut list);
        let dilation = is_given().then(&mut list);
        // At most one of the four ways, now and then two.
        let way = (is_given() as u8) << 1 | is_given() as u8;
        let clash = is_given() && is_given() && is_given();
        let auto_pads = [AutoPad::NotSet, AutoPad::Valid, AutoPad::SameUpper, AutoPad::SameLower];
        Arguments {
            in_channels,
            out_channels,
            groups,
            kernel,
            stride,
            dilation,
            input,
            padding: (way < 2).then(|| {
                let (begin, end) = (list(), list());
                std::array::from_fn(|axis| [begin[axis], end[axis]])
            }),
            output_padding: (way != 1 && is_given()).then(&mut list),
            output_size: (way == 1).then(&mut list),
            output_shape: (way == 2 || clash).then(&mut list),
            auto_pad: if way >= 2 || clash { auto_pads[next() % 4] } else { AutoPad::NotSet },
            batch: (next() % 4 > 0).then(&mut next),
            channels: if next() % 8 > 0 { in_channels } else { next() },
        }
    })
}

/// What one axis comes to: its begin padding and output extent, or `None` if it is not legal.
fn axis_by_the_model<const D: usize>(a: &Arguments<D>, axis: usize) -> Option<(i128, i128)> {
    let of = |list: Option<[usize; D]>, default: usize| list.map_or(default, |list| list[axis]) as i128;
    let (input, kernel) = (a.input[axis] as i128, a.kernel[axis] as i128);
    let (stride, dilation) = (of(a.stride, 1), of(a.dilation, 1));
    let output_padding = of(a.output_padding, 0);
    let [begin, end] = a.padding.map_or([0, 0], |padding| padding[axis]).map(|padding| padding as i128);
    if kernel == 0 || stride == 0 || dilation == 0 || input == 0 || output_padding >= stride.max(dilation) {
        return None;
    }
    let full = ((input - 1).checked_mul(stride)?).checked_add((kernel - 1).checked_mul(dilation)?)?.checked_add(1)?;
    if full > MAX_EXTENT {
        return None;
    }
    let same = matches!(a.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
    let target = if a.output_shape.is_some() {
        Some(of(a.output_shape, 0))
    } else if same {
        Some(input * stride)
    } else {
        None
    };
    let (begin, output) = if let Some(target) = target {
        let total = full + output_padding - target;
        let (floor, ceiling) = (total >> 1, -(-total >> 1));
        (if a.auto_pad == AutoPad::SameUpper { floor } else { ceiling }, target)
    } else if a.output_size.is_some() {
        let (size, least) = (of(a.output_size, 0), full - begin - end);
        if size < least || size >= least + stride {
            return None;
        }
        (begin, size)
    } else {
        (begin, full - begin - end + output_padding)
    };
    ((1..=MAX_EXTENT).contains(&output) && (-MAX_EXTENT..=MAX_EXTENT).contains(&begin)).then_some((begin, output))
}

/// Begin padding and output extent of each axis, or `None` if something is not legal.
fn by_the_model<const D: usize>(a: &Arguments<D>) -> Option<Vec<(i128, i128)>> {
    let groups = a.groups.unwrap_or(1);
    if groups == 0 || a.in_channels == 0 || a.out_channels == 0 || a.channels != a.in_channels {
        return None;
    }
    if [a.in_channels, a.out_channels].iter().any(|channels| !channels.is_multiple_of(groups)) {
        return None;
    }
    let nonzero = |list: Option<[usize; D]>| list.is_some_and(|list| list.iter().any(|&number| number > 0));
    let padded = a.padding.is_some_and(|padding| padding.iter().flatten().any(|&number| number > 0));
    let auto = a.auto_pad != AutoPad::NotSet;
    if a.output_size.is_some() && (a.output_shape.is_some() || nonzero(a.output_padding) || auto)
        || padded && (a.output_shape.is_some() || auto)
    {
        return None;
    }
    let axes: Vec<(i128, i128)> = (0..D).map(|axis| axis_by_the_model(a, axis)).collect::<Option<_>>()?;
    let batch = a.batch.unwrap_or(1) as i128;
    let fits = |counts: &mut dyn Iterator<Item = i128>| {
        let counts: Vec<i128> = counts.collect();
        // From zero on nothing grows any more.
        counts.contains(&0)
            || counts
                .iter()
                .try_fold(1i128, |product, &count| product.checked_mul(count))
                .is_some_and(|product| product <= MAX_ELEMENTS)
    };
    let wide = |list: [usize; D]| list.into_iter().map(|number| number as i128);
    let (channels_in, channels_out) = (a.in_channels as i128, a.out_channels as i128);
    let input = fits(&mut [batch, channels_in].into_iter().chain(wide(a.input)));
    let weight = fits(&mut [channels_in, channels_out / groups as i128].into_iter().chain(wide(a.kernel)));
    let output = fits(&mut [batch, channels_out].into_iter().chain(axes.iter().map(|axis| axis.1)));
    (input && weight && output).then_some(axes)
}

/// Gives the arguments to the library; asserts that it agrees with the model, and what holds of every problem. If it is
/// legal, it is planned for the CPU, and perhaps for GPUs. Whether it is.
fn check<const D: usize>(a: &Arguments<D>, for_gpus: bool) -> Result<bool, TestCaseError> {
    let mut builder = ConvTranspose::builder(a.in_channels, a.out_channels, a.kernel).auto_pad(a.auto_pad);
    if let Some(groups) = a.groups {
        builder = builder.groups(groups);
    }
    if let Some(stride) = a.stride {
        builder = builder.stride(stride);
    }
    if let Some(dilation) = a.dilation {
        builder = builder.dilation(dilation);
    }
    if let Some(padding) = a.padding {
        builder = builder.padding_begin_end(padding);
    }
    if let Some(output_padding) = a.output_padding {
        builder = builder.output_padding(output_padding);
    }
    if let Some(output_size) = a.output_size {
        builder = builder.output_size(output_size);
    }
    if let Some(output_shape) = a.output_shape {
        builder = builder.output_shape(output_shape);
    }
    let input = Shape { batch: a.batch, channels: a.channels, extent: a.input };
    let expected = by_the_model(a);
    let problem = match builder.build().and_then(|layer| Ok((layer, layer.problem(input)?))) {
        Ok((layer, problem)) => {
            check_plan(&layer, &problem)?;
            if for_gpus {
                check_gpu_plans(&layer, &problem)?;
            }
            problem
        }
        Err(error) => {
            prop_assert!(expected.is_none(), "refused: {error}, but the model says {expected:?}");
            prop_assert!(!error.to_string().is_empty());
            return Ok(false);
        }
    };
    let Some(expected) = expected else { return Err(TestCaseError::fail(format!("{problem:?} is not legal"))) };
    for (axis, &(pad_begin, output)) in expected.iter().enumerate() {
        let Axis { input, kernel, stride, dilation, .. } = problem.axes()[axis];
        let actual = problem.axes()[axis];
        prop_assert_eq!((actual.pad_begin as i128, actual.output as i128), (pad_begin, output));
        prop_assert_eq!((input, kernel), (a.input[axis], a.kernel[axis]));
        prop_assert_eq!((stride, dilation), (a.stride.map_or(1, |s| s[axis]), a.dilation.map_or(1, |d| d[axis])));
        // A backend forms these without checks.
        prop_assert!(
            actual.output.checked_add_signed(actual.pad_begin.max(0)).is_some_and(|o| isize::try_from(o).is_ok())
        );
        if stride.min(output as usize) <= 64 && kernel <= 4096 {
            let phases = actual.phases();
            prop_assert_eq!(phases.iter().map(|phase| phase.positions).sum::<usize>(), actual.output);
            prop_assert!(phases.iter().map(|phase| phase.taps).sum::<usize>() <= kernel);
        }
    }
    prop_assert_eq!(problem.input_shape(), input);
    for shape in [problem.input_shape(), problem.weight_shape(), problem.output_shape()] {
        let product = shape.dims().iter().try_fold(1i128, |product, &dim| product.checked_mul(dim as i128));
        prop_assert_eq!(
            shape.checked_len().map(|len| len as i128),
            if shape.batch == Some(0) { Some(0) } else { product }
        );
        prop_assert_eq!(Shape::from_dims(&shape.dims()), Ok(shape));
    }
    prop_assert!(problem.flops() >= 0.0 && problem.elements_moved() >= 1.0);
    let three_axes = problem.to_3d();
    prop_assert_eq!(&three_axes.axes()[3 - D..], &problem.axes()[..]);
    Ok(true)
}

/// Asserts that a plan for the CPU can be made within bounds, whatever the extents. Nothing is computed.
fn check_plan<const D: usize>(layer: &ConvTranspose<D>, problem: &Problem<D>) -> Result<(), TestCaseError> {
    let (plan, peak) = peak_of(|| cpu::Plan::new(layer, problem.input_shape()));
    let plan = plan.map_err(|error| TestCaseError::fail(format!("no plan: {error}")))?;
    prop_assert!(peak <= MOST_FOR_A_PLAN, "the plan takes {peak} bytes");
    prop_assert_eq!(plan.problem(), problem);
    prop_assert_eq!(plan.output_shape(), problem.output_shape());
    let weight: usize = problem.weight_shape().dims().iter().product();
    let bound = 4 * weight + MOST_FOR_A_THREAD * rayon::current_num_threads();
    prop_assert!(plan.workspace_bytes() <= bound, "{} bytes of workspace", plan.workspace_bytes());
    Ok(())
}

/// Asserts that plans for a GPU of either kind can be made within bounds, or are refused for a limit.
#[cfg(feature = "emulator")]
fn check_gpu_plans<const D: usize>(layer: &ConvTranspose<D>, problem: &Problem<D>) -> Result<(), TestCaseError> {
    for (architecture, precision) in
        [("sm_70", Precision::F32), ("sm_90a", Precision::F32), ("sm_90a", Precision::Tf32)]
    {
        let options = Options::default().precision(precision);
        let input = problem.input_shape();
        let ways = || EmulatedPlan::ways_with_architecture(layer, input, options, architecture);
        let (ways, peak) = peak_of(ways);
        prop_assert!(peak <= MOST_FOR_GPU_PLANS, "the plans take {peak} bytes");
        match ways {
            Ok(ways) => prop_assert!(ways.iter().all(|plan| plan.problem() == problem)),
            Err(Error::Cuda(CudaError::Unsupported { .. })) => {}
            Err(error) => return Err(TestCaseError::fail(format!("{architecture}: {error}"))),
        }
    }
    Ok(())
}

/// Without the emulator there are no such plans.
#[cfg(not(feature = "emulator"))]
fn check_gpu_plans<const D: usize>(_: &ConvTranspose<D>, _: &Problem<D>) -> Result<(), TestCaseError> {
    Ok(())
}

/// 1000 times `PROPTEST_CASES`: 256,000 unless told otherwise. At least one in twenty must be legal, so that not only
/// refusals are tried.
fn arbitrary_arguments<const D: usize>() {
    let config = ProptestConfig::default();
    let cases = config.cases.saturating_mul(1000);
    let config = ProptestConfig { cases, failure_persistence: None, ..config };
    let legal = std::cell::Cell::new(0u32);
    let result = proptest::test_runner::TestRunner::new(config).run(&arguments::<D>(), |arguments| {
        let for_gpus = legal.get().is_multiple_of(ONE_OF);
        legal.set(legal.get() + u32::from(check(&arguments, for_gpus)?));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let legal = legal.get();
    println!("{legal} of {cases} are legal");
    assert!(legal >= cases / 20, "only {legal} of {cases} are legal");
}

#[test]
fn arbitrary_arguments_in_1d() {
    arbitrary_arguments::<1>();
}

#[test]
fn arbitrary_arguments_in_2d() {
    arbitrary_arguments::<2>();
}

#[test]
fn arbitrary_arguments_in_3d() {
    arbitrary_arguments::<3>();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any list of numbers is a shape or refused, and counting its elements never overflows.
    #[test]
    fn arbitrary_dimensions(bits in prop::collection::vec(any::<u64>(), 0..8)) {
        let dims: Vec<usize> = bits.into_iter().map(|bits| number(Size::Any, bits)).collect();
        prop_assert_eq!(Shape::<1>::from_dims(&dims).is_ok(), dims.len() == 2 || dims.len() == 3);
        prop_assert_eq!(Shape::<3>::from_dims(&dims).is_ok(), dims.len() == 4 || dims.len() == 5);
        if let Ok(shape) = Shape::<2>::from_dims(&dims) {
            prop_assert_eq!(shape.dims(), &dims[..]);
            prop_assert_eq!(shape.to_string(), format!("{dims:?}"));
            let product = dims.iter().try_fold(1u128, |product, &dim| product.checked_mul(dim as u128));
            let product = if dims.contains(&0) { Some(0) } else { product };
            let expected = product.and_then(|product| usize::try_from(product).ok());
            prop_assert_eq!(shape.checked_len(), expected);
        } else {
            prop_assert!(dims.len() != 3 && dims.len() != 4);
        }
    }
}
