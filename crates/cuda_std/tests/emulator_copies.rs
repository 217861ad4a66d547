//! Asynchronous copies: right uses pass and deliver the data; what comes too early or too late is reported, whatever
//! the order in which the emulator makes the accesses.

use cuda_std::emulator::{Access, Dim3, FaultKind, Launch, Memory, Place};
use cuda_std::shared::SharedPtr;
use cuda_std::{async_copy, kernel, mem, shared_array, thread, warp};

const THREADS: u32 = 64;

shared_array! {
    static RING: [u32; 192];
}

shared_array! {
    static WIDE: [[u32; 4]; 64];
}

/// The natural order, and random ones, of a launch of one block.
fn orders() -> impl Iterator<Item = Launch> {
    let launch = || Launch::new(1, THREADS);
    [launch()].into_iter().chain((0..20).map(move |seed| launch().seed(seed)))
}

fn place(offset: i64) -> Place {
    Place { buffer: "RING".into(), offset, shared: true }
}

/// Reverses 64 words and 64 groups of four words; what is beyond `count` counts as zero.
///
/// # Safety
/// `words` and `wide` are valid for `count` values, `reversed` for 64 values.
#[kernel]
unsafe fn reverse(
    words: *const u32,
    wide: *const [u32; 4],
    count: u32,
    reversed: *mut u32,
    wide_reversed: *mut [u32; 4],
) {
    let thread = thread::thread_idx_x();
    let (index, valid) = (thread as usize, thread < count);
    let other = THREADS - 1 - thread;
    // SAFETY: the caller's promise; the barrier orders.
    unsafe {
        // Where there is nothing to copy, the pointer does not matter.
        let words = if valid { words.add(index) } else { core::ptr::null() };
        async_copy::copy_4(RING.as_ptr().add(thread), words, valid);
        async_copy::copy_16(WIDE.as_ptr().add(thread), wide.wrapping_add(index), valid);
        async_copy::commit_group();
        async_copy::wait_group::<0>();
        thread::sync_threads();
        mem::store(reversed.add(index), RING.as_ptr().add(other).load());
        mem::store(wide_reversed.add(index), WIDE.as_ptr().add(other).load());
    }
}

#[test]
fn copies_arrive_and_fill_up_with_zeros() {
    for (launch, count) in orders().flat_map(|launch| [(launch.clone(), 64), (launch, 50)]) {
        let mut memory = Memory::new();
        let numbers = |count| 1..=count;
        let words = memory.read_only("words", &numbers(count).collect::<Vec<u32>>());
        let wide = memory.read_only("wide", &numbers(count).map(|number| [number, 7, 8, 9]).collect::<Vec<[u32; 4]>>());
        let reversed = memory.uninitialised("reversed", 64);
        let wide_reversed = memory.uninitialised("wide_reversed", 64);
        // SAFETY: the buffers are as the kernel asks.
        let kernel = || unsafe { reverse(words, wide, count, reversed, wide_reversed) };
        launch.run(&mut memory, "reverse", kernel).unwrap();
        let given = |number| if number <= count { number } else { 0 };
        assert_eq!(memory.values(reversed).unwrap(), numbers(64).rev().map(given).collect::<Vec<_>>());
        let given = |number| if number <= count { [number, 7, 8, 9] } else { [0; 4] };
        assert_eq!(memory.values(wide_reversed).unwrap(), numbers(64).rev().map(given).collect::<Vec<_>>());
    }
}

/// Runs a kernel that gets 256 words, in many orders.
fn outcomes(kernel: unsafe fn(*const u32)) -> Vec<Result<(), FaultKind>> {
    let run = |launch: Launch| {
        let mut memory = Memory::new();
        let source = memory.read_only("source", &[1u32; 256]);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "kernel", || unsafe { kernel(source) }).map_err(|fault| fault.kind)
    };
    orders().map(run).collect()
}

fn assert_right(kernel: unsafe fn(*const u32)) {
    for outcome in outcomes(kernel) {
        assert_eq!(outcome, Ok(()));
    }
}

/// Whether another access comes while the copy is under way or in the time around it is a matter of order.
fn assert_unordered(kernel: unsafe fn(*const u32)) {
    for outcome in outcomes(kernel) {
        assert!(matches!(outcome, Err(FaultKind::CopyPending { .. } | FaultKind::Race { .. })), "{outcome:?}");
    }
}

fn assert_pending(kernel: unsafe fn(*const u32)) {
    for outcome in outcomes(kernel) {
        assert!(matches!(outcome, Err(FaultKind::CopyPending { .. })), "{outcome:?}");
    }
}

/// The thread's word of the array, which was written before; the source of its copy is at the same place.
unsafe fn prepare(source: *const u32) -> (SharedPtr<u32>, *const u32) {
    let thread = thread::thread_idx_x();
    let mine = RING.as_ptr().add(thread);
    // SAFETY: every thread has its word, and comes to the barrier.
    unsafe {
        mine.store(0);
        thread::sync_threads();
        (mine, source.add(thread as usize))
    }
}

/// Each thread copies its word, and reads that of the thread `distance` further on.
unsafe fn exchange(source: *const u32, distance: u32, synchronise: impl Fn()) {
    let other = RING.as_ptr().add((thread::thread_idx_x() + distance) % THREADS);
    // SAFETY: the words are in the arrays.
    unsafe {
        let (mine, source) = prepare(source);
        async_copy::copy_4(mine, source, true);
        async_copy::commit_group();
        synchronise();
        let _ = other.load();
    }
}

fn wait() {
    async_copy::wait_group::<0>();
}

fn barrier() {
    // SAFETY: every thread of these kernels comes to it.
    unsafe { thread::sync_threads() };
}

macro_rules! exchanges {
    ($($name:ident: $distance:literal, $($synchronise:expr),*;)*) => {
        $(
            /// # Safety
            /// None of these is safe to launch on a GPU.
            #[kernel]
            unsafe fn $name(source: *const u32) {
                // SAFETY: right, or wrong on purpose.
                unsafe { exchange(source, $distance, || { $($synchronise();)* }) };
            }
        )*
    };
}

exchanges! {
    own_after_wait: 0, wait;
    own_without_wait: 0, ;
    others_after_wait_and_barrier: 40, wait, barrier;
    others_after_wait: 40, wait;
    others_after_barrier: 40, barrier;
    others_after_barrier_and_wait: 40, barrier, wait;
    neighbours_after_wait: 1, wait;
}

#[test]
fn data_is_there_after_waiting_and_a_barrier() {
    assert_right(own_after_wait);
    assert_pending(own_without_wait);
    assert_right(others_after_wait_and_barrier);
    assert_unordered(others_after_wait);
    assert_pending(others_after_barrier);
    assert_unordered(others_after_barrier_and_wait);
    assert_unordered(neighbours_after_wait);
}

/// # Safety
/// The source is valid for 64 words.
#[kernel]
unsafe fn lanes_exchange(source: *const u32) {
    let (warp, lane) = (warp::warp_id(), warp::lane_id());
    // SAFETY: every lane comes to the synchronisation, and reads from its own warp.
    unsafe {
        let (mine, source) = prepare(source);
        async_copy::copy_4(mine, source, true);
        async_copy::commit_group();
        async_copy::wait_group::<0>();
        warp::sync_warp(warp::FULL_MASK);
        let _ = RING.as_ptr().add(warp * 32 + (lane + 1) % 32).load();
    }
}

#[test]
fn sync_warp_orders_what_was_waited_for() {
    assert_right(lanes_exchange);
}

/// # Safety
/// Wrong: a copy that is in no group is not waited for.
#[kernel]
unsafe fn copy_without_commit(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe {
        let (mine, source) = prepare(source);
        async_copy::commit_group();
        async_copy::copy_4(mine, source, true);
        async_copy::wait_group::<0>();
        let _ = mine.load();
    }
}

/// # Safety
/// Wrong: the copy comes after the store, or before.
#[kernel]
unsafe fn store_over_copy(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe {
        let (mine, source) = prepare(source);
        async_copy::copy_4(mine, source, true);
        mine.store(2);
    }
}

/// # Safety
/// Wrong: either copy may be the last.
#[kernel]
unsafe fn copy_over_copy(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe {
        let (mine, source) = prepare(source);
        async_copy::copy_4(mine, source, true);
        async_copy::commit_group();
        async_copy::copy_4(mine, source, false);
    }
}

/// # Safety
/// Wrong: all threads copy to one place.
#[kernel]
unsafe fn all_copy(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe { async_copy::copy_4(RING.as_ptr(), source, true) };
    async_copy::commit_group();
    async_copy::wait_group::<0>();
}

#[test]
fn a_target_is_the_copys_until_it_is_complete() {
    assert_pending(copy_without_commit);
    assert_pending(store_over_copy);
    assert_pending(copy_over_copy);
    assert_unordered(all_copy);
}

#[test]
fn a_report_names_the_thread_that_copies() {
    let copying_thread = Dim3 { x: 40, y: 0, z: 0 };
    let fault = FaultKind::CopyPending { access: Access::Read, copying_thread, place: place(160) };
    assert_eq!(outcomes(others_after_barrier)[0], Err(fault.clone()));
    let expected = "read at offset 160 of shared memory `RING`, which thread (40, 0, 0) is copying to: \
                    the copy was not waited for";
    assert_eq!(fault.to_string(), expected);
}

/// Four rounds of copies through a ring of `slots`, two rounds ahead; each thread reads its neighbour's word.
unsafe fn pipeline(source: *const u32, slots: u32, wait: impl Fn()) {
    let thread = thread::thread_idx_x();
    let slot = |round| RING.as_ptr().add(round % slots * THREADS);
    let fetch = |round| {
        let index = round * THREADS + thread;
        // SAFETY: the caller's promise.
        unsafe { async_copy::copy_4(slot(round).add(thread), source.wrapping_add(index as usize), round < 4) };
        async_copy::commit_group();
    };
    fetch(0);
    fetch(1);
    for round in 0..4 {
        wait();
        barrier();
        fetch(round + 2);
        // SAFETY: inside of the slot.
        assert_eq!(unsafe { slot(round).add((thread + 40) % THREADS).load() }, 1);
    }
}

/// # Safety
/// The source is valid for 256 words.
#[kernel]
unsafe fn three_slots(source: *const u32) {
    // SAFETY: each slot is read by all before the barrier after which it is filled again.
    unsafe { pipeline(source, 3, async_copy::wait_group::<1>) };
}

/// # Safety
/// Wrong: fills the slot that others still read.
#[kernel]
unsafe fn two_slots(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe { pipeline(source, 2, async_copy::wait_group::<1>) };
}

/// # Safety
/// Wrong: does not wait for the round that is read.
#[kernel]
unsafe fn wait_for_too_few(source: *const u32) {
    // SAFETY: wrong on purpose.
    unsafe { pipeline(source, 3, async_copy::wait_group::<2>) };
}

#[test]
fn a_ring_is_filled_again_when_all_have_read() {
    assert_right(three_slots);
    assert_unordered(two_slots);
    assert_pending(wait_for_too_few);
    // In the natural order, thread 0 has filled its word again by the time that thread 24 reads it.
    let outcome = &outcomes(two_slots)[0];
    assert!(matches!(outcome, Err(FaultKind::CopyPending { access: Access::Read, .. })), "{outcome:?}");
}

/// # Safety
/// Wrong: one thread fills again what another one has read, with nothing between.
#[kernel]
unsafe fn refill_after_read(source: *const u32) {
    let thread = thread::thread_idx_x();
    // SAFETY: wrong on purpose.
    unsafe {
        let (mine, source) = prepare(source);
        if thread == 0 {
            let _ = mine.load();
        }
        if thread == 63 {
            async_copy::copy_4(RING.as_ptr(), source, true);
        }
    }
}

#[test]
fn a_copy_that_starts_too_early_races_with_the_reads_before() {
    let outcome = &outcomes(refill_after_read)[0];
    let Err(FaultKind::Race { access, earlier, other_thread, place: at, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((*access, *earlier, at), (Access::Write, Access::Read, &place(0)));
    assert_eq!(*other_thread, Some(Dim3 { x: 0, y: 0, z: 0 }));
    assert_unordered(refill_after_read);
}

/// Each block starts copies that it does not wait for. If `wait` says so, the second block takes them for its own.
///
/// # Safety
/// `source` is valid for 64 words, and `wait` does not hold.
#[kernel]
unsafe fn leave_early(source: *const u32, wait: bool) {
    let thread = thread::thread_idx_x();
    let mine = RING.as_ptr().add(thread);
    // SAFETY: every thread has its word.
    unsafe {
        if wait && thread::block_idx_x() == 1 {
            async_copy::commit_group();
            async_copy::copy_4(mine, source.add(thread as usize), true);
            async_copy::commit_group();
            // Only the first group, which has no copies of this block.
            async_copy::wait_group::<1>();
            let _ = mine.load();
        }
        async_copy::copy_4(mine, source.add(thread as usize), true);
    }
}

#[test]
fn copies_that_nobody_waits_for_end_with_their_block() {
    let mut memory = Memory::new();
    let source = memory.read_only("source", &[1u32; 64]);
    let mut run = |wait| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { leave_early(source, wait) };
        Launch::new(3, THREADS).run(&mut memory, "leave_early", kernel).map_err(|fault| fault.kind)
    };
    assert_eq!(run(false), Ok(()));
    let copying_thread = Dim3 { x: 0, y: 0, z: 0 };
    assert_eq!(run(true), Err(FaultKind::CopyPending { access: Access::Read, copying_thread, place: place(0) }));
}

/// One copy of each size.
///
/// # Safety
/// The places are valid, and aligned to the size.
#[kernel]
unsafe fn copy_both(narrow: *const u32, wide: *const [u32; 4], narrow_at: u32, wide_at: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        async_copy::copy_4(RING.as_ptr().add(narrow_at), narrow, true);
        let start = WIDE.as_ptr().cast::<u32>();
        async_copy::copy_16(start.add(wide_at).cast(), wide, true);
    }
}

#[test]
fn copies_are_checked_like_loads_and_stores() {
    let mut memory = Memory::new();
    let source = memory.read_only("source", &[1u32; 6]);
    let unwritten = memory.uninitialised::<u32>("unwritten", 1);
    let mut run = |narrow: *const u32, wide: *const u32, narrow_at: u32, wide_at: u32| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { copy_both(narrow, wide.cast(), narrow_at, wide_at) };
        Launch::new(1, 1).run(&mut memory, "copy_both", kernel).map_err(|fault| fault.kind)
    };
    let [read, write] = [Access::Read, Access::Write];
    let (end, middle) = (source.wrapping_add(6), source.wrapping_add(2));
    let global = |buffer: &str, offset| Place { buffer: buffer.into(), offset, shared: false };
    assert_eq!(run(source, source, 0, 0), Ok(()));
    let outcome = run(end, source, 0, 0);
    let near = Some((global("source", 24), 24));
    assert_eq!(outcome, Err(FaultKind::OutOfBounds { access: read, bytes: 4, address: end.addr() as u64, near }));
    let outcome = run(source, source.wrapping_add(4), 0, 0);
    assert!(matches!(outcome, Err(FaultKind::OutOfBounds { access: Access::Read, bytes: 16, .. })), "{outcome:?}");
    let outcome = run(source, middle, 0, 0);
    assert_eq!(outcome, Err(FaultKind::Misaligned { access: read, bytes: 16, place: global("source", 8) }));
    let outcome = run(unwritten, source, 0, 0);
    assert_eq!(outcome, Err(FaultKind::Uninitialised { access: read, place: global("unwritten", 0) }));
    let outcome = run(source, source, 192, 0);
    assert!(matches!(outcome, Err(FaultKind::OutOfBounds { access: Access::Write, bytes: 4, .. })), "{outcome:?}");
    let outcome = run(source, source, 0, 2);
    let place = Place { buffer: "WIDE".into(), offset: 8, shared: true };
    assert_eq!(outcome, Err(FaultKind::Misaligned { access: write, bytes: 16, place }));
}
