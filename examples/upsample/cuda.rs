//! The layer on a GPU.

use std::time::{Duration, Instant};

use conv_transpose::{
    ConvTranspose2d, Tensor,
    cuda::{self, CudaError, Device, Options, Plan},
};
use cust::{
    event::{Event, EventFlags},
    stream::{Stream, StreamFlags},
};

use crate::{
    arguments::Algorithm,
    backend::{Failure, Run},
};

/// Runs the layer, after a first run that is not timed.
pub fn run(
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
    algorithm: Algorithm,
) -> Result<Run, Failure> {
    let device = Device::new(0).map_err(|error| match error {
        CudaError::NoDriver(_) | CudaError::NoDevice { .. } | CudaError::DeviceTooOld { .. } => {
            Failure::NoGpu(format!("no CUDA device: {error}"))
        }
        error => Failure::Other(error.into()),
    })?;
    Ok(run_on(&device, layer, input, weight, algorithm)?)
}

fn run_on(
    device: &Device,
    layer: &ConvTranspose2d,
    input: &Tensor<f32, 2>,
    weight: &Tensor<f32, 2>,
    algorithm: Algorithm,
) -> anyhow::Result<Run> {
    let algorithm = match algorithm {
        Algorithm::Auto => cuda::Algorithm::Auto,
        Algorithm::Gather => cuda::Algorithm::Gather,
        Algorithm::Scatter => cuda::Algorithm::Scatter,
    };
    let plan = Plan::new(device, layer, input.shape(), Options::default().algorithm(algorithm))?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut device_output = device.zeroed(plan.output_shape())?;

    let start = Instant::now();
    let (device_input, device_weight) = (device.upload(input)?, device.upload(weight)?);
    let upload = start.elapsed();

    let (begin, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    for _ in 0..2 {
        begin.record(&stream)?;
        plan.forward(&stream, &device_input, &device_weight, None, &mut device_output)?;
        end.record(&stream)?;
    }
    end.synchronize()?;
    let compute = Duration::from_secs_f32(end.elapsed_time_f32(&begin)? / 1000.0);

    let start = Instant::now();
    let output = device_output.download(&stream)?;
    let copy = Some(upload + start.elapsed());
    let device = format!("{} (CUDA device {})", device.name(), device.ordinal());
    Ok(Run { output, device, algorithm: plan.algorithm().to_string(), copy, compute })
}
