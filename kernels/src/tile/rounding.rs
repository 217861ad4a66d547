//! From `f32` to what tensor cores multiply: TF32 has 10 bits behind the binary point, and the hardware ignores the
//! other 13.
//!
//! A word that a lane has loaded is part of the fragments of neighbouring taps, which occupy registers of their own.
//! Computed alike for each of them, the compiler would compute its value once and copy it, again for every single
//! product. So there are two copies of either function, `COPY` 0 and 1, that differ in what the hardware ignores:
//! neighbouring fragments take different ones.
//!
//! What is `f16` already needs no rounding, but registers of its own: those that were loaded are loaded again while the
//! product is under way.

/// The bits that the hardware reads.
const TF32_BITS: u32 = 0xffff_e000;

/// Scales a value so that ignoring its last 13 bits rounds it to TF32, in one multiplication.
///
/// Half a unit in the last place is to be added, `2^-11` of the power of two below the value. The multiplication adds
/// `2^-11 / 1.5` of the value itself, which is between 2/3 and 4/3 of that: the error is at most 2/3 of a unit instead
/// of 1/2, and on average as good as that of rounding (root mean square 0.30 instead of 0.29 units). What TF32 holds
/// exactly stays exact, infinities and not-a-numbers stay what they are: adding to the bits would turn some of them
/// into numbers. The other copy's factor is the next number.
#[cfg_attr(gpu, inline(always))]
pub(super) fn round_to_tf32<const COPY: u32>(value: f32) -> f32 {
    const FACTOR: f32 = 1.0 + 1.0 / 3072.0;
    value * f32::from_bits(FACTOR.to_bits() + COPY)
}

/// Makes the same word again, in a register that the compiler does not know to be a copy: it would leave that out, or
/// make it once more for every product.
#[derive(Clone, Copy)]
pub(super) struct Again {
    zero: u32,
}

impl Again {
    /// With a zero that comes from memory.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn with(zero: u32) -> Self {
        Self { zero }
    }

    /// The same word.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn word<const COPY: u32>(&self, word: f32) -> f32 {
        let bits = word.to_bits();
        f32::from_bits(if COPY == 0 { bits | self.zero } else { bits ^ self.zero })
    }
}

/// A value as the sum of two that TF32 holds: the second one has what the first one cuts off, except for the last two
/// bits or so. In the other copy it lacks the last bit of the value, which the first one keeps for nothing.
#[cfg_attr(gpu, inline(always))]
pub(crate) fn split<const COPY: u32>(value: f32) -> (f32, f32) {
    let large = f32::from_bits(value.to_bits() & (TF32_BITS + COPY));
    (large, value - large)
}
