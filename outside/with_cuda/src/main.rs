//! Runs a layer on the GPU if there is one, and on the CPU otherwise: one binary for both.

use std::error::Error;

use conv_transpose::{
    ConvTranspose2d, Shape, Tensor, cpu,
    cuda::{self, CudaError},
};
use cust::stream::{Stream, StreamFlags};

fn main() -> Result<(), Box<dyn Error>> {
    let layer = ConvTranspose2d::builder(8, 4, [4, 4]).stride([2, 2]).padding([1, 1]).build()?;
    let input = Tensor::filled(Shape::batched(2, 8, [16, 16]), 1.0f32)?;
    let weight = Tensor::filled(layer.weight_shape(), 0.5f32)?;

    let (output, place) = match cuda::Device::new(0) {
        Ok(device) => (on_gpu(&device, &layer, &input, &weight)?, device.name().to_owned()),
        Err(reason @ (CudaError::NoDriver(_) | CudaError::NoDevice { .. })) => {
            (on_cpu(&layer, &input, &weight)?, format!("the CPU, because {reason}"))
        }
        Err(error) => return Err(error.into()),
    };
    println!("{} from {} on {place}", output.shape(), input.shape());
    // Away from the border, two by two taps of 8 channels meet.
    assert_eq!(output.as_slice()[5 * 32 + 5], 16.0);
    Ok(())
}

fn on_gpu(
    device: &cuda::Device,
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
) -> Result<Tensor<f32, 2>, Box<dyn Error>> {
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let plan = cuda::Plan::new(device, layer, input.shape(), cuda::Options::default())?;
    let (input, weight) = (device.upload(input)?, device.upload(weight)?);
    let mut output = device.zeroed(plan.output_shape())?;
    plan.forward(&stream, &input, &weight, None, &mut output)?;
    Ok(output.download(&stream)?)
}

fn on_cpu(
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
) -> Result<Tensor<f32, 2>, conv_transpose::Error> {
    let plan = cpu::Plan::new(layer, input.shape())?;
    let mut output = Tensor::filled(plan.output_shape(), 0.0f32)?;
    plan.forward(input, weight, None, &mut output)?;
    Ok(output)
}
