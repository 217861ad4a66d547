//! An allocator that counts what each thread holds, and refuses what no test may ask for.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The largest piece of memory that anything may ask for; beyond it the program ends with "memory allocation failed".
const LARGEST: usize = 1 << 30;

/// The system's allocator, with counts.
pub struct Counting;

thread_local! {
    /// Bytes that this thread allocated, less those that it freed; pieces may be freed elsewhere.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that it held since the last reset.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let held = HELD.get().wrapping_add(bytes);
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: all work is the system allocator's; a refused request is a null pointer, as the trait demands.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise; the piece is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The result of some work, and the most bytes that this thread held at once during it, beyond what it held before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().wrapping_sub(before) as usize)
}
