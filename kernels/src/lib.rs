//! The GPU kernels of conv-transpose.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use cuda_std::{kernel, thread};

/// Sets every value of a tensor.
///
/// # Safety
///
/// `target` is valid in GPU memory for writes of `count` values, which nothing else accesses meanwhile. The launch is
/// one-dimensional, with one thread or more for each value.
#[kernel(launch_bounds(256))]
pub unsafe fn fill(target: *mut f32, count: u32, value: f32) {
    let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if index < count {
        // SAFETY: the index is below `count`.
        unsafe { target.add(index as usize).write(value) };
    }
}
