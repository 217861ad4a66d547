//! How many threads the emulator runs in a second, on one core.
//!
//! ```text
//! cargo run --release -p conv-transpose-kernels --features emulator --example emulator_speed
//! ```
//!
//! On one core of an AMD EPYC that other work shared, in thousands: `gather` 770 to 1100, barriers 680 to 780 (ten
//! each), shuffles 760 to 1080 (ten each), and 33000 to 41000 for a kernel that does nothing, which is the price of a
//! coroutine.

#[path = "../tests/case/mod.rs"]
mod case;

use std::time::{Duration, Instant};

use case::{Axis, Case, Device};
use cuda_std::emulator::{Launch, Memory};
use cuda_std::{shared_array, thread, warp};

const TIME: Duration = Duration::from_secs(1);

/// Runs launches of so many threads for some time, and prints how many threads that makes a second.
fn report(name: &str, threads: usize, mut launch: impl FnMut()) {
    launch();
    let start = Instant::now();
    let mut launches = 0;
    while start.elapsed() < TIME {
        launch();
        launches += 1;
    }
    let per_second = (launches * threads) as f64 / start.elapsed().as_secs_f64();
    println!("{name:<48} {:>10.0} thousand threads/s", per_second / 1e3);
}

/// Doubles a plane of 16 x 16, from 8 channels to 4.
fn doubling() -> Case {
    let axis = Axis { input: 16, kernel: 3, stride: 2, dilation: 1, pad_begin: 1, output: 32 };
    Case::new([Axis::ONE, axis, axis], 1, 1, 8, 4)
}

shared_array! {
    static VALUES: [f32; 256];
}

/// Ten rounds of a store, a barrier and a load.
fn barriers() {
    let place = VALUES.as_ptr().add(thread::thread_idx_x());
    for _ in 0..10 {
        // SAFETY: every thread has its place, and comes to the barrier.
        unsafe {
            place.store(1.0);
            thread::sync_threads();
            let _ = place.load();
        }
    }
}

/// Ten shuffles.
fn shuffles() {
    for _ in 0..10 {
        // SAFETY: all lanes come.
        let _ = unsafe { warp::warp_shuffle_xor(warp::FULL_MASK, 0u32, 1) };
    }
}

fn main() {
    let case = doubling();
    let (gather, scatter) = (case.gather_threads(), case.outputs() + case.scatter_threads());
    let mut device = Device::new(&case);
    report("gather, 8 channels, some 2 of 3x3 taps", gather, || device.gather("gather", |launch| launch).unwrap());
    report("the same in random order", gather, || device.gather("gather", |launch| launch.seed(1)).unwrap());
    report("fill_bias and scatter", scatter, || device.scatter("", |launch| launch).unwrap());
    assert_eq!(device.output().unwrap(), case.expected());
    let mut memory = Memory::new();
    let launch = Launch::new(16, 256);
    report("nothing", 4096, || launch.run(&mut memory, "nothing", || ()).unwrap());
    report("ten barriers", 4096, || launch.run(&mut memory, "barriers", barriers).unwrap());
    report("ten shuffles", 4096, || launch.run(&mut memory, "shuffles", shuffles).unwrap());
}
