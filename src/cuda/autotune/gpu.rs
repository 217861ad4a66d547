//! The time of a plan on a GPU: launches on tensors of zeros, each after the caches were swept, between two events.

use std::time::{Duration, Instant};

use cust::{
    event::{Event, EventFlags},
    memory::DeviceBuffer,
    stream::{Stream, StreamFlags},
};

use super::search::Bench;
use crate::{
    Error, Problem,
    cuda::{
        algorithm::Way,
        device::{Device, failed},
        error::CudaError,
        packed_weight::PackedWeight,
        plan::Plan,
        tensor::DeviceTensor,
    },
};

/// What is written before each launch, in L2 caches: enough to drive the tensors out, and to keep the GPU busy until
/// the host has enqueued the launch.
const SWEPT_CACHES: usize = 4;

/// The scratch memory of a search. Whoever makes it holds the device's context current as long as it lives.
pub(super) struct GpuBench<'a, const D: usize> {
    device: &'a Device,
    problem: Problem<D>,
    /// Whether candidates are compiled for the problem.
    pub(super) specialised: bool,
    stream: Stream,
    input: DeviceTensor<f32, D>,
    weight: DeviceTensor<f32, D>,
    output: DeviceTensor<f32, D>,
    swept: DeviceBuffer<u8>,
    started: Instant,
}

impl<'a, const D: usize> GpuBench<'a, D> {
    pub(super) fn new(device: &'a Device, problem: Problem<D>) -> Result<Self, Error> {
        let started = Instant::now();
        Ok(Self {
            device,
            problem,
            specialised: false,
            stream: Stream::new(StreamFlags::NON_BLOCKING, None).map_err(failed("cuStreamCreate"))?,
            input: device.zeroed(problem.input_shape())?,
            weight: device.zeroed(problem.weight_shape())?,
            output: device.zeroed(problem.output_shape())?,
            swept: device.allocate(SWEPT_CACHES * device.l2_cache_bytes()?)?,
            started,
        })
    }

    /// Enqueues a launch between two events.
    fn enqueue(&mut self, (plan, weight): &(Plan<D>, PackedWeight<D>), [start, end]: &[Event; 2]) -> Result<(), Error> {
        let recorded = failed("cuEventRecord");
        // SAFETY: nobody reads this memory, and freeing it waits for the work that uses it.
        unsafe { self.swept.set_8_async(0, &self.stream) }.map_err(failed("cuMemsetD8Async"))?;
        start.record(&self.stream).map_err(&recorded)?;
        plan.forward_packed(&self.stream, &self.input, weight, None, &mut self.output)?;
        Ok(end.record(&self.stream).map_err(recorded)?)
    }
}

impl<const D: usize> Bench for GpuBench<'_, D> {
    type Candidate = Way;
    type Ready = (Plan<D>, PackedWeight<D>);

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn ready(&mut self, way: Way) -> Result<Self::Ready, Error> {
        let plan = Plan::prepared(self.device, self.problem, way, self.specialised.then_some(Duration::MAX))?;
        let weight = plan.pack_weight(&self.stream, &self.weight)?;
        Ok((plan, weight))
    }

    fn time(&mut self, ready: &mut Self::Ready, launches: usize) -> Result<Duration, Error> {
        // Whoever listens to the progress may have left another one current.
        let _entered = self.device.enter()?;
        let pairs = (0..launches).map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
        for pair in &pairs {
            self.enqueue(ready, pair)?;
        }
        self.stream.synchronize().map_err(failed("cuStreamSynchronize"))?;
        let mut times = pairs.iter().map(between).collect::<Result<Vec<_>, _>>()?;
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }
}

fn pair() -> Result<[Event; 2], CudaError> {
    let event = || Event::new(EventFlags::DEFAULT).map_err(failed("cuEventCreate"));
    Ok([event()?, event()?])
}

fn between([start, end]: &[Event; 2]) -> Result<Duration, CudaError> {
    let milliseconds = end.elapsed_time_f32(start).map_err(failed("cuEventElapsedTime"))?;
    Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
}
