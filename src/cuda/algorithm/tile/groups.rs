//! Groups: which phases of an axis a pass writes together, and the taps that those which have any share.
//!
//! Phases of a group share the columns of the matrix, and so the fragments of the input: each input position that one
//! of them reads is multiplied for all of them, by zero for those that have no tap there.

use std::collections::BTreeSet;

use crate::{Axis, Phase, geometry::gcd};

/// The most phases without taps that are written together.
const MOST_WITHOUT_TAPS: usize = 8;

/// Phases of an axis that a pass writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Those with taps, in the order of their columns.
    pub(super) computed: Vec<usize>,
    /// All of them, in the order of the output.
    pub(super) written: Vec<usize>,
    /// The first input position that position 0 of any of them reads.
    pub(super) first: i64,
    /// The input positions that they read, at equal distances.
    pub(super) taps: usize,
    /// The distance.
    pub(super) step: usize,
}

impl Group {
    /// The tap by which a phase uses the input position number `shift` of the group, if it does.
    pub(super) fn tap(&self, axis: &Axis, phase: &Phase, shift: usize) -> Option<usize> {
        let distance = phase.first_input as i64 - self.first - (shift * self.step) as i64;
        let step = axis.input_step() as i64;
        usize::try_from(distance / step).ok().filter(|&tap| distance >= 0 && distance % step == 0 && tap < phase.taps)
    }

    /// Leaves out the input positions that do not exist for any of the `positions` of a region, if others do.
    pub(super) fn within(mut self, axis: &Axis, first: u32, positions: u32) -> Self {
        let (first, last) = (i64::from(first), i64::from(first) + i64::from(positions) - 1);
        let exists = |shift: &usize| {
            let read = self.first + (shift * self.step) as i64;
            read + last >= 0 && read + first < axis.input as i64
        };
        let existing: Vec<usize> = (0..self.taps).filter(exists).collect();
        if let [first, ..] = existing[..] {
            self.first += (first * self.step) as i64;
            self.taps = existing.len();
        }
        self
    }

    /// Whether some of the phases that are written have no taps.
    pub(super) fn writes_without_taps(&self) -> bool {
        self.computed.len() < self.written.len()
    }

    /// How far apart the first and the last input position are that position 0 reads, both included.
    pub(super) fn span(&self) -> u64 {
        self.taps.saturating_sub(1) as u64 * self.step as u64 + 1
    }
}

/// The groups of an axis, of up to `columns` phases with taps, of those that have positions from the `first` one on.
/// Phases without taps are joined to the others if these are one group and `together` says so, otherwise they are
/// groups of their own.
pub(super) fn groups(axis: &Axis, phases: &[Phase], first: u32, columns: usize, together: bool) -> Vec<Group> {
    let reaching = Vec::from_iter((0..phases.len()).filter(|&phase| reaches(&phases[phase], first)));
    let (with_taps, without): (Vec<usize>, Vec<usize>) = reaching.iter().partition(|&&phase| phases[phase].taps > 0);
    let mut groups = Vec::new();
    let join = together && (1..=columns).contains(&with_taps.len()) && without.len() <= MOST_WITHOUT_TAPS;
    for computed in with_taps.chunks(columns) {
        let written = if join { reaching.clone() } else { computed.to_vec() };
        groups.push(shared(axis, phases, computed.to_vec(), written));
    }
    if !join {
        let bias_only = without.chunks(MOST_WITHOUT_TAPS);
        groups.extend(bias_only.map(|written| Group {
            computed: vec![],
            written: written.to_vec(),
            first: 0,
            taps: 0,
            step: 1,
        }));
    }
    groups
}

/// Whether a phase has positions from the `first` one of a region on.
pub(super) fn reaches(phase: &Phase, first: u32) -> bool {
    phase.positions > first as usize
}

/// The group of some phases with taps.
fn shared(axis: &Axis, phases: &[Phase], computed: Vec<usize>, written: Vec<usize>) -> Group {
    let step = axis.input_step() as i64;
    let reads = |&phase: &usize| {
        let Phase { first_input, taps, .. } = phases[phase];
        (0..taps as i64).map(move |tap| first_input as i64 - tap * step)
    };
    let reads: BTreeSet<i64> = computed.iter().flat_map(reads).collect();
    let (first, last) = (reads.first().copied().unwrap_or(0), reads.last().copied().unwrap_or(0));
    let step = reads.iter().fold(0, |step, read| gcd(step, (read - first) as usize)).max(1);
    Group { computed, written, first, taps: (last - first) as usize / step + 1, step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(kernel: usize, stride: usize, dilation: usize) -> Axis {
        Axis { input: 20, output: 40, kernel, stride, dilation, pad_begin: 1 }
    }

    #[test]
    fn every_tap_of_every_phase_is_in_its_group_once() {
        for (kernel, stride, dilation) in
            [(3, 2, 1), (4, 2, 1), (16, 8, 1), (5, 3, 2), (3, 2, 2), (3, 5, 2), (1, 4, 1), (4, 1, 3)]
        {
            let axis = axis(kernel, stride, dilation);
            let phases = axis.phases();
            for columns in 1..=stride {
                let groups = groups(&axis, &phases, 0, columns, columns % 2 == 0);
                let mut written: Vec<usize> = groups.iter().flat_map(|group| group.written.clone()).collect();
                written.sort_unstable();
                assert_eq!(written, Vec::from_iter(0..phases.len()));
                for (number, phase) in phases.iter().enumerate().filter(|(_, phase)| phase.taps > 0) {
                    let group = groups.iter().find(|group| group.computed.contains(&number)).unwrap();
                    let taps: Vec<usize> =
                        (0..group.taps).rev().filter_map(|shift| group.tap(&axis, phase, shift)).collect();
                    assert_eq!(taps, Vec::from_iter(0..phase.taps));
                    for shift in 0..group.taps {
                        if let Some(tap) = group.tap(&axis, phase, shift) {
                            let read = phase.first_input as i64 - (tap * axis.input_step()) as i64;
                            assert_eq!(read, group.first + (shift * group.step) as i64);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_region_takes_the_taps_that_reach_the_input_from_there() {
        // Position `q` reads the inputs from `q - 3` on, up to `q + 1`, of 20.
        let axis = axis(5, 1, 1);
        let whole = groups(&axis, &axis.phases(), 0, 1, true).remove(0);
        assert_eq!((whole.first, whole.taps), (-3, 5));
        let within = |first, positions| {
            let group = whole.clone().within(&axis, first, positions);
            (group.first, group.taps)
        };
        assert_eq!(within(0, 40), (-3, 5));
        assert_eq!(within(0, 1), (0, 2), "inputs 0 and 1");
        assert_eq!(within(0, 2), (-1, 3), "and for the second position, input 0 as its tap before");
        assert_eq!(within(21, 1), (-3, 2), "inputs 18 and 19");
        assert_eq!(within(30, 2), (-3, 5), "nothing is reached; that costs time, not more");
    }

    #[test]
    fn a_region_has_the_phases_with_positions_there() {
        // 41 elements: the first of two phases has one more.
        let axis = Axis { output: 41, ..axis(3, 2, 1) };
        let computed = |first| groups(&axis, &axis.phases(), first, 2, true).remove(0).computed;
        assert_eq!(computed(0), [0, 1]);
        assert_eq!(computed(19), [0, 1]);
        assert_eq!(computed(20), [0]);
    }

    #[test]
    fn phases_without_taps_are_written_beside_the_others() {
        let axis = axis(3, 5, 2);
        let groups = groups(&axis, &axis.phases(), 0, 3, true);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].computed.len(), groups[0].written.len()), (3, 5));
    }
}
