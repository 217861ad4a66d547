//! A `cust` program that was there before: its own context, stream and buffers. It sends a signal to the GPU and
//! fetches one back. Ten lines, each marked `// +`, add this library to it: the signal then comes back with twice as
//! many samples, interpolated.
//!
//! Nothing of the program has to change hands: the plan takes its `DeviceBuffer`s and its stream as they are.
//!
//! `cargo run --release --example cust_program`

use std::error::Error;

use conv_transpose::cuda::{Device, Options, Plan}; // +
use conv_transpose::{ConvTranspose1d, Shape}; // +
use cust::{
    context::Context,
    error::CudaError,
    memory::{AsyncCopyDestination, DeviceBuffer},
    stream::{Stream, StreamFlags},
};

const SAMPLES: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let _context = match context() {
        Ok(context) => context,
        Err(reason @ (CudaError::SharedObjectInitFailed | CudaError::NoDevice)) => {
            println!("no CUDA device: {reason}; nothing to show");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    // A default stream waits for what `from_slice` and `zeroed` do; a non-blocking one would not.
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    let signal: Vec<f32> = (0..SAMPLES).map(|i| (i as f32 * 0.05).sin()).collect();

    let layer = ConvTranspose1d::builder(1, 1, [3]).stride([2]).padding([1]).output_padding([1]).build()?; // +
    // SAFETY: `_context` was made first, so it is dropped last.
    let device = unsafe { Device::from_current_context() }?; // +
    let plan = Plan::new(&device, &layer, Shape::batched(1, 1, [SAMPLES]), Options::default())?; // +
    let weight = DeviceBuffer::from_slice(&[0.5f32, 1.0, 0.5])?; // +
    let mut doubled = DeviceBuffer::<f32>::zeroed(2 * SAMPLES)?; // +

    let mut on_device = DeviceBuffer::<f32>::zeroed(SAMPLES)?;
    let mut result = vec![0.0f32; doubled.len()]; // + (was: SAMPLES)
    // SAFETY: the host memory outlives the copy, which the synchronisation below waits for.
    unsafe { on_device.async_copy_from(&signal, &stream)? };
    plan.forward_slices(&stream, &on_device, &weight, None, &mut doubled)?; // +
    // SAFETY: as above.
    unsafe { doubled.async_copy_to(&mut result, &stream)? }; // + (was: on_device)
    stream.synchronize()?;

    let difference = check(&layer, &signal, &result)?;
    println!(
        "cust_program: {SAMPLES} samples became {}; largest difference from the oracle {difference:.1e}",
        result.len()
    );
    Ok(())
}

/// The program's own context: the primary one of the first GPU. One from `cust::context::legacy` would do as well.
fn context() -> Result<Context, CudaError> {
    cust::init(cust::CudaFlags::empty())?;
    Context::new(cust::device::Device::get_device(0)?)
}

/// The largest difference from the definition, which must be within the rounding of three products.
fn check(layer: &ConvTranspose1d, signal: &[f32], result: &[f32]) -> Result<f64, Box<dyn Error>> {
    let problem = layer.problem(Shape::batched(1, 1, [SAMPLES]))?;
    let exact = conv_transpose::oracle::forward(&problem, signal, &[0.5, 1.0, 0.5], None);
    let differences = exact.iter().zip(result).map(|(&exact, &got)| (exact - f64::from(got)).abs());
    // `max` would pass over a NaN.
    let difference = differences.fold(0.0, |largest, next| if next <= largest { largest } else { next });
    if exact.len() == result.len() && difference <= 1e-6 {
        return Ok(difference);
    }
    Err(format!("the result differs from the oracle by {difference:.1e}").into())
}
