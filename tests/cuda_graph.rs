//! CUDA graphs: what `forward_packed` and `forward` enqueue is captured, and computes the same when the graph is
//! replayed.
#![cfg(feature = "cuda")]

mod gpu;

use std::{
    ptr,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use conv_transpose::{
    ConvTranspose2d, Error, Precision, Shape, Tensor,
    cuda::{Algorithm, CudaError, Device, DeviceTensor, Options, PackedWeight, Plan},
};
use cust::{
    memory::{AsyncCopyDestination, DeviceBuffer},
    stream::{Stream, StreamFlags},
    sys::{self, CUresult, CUstreamCaptureMode as CaptureMode, CUstreamCaptureStatus},
};

/// Held by each test: while a stream was captured by one thread, a driver (580.159) failed to fill memory for another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What was captured, ready to be replayed.
struct Graph(sys::CUgraphExec);

impl Graph {
    /// Captures what `enqueue` puts on the case's stream.
    fn capture(case: &mut Case, enqueue: impl FnOnce(&mut Case)) -> Self {
        Self::capture_in(CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, case, enqueue)
    }

    /// The same in some mode, which says who else may do what meanwhile.
    fn capture_in(mode: CaptureMode, case: &mut Case, enqueue: impl FnOnce(&mut Case)) -> Self {
        let stream = case.stream.as_inner();
        // SAFETY: the stream is alive; nothing is being captured from it.
        check(unsafe { sys::cuStreamBeginCapture_v2(stream, mode) });
        enqueue(case);
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the capture began on this thread; writes one handle.
        check(unsafe { sys::cuStreamEndCapture(stream, &mut graph) });
        // SAFETY: the graph is alive, and destroyed once: an executable graph does not need it any more.
        unsafe {
            check(sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0));
            check(sys::cuGraphDestroy(graph));
        }
        Self(executable)
    }

    fn launch(&self, stream: &Stream) {
        // SAFETY: both are alive; the tests keep the memory that the graph uses until it has run.
        check(unsafe { sys::cuGraphLaunch(self.0, stream.as_inner()) });
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: dropped once.
        check(unsafe { sys::cuGraphExecDestroy(self.0) });
    }
}

fn check(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

fn capture_status(stream: &Stream) -> CUstreamCaptureStatus {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive; writes one value.
    check(unsafe { sys::cuStreamIsCapturing(stream.as_inner(), &mut status) });
    status
}

/// Fractions, different for each seed: another order of their sum would round differently.
fn fractions(shape: Shape<2>, seed: u64) -> Tensor<f32, 2> {
    let mut tensor = gpu::whole_numbers(shape, seed);
    tensor.as_mut_slice().iter_mut().for_each(|value| *value /= 7.0);
    tensor
}

/// A plan with tensors that a graph can be captured for.
struct Case {
    device: Device,
    stream: Stream,
    plan: Plan<2>,
    weight: DeviceTensor<f32, 2>,
    bias: DeviceBuffer<f32>,
    input: DeviceTensor<f32, 2>,
    output: DeviceTensor<f32, 2>,
}

impl Case {
    fn new(device: &Device, algorithm: Algorithm, precision: Precision) -> Self {
        let layer = ConvTranspose2d::builder(24, 20, [4, 3]).stride([2, 3]).padding([1, 0]).groups(2).build().unwrap();
        let options = Options::default().algorithm(algorithm).precision(precision);
        Self::of(device, &layer, Plan::new(device, &layer, Shape::batched(3, 24, [13, 17]), options).unwrap())
    }

    fn of(device: &Device, layer: &ConvTranspose2d, plan: Plan<2>) -> Self {
        Self {
            device: device.clone(),
            stream: Stream::new(StreamFlags::NON_BLOCKING, None).unwrap(),
            weight: device.upload(&fractions(layer.weight_shape(), 1)).unwrap(),
            bias: device.upload_slice(&vec![0.3; layer.out_channels()]).unwrap(),
            input: device.zeroed(plan.problem().input_shape()).unwrap(),
            output: device.zeroed(plan.output_shape()).unwrap(),
            plan,
        }
    }

    fn pack(&self) -> PackedWeight<2> {
        self.plan.pack_weight(&self.stream, &self.weight).unwrap()
    }

    fn forward(&mut self) -> Result<(), Error> {
        self.plan.forward(&self.stream, &self.input, &self.weight, Some(&self.bias), &mut self.output)
    }

    fn forward_packed(&mut self, weight: &PackedWeight<2>) {
        self.plan.forward_packed(&self.stream, &self.input, weight, Some(&self.bias), &mut self.output).unwrap();
    }

    /// Replays the graph with one input after the other; each time the result is that of an ordinary call, to the bit.
    fn check_replays(&mut self, graph: &Graph) {
        for seed in 10..15 {
            let fresh = self.device.upload(&fractions(self.input.shape(), seed)).unwrap();
            let replayed = self.run_on(&fresh, |case| graph.launch(&case.stream));
            let ordinary = self.run_on(&fresh, |case| case.forward().unwrap());
            assert_eq!(replayed, ordinary, "{} with input {seed}", self.plan.describe());
        }
    }

    /// The bits of the output after `run`, with that input. Before, they are those of a NaN.
    fn run_on(&mut self, fresh: &DeviceTensor<f32, 2>, run: impl FnOnce(&mut Self)) -> Vec<u32> {
        // SAFETY: the tensors live until the download has waited for the stream.
        unsafe {
            self.input.buffer_mut().async_copy_from(fresh.buffer(), &self.stream).unwrap();
            self.output.buffer_mut().set_8_async(0xff, &self.stream).unwrap();
        }
        run(self);
        let output = self.output.download(&self.stream).unwrap();
        assert!(output.as_slice().iter().all(|value| !value.is_nan()), "an element was not written");
        output.as_slice().iter().map(|value| value.to_bits()).collect()
    }
}

const TASKS: [(Algorithm, Precision); 6] = [
    (Algorithm::Col2im, Precision::F32),
    (Algorithm::Col2im, Precision::Tf32),
    (Algorithm::Tile, Precision::F32),
    (Algorithm::Tile, Precision::Tf32),
    (Algorithm::Direct, Precision::F32),
    (Algorithm::Gather, Precision::F32),
];

#[test]
fn a_graph_of_forward_packed_computes_the_same() {
    let Some(device) = gpu::device("a_graph_of_forward_packed_computes_the_same") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (algorithm, precision) in TASKS {
        let mut case = Case::new(&device, algorithm, precision);
        let weight = case.pack();
        case.stream.synchronize().unwrap();
        let graph = Graph::capture(&mut case, |case| case.forward_packed(&weight));
        case.check_replays(&graph);
        // A graph runs on other streams than the one that it was captured from.
        case.stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        case.check_replays(&graph);
    }
}

/// Whose input is packed before, in memory that the graph has for itself.
#[test]
fn a_graph_of_flat_kernels_computes_the_same() {
    let Some(device) = gpu::device_of_capability_9("a_graph_of_flat_kernels_computes_the_same") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let layer = ConvTranspose2d::builder(16, 24, [3, 3]).build().unwrap();
    let options = Options::default().algorithm(Algorithm::Flat).precision(Precision::Tf32);
    let plan = Plan::new(&device, &layer, Shape::batched(2, 16, [40, 50]), options).unwrap();
    let mut case = Case::of(&device, &layer, plan);
    let weight = case.pack();
    case.stream.synchronize().unwrap();
    let graph = Graph::capture(&mut case, |case| case.forward_packed(&weight));
    case.check_replays(&graph);
}

/// As in training: the graph packs the weight that there is when it runs, in whatever way.
#[test]
fn a_graph_may_pack_the_weight() {
    let Some(device) = gpu::device("a_graph_may_pack_the_weight") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cases: Vec<Case> = TASKS.map(|(algorithm, precision)| Case::new(&device, algorithm, precision)).into();
    // As `f16` only where kernels of 9.0 are.
    let layer = ConvTranspose2d::builder(16, 24, [3, 3]).build().unwrap();
    for precision in [Precision::F32, Precision::Tf32] {
        let options = Options::default().algorithm(Algorithm::Flat).precision(precision);
        let plan = Plan::new(&device, &layer, Shape::batched(2, 16, [40, 50]), options);
        cases.extend(plan.ok().map(|plan| Case::of(&device, &layer, plan)));
    }
    for mut case in cases {
        let mut packed = case.pack();
        case.stream.synchronize().unwrap();
        let graph = Graph::capture(&mut case, |case| {
            packed.update(&case.plan, &case.stream, &case.weight).unwrap();
            case.forward_packed(&packed);
        });
        for seed in [2, 3] {
            let fresh = case.device.upload(&fractions(case.weight.shape(), seed)).unwrap();
            // SAFETY: both tensors live until the first replay's download has waited for the stream.
            unsafe { case.weight.buffer_mut().async_copy_from(fresh.buffer(), &case.stream).unwrap() };
            case.check_replays(&graph);
        }
    }
}

/// By default nobody may free or unload anything while anyone captures: the capture failed, and the memory was lost.
#[test]
fn who_drops_a_plan_or_a_tensor_does_not_spoil_a_capture() {
    let Some(device) = gpu::device("who_drops_a_plan_or_a_tensor_does_not_spoil_a_capture") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    const LARGE: usize = 1 << 30;
    for mode in [CaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL, CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL] {
        for on_another_thread in [true, false] {
            let mut case = Case::new(&device, Algorithm::Tile, Precision::F32);
            let weight = case.pack();
            let layer = ConvTranspose2d::builder(24, 20, [4, 3]).build().unwrap();
            // With a workspace and tables, and without any; the kernels of both are compiled for them.
            let plans = [Algorithm::Tile, Algorithm::Scatter].map(|algorithm| {
                let options = Options::default().algorithm(algorithm).compile_within(Duration::from_secs(60));
                Plan::new(&device, &layer, Shape::batched(3, 24, [13, 17]), options).unwrap()
            });
            let weights = device.zeroed::<f32, 2>(layer.weight_shape()).unwrap();
            let packed = plans[0].pack_weight(&case.stream, &weights).unwrap();
            case.stream.synchronize().unwrap();
            let free = || cust::memory::mem_get_info().unwrap().0;
            let free_before = free();
            let tensor = device.zeroed::<f32, 2>(Shape::unbatched(1, [1, LARGE / 4])).unwrap();
            assert!(free() + LARGE <= free_before);
            let drop_all = || drop((plans, weights, packed, tensor));
            let graph = Graph::capture_in(mode, &mut case, |case| {
                match on_another_thread {
                    true => thread::scope(|scope| scope.spawn(drop_all).join().unwrap()),
                    false => drop_all(),
                }
                case.forward_packed(&weight);
            });
            case.check_replays(&graph);
            // What the graph and its first launches take is less.
            assert!(free() + LARGE / 2 > free_before, "memory was lost");
        }
    }
}

/// Regions of the output are computed by launches that run beside each other.
#[test]
fn a_graph_of_regions_computes_the_same() {
    let Some(device) = gpu::device("a_graph_of_regions_computes_the_same") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let layer = ConvTranspose2d::builder(16, 24, [3, 3]).build().unwrap();
    for precision in [Precision::F32, Precision::Tf32] {
        let options = Options::default().algorithm(Algorithm::Tile).precision(precision).specialised(false);
        let Ok(plans) = Plan::ways(&device, &layer, Shape::batched(2, 16, [64, 128]), options) else { continue };
        let plan = plans.into_iter().find(|plan| plan.describe().contains(" and on ")).unwrap();
        let mut case = Case::of(&device, &layer, plan);
        let weight = case.pack();
        case.stream.synchronize().unwrap();
        let graph = Graph::capture(&mut case, |case| case.forward_packed(&weight));
        case.check_replays(&graph);
    }
}

/// A graph has memory of its own for a packed input: it runs beside other calls of its plan.
#[test]
fn a_graph_that_packs_its_input_runs_beside_other_calls() {
    let Some(device) = gpu::device("a_graph_that_packs_its_input_runs_beside_other_calls") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let layer = ConvTranspose2d::builder(64, 80, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
    let options = Options::default().algorithm(Algorithm::Tile).precision(Precision::Tf32).specialised(false);
    let plans = Plan::ways(&device, &layer, Shape::batched(8, 64, [32, 32]), options).unwrap();
    // Only on compute capability 9.0.
    let Some(plan) = plans.into_iter().find(|plan| plan.describe().contains("pack_input")) else { return };
    let mut case = Case::of(&device, &layer, plan);
    let weight = case.pack();
    case.stream.synchronize().unwrap();
    let graph = Graph::capture(&mut case, |case| case.forward_packed(&weight));
    case.check_replays(&graph);
    let other_stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let inputs = [20, 21].map(|seed| device.upload(&fractions(case.input.shape(), seed)).unwrap());
    let expected = inputs.each_ref().map(|input| case.run_on(input, |case| case.forward_packed(&weight)));
    let mut other_output: DeviceTensor<f32, 2> = device.zeroed(case.plan.output_shape()).unwrap();
    let [own, other] = &inputs;
    let replayed = case.run_on(own, |case| {
        for _ in 0..50 {
            graph.launch(&case.stream);
            case.plan.forward_packed(&other_stream, other, &weight, Some(&case.bias), &mut other_output).unwrap();
        }
        case.stream.synchronize().unwrap();
    });
    let other = other_output.download(&other_stream).unwrap();
    let other: Vec<u32> = other.as_slice().iter().map(|value| value.to_bits()).collect();
    assert!([replayed, other] == expected, "one of them has read what the other one packed");
}

#[test]
fn a_graph_of_forward_computes_the_same_where_no_weight_is_packed() {
    let Some(device) = gpu::device("a_graph_of_forward_computes_the_same_where_no_weight_is_packed") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for algorithm in [Algorithm::Direct, Algorithm::Gather] {
        let mut case = Case::new(&device, algorithm, Precision::F32);
        let graph = Graph::capture(&mut case, |case| case.forward().unwrap());
        case.check_replays(&graph);
    }
}

#[test]
fn forward_that_packs_is_refused_and_the_capture_goes_on() {
    let Some(device) = gpu::device("forward_that_packs_is_refused_and_the_capture_goes_on") else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut case = Case::new(&device, Algorithm::Tile, Precision::F32);
    let weight = case.pack();
    case.stream.synchronize().unwrap();
    let graph = Graph::capture(&mut case, |case| {
        let refusal = case.forward().unwrap_err();
        assert!(matches!(refusal, Error::Cuda(CudaError::Captured)), "{refusal}");
        assert_eq!(capture_status(&case.stream), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        case.forward_packed(&weight);
    });
    case.check_replays(&graph);
}
