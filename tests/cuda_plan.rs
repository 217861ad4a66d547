//! The CUDA backend's interface on a GPU: tiers, refusals, contexts, threads and streams.
#![cfg(feature = "cuda")]

mod gpu;

use std::{ffi::c_void, mem, thread, time::Duration};

use conv_transpose::{
    Argument, ConvTranspose2d, ConvTranspose3d, Error, GeometryError, Precision, Shape, Tensor,
    cuda::{Algorithm, CudaError, Device, DeviceTensor, Options, Plan},
};
use cust::{
    event::{Event, EventFlags, EventStatus},
    memory::{CopyDestination, DeviceBuffer, DevicePointer, DeviceSlice},
    stream::{Stream, StreamFlags},
};
use gpu::{device, expected, whole_numbers};

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Col2im, Algorithm::Direct, Algorithm::Gather, Algorithm::Scatter];

/// A layer with everything in it, its plan and its tensors.
struct Case {
    layer: ConvTranspose2d,
    plan: Plan<2>,
    input: Tensor<f32, 2>,
    weight: Tensor<f32, 2>,
    bias: Vec<f32>,
    stream: Stream,
}

impl Case {
    fn new(device: &Device, algorithm: Algorithm) -> Self {
        let layer = ConvTranspose2d::builder(6, 4, [3, 4]).stride([2, 3]).padding([1, 0]).groups(2).build().unwrap();
        let input = whole_numbers(Shape::batched(3, 6, [5, 7]), 1);
        let weight = whole_numbers(layer.weight_shape(), 2);
        let plan = Plan::new(device, &layer, input.shape(), Options::default().algorithm(algorithm)).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        Self { layer, plan, input, weight, bias: vec![1.0, -2.0, 3.0, 5.0], stream }
    }

    fn expected(&self) -> Vec<f32> {
        expected(&self.layer, &self.input, &self.weight, Some(&self.bias))
    }

    fn upload(&self, device: &Device) -> (DeviceTensor<f32, 2>, DeviceTensor<f32, 2>, DeviceBuffer<f32>) {
        let upload = |tensor| device.upload(tensor).unwrap();
        (upload(&self.input), upload(&self.weight), device.upload_slice(&self.bias).unwrap())
    }

    fn poisoned_output(&self, device: &Device) -> DeviceTensor<f32, 2> {
        device.upload(&Tensor::filled(self.plan.output_shape(), f32::NAN).unwrap()).unwrap()
    }
}

#[test]
fn the_three_tiers_compute_the_same() {
    let Some(device) = device("the_three_tiers_compute_the_same") else { return };
    for algorithm in ALGORITHMS {
        let case = Case::new(&device, algorithm);
        assert_eq!(case.plan.algorithm(), algorithm);
        let (input, weight, bias) = case.upload(&device);

        let mut output = case.poisoned_output(&device);
        case.plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap();
        assert_eq!(output.download(&case.stream).unwrap().as_slice(), case.expected());

        // The caller's buffers are taken, used and given back; longer ones will do.
        let mut longer = DeviceBuffer::from_slice(&vec![f32::NAN; output.buffer().len() + 5]).unwrap();
        let packed = case.plan.pack_weight(&case.stream, &weight).unwrap();
        let (input, weight) = (input.into_buffer(), weight.into_buffer());
        case.plan.forward_slices(&case.stream, &input, &weight, Some(&bias), &mut longer).unwrap();
        case.stream.synchronize().unwrap();
        let host = longer.as_host_vec().unwrap();
        let (written, rest) = host.split_at(output.buffer().len());
        assert_eq!(written, case.expected());
        assert!(rest.iter().all(|value| value.is_nan()), "elements behind the output were written");

        let [output, packed_output] =
            [(); 2].map(|_| DeviceBuffer::from_slice(&vec![f32::NAN; written.len()]).unwrap());
        let address = |buffer: &DeviceBuffer<f32>| buffer.as_device_ptr().as_raw();
        let stream = case.stream.as_inner().cast::<c_void>();
        // SAFETY: the buffers are of the problem's sizes, and live until the synchronisation, as the packed weight does.
        unsafe {
            let (input, weight, bias) = (address(&input), address(&weight), address(&bias));
            case.plan.forward_raw(stream, input, weight, Some(bias), address(&output)).unwrap();
            case.plan.forward_packed_raw(stream, input, &packed, Some(bias), address(&packed_output)).unwrap();
        }
        case.stream.synchronize().unwrap();
        assert_eq!(output.as_host_vec().unwrap(), case.expected());
        assert_eq!(packed_output.as_host_vec().unwrap(), case.expected());
    }
}

#[test]
fn auto_chooses_a_repeatable_algorithm() {
    let Some(device) = device("auto_chooses_a_repeatable_algorithm") else { return };
    // The case is one of a few microseconds, of which there is a model from compute capability 8.0 on.
    let expected = if device.compute_capability() < (8, 0) { Algorithm::Direct } else { Algorithm::Gather };
    assert_eq!(Case::new(&device, Algorithm::Auto).plan.algorithm(), expected);
}

#[test]
fn wrong_shapes_are_refused_and_the_output_untouched() {
    let Some(device) = device("wrong_shapes_are_refused_and_the_output_untouched") else { return };
    let case = Case::new(&device, Algorithm::Auto);
    let (input, weight, bias) = case.upload(&device);
    let mut output = case.poisoned_output(&device);
    let mut wrong = device.zeroed::<f32, 2>(Shape::unbatched(1, [1, 1])).unwrap();
    let (plan, stream) = (&case.plan, &case.stream);

    let refused = |result: Result<(), Error>, refused: Argument| match result.unwrap_err() {
        Error::Geometry(GeometryError::ShapeMismatch { argument, .. } | GeometryError::Length { argument, .. }) => {
            assert_eq!(argument, refused)
        }
        other => panic!("{other}"),
    };
    refused(plan.forward(stream, &wrong, &weight, Some(&bias), &mut output), Argument::Input);
    refused(plan.forward(stream, &input, &wrong, Some(&bias), &mut output), Argument::Weight);
    refused(plan.forward(stream, &input, &weight, Some(&bias), &mut wrong), Argument::Output);
    let three = bias.index(0..3);
    refused(plan.forward(stream, &input, &weight, Some(&three), &mut output), Argument::Bias);
    assert!(output.download(stream).unwrap().as_slice().iter().all(|value| value.is_nan()));

    let buffer = DeviceBuffer::from_slice(&[0.0f32; 5]).unwrap();
    assert!(matches!(
        DeviceTensor::from_buffer(&device, Shape::unbatched(2, [1, 3]), buffer),
        Err(Error::Geometry(GeometryError::Length { value: 5, expected: 6, .. }))
    ));
}

#[test]
fn short_overlapping_and_foreign_buffers_are_refused() {
    let Some(device) = device("short_overlapping_and_foreign_buffers_are_refused") else { return };
    let case = Case::new(&device, Algorithm::Auto);
    let (input, weight, bias) = case.upload(&device);
    let mut output = case.poisoned_output(&device);
    let needed = case.input.as_slice().len();
    let run = |input: &DeviceSlice<f32>,
               weight: &DeviceSlice<f32>,
               bias: &DeviceSlice<f32>,
               output: &mut DeviceSlice<f32>| {
        match case.plan.forward_slices(&case.stream, input, weight, Some(bias), output) {
            Err(Error::Cuda(error)) => error,
            other => panic!("{other:?}"),
        }
    };

    let short = |buffer: &DeviceBuffer<f32>| buffer.index(0..buffer.len() - 1);
    let error = run(&short(input.buffer()), weight.buffer(), &bias, output.buffer_mut());
    assert_eq!(error, CudaError::TooShort { argument: Argument::Input, value: needed - 1, needed });
    let error = run(input.buffer(), &short(weight.buffer()), &bias, output.buffer_mut());
    assert!(matches!(error, CudaError::TooShort { argument: Argument::Weight, .. }), "{error}");
    let error = run(input.buffer(), weight.buffer(), &short(&bias), output.buffer_mut());
    assert_eq!(error, CudaError::TooShort { argument: Argument::Bias, value: 3, needed: 4 });
    let error = run(input.buffer(), weight.buffer(), &bias, &mut short(output.buffer()));
    assert!(matches!(error, CudaError::TooShort { argument: Argument::Output, .. }), "{error}");

    // One allocation, cut so that the output's first element is the input's last.
    let all = DeviceBuffer::from_slice(&vec![0.0f32; needed + output.buffer().len()]).unwrap();
    let error = run(&all.index(0..needed), weight.buffer(), &bias, &mut all.index(needed - 1..));
    assert_eq!(error, CudaError::Overlap { with: Argument::Input });
    let error = run(input.buffer(), &output.buffer().index(5..), &bias, &mut output.buffer().index(..));
    assert_eq!(error, CudaError::Overlap { with: Argument::Weight });
    let error = run(input.buffer(), weight.buffer(), &output.buffer().index(9..), &mut output.buffer().index(..));
    assert_eq!(error, CudaError::Overlap { with: Argument::Bias });
    // Neighbours do not overlap.
    let mut behind = all.index(needed..);
    case.plan.forward_slices(&case.stream, &all.index(0..needed), weight.buffer(), Some(&*bias), &mut behind).unwrap();

    let host = DevicePointer::from_raw(case.input.as_slice().as_ptr() as u64);
    // SAFETY: never read: it is to be refused.
    let host = unsafe { DeviceSlice::from_raw_parts(host, needed) };
    let error = run(&host, weight.buffer(), &bias, output.buffer_mut());
    assert!(matches!(error, CudaError::NotDeviceMemory { argument: Argument::Input, .. }), "{error}");
    case.stream.synchronize().unwrap();
}

#[test]
fn tensors_whose_slices_were_exchanged_are_refused() {
    let Some(device) = device("tensors_whose_slices_were_exchanged_are_refused") else { return };
    for algorithm in ALGORITHMS.into_iter().chain([Algorithm::Tile]) {
        let case = Case::new(&device, algorithm);
        let (stream, input) = (&case.stream, device.upload(&case.input).unwrap());
        let (mut weight, mut output) = (device.upload(&case.weight).unwrap(), case.poisoned_output(&device));
        let mut packed = case.plan.pack_weight(stream, &weight).unwrap();
        let mut short = device.zeroed::<f32, 2>(Shape::unbatched(1, [1, 3])).unwrap();

        mem::swap(weight.buffer_mut(), short.buffer_mut());
        let too_short = |result: Result<(), Error>| match result.unwrap_err() {
            Error::Cuda(CudaError::TooShort { argument, value, .. }) => {
                assert_eq!((argument, value), (Argument::Weight, 3))
            }
            other => panic!("{other}"),
        };
        too_short(packed.update(&case.plan, stream, &weight));
        too_short(case.plan.forward(stream, &input, &weight, None, &mut output));
        too_short(case.plan.pack_weight(stream, &weight).map(drop));
        let needed = case.weight.as_slice().len();
        let length = |tensor: &DeviceTensor<f32, 2>| match tensor.download(stream).unwrap_err() {
            Error::Geometry(GeometryError::Length { value, expected, .. }) => (value, expected),
            other => panic!("{other}"),
        };
        assert_eq!((length(&weight), length(&short)), ((3, needed), (needed, 3)));
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_buffer_of_another_gpu_is_refused() {
    let Some(device) = device("a_buffer_of_another_gpu_is_refused") else { return };
    let Ok(other) = Device::new(1) else {
        return gpu::say("cuda a_buffer_of_another_gpu_is_refused: skipped: this machine has only one GPU");
    };
    let case = Case::new(&device, Algorithm::Auto);
    let (_, weight, bias) = case.upload(&device);
    let (input, ..) = case.upload(&other);
    let mut output = case.poisoned_output(&device);
    let error = case.plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap_err();
    assert!(
        matches!(error, Error::Cuda(CudaError::WrongDevice { argument: Argument::Input, value: 1, expected: 0 })),
        "{error}"
    );
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let Some(_device) = device("a_device_that_is_not_there_is_refused") else { return };
    let error = Device::new(999).unwrap_err();
    assert!(matches!(error, CudaError::NoDevice { ordinal: 999, count: 1.. }), "{error}");
}

#[test]
fn kernels_of_older_architectures_compute_the_same() {
    let Some(newest) = device("kernels_of_older_architectures_compute_the_same") else { return };
    assert!(newest.multiprocessors() > 0 && newest.shared_memory_per_block() >= 48 << 10);
    for architecture in ["sm_70", "sm_80"] {
        let device = match Device::with_architecture(0, architecture) {
            Ok(device) => device,
            Err(CudaError::WrongArchitecture { .. }) if newest.compute_capability() < (8, 0) => continue,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(device.architecture(), architecture);
        let case = Case::new(&device, Algorithm::Auto);
        let (input, weight, bias) = case.upload(&device);
        let mut output = case.poisoned_output(&device);
        case.plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap();
        assert_eq!(output.download(&case.stream).unwrap().as_slice(), case.expected(), "{architecture}");
    }
}

/// How tile kernels load and store depends on the alignment of the tensors, and on the architecture.
#[test]
fn tiles_take_tensors_at_any_address() {
    let Some(newest) = device("tiles_take_tensors_at_any_address") else { return };
    let older: &[&str] = if newest.compute_capability() < (8, 0) { &[] } else { &["sm_70", "sm_80"] };
    for &architecture in older.iter().chain([&newest.architecture()]) {
        let device = Device::with_architecture(0, architecture).unwrap();
        for (stride, kernel, input) in [(1, 3, [9, 32]), (2, 2, [5, 18]), (2, 4, [3, 17]), (3, 5, [5, 7])] {
            let layer = ConvTranspose2d::builder(11, 19, [kernel; 2]).stride([stride; 2]).build().unwrap();
            let (input, weight) =
                (whole_numbers(Shape::batched(2, 11, input), 1), whole_numbers(layer.weight_shape(), 2));
            for precision in [Precision::F32, Precision::Tf32] {
                let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
                let plan = Plan::new(&device, &layer, input.shape(), options).unwrap();
                let expected = expected(&layer, &input, &weight, None);
                for offset in 0..=4 {
                    let what = format!("{architecture}, {precision}, stride {stride}, offset {offset}");
                    assert!(forward_at(&plan, &input, &weight, offset) == expected, "{what}");
                }
            }
        }
    }
}

/// Direct kernels load vectors of the input only where it is aligned to them.
#[test]
fn direct_kernels_take_tensors_at_any_address() {
    let Some(device) = device("direct_kernels_take_tensors_at_any_address") else { return };
    for (stride, kernel, padding, input) in [(1, 5, 2, [9, 32]), (1, 11, 5, [12, 18]), (2, 4, 1, [6, 20])] {
        let layer = ConvTranspose2d::builder(6, 6, [kernel; 2]).stride([stride; 2]).padding([padding; 2]).groups(6);
        let layer = layer.build().unwrap();
        let (input, weight) = (whole_numbers(Shape::batched(2, 6, input), 1), whole_numbers(layer.weight_shape(), 2));
        let expected = expected(&layer, &input, &weight, None);
        for specialised in [false, true] {
            let options = Options::default().algorithm(Algorithm::Direct).specialised(specialised);
            let plan = Plan::new(&device, &layer, input.shape(), options.compile_within(Duration::MAX)).unwrap();
            for offset in 0..=4 {
                let what = format!("kernel {kernel}, offset {offset}, specialised: {specialised}");
                assert!(forward_at(&plan, &input, &weight, offset) == expected, "{what}");
            }
        }
    }
}

/// Patch kernels load and store vectors only where input and output are aligned to them.
#[test]
fn patch_kernels_take_tensors_at_any_address() {
    let Some(device) = gpu::device_of_capability_9("patch_kernels_take_tensors_at_any_address") else { return };
    for (stride, channels, input) in [(2, 64, [8, 16]), (2, 17, [6, 10]), (1, 40, [9, 12])] {
        let layer = ConvTranspose2d::builder(channels, 21, [2, stride]).stride([2, stride]).build().unwrap();
        let shape = Shape::batched(2, channels, input);
        let (input, weight) = (whole_numbers(shape, 1), whole_numbers(layer.weight_shape(), 2));
        let expected = expected(&layer, &input, &weight, None);
        let options = Options::default().algorithm(Algorithm::Patch).precision(Precision::Tf32);
        let plan = Plan::new(&device, &layer, shape, options).unwrap();
        for offset in 0..=4 {
            assert!(forward_at(&plan, &input, &weight, offset) == expected, "stride {stride}, offset {offset}");
        }
    }
}

/// Of large weights, blocks pack portions, which they copy by fours where these are aligned.
#[test]
fn large_weights_are_packed_from_any_address() {
    let Some(newest) = device("large_weights_are_packed_from_any_address") else { return };
    let older: &[&str] = if newest.compute_capability() < (8, 0) { &[] } else { &["sm_80"] };
    for &architecture in older.iter().chain([&newest.architecture()]) {
        let device = Device::with_architecture(0, architecture).unwrap();
        for (channels, groups, kernel, stride) in
            [([520, 270], 1, 4, 2), ([520, 270], 1, 3, 1), ([768, 272], 2, 3, 2), ([1000, 330], 1, 2, 2)]
        {
            let layer = ConvTranspose2d::builder(channels[0], channels[1], [kernel; 2]).stride([stride; 2]);
            let layer = layer.groups(groups).build().unwrap();
            let input = whole_numbers(Shape::batched(2, channels[0], [4, 6]), 1);
            let weight = whole_numbers(layer.weight_shape(), 2);
            let expected = expected(&layer, &input, &weight, None);
            for precision in [Precision::F32, Precision::Tf32] {
                let plan = Plan::new(&device, &layer, input.shape(), Options::default().precision(precision)).unwrap();
                for offset in [0, 1] {
                    let what = format!("{architecture}, {precision}, {layer:?}, offset {offset}: {}", plan.describe());
                    assert!(forward_at(&plan, &input, &weight, offset) == expected, "{what}");
                }
            }
        }
    }
}

/// Where the rows of the input are aligned, tile kernels copy boxes of it on compute capability 9.0. They reach over
/// all edges, and beyond the last channel and sample, where zeros are to be staged, but not into another group's
/// channels.
#[test]
fn boxes_reach_over_all_edges() {
    let Some(device) = device("boxes_reach_over_all_edges") else { return };
    if device.compute_capability() < (8, 0) {
        return;
    }
    let mut in_boxes = 0;
    for (channels, groups) in [(8, 1), (13, 1), (48, 2), (20, 2)] {
        for (kernel, stride, padding, dilation, extents) in [
            (3, 1, 0, 1, [5, 6, 8]),
            (3, 1, 2, 1, [3, 9, 12]),
            (4, 2, 1, 1, [4, 5, 16]),
            (2, 1, 0, 5, [2, 3, 4]),
            (5, 3, 2, 1, [3, 4, 20]),
            (1, 1, 0, 1, [1, 7, 36]),
        ] {
            let layer = ConvTranspose3d::builder(channels, 12 * groups, [kernel; 3])
                .stride([stride; 3])
                .padding([padding; 3])
                .dilation([dilation; 3])
                .groups(groups)
                .build()
                .unwrap();
            let (input, weight) =
                (whole_numbers(Shape::batched(3, channels, extents), 1), whole_numbers(layer.weight_shape(), 2));
            for precision in [Precision::F32, Precision::Tf32] {
                let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
                let plan = Plan::new(&device, &layer, input.shape(), options).unwrap();
                let what = format!("{groups} groups of {channels} channels of {extents:?}: {}", plan.describe());
                assert!(forward_at(&plan, &input, &weight, 0) == expected(&layer, &input, &weight, None), "{what}");
                in_boxes += usize::from(plan.describe().contains("in boxes"));
            }
        }
    }
    assert_eq!(in_boxes > 0, device.architecture() == "sm_90a");
}

/// Taps that reach no output are not packed. A packed weight that had become smaller than the weight by that used to be
/// refused as too short.
#[test]
fn a_packed_weight_may_be_smaller_than_the_weight() {
    let Some(device) = device("a_packed_weight_may_be_smaller_than_the_weight") else { return };
    let layer = ConvTranspose2d::builder(16, 32, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
    let (input, weight) = (whole_numbers(Shape::batched(3, 16, [1, 1]), 1), whole_numbers(layer.weight_shape(), 2));
    for precision in [Precision::F32, Precision::Tf32] {
        let options = Options::default().algorithm(Algorithm::Tile).precision(precision);
        let plan = Plan::new(&device, &layer, input.shape(), options).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let packed = plan.pack_weight(&stream, &device.upload(&weight).unwrap()).unwrap();
        assert!(packed.device_bytes() < size_of_val(weight.as_slice()), "{precision}");
        let mut output = device.upload(&Tensor::filled(plan.output_shape(), f32::NAN).unwrap()).unwrap();
        plan.forward_packed(&stream, &device.upload(&input).unwrap(), &packed, None, &mut output).unwrap();
        let output = output.download(&stream).unwrap();
        assert_eq!(output.as_slice(), expected(&layer, &input, &weight, None), "{precision}");
    }
}

/// The output of a plan whose tensors begin that many words after an aligned address. Nothing else is written.
fn forward_at<const D: usize>(
    plan: &Plan<D>,
    input: &Tensor<f32, D>,
    weight: &Tensor<f32, D>,
    offset: usize,
) -> Vec<f32> {
    let shifted = |tensor: &Tensor<f32, D>| {
        DeviceBuffer::from_slice(&[vec![f32::NAN; offset], tensor.as_slice().to_vec()].concat()).unwrap()
    };
    let (input, weight) = (shifted(input), shifted(weight));
    let len = Tensor::filled(plan.output_shape(), 0.0f32).unwrap().as_slice().len();
    let output = DeviceBuffer::from_slice(&vec![f32::NAN; offset + len + 4]).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let address = |buffer: &DeviceBuffer<f32>, offset: usize| buffer.as_device_ptr().as_raw() + 4 * offset as u64;
    // SAFETY: the buffers have room for the problem's tensors behind the offset, and live until the synchronisation.
    unsafe {
        let [input, weight, output] = [&input, &weight, &output].map(|buffer| address(buffer, offset));
        plan.forward_raw(stream.as_inner().cast::<c_void>(), input, weight, None, output).unwrap();
    }
    stream.synchronize().unwrap();
    let host = output.as_host_vec().unwrap();
    let (before, rest) = host.split_at(offset);
    let (written, behind) = rest.split_at(len);
    assert!(before.iter().chain(behind).all(|value| value.is_nan()), "elements beside the output were written");
    written.to_vec()
}

#[test]
fn an_architecture_without_kernels_is_refused() {
    let Some(_) = device("an_architecture_without_kernels_is_refused") else { return };
    let error = Device::with_architecture(0, "sm_60").unwrap_err();
    assert!(matches!(&error, CudaError::NoSuchArchitecture { architecture, .. } if architecture == "sm_60"), "{error}");
}

#[test]
fn a_program_keeps_its_own_context() {
    let Some(primary) = device("a_program_keeps_its_own_context") else { return };
    use cust::context::legacy::{Context, ContextFlags, CurrentContext};

    let theirs = primary_independent_context();
    // SAFETY: `theirs` is dropped at the end of this function, after all that is made in it.
    let device = unsafe { Device::from_current_context() }.unwrap();
    let case = Case::new(&device, Algorithm::Auto);
    let (input, weight, bias) = case.upload(&device);
    let mut output = case.poisoned_output(&device);
    case.plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap();
    assert_eq!(output.download(&case.stream).unwrap().as_slice(), case.expected());

    // A plan in the primary context runs while this one is current, and leaves it current; it refuses this one's
    // stream.
    let primary_plan = Plan::new(&primary, &case.layer, case.input.shape(), Options::default()).unwrap();
    let error = primary_plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap_err();
    assert!(matches!(error, Error::Cuda(CudaError::WrongStream)), "{error}");
    let mut primary_output = case.poisoned_output(&primary);
    let (their_input, their_weight, their_bias) = (input, weight, bias);
    let (input, weight, _bias) = case.upload(&primary);
    let bias = primary.upload_slice(&case.bias).unwrap();
    primary.make_current().unwrap();
    let primary_stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    CurrentContext::set_current(&theirs).unwrap();
    let before = current_context();
    primary_plan.forward(&primary_stream, &input, &weight, Some(&bias), &mut primary_output).unwrap();
    assert_eq!(primary_output.download(&primary_stream).unwrap().as_slice(), case.expected());
    assert_eq!(current_context(), before);

    // It refuses this one's memory, which its kernels cannot read.
    let mut refused = |input, bias| match primary_plan
        .forward(&primary_stream, input, &weight, Some(bias), &mut primary_output)
        .unwrap_err()
    {
        Error::Cuda(CudaError::WrongContext { argument }) => argument,
        error => panic!("{error}"),
    };
    assert_eq!(refused(&their_input, &bias), Argument::Input);
    assert_eq!(refused(&input, &their_bias), Argument::Bias);
    let error = primary_plan.pack_weight(&primary_stream, &their_weight).unwrap_err();
    assert!(matches!(error, Error::Cuda(CudaError::WrongContext { argument: Argument::Weight })), "{error}");

    fn primary_independent_context() -> Context {
        let gpu = cust::device::Device::get_device(0).unwrap();
        Context::create_and_push(ContextFlags::SCHED_AUTO, gpu).unwrap()
    }
}

/// Its kernels are unloaded, and there is no memory of a plan of `Scatter` that would be waited for.
#[test]
fn to_drop_a_device_is_to_wait_for_its_kernels() {
    let Some(device) = device("to_drop_a_device_is_to_wait_for_its_kernels") else { return };
    let layer = ConvTranspose2d::builder(32, 32, [4, 4]).stride([2, 2]).build().unwrap();
    let shape = Shape::batched(4, 32, [128, 128]);
    let other = Device::new(0).unwrap();
    let plan = Plan::new(&other, &layer, shape, Options::default().algorithm(Algorithm::Scatter)).unwrap();
    assert_eq!(plan.device_bytes(), 0);
    // Whose memory this is keeps the context.
    let (input, weight) = (device.zeroed(shape).unwrap(), device.zeroed(layer.weight_shape()).unwrap());
    let mut output = device.zeroed::<f32, 2>(plan.output_shape()).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for _ in 0..100 {
        plan.forward(&stream, &input, &weight, None, &mut output).unwrap();
    }
    let done = Event::new(EventFlags::DISABLE_TIMING).unwrap();
    done.record(&stream).unwrap();
    assert_eq!(done.query().unwrap(), EventStatus::NotReady, "too few calls for this GPU");
    drop(plan);
    drop(other);
    assert_eq!(done.query().unwrap(), EventStatus::Ready);
}

fn current_context() -> *mut c_void {
    let mut context = std::ptr::null_mut();
    // SAFETY: writes one handle.
    let result = unsafe { cust::sys::cuCtxGetCurrent(&mut context) };
    assert_eq!(result as u32, 0);
    context.cast()
}

#[test]
fn a_thread_without_a_context_can_do_everything_but_make_streams() {
    let Some(device) = device("a_thread_without_a_context_can_do_everything_but_make_streams") else { return };
    let case = Case::new(&device, Algorithm::Auto);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current_context().is_null());
            let (input, weight, bias) = case.upload(&device);
            let mut output = case.poisoned_output(&device);
            let plan = Plan::new(&device, &case.layer, case.input.shape(), Options::default()).unwrap();
            plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap();
            assert_eq!(output.download(&case.stream).unwrap().as_slice(), case.expected());
            assert!(current_context().is_null());
            // `cust` frees its own buffer in the current context.
            device.make_current().unwrap();
            drop(bias);
        });
    });
}

#[test]
fn threads_share_a_plan_on_streams_of_their_own() {
    let Some(device) = device("threads_share_a_plan_on_streams_of_their_own") else { return };
    for algorithm in ALGORITHMS {
        let case = Case::new(&device, algorithm);
        thread::scope(|scope| {
            for seed in 0..8 {
                let (device, case) = (&device, &case);
                scope.spawn(move || run_repeatedly(device, case, seed));
            }
        });
    }
}

/// Runs a shared plan on this thread's own tensors and stream, many times, and checks every result.
fn run_repeatedly(device: &Device, case: &Case, seed: u64) {
    device.make_current().unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let input = whole_numbers(case.input.shape(), 100 + seed);
    let expected = expected(&case.layer, &input, &case.weight, Some(&case.bias));
    let input = device.upload(&input).unwrap();
    let (_, weight, bias) = case.upload(device);
    for _ in 0..50 {
        let mut output = case.poisoned_output(device);
        case.plan.forward(&stream, &input, &weight, Some(&bias), &mut output).unwrap();
        assert_eq!(output.download(&stream).unwrap().as_slice(), expected);
    }
}

#[test]
fn an_empty_batch_is_computed_without_a_launch() {
    let Some(device) = device("an_empty_batch_is_computed_without_a_launch") else { return };
    for algorithm in ALGORITHMS {
        let layer = ConvTranspose2d::builder(2, 3, [3, 3]).build().unwrap();
        let plan =
            Plan::new(&device, &layer, Shape::batched(0, 2, [4, 4]), Options::default().algorithm(algorithm)).unwrap();
        let input = device.zeroed(plan.problem().input_shape()).unwrap();
        let weight = device.zeroed(layer.weight_shape()).unwrap();
        let mut output = device.zeroed::<f32, 2>(plan.output_shape()).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        plan.forward(&stream, &input, &weight, None, &mut output).unwrap();
        assert!(output.download(&stream).unwrap().as_slice().is_empty());
    }
}

#[test]
fn a_bias_longer_than_the_channels_is_refused_by_the_typed_tier() {
    let Some(device) = device("a_bias_longer_than_the_channels_is_refused_by_the_typed_tier") else { return };
    let case = Case::new(&device, Algorithm::Auto);
    let (input, weight, _bias) = case.upload(&device);
    let mut bias = DeviceBuffer::from_slice(&[0.0f32; 5]).unwrap();
    bias.copy_from(&[1.0f32; 5]).unwrap();
    let mut output = case.poisoned_output(&device);
    let error = case.plan.forward(&case.stream, &input, &weight, Some(&bias), &mut output).unwrap_err();
    assert!(
        matches!(error, Error::Geometry(GeometryError::Length { argument: Argument::Bias, value: 5, expected: 4 })),
        "{error}"
    );
}
