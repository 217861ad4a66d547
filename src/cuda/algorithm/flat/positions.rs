//! Positions: how those of a sample are numbered along one axis, so that each tap reads the input at a fixed distance.
//!
//! Along an axis, output `o` reads, by tap `k`, coordinate `o + shift(k)`, where
//! `shift(k) = begin + padding - k * dilation` is not negative, and the input lies at coordinates from `begin` on. All
//! other coordinates are zero. Rows follow each other: what is read behind the end of one is the beginning of the next
//! one, which is to be zero as well.

use crate::Axis;

/// The coordinate of the first input element.
pub(super) fn begin(axis: &Axis) -> usize {
    (reach(axis) as isize - axis.pad_begin).max(0) as usize
}

/// From the first tap to the last one.
fn reach(axis: &Axis) -> usize {
    (axis.kernel - 1) * axis.dilation
}

/// How far behind its output position a tap reads.
pub(super) fn shift(axis: &Axis, tap: usize) -> usize {
    // Not negative: the padding is at least what the last tap reaches, less where the input begins.
    (begin(axis) as isize + axis.pad_begin - (tap * axis.dilation) as isize) as usize
}

/// Coordinates from one row to the next: as many as there are outputs, as the input needs, and so many that what the
/// first tap reads behind them lies before the next input.
fn pitch(axis: &Axis) -> usize {
    let read = (axis.output as isize + axis.pad_begin).max(0) as usize;
    axis.output.max(begin(axis) + axis.input).max(read)
}

/// The positions of a sample, of which each may stand for some residues along x, and along one of the outer axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    /// Positions of a row.
    pub(super) row: u32,
    /// Rows of a slice.
    pub(super) slice: u32,
    /// Positions up to the last one that has an output.
    pub(super) count: u32,
    /// Positions up to the last one that is read.
    pub(super) read: u32,
}

impl Positions {
    /// Those of three axes with so many residues along each; none if there are too many.
    pub(super) fn new(axes: &[Axis; 3], residues: [u32; 3]) -> Option<Self> {
        const MOST: usize = 1 << 30;
        let [z, y, x] = axes;
        let outputs = |axis: &Axis, residues: u32| axis.output.div_ceil(residues as usize);
        let row = pitch(x).div_ceil(residues[2] as usize);
        let slice = pitch(y).div_ceil(residues[1] as usize);
        let before = (outputs(z, residues[0]) - 1).checked_mul(slice)?.checked_add(outputs(y, residues[1]) - 1)?;
        let count = before.checked_mul(row)?.checked_add(outputs(x, residues[2]))?;
        // The first tap reads furthest behind the last one.
        let behind = shift(z, 0).checked_mul(slice)?.checked_add(shift(y, 0))?.checked_mul(row)?;
        let read = count.checked_add(behind)?.checked_add(shift(x, 0))?;
        let are_countable = read <= MOST && slice.checked_mul(row)? <= MOST;
        let [row, slice, count, read] = [row, slice, count, read].map(|number| number as u32);
        are_countable.then_some(Self { row, slice, count, read })
    }

    /// From one position to the next along an outer axis.
    pub(super) fn step(&self, axis: usize) -> u32 {
        if axis == 0 { self.slice * self.row } else { self.row }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The input along a row of positions, by what it is at each: `None` where it is zero.
    fn at(axis: &Axis, row: usize, coordinate: usize) -> Option<(usize, usize)> {
        let (rows, within) = (coordinate / pitch(axis), coordinate % pitch(axis));
        let input = within.checked_sub(begin(axis)).filter(|&input| input < axis.input)?;
        Some((row + rows, input))
    }

    /// From one slice to the next is a number of 32 bits for the kernels, whatever of them is read.
    #[test]
    fn slices_are_not_too_far_apart() {
        let axis = |input, output, kernel, dilation| Axis { input, output, kernel, stride: 1, dilation, pad_begin: 0 };
        let of_rows = |rows| [axis(1, 1, 1, 1), axis(rows, 2, 2, 1), axis(100, 1300, 2, 1200)];
        assert!(Positions::new(&of_rows(3_500_000), [1; 3]).is_none());
        assert!(Positions::new(&of_rows(350_000), [1; 3]).is_some());
    }

    proptest! {
        #[test]
        fn each_tap_reads_at_its_distance(
            input in 1usize..9, output in 1usize..30, kernel in 1usize..8, dilation in 1usize..4, pad_begin in -9isize..20,
        ) {
            let axis = Axis { input, output, kernel, stride: 1, dilation, pad_begin };
            for (o, tap) in (0..output).flat_map(|o| (0..kernel).map(move |tap| (o, tap))) {
                let defined = o as isize + pad_begin - (tap * dilation) as isize;
                let defined = (0..input as isize).contains(&defined).then_some((0, defined as usize));
                prop_assert_eq!(at(&axis, 0, o + shift(&axis, tap)), defined, "output {}, tap {}", o, tap);
            }
        }
    }
}
