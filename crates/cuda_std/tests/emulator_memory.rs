//! Mistakes with memory: each is reported as what it is and where, and its right twin passes.

use cuda_std::emulator::{Access, Dim3, Fault, FaultKind, Launch, Memory, Place, ReadError};
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::{atomic, kernel, mem, shared_array, thread};

fn global(buffer: &str, offset: i64) -> Place {
    Place { buffer: buffer.into(), offset, shared: false }
}

fn shared(buffer: &str, offset: i64) -> Place {
    Place { buffer: buffer.into(), offset, shared: true }
}

fn index() -> usize {
    (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x()) as usize
}

/// Adds one to each value; `count` is what the kernel believes.
///
/// # Safety
/// `input` and `output` are valid for `count` values.
#[kernel]
unsafe fn increment(input: *const f32, output: *mut f32, count: u32) {
    let index = index();
    if index < count as usize {
        // SAFETY: the index is below the count.
        unsafe { mem::store(output.add(index), mem::load_readonly(input.add(index)) + 1.0) };
    }
}

fn run_increment(inputs: usize, outputs: usize, count: u32) -> Result<Vec<f32>, Box<Fault>> {
    let mut memory = Memory::new();
    let input = memory.read_only("input", &vec![1.0f32; inputs]);
    let output = memory.uninitialised::<f32>("output", outputs);
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { increment(input, output, count) };
    Launch::new(3, 4).run(&mut memory, "increment", kernel)?;
    Ok(memory.values(output).unwrap())
}

#[test]
fn out_of_bounds_is_reported_and_in_bounds_is_not() {
    assert_eq!(run_increment(10, 10, 10).unwrap(), [2.0; 10]);
    let fault = run_increment(9, 10, 10).unwrap_err();
    let at = fault.thread.unwrap();
    assert_eq!((at.block, at.thread), (Dim3 { x: 2, y: 0, z: 0 }, Dim3 { x: 1, y: 0, z: 0 }));
    assert!(
        matches!(&fault.kind, FaultKind::OutOfBounds { access: Access::ReadOnlyLoad, bytes: 4, near: Some(near), .. }
        if *near == (global("input", 36), 36))
    );
    let fault = run_increment(10, 9, 10).unwrap_err();
    assert!(matches!(&fault.kind, FaultKind::OutOfBounds { access: Access::Write, near: Some(near), .. }
        if *near == (global("output", 36), 36)));
}

#[test]
fn a_report_is_readable() {
    let fault = run_increment(9, 10, 10).unwrap_err();
    let location = fault.location.unwrap();
    assert!(location.file().ends_with("emulator_memory.rs"));
    let expected = format!(
        "kernel `increment`, block (2, 0, 0), thread (1, 0, 0), at {location}:\n  \
         out of bounds: read-only load of 4 bytes at offset 36 of buffer `input`, which has 36 bytes"
    );
    assert_eq!(fault.to_string(), expected);
}

#[test]
fn null_and_wild_pointers_are_out_of_bounds() {
    let mut memory = Memory::new();
    let input = memory.read_only("input", &[0.0f32; 4]);
    let freed = memory.uninitialised::<f32>("freed", 4);
    assert!(memory.remove(freed) && !memory.remove(freed));
    for output in [core::ptr::null_mut(), freed] {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { increment(input, output, 4) };
        let fault = Launch::new(1, 4).run(&mut memory, "increment", kernel).unwrap_err();
        let FaultKind::OutOfBounds { access: Access::Write, near, .. } = &fault.kind else { panic!("{fault}") };
        assert!(near.is_none() || !output.is_null());
    }
}

#[test]
fn read_only_buffers_are_not_written() {
    let mut memory = Memory::new();
    let input = memory.read_only("input", &[0.0f32; 4]);
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { increment(input, input.cast_mut(), 4) };
    let fault = Launch::new(1, 4).run(&mut memory, "increment", kernel).unwrap_err();
    assert_eq!(fault.kind, FaultKind::ReadOnly { access: Access::Write, place: global("input", 0) });
    assert_eq!(memory.values(input).unwrap(), [0.0; 4]);
}

/// Counts threads, at some place.
///
/// # Safety
/// `counter` is valid for a number.
#[kernel]
unsafe fn count(counter: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { atomic::add_u32(counter, 1) };
}

#[test]
fn atomics_are_checked_like_stores() {
    let mut memory = Memory::new();
    let constant = memory.read_only("constant", &[0u32]);
    let unwritten = memory.uninitialised::<u32>("unwritten", 1);
    let counter = memory.read_write("counter", &[0u32, 0]);
    let mut run = |counter: *mut u32| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { count(counter) };
        Launch::new(2, 4).run(&mut memory, "count", kernel).map_err(|fault| fault.kind)
    };
    let access = Access::Atomic;
    assert_eq!(run(constant.cast_mut()), Err(FaultKind::ReadOnly { access, place: global("constant", 0) }));
    assert_eq!(run(unwritten), Err(FaultKind::Uninitialised { access, place: global("unwritten", 0) }));
    assert!(matches!(run(counter.wrapping_add(2)), Err(FaultKind::OutOfBounds { access: Access::Atomic, .. })));
    let place = global("counter", 1);
    assert_eq!(run(counter.wrapping_byte_add(1)), Err(FaultKind::Misaligned { access, bytes: 4, place }));
    assert_eq!(run(counter), Ok(()));
    assert_eq!(memory.values(counter).unwrap(), [8, 0]);
}

/// Copies four values at once, from some place.
///
/// # Safety
/// Both pointers are valid for four values, and aligned to them.
#[kernel]
unsafe fn copy_four(input: *const f32, output: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { mem::store(output.cast::<[f32; 4]>(), mem::load(input.cast::<[f32; 4]>())) };
}

#[test]
fn wide_accesses_must_be_aligned_to_their_size() {
    let mut memory = Memory::new();
    let input = memory.read_only("input", &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let output = memory.uninitialised::<f32>("output", 4);
    let mut run = |first: usize| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { copy_four(input.wrapping_add(first), output) };
        Launch::new(1, 1).run(&mut memory, "copy_four", kernel).map_err(|fault| fault.kind)
    };
    let misaligned = FaultKind::Misaligned { access: Access::Read, bytes: 16, place: global("input", 8) };
    assert_eq!(run(2), Err(misaligned));
    // Half of the access is within the buffer.
    assert!(matches!(run(6), Err(FaultKind::OutOfBounds { bytes: 16, .. })));
    assert_eq!(run(4), Ok(()));
    assert_eq!(memory.values(output).unwrap(), [4.0, 5.0, 6.0, 7.0]);
}

/// Doubles each value of a buffer that was to be filled before.
///
/// # Safety
/// `values` is valid for a value per thread.
#[kernel]
unsafe fn double(values: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let value = values.add(index());
        mem::store(value, 2.0 * mem::load(value));
    }
}

#[test]
fn global_memory_is_written_before_it_is_read() {
    let mut memory = Memory::new();
    let ones = memory.read_only("ones", &[1.0f32; 4]);
    let values = memory.uninitialised::<f32>("values", 4);
    // SAFETY: the emulator checks every access.
    let double = || unsafe { double(values) };
    let fault = Launch::new(1, 4).run(&mut memory, "double", double).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Uninitialised { access: Access::Read, place: global("values", 0) });
    // SAFETY: as above.
    let fill = || unsafe { increment(ones, values, 4) };
    Launch::new(1, 3).run(&mut memory, "increment", fill).unwrap();
    let fault = Launch::new(1, 4).run(&mut memory, "double", double).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Uninitialised { access: Access::Read, place: global("values", 12) });
    Launch::new(1, 4).run(&mut memory, "increment", fill).unwrap();
    Launch::new(1, 4).run(&mut memory, "double", double).unwrap();
    assert_eq!(memory.values(values).unwrap(), [4.0; 4]);
}

#[test]
fn results_that_nobody_wrote_cannot_be_read() {
    let mut memory = Memory::new();
    let ones = memory.read_only("ones", &[1.0f32; 4]);
    let values = memory.uninitialised::<f32>("values", 4);
    // SAFETY: the emulator checks every access.
    let fill = || unsafe { increment(ones, values, 3) };
    Launch::new(1, 4).run(&mut memory, "increment", fill).unwrap();
    let error = memory.values(values).unwrap_err();
    assert_eq!(error, ReadError::NeverWritten { buffer: "values".into(), offset: 12 });
    assert_eq!(memory.values(values.wrapping_add(1)), Err(ReadError::NoBuffer));
    assert!(matches!(memory.values(ones.cast::<[f32; 3]>()), Err(ReadError::Size { bytes: 16, .. })));
}

/// Writes a buffer in the first block, and loads it as constant in the second.
///
/// # Safety
/// `table` is valid for two values.
#[kernel]
unsafe fn change_constant(table: *mut f32, loaded: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if thread::block_idx_x() == 0 {
            mem::store(table, 1.0);
        } else {
            let _: f32 = mem::load_readonly(table.add(loaded as usize));
        }
    }
}

#[test]
fn what_is_loaded_as_constant_does_not_change() {
    for seed in 0..10 {
        let mut memory = Memory::new();
        let table = memory.read_write("table", &[0.0f32; 2]);
        let launch = Launch::new(2, 1).seed(seed);
        // SAFETY: the emulator checks every access.
        let wrong = || unsafe { change_constant(table, 0) };
        let fault = launch.run(&mut memory, "change_constant", wrong).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::NotConstant { .. }), "{fault}");
        // SAFETY: as above.
        let right = || unsafe { change_constant(table, 1) };
        launch.run(&mut memory, "change_constant", right).unwrap();
    }
}

shared_array! {
    static FIRST: [f32; 32];
}

shared_array! {
    static SECOND: [f32; 32];
}

/// Passes values through shared memory, where thread 0 reads number `last`.
///
/// # Safety
/// `last` is below 32, and all 32 threads take part.
#[kernel]
unsafe fn pass_on(last: u32, output: *mut f32) {
    let thread = thread::thread_idx_x();
    // SAFETY: the caller's promise.
    unsafe {
        SECOND.as_ptr().add(thread).store(0.0);
        FIRST.as_ptr().add(thread).store(thread as f32);
        thread::sync_threads();
        if thread == 0 {
            mem::store(output, FIRST.as_ptr().add(last).load());
        }
    }
}

fn run_pass_on(threads: u32, last: u32) -> Result<f32, FaultKind> {
    let mut memory = Memory::new();
    let output = memory.uninitialised::<f32>("output", 1);
    // SAFETY: the emulator checks every access.
    let kernel = || unsafe { pass_on(last, output) };
    Launch::new(1, threads).run(&mut memory, "pass_on", kernel).map_err(|fault| fault.kind)?;
    Ok(memory.values(output).unwrap()[0])
}

#[test]
fn shared_arrays_have_bounds() {
    assert_eq!(run_pass_on(32, 31), Ok(31.0));
    let fault = run_pass_on(32, 32).unwrap_err();
    assert!(matches!(fault, FaultKind::OutOfBounds { access: Access::Read, near: Some(near), .. }
        if near == (shared("FIRST", 128), 128)));
}

#[test]
fn shared_memory_is_written_before_it_is_read() {
    let fault = run_pass_on(16, 31).unwrap_err();
    assert_eq!(fault, FaultKind::Uninitialised { access: Access::Read, place: shared("FIRST", 124) });
    assert_eq!(run_pass_on(16, 15), Ok(15.0));
}

/// Block 0 writes shared memory; every block from `first_reader` on reads it.
///
/// # Safety
/// Blocks have one thread, and do not read what another block wrote.
#[kernel]
unsafe fn across_blocks(first_reader: u32) {
    let block = thread::block_idx_x();
    // SAFETY: the caller's promise.
    unsafe {
        if block < first_reader {
            FIRST.as_ptr().store(1.0);
        }
        let _ = FIRST.as_ptr().load();
    }
}

#[test]
fn shared_memory_does_not_outlive_its_block() {
    let run = |first_reader| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { across_blocks(first_reader) };
        Launch::new(2, 1).run(&mut Memory::new(), "across_blocks", kernel).map_err(|fault| fault.kind)
    };
    assert_eq!(run(1), Err(FaultKind::Uninitialised { access: Access::Read, place: shared("FIRST", 0) }));
    assert_eq!(run(2), Ok(()));
}

/// Writes and reads dynamic shared memory at byte `offset`, two values at once.
///
/// # Safety
/// There are eight bytes at `offset`, which is a multiple of eight.
#[kernel]
unsafe fn dynamic(offset: u32) {
    let place = SharedPtr::<[f32; 2]>::from_address(dynamic_shared_mem::<u32>().address() + offset);
    // SAFETY: the caller's promise.
    unsafe {
        place.store([1.0, 2.0]);
        assert_eq!(place.load(), [1.0, 2.0]);
    }
}

#[test]
fn dynamic_shared_memory_has_the_extent_of_the_launch() {
    let run = |offset| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { dynamic(offset) };
        Launch::new(1, 1).shared_bytes(64).run(&mut Memory::new(), "dynamic", kernel).map_err(|fault| fault.kind)
    };
    assert_eq!(run(56), Ok(()));
    assert!(matches!(run(60), Err(FaultKind::OutOfBounds { near: Some((_, 64)), .. })));
    let place = shared("dynamic", 4);
    assert_eq!(run(4), Err(FaultKind::Misaligned { access: Access::Write, bytes: 8, place }));
}

shared_array! {
    static LARGE: [f32; 8000];
}

shared_array! {
    static TOO_LARGE: [f32; 4300];
}

/// Uses one large array, or two.
///
/// # Safety
/// There is room for both.
#[kernel]
unsafe fn fill_static(both: u32) {
    let _ = LARGE.as_ptr();
    if both != 0 {
        let _ = TOO_LARGE.as_ptr();
    }
}

#[test]
fn static_shared_memory_is_limited() {
    let run = |both| {
        // SAFETY: the emulator checks every access.
        let kernel = || unsafe { fill_static(both) };
        Launch::new(1, 1).run(&mut Memory::new(), "fill_static", kernel).map_err(|fault| fault.kind)
    };
    assert_eq!(run(0), Ok(()));
    assert_eq!(run(1), Err(FaultKind::SharedMemory { array: "TOO_LARGE", bytes: 49200 }));
}
