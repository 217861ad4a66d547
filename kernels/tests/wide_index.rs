//! 64-bit indices, beyond what 32 bits hold: no tensor of a test is that large.

use conv_transpose_kernels::{Divisor, Index};
use proptest::prelude::*;

fn check(dividend: u64, divisor: u64) {
    let divided = dividend.divide(Divisor::new(divisor));
    assert_eq!(divided, (dividend / divisor, dividend % divisor), "{dividend} by {divisor}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_index_is_divided(dividend in any::<u64>(), divisor in 1u64.., small in 1u64..1000) {
        check(dividend, divisor);
        check(dividend, small);
        check(dividend / small * small, small);
    }
}

#[test]
fn arithmetic_is_that_of_64_bits() {
    let far = (1u64 << 40) + 3;
    assert_eq!(<u64 as Index>::new(far), far);
    assert_eq!(Index::offset(far), far as usize);
    assert_eq!((far.plus(far), far.minus(far - 1), far.times(5)), (far * 2, 1, far * 5));
    assert_eq!(<u64 as Index>::from_signed(-2).plus(far), far - 2);
}
