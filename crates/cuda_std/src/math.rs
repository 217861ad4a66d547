//! Arithmetic that the compiler does not choose by itself.

/// `a * b + c`, rounded once.
///
/// Rust keeps `a * b + c` as two roundings on every target, which on a GPU costs a second instruction.
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        core::f32::math::mul_add(a, b, c)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        a.mul_add(b, c)
    }
}

/// The larger magnitude of two numbers; of a number and a not-a-number that of the number.
///
/// It is one instruction. Of Rust's `a.abs().max(b.abs())` three are made where the numbers come from memory as bits.
#[inline(always)]
#[must_use]
pub fn larger_magnitude(a: f32, b: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let larger: u32;
        // SAFETY: instructions on registers.
        unsafe {
            core::arch::asm!(
                "{{",
                ".reg .f32 a, b;",
                "abs.f32 a, {a};",
                "abs.f32 b, {b};",
                "max.f32 {larger}, a, b;",
                "}}",
                a = in(reg32) a.to_bits(),
                b = in(reg32) b.to_bits(),
                larger = lateout(reg32) larger,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        f32::from_bits(larger)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        a.abs().max(b.abs())
    }
}

/// `value >> by`, for at most 31 bits.
///
/// Rust's shift is one by `by % 32` where it is not checked, which costs an instruction, and a register where the
/// compiler keeps that for later.
#[inline(always)]
#[must_use]
pub fn shift_right(value: u32, by: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let shifted: u32;
        // SAFETY: an instruction on registers, which shifts by 32 at most.
        unsafe {
            core::arch::asm!(
                "shr.u32 {shifted}, {value}, {by};",
                value = in(reg32) value,
                by = in(reg32) by,
                shifted = lateout(reg32) shifted,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        shifted
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        value >> by
    }
}

#[cfg(test)]
mod tests {
    use super::{fma, shift_right};

    #[test]
    fn shifts_by_none_to_all_but_one_bit() {
        assert_eq!([0, 1, 31].map(|by| shift_right(0x8000_0001, by)), [0x8000_0001, 0x4000_0000, 1]);
    }

    #[test]
    fn fma_rounds_once() {
        let above = 1.0 + f32::EPSILON;
        let below = 1.0 - f32::EPSILON;
        assert_eq!(fma(above, below, -1.0), -f32::EPSILON * f32::EPSILON);
        assert_eq!(above * below - 1.0, 0.0);
    }
}
