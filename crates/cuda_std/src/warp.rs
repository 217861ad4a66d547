//! The 32 threads of a warp: votes and the exchange of values between lanes, without memory.
//!
//! Each operation takes the mask of the lanes that take part. They are LLVM intrinsics rather than assembly: LLVM knows
//! that it must not move them into or out of divergent code.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;

/// The number of threads in a warp.
pub const WARP_SIZE: u32 = 32;

/// The mask of all lanes.
pub const FULL_MASK: u32 = u32::MAX;

/// A value that fits in the register that lanes exchange.
pub trait ShuffleValue: Copy + sealed::Bits {}

mod sealed {
    pub trait Bits {
        fn into_bits(self) -> u32;
        fn from_bits(bits: u32) -> Self;
    }
}

impl ShuffleValue for u32 {}

impl sealed::Bits for u32 {
    #[inline(always)]
    fn into_bits(self) -> u32 {
        self
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl ShuffleValue for f32 {}

impl sealed::Bits for f32 {
    #[inline(always)]
    fn into_bits(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        Self::from_bits(bits)
    }
}

/// The last lane that may be read: the whole warp is one segment.
#[cfg(target_arch = "nvptx64")]
const LAST_LANE: u32 = WARP_SIZE - 1;

#[cfg(target_arch = "nvptx64")]
mod gpu {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
        pub(super) safe fn lane_id() -> u32;
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub(super) fn sync_warp(mask: u32);
        #[link_name = "llvm.nvvm.vote.all.sync"]
        pub(super) fn vote_all(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.any.sync"]
        pub(super) fn vote_any(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub(super) fn vote_ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
        pub(super) fn shuffle_down(mask: u32, bits: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
        pub(super) fn shuffle_xor(mask: u32, bits: u32, lanes: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        pub(super) fn shuffle_idx(mask: u32, bits: u32, lane: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umax"]
        pub(super) fn reduce_max(value: u32, mask: u32) -> u32;
    }
}

/// The thread's number in its warp.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        gpu::lane_id()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        host::lane_id()
    }
}

/// The warp's number in its block.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_id() -> u32 {
    crate::thread::index_in_block() / WARP_SIZE
}

/// Waits for the lanes of `mask`; what they wrote to memory before is visible to each other afterwards.
///
/// # Safety
///
/// Every lane of `mask` must come to the same call with the same mask, and the calling lane must be in it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_warp(mask: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        gpu::sync_warp(mask)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::sync_warp(mask)
}

/// Whether `predicate` holds in every lane of `mask`.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        gpu::vote_all(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        host::ballot(mask, predicate) == mask
    }
}

/// Whether `predicate` holds in some lane of `mask`.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        gpu::vote_any(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        host::ballot(mask, predicate) != 0
    }
}

/// The lanes of `mask` in which `predicate` holds, as a mask.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        gpu::vote_ballot(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::ballot(mask, predicate)
}

/// The largest value of the lanes of `mask`. For sm_80 and later.
///
/// # Safety
///
/// As for [`sync_warp`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce_max(mask: u32, value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        gpu::reduce_max(value, mask)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::maximum(mask, value)
}

macro_rules! shuffle {
    ($($(#[$doc:meta])* $name:ident, $argument:ident, $gpu:ident, $source:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As for [`sync_warp`]; the lane that is read must be in `mask`.
            #[inline(always)]
            #[must_use]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn $name<T: ShuffleValue>(mask: u32, value: T, $argument: u32) -> T {
                let bits = value.into_bits();
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: the caller vouches for the lanes.
                let bits = unsafe { gpu::$gpu(mask, bits, $argument, LAST_LANE) };
                #[cfg(not(target_arch = "nvptx64"))]
                let bits = host::read_lane(mask, bits, $source);
                <T as sealed::Bits>::from_bits(bits)
            }
        )*
    };
}

shuffle! {
    /// The value of the lane `delta` places up; the last `delta` lanes get their own.
    warp_shuffle_down, delta, shuffle_down, lane_or_own(lane_id().saturating_add(delta));
    /// The value of the lane whose number differs from this lane's in the bits of `lanes`.
    warp_shuffle_xor, lanes, shuffle_xor, lane_or_own(lane_id() ^ lanes);
    /// The value of the lane `lane`, which may be another one for each caller; lane numbers wrap around at 32.
    warp_shuffle_idx, lane, shuffle_idx, lane % WARP_SIZE;
}

/// A lane that does not exist is replaced by the reader itself.
#[cfg(not(target_arch = "nvptx64"))]
fn lane_or_own(lane: u32) -> u32 {
    if lane < WARP_SIZE { lane } else { lane_id() }
}
