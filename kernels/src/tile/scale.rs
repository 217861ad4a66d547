//! Scale: the powers of two by which inputs and weights are multiplied before they become `f16`, and sums after that.
//!
//! An exponent follows from the largest finite magnitude among some values. Weights have one, which is found when they are packed: some blocks leave
//! the largest value that they find in the header of the packed weight. Inputs have one for each stage, see `stage/convert.rs` and `stage/measure.rs`.

use cuda_std::{hint, mem, warp};

use super::pack::WEIGHT_HEADER;

/// Values below this power of two are small enough: `f16` holds those below `2^16`, less half a unit in the last place.
const ABOVE: i32 = 15;

/// The largest value of a job is to be no less than half of this power of two: `f16` has all bits of values from `2^-14` on, and multiples of `2^-24` below.
const BELOW: i32 = 2;

/// Below which power of two an exponent brings the largest value.
const BEST: i32 = 6;

/// Exponents for which the power of two and its inverse are normal numbers.
const RANGE: (i32, i32) = (-126, 126);

/// An exponent of two.
#[derive(Clone, Copy)]
pub(super) struct Exponent {
    exponent: i32,
    /// Whether the values before were all zero, since it [began](Self::begin).
    is_free: bool,
}

impl PartialEq for Exponent {
    fn eq(&self, other: &Self) -> bool {
        self.exponent == other.exponent
    }
}

impl Exponent {
    /// That of one.
    pub(super) const NONE: Self = Self { exponent: 0, is_free: false };

    /// That of values around one, before there were any.
    pub(super) const START: Self = Self { exponent: BEST, is_free: true };

    /// The exponent for values of which the largest finite magnitude has these bits.
    #[inline(always)]
    pub(super) fn of_largest(bits: u32) -> Self {
        Self { exponent: (BEST - power_above(bits)).clamp(RANGE.0, RANGE.1), is_free: false }
    }

    /// The exponent that its bits say, without its sign.
    #[inline(always)]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self { exponent: bits as i32, is_free: false }
    }

    /// As a word.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.exponent as u32
    }

    /// A new job begins, whose values are as large as they are.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.is_free = true;
    }

    /// Takes further values into account, of which the largest finite magnitude has these bits. Whether that changes the exponent: because they would be too
    /// large otherwise, or too small, if they are the first ones.
    #[inline(always)]
    pub(super) fn adjust(&mut self, largest: u32) -> bool {
        let power = power_above(largest) + self.exponent;
        let is_small = self.is_free && largest > 0 && power < BELOW && self.exponent < RANGE.1;
        self.is_free &= largest == 0;
        let changes = power > ABOVE || is_small;
        if changes {
            *self = Self::of_largest(largest);
        }
        changes
    }

    /// The exponent of the quotient of two powers, or of the number that comes closest.
    #[inline(always)]
    pub(super) fn minus(self, other: Self) -> Self {
        Self { exponent: (self.exponent - other.exponent).clamp(RANGE.0, RANGE.1), is_free: false }
    }

    /// The exponent of the product of two powers, which may not be a number itself.
    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self { exponent: self.exponent + other.exponent, is_free: false }
    }
}

/// The exponent of the power of two above a magnitude with these bits, which is a normal number; that above the smallest normal one otherwise.
#[inline(always)]
fn power_above(bits: u32) -> i32 {
    (bits >> 23) as i32 - 126
}

/// Two to that power.
#[inline(always)]
pub(super) fn power_of_two(exponent: Exponent) -> f32 {
    f32::from_bits(((127 + exponent.exponent) as u32) << 23)
}

/// The power of two by which inputs are multiplied, if teams do that.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    power: f32,
    /// No bits, which the compiler does not know.
    none: u32,
}

impl Scale {
    /// One.
    pub(super) const NONE: Self = Self { power: 1.0, none: 0 };

    #[inline(always)]
    pub(super) fn new(exponent: Exponent) -> Self {
        // Exponents are between -127 and 127.
        Self { power: power_of_two(exponent), none: hint::opaque((exponent.exponent + 128) as u32) >> 8 }
    }

    /// A value, scaled.
    #[inline(always)]
    pub(super) fn of(&self, value: f32) -> f32 {
        value * self.power
    }

    /// The same word, computed anew: see `rounding.rs`.
    #[inline(always)]
    pub(super) fn again(&self, word: f32) -> f32 {
        f32::from_bits(word.to_bits() | self.none)
    }
}

/// The exponent of a weight whose packed form has this header.
///
/// # Safety
/// The header is complete; all lanes of the warp come here together.
#[inline(always)]
pub(super) unsafe fn of_weight(header: *const f32) -> Exponent {
    const EACH: u32 = WEIGHT_HEADER / 32;
    const { assert!(EACH == 4) };
    // SAFETY: the caller's promise; the header is aligned to 16 bytes, as all packed weights are.
    unsafe {
        let largest = mem::load_readonly(header.cast::<[u32; EACH as usize]>().add(warp::lane_id() as usize));
        Exponent::of_largest(warp::warp_reduce_max(u32::MAX, largest.into_iter().fold(0, u32::max)))
    }
}
