//! Tensor cores: products of small matrices that the lanes of a warp hold together, each lane a few elements of each.
//!
//! # Convergence
//!
//! These are assembly, which LLVM does not know to be convergent. They are marked as having side effects, so LLVM moves
//! them neither into branches nor out of them. It may still copy them into both ways of a branch that comes before,
//! unless a barrier, a shuffle or a vote stands in between. So let such branches be the same for the whole warp, or
//! synchronise after them.

#[cfg(not(target_arch = "nvptx64"))]
use crate::host;

/// The instruction of that name on a lane's words. Not `pure`: LLVM would move it to where the result is used.
#[cfg(target_arch = "nvptx64")]
macro_rules! mma {
    ($name:literal, $accumulators:ident, $a:ident, $b:ident) => {
        core::arch::asm!(
            concat!(
                $name,
                " {{{c0}, {c1}, {c2}, {c3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};"
            ),
            c0 = inout(reg32) $accumulators[0],
            c1 = inout(reg32) $accumulators[1],
            c2 = inout(reg32) $accumulators[2],
            c3 = inout(reg32) $accumulators[3],
            a0 = in(reg32) $a[0],
            a1 = in(reg32) $a[1],
            a2 = in(reg32) $a[2],
            a3 = in(reg32) $a[3],
            b0 = in(reg32) $b[0],
            b1 = in(reg32) $b[1],
            options(nomem, nostack, preserves_flags),
        )
    };
}

/// Adds a product of TF32 matrices to f32 accumulators: 16 rows, 8 columns, depth 8. For sm_80 and later.
///
/// TF32 has the exponent of f32 and 10 bits of fraction. The operands are f32 values of which the hardware ignores the
/// 13 lowest bits: it rounds towards zero. Products are exact. How often the sum of the products and the accumulator is
/// rounded is the hardware's affair; the emulator adds in f64 and rounds once.
///
/// Lane `4 * g + t`, with `t` below 4, holds these elements:
///
/// | operand | row | column |
/// |---|---|---|
/// | `a[0]`, `a[1]` | `g`, `g + 8` | `t` |
/// | `a[2]`, `a[3]` | `g`, `g + 8` | `t + 4` |
/// | `b[0]`, `b[1]` | `t`, `t + 4` | `g` |
/// | `accumulators[0]`, `accumulators[1]` | `g` | `2 * t`, `2 * t + 1` |
/// | `accumulators[2]`, `accumulators[3]` | `g + 8` | `2 * t`, `2 * t + 1` |
///
/// # Safety
///
/// All 32 lanes of the warp must come to the same call, converged: under no condition that differs between them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mma_m16n8k8_tf32(accumulators: &mut [f32; 4], a: [f32; 4], b: [f32; 2]) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        mma!("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", accumulators, a, b);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::multiply_tf32(accumulators, a, b)
}

/// Adds a product of half-precision matrices to f32 accumulators: 16 rows, 8 columns, depth 16. For sm_80 and later.
///
/// Each word of the operands holds two elements, as [`half::pack`](crate::half::pack) makes them: that of the lower row
/// or column in its low half. Products are exact. How often the sum of the products and the accumulator is rounded is
/// the hardware's affair; the emulator adds in f64 and rounds once.
///
/// Lane `4 * g + t`, with `t` below 4, holds these elements:
///
/// | operand | row | column |
/// |---|---|---|
/// | `a[0]`, `a[1]` | `g`, `g + 8` | `2 * t` and `2 * t + 1` |
/// | `a[2]`, `a[3]` | `g`, `g + 8` | `2 * t + 8` and `2 * t + 9` |
/// | `b[0]` | `2 * t` and `2 * t + 1` | `g` |
/// | `b[1]` | `2 * t + 8` and `2 * t + 9` | `g` |
/// | `accumulators[0]`, `accumulators[1]` | `g` | `2 * t`, `2 * t + 1` |
/// | `accumulators[2]`, `accumulators[3]` | `g + 8` | `2 * t`, `2 * t + 1` |
///
/// # Safety
///
/// As for [`mma_m16n8k8_tf32`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mma_m16n8k16_f16(accumulators: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes.
    unsafe {
        mma!("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", accumulators, a, b);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::multiply_f16(accumulators, a, b)
}

/// What the host has no body for, with and without the emulator.
#[cfg(not(target_arch = "nvptx64"))]
#[cold]
#[track_caller]
fn not_emulated(primitive: &str) -> ! {
    panic!("`{primitive}` is not emulated: it works on a GPU only")
}

/// Orders this warp's accesses to registers and shared memory before the warp group's products that follow. For sm_90a.
///
/// It is due before the first product, and whenever other instructions have changed the registers of one.
///
/// On the host it panics: warp groups are not emulated.
///
/// # Safety
///
/// All lanes of the four warps of the warp group must come to the same call, converged.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_arrive() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes. Memory counts as changed, so that stores stay before it.
    unsafe {
        core::arch::asm!("wgmma.fence.sync.aligned;", options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    not_emulated("warpgroup_arrive")
}

/// Closes the products that the warp group has started since it last did so into a group. For sm_90a.
///
/// On the host it panics: warp groups are not emulated.
///
/// # Safety
///
/// As for [`warpgroup_arrive`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes. Memory counts as changed, so that products stay on their side of it.
    unsafe {
        core::arch::asm!("wgmma.commit_group.sync.aligned;", options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    not_emulated("warpgroup_commit")
}

/// Waits for the warp group's groups of products, all but the `PENDING` newest ones. For sm_90a.
///
/// Until then the accumulators may not be touched, nor may what the products read from shared memory be overwritten.
/// The compiler does not know: registers that a pending product writes must go through each assembly block in between.
///
/// On the host it panics: warp groups are not emulated.
///
/// # Safety
///
/// As for [`warpgroup_arrive`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_wait<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller vouches for the lanes. Memory counts as changed, so that stores stay behind it.
    unsafe {
        core::arch::asm!(
            "wgmma.wait_group.sync.aligned {pending};",
            pending = const PENDING,
            options(nostack, preserves_flags),
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    not_emulated("warpgroup_wait")
}

/// Makes what this thread has written to shared memory visible to the units that read it by themselves: products of a
/// warp group, and bulk copies. For sm_90 and later.
///
/// On the host it panics: these units are not emulated.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_async_proxy() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no requirements. Memory counts as changed, so that stores stay before it.
    unsafe {
        core::arch::asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    not_emulated("fence_async_proxy")
}
