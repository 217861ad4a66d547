//! What tensor cores compute, of the matrices whose elements the lanes of a warp hold.

use core::array;

use super::lanes::Answer;
use super::order::LANES;
use crate::half;

/// How many words of the three matrices a lane holds: four of the left one, two of the right one, four accumulators.
pub(super) const FRAGMENTS: usize = 10;

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
    /// What a word of the left operand and one of the right operand add to an element of the product. It is exact, but
    /// for the sum of two products, which is rounded to f64.
    fn multiply(self, a: u32, b: u32) -> f64 {
        match self {
            Self::Tf32 => {
                let [a, b] = [a, b].map(|word| f64::from(f32::from_bits(word & TF32)));
                a * b
            }
            Self::F16 => {
                let [[a0, a1], [b0, b1]] = [a, b].map(|word| half::unpack(word).map(f64::from));
                a0 * b0 + a1 * b1
            }
        }
    }
}

/// A lane's words as they are offered to the others.
pub(super) fn fragments(a: [u32; 4], b: [u32; 2], accumulators: [f32; 4]) -> [u32; FRAGMENTS] {
    let ([a0, a1, a2, a3], [b0, b1]) = (a, b);
    let [c0, c1, c2, c3] = accumulators.map(f32::to_bits);
    [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3]
}

/// The accumulators of a lane after the product is added. They are summed in f64, where products are exact, and rounded
/// once.
///
/// Both kinds of elements have one layout: what differs is how far along the depth a word reaches.
pub(super) fn multiply_add(elements: Elements, fragments: &[[u32; FRAGMENTS]], lane: usize) -> Answer {
    let (group, place) = (lane / 4, lane % 4);
    let word = |lane: usize, index: usize| fragments[lane % LANES][index];
    array::from_fn(|index| {
        let (lower, column) = (index / 2, 2 * place + index % 2);
        let mut sum = f64::from(f32::from_bits(word(lane, 6 + index)));
        for half in 0..2 {
            for t in 0..4 {
                sum += elements.multiply(word(4 * group + t, lower + 2 * half), word(4 * column + t, 4 + half));
            }
        }
        (sum as f32).to_bits()
    })
}
