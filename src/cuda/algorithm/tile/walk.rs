//! Walks: runs that take several boxes of taps one after the other, as others take several blocks of channels.
//!
//! To begin and to end a run takes a team longer than many products do. Where a stage has one block of channels, what
//! a run repeats can be its taps instead: the next ones along an axis, if these are at the same distance everywhere. A
//! kernel does not know the difference; it adds that distance to where it reads, and goes on to the next slabs.
//! (`benchmarks/2026-11-28-gpu-walks.md`)

use std::{collections::BTreeSet, ops::Range};

use super::{groups::Group, layout::Layout, tables::ranges};

/// Where runs may walk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Walk {
    pub(super) axis: usize,
    /// Input positions from one box of taps to the next.
    distance: usize,
}

impl Walk {
    /// The walk of which the fewest `runs` are left, if it is of use.
    pub(super) fn of(layout: &Layout, runs: impl Fn(Option<Self>) -> usize) -> Option<Self> {
        if layout.cut.stage_blocks > 1 {
            return None;
        }
        let shortest = walks(layout).into_iter().min_by_key(|&walk| runs(Some(walk)))?;
        (runs(Some(shortest)) < runs(None)).then_some(shortest)
    }

    /// Whether it leads from some taps of a group along its axis to those that follow them.
    pub(super) fn leads(&self, group: &Group, [from, to]: [&Range<usize>; 2]) -> bool {
        from.len() == to.len() && from.len() * group.step == self.distance
    }

    /// Words from one box of taps to the next in the staged input.
    pub(super) fn words(&self, layout: &Layout) -> u32 {
        self.distance as u32 * layout.axis_words(self.axis)
    }
}

/// Whether runs may walk such a distance along an axis: not along pairs of taps, the last of which may overlap the one
/// before, nor from inputs at even words to such at odd ones.
fn may_walk(layout: &Layout, axis: usize, distance: usize) -> bool {
    layout.cut.taps_paired_along != Some(axis) && (axis < 2 || distance.is_multiple_of(2))
}

/// The walks that there may be.
fn walks(layout: &Layout) -> BTreeSet<Walk> {
    let mut walks = BTreeSet::new();
    for axis in 0..3 {
        for group in layout.groups[axis].iter() {
            let distances = ranges(layout, axis, group).into_iter().map(|taps| taps.len() * group.step);
            let allowed = distances.filter(|&distance| may_walk(layout, axis, distance));
            walks.extend(allowed.map(|distance| Walk { axis, distance }));
        }
    }
    walks
}

/// For the model: the share of the runs of some groups of each axis that is left if each group has a walk of its own
/// along the axis where that spares the most, and a run may take so many steps.
pub(super) fn share_of_runs(layout: &Layout, groups: [&[Group]; 3], most_steps: usize) -> f64 {
    let left = |axis: usize| {
        let all = groups[axis].iter().map(|group| ranges(layout, axis, group));
        let (runs, left) = all.zip(groups[axis]).fold((0, 0), |(runs, left), (taps, group)| {
            (runs + taps.len(), left + runs_left(layout, axis, group, &taps, most_steps))
        });
        if runs > 0 { left as f64 / runs as f64 } else { 1.0 }
    };
    if layout.cut.stage_blocks == 1 { left(0).min(left(1)).min(left(2)) } else { 1.0 }
}

/// How many runs take so many ranges of taps of a group along an axis, each as many of the same length as may be.
fn runs_left(layout: &Layout, axis: usize, group: &Group, taps: &[Range<usize>], most_steps: usize) -> usize {
    let alike = taps.chunk_by(|before, next| before.len() == next.len());
    let runs = alike.map(|alike| {
        let may_walk = may_walk(layout, axis, alike[0].len() * group.step);
        alike.len().div_ceil(if may_walk { most_steps } else { 1 })
    });
    runs.sum()
}
