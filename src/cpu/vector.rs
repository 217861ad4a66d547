//! The SIMD vectors that the micro-kernel is written in: one trait, one type per instruction set.
//!
//! Every method is `inline(always)`, so that it is compiled with the instruction set of the function that it ends up
//! in, which names it in its `target_feature` attribute.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of `f32`.
pub(super) trait Vector: Copy {
    /// Number of elements.
    const LANES: usize;

    /// # Safety
    /// The processor must have the instruction set, and `LANES` elements must be readable at `from`.
    unsafe fn load(from: *const f32) -> Self;

    /// # Safety
    /// The processor must have the instruction set, and `LANES` elements must be writable at `to`.
    unsafe fn store(self, to: *mut f32);

    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn splat(value: f32) -> Self;

    /// `self * factor + addend`, rounded once where the instruction set can.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self;
}

/// Four lanes in plain Rust, which the compiler turns into the vectors that every machine of an architecture has.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises four readable elements; an array of `f32` may be unaligned here.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises four writable elements.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        // Without the instruction, `f32::mul_add` is a library call.
        let fused = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
        let lane = |i: usize| {
            if fused { self.0[i].mul_add(factor.0[i], addend.0[i]) } else { self.0[i] * factor.0[i] + addend.0[i] }
        };
        Self(std::array::from_fn(lane))
    }
}

/// Eight lanes, with AVX and FMA.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256);

#[cfg(target_arch = "x86_64")]
impl Vector for Avx2 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }
}

/// Sixteen lanes, with AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

#[cfg(target_arch = "x86_64")]
impl Vector for Avx512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: passed on to the caller.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }
}
