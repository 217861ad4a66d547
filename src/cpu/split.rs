//! Ways to split a range of indices.

use std::ops::Range;

/// Part number `index` of `0..whole` cut into `parts` parts of about equal size.
pub(super) fn part(whole: usize, parts: usize, index: usize) -> Range<usize> {
    let (size, larger) = (whole / parts, whole % parts);
    let start = index * size + index.min(larger);
    start..start + size + usize::from(index < larger)
}

/// A range cut into pieces of that size, and a rest.
pub(super) fn steps(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(size).map(move |start| start..end.min(start + size))
}
