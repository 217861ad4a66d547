//! Failures on a GPU: memory that runs out, a context that breaks. Errors, never panics, never leaks; and forward calls
//! that allocate nothing.
//!
//! These tests look at the free memory of the device, so they have a process of their own and run one after the other.
#![cfg(feature = "cuda")]

mod gpu;

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use conv_transpose::{
    ConvTranspose2d, Error, Shape,
    cuda::{Algorithm, Autotune, CudaError, Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};

/// Held by the test that runs, from before it opens the device: loading the kernels takes device memory too.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: writes two integers.
    let result = unsafe { cust::sys::cuMemGetInfo_v2(&mut free, &mut total) };
    assert_eq!(result as u32, 0);
    free
}

#[test]
fn running_out_of_memory_is_an_error_and_leaks_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = gpu::device("running_out_of_memory_is_an_error_and_leaks_nothing") else { return };
    // More than any GPU has; the first round also pays for what the driver keeps.
    let too_large = Shape::batched(1, 1 << 10, [1 << 15, 1 << 15]);
    let mut before = 0;
    for round in 0..200 {
        if round == 1 {
            before = free_bytes();
        }
        match device.zeroed::<f32, 2>(too_large) {
            Err(Error::Cuda(CudaError::OutOfMemory { bytes })) => assert_eq!(bytes, 4 << 40),
            other => panic!("{:?}", other.map(|_| "an allocation of 4 TiB")),
        }
        use_a_plan(&device);
    }
    assert_eq!(free_bytes(), before, "device memory was lost");
}

/// Makes a plan and tensors, runs it, and drops everything, once with work still enqueued.
fn use_a_plan(device: &Device) {
    let layer = ConvTranspose2d::builder(3, 3, [3, 3]).stride([2, 2]).build().unwrap();
    let plan = Plan::new(device, &layer, Shape::batched(4, 3, [200, 200]), Options::default()).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let input = device.zeroed(plan.problem().input_shape()).unwrap();
    let weight = device.zeroed(layer.weight_shape()).unwrap();
    let mut output = device.zeroed::<f32, 2>(plan.output_shape()).unwrap();
    plan.forward(&stream, &input, &weight, None, &mut output).unwrap();
    // Refused, and nothing is kept of it.
    plan.forward(&stream, &input, &output, None, &mut device.zeroed(plan.output_shape()).unwrap()).unwrap_err();
}

#[test]
fn devices_come_and_go_without_a_leak() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_keeps_the_context) = gpu::device("devices_come_and_go_without_a_leak") else { return };
    let mut before = 0;
    for round in 0..20 {
        if round == 1 {
            before = free_bytes();
        }
        use_a_plan(&Device::new(0).unwrap());
    }
    assert_eq!(free_bytes(), before, "device memory was lost");
}

/// The driver leaves a primary context current when nobody holds it any longer, and nothing can be made in it then.
#[test]
fn a_context_that_is_gone_gives_way_to_the_next_device() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "a_context_that_is_gone_gives_way_to_the_next_device";
    let Some(first) = gpu::device(name) else { return };
    drop(first);
    for ordinal in 0..2 {
        match Device::new(ordinal) {
            Ok(device) => use_a_plan(&device),
            Err(CudaError::NoDevice { ordinal: 1, .. }) => gpu::say(&format!("cuda {name}: there is one GPU only")),
            Err(reason) => panic!("GPU {ordinal}: {reason}"),
        }
    }
}

#[test]
fn a_search_frees_its_scratch_memory() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = gpu::device("a_search_frees_its_scratch_memory") else { return };
    let layer = ConvTranspose2d::builder(16, 16, [3, 3]).stride([2, 2]).build().unwrap();
    let mut before = 0;
    for round in 0..4 {
        if round == 1 {
            before = free_bytes();
        }
        // All candidates, so that the first round loads all kernels.
        let mut autotune = Autotune::new().time_limit(Duration::from_secs(600));
        drop(autotune.plan(&device, &layer, Shape::batched(4, 16, [100, 100]), Options::default()).unwrap());
        assert_eq!(autotune.len(), 1);
    }
    assert_eq!(free_bytes(), before, "device memory was lost");
}

#[test]
fn a_search_without_memory_is_an_error_and_decides_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = gpu::device("a_search_without_memory_is_an_error_and_decides_nothing") else { return };
    let layer = ConvTranspose2d::builder(1, 1, [2, 2]).stride([2, 2]).build().unwrap();
    // An input of 128 GiB, and an output of four times that.
    let too_large = Shape::batched(1 << 5, 1, [1 << 15, 1 << 15]);
    let mut before = 0;
    for round in 0..3 {
        if round == 1 {
            before = free_bytes();
        }
        let mut autotune = Autotune::new();
        let refusal = autotune.plan(&device, &layer, too_large, Options::default());
        assert!(matches!(refusal, Err(Error::Cuda(CudaError::OutOfMemory { .. }))), "{refusal:?}");
        assert!(autotune.is_empty());
    }
    assert_eq!(free_bytes(), before, "device memory was lost");
}

#[test]
fn forward_calls_allocate_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = gpu::device("forward_calls_allocate_nothing") else { return };
    let layer = ConvTranspose2d::builder(16, 16, [3, 3]).stride([2, 2]).build().unwrap();
    let plan = Plan::new(&device, &layer, Shape::batched(4, 16, [100, 100]), Options::default()).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let input = device.zeroed(plan.problem().input_shape()).unwrap();
    let weight = device.zeroed(layer.weight_shape()).unwrap();
    let mut output = device.zeroed::<f32, 2>(plan.output_shape()).unwrap();
    let packed = plan.pack_weight(&stream, &weight).unwrap();
    let mut run = || {
        plan.forward_packed(&stream, &input, &packed, None, &mut output).unwrap();
        plan.forward(&stream, &input, &weight, None, &mut output).unwrap();
    };
    // The first launch of a kernel may have the driver allocate something for it.
    run();
    stream.synchronize().unwrap();
    let before = free_bytes();
    for _ in 0..1000 {
        run();
        assert_eq!(free_bytes(), before);
    }
    stream.synchronize().unwrap();
    assert_eq!(free_bytes(), before);
}

/// Set for the process that breaks its context.
const BREAK: &str = "CONV_TRANSPOSE_TEST_BREAKS_ITS_CONTEXT";

#[test]
fn a_broken_context_gives_errors_and_no_panic() {
    const NAME: &str = "a_broken_context_gives_errors_and_no_panic";
    if std::env::var_os(BREAK).is_some() {
        return break_the_context();
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if gpu::device(NAME).is_none() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let child = Command::new(own).args(["--exact", NAME, "--nocapture"]).env(BREAK, "1").output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{text}");
}

/// Runs a kernel on an address that does not exist, then does everything that can still be done.
fn break_the_context() {
    let device = Device::new(0).unwrap();
    let layer = ConvTranspose2d::builder(1, 1, [1, 1]).build().unwrap();
    let shape = Shape::batched(1, 1, [64, 64]);
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    for algorithm in [Algorithm::Gather, Algorithm::Scatter] {
        let plan = Plan::new(&device, &layer, shape, Options::default().algorithm(algorithm));
        let tensors = [shape, layer.weight_shape(), shape].map(|shape| device.zeroed::<f32, 2>(shape));
        let (Ok(plan), [Ok(input), Ok(weight), Ok(mut output)]) = (plan, tensors) else {
            // The second round finds the context broken.
            assert_eq!(algorithm, Algorithm::Scatter);
            continue;
        };
        assert_eq!(algorithm, Algorithm::Gather);
        // SAFETY: not given: this is the fault.
        let launched = unsafe { plan.forward_raw(stream.as_inner().cast(), 256, 512, None, 1024) };
        launched.unwrap();
        let error = output.download(&stream).unwrap_err();
        gpu::say(&error.to_string());
        assert!(matches!(error, Error::Cuda(CudaError::Driver { .. })), "{error}");
        plan.forward(&stream, &input, &weight, None, &mut output).unwrap_err();
        device.upload_slice(&[1.0f32]).unwrap_err();
        device.zeroed::<f32, 2>(shape).unwrap_err();
        Plan::new(&device, &layer, shape, Options::default()).unwrap_err();
        Device::new(0).unwrap_err();
    }
}
