//! The decoder half of a U-Net: three layers that double the picture and halve the channels, one after the other on one
//! stream.
//!
//! Plans and buffers are made beforehand, and the driver compiles the kernels of all plans side by side. A pass is
//! three calls that enqueue and return: the stream keeps them in order, and the host waits once, at the end. The time
//! is the GPU's own, from events on the stream; the result is compared with the CPU backend. (A real decoder has
//! activations between the layers: kernels of yours, on the same stream.)
//!
//! `cargo run --release --example decoder`

use std::{error::Error, time::Duration};

use conv_transpose::{
    ConvTranspose2d, Shape, Tensor, cpu,
    cuda::{self, CudaError, DeviceTensor},
};
use cust::{
    event::{Event, EventFlags},
    memory::DeviceBuffer,
    stream::{Stream, StreamFlags},
};

const BATCH: usize = 4;
const PASSES: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let device = match cuda::Device::new(0) {
        Ok(device) => device,
        Err(reason @ (CudaError::NoDriver(_) | CudaError::NoDevice { .. })) => {
            println!("no CUDA device: {reason}; nothing to show");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    // Three ways to double an extent.
    let layers = [
        Layer::random(ConvTranspose2d::builder(256, 128, [2, 2]).stride([2, 2]).build()?, 1)?,
        Layer::random(
            ConvTranspose2d::builder(128, 64, [3, 3]).stride([2, 2]).padding([1, 1]).output_padding([1, 1]).build()?,
            2,
        )?,
        Layer::random(ConvTranspose2d::builder(64, 32, [4, 4]).stride([2, 2]).padding([1, 1]).build()?, 3)?,
    ];
    let bottleneck = random(Shape::batched(BATCH, 256, [16, 16]), 1.0, 4)?;

    let input = device.upload(&bottleneck)?;
    let mut stages = Vec::new();
    let mut shape = bottleneck.shape();
    for layer in &layers {
        let stage = Stage::new(&device, layer, shape)?;
        shape = stage.plan.output_shape();
        stages.push(stage);
    }
    for stage in &stages {
        stage.plan.warm_up()?;
    }

    decode(&stream, &input, &mut stages)?; // The first pass is not timed.
    let [start, end] = [Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?];
    start.record(&stream)?;
    for _ in 0..PASSES {
        decode(&stream, &input, &mut stages)?;
    }
    end.record(&stream)?;
    end.synchronize()?;
    let milliseconds = end.elapsed_time_f32(&start)? / PASSES as f32;

    let output = stages.last().expect("there are three").output.download(&stream)?;
    let difference = check(&layers, bottleneck, &output)?;
    println!(
        "decoder: three layers to {shape} on {}, {milliseconds:.3} ms a pass; largest difference from the CPU {difference:.1e}",
        device.name()
    );
    Ok(())
}

/// Enqueues a pass: each stage reads what the one before it writes.
fn decode(stream: &Stream, input: &DeviceTensor<f32, 2>, stages: &mut [Stage]) -> Result<(), conv_transpose::Error> {
    let mut input = input;
    for stage in stages {
        stage.plan.forward(stream, input, &stage.weight, Some(&stage.bias), &mut stage.output)?;
        input = &stage.output;
    }
    Ok(())
}

/// A layer with its parameters in host memory.
struct Layer {
    layer: ConvTranspose2d,
    weight: Tensor<f32, 2>,
    bias: Vec<f32>,
}

impl Layer {
    /// Weights as a network starts with: so small that the values keep their size from layer to layer.
    fn random(layer: ConvTranspose2d, seed: u64) -> Result<Self, conv_transpose::Error> {
        let weight = random(layer.weight_shape(), (3.0 / layer.in_channels() as f32).sqrt(), seed)?;
        let bias = (0..layer.out_channels()).map(|channel| channel as f32 * 0.01).collect();
        Ok(Self { layer, weight, bias })
    }
}

/// A layer on the GPU, planned for one shape, with the buffer that it writes.
struct Stage {
    plan: cuda::Plan<2>,
    weight: DeviceTensor<f32, 2>,
    bias: DeviceBuffer<f32>,
    output: DeviceTensor<f32, 2>,
}

impl Stage {
    fn new(device: &cuda::Device, layer: &Layer, input: Shape<2>) -> Result<Self, conv_transpose::Error> {
        // Nobody waits here until its kernels have been compiled.
        let options = cuda::Options::default().compile_within(Duration::ZERO);
        let plan = cuda::Plan::new(device, &layer.layer, input, options)?;
        let output = device.zeroed(plan.output_shape())?;
        Ok(Self { plan, weight: device.upload(&layer.weight)?, bias: device.upload_slice(&layer.bias)?, output })
    }
}

/// Numbers between `-limit` and `limit`.
fn random(shape: Shape<2>, limit: f32, seed: u64) -> Result<Tensor<f32, 2>, conv_transpose::Error> {
    let mut tensor = Tensor::filled(shape, 0.0)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    tensor.as_mut_slice().fill_with(|| limit * (2.0 * rng.f32() - 1.0));
    Ok(tensor)
}

/// The largest difference from the same decoder on the CPU, which must be small beside the values themselves.
fn check(layers: &[Layer], bottleneck: Tensor<f32, 2>, output: &Tensor<f32, 2>) -> Result<f32, Box<dyn Error>> {
    let mut expected = bottleneck;
    for Layer { layer, weight, bias } in layers {
        let plan = cpu::Plan::new(layer, expected.shape())?;
        let mut next = Tensor::filled(plan.output_shape(), 0.0)?;
        plan.forward(&expected, weight, Some(bias), &mut next)?;
        expected = next;
    }
    let largest = expected.as_slice().iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let pairs = expected.as_slice().iter().zip(output.as_slice());
    // `max` would pass over a NaN.
    let difference = pairs
        .map(|(expected, got)| (expected - got).abs())
        .fold(0.0f32, |largest, next| if next <= largest { largest } else { next });
    if expected.shape() == output.shape() && difference <= 1e-5 * largest {
        return Ok(difference);
    }
    Err(format!("the output differs from the CPU backend by {difference:.1e}, with values up to {largest:.1e}").into())
}
