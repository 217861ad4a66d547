//! Loops with a constant index, for registers, which have names and no addresses.

/// Runs a block for each index below a constant; in it, the index is a constant as well. The constant is at most so
/// many: the block is there that many times, and in a loop within a loop as often as their product, all of which the
/// compiler has to read.
macro_rules! unrolled {
    ($index:ident in 0..$count:expr, at most 2 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1)
    };
    ($index:ident in 0..$count:expr, at most 3 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2)
    };
    ($index:ident in 0..$count:expr, at most 4 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3)
    };
    ($index:ident in 0..$count:expr, at most 6 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3 4 5)
    };
    ($index:ident in 0..$count:expr, at most 8 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3 4 5 6 7)
    };
    ($index:ident in 0..$count:expr, at most 10 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3 4 5 6 7 8 9)
    };
    ($index:ident in 0..$count:expr, at most 16 => $body:block) => {
        unrolled!(@ $index, $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($index:ident in 0..$count:expr, at most 32 => $body:block) => {
        unrolled!(
            @ $index, $count, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        )
    };
    (@ $index:ident, $count:expr, $body:block, $($number:literal)+) => {
        const { assert!($count <= [$($number),+].len()) };
        // Constants of the language: a compiler that had to find out what is never reached would take minutes.
        $(if const { $number < $count } {
            const $index: usize = $number;
            $body
        })+
    };
}

pub(crate) use unrolled;
