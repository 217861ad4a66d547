//! What tensor cores compute, of the matrices whose elements the lanes of a warp hold.

use core::array;

use super::lanes::Answer;
use super::order::LANES;
use crate::half;

/// How many words of the three matrices a lane holds: four of the left one, two of the right one, four accumulators.
pub(super) const FRAGMENTS: usize = 10;

/// Rows of the left matrix and of the product.
const ROWS: usize = 16;

/// Columns of the right matrix and of the product.
const COLUMNS: usize = 8;

/// Words of a row of the left matrix, and of a column of the right one.
const WORDS: usize = 8;

/// The bits of an f32 that TF32 has.
const TF32: u32 = !0 << 13;

/// What a word of an operand holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// An f32, which counts as TF32.
    Tf32,
    /// Two elements in half precision, which follow each other along the depth.
    F16,
}

impl Elements {
    /// The elements of a word; a second one that it does not have is zero.
    fn of(self, word: u32) -> [f64; 2] {
        match self {
            Self::Tf32 => [f32::from_bits(word & TF32).into(), 0.0],
            Self::F16 => half::unpack(word).map(f64::from),
        }
    }
}

/// A lane's words as they are offered to the others.
pub(super) fn fragments(a: [u32; 4], b: [u32; 2], accumulators: [f32; 4]) -> [u32; FRAGMENTS] {
    let ([a0, a1, a2, a3], [b0, b1]) = (a, b);
    let [c0, c1, c2, c3] = accumulators.map(f32::to_bits);
    [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3]
}

/// The accumulators of each lane after the product is added. They are summed in f64, where products are exact, and
/// rounded once.
///
/// Both kinds of elements have one layout: what differs is how far along the depth a word reaches.
pub(super) fn multiply_add(elements: Elements, fragments: &[[u32; FRAGMENTS]]) -> [Answer; LANES] {
    let elements = |lane: usize, index: usize| elements.of(fragments[lane][index]);
    // Words along the depth: of four lanes one each, twice.
    let left: [[_; WORDS]; ROWS] = array::from_fn(|row| {
        let (group, lower) = (row % COLUMNS, row / COLUMNS);
        array::from_fn(|word| elements(4 * group + word % 4, lower + 2 * (word / 4)))
    });
    let right: [[_; WORDS]; COLUMNS] =
        array::from_fn(|column| array::from_fn(|word| elements(4 * column + word % 4, 4 + word / 4)));
    array::from_fn(|lane| {
        let (group, place) = (lane / 4, lane % 4);
        array::from_fn(|index| {
            let (row, column) = (group + COLUMNS * (index / 2), 2 * place + index % 2);
            let sum = f64::from(f32::from_bits(fragments[lane][6 + index]));
            let pairs = left[row].iter().zip(&right[column]);
            (pairs.fold(sum, |sum, ([a0, a1], [b0, b1])| sum + (a0 * b0 + a1 * b1)) as f32).to_bits()
        })
    })
}
