//! Where a thread is in its block and its grid, and the barrier of a block.

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
