//! Index arithmetic in 32 or 64 bits, and division by a number that is known before the launch.
//!
//! A GPU has no integer division: the compiler expands one to some twenty (32 bits) or seventy (64 bits) instructions.
//! By a fixed divisor it is a multiplication and a shift (Granlund and Montgomery, "Division by invariant integers
//! using multiplication", 1994). The 64-bit indices of very large tensors take the slow way.

use bytemuck::{Pod, Zeroable};
use cuda_std::{hint, math};

/// A divisor with its precomputed reciprocal.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Divisor {
    value: u64,
    multiplier: u32,
    shift: u32,
}

impl Divisor {
    /// Prepares division by `value`. Dividing by zero is division by one.
    pub fn new(value: u64) -> Self {
        let value = value.max(1);
        match u32::try_from(value) {
            Ok(narrow) if narrow <= 1 << 31 => {
                let shift = narrow.next_power_of_two().trailing_zeros();
                // The reciprocal's bits below 2^32, rounded up. It is below 2^32 because 2^shift < 2 * value, and 0 for a
                // power of two: what is multiplied by a constant 0 need not be computed.
                let multiplier = (((1u64 << shift) - value) << 32).div_ceil(value);
                Self { value, multiplier: multiplier as u32, shift }
            }
            // No 31-bit index reaches such a divisor, except with quotient 0: multiplier 0 and shift 31 give that.
            _ => Self { value, multiplier: 0, shift: 31 },
        }
    }

    /// What it divides by.
    #[cfg_attr(gpu, inline(always))]
    pub fn value(self) -> u64 {
        self.value
    }
}

/// An unsigned integer that counts elements of a tensor. Sums and differences wrap, so that a position before the first
/// one compares as larger than any extent.
pub trait Index: Copy + PartialOrd {
    /// The low bits of `value`.
    fn new(value: u64) -> Self;
    /// A signed quantity, in two's complement.
    fn from_signed(value: i64) -> Self;
    /// As an offset into memory.
    fn offset(self) -> usize;
    /// `self + other`, wrapping.
    fn plus(self, other: Self) -> Self;
    /// `self - other`, wrapping.
    fn minus(self, other: Self) -> Self;
    /// `self * other`, wrapping.
    fn times(self, other: Self) -> Self;
    /// The signed quantity that it stands for.
    fn signed(self) -> i64;
    /// Quotient and remainder. A 32-bit index must be below 2^31.
    fn divide(self, by: Divisor) -> (Self, Self);
    /// Whether it stands for a signed quantity below zero.
    #[cfg_attr(gpu, inline(always))]
    fn is_negative(self) -> bool {
        self.signed() < 0
    }
    /// The same, about which the compiler knows nothing ([`hint::opaque`]).
    fn opaque(self) -> Self;
}

impl Index for u32 {
    #[cfg_attr(gpu, inline(always))]
    fn new(value: u64) -> Self {
        value as u32
    }

    #[cfg_attr(gpu, inline(always))]
    fn from_signed(value: i64) -> Self {
        value as u32
    }

    #[cfg_attr(gpu, inline(always))]
    fn offset(self) -> usize {
        self as usize
    }

    #[cfg_attr(gpu, inline(always))]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn signed(self) -> i64 {
        self as i32 as i64
    }

    #[cfg_attr(gpu, inline(always))]
    fn divide(self, by: Divisor) -> (Self, Self) {
        let high = ((self as u64 * by.multiplier as u64) >> 32) as u32;
        let quotient = math::shift_right(high.wrapping_add(self), by.shift);
        (quotient, self.wrapping_sub(quotient.wrapping_mul(by.value as u32)))
    }

    #[cfg_attr(gpu, inline(always))]
    fn opaque(self) -> Self {
        hint::opaque(self)
    }
}

impl Index for u64 {
    #[cfg_attr(gpu, inline(always))]
    fn new(value: u64) -> Self {
        value
    }

    #[cfg_attr(gpu, inline(always))]
    fn from_signed(value: i64) -> Self {
        value as u64
    }

    #[cfg_attr(gpu, inline(always))]
    fn offset(self) -> usize {
        self as usize
    }

    #[cfg_attr(gpu, inline(always))]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    #[cfg_attr(gpu, inline(always))]
    fn signed(self) -> i64 {
        self as i64
    }

    #[cfg_attr(gpu, inline(always))]
    fn divide(self, by: Divisor) -> (Self, Self) {
        // `Divisor::new` never stores zero; without the hint the division would be checked.
        let quotient = self.checked_div(by.value).unwrap_or(self);
        (quotient, self.wrapping_sub(quotient.wrapping_mul(by.value)))
    }

    #[cfg_attr(gpu, inline(always))]
    fn opaque(self) -> Self {
        u64::from(hint::opaque((self >> 32) as u32)) << 32 | u64::from(hint::opaque(self as u32))
    }
}
