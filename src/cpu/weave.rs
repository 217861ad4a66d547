//! Interleaves the phases of the last axis into a row of output.
//!
//! Output positions `q * stride + r` come from position `q` of phase `r`. All phases of a row are at hand when it is stored, so
//! each cache line of the output is written once and whole.

/// The phases of one output row: `line(r)` is at `first + r * pitch` of `lines`.
pub(super) struct Woven<'a> {
    pub lines: &'a [f32],
    pub first: usize,
    pub pitch: usize,
    /// Number of positions of each phase; they differ by at most one and do not grow.
    pub counts: &'a [usize],
}

impl Woven<'_> {
    fn line(&self, r: usize, count: usize) -> &[f32] {
        let start = self.first + r * self.pitch;
        &self.lines[start..start + count]
    }

    /// Stores position `q` of phase `r` as `row[q * stride + r]`.
    pub fn store(&self, row: &mut [f32], stride: usize) {
        let full = self.counts.last().copied().unwrap_or(0);
        match (self.counts.len() == stride, stride) {
            (true, 1) => row[..full].copy_from_slice(self.line(0, full)),
            (true, 2) => self.store_all::<2>(row, full),
            (true, 3) => self.store_all::<3>(row, full),
            (true, 4) => self.store_all::<4>(row, full),
            (true, 8) => self.store_all::<8>(row, full),
            _ => self.store_range(row, stride, 0),
        }
        if self.counts.len() == stride {
            self.store_range(row, stride, full);
        }
    }

    fn store_all<const STRIDE: usize>(&self, row: &mut [f32], count: usize) {
        let lines: [&[f32]; STRIDE] = std::array::from_fn(|r| self.line(r, count));
        let (elements, _) = row[..count * STRIDE].as_chunks_mut::<STRIDE>();
        for (q, woven) in elements.iter_mut().enumerate() {
            for (element, line) in woven.iter_mut().zip(lines) {
                *element = line[q];
            }
        }
    }

    /// Positions `from..` of each phase, element by element.
    fn store_range(&self, row: &mut [f32], stride: usize, from: usize) {
        for (r, &count) in self.counts.iter().enumerate() {
            let line = self.line(r, count);
            for q in from..count {
                row[q * stride + r] = line[q];
            }
        }
    }
}
