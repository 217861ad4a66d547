//! Leads: how many elements before the output positions are counted from.
//!
//! Where phases share columns, a product is made for each input position that any of them reads. With kernel 4, stride
//! 2 and padding 1 both phases have two taps, but position `q` of one reads `q - 1` and `q`, that of the other `q` and
//! `q + 1`: three products. Counted from one element before the output on, both read the same two. Along three axes
//! eight products are made instead of 27, at the cost of a position more along each, of which a part is not stored.

use super::groups::groups;
use crate::{Axis, Phase, Problem};

/// The most phases of an axis that share columns: of more, a lead would be of no use.
const MOST_PHASES: usize = 16;

/// The leads that are worth a thought: none, and along each axis the one with which its phases have the most input
/// positions in common, if that is not none.
pub(super) fn leads(problem: &Problem<3>) -> Vec<[u32; 3]> {
    let [z, y, x] = problem.axes().each_ref().map(best);
    let choices = |lead: u32| if lead > 0 { vec![0, lead] } else { vec![0] };
    let mut leads = Vec::new();
    for z in choices(z) {
        for y in choices(y) {
            leads.extend(choices(x).into_iter().map(|x| [z, y, x]));
        }
    }
    leads
}

/// The phases of each axis if positions are counted from that many elements before the output.
pub(super) fn phases(problem: &Problem<3>, lead: [u32; 3]) -> [Vec<Phase>; 3] {
    [0, 1, 2].map(|axis| phases_along(&problem.axes()[axis], lead[axis]))
}

/// As if the output began that much earlier, with so much less padding.
fn phases_along(axis: &Axis, lead: u32) -> Vec<Phase> {
    let lead = lead as usize;
    Axis { output: axis.output + lead, pad_begin: axis.pad_begin - lead as isize, ..*axis }.phases()
}

/// The shortest lead with which the phases of an axis read the fewest input positions together, if all have taps.
fn best(axis: &Axis) -> u32 {
    if axis.output < axis.stride || axis.stride > MOST_PHASES {
        return 0;
    }
    let read_together = |&lead: &u32| {
        let phases = phases_along(axis, lead);
        groups(axis, &phases, 0, phases.len(), false).iter().map(|group| (group.computed.is_empty(), group.taps)).max()
    };
    (0..axis.stride as u32).min_by_key(read_together).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(kernel: usize, stride: usize, padding: isize, dilation: usize) -> Axis {
        let output = (9 * stride as isize - 2 * padding) as usize + dilation * (kernel - 1) + 1;
        Axis { input: 10, output, kernel, stride, dilation, pad_begin: padding }
    }

    #[test]
    fn leads_are_what_padding_leaves_of_the_stride() {
        for (kernel, stride, padding, lead) in
            [(4, 2, 1, 1), (16, 8, 4, 4), (9, 3, 4, 1), (8, 4, 2, 2), (12, 8, 2, 2), (4, 2, 0, 0), (4, 2, 2, 0)]
        {
            assert_eq!(best(&axis(kernel, stride, padding, 1)), lead, "kernel {kernel}, stride {stride}");
        }
    }

    #[test]
    fn no_lead_where_phases_have_nothing_more_in_common() {
        assert_eq!(best(&axis(3, 2, 1, 1)), 0);
        assert_eq!(best(&axis(25, 4, 11, 1)), 0);
        assert_eq!(best(&axis(3, 1, 1, 1)), 0, "one phase");
        assert_eq!(best(&axis(3, 2, 1, 2)), 0, "one phase has no taps");
        assert_eq!(best(&axis(2, 4, 1, 1)), 0, "two of four have none");
        assert_eq!(best(&axis(40, 20, 3, 1)), 0, "more phases than columns have room for");
    }

    #[test]
    fn phases_are_those_of_the_output_from_the_lead_on() {
        let axis = axis(4, 2, 1, 1);
        let (phases, counted) = (axis.phases(), phases_along(&axis, 1));
        // The second of the phases comes first, a position later.
        assert_eq!((counted[0].first_tap, counted[1].first_tap), (phases[1].first_tap, phases[0].first_tap));
        assert_eq!(counted[0].first_input, phases[1].first_input - 1);
        assert_eq!(counted[1].first_input, phases[0].first_input);
        assert_eq!(counted[0].positions, phases[1].positions + 1);
        assert_eq!(counted[1].positions, phases[0].positions);
    }
}
