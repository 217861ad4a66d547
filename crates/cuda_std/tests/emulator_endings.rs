//! How launches end other than by all threads returning, and that the next one does not notice.

use std::cell::Cell;
use std::rc::Rc;

use cuda_std::emulator::{FaultKind, Launch, Memory};
use cuda_std::{kernel, mem, thread};

fn run(launch: &Launch, kernel: impl Fn()) -> Result<(), FaultKind> {
    launch.run(&mut Memory::new(), "kernel", kernel).map_err(|fault| fault.kind)
}

/// Panics where the block is too large, with the thread's number.
///
/// # Safety
/// None.
#[kernel]
unsafe fn at_most(threads: u32) {
    let thread = thread::thread_idx_x();
    assert!(thread < threads, "thread {thread} is too many");
}

#[test]
fn a_panic_becomes_a_fault_with_its_message() {
    // SAFETY: the kernel asks for nothing.
    let kernel = || unsafe { at_most(4) };
    assert_eq!(run(&Launch::new(2, 4), kernel), Ok(()));
    let fault = Launch::new(2, 5).run(&mut Memory::new(), "at_most", kernel).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Panic { message: "thread 4 is too many".into() });
    assert_eq!(fault.thread.unwrap().thread.x, 4);
}

/// Stops where the block is too large.
///
/// # Safety
/// None.
#[kernel]
unsafe fn trap_beyond(threads: u32) {
    if thread::thread_idx_x() >= threads {
        cuda_std::trap();
    }
}

#[test]
fn a_trap_is_a_fault() {
    // SAFETY: the kernel asks for nothing.
    let kernel = || unsafe { trap_beyond(4) };
    assert_eq!(run(&Launch::new(1, 4), kernel), Ok(()));
    assert_eq!(run(&Launch::new(1, 5), kernel), Err(FaultKind::Trap));
}

/// Waits for a value to change that nobody changes, at most so many times.
///
/// # Safety
/// `flag` is valid for a number.
#[kernel]
unsafe fn wait_for(flag: *const u32, attempts: u64) {
    let mut attempt = 0;
    // SAFETY: the caller's promise.
    while attempt < attempts && unsafe { mem::load(flag) } == 0 {
        attempt += 1;
    }
}

#[test]
fn a_kernel_that_does_not_end_is_stopped() {
    let mut memory = Memory::new();
    let flag = memory.read_only("flag", &[0u32]);
    let mut run = |launch: Launch, attempts| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { wait_for(flag, attempts) };
        launch.run(&mut memory, "wait_for", kernel).map_err(|fault| fault.kind)
    };
    let launch = Launch::new(1, 2).step_limit(1000);
    assert_eq!(run(launch.clone(), 1000), Ok(()));
    assert_eq!(run(launch, u64::MAX), Err(FaultKind::StepLimit { steps: 1000 }));
    assert_eq!(run(Launch::new(1, 1), u64::MAX), Err(FaultKind::StepLimit { steps: 1 << 24 }));
}

#[test]
fn impossible_launches_are_refused() {
    let refused = |launch: Launch| matches!(run(&launch, || ()), Err(FaultKind::Refused { .. }));
    assert!(!refused(Launch::new((70_000, 1, 1), 1)));
    assert!(!refused(Launch::new(1, (32, 16, 2)).shared_bytes(227 * 1024)));
    assert!(refused(Launch::new(0, 1)));
    assert!(refused(Launch::new((u32::MAX, 2), 1)));
    assert!(!refused(Launch::new((1, 65_535), 1)));
    assert!(refused(Launch::new((1, 65_536), 1)));
    assert!(refused(Launch::new((1, 1, 65_536), 1)));
    assert!(refused(Launch::new(1, (32, 0))));
    assert!(refused(Launch::new(1, 1025)));
    assert!(refused(Launch::new(1, 1).shared_bytes(227 * 1024 + 1)));
    // SAFETY: it is refused before the kernel could run.
    let without_arguments = unsafe { Launch::new(1, 1).run_entry(&mut Memory::new(), &AT_MOST_ENTRY, &[]) };
    assert!(matches!(without_arguments.unwrap_err().kind, FaultKind::Refused { .. }));
}

#[test]
fn a_kernel_launches_no_other() {
    let inner = Cell::new(None);
    let outer = run(&Launch::new(1, 1), || inner.set(Some(run(&Launch::new(1, 1), || ()))));
    assert_eq!(outer, Ok(()));
    assert!(matches!(inner.take(), Some(Err(FaultKind::Refused { .. }))));
}

#[test]
#[should_panic(expected = "device code called outside a kernel launch")]
fn there_is_no_thread_outside_a_launch() {
    let _ = thread::thread_idx_x();
}

#[test]
fn a_fault_drops_what_the_threads_hold() {
    let held = Rc::new(());
    let fault = run(&Launch::new(1, 100), || {
        let _mine = Rc::clone(&held);
        if thread::thread_idx_x() == 99 {
            cuda_std::trap();
        }
        // SAFETY: the fault comes first.
        unsafe { thread::sync_threads() };
    });
    assert_eq!(fault, Err(FaultKind::Trap));
    assert_eq!(Rc::strong_count(&held), 1);
    assert_eq!(run(&Launch::new(1, 100), || ()), Ok(()));
}

#[test]
fn the_memory_keeps_its_content_after_a_fault() {
    let mut memory = Memory::new();
    let values = memory.read_write("values", &[0.0f32; 4]);
    let kernel = || {
        let value = values.wrapping_add(thread::thread_idx_x() as usize);
        // SAFETY: the emulator checks every access.
        unsafe { mem::store(value, 1.0) };
    };
    assert!(Launch::new(1, 5).run(&mut memory, "fill", kernel).is_err());
    assert_eq!(memory.values(values).unwrap(), [1.0; 4]);
}

#[test]
fn launches_on_several_host_threads_do_not_meet() {
    let run_many = || (0..50).all(|_| run(&Launch::new(4, 64), || pass_barriers(3)).is_ok());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run_many)).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

fn pass_barriers(count: usize) {
    for _ in 0..count {
        // SAFETY: every thread comes to it.
        unsafe { thread::sync_threads() };
    }
}
