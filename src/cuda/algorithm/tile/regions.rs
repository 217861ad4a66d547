//! Regions: boxes of positions with tiles of their own.
//!
//! Where an extent is a little more than a multiple of what tiles cover, as 66 positions are where the input has 64,
//! the last tiles are nearly empty. The positions beyond the multiple may be a region of their own then: tiles of
//! another shape, in another launch, and only those taps that reach the input from there.

use super::{
    super::Task,
    choice::{self, Part, cycles_of},
};
use crate::Phase;

/// A region ends at a multiple of so many positions, if the next one begins there: tiles of most shapes divide them,
/// and rows keep their alignment.
const MULTIPLE: u32 = 16;

/// How many times as many positions as beyond the multiple there are at least.
const LEAST_RATIO: u32 = 8;

/// Cycles of a layer that is worth dividing, at least: a launch more takes thousands.
const LEAST_CYCLES: f64 = 100_000.0;

/// The share of the cycles that regions take at most, of those without: the model is not exact.
const WORTH: f64 = 0.97;

/// The same where rows are joined in single precision, which the model takes for slower than it is: problem 58 takes
/// 0.88 ms as a whole, 1.09 in regions.
const WORTH_IF_JOINED: f64 = 0.9;

/// The axes along which regions are divided, from x on.
const ALL_AXES: [usize; 3] = [2, 1, 0];

/// A box of positions, as each phase counts them, outermost axis first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// How many elements before the output positions are counted from.
    pub(super) lead: [u32; 3],
    pub(super) first: [u32; 3],
    pub(super) extents: [u32; 3],
    /// Whether there is no other region beyond, along each axis.
    pub(super) is_last: [bool; 3],
}

impl Region {
    /// All positions, or, if the output is filled first, all those of phases with taps: others may have one more. The
    /// phases are those from a lead on.
    pub(super) fn whole(lead: [u32; 3], phases: &[Vec<Phase>; 3], fills_first: bool) -> Self {
        let extents = phases.each_ref().map(|phases| {
            let written = phases.iter().filter(|phase| !fills_first || phase.taps > 0);
            written.map(|phase| phase.positions as u32).max().unwrap_or(0)
        });
        Self { lead, first: [0; 3], extents, is_last: [true; 3] }
    }

    /// Whether there are no other regions.
    pub(super) fn is_whole(&self) -> bool {
        self.first == [0; 3] && self.is_last == [true; 3]
    }

    /// The region up to a multiple along an axis, and what is beyond, if that is little.
    fn divided(&self, axis: usize) -> Option<[Self; 2]> {
        let beyond = self.extents[axis] % MULTIPLE;
        if beyond == 0 || beyond * LEAST_RATIO > self.extents[axis] {
            return None;
        }
        let [mut main, mut rest] = [*self; 2];
        main.extents[axis] -= beyond;
        rest.extents[axis] = beyond;
        rest.first[axis] += main.extents[axis];
        main.is_last[axis] = false;
        Some([main, rest])
    }
}

/// What computes a task: the `whole` of its positions at once, or each of the regions into which it pays to divide them
/// by the cheapest cut.
pub(super) fn parts(task: &Task, whole: Part) -> Vec<Part> {
    if whole.cycles < LEAST_CYCLES {
        return vec![whole];
    }
    let divided = |axes| divide(task, whole.clone(), axes, |cycles, undivided| cycles < undivided);
    let mut parts = divided(&ALL_AXES);
    if !parts[0].layout.region.is_last[2] {
        // Beyond the multiple there are a few words of each row, which memory fetches and writes as slowly as many.
        let of_whole_rows = divided(&ALL_AXES[1..]);
        if cycles_of(&of_whole_rows) < cycles_of(&parts) {
            parts = of_whole_rows;
        }
    }
    let cut = &whole.layout.cut;
    let worth = if cut.joined_rows > 1 && cut.variant.split { WORTH_IF_JOINED } else { WORTH };
    if cycles_of(&parts) < worth * whole.cycles { parts } else { vec![whole] }
}

/// The regions into which the `whole` of the positions can be divided, whether it pays or not, with the cheapest cut
/// for each; `None` if it cannot.
pub(super) fn all_parts(task: &Task, whole: Part) -> Option<Vec<Part>> {
    Some(divide(task, whole, &ALL_AXES, |_, _| true)).filter(|parts| parts.len() > 1)
}

/// Divides a part along one axis after the other, if that is `worth` the cycles of both regions instead of those of
/// one.
fn divide(task: &Task, whole: Part, axes: &[usize], worth: impl Fn(f64, f64) -> bool) -> Vec<Part> {
    let mut parts = vec![whole];
    // Producers write the bare rows of the whole output, beside one launch.
    if parts[0].layout.writes_bare_rows {
        return parts;
    }
    for &axis in axes {
        let Some([main, rest]) = parts[0].layout.region.divided(axis) else { continue };
        let Ok(main) = choice::cheapest(task, main, true) else { continue };
        // All of the input is packed, or nothing: not for what is beyond alone.
        let Ok(rest) = choice::cheapest(task, rest, main.layout.cut.variant.reads_packed()) else { continue };
        if worth(main.cycles + rest.cycles, parts[0].cycles) {
            parts[0] = main;
            parts.push(rest);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    #[test]
    fn regions_cover_all_positions_once() {
        let whole = Region { lead: [0; 3], first: [0; 3], extents: [18, 36, 100], is_last: [true; 3] };
        let mut regions = vec![whole];
        for axis in ALL_AXES {
            if let Some([main, rest]) = regions[0].divided(axis) {
                regions[0] = main;
                regions.push(rest);
            }
        }
        assert_eq!(regions.len(), 4);
        let covers = |region: &Region, position: [u32; 3]| {
            (0..3).all(|axis| position[axis].wrapping_sub(region.first[axis]) < region.extents[axis])
        };
        for position in (0..18 * 36 * 100).map(|number| [number / 3600, number / 100 % 36, number % 100]) {
            assert_eq!(regions.iter().filter(|region| covers(region, position)).count(), 1, "{position:?}");
        }
    }

    #[test]
    fn what_is_filled_first_is_not_covered() {
        // Every second position has no taps, and there is one more of these than of the others.
        let axis = Axis { input: 32, output: 65, kernel: 3, stride: 2, dilation: 2, pad_begin: 1 };
        let phases = [0; 3].map(|_| axis.phases());
        assert_eq!(Region::whole([0; 3], &phases, false).extents, [33; 3]);
        assert_eq!(Region::whole([0; 3], &phases, true).extents, [32; 3]);
    }

    #[test]
    fn little_is_beyond_a_multiple() {
        let beyond = |extent| {
            let region = Region { lead: [0; 3], first: [0; 3], extents: [1, 1, extent], is_last: [true; 3] };
            region.divided(2).map(|[main, rest]| (main.extents[2], rest.first[2], rest.extents[2]))
        };
        assert_eq!(beyond(66), Some((64, 64, 2)));
        assert_eq!(beyond(17), Some((16, 16, 1)));
        assert_eq!(beyond(64), None);
        assert_eq!(beyond(28), None, "12 of 28 are much");
        assert_eq!(beyond(2), None);
    }
}
