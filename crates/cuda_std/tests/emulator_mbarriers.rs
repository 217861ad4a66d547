//! Memory barriers: threads that bring data through a ring of slots, by copies of both kinds, and warps that use it,
//! run as they should; what they forget to wait for is reported, whatever the order in which the emulator makes the
//! accesses.

use cuda_std::emulator::{Access, Dim3, FaultKind, Instead, Launch, MbarrierProblem, Memory, Place, WarpProblem};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedPtr;
use cuda_std::{async_copy, kernel, mem, shared_array, thread, warp};

const SLOTS: u32 = 3;
const ROUNDS: u32 = 20;

/// The words of a slot: as many by each kind of copy.
const SLOT: u32 = 64;
const HALF: u32 = SLOT / 2;
const HALF_BYTES: u32 = HALF * 4;

/// A warp that copies, one of which one thread copies in bulk, and two that use the data.
const THREADS: u32 = 128;

shared_array! {
    static RING: [u32; 192];
}

shared_array! {
    static BARRIERS: [u64; 8];
}

/// What to do wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mistakes {
    refill_at_once: bool,
    refill_in_bulk_at_once: bool,
    read_at_once: bool,
    read_one_phase_early: bool,
    arrive_instead_of_copies: bool,
    no_sync_before_arrival: bool,
    no_sync_after_wait: bool,
    no_sync_after_init: bool,
    missing_release: bool,
    full_arrivals: i32,
    announced: i32,
    empty_arrivals: i32,
}

/// The natural order, and random ones.
fn orders(blocks: u32, threads: u32) -> impl Iterator<Item = Launch> {
    let launch = move || Launch::new(blocks, threads);
    [launch()].into_iter().chain((0..20).map(move |seed| launch().seed(seed)))
}

fn barrier(number: u32) -> Mbarrier {
    Mbarrier::at(BARRIERS.as_ptr().add(number))
}

fn full(round: u32) -> Mbarrier {
    barrier(round % SLOTS)
}

fn empty(round: u32) -> Mbarrier {
    barrier(SLOTS + round % SLOTS)
}

fn slot(round: u32) -> SharedPtr<u32> {
    RING.as_ptr().add(round % SLOTS * SLOT)
}

fn parity(round: u32) -> u32 {
    round / SLOTS % 2
}

/// Thread 0 makes the barriers.
unsafe fn make_barriers(mistakes: Mistakes) {
    // SAFETY: right, or wrong on purpose.
    unsafe {
        if thread::thread_idx_x() == 0 {
            for round in 0..SLOTS {
                full(round).init((32 + 1i32 + mistakes.full_arrivals) as u32);
                empty(round).init((32 + 1i32 + mistakes.empty_arrivals) as u32);
            }
        }
        if !mistakes.no_sync_after_init {
            thread::sync_threads();
        }
    }
}

/// All lanes of a warp bring the first halves of slots.
unsafe fn bring(source: *const u32, mistakes: Mistakes) {
    let lane = warp::lane_id();
    for round in 0..ROUNDS {
        // SAFETY: right, or wrong on purpose.
        unsafe {
            if !mistakes.refill_at_once {
                empty(round).wait(parity(round) ^ 1);
            }
            async_copy::copy_4(slot(round).add(lane), source.add((round * SLOT + lane) as usize), true);
            if mistakes.arrive_instead_of_copies {
                full(round).arrive();
            } else {
                full(round).arrive_after_copies();
            }
        }
    }
}

/// One thread brings the second halves.
unsafe fn bring_in_bulk(source: *const u32, mistakes: Mistakes) {
    for round in 0..ROUNDS {
        // SAFETY: right, or wrong on purpose.
        unsafe {
            if !mistakes.refill_in_bulk_at_once {
                empty(round).wait(parity(round) ^ 1);
            }
            full(round).arrive_expect(HALF_BYTES.wrapping_add_signed(mistakes.announced));
            let source = source.add((round * SLOT + HALF) as usize).cast();
            async_copy::copy_bulk(slot(round).add(HALF).cast(), source, HALF_BYTES, full(round));
        }
    }
}

/// A lane of a warp of which each lane waits and arrives by itself adds up two words of each round.
unsafe fn use_alone(mistakes: Mistakes) -> u32 {
    let lane = warp::lane_id();
    let mut sum = 0;
    for round in 0..ROUNDS {
        // SAFETY: right, or wrong on purpose.
        unsafe {
            if !mistakes.read_at_once {
                full(round).wait(parity(round) ^ u32::from(mistakes.read_one_phase_early));
            }
            sum += slot(round).add(lane).load() + slot(round).add(HALF + (lane + 7) % HALF).load();
            if !(mistakes.missing_release && lane == 9) {
                empty(round).arrive();
            }
        }
    }
    sum
}

/// The same in a warp of which one lane waits and arrives for all.
unsafe fn use_together(mistakes: Mistakes) -> u32 {
    let lane = warp::lane_id();
    let mut sum = 0;
    for round in 0..ROUNDS {
        // SAFETY: right, or wrong on purpose.
        unsafe {
            if lane == 0 {
                full(round).wait(parity(round));
            }
            if !mistakes.no_sync_after_wait {
                warp::sync_warp(warp::FULL_MASK);
            }
            sum += slot(round).add(lane).load() + slot(round).add(HALF + (lane + 7) % HALF).load();
            if !mistakes.no_sync_before_arrival {
                warp::sync_warp(warp::FULL_MASK);
            }
            if lane == 0 {
                empty(round).arrive();
            }
        }
    }
    sum
}

/// # Safety
/// `source` is valid for `ROUNDS * SLOT` words, `sums` for 64 of each block.
#[kernel]
unsafe fn ring(source: *const u32, sums: *mut u32, mistakes: Mistakes) {
    // SAFETY: right, or wrong on purpose.
    unsafe {
        make_barriers(mistakes);
        let sum = match (warp::warp_id(), warp::lane_id()) {
            (0, _) => return bring(source, mistakes),
            (1, 0) => return bring_in_bulk(source, mistakes),
            (1, _) => return,
            (2, _) => use_alone(mistakes),
            _ => use_together(mistakes),
        };
        let index = thread::block_idx_x() * 64 + thread::thread_idx_x() - 64;
        mem::store(sums.add(index as usize), sum);
    }
}

/// What the ring does in many orders.
fn outcomes(mistakes: Mistakes) -> Vec<Result<(), FaultKind>> {
    let source: Vec<u32> = (0..ROUNDS * SLOT).map(|index| index * index % 101).collect();
    let sum = |lane: u32| -> u32 {
        let word = |round: u32, index: u32| source[(round * SLOT + index) as usize];
        (0..ROUNDS).map(|round| word(round, lane) + word(round, HALF + (lane + 7) % HALF)).sum()
    };
    let expected: Vec<u32> = (0..2 * 64).map(|index| sum(index % 32)).collect();
    let run = |launch: Launch| {
        let mut memory = Memory::new();
        let source = memory.read_only("source", &source);
        let sums = memory.uninitialised("sums", 2 * 64);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "ring", || unsafe { ring(source, sums, mistakes) }).map_err(|fault| fault.kind)?;
        assert_eq!(memory.values(sums).unwrap(), expected);
        Ok(())
    };
    orders(2, THREADS).map(run).collect()
}

fn is_unordered(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Race { .. } | FaultKind::CopyPending { .. } | FaultKind::Uninitialised { .. })
}

fn is_stuck(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Mbarrier { problem: MbarrierProblem::Stuck { .. }, .. })
}

fn place(number: u32) -> Place {
    Place { buffer: "BARRIERS".into(), offset: i64::from(number) * 8, shared: true }
}

#[test]
fn a_ring_runs() {
    for outcome in outcomes(Mistakes::default()) {
        assert_eq!(outcome, Ok(()));
    }
}

#[test]
fn what_is_not_waited_for_is_reported() {
    let mistakes = Mistakes::default();
    for mistakes in [
        Mistakes { read_at_once: true, ..mistakes },
        Mistakes { arrive_instead_of_copies: true, ..mistakes },
        Mistakes { no_sync_after_wait: true, ..mistakes },
        Mistakes { no_sync_before_arrival: true, ..mistakes },
    ] {
        for outcome in outcomes(mistakes) {
            assert!(outcome.as_ref().is_err_and(is_unordered), "{mistakes:?}: {outcome:?}");
        }
    }
}

#[test]
fn the_other_parity_does_not_do() {
    for outcome in outcomes(Mistakes { read_one_phase_early: true, ..Mistakes::default() }) {
        // It lets a thread pass too early, or not at all where the barrier is ahead of it.
        assert!(outcome.as_ref().is_err_and(|kind| is_unordered(kind) || is_stuck(kind)), "{outcome:?}");
    }
}

#[test]
fn a_slot_that_is_filled_again_too_early_is_reported() {
    let mistakes = Mistakes::default();
    for mistakes in
        [Mistakes { refill_at_once: true, ..mistakes }, Mistakes { refill_in_bulk_at_once: true, ..mistakes }]
    {
        for outcome in outcomes(mistakes) {
            // Who is far ahead also comes too often, before the others come at all.
            let is_excess =
                |kind: &_| matches!(kind, FaultKind::Mbarrier { problem: MbarrierProblem::TooManyArrivals { .. }, .. });
            assert!(outcome.as_ref().is_err_and(|kind| is_unordered(kind) || is_excess(kind)), "{outcome:?}");
        }
    }
}

#[test]
fn a_barrier_is_not_used_before_it_is_made() {
    for outcome in outcomes(Mistakes { no_sync_after_init: true, ..Mistakes::default() }) {
        let is_early = |kind: &FaultKind| match kind {
            FaultKind::Race { access, earlier, .. } => (*access, *earlier) == (Access::Atomic, Access::Write),
            FaultKind::Mbarrier { problem, .. } => *problem == MbarrierProblem::NotInitialised,
            _ => false,
        };
        assert!(outcome.as_ref().is_err_and(is_early), "{outcome:?}");
    }
}

#[test]
fn phases_that_are_never_complete_are_reported() {
    let mistakes = Mistakes::default();
    for mistakes in [
        Mistakes { missing_release: true, ..mistakes },
        Mistakes { full_arrivals: 1, ..mistakes },
        Mistakes { empty_arrivals: 1, ..mistakes },
        Mistakes { announced: 16, ..mistakes },
        Mistakes { announced: -16, ..mistakes },
    ] {
        for outcome in outcomes(mistakes) {
            assert!(outcome.as_ref().is_err_and(is_stuck), "{mistakes:?}: {outcome:?}");
        }
    }
    let outcome = &outcomes(Mistakes { announced: 16, ..mistakes })[0];
    let problem = MbarrierProblem::Stuck { arrivals: 0, bytes: 16 };
    assert_eq!(*outcome, Err(FaultKind::Mbarrier { place: place(0), problem }));
    let expected = "memory barrier at offset 0 of shared memory `BARRIERS`: \
                    waits for ever: 0 arrivals and 16 bytes have not come";
    assert_eq!(outcome.as_ref().unwrap_err().to_string(), expected);
}

#[test]
fn phases_that_are_complete_too_early_are_reported() {
    let mistakes = Mistakes::default();
    for mistakes in [Mistakes { full_arrivals: -1, ..mistakes }, Mistakes { empty_arrivals: -1, ..mistakes }] {
        for outcome in outcomes(mistakes) {
            assert!(outcome.is_err(), "{mistakes:?}");
        }
    }
}

/// Runs a kernel with two blocks of 128 threads that gets 64 words, in many orders.
fn simple(kernel: unsafe fn(*const u32)) -> Vec<Result<(), FaultKind>> {
    let run = |launch: Launch| {
        let mut memory = Memory::new();
        let source = memory.read_only("source", &[1u32; 64]);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "kernel", || unsafe { kernel(source) }).map_err(|fault| fault.kind)
    };
    orders(2, THREADS).map(run).collect()
}

fn assert_right(kernel: unsafe fn(*const u32)) {
    for outcome in simple(kernel) {
        assert_eq!(outcome, Ok(()));
    }
}

fn assert_race(kernel: unsafe fn(*const u32)) {
    for outcome in simple(kernel) {
        assert!(matches!(outcome, Err(FaultKind::Race { .. })), "{outcome:?}");
    }
}

fn assert_unordered(kernel: unsafe fn(*const u32)) {
    for outcome in simple(kernel) {
        assert!(outcome.as_ref().is_err_and(is_unordered), "{outcome:?}");
    }
}

fn assert_fault(kernel: unsafe fn(*const u32), kind: &FaultKind) {
    for outcome in simple(kernel) {
        assert_eq!(outcome.as_ref(), Err(kind));
    }
}

fn assert_problem(kernel: unsafe fn(*const u32), number: u32, problem: MbarrierProblem) {
    assert_fault(kernel, &FaultKind::Mbarrier { place: place(number), problem });
}

/// Kernels told by the thread, the source, and a word that has been written; barriers 0 to 3 expect 1, 2, 32 and 33
/// arrivals.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = |$thread:ident, $source:ident, $word:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// None of these is safe to launch on a GPU.
            #[kernel]
            unsafe fn $name($source: *const u32) {
                let $thread = thread::thread_idx_x();
                let $word = RING.as_ptr();
                // SAFETY: right, or wrong on purpose.
                unsafe {
                    if $thread == 0 {
                        $word.store(1);
                        for (number, arrivals) in [1, 2, 32, 33].into_iter().enumerate() {
                            barrier(number as u32).init(arrivals);
                        }
                    }
                    thread::sync_threads();
                    $body
                }
            }
        )*
    };
}

kernels! {
    /// A new barrier has completed a phase already.
    wait_for_the_phase_before_the_first = |_thread, _source, _word| {
        barrier(0).wait(1);
    }
    /// Thread 0 tells thread 40, which tells thread 70.
    order_is_passed_on = |thread, _source, word| {
        match thread {
            0 => {
                word.store(2);
                barrier(0).arrive();
            }
            40 => {
                barrier(0).wait(0);
                barrier(1).arrive();
                barrier(1).arrive();
            }
            70 => {
                barrier(1).wait(0);
                word.store(3);
            }
            _ => {}
        }
    }
    /// Within a warp, too.
    order_among_lanes = |thread, _source, word| {
        match thread {
            0 => {
                word.store(2);
                barrier(0).arrive();
            }
            9 => {
                barrier(0).wait(0);
                word.store(3);
            }
            _ => {}
        }
    }
    /// Each lane tells of what it has read.
    write_after_all_have_read = |thread, _source, word| {
        if thread < 32 {
            let _ = word.load();
            barrier(2).arrive();
        }
        if thread == 64 {
            barrier(2).wait(0);
            word.store(2);
        }
    }
    /// A lane tells of what the others have done before they synchronised.
    arrive_for_all = |thread, _source, word| {
        if thread < 32 {
            let _ = word.load();
            warp::sync_warp(warp::FULL_MASK);
            if thread == 0 {
                barrier(0).arrive();
            }
        }
        if thread == 64 {
            barrier(0).wait(0);
            word.store(2);
        }
    }
    /// A lane waits, and others synchronise with it; a named barrier passes it on to yet others.
    wait_for_all = |thread, _source, word| {
        if thread == 0 {
            word.store(2);
            barrier(0).arrive();
        }
        if thread / 32 == 1 {
            if thread == 32 {
                barrier(0).wait(0);
            }
            warp::sync_warp(warp::FULL_MASK);
            let _ = word.load();
        }
        if (1..3).contains(&(thread / 32)) {
            thread::sync_named(1, 64);
            let _ = word.load();
        }
    }
    /// Others of its warp have not done what they do afterwards.
    arrive_for_none = |thread, _source, word| {
        if thread == 0 {
            barrier(0).arrive();
        }
        if thread == 3 {
            let _ = word.load();
        }
        if thread == 64 {
            barrier(0).wait(0);
            word.store(2);
        }
    }
    /// Others of its warp have not waited.
    wait_for_none = |thread, _source, word| {
        match thread {
            0 => {
                word.store(2);
                barrier(0).arrive();
            }
            64 => barrier(0).wait(0),
            65 => {
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// Who arrives gets to know nothing.
    arrive_and_read = |thread, _source, word| {
        match thread {
            0 => {
                word.store(2);
                barrier(1).arrive();
            }
            64 => {
                barrier(1).arrive();
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// What comes after the arrival is not part of it.
    write_after_arrival = |thread, _source, word| {
        match thread {
            0 => {
                barrier(0).arrive();
                word.store(2);
            }
            64 => {
                barrier(0).wait(0);
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// What a thread stores does not come with its copies.
    store_and_arrive_after_copies = |thread, _source, word| {
        match thread {
            0 => {
                word.store(2);
                barrier(0).arrive_after_copies();
            }
            64 => {
                barrier(0).wait(0);
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// The thread that has started a copy waits for it like others.
    copy_and_wait = |thread, source, word| {
        if thread == 0 {
            async_copy::copy_4(word, source, true);
            async_copy::commit_group();
            barrier(0).arrive_after_copies();
            async_copy::wait_group::<0>();
            barrier(0).wait(0);
            word.store(3);
        }
    }
    /// In bulk, and before the bytes are expected.
    copy_in_bulk_and_wait = |thread, source, word| {
        if thread == 0 {
            async_copy::copy_bulk(word.cast(), source.cast(), 64, barrier(0));
            async_copy::copy_bulk(word.add(16).cast(), source.cast(), 16, barrier(0));
            barrier(0).arrive_expect(80);
            barrier(0).wait(0);
            word.store(3);
        }
    }
    /// Nobody is to see the copy.
    copy_and_read = |thread, source, word| {
        if thread == 0 {
            barrier(0).arrive_expect(16);
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(0));
            let _ = word.load();
        }
    }
    /// Another thread has waited, this one has not: the barrier of the block only orders what that one saw before.
    copy_and_let_wait = |thread, source, word| {
        if thread == 0 {
            barrier(0).arrive_expect(16);
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(0));
        }
        thread::sync_threads();
        if thread == 64 {
            barrier(0).wait(0);
        }
        if thread == 0 {
            let _ = word.load();
        }
    }
    /// The barrier of the block passes on what one thread has seen.
    wait_and_sync = |thread, source, word| {
        if thread == 0 {
            barrier(0).arrive_expect(16);
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(0));
        }
        if thread == 64 {
            barrier(0).wait(0);
        }
        thread::sync_threads();
        let _ = word.load();
    }
    /// Two copies to one place.
    copy_over_copy = |thread, source, word| {
        if thread == 0 {
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(0));
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(1));
        }
    }
    /// Over what another warp has read.
    copy_over_read = |thread, source, word| {
        if thread == 40 {
            let _ = word.load();
        }
        if thread == 0 {
            async_copy::copy_bulk(word.cast(), source.cast(), 16, barrier(0));
        }
    }
    /// No barrier.
    arrive_nowhere = |_thread, _source, _word| {
        barrier(5).arrive();
    }
    /// One phase cannot expect the second arrival, because it still waits for bytes.
    arrive_twice = |thread, _source, _word| {
        if thread == 0 {
            barrier(0).arrive_expect(16);
            barrier(0).arrive();
        }
    }
    /// A third parity.
    wait_for_parity_2 = |_thread, _source, _word| {
        barrier(0).wait(2);
    }
    /// Nobody arrives.
    wait_for_nobody = |thread, _source, _word| {
        if thread == 64 {
            barrier(1).wait(0);
        }
        thread::sync_threads();
    }
    /// Nobody arrives, and others wait for the one that waits.
    wait_for_one_that_waits = |thread, _source, _word| {
        if thread == 64 {
            barrier(1).wait(0);
        }
        warp::sync_warp(warp::FULL_MASK);
        thread::sync_named(1, 128);
    }
    /// Who is to arrive waits for a lane that has returned.
    wait_for_one_that_is_stuck = |thread, _source, _word| {
        if thread == 3 {
            return;
        }
        if thread < 32 {
            warp::sync_warp(warp::FULL_MASK);
            barrier(2).arrive();
        } else {
            barrier(2).wait(0);
        }
    }
    /// No number of bytes for a barrier.
    expect_too_much = |_thread, _source, _word| {
        barrier(3).arrive_expect(1 << 20);
    }
    /// No number of arrivals.
    expect_nobody = |_thread, _source, _word| {
        barrier(4).init(0);
    }
    /// A barrier twice.
    make_twice = |thread, _source, _word| {
        if thread == 0 {
            barrier(0).init(1);
        }
    }
    /// A barrier is no number.
    read_barrier = |thread, _source, _word| {
        if thread == 0 {
            let _ = BARRIERS.as_ptr().cast::<u32>().add(3).load();
        }
    }
    /// A barrier is no place for data.
    copy_to_barrier = |thread, source, _word| {
        if thread == 0 {
            async_copy::copy_bulk(BARRIERS.as_ptr().cast(), source.cast(), 16, barrier(0));
        }
    }
    /// A barrier between two.
    misaligned_barrier = |_thread, _source, _word| {
        Mbarrier::at(BARRIERS.as_ptr().cast::<u32>().add(9).cast()).init(1);
    }
    /// A barrier beyond the array.
    barrier_out_of_bounds = |_thread, _source, _word| {
        barrier(8).wait(0);
    }
}

#[test]
fn those_that_wait_are_after_those_that_came() {
    for kernel in [
        wait_for_the_phase_before_the_first,
        order_is_passed_on,
        order_among_lanes,
        write_after_all_have_read,
        arrive_for_all,
        wait_for_all,
    ] {
        assert_right(kernel);
    }
}

#[test]
fn nothing_else_is_ordered() {
    for kernel in [arrive_for_none, wait_for_none, arrive_and_read, write_after_arrival, store_and_arrive_after_copies]
    {
        assert_race(kernel);
    }
}

#[test]
fn copies_are_there_for_those_that_wait() {
    for kernel in [copy_and_wait, copy_in_bulk_and_wait, wait_and_sync] {
        assert_right(kernel);
    }
    for kernel in [copy_and_let_wait, copy_over_read] {
        assert_unordered(kernel);
    }
    let copying_thread = Dim3 { x: 0, y: 0, z: 0 };
    let pending = |access| {
        let place = Place { buffer: "RING".into(), offset: 0, shared: true };
        FaultKind::CopyPending { access, copying_thread, place }
    };
    assert_fault(copy_and_read, &pending(Access::Read));
    assert_fault(copy_over_copy, &pending(Access::Write));
}

#[test]
fn uses_that_cannot_be_right_are_reported() {
    assert_problem(arrive_nowhere, 5, MbarrierProblem::NotInitialised);
    assert_problem(arrive_twice, 0, MbarrierProblem::TooManyArrivals { expected: 1 });
    assert_problem(wait_for_parity_2, 0, MbarrierProblem::NoSuchParity { parity: 2 });
    assert_problem(expect_too_much, 3, MbarrierProblem::Bytes { bytes: 1 << 20 });
    assert_problem(expect_nobody, 4, MbarrierProblem::Arrivals { arrivals: 0 });
    assert_problem(make_twice, 0, MbarrierProblem::Accessed { access: Access::Write });
    let second_half = Place { offset: 12, ..place(1) };
    let problem = MbarrierProblem::Accessed { access: Access::Read };
    assert_fault(read_barrier, &FaultKind::Mbarrier { place: second_half, problem });
    assert_problem(copy_to_barrier, 0, MbarrierProblem::Accessed { access: Access::Write });
    let place = Place { offset: 36, ..place(0) };
    assert_fault(misaligned_barrier, &FaultKind::Misaligned { access: Access::Write, bytes: 8, place });
    for outcome in simple(barrier_out_of_bounds) {
        assert!(matches!(outcome, Err(FaultKind::OutOfBounds { bytes: 8, .. })), "{outcome:?}");
    }
}

#[test]
fn waiting_for_ever_is_reported_where_it_begins() {
    let stuck = |arrivals| MbarrierProblem::Stuck { arrivals, bytes: 0 };
    assert_problem(wait_for_nobody, 1, stuck(2));
    assert_problem(wait_for_one_that_waits, 1, stuck(2));
    let problem = WarpProblem::MissingLanes { lanes: 1 << 3, instead: Instead::Returned };
    assert_fault(wait_for_one_that_is_stuck, &FaultKind::Warp { mask: warp::FULL_MASK, problem });
}

/// A bulk copy of one thread, in a launch of that thread alone.
///
/// # Safety
/// The places are valid.
#[kernel]
unsafe fn copy(source: *const u8, target: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        barrier(0).init(1);
        barrier(0).arrive_expect(bytes);
        async_copy::copy_bulk(RING.as_ptr().cast().add(target), source, bytes, barrier(0));
        barrier(0).wait(0);
    }
}

#[test]
fn bulk_copies_are_checked_like_loads_and_stores() {
    let mut memory = Memory::new();
    let source = memory.read_only("source", &[1u32; 40]).cast::<u8>();
    let unwritten = memory.uninitialised::<u8>("unwritten", 16);
    let mut run = |source: *const u8, target, bytes| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { copy(source, target, bytes) };
        Launch::new(1, 1).run(&mut memory, "copy", kernel).map_err(|fault| fault.kind)
    };
    let [read, write] = [Access::Read, Access::Write];
    let global = |buffer: &str, offset| Place { buffer: buffer.into(), offset, shared: false };
    let ring = |offset| Place { buffer: "RING".into(), offset, shared: true };
    assert_eq!(run(source, 0, 160), Ok(()));
    assert_eq!(run(source, 752, 16), Ok(()));
    assert_eq!(run(source, 0, 0), Ok(()));
    assert_eq!(run(source, 0, 24), Err(FaultKind::BulkSize { bytes: 24 }));
    let outcome = run(source.wrapping_add(8), 0, 16);
    assert_eq!(outcome, Err(FaultKind::Misaligned { access: read, bytes: 16, place: global("source", 8) }));
    assert_eq!(run(source, 4, 16), Err(FaultKind::Misaligned { access: write, bytes: 16, place: ring(4) }));
    let outcome = run(source, 0, 176);
    let (address, near) = (source.addr() as u64 + 160, Some((global("source", 160), 160)));
    assert_eq!(outcome, Err(FaultKind::OutOfBounds { access: read, bytes: 16, address, near }));
    let outcome = run(source, 752, 32);
    assert!(matches!(outcome, Err(FaultKind::OutOfBounds { access: Access::Write, bytes: 16, .. })), "{outcome:?}");
    let outcome = run(unwritten, 0, 16);
    assert_eq!(outcome, Err(FaultKind::Uninitialised { access: read, place: global("unwritten", 0) }));
}
