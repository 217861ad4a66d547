//! Loops with a constant index, for registers, which have names and no addresses.

/// Runs a block for each index below a constant; in it, the index is a constant as well. The constant is at most so
/// many: the block is there that many times, and in a loop within a loop as often as their product, all of which the
/// compiler has to read.
macro_rules! unrolled {
    ($index:ident in 0..$count:tt, at most 2 => $body:block) => {
        unrolled!(@ $index, $count, 2, $body, 0 1)
    };
    ($index:ident in 0..$count:tt, at most 3 => $body:block) => {
        unrolled!(@ $index, $count, 3, $body, 0 1 2)
    };
    ($index:ident in 0..$count:tt, at most 4 => $body:block) => {
        unrolled!(@ $index, $count, 4, $body, 0 1 2 3)
    };
    ($index:ident in 0..$count:tt, at most 6 => $body:block) => {
        unrolled!(@ $index, $count, 6, $body, 0 1 2 3 4 5)
    };
    ($index:ident in 0..$count:tt, at most 8 => $body:block) => {
        unrolled!(@ $index, $count, 8, $body, 0 1 2 3 4 5 6 7)
    };
    ($index:ident in 0..$count:tt, at most 10 => $body:block) => {
        unrolled!(@ $index, $count, 10, $body, 0 1 2 3 4 5 6 7 8 9)
    };
    ($index:ident in 0..$count:tt, at most 16 => $body:block) => {
        unrolled!(@ $index, $count, 16, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($index:ident in 0..$count:tt, at most 32 => $body:block) => {
        unrolled!(
            @ $index, $count, 32, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        )
    };
    // A count that has to be worked out.
    (@ $index:ident, { $count:expr }, $most:literal, $body:block, $($number:literal)+) => {
        const { assert!($count <= $most) };
        // Constants of the language: a compiler that had to find out what is never reached would take minutes.
        $(if const { $number < $count } {
            const $index: usize = $number;
            $body
        })+
    };
    // A parameter, a constant or a literal.
    (@ $index:ident, $count:tt, $most:literal, $body:block, $($number:literal)+) => {
        $(if $crate::unrolled::Turn::<$number, $count, $most>::IS_TAKEN {
            const $index: usize = $number;
            $body
        })+
    };
}

/// A turn of an unrolled loop. A constant block would be evaluated for each function that it is in, a constant of this
/// type is evaluated once.
pub(crate) struct Turn<const NUMBER: usize, const COUNT: usize, const MOST: usize>;

impl<const NUMBER: usize, const COUNT: usize, const MOST: usize> Turn<NUMBER, COUNT, MOST> {
    pub(crate) const IS_TAKEN: bool = {
        assert!(COUNT <= MOST);
        NUMBER < COUNT
    };
}

pub(crate) use unrolled;
