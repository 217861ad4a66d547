//! Accesses that nothing orders: reported whatever the order in which the emulator makes them.

use cuda_std::emulator::{Access, Dim3, FaultKind, Launch, Memory};
use cuda_std::{atomic, kernel, mem, shared_array, tensor_core, thread, warp};

/// Runs a kernel without arguments in the natural order, and in random ones.
fn in_any_order(threads: u32, kernel: unsafe fn()) -> Vec<Result<(), FaultKind>> {
    let launches = [Launch::new(1, threads)].into_iter().chain((0..20).map(|seed| Launch::new(1, threads).seed(seed)));
    // SAFETY: the emulator checks every access.
    let run = |launch: Launch| launch.run(&mut Memory::new(), "kernel", || unsafe { kernel() });
    launches.map(|launch| run(launch).map_err(|fault| fault.kind)).collect()
}

fn assert_right(threads: u32, kernel: unsafe fn()) {
    for outcome in in_any_order(threads, kernel) {
        assert_eq!(outcome, Ok(()));
    }
}

fn assert_race(threads: u32, kernel: unsafe fn()) {
    for outcome in in_any_order(threads, kernel) {
        assert!(matches!(outcome, Err(FaultKind::Race { .. })), "{outcome:?}");
    }
}

shared_array! {
    static VALUES: [f32; 64];
}

/// Fills the array before the reads, with a barrier after both: no read is of memory that was never written.
unsafe fn prepare() {
    // SAFETY: every thread has its element.
    unsafe {
        VALUES.as_ptr().add(thread::thread_idx_x()).store(0.0);
        thread::sync_threads();
    }
}

/// Each thread writes its value and reads that of the thread `distance` further on.
unsafe fn exchange(distance: u32, synchronise: impl Fn()) {
    let thread = thread::thread_idx_x();
    // SAFETY: the indices are below the number of threads.
    unsafe {
        prepare();
        VALUES.as_ptr().add(thread).store(1.0);
        synchronise();
        let _ = VALUES.as_ptr().add((thread + distance) % thread::block_dim_x()).load();
    }
}

/// # Safety
/// None of these is safe to launch on a GPU.
#[kernel]
unsafe fn exchange_without_barrier() {
    // SAFETY: wrong on purpose.
    unsafe { exchange(32, || ()) };
}

/// # Safety
/// At most 64 threads.
#[kernel]
unsafe fn exchange_with_barrier() {
    // SAFETY: every thread comes to the barrier.
    unsafe { exchange(32, || thread::sync_threads()) };
}

#[test]
fn barriers_order_the_threads_of_a_block() {
    assert_race(64, exchange_without_barrier);
    assert_right(64, exchange_with_barrier);
}

/// # Safety
/// Wrong with more than one warp.
#[kernel]
unsafe fn exchange_with_sync_warp() {
    // SAFETY: every lane comes to it.
    unsafe { exchange(1, || warp::sync_warp(warp::FULL_MASK)) };
}

#[test]
fn sync_warp_orders_the_lanes_of_a_warp_only() {
    assert_right(32, exchange_with_sync_warp);
    assert_race(64, exchange_with_sync_warp);
}

/// # Safety
/// Wrong: the halves of the warp wait for themselves only, and read from each other.
#[kernel]
unsafe fn exchange_with_sync_half_warp() {
    let mask = if warp::lane_id() < 16 { 0xffff } else { 0xffff_0000 };
    // SAFETY: every lane of either half comes to it.
    unsafe { exchange(1, || warp::sync_warp(mask)) };
}

/// # Safety
/// Wrong: a shuffle has no effect on memory.
#[kernel]
unsafe fn exchange_with_shuffle() {
    // SAFETY: every lane comes to it.
    let shuffle = || _ = unsafe { warp::warp_shuffle_xor(warp::FULL_MASK, 0u32, 1) };
    // SAFETY: wrong on purpose.
    unsafe { exchange(1, shuffle) };
}

/// # Safety
/// Wrong: nor has a product.
#[kernel]
unsafe fn exchange_with_product() {
    // SAFETY: every lane comes to it.
    let product = || unsafe { tensor_core::mma_m16n8k8_tf32(&mut [0.0; 4], [0.0; 4], [0.0; 2]) };
    // SAFETY: wrong on purpose.
    unsafe { exchange(1, product) };
}

#[test]
fn lanes_are_ordered_by_what_synchronises_them() {
    assert_race(32, exchange_with_sync_half_warp);
    assert_race(32, exchange_with_shuffle);
    assert_race(32, exchange_with_product);
}

/// # Safety
/// Wrong: the next round's writes do not wait for this round's reads.
#[kernel]
unsafe fn rounds_with_one_barrier() {
    // SAFETY: wrong on purpose.
    unsafe { rounds(|| ()) };
}

/// # Safety
/// At most 64 threads.
#[kernel]
unsafe fn rounds_with_two_barriers() {
    // SAFETY: every thread comes to the barrier.
    unsafe { rounds(|| thread::sync_threads()) };
}

unsafe fn rounds(synchronise: impl Fn()) {
    for _ in 0..2 {
        // SAFETY: as for the callers.
        unsafe { exchange(40, || thread::sync_threads()) };
        synchronise();
    }
}

#[test]
fn reads_are_ordered_before_later_writes() {
    assert_race(64, rounds_with_one_barrier);
    assert_right(64, rounds_with_two_barriers);
}

/// # Safety
/// Wrong: all threads write one value.
#[kernel]
unsafe fn all_write() {
    // SAFETY: wrong on purpose.
    unsafe { VALUES.as_ptr().store(1.0) };
}

#[test]
fn a_race_names_both_sides() {
    let outcome = &in_any_order(2, all_write)[0];
    let Err(FaultKind::Race { access, earlier, other_thread, place, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((*access, *earlier), (Access::Write, Access::Write));
    assert_eq!(*other_thread, Some(Dim3 { x: 0, y: 0, z: 0 }));
    assert_eq!((place.buffer.as_str(), place.offset, place.shared), ("VALUES", 0, true));
}

/// What a thread does to a word of global memory.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Deed {
    Load,
    Store,
    Add,
}

/// The first block does one thing to a word, the second another.
///
/// # Safety
/// `word` is valid for a number.
#[kernel]
unsafe fn two_blocks(word: *mut u32, first: Deed, second: Deed) {
    let deed = if thread::block_idx_x() == 0 { first } else { second };
    // SAFETY: the caller's promise.
    unsafe { act(word, deed) };
}

/// The first thread does one thing to a word, the last another; there is a barrier between them if `barrier` says so.
///
/// # Safety
/// `word` is valid for a number.
#[kernel]
unsafe fn two_threads(word: *mut u32, first: Deed, second: Deed, barrier: bool) {
    let thread = thread::thread_idx_x();
    // SAFETY: the caller's promise; every thread comes to the barrier or none does.
    unsafe {
        if thread == 0 {
            act(word, first);
        }
        if barrier {
            thread::sync_threads();
        }
        if thread == thread::block_dim_x() - 1 {
            act(word, second);
        }
    }
}

unsafe fn act(word: *mut u32, deed: Deed) {
    // SAFETY: the caller's promise.
    unsafe {
        match deed {
            Deed::Load => _ = mem::load(word),
            Deed::Store => mem::store(word, 1),
            Deed::Add => atomic::add_u32(word, 1),
        }
    }
}

fn pairs() -> impl Iterator<Item = (Deed, Deed)> {
    let deeds = [Deed::Load, Deed::Store, Deed::Add];
    deeds.into_iter().flat_map(move |first| deeds.map(|second| (first, second)))
}

/// Two loads do not race, nor do two atomic additions; everything else does.
fn assert_outcome(outcome: &Result<(), FaultKind>, first: Deed, second: Deed) {
    if first == second && first != Deed::Store {
        assert_eq!(*outcome, Ok(()));
    } else {
        assert!(matches!(outcome, Err(FaultKind::Race { .. })), "{first:?}, {second:?}: {outcome:?}");
    }
}

#[test]
fn blocks_are_not_ordered() {
    for ((first, second), seed) in pairs().flat_map(|pair| (0..4).map(move |seed| (pair, seed))) {
        let mut memory = Memory::new();
        let word = memory.read_write("word", &[0u32]);
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { two_blocks(word, first, second) };
        let outcome = Launch::new(2, 1).seed(seed).run(&mut memory, "two_blocks", kernel);
        assert_outcome(&outcome.map_err(|fault| fault.kind), first, second);
    }
}

#[test]
fn threads_are_ordered_by_barriers_in_global_memory_too() {
    for ((first, second), threads) in pairs().flat_map(|pair| [2, 33].map(|threads| (pair, threads))) {
        let mut memory = Memory::new();
        let word = memory.read_write("word", &[0u32]);
        let mut run = |barrier| {
            // SAFETY: the emulator checks every access.
            let kernel = || unsafe { two_threads(word, first, second, barrier) };
            Launch::new(1, threads).run(&mut memory, "two_threads", kernel).map_err(|fault| fault.kind)
        };
        assert_outcome(&run(false), first, second);
        assert_eq!(run(true), Ok(()));
    }
}
