//! Signatures that are kernels.

use cuda_std_macros::kernel;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Extent {
    pub width: u32,
    pub height: u32,
}

const THREADS: u32 = 128;

/// No parameters at all.
#[kernel]
pub unsafe fn nothing() {}

/// Pointers, numbers and plain structures.
#[kernel]
pub unsafe fn fill(target: *mut f32, source: *const [f32; 4], extent: Extent, mut count: u32) {
    count += extent.width;
    let _ = (target, source, count);
}

/// Launch bounds are constant expressions.
#[kernel(launch_bounds(2 * THREADS, 2))]
pub unsafe fn bounded() {}

/// The second bound may be left out.
#[kernel(launch_bounds(THREADS))]
pub unsafe fn bounded_threads() {}

fn main() {
    // On the host, a kernel is the function as it was written.
    let host: unsafe fn(*mut f32, *const [f32; 4], Extent, u32) = fill;
    let _ = host;
    unsafe { nothing() };

    // Beside it stands its entry.
    assert_eq!(FILL_ENTRY.name, "fill");
    assert_eq!(FILL_ENTRY.parameters[2], std::alloc::Layout::new::<Extent>());
    unsafe { (NOTHING_ENTRY.call)(std::ptr::null()) };
}
