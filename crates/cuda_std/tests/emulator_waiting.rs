//! Threads that wait for others: at the barrier of the block, and at operations of the warp.

use cuda_std::emulator::{Dim3, FaultKind, Instead, Launch, Memory, WarpProblem};
use cuda_std::{kernel, thread, warp};

fn run(launch: &Launch, kernel: impl Fn()) -> Result<(), FaultKind> {
    launch.run(&mut Memory::new(), "kernel", kernel).map_err(|fault| fault.kind)
}

fn x(x: u32) -> Dim3 {
    Dim3 { x, y: 0, z: 0 }
}

/// Threads from `returning` on return before the barrier.
///
/// # Safety
/// None returns.
#[kernel]
unsafe fn return_early(returning: u32) {
    if thread::thread_idx_x() >= returning {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { thread::sync_threads() };
}

#[test]
fn threads_do_not_return_before_a_barrier() {
    let launch = Launch::new(1, 40);
    // SAFETY: the emulator checks who comes.
    let kernel = |returning| move || unsafe { return_early(returning) };
    assert_eq!(run(&launch, kernel(40)), Ok(()));
    let fault = FaultKind::Barrier { other: x(39), instead: Instead::Returned };
    assert_eq!(run(&launch, kernel(39)), Err(fault));
    assert_eq!(run(&launch.barriers_without_returned(), kernel(39)), Ok(()));
}

/// The same barrier, but at another place.
unsafe fn wait_elsewhere() {
    // SAFETY: the caller's promise.
    unsafe { thread::sync_threads() };
}

/// Every thread comes to a barrier; the threads from `elsewhere` on to another one.
///
/// # Safety
/// All come to the same.
#[kernel]
unsafe fn two_barriers(elsewhere: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if thread::thread_idx_x() < elsewhere {
            thread::sync_threads();
        } else {
            wait_elsewhere();
        }
    }
}

#[test]
fn threads_come_to_the_same_barrier() {
    let launch = Launch::new(1, 40);
    // SAFETY: the emulator checks who comes.
    let kernel = |elsewhere| move || unsafe { two_barriers(elsewhere) };
    assert_eq!(run(&launch, kernel(0)), Ok(()));
    assert_eq!(run(&launch, kernel(40)), Ok(()));
    let outcome = run(&launch, kernel(8));
    assert!(matches!(outcome, Err(FaultKind::Barrier { other: Dim3 { x: 8, .. }, instead: Instead::Waits(_) })));
}

/// The lanes of `coming` vote with the mask `mask`.
///
/// # Safety
/// The two are equal, and the lanes exist.
#[kernel]
unsafe fn vote(mask: u32, coming: u32) {
    if coming >> warp::lane_id() & 1 == 1 {
        // SAFETY: the caller's promise.
        assert_eq!(unsafe { warp::warp_vote_ballot(mask, true) }, mask);
    }
}

/// The lanes of `coming` ask for the largest lane number with the mask `mask`.
///
/// # Safety
/// The two are equal, and the lanes exist.
#[kernel]
unsafe fn reduce(mask: u32, coming: u32) {
    let lane = warp::lane_id();
    if coming >> lane & 1 == 1 {
        // SAFETY: the caller's promise.
        assert_eq!(unsafe { warp::warp_reduce_max(mask, lane) }, mask.ilog2());
    }
}

#[test]
fn lanes_of_the_mask_all_come() {
    check_that_lanes_of_the_mask_come(vote);
    check_that_lanes_of_the_mask_come(reduce);
}

fn check_that_lanes_of_the_mask_come(entry: unsafe fn(u32, u32)) {
    // SAFETY: the emulator checks who comes.
    let kernel = |mask, coming| move || unsafe { entry(mask, coming) };
    let warp = |mask, problem| Err(FaultKind::Warp { mask, problem });
    let whole = Launch::new(1, 32);
    assert_eq!(run(&whole, kernel(0b1011, 0b1011)), Ok(()));
    assert_eq!(run(&whole, kernel(u32::MAX, u32::MAX)), Ok(()));
    let missing = WarpProblem::MissingLanes { lanes: 0b1000, instead: Instead::Returned };
    assert_eq!(run(&whole, kernel(0b1011, 0b0011)), warp(0b1011, missing));
    assert_eq!(run(&whole, kernel(0b0110, 0b0111)), warp(0b0110, WarpProblem::CallerNotInMask));
    // The second warp has eight lanes.
    let partial = Launch::new(1, 40);
    assert_eq!(run(&partial, kernel(0xff, 0xff)), Ok(()));
    let absent = WarpProblem::NoSuchLanes { lanes: 0xffff_ff00 };
    assert_eq!(run(&partial, kernel(u32::MAX, u32::MAX)), warp(u32::MAX, absent));
}

/// All lanes shuffle: the halves of the warp with the masks given, in different branches.
///
/// # Safety
/// The masks are those of the halves.
#[kernel]
unsafe fn shuffle_in_halves(low: u32, high: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if warp::lane_id() < 16 {
            let _ = warp::warp_shuffle_xor(low, 0u32, 1);
        } else {
            let _ = warp::warp_shuffle_xor(high, 0u32, 1);
        }
    }
}

#[test]
fn lanes_come_to_the_same_operation_with_the_same_mask() {
    let launch = Launch::new(1, 32);
    // SAFETY: the emulator checks who comes.
    let kernel = |low, high| move || unsafe { shuffle_in_halves(low, high) };
    assert_eq!(run(&launch, kernel(0xffff, 0xffff_0000)), Ok(()));
    let outcome = run(&launch, kernel(u32::MAX, u32::MAX));
    let Err(FaultKind::Warp { problem: WarpProblem::MissingLanes { lanes, instead }, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(lanes, 0xffff_0000);
    assert!(matches!(instead, Instead::Waits(_)));
}

/// Reads lane `source`, among the first four.
///
/// # Safety
/// `source` is below four.
#[kernel]
unsafe fn read_lane(source: u32) {
    if warp::lane_id() < 4 {
        // SAFETY: the caller's promise.
        assert_eq!(unsafe { warp::warp_shuffle_idx(0b1111, warp::lane_id(), source) }, source);
    }
}

#[test]
fn the_lane_that_is_read_takes_part() {
    let launch = Launch::new(1, 32);
    // SAFETY: the emulator checks who comes.
    let kernel = |source| move || unsafe { read_lane(source) };
    assert_eq!(run(&launch, kernel(3)), Ok(()));
    let problem = WarpProblem::SourceNotInMask { lane: 4 };
    assert_eq!(run(&launch, kernel(4)), Err(FaultKind::Warp { mask: 0b1111, problem }));
}

/// Lane 0 waits for its warp, the others for the block.
///
/// # Safety
/// Not with more than one lane.
#[kernel]
unsafe fn wait_for_each_other() {
    // SAFETY: wrong on purpose.
    unsafe {
        if warp::lane_id() == 0 {
            warp::sync_warp(warp::FULL_MASK);
        } else {
            thread::sync_threads();
        }
    }
}

#[test]
fn deadlocks_are_reported() {
    // SAFETY: the emulator checks who comes.
    let outcome = run(&Launch::new(1, 32), || unsafe { wait_for_each_other() });
    let Err(FaultKind::Warp { problem: WarpProblem::MissingLanes { lanes, .. }, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(lanes, u32::MAX - 1);
}
