//! What tensor cores compute, of the matrices whose elements the lanes of a warp hold.

use core::array;

use super::lanes::Answer;
use super::order::LANES;

/// How many elements of the three matrices a lane holds: four of the left one, two of the right one, four accumulators.
pub(super) const FRAGMENTS: usize = 10;

/// The bits of an f32 that TF32 has.
const TF32: u32 = !0 << 13;

/// A lane's elements as they are offered to the others, the operands as TF32.
pub(super) fn fragments(a: [f32; 4], b: [f32; 2], accumulators: [f32; 4]) -> [u32; FRAGMENTS] {
    let tf32 = |value: f32| value.to_bits() & TF32;
    let ([a0, a1, a2, a3], [b0, b1]) = (a.map(tf32), b.map(tf32));
    let [c0, c1, c2, c3] = accumulators.map(f32::to_bits);
    [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3]
}

/// The accumulators of a lane after the product is added. They are summed in f64, where products are exact, and rounded
/// once.
pub(super) fn multiply_add(fragments: &[[u32; FRAGMENTS]], lane: usize) -> Answer {
    let (group, place) = (lane / 4, lane % 4);
    let value = |lane: usize, index: usize| f64::from(f32::from_bits(fragments[lane % LANES][index]));
    array::from_fn(|index| {
        let (lower, column) = (index / 2, 2 * place + index % 2);
        let mut sum = value(lane, 6 + index);
        for half in 0..2 {
            for t in 0..4 {
                sum += value(4 * group + t, lower + 2 * half) * value(4 * column + t, 4 + half);
            }
        }
        (sum as f32).to_bits()
    })
}
