//! Indices of either width: division by multiplication, and arithmetic beyond what 32 bits hold, where no tensor of a
//! test is that large.

use conv_transpose_kernels::{Divisor, Index};
use proptest::prelude::*;

fn check_narrow(dividend: u32, divisor: u32) {
    let divided = dividend.divide(Divisor::new(divisor.into()));
    assert_eq!(divided, (dividend / divisor, dividend % divisor), "{dividend} by {divisor}");
}

fn check_wide(dividend: u64, divisor: u64) {
    let divided = dividend.divide(Divisor::new(divisor));
    assert_eq!(divided, (dividend / divisor, dividend % divisor), "{dividend} by {divisor}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn multiplication_divides_any_narrow_index(dividend in 0u32..1 << 31, divisor in 1u32.., small in 1u32..1000) {
        check_narrow(dividend, divisor);
        check_narrow(dividend, small);
        check_narrow(dividend / divisor * divisor, divisor);
        check_narrow((dividend / small * small).saturating_sub(1), small);
    }

    #[test]
    fn any_wide_index_is_divided(dividend in any::<u64>(), divisor in 1u64.., small in 1u64..1000) {
        check_wide(dividend, divisor);
        check_wide(dividend, small);
        check_wide(dividend / small * small, small);
    }
}

#[test]
fn the_ends_of_the_narrow_range_divide_exactly() {
    let dividends = [0, 1, 2, (1 << 30) - 1, 1 << 30, (1 << 31) - 2, (1 << 31) - 1];
    let divisors = [1, 2, 3, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, u32::MAX];
    for dividend in dividends {
        for divisor in divisors {
            check_narrow(dividend, divisor);
        }
    }
}

#[test]
fn wide_arithmetic_is_that_of_64_bits() {
    let far = (1u64 << 40) + 3;
    assert_eq!(<u64 as Index>::new(far), far);
    assert_eq!(Index::offset(far), far as usize);
    assert_eq!((far.plus(far), far.minus(far - 1), far.times(5)), (far * 2, 1, far * 5));
    assert_eq!(<u64 as Index>::from_signed(-2).plus(far), far - 2);
}
