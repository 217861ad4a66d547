//! What a program waits for before its first result: the context, the kernels, the plan, the call.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use conv_transpose::{
    Tensor,
    cuda::{Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};

use crate::{
    arguments::{Arguments, Variant},
    problems::BenchProblem,
};

/// The steps in order, each with the time that it took.
struct Steps(Vec<(&'static str, Duration)>);

impl Steps {
    /// Does something and takes its time.
    fn take<T, E>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let result = step()?;
        self.0.push((name, start.elapsed()));
        Ok(result)
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().map(|(name, time)| format!("{:>10.2} ms  {name}", time.as_secs_f64() * 1e3));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Prints the times for the one problem that was asked for. Only what comes first in a process is a first use.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (problems, variants) = (arguments.problems()?, arguments.variants());
    let ([problem], &[variant]) = (&problems[..], &variants[..]) else {
        bail!("--first-use takes one problem, one algorithm and one precision: name them");
    };
    let steps = match problem.input.len() {
        1 => measure::<1>(problem, variant, arguments.warm_up)?,
        2 => measure::<2>(problem, variant, arguments.warm_up)?,
        3 => measure::<3>(problem, variant, arguments.warm_up)?,
        axes => bail!("{axes} spatial axes"),
    };
    println!("{steps}");
    Ok(())
}

fn measure<const D: usize>(problem: &BenchProblem, variant: Variant, warm_up: bool) -> Result<Steps> {
    let (layer, problem) = problem.resolve::<D>()?;
    let options = Options::default().algorithm(variant.algorithm).precision(variant.precision);
    let mut steps = Steps(Vec::new());
    let device = steps.take("Device::new: the driver, the context and one small kernel", || Device::new(0))?;
    if warm_up {
        steps.take("Device::warm_up", || device.warm_up(options))?;
    }
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let input = device.upload(&Tensor::filled(problem.input_shape(), 1.0f32)?)?;
    let weight = device.upload(&Tensor::filled(problem.weight_shape(), 1.0f32)?)?;
    let mut output = device.zeroed(problem.output_shape())?;
    let plan = steps.take("Plan::new", || Plan::new(&device, &layer, problem.input_shape(), options))?;
    let mut forward = || -> Result<()> {
        plan.forward(&stream, &input, &weight, None, &mut output)?;
        Ok(stream.synchronize()?)
    };
    steps.take("the first forward call, until it is finished", &mut forward)?;
    steps.take("the second one", &mut forward)?;
    steps.take("Plan::warm_up: what is still being compiled", || plan.warm_up())?;
    steps.take("a forward call after that", &mut forward)?;
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_printed_with_their_times() {
        let mut steps = Steps(Vec::new());
        assert_eq!(steps.take("nothing", || Ok::<_, ()>(5)), Ok(5));
        steps.take("a failure", || Err::<(), _>(7)).unwrap_err();
        assert_eq!(steps.0.len(), 1, "a step that fails ends the measurement");
        let steps = Steps(vec![("Plan::new", Duration::from_micros(12_340)), ("call", Duration::from_millis(2))]);
        assert_eq!(steps.to_string(), "     12.34 ms  Plan::new\n      2.00 ms  call");
    }
}
