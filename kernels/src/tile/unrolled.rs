//! Loops with a constant index, for registers, which have names and no addresses.

/// Runs a block for each index below a constant that is at most 16; in it, the index is a constant as well.
macro_rules! unrolled {
    ($index:ident in 0..$count:expr => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $index:ident, $count:expr, $body:block, $($number:literal)+) => {
        $(if $number < $count {
            const $index: usize = $number;
            $body
        })+
    };
}

pub(super) use unrolled;
