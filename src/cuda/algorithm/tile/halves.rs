//! Halves: which of the neighbouring taps along x each half of a pass's phases takes.
//!
//! Phases that share columns multiply the taps of all of them, with zeros where they have none. Halves of the phases
//! along x have slots of their own, and each multiplies the taps that any of its phases has: with kernel 4 and stride
//! 2, four of six.

use std::ops::Range;

use conv_transpose_kernels::tile::HALVES;

use super::{
    groups::Group,
    layout::{Cut, Layout},
};

/// Slabs of eight channels for some taps along z, y and x.
pub(super) fn slabs([z, y, x]: &[Range<usize>; 3], halved: Option<usize>) -> u32 {
    (z.len() * y.len() * slabs_along_x(x, halved)) as u32
}

/// Slabs of some neighbouring taps of a group along x.
pub(super) fn neighbour_slabs(layout: &Layout, group: &Group, taps: &Range<usize>) -> usize {
    slabs_along_x(taps, halved(layout, group, taps))
}

/// One for each of the neighbouring taps, or for each that a half takes.
fn slabs_along_x(taps: &Range<usize>, halved: Option<usize>) -> usize {
    halved.map_or(taps.len(), |way| HALVES[way].iter().map(|taken| taken.count_ones() as usize).sum())
}

/// How the slots are halved for some neighbouring taps of a group along x, if they are: in the first way in which each
/// half takes those that any of its phases has.
pub(super) fn halved(layout: &Layout, group: &Group, taps: &Range<usize>) -> Option<usize> {
    let Cut { halves, phases: [_, _, columns], .. } = layout.cut;
    let has = |phase: &usize, shift: usize| group.tap(&layout.axes[2], &layout.phases[2][*phase], shift).is_some();
    let needed = |half: usize| {
        let phases = || group.computed.iter().skip(half * columns as usize).take(columns as usize);
        let bits = taps.clone().enumerate().filter(|&(_, shift)| phases().any(|phase| has(phase, shift)));
        bits.fold(0, |bits, (neighbour, _)| bits | 1u32 << neighbour)
    };
    let needed = [needed(0), needed(1)];
    let covers = |way: &[u32; 2]| {
        let neighbours = u32::BITS - (way[0] | way[1]).leading_zeros();
        neighbours as usize == taps.len() && (0..2).all(|half| needed[half] & !way[half] == 0)
    };
    (halves > 1).then(|| HALVES.iter().position(covers).expect("there is a way in which both halves take all"))
}
