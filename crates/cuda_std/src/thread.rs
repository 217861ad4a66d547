//! Where a thread is in its block and its grid, and the barriers of a block.
//!
//! A block has 16 barriers. Number 0 is [`sync_threads`]', which all threads wait at; the others serve any number of
//! its warps ([`sync_named`]), some of which may come there without waiting ([`arrive_named`]). So warps can divide the
//! work: those that bring data arrive where those that use it wait, and the other way round when the place is free
//! again.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident = $gpu:ident, $host:ident . $axis:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            #[must_use]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn $name() -> u32 {
                #[cfg(target_arch = "nvptx64")]
                {
                    // SAFETY: reading a special register has no requirements. The cast is for older compilers, whose
                    // intrinsics return i32.
                    unsafe { core::arch::nvptx::$gpu() as u32 }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    host::$host().$axis
                }
            }
        )*
    };
}

index! {
    /// The thread's position in its block along x, the axis along which threads share a warp.
    thread_idx_x = _thread_idx_x, thread_idx.x;
    /// The thread's position in its block along y.
    thread_idx_y = _thread_idx_y, thread_idx.y;
    /// The thread's position in its block along z.
    thread_idx_z = _thread_idx_z, thread_idx.z;
    /// The block's position in the grid along x.
    block_idx_x = _block_idx_x, block_idx.x;
    /// The block's position in the grid along y.
    block_idx_y = _block_idx_y, block_idx.y;
    /// The block's position in the grid along z.
    block_idx_z = _block_idx_z, block_idx.z;
    /// The number of threads in a block along x.
    block_dim_x = _block_dim_x, block_dim.x;
    /// The number of threads in a block along y.
    block_dim_y = _block_dim_y, block_dim.y;
    /// The number of threads in a block along z.
    block_dim_z = _block_dim_z, block_dim.z;
    /// The number of blocks in the grid along x.
    grid_dim_x = _grid_dim_x, grid_dim.x;
    /// The number of blocks in the grid along y.
    grid_dim_y = _grid_dim_y, grid_dim.y;
    /// The number of blocks in the grid along z.
    grid_dim_z = _grid_dim_z, grid_dim.z;
}

/// The thread's number in its block, counting along x first, then y, then z.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_in_block() -> u32 {
    (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x()
}

/// Waits for every thread of the block; what they wrote to shared and global memory before is visible afterwards.
///
/// # Safety
///
/// Every thread of the block that has not returned must come to the same call, or none may.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the other threads. An intrinsic and not assembly, because the optimiser moves
    // and copies assembly without regard to which threads reach it.
    unsafe {
        core::arch::nvptx::_syncthreads()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::sync_threads()
}

// Intrinsics and not assembly: LLVM knows that they are convergent, and that they concern all memory.
#[cfg(target_arch = "nvptx64")]
mod gpu {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
        pub(super) fn sync_named(barrier: u32, threads: u32);
        #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
        pub(super) fn arrive_named(barrier: u32, threads: u32);
    }
}

/// Waits at the block's barrier number `barrier` until `threads` threads have come to it, by this function or by
/// [`arrive_named`]; what they did in memory before is visible afterwards. Then the barrier is as new.
///
/// # Safety
///
/// `barrier` must be in 1..=15 and `threads` a multiple of 32. All lanes of the warp must come to the same call,
/// converged, and all warps that come to the barrier until it opens must give the same number of threads. A warp may
/// not come again before it has opened.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_named(barrier: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the barrier and the other threads.
    unsafe {
        gpu::sync_named(barrier, threads)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::sync_named(barrier, threads)
}

/// Comes to the block's barrier number `barrier` without waiting: what this thread did in memory before is visible to
/// those that wait there by [`sync_named`], after their wait. It says nothing about what others did.
///
/// # Safety
///
/// As for [`sync_named`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive_named(barrier: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the barrier and the other threads.
    unsafe {
        gpu::arrive_named(barrier, threads)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::arrive_named(barrier, threads)
}

/// Raises the number of registers of each thread of this warp to `REGISTERS`, and waits until that many are free. For
/// sm_90a. What the new ones hold is undefined. It does nothing on the host.
///
/// It is assembly, which LLVM does not know to be convergent: let no branch come before it that differs between the
/// lanes of a warp. The assembler heeds it only in kernels whose launch bounds fix the number of registers.
///
/// # Safety
///
/// `REGISTERS` must be a multiple of 8 in 24..=256 and no less than the warp has, and others must give back what it
/// takes. All warps of the warp group must come to the same call, converged, and synchronise before they change the
/// number again.
#[inline(always)]
pub unsafe fn set_registers_more<const REGISTERS: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the number and the other threads. Memory counts as changed, so that accesses stay
    // on their side of it.
    unsafe {
        core::arch::asm!(
            "setmaxnreg.inc.sync.aligned.u32 {registers};",
            registers = const REGISTERS,
            options(nostack, preserves_flags),
        )
    }
}

/// Lowers the number of registers of each thread of this warp to `REGISTERS`, for others to take by
/// [`set_registers_more`]. For sm_90a. It does nothing on the host.
///
/// # Safety
///
/// As for [`set_registers_more`], with `REGISTERS` no more than the warp has.
#[inline(always)]
pub unsafe fn set_registers_fewer<const REGISTERS: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: as in `set_registers_more`.
    unsafe {
        core::arch::asm!(
            "setmaxnreg.dec.sync.aligned.u32 {registers};",
            registers = const REGISTERS,
            options(nostack, preserves_flags),
        )
    }
}
