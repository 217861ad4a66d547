//! Named barriers: warps that divide the work through a ring of slots run as they should; what they forget to wait for
//! is reported, whatever the order in which the emulator makes the accesses.

use cuda_std::emulator::{FaultKind, Launch, Memory, NamedBarrierProblem, WarpProblem};
use cuda_std::{async_copy, kernel, mem, shared_array, thread, warp};

const SLOTS: u32 = 3;
const PRODUCERS: u32 = 64;
const CONSUMERS: u32 = 128;
const ALL: u32 = PRODUCERS + CONSUMERS;
const ROUNDS: u32 = 8;

/// The barriers at which slots are full and empty.
const FULL: u32 = 1;
const EMPTY: u32 = FULL + SLOTS;

/// The barrier of the consumers alone.
const AMONG_CONSUMERS: u32 = 15;

shared_array! {
    static RING: [u32; 192];
}

shared_array! {
    static SUMS: [u32; 128];
}

/// What to do wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mistakes {
    refill_at_once: bool,
    read_at_once: bool,
    arrive_before_copies: bool,
    full_count: u32,
    missing_release: bool,
    no_consumer_barrier: bool,
}

/// The natural order, and random ones.
fn orders(blocks: u32, threads: u32) -> impl Iterator<Item = Launch> {
    let launch = move || Launch::new(blocks, threads);
    [launch()].into_iter().chain((0..20).map(move |seed| launch().seed(seed)))
}

/// The first two warps bring `ROUNDS` times 64 words through a ring; each of the other threads adds up two words of
/// each round, those that several warps read among them, and finally another thread's sum to its own.
///
/// # Safety
/// `source` is valid for `ROUNDS * 64` words, `sums` for 128 of each block.
#[kernel]
unsafe fn ring(source: *const u32, sums: *mut u32, mistakes: Mistakes) {
    let thread = thread::thread_idx_x();
    let full_count = ALL + mistakes.full_count;
    let slot = |round: u32| RING.as_ptr().add(round % SLOTS * PRODUCERS);
    // SAFETY: right, or wrong on purpose.
    unsafe {
        if thread < PRODUCERS {
            for round in 0..ROUNDS {
                if round >= SLOTS && !mistakes.refill_at_once {
                    thread::sync_named(EMPTY + round % SLOTS, ALL);
                }
                let word = source.add((round * PRODUCERS + thread) as usize);
                async_copy::copy_4(slot(round).add(thread), word, true);
                async_copy::commit_group();
                if !mistakes.arrive_before_copies {
                    async_copy::wait_group::<0>();
                }
                thread::arrive_named(FULL + round % SLOTS, full_count);
            }
            async_copy::wait_group::<0>();
            return;
        }
        let consumer = thread - PRODUCERS;
        let mut sum = 0;
        for round in 0..ROUNDS {
            if !mistakes.read_at_once {
                thread::sync_named(FULL + round % SLOTS, ALL);
            }
            sum += slot(round).add(consumer % PRODUCERS).load() + slot(round).add(7).load();
            // The last rounds' slots are not filled again.
            if round + SLOTS < ROUNDS && !(mistakes.missing_release && warp::warp_id() == 3) {
                thread::arrive_named(EMPTY + round % SLOTS, ALL);
            }
        }
        SUMS.as_ptr().add(consumer).store(sum);
        if !mistakes.no_consumer_barrier {
            thread::sync_named(AMONG_CONSUMERS, CONSUMERS);
        }
        let sum = sum + SUMS.as_ptr().add((consumer + 40) % CONSUMERS).load();
        mem::store(sums.add((thread::block_idx_x() * CONSUMERS + consumer) as usize), sum);
    }
}

/// What the ring does in many orders.
fn outcomes(mistakes: Mistakes) -> Vec<Result<(), FaultKind>> {
    let source: Vec<u32> = (0..ROUNDS * PRODUCERS).map(|index| index * index % 101).collect();
    let sum = |consumer: u32| -> u32 {
        let word = |round: u32, index: u32| source[(round * PRODUCERS + index) as usize];
        (0..ROUNDS).map(|round| word(round, consumer % PRODUCERS) + word(round, 7)).sum()
    };
    let expected: Vec<u32> =
        (0..2 * CONSUMERS).map(|index| sum(index % CONSUMERS) + sum((index + 40) % CONSUMERS)).collect();
    let run = |launch: Launch| {
        let mut memory = Memory::new();
        let source = memory.read_only("source", &source);
        let sums = memory.uninitialised("sums", 2 * CONSUMERS as usize);
        // SAFETY: the emulator checks every access.
        launch.run(&mut memory, "ring", || unsafe { ring(source, sums, mistakes) }).map_err(|fault| fault.kind)?;
        assert_eq!(memory.values(sums).unwrap(), expected);
        Ok(())
    };
    orders(2, ALL).map(run).collect()
}

fn is_unordered(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Race { .. } | FaultKind::CopyPending { .. } | FaultKind::Uninitialised { .. })
}

#[test]
fn a_ring_between_warps_runs() {
    for outcome in outcomes(Mistakes::default()) {
        assert_eq!(outcome, Ok(()));
    }
}

#[test]
fn a_slot_that_is_filled_again_too_early_is_reported() {
    let outcomes = outcomes(Mistakes { refill_at_once: true, ..Mistakes::default() });
    assert!(matches!(outcomes[0], Err(FaultKind::Race { .. })), "{:?}", outcomes[0]);
    for outcome in outcomes {
        // A producer that is far ahead comes twice before consumers come once.
        let twice = FaultKind::NamedBarrier { barrier: FULL, problem: NamedBarrierProblem::CameTwice };
        let kind = outcome.unwrap_err();
        assert!(is_unordered(&kind) || kind == twice, "{kind:?}");
    }
}

#[test]
fn data_that_is_not_waited_for_is_reported() {
    let mistakes = Mistakes::default();
    for mistakes in [
        Mistakes { read_at_once: true, ..mistakes },
        Mistakes { arrive_before_copies: true, ..mistakes },
        Mistakes { no_consumer_barrier: true, ..mistakes },
    ] {
        for outcome in outcomes(mistakes) {
            assert!(outcome.as_ref().is_err_and(is_unordered), "{mistakes:?}: {outcome:?}");
        }
    }
}

#[test]
fn barriers_that_too_few_come_to_are_reported() {
    let stuck = |barrier, came, threads| {
        Err(FaultKind::NamedBarrier { barrier, problem: NamedBarrierProblem::Stuck { came, threads } })
    };
    for outcome in outcomes(Mistakes { missing_release: true, ..Mistakes::default() }) {
        assert_eq!(outcome, stuck(EMPTY, 160, ALL));
    }
    let expected = "named barrier 4: waits for ever: 160 threads of 192 have come";
    assert_eq!(stuck(EMPTY, 160, ALL).unwrap_err().to_string(), expected);
    for outcome in outcomes(Mistakes { full_count: 32, ..Mistakes::default() }) {
        let Err(FaultKind::NamedBarrier { problem, .. }) = outcome else { panic!("{outcome:?}") };
        let other = NamedBarrierProblem::OtherCount { threads: ALL, others: ALL + 32 };
        let reverse = NamedBarrierProblem::OtherCount { threads: ALL + 32, others: ALL };
        assert!(problem == other || problem == reverse, "{problem:?}");
    }
}

/// Runs a kernel with two blocks of 128 threads, in many orders.
fn simple(kernel: unsafe fn()) -> Vec<Result<(), FaultKind>> {
    let run = |launch: Launch| {
        // SAFETY: the emulator checks every access.
        launch.run(&mut Memory::new(), "kernel", || unsafe { kernel() }).map_err(|fault| fault.kind)
    };
    orders(2, 128).map(run).collect()
}

fn assert_right(kernel: unsafe fn()) {
    for outcome in simple(kernel) {
        assert_eq!(outcome, Ok(()));
    }
}

fn assert_race(kernel: unsafe fn()) {
    for outcome in simple(kernel) {
        assert!(matches!(outcome, Err(FaultKind::Race { .. })), "{outcome:?}");
    }
}

/// Kernels of 128 threads, told by the warp and a word that has been written.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = |$warp:ident, $word:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// None of these is safe to launch on a GPU.
            #[kernel]
            unsafe fn $name() {
                let $warp = warp::warp_id();
                let $word = SUMS.as_ptr();
                // SAFETY: right, or wrong on purpose.
                unsafe {
                    if thread::thread_idx_x() == 0 {
                        $word.store(1);
                    }
                    thread::sync_threads();
                    $body
                }
            }
        )*
    };
}

/// Whether this is the first lane of its warp.
fn leads() -> bool {
    warp::lane_id() == 0
}

kernels! {
    /// All read, and one writes when all others have arrived; that the first reads come before the launch's first named
    /// barrier does not matter.
    write_after_all_have_read = |warp, word| {
        for writer in 0..3 {
            let _ = word.load();
            if warp == writer {
                thread::sync_named(writer + 1, 128);
                if leads() {
                    word.store(2);
                }
            } else {
                thread::arrive_named(writer + 1, 128);
            }
            thread::sync_named(9, 128);
        }
    }
    /// Of the warps that read, one is not waited for: not the last to read.
    write_before_one_has_read = |warp, word| {
        thread::sync_named(9, 128);
        let _ = word.load();
        if warp == 1 {
            thread::sync_named(1, 96);
            if leads() {
                word.store(2);
            }
        } else if warp != 0 {
            thread::arrive_named(1, 96);
        }
    }
    /// Warp 0 tells warp 1, which tells warp 2.
    order_is_passed_on = |warp, word| {
        match warp {
            0 => {
                if leads() {
                    word.store(2);
                }
                thread::arrive_named(1, 64);
            }
            1 => {
                thread::sync_named(1, 64);
                thread::arrive_named(2, 64);
            }
            2 => {
                thread::sync_named(2, 64);
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// Warp 1 tells warp 2 before it has heard of warp 0.
    order_is_passed_on_too_early = |warp, word| {
        match warp {
            0 => {
                if leads() {
                    word.store(2);
                }
                thread::arrive_named(1, 64);
            }
            1 => {
                thread::arrive_named(2, 64);
                thread::sync_named(1, 64);
            }
            2 => {
                thread::sync_named(2, 64);
                let _ = word.load();
            }
            _ => {}
        }
    }
    /// Those that do not wait know nothing.
    arrive_and_read = |warp, word| {
        if warp == 0 {
            if leads() {
                word.store(2);
            }
            thread::sync_named(1, 64);
        } else if warp == 1 {
            thread::arrive_named(1, 64);
            let _ = word.load();
        }
    }
    /// What comes after the arrival is not part of it.
    write_after_arrival = |warp, word| {
        if warp == 0 {
            thread::arrive_named(1, 64);
            if leads() {
                word.store(2);
            }
        } else if warp == 1 {
            thread::sync_named(1, 64);
            let _ = word.load();
        }
    }
    /// Lanes that wait together are ordered.
    lanes_after_waiting = |warp, word| {
        if warp < 2 {
            if warp == 0 && leads() {
                word.store(2);
            }
            thread::sync_named(1, 64);
            let _ = word.load();
        }
    }
    /// Lanes that arrive together are not.
    lanes_after_arriving = |warp, word| {
        if warp == 0 {
            if leads() {
                word.store(2);
            }
            thread::arrive_named(1, 64);
            let _ = word.load();
        } else if warp == 1 {
            thread::sync_named(1, 64);
        }
    }
    /// What nobody waits for is forgotten with the block.
    leave_arrivals_behind = |warp, _word| {
        if warp < 2 {
            thread::arrive_named(1, 96);
        }
    }
    /// Named barriers and that of the block.
    across_epochs = |warp, word| {
        if warp == 0 {
            thread::arrive_named(1, 64);
        }
        let _ = word.load();
        thread::sync_threads();
        if warp == 3 && leads() {
            word.store(2);
        }
        thread::sync_threads();
        if warp == 1 {
            thread::sync_named(1, 64);
        }
        let _ = word.load();
    }
    /// A barrier that does not exist.
    sixteenth = |_warp, _word| {
        thread::sync_named(16, 128);
    }
    /// The barrier of the block has no name.
    zeroth = |_warp, _word| {
        thread::arrive_named(0, 128);
    }
    /// Half a warp.
    half = |_warp, _word| {
        thread::sync_named(1, 48);
    }
    /// Only one lane of each warp comes.
    one_lane = |_warp, _word| {
        if leads() {
            thread::sync_named(1, 128);
        }
    }
    /// One warp waits at the barrier of the block, the others at a named one.
    two_kinds = |warp, _word| {
        if warp == 0 {
            thread::sync_threads();
        } else {
            thread::sync_named(1, 128);
        }
    }
}

#[test]
fn those_that_wait_are_after_those_that_came() {
    assert_right(write_after_all_have_read);
    assert_right(order_is_passed_on);
    assert_right(lanes_after_waiting);
    assert_right(leave_arrivals_behind);
    assert_right(across_epochs);
}

#[test]
fn nothing_else_is_ordered() {
    assert_race(write_before_one_has_read);
    assert_race(order_is_passed_on_too_early);
    assert_race(arrive_and_read);
    assert_race(write_after_arrival);
    assert_race(lanes_after_arriving);
}

#[test]
fn calls_that_cannot_be_right_are_reported() {
    let assert_problem = |kernel, barrier, problem| {
        for outcome in simple(kernel) {
            assert_eq!(outcome, Err(FaultKind::NamedBarrier { barrier, problem }));
        }
    };
    assert_problem(sixteenth, 16, NamedBarrierProblem::NoSuchBarrier);
    assert_problem(zeroth, 0, NamedBarrierProblem::NoSuchBarrier);
    assert_problem(half, 1, NamedBarrierProblem::NotWholeWarps { threads: 48 });
    assert_problem(two_kinds, 1, NamedBarrierProblem::Stuck { came: 96, threads: 128 });
    for outcome in simple(one_lane) {
        let Err(FaultKind::Warp { problem: WarpProblem::MissingLanes { lanes, .. }, .. }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(lanes, 0xffff_fffe);
    }
}

#[test]
fn registers_are_nothing_to_the_host() {
    // SAFETY: nothing happens.
    unsafe {
        thread::set_registers_fewer::<24>();
        thread::set_registers_more::<240>();
    }
}
