//! The GPU of this machine, for tests that need one; a machine without one says so, and a machine that has one may not
//! skip.

#![allow(dead_code, reason = "every test file includes this module and uses its own part of it")]

#[path = "../report/mod.rs"]
mod report;

use conv_transpose::{
    ConvTranspose, Shape, Tensor,
    cuda::{CudaError, Device, DeviceTensor, Plan},
    oracle,
};
use cust::{
    memory::{DeviceBuffer, DeviceSlice},
    stream::{Stream, StreamFlags},
};
use report::machine_has_gpu;
pub use report::say;

/// The first GPU; `None`, said on standard error, on a machine that has none.
///
/// # Panics
/// If the machine has a GPU that cannot be used.
pub fn device(test: &str) -> Option<Device> {
    match Device::new(0) {
        Ok(device) => Some(device),
        Err(reason @ (CudaError::NoDriver(_) | CudaError::NoDevice { .. })) if !machine_has_gpu() => {
            say(&format!("cuda {test}: skipped: {reason}"));
            None
        }
        Err(reason) => panic!("this machine has a GPU, but: {reason}"),
    }
}

/// The first GPU, with the kernels for its own architecture and with those for older ones; nothing on a machine without a
/// GPU.
///
/// # Panics
/// As [`device`].
pub fn devices(test: &str) -> Vec<Device> {
    let Some(device) = device(test) else { return Vec::new() };
    let older: &[&str] = if device.compute_capability() < (8, 0) { &[] } else { &["sm_80", "sm_70"] };
    let older = older.iter().map(|architecture| Device::with_architecture(0, architecture).unwrap());
    [device].into_iter().chain(older).collect()
}

/// The first GPU, if it has compute capability 9.0, and with it the flat and the patch kernels.
///
/// # Panics
/// As [`device`].
pub fn device_of_capability_9(test: &str) -> Option<Device> {
    device(test).filter(|device| {
        let has_kernels = device.compute_capability().0 == 9;
        if !has_kernels {
            say(&format!("cuda {test}: skipped: not for this GPU"));
        }
        has_kernels
    })
}

/// A tensor of small whole numbers, different for each seed, whose sums of products are exact in `f32`.
pub fn whole_numbers<const D: usize>(shape: Shape<D>, seed: u64) -> Tensor<f32, D> {
    let mut tensor = Tensor::filled(shape, 0.0f32).expect("test tensors are small");
    let mut rng = fastrand::Rng::with_seed(seed);
    tensor.as_mut_slice().fill_with(|| rng.i32(-8..=8) as f32);
    tensor
}

/// The exact output for whole numbers, as `f32`.
pub fn expected<const D: usize>(
    layer: &ConvTranspose<D>,
    input: &Tensor<f32, D>,
    weight: &Tensor<f32, D>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let problem = layer.problem(input.shape()).expect("the test's geometry is legal");
    let exact = oracle::forward(&problem, input.as_slice(), weight.as_slice(), bias);
    exact.into_iter().map(|value| value as f32).collect()
}

/// A layer's operands on a device, small whole numbers; a stream; and what exactly the output is.
pub struct Exact<const D: usize> {
    pub stream: Stream,
    pub input: DeviceTensor<f32, D>,
    pub weight: DeviceTensor<f32, D>,
    pub bias: DeviceBuffer<f32>,
    pub output: Vec<f32>,
}

impl<const D: usize> Exact<D> {
    /// # Panics
    /// If the device does not take them, or the layer no such input.
    pub fn new(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>) -> Self {
        let (input, weight) = (whole_numbers(input, 1), whole_numbers(layer.weight_shape(), 2));
        let bias: Vec<f32> = (0..layer.out_channels()).map(|channel| channel as f32).collect();
        Self {
            stream: Stream::new(StreamFlags::NON_BLOCKING, None).unwrap(),
            output: expected(layer, &input, &weight, Some(&bias)),
            input: device.upload(&input).unwrap(),
            weight: device.upload(&weight).unwrap(),
            bias: device.upload_slice(&bias).unwrap(),
        }
    }
}

/// What a plan computes, of an output that held something else.
///
/// # Panics
/// If the plan cannot be carried out.
pub fn computed<const D: usize>(
    device: &Device,
    stream: &Stream,
    plan: &Plan<D>,
    input: &DeviceTensor<f32, D>,
    weight: &DeviceTensor<f32, D>,
    bias: &DeviceSlice<f32>,
) -> Tensor<f32, D> {
    let unwritten = Tensor::filled(plan.output_shape(), f32::NAN).unwrap();
    let mut output = device.upload(&unwritten).unwrap();
    plan.forward(stream, input, weight, Some(bias), &mut output).unwrap();
    output.download(stream).unwrap()
}
