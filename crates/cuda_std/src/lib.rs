//! What GPU kernels in Rust need beyond `core`: threads, shared memory, warps, clusters, grids that follow each other,
//! atomics, wide memory access, half precision, asynchronous copies, memory barriers, tensor cores, hints to the
//! compiler.
//!
//! The names follow rust-cuda's `cuda_std`; the code is for rustc's own `nvptx64-nvidia-cuda` target. On the host the
//! same names exist with the same types, so that kernels are type-checked, documented and tested like any other code:
//! primitives have a second body for the host. With the feature `emulator`, kernels run there as they are written, and
//! their mistakes are reported: see the module `emulator`. Without it, those bodies panic that need a launch. Only on
//! the GPU there are the module `grid` and, of `async_copy`, copies of boxes and copies from shared memory: `copy_box`,
//! `store_box`, `store_bulk`, `commit_bulk_group` and `await_bulk_reads`.
//!
//! ```
//! use cuda_std::{kernel, thread};
//!
//! /// Sets `count` values.
//! ///
//! /// # Safety
//! ///
//! /// `target` is valid for writes of `count` values.
//! #[kernel(launch_bounds(256))]
//! pub unsafe fn fill(target: *mut f32, count: u32, value: f32) {
//!     let index = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
//!     if index < count {
//!         // SAFETY: the index is below `count`.
//!         unsafe { target.add(index as usize).write(value) };
//!     }
//! }
//! ```
//!
//! A crate of kernels starts with
//!
//! ```text
//! #![no_std]
//! #![cfg_attr(
//!     target_arch = "nvptx64",
//!     feature(abi_ptx, asm_experimental_arch)
//! )]
//! ```
#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, core_float_math, link_llvm_intrinsics, stdarch_nvptx),
    expect(
        internal_features,
        reason = "warp-wide operations must be LLVM intrinsics: they are marked convergent, assembly is not"
    )
)]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

pub mod async_copy;
pub mod atomic;
pub mod cluster;
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
pub mod emulator;
#[cfg(not(target_arch = "nvptx64"))]
pub mod entry;
#[cfg(target_arch = "nvptx64")]
pub mod grid;
pub mod half;
pub mod hint;
#[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulator")))]
mod host;
pub mod math;
pub mod mbarrier;
pub mod mem;
#[cfg(target_arch = "nvptx64")]
mod panic;
pub mod shared;
pub mod tensor_core;
pub mod thread;
pub mod warp;

pub use cuda_std_macros::kernel;

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
use emulator::primitives as host;

/// Stops the kernel with an error: the launch fails, and the context with it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn trap() -> ! {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no requirements.
    unsafe {
        core::arch::nvptx::trap()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::trap()
}

/// What the crate's macros expand to; nothing here is for direct use.
#[doc(hidden)]
pub mod macros {
    #[cfg(not(target_arch = "nvptx64"))]
    pub use core::alloc::Layout;

    #[cfg(not(target_arch = "nvptx64"))]
    pub use crate::entry::{Entry, argument};
    #[cfg(not(target_arch = "nvptx64"))]
    pub use crate::host::shared_array;
}
