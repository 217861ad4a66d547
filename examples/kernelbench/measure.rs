//! One problem, one algorithm: the median time of a launch, and the error against the oracle on a sample of outputs.
//!
//! Launches rotate over several sets of tensors, so that none finds its input in the L2 cache.

use std::fmt;

use anyhow::{Context, Result};
use conv_transpose::{
    ConvTranspose, Problem, Shape, Tensor,
    cuda::{Algorithm, Device, DeviceTensor, Options, Plan},
    oracle,
};
use cust::{
    event::{Event, EventFlags},
    stream::{Stream, StreamFlags},
};
use serde::Serialize;

use crate::problems::BenchProblem;

/// The sets of tensors together are at least this large: several times the L2 cache of any GPU so far.
const ROTATION_BYTES: usize = 512 << 20;
/// Outputs that are compared with the oracle.
const SAMPLES: usize = 512;

/// What one algorithm did on one problem.
#[derive(Debug, Serialize)]
pub struct Measurement {
    id: u32,
    algorithm: String,
    /// Median time of a launch in milliseconds.
    ms: f64,
    /// Input, weight and output once, over the time.
    gb_per_s: f64,
    tflop_per_s: f64,
    /// Relative L2 error of the sampled outputs.
    error: f64,
}

impl Measurement {
    pub const HEADER: &str = "  id  algorithm         ms      GB/s  TFLOP/s      error";
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, algorithm, ms, gb_per_s, tflop_per_s, error } = self;
        write!(f, "{id:>4}  {algorithm:<9} {ms:>10.3} {gb_per_s:>9.1} {tflop_per_s:>8.2} {error:>10.1e}")
    }
}

/// Measures one problem with one algorithm.
pub fn measure(device: &Device, problem: &BenchProblem, algorithm: Algorithm, repeats: usize) -> Result<Measurement> {
    match problem.input.len() {
        1 => measure_axes::<1>(device, problem, algorithm, repeats),
        2 => measure_axes::<2>(device, problem, algorithm, repeats),
        3 => measure_axes::<3>(device, problem, algorithm, repeats),
        axes => anyhow::bail!("{axes} spatial axes"),
    }
}

fn measure_axes<const D: usize>(
    device: &Device,
    problem: &BenchProblem,
    algorithm: Algorithm,
    repeats: usize,
) -> Result<Measurement> {
    let (layer, shape) = layer::<D>(problem)?;
    let plan = Plan::new(device, &layer, shape, Options::default().algorithm(algorithm))?;
    let input = random(plan.problem().input_shape(), problem.id.into())?;
    let weight = random(layer.weight_shape(), u64::from(problem.id) + 1)?;
    let device_weight = device.upload(&weight)?;
    let bytes = plan.problem().elements_moved() * size_of::<f32>() as f64;
    let mut sets = (0..1 + ROTATION_BYTES / bytes as usize)
        .map(|_| Ok((device.upload(&input)?, device.zeroed(plan.output_shape())?)))
        .collect::<Result<Vec<(DeviceTensor<f32, D>, DeviceTensor<f32, D>)>>>()?;

    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let (start, stop) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    let count = sets.len();
    let mut times = Vec::new();
    // The first launches are warm-up.
    for run in 0..repeats + 3 {
        let (input, output) = &mut sets[run % count];
        start.record(&stream)?;
        plan.forward(&stream, input, &device_weight, None, output)?;
        stop.record(&stream)?;
        stop.synchronize()?;
        if run >= 3 {
            times.push(f64::from(stop.elapsed_time_f32(&start)?));
        }
    }
    times.sort_by(f64::total_cmp);
    let ms = *times.get(times.len() / 2).context("--repeats must be at least 1")?;
    let output = sets[0].1.download(&stream)?;
    Ok(Measurement {
        id: problem.id,
        algorithm: plan.algorithm().to_string(),
        ms,
        gb_per_s: bytes / ms / 1e6,
        tflop_per_s: plan.problem().flops() / ms / 1e9,
        error: error(plan.problem(), &input, &weight, &output),
    })
}

fn layer<const D: usize>(problem: &BenchProblem) -> Result<(ConvTranspose<D>, Shape<D>)> {
    let array = |values: &[usize]| <[usize; D]>::try_from(values).context("axes differ in number");
    let layer = ConvTranspose::builder(problem.in_channels, problem.out_channels, array(&problem.kernel)?)
        .stride(array(&problem.stride)?)
        .padding(array(&problem.padding)?)
        .output_padding(array(&problem.output_padding)?)
        .dilation(array(&problem.dilation)?)
        .groups(problem.groups)
        .build()?;
    Ok((layer, Shape::batched(problem.batch, problem.in_channels, array(&problem.input)?)))
}

/// Uniform values between -1 and 1, the same for the same seed.
fn random<const D: usize>(shape: Shape<D>, seed: u64) -> Result<Tensor<f32, D>> {
    let mut tensor = Tensor::filled(shape, 0.0f32)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    tensor.as_mut_slice().fill_with(|| rng.f32() * 2.0 - 1.0);
    Ok(tensor)
}

/// Relative L2 error over a sample of the outputs.
fn error<const D: usize>(
    problem: &Problem<D>,
    input: &Tensor<f32, D>,
    weight: &Tensor<f32, D>,
    output: &Tensor<f32, D>,
) -> f64 {
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut squared_error, mut squared) = (0.0, 0.0);
    for _ in 0..SAMPLES {
        let index = rng.usize(..output.as_slice().len());
        let expected = oracle::output_at(problem, input.as_slice(), weight.as_slice(), None, index);
        squared_error += (f64::from(output.as_slice()[index]) - expected).powi(2);
        squared += expected.powi(2);
    }
    (squared_error / squared).sqrt()
}
