//! Kernels that the driver compiles for a layer while its plan is in use already: results are the same before, after
//! and meanwhile, to the bit.
#![cfg(feature = "cuda")]

mod gpu;

use std::{
    process, ptr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use conv_transpose::{
    ConvTranspose2d, Precision, Shape, Tensor,
    cuda::{Algorithm, Device, DeviceTensor, Options, PackedWeight, Plan},
};
use cust::{
    memory::DeviceBuffer,
    stream::{Stream, StreamFlags},
    sys::{self, CUresult, CUstreamCaptureMode},
};

/// Held by each test: while one of them captures a graph, no other thread may allocate memory.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A layer that the driver has not compiled kernels for before, with its operands.
struct Case {
    layer: ConvTranspose2d,
    shape: Shape<2>,
    input: DeviceTensor<f32, 2>,
    weight: DeviceTensor<f32, 2>,
    bias: DeviceBuffer<f32>,
    stream: Stream,
    /// Dropped after what is in its context.
    device: Device,
    _alone: MutexGuard<'static, ()>,
}

impl Case {
    /// `None` on a machine without a GPU. Tests have a `number` each, so that no two of them have the same case; each
    /// process has others.
    fn new(test: &str, number: usize) -> Option<Self> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let device = gpu::device(test)?;
        let layer = ConvTranspose2d::builder(24, 40, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
        let shape = Shape::batched(2, 24, [20 + number, 40 + process::id() as usize % 4001]);
        let fractions = |shape, seed| {
            let mut tensor: Tensor<f32, 2> = gpu::whole_numbers(shape, seed);
            tensor.as_mut_slice().iter_mut().for_each(|value| *value /= 7.0);
            device.upload(&tensor).unwrap()
        };
        let (input, weight) = (fractions(shape, 1), fractions(layer.weight_shape(), 2));
        let bias = device.upload_slice(&[0.1; 40]).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        Some(Self { device, layer, shape, input, weight, bias, stream, _alone: alone })
    }

    fn plan(&self, options: Options) -> Plan<2> {
        let options = options.algorithm(Algorithm::Tile).precision(Precision::Tf32);
        Plan::new(&self.device, &self.layer, self.shape, options).unwrap()
    }

    /// The bits of what a plan computes.
    fn computed(&self, plan: &Plan<2>) -> Vec<u32> {
        let output = gpu::computed(&self.device, &self.stream, plan, &self.input, &self.weight, &self.bias);
        output.as_slice().iter().map(|value| value.to_bits()).collect()
    }
}

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn a_plan_computes_the_same_while_its_kernels_are_compiled() {
    let Some(case) = Case::new("a_plan_computes_the_same_while_its_kernels_are_compiled", 0) else { return };
    let expected = case.computed(&case.plan(Options::default().specialised(false)));
    let plan = case.plan(Options::default().compile_within(AT_ONCE));
    let mut meanwhile = 0;
    while !plan.is_specialised() {
        assert!(case.computed(&plan) == expected, "{}: {}", case.shape, plan.describe());
        meanwhile += 1;
    }
    assert!(meanwhile > 0 || case.device.architecture() != "sm_90a", "nothing of it was compiled beside the program");
    plan.warm_up().unwrap();
    assert!(case.computed(&plan) == expected, "{}: {}", case.shape, plan.describe());
}

#[test]
fn plans_of_one_case_wait_for_the_same_kernels() {
    let Some(case) = Case::new("plans_of_one_case_wait_for_the_same_kernels", 1) else { return };
    let [first, second] = [(); 2].map(|()| case.plan(Options::default().compile_within(AT_ONCE)));
    first.warm_up().unwrap();
    assert!(second.is_specialised());
}

#[test]
fn a_plan_can_be_dropped_while_its_kernels_are_compiled() {
    let Some(case) = Case::new("a_plan_can_be_dropped_while_its_kernels_are_compiled", 2) else { return };
    drop(case.plan(Options::default().compile_within(AT_ONCE)));
    let plan = case.plan(Options::default().compile_within(AT_ONCE));
    // The plan is the last to hold the device.
    drop(case);
    drop(plan);
}

#[test]
fn a_graph_can_be_captured_while_kernels_are_compiled() {
    let Some(case) = Case::new("a_graph_can_be_captured_while_kernels_are_compiled", 3) else { return };
    let plan = case.plan(Options::default().compile_within(AT_ONCE));
    let weight = plan.pack_weight(&case.stream, &case.weight).unwrap();
    case.stream.synchronize().unwrap();
    let graph = captured_until_compiled(&case, &plan, &weight);
    // SAFETY: all of it is alive until the stream is done, and the graph is destroyed once.
    let output = unsafe {
        assert_eq!(sys::cuGraphLaunch(graph.0, case.stream.as_inner()), CUresult::CUDA_SUCCESS);
        let output = graph.1.download(&case.stream).unwrap();
        assert_eq!(sys::cuGraphExecDestroy(graph.0), CUresult::CUDA_SUCCESS);
        output
    };
    let bits: Vec<u32> = output.as_slice().iter().map(|value| value.to_bits()).collect();
    assert!(bits == case.computed(&plan), "{}: {}", case.shape, plan.describe());
}

/// A graph of calls from the moment on that kernels begin to be compiled until one after they are; and what it
/// computes. The capture is one that fails where any thread does what it must not.
fn captured_until_compiled(
    case: &Case,
    plan: &Plan<2>,
    weight: &PackedWeight<2>,
) -> (sys::CUgraphExec, DeviceTensor<f32, 2>) {
    let mut output = case.device.zeroed(plan.output_shape()).unwrap();
    let stream = case.stream.as_inner();
    let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the stream is alive and nothing is being captured from it; each call writes one handle.
    unsafe {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        assert_eq!(sys::cuStreamBeginCapture_v2(stream, mode), CUresult::CUDA_SUCCESS);
        let forward = |output: &mut _| {
            plan.forward_packed(&case.stream, &case.input, weight, Some(&case.bias), output).unwrap();
        };
        forward(&mut output);
        plan.warm_up().unwrap();
        forward(&mut output);
        assert_eq!(sys::cuStreamEndCapture(stream, &mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuGraphDestroy(graph), CUresult::CUDA_SUCCESS);
    }
    (executable, output)
}
