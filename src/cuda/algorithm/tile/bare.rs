//! Bare rows: output rows that no tap reaches, which producers may write. Where in an output channel they are, and
//! whether it is worth it.

use conv_transpose_kernels::tile::{self, Stretch};

use super::{cost::LATENCY, layout::Layout};

/// The most words of a stretch: longer ones are divided.
const MOST_WORDS: usize = tile::BARE_BYTES as usize / 4;

/// The fewest words of stretches on average: copies of a few words take as long as those of many.
const LEAST_WORDS: usize = 96;

/// The most rows of an output channel that are looked at.
const MOST_ROWS: usize = 1 << 16;

/// Cycles that a warp takes for some stretches at a time, with two such warps of a multiprocessor at work.
const PART_CYCLES: f64 = 630.0;

/// Cycles for each of their bytes.
const BYTE_CYCLES: f64 = 0.19;

/// How much longer that takes in single precision, where teams have more instructions.
const SPLIT: f64 = 1.15;

impl Layout {
    /// Which output rows along an axis have taps: it is the same again after so many of them.
    pub(super) fn with_taps(&self, axis: usize) -> impl ExactSizeIterator<Item = bool> + Clone {
        // Of joined rows, those of the first one.
        let phases = &self.phases[axis][..self.phases[axis].len().min(self.axes[axis].stride)];
        phases.iter().map(|phase| phase.taps > 0)
    }

    /// The word of an output row behind the last one that is in a line. Tiles may have more positions than those with
    /// taps.
    pub(super) fn line_end(&self) -> usize {
        let positions = self.tiles[3] as usize * self.tile[3] as usize;
        self.axes[2].output.min(positions * self.axes[2].stride)
    }

    /// Whether bare rows can be written by producers, and it is worth it: if these have nothing to do, because the
    /// input comes in boxes, and lines are all of what they write to.
    pub(super) fn can_write_bare_rows(&self) -> bool {
        let have_time = self.in_boxes && !self.cut.variant.teams_convert && self.cut.partners == 1;
        let has_all =
            self.fills_first() && self.region.is_whole() && self.region.lead == [0; 3] && self.has_whole_rows();
        let writes_sectors = self.can_have_margins() || self.axes[2].output.is_multiple_of(tile::SECTOR_WORDS as usize);
        self.cut.large_tiles && have_time && has_all && writes_sectors && self.has_long_stretches()
    }

    /// Whether stretches are long on average, and not too many to count.
    fn has_long_stretches(&self) -> bool {
        let [depth, height, width] = self.axes.map(|axis| axis.output);
        let rows = depth.saturating_mul(height);
        if rows > MOST_ROWS {
            return false;
        }
        let along = |axis: usize| self.with_taps(axis).cycle().take(self.axes[axis].output);
        let [slices, rows_of_slice] = [0, 1].map(|axis| along(axis).filter(|has_taps| *has_taps).count());
        let is_before_bare = |(has_taps, next_has): &(bool, bool)| *has_taps && !next_has;
        let before_bare = match self.line_end() < width {
            true => rows_of_slice,
            false => along(1).zip(along(1).skip(1)).filter(is_before_bare).count(),
        };
        // Behind each slice there may be one more.
        let stretches = slices * (before_bare + 1) + 1;
        let bare = rows * width - slices * rows_of_slice * self.line_end();
        let pieces = (stretches + bare / MOST_WORDS) as u128;
        bare >= stretches * LEAST_WORDS && u128::from(self.planes()) * pieces < 1 << 31
    }

    /// Output channels of all samples.
    pub(super) fn planes(&self) -> u64 {
        self.input.batch as u64 * u64::from(self.channel_groups) * u64::from(self.out_channels)
    }

    /// What of an output channel is bare: between lines, before the first one, and behind the last one.
    pub(super) fn stretches(&self) -> Vec<Stretch> {
        let [depth, height, width] = self.axes.map(|axis| axis.output);
        let [before, behind] = self.margins();
        let mut stretches = Vec::new();
        let (mut first, mut begins_with_line) = (0, false);
        for (z, has_taps) in self.with_taps(0).cycle().take(depth).enumerate() {
            for (y, (phase, row_has_taps)) in self.with_taps(1).enumerate().cycle().take(height).enumerate() {
                if !(has_taps && row_has_taps) {
                    continue;
                }
                let line = (z * height + y) * width;
                // There are none where phases are more than bits.
                let is_in = |margins: u32| margins.checked_shr(phase as u32).is_some_and(|bits| bits & 1 != 0);
                add(&mut stretches, [first, line], [begins_with_line, y > 0 && is_in(before)]);
                (first, begins_with_line) = (line + self.line_end(), y + 1 < height && is_in(behind));
            }
        }
        add(&mut stretches, [first, depth * height * width], [begins_with_line, false]);
        stretches
    }

    /// The lanes of each of some warps that write stretches at a time: as few as can do so within the cycles of the
    /// kernel. What is written faster is in the way of inputs.
    pub(super) fn bare_lanes(&self, stretches: &[Stretch], writers: u32, cycles: f64) -> u32 {
        let words: u32 = stretches.iter().map(|stretch| stretch.end - stretch.first).sum();
        let planes = self.planes() as f64 / f64::from(writers);
        let times = planes * if self.cut.variant.split { SPLIT } else { 1.0 };
        let bytes = 4.0 * f64::from(words);
        let taken =
            |lanes: u32| times * (stretches.len() as f64 / f64::from(lanes) * PART_CYCLES + bytes * BYTE_CYCLES);
        (0..5).map(|power| 1 << power).find(|&lanes| taken(lanes) <= cycles - LATENCY).unwrap_or(32)
    }
}

/// Adds a stretch, in equal pieces if it is long. Lines may write the sectors that it begins and ends in.
fn add(stretches: &mut Vec<Stretch>, [first, end]: [usize; 2], [begins_with_line, ends_with_line]: [bool; 2]) {
    let pieces = (end - first).div_ceil(MOST_WORDS);
    let place = |piece: usize| (first + (end - first) * piece / pieces) as u32;
    for piece in 0..pieces {
        let is_begun = if piece == 0 {
            u32::from(begins_with_line) * Stretch::BEGINS_WITH_LINE
        } else {
            Stretch::BEGINS_WITH_SECTOR
        };
        let ends_with_other = piece + 1 < pieces || ends_with_line;
        let flags = is_begun | (u32::from(ends_with_other) * Stretch::ENDS_WITH_OTHER);
        stretches.push(Stretch { first: place(piece), end: place(piece + 1), flags, padding: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConvTranspose2d, Precision, Shape,
        cuda::algorithm::{Target, Task, tile::candidates},
    };

    #[test]
    fn long_stretches_are_divided() {
        let mut stretches = Vec::new();
        add(&mut stretches, [5, 5], [true; 2]);
        assert!(stretches.is_empty());
        add(&mut stretches, [5, 5 + MOST_WORDS], [true, false]);
        add(&mut stretches, [2000, 2000 + 2 * MOST_WORDS + 1], [false, true]);
        let [line, sector, other] = [Stretch::BEGINS_WITH_LINE, Stretch::BEGINS_WITH_SECTOR, Stretch::ENDS_WITH_OTHER];
        let expected =
            [(5, 1029, line), (2000, 2683, other), (2683, 3366, sector | other), (3366, 4049, sector | other)];
        assert_eq!(stretches.iter().map(|it| (it.first, it.end, it.flags)).collect::<Vec<_>>(), expected);
    }

    /// A layout whose producers write bare rows, for a kernel with two rows and three phases between them along y.
    fn layout(stride: usize, dilation: usize, width: usize) -> Layout {
        let layer = ConvTranspose2d::builder(8, 8, [2, 3]).stride([stride, 2]).dilation([dilation, 1]).build().unwrap();
        let problem = layer.problem(Shape::batched(1, 8, [3, width])).unwrap().to_compute();
        let task = Task::new(problem, Precision::Tf32, Target::EMULATED);
        let candidates = candidates(&task).unwrap().into_iter();
        *candidates.map(|(_, layout)| layout).find(|layout| layout.writes_bare_rows).expect("such a layout")
    }

    #[test]
    fn stretches_lie_between_lines() {
        // Rows 0, 4, 8, and 2, 6, 10 have taps; a row has 401 words.
        let layout = layout(4, 2, 200);
        let width = 401;
        assert_eq!((layout.line_end(), layout.margins()), (width, [0b101, 0b101]));
        let both = Stretch::BEGINS_WITH_LINE | Stretch::ENDS_WITH_OTHER;
        let expected: Vec<_> =
            (0..5).map(|row| ((2 * row + 1) * width as u32, (2 * row + 2) * width as u32, both)).collect();
        let stretches = layout.stretches();
        assert_eq!(stretches.iter().map(|it| (it.first, it.end, it.flags)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn few_lanes_write_what_little_there_is_to_write() {
        let layout = layout(4, 2, 200);
        let stretches = layout.stretches();
        let lanes = |cycles| layout.bare_lanes(&stretches, 1, LATENCY + cycles);
        // Five stretches of 401 words in eight channels.
        let bytes = 8.0 * 5.0 * 401.0 * 4.0 * BYTE_CYCLES;
        let parts = |lanes: f64| 8.0 * 5.0 / lanes * PART_CYCLES;
        assert_eq!([1.0, 2.0, 4.0].map(|count| lanes(bytes + parts(count) + 1.0)), [1, 2, 4]);
        assert_eq!(lanes(bytes), 32, "all there are, if there is no time for it");
    }
}
