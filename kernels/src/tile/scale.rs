//! Scale: the powers of two by which inputs and weights are multiplied before they become `f16`, and sums after that.
//!
//! An exponent follows from the largest finite magnitude among some values. Weights have one, which is found when they
//! are packed: some blocks leave the largest value that they find in the header of the packed weight. Packed inputs
//! have one for each sample, see `packing_grids.rs`; others one for each stage, see `stage/measure.rs`, and those of
//! patch kernels one for each tile, see `patch/verdict.rs`.

use cuda_std::{hint, mem, warp};

use super::{
    fragment::position, pack::WEIGHT_HEADER, parameters::Tiling, ring::weight_exponent, rounding::Again,
    stage::Operands,
};
use crate::index::Index;

/// Values below this power of two are small enough: `f16` holds those below `2^16`, less half a unit in the last place.
const ABOVE: i32 = 15;

/// The largest value of a job or a sample is to be no less than half of this power of two: `f16` has all bits of values
/// from `2^-14` on, and multiples of `2^-24` below.
const BELOW: i32 = 2;

/// Below which power of two an exponent brings the largest value: others that it is for may be larger.
const BEST: i32 = 6;

/// The same of values that are split: none is larger, and large parts are cut off, so that they are numbers. The higher
/// it is, the more of the others' small parts have all their bits.
const BEST_OF_SPLIT: i32 = 16;

/// The largest value of a sample or a stage is to be no less than half of this power of two, if values are split.
const BELOW_OF_SPLIT: i32 = 12;

/// The same of a tile of patch kernels, which would have to be computed again.
const BELOW_OF_SPLIT_JOB: i32 = 9;

/// Values around one, of which none is larger than so many bits above it.
const SPLIT_ABOVE_ONE: i32 = 3;

/// Exponents for which the power of two and its inverse are normal numbers.
const RANGE: (i32, i32) = (-126, 126);

/// An exponent of two.
#[derive(Clone, Copy)]
pub(crate) struct Exponent {
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
    pub(crate) const START: Self = Self { exponent: BEST, is_free: true };

    /// The exponent for values of which the largest finite magnitude has these bits, and which may be `split`.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn of_largest(bits: u32, split: bool) -> Self {
        Self::above(bits, if split { BEST_OF_SPLIT } else { BEST })
    }

    /// The exponent for a weight, which may be `split`, of whose header each lane of a warp has four words.
    ///
    /// # Safety
    /// All lanes of the warp come here together.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn of_header(largest: [u32; (WEIGHT_HEADER / 32) as usize], split: bool) -> Self {
        // SAFETY: the caller's promise.
        let largest = unsafe { warp::warp_reduce_max(u32::MAX, largest.into_iter().fold(0, u32::max)) };
        Self::of_largest(largest, split)
    }

    /// That of values around one, which may be `split`, before there were any.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn of_ones(split: bool) -> Self {
        if split { Self { exponent: BEST_OF_SPLIT - SPLIT_ABOVE_ONE, is_free: true } } else { Self::START }
    }

    /// The exponent for a sample of which the largest finite magnitude has these bits: that of values around one, if
    /// that will do.
    #[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn of_sample(bits: u32, split: bool) -> Self {
        let of_ones = Self::of_ones(split);
        let range = if split { BELOW_OF_SPLIT..=BEST_OF_SPLIT } else { BELOW..=ABOVE };
        let is_right = bits == 0 || range.contains(&(power_above(bits) + of_ones.exponent));
        if is_right { of_ones } else { Self::of_largest(bits, split) }
    }

    /// This exponent, unless it is wrong for values that are split, of which the largest finite magnitude has these
    /// bits: that of such values then, others of which may be somewhat larger.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn unless_wrong_for_split(self, bits: u32) -> Self {
        let is_right = bits == 0 || (BELOW_OF_SPLIT..=BEST_OF_SPLIT).contains(&(power_above(bits) + self.exponent));
        if is_right { self } else { Self::above(bits, BEST_OF_SPLIT - SPLIT_ABOVE_ONE) }
    }

    /// The exponent that its bits say, without its sign.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self { exponent: bits as i32, is_free: false }
    }

    /// As a word.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn bits(self) -> u32 {
        self.exponent as u32
    }

    /// A new tile of patch kernels begins, whose values are as large as they are.
    #[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn begin(&mut self) {
        self.is_free = true;
    }

    /// Takes further values into account, of which the largest finite magnitude has these bits, and which may be
    /// `split`: because they would be too large otherwise, or too small, if they are the first ones. Others may be
    /// larger than these.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn adjust(&mut self, largest: u32, split: bool) {
        let (below, best, above) = match split {
            true => (BELOW_OF_SPLIT_JOB, BEST_OF_SPLIT - SPLIT_ABOVE_ONE, BEST_OF_SPLIT),
            false => (BELOW, BEST, ABOVE),
        };
        let power = power_above(largest) + self.exponent;
        let is_small = self.is_free && largest > 0 && power < below && self.exponent < RANGE.1;
        self.is_free &= largest == 0;
        if power > above || is_small {
            *self = Self::above(largest, best);
        }
    }

    /// The exponent that brings the largest finite magnitude, which has these bits, below a power of two.
    #[cfg_attr(gpu, inline(always))]
    fn above(largest: u32, power: i32) -> Self {
        Self { exponent: (power - power_above(largest)).clamp(RANGE.0, RANGE.1), is_free: false }
    }

    /// The exponent of the quotient of two powers, or of the number that comes closest.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn minus(self, other: Self) -> Self {
        Self { exponent: (self.exponent - other.exponent).clamp(RANGE.0, RANGE.1), is_free: false }
    }

    /// Two numbers whose product is the inverse of the product of both powers, which may not be a number itself; the
    /// second one is one if the first one can be all of it.
    #[cfg_attr(gpu, inline(always))]
    pub(crate) fn inverse_with(self, other: Self) -> [f32; 2] {
        let exponent = -self.exponent - other.exponent;
        let first = exponent.clamp(RANGE.0, RANGE.1);
        [first, exponent - first].map(|exponent| power_of_two(Self { exponent, is_free: false }))
    }
}

/// The exponent of the power of two above a magnitude with these bits, which is a normal number; that above the
/// smallest normal one otherwise.
#[cfg_attr(gpu, inline(always))]
fn power_above(bits: u32) -> i32 {
    (bits >> 23) as i32 - 126
}

/// Two to that power.
#[cfg_attr(gpu, inline(always))]
pub(crate) fn power_of_two(exponent: Exponent) -> f32 {
    f32::from_bits(((127 + exponent.exponent) as u32) << 23)
}

/// What makes `f16` factors of words that were loaded.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The power of two by which inputs are multiplied, if teams do that.
    power: f32,
    pub(super) again: Again,
}

impl Scale {
    /// One.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn one(again: Again) -> Self {
        Self { power: 1.0, again }
    }

    /// Another power of two.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn with(self, exponent: Exponent) -> Self {
        Self { power: power_of_two(exponent), ..self }
    }

    /// A value, scaled.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn of(&self, value: f32) -> f32 {
        value * self.power
    }
}

/// The exponent of a weight whose packed form has this header, and which may be `split`.
///
/// # Safety
/// The header is complete; all lanes of the warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(crate) unsafe fn of_weight(header: *const f32, split: bool) -> Exponent {
    const EACH: u32 = WEIGHT_HEADER / 32;
    // SAFETY: the caller's promise; the header is aligned to 16 bytes, as all packed weights are.
    unsafe {
        let largest = mem::load_readonly(header.cast::<[u32; EACH as usize]>().add(warp::lane_id() as usize));
        Exponent::of_header(largest, split)
    }
}

/// By what a thread multiplies the sums of its two positions, of a packed input, in a tile whose first sample is given.
///
/// # Safety
/// The headers of both operands are complete; all lanes of the warp come here together.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn inverses<const SPLIT: bool>(t: &Tiling, operands: &Operands, sample: u32) -> [[f32; 2]; 2] {
    // SAFETY: the caller's promise.
    let of_weight = unsafe { of_weight(operands.weight, SPLIT) };
    // Found again for each tile, not kept in registers meanwhile.
    let (first, last) = (hint::opaque(position()), hint::opaque(t.batch) - 1);
    [first, first + 1].map(|position| {
        let sample = sample + if t.tile[0] > 1 { sample_of(t, position) } else { 0 };
        let header = operands.header.cast::<u32>().wrapping_add(sample.min(last) as usize);
        // SAFETY: the caller's promise: there is such a sample.
        Exponent::from_bits(unsafe { mem::load_readonly(header) }).inverse_with(of_weight)
    })
}

/// The exponent of the weight, where teams convert the input and do not split it.
///
/// # Safety
/// A stage of the input is full.
#[cfg_attr(gpu, inline(always))]
pub(super) unsafe fn of_staged_weight() -> Exponent {
    // SAFETY: the caller's promise: it has been left there before.
    Exponent::from_bits(unsafe { weight_exponent().load() })
}

/// The sample of a tile that one of its positions is in.
#[cfg_attr(gpu, inline(always))]
fn sample_of(t: &Tiling, position: u32) -> u32 {
    let (line, _) = position.divide(t.box_x);
    let (slice, _) = line.divide(t.box_y);
    slice.divide(t.box_z).0
}
