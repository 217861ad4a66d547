//! Pairs of half-precision numbers in a word, as tensor cores take them.
//!
//! Half precision has 5 bits of exponent and 10 bits of fraction: the largest number is 65504, the smallest one above
//! zero is 2⁻²⁴.

/// Two numbers in half precision: the first one in the low half of the word, the second one in the high half. For sm_80
/// and later.
///
/// Each is rounded to the nearest one, halfway to the even one. What is too large becomes infinity; subnormal numbers
/// are kept. NaN stays NaN, but which one is up to the machine.
#[inline(always)]
#[must_use]
pub fn pack(values: [f32; 2]) -> u32 {
    let [low, high] = values;
    #[cfg(target_arch = "nvptx64")]
    {
        let word: u32;
        // SAFETY: an instruction on registers.
        unsafe {
            core::arch::asm!(
                "cvt.rn.f16x2.f32 {word}, {high}, {low};",
                low = in(reg32) low,
                high = in(reg32) high,
                word = lateout(reg32) word,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        word
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bits = |value| u32::from(::half::f16::from_f32(value).to_bits());
        bits(low) | bits(high) << 16
    }
}

/// The two numbers of a word, that in its low half first. It is exact; NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn unpack(word: u32) -> [f32; 2] {
    #[cfg(target_arch = "nvptx64")]
    {
        let (low, high): (f32, f32);
        // SAFETY: instructions on registers, of which the first one reads the word before any of the others writes.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b16 low, high; mov.b32 {{low, high}}, {word}; cvt.f32.f16 {low}, low; cvt.f32.f16 {high}, high; }}",
                word = in(reg32) word,
                low = lateout(reg32) low,
                high = lateout(reg32) high,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        [low, high]
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        [word, word >> 16].map(|half| ::half::f16::from_bits(half as u16).to_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};

    /// Both halves of the word, whichever of them the value is in.
    fn half(value: f32) -> u32 {
        let word = pack([value, 0.0]);
        assert_eq!(pack([0.0, value]), word << 16);
        word
    }

    #[test]
    fn the_first_number_is_in_the_low_half() {
        assert_eq!(pack([1.0, -2.0]), 0xc000_3c00);
        assert_eq!(unpack(0xc000_3c00), [1.0, -2.0]);
    }

    #[test]
    fn halfway_is_rounded_to_even() {
        let last_bit = f32::powi(2.0, -10);
        assert_eq!(half(1.0 + 0.5 * last_bit), 0x3c00);
        assert_eq!(half(1.0 + 0.5 * last_bit + f32::EPSILON), 0x3c01);
        assert_eq!(half(1.0 + 1.5 * last_bit - f32::EPSILON), 0x3c01);
        assert_eq!(half(1.0 + 1.5 * last_bit), 0x3c02);
        assert_eq!(half(-(1.0 + 1.5 * last_bit)), 0xbc02);
    }

    #[test]
    fn what_is_too_large_becomes_infinity() {
        assert_eq!(half(65504.0), 0x7bff);
        assert_eq!(half(65520.0_f32.next_down()), 0x7bff);
        for (sign, infinity) in [(1.0, 0x7c00), (-1.0, 0xfc00)] {
            assert_eq!([65520.0, f32::MAX, f32::INFINITY].map(|value| half(sign * value)), [infinity; 3]);
        }
    }

    #[test]
    fn subnormal_numbers_are_kept() {
        let least = f32::powi(2.0, -24);
        assert_eq!([least, 1023.0 * least, 1024.0 * least].map(half), [1, 0x03ff, 0x0400]);
        assert_eq!([0.5 * least, (0.5 * least).next_up(), 1.5 * least].map(half), [0, 1, 2]);
        assert_eq!([-0.0, -0.25 * least, -least].map(half), [0x8000, 0x8000, 0x8001]);
    }

    #[test]
    fn nan_stays_nan() {
        // The fraction of the last one has bits only where a half has none.
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            let [low, high] = unpack(pack([nan, 1.0]));
            assert!(low.is_nan() && high == 1.0);
            let [low, high] = unpack(pack([1.0, nan]));
            assert!(low == 1.0 && high.is_nan());
        }
    }

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u32::from(u16::MAX) {
            // The other half of the word is a different one.
            let word = bits | (bits ^ 0xffff) << 16;
            let numbers = unpack(word);
            let again = pack(numbers);
            for (number, shift) in numbers.into_iter().zip([0, 16]) {
                let (before, after) = (word >> shift & 0xffff, again >> shift & 0xffff);
                assert_eq!(number.is_nan(), before & 0x7fff > 0x7c00, "{before:#06x}");
                assert!(after == before || number.is_nan() && after & 0x7fff > 0x7c00, "{before:#06x}");
            }
        }
    }
}
