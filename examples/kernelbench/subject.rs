//! A problem in device memory: its tensors, in as many copies as it takes for no launch to find its own in the L2
//! cache.

use anyhow::Result;
use conv_transpose::{
    ConvTranspose, Problem, Shape, Tensor,
    cuda::{Device, DeviceTensor},
};
use cust::memory::DeviceBuffer;

use crate::{floor::Work, problems::BenchProblem, random, samples::Samples};

/// The copies together are at least this large: several times the L2 cache of any GPU so far.
const ROTATION_BYTES: f64 = (512 << 20) as f64;
/// More copies than that take long to allocate, and would serve problems of a few kilobytes only.
const MAX_SETS: usize = 4096;

/// What every algorithm and precision gets.
pub struct Subject<const D: usize> {
    pub layer: ConvTranspose<D>,
    pub problem: Problem<D>,
    pub work: Work,
    pub weight: DeviceTensor<f32, D>,
    pub bias: Option<DeviceBuffer<f32>>,
    /// Inputs, all equal, with outputs. At least one.
    pub sets: Vec<(DeviceTensor<f32, D>, DeviceTensor<f32, D>)>,
    pub samples: Samples,
}

impl<const D: usize> Subject<D> {
    /// Makes the tensors; those in host memory are gone when it returns.
    pub fn new(device: &Device, problem: &BenchProblem, has_bias: bool) -> Result<Self> {
        let (layer, problem) = problem.resolve::<D>()?;
        let work = Work::of(&problem, has_bias);
        let input = random::tensor(problem.input_shape(), 1)?;
        let weight = random::tensor(problem.weight_shape(), 2)?;
        let bias = has_bias.then(|| random::tensor(Shape::batched(1, problem.out_channels(), [1]), 3)).transpose()?;
        let bias = bias.as_ref().map(Tensor::as_slice);
        let count = ((ROTATION_BYTES / work.bytes).ceil() as usize).min(MAX_SETS);
        let sets = (0..count).map(|_| Ok((device.upload(&input)?, device.zeroed(problem.output_shape())?)));
        Ok(Self {
            layer,
            work,
            sets: sets.collect::<Result<_>>()?,
            samples: Samples::new(&problem, &input, &weight, bias),
            weight: device.upload(&weight)?,
            bias: bias.map(DeviceBuffer::from_slice).transpose()?,
            problem,
        })
    }
}
