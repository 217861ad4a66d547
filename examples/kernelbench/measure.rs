//! One problem with each algorithm and precision: the median time of a launch, and the error against the oracle.

use anyhow::{Result, bail};
use conv_transpose::{
    Error,
    cuda::{Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};
use serde::Serialize;

use crate::{
    arguments::{Arguments, Variant},
    copy::GigabyteCopy,
    floor::{Ceiling, Work},
    planner::Planner,
    problems::BenchProblem,
    subject::Subject,
    timing::median_ms,
};

const WARM_UP: usize = 3;
/// Copies of a gigabyte, a millisecond or so, in which the host enqueues the launches.
const HEAD_START: usize = 4;

/// What one algorithm did on one problem in one precision.
#[derive(Debug, Serialize)]
pub struct Measurement {
    #[serde(flatten)]
    pub problem: BenchProblem,
    pub precision: String,
    /// The algorithm asked for.
    pub asked: String,
    /// The one that ran.
    pub algorithm: String,
    /// Median time of a launch in milliseconds.
    pub ms: f64,
    #[serde(flatten)]
    pub work: Work,
    pub floor_ms: f64,
    /// Relative L2 error of the sampled outputs; not a number if one of them was not written, infinite if all should be
    /// 0 and one is not.
    pub error: f64,
}

impl Measurement {
    pub fn gb_per_s(&self) -> f64 {
        self.work.bytes / self.ms / 1e6
    }

    pub fn tflop_per_s(&self) -> f64 {
        self.work.flops / self.ms / 1e9
    }

    /// The floor over the time.
    pub fn share(&self) -> f64 {
        self.floor_ms / self.ms
    }
}

/// What all measurements of a run have in common.
pub struct Bench<'a> {
    device: &'a Device,
    stream: Stream,
    copy: GigabyteCopy,
    pub ceiling: Ceiling,
    arguments: &'a Arguments,
}

impl<'a> Bench<'a> {
    /// Measures the rate of copies, for the floor.
    pub fn new(device: &'a Device, arguments: &'a Arguments) -> Result<Self> {
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        let mut copy = GigabyteCopy::new()?;
        let ceiling = Ceiling { copy_gb_per_s: copy.gb_per_s(&stream)?, tf32_tflop_per_s: arguments.tflops };
        Ok(Self { device, stream, copy, ceiling, arguments })
    }

    /// Measures a problem in all variants, and tells the outcome of each as soon as it is there.
    pub fn measure(
        &mut self,
        problem: &BenchProblem,
        variants: &[Variant],
        planner: &mut Planner,
        tell: impl FnMut(Variant, Result<Measurement, Error>) -> Result<()>,
    ) -> Result<()> {
        match problem.input.len() {
            1 => self.measure_axes::<1>(problem, variants, planner, tell),
            2 => self.measure_axes::<2>(problem, variants, planner, tell),
            3 => self.measure_axes::<3>(problem, variants, planner, tell),
            axes => bail!("{axes} spatial axes"),
        }
    }

    fn measure_axes<const D: usize>(
        &mut self,
        problem: &BenchProblem,
        variants: &[Variant],
        planner: &mut Planner,
        mut tell: impl FnMut(Variant, Result<Measurement, Error>) -> Result<()>,
    ) -> Result<()> {
        let mut subject = Subject::<D>::new(self.device, problem, self.arguments.bias)?;
        for &variant in variants {
            let options = Options::default().algorithm(variant.algorithm).precision(variant.precision);
            let outcome = match planner.plan(self.device, &subject.layer, subject.problem.input_shape(), options) {
                Ok(plan) => Ok(self.run(&plan, problem, variant, &mut subject)?),
                Err(error) => Err(error),
            };
            tell(variant, outcome)?;
        }
        Ok(())
    }

    fn run<const D: usize>(
        &mut self,
        plan: &Plan<D>,
        problem: &BenchProblem,
        variant: Variant,
        subject: &mut Subject<D>,
    ) -> Result<Measurement> {
        // All bits set: not a number. What a kernel leaves out shows in the error.
        // SAFETY: the subject outlives the launches on the stream, which `time` waits for.
        unsafe { subject.sets[0].1.buffer_mut().set_8_async(0xff, &self.stream)? };
        plan.warm_up()?;
        let ms = self.time(plan, subject)?;
        Ok(Measurement {
            problem: problem.clone(),
            precision: variant.precision.to_string(),
            asked: variant.algorithm.to_string(),
            algorithm: plan.describe(),
            ms,
            work: subject.work,
            floor_ms: self.ceiling.floor_ms(&subject.work, variant.precision),
            error: subject.samples.error(&subject.sets[0].1)?,
        })
    }

    /// The median time of a launch, with a weight packed beforehand unless the packing is to be timed too.
    fn time<const D: usize>(&mut self, plan: &Plan<D>, subject: &mut Subject<D>) -> Result<f64> {
        let Subject { weight, bias, sets, .. } = subject;
        let stream = &self.stream;
        let packed = if self.arguments.repack { None } else { Some(plan.pack_weight(stream, weight)?) };
        let count = sets.len();
        let mut launch = |index: usize| -> Result<()> {
            let (input, output) = &mut sets[index % count];
            match &packed {
                Some(packed) => plan.forward_packed(stream, input, packed, bias.as_deref(), output)?,
                None => plan.forward(stream, input, weight, bias.as_deref(), output)?,
            }
            Ok(())
        };
        for index in 0..WARM_UP {
            launch(index)?;
        }
        self.copy.enqueue(stream, HEAD_START)?;
        median_ms(stream, self.arguments.repeats.into(), |index| launch(WARM_UP + index))
    }
}
