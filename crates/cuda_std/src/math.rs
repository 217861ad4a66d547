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

#[cfg(test)]
mod tests {
    use super::fma;

    #[test]
    fn fma_rounds_once() {
        let above = 1.0 + f32::EPSILON;
        let below = 1.0 - f32::EPSILON;
        assert_eq!(fma(above, below, -1.0), -f32::EPSILON * f32::EPSILON);
        assert_eq!(above * below - 1.0, 0.0);
    }
}
