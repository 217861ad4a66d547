//! The input as tile kernels read it: the tensor as it is, or packed, two channels as `f16` numbers in a word.

use conv_transpose_kernels::{
    Divisor,
    tile::{INPUT_PACKING_THREADS, InputPacking, Variant},
};

use crate::{
    Problem,
    cuda::recipe::{
        Argument::{self, PackedInput},
        Launch,
    },
};

/// Kernels that pack the input, in order; as sums of two numbers if they are to be `split`.
pub(super) const fn packers(split: bool) -> [&'static str; 2] {
    if split { ["pack_input_split", "repack_input_split"] } else { ["pack_input", "repack_input"] }
}

/// Words of rows of a packed input, and of its header, are multiples of this.
const FOUR: usize = 4;

/// Pairs of channels of a group of a packed input are multiples of this, if there are several groups or two parts:
/// tensor cores multiply so many together, and boxes hold whole multiples.
const GROUP_PAIRS: usize = 8;

/// Blocks that pack the input, if samples are fewer: about as many as run at the same time.
pub(in crate::cuda::algorithm) const PACKING_BLOCKS: usize = 1024;

/// Fours of words that a thread packs, if there are not so many blocks.
const FOURS_OF_THREAD: usize = 2;

/// A dense row-major tensor `[sample][group][channel][z][y][x]` of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Extents z, y and x. Beyond the input's own, rows have zeros.
    pub(super) extents: [usize; 3],
    /// Words of a group for each position.
    pub(super) channels: usize,
    pub(super) groups: usize,
    pub(super) batch: usize,
    /// Words before the first one.
    pub(super) header: usize,
    /// Whether it is packed as sums of two numbers: eight words of large parts, eight of small ones.
    pub(super) is_split: bool,
}

impl Input {
    /// As a kernel reads it.
    pub(super) fn new(problem: &Problem<3>, variant: &Variant) -> Self {
        let (channels, groups) = (problem.in_channels_per_group(), problem.groups());
        let extents = problem.axes().map(|axis| axis.input);
        let as_it_is = Self { extents, channels, groups, batch: problem.batch(), header: 0, is_split: false };
        if !variant.reads_packed() {
            return as_it_is;
        }
        let [z, y, x] = extents;
        let pairs = channels.div_ceil(2);
        let pairs = if variant.split || groups > 1 { pairs.next_multiple_of(GROUP_PAIRS) } else { pairs };
        let packed = Self {
            extents: [z, y, x.next_multiple_of(FOUR)],
            channels: if variant.split { 2 * pairs } else { pairs },
            is_split: variant.split,
            ..as_it_is
        };
        Self { header: (packed.batch * (1 + packed.blocks())).next_multiple_of(FOUR), ..packed }
    }

    /// Whether the kernels that pack the input can count what they pack, twice as much if it is to be `split`.
    pub(super) fn can_be_packed(problem: &Problem<3>, split: bool) -> bool {
        const COUNTED: u128 = 1 << 31;
        let [z, y, x] = problem.axes().map(|axis| axis.input as u128);
        let channels = (problem.in_channels_per_group().div_ceil(2).next_multiple_of(GROUP_PAIRS)) as u128;
        let parts = if split { 2 } else { 1 };
        let fours = parts * z * y * x.div_ceil(FOUR as u128) * channels * problem.groups() as u128;
        fours < COUNTED && (problem.batch() * PACKING_BLOCKS) as u128 <= COUNTED
    }

    /// Words of a channel.
    pub(super) fn plane(&self) -> usize {
        self.extents.iter().product()
    }

    /// Words of a sample.
    pub(super) fn sample(&self) -> usize {
        self.plane() * self.channels * self.groups
    }

    /// Words of all samples and the header.
    pub(super) fn len(&self) -> usize {
        self.header + self.batch * self.sample()
    }

    /// Blocks that pack a sample.
    fn blocks(&self) -> usize {
        let needed = (self.sample() / FOUR).div_ceil(INPUT_PACKING_THREADS as usize * FOURS_OF_THREAD);
        needed.min(PACKING_BLOCKS / self.batch.max(1)).max(1)
    }

    /// The launches that pack it.
    pub(super) fn pack(&self, problem: &Problem<3>) -> [Launch; 2] {
        let [_, _, x] = problem.axes();
        let [z, y, width] = self.extents;
        let divisor = |value: usize| Divisor::new(value as u64);
        // Of pairs of channels, which are two fours of words each if they are split.
        let fours = self.sample() / FOUR / if self.is_split { 2 } else { 1 };
        let packing = InputPacking {
            row_fours: divisor(width / FOUR),
            rows: divisor(z * y),
            plane_fours: divisor(self.plane() / FOUR),
            pairs: divisor(if self.is_split { self.channels / 2 } else { self.channels }),
            blocks: divisor(self.blocks()),
            sample: (z * y * x.input * problem.in_channels()) as u64,
            width: x.input as u32,
            channels: problem.in_channels_per_group() as u32,
            batch: self.batch as u32,
            fours: (self.sample() / FOUR) as u32,
            fours_of_block: fours.div_ceil(self.blocks()).next_multiple_of(INPUT_PACKING_THREADS as usize) as u32,
            header: self.header as u32,
        };
        let blocks = (self.batch * self.blocks()) as u32;
        let packers = packers(self.is_split);
        packers.map(|kernel| {
            let arguments = vec![Argument::value(&packing), Argument::Input, PackedInput];
            let launch = Launch::of_blocks(kernel, blocks, INPUT_PACKING_THREADS, arguments);
            // The first one needs nothing of what is before it, and the second one waits for that.
            Launch { beside: true, shared_bytes: packing.shared_bytes(), ..launch }
        })
    }
}

#[cfg(test)]
mod tests {
    use conv_transpose_kernels::tile::VARIANTS;

    use super::*;
    use crate::{ConvTranspose2d, Shape};

    fn problem(batch: usize, channels: usize, groups: usize, extents: [usize; 2]) -> Problem<3> {
        let layer = ConvTranspose2d::builder(channels, 64 * groups, [3; 2]).groups(groups).build().unwrap();
        layer.problem(Shape::batched(batch, channels, extents)).unwrap().to_compute()
    }

    fn packed(problem: &Problem<3>) -> Input {
        Input::new(problem, VARIANTS.iter().find(|variant| variant.reads_packed()).unwrap())
    }

    #[test]
    fn a_packed_word_has_two_channels_and_rows_are_fours() {
        let input = packed(&problem(3, 37, 1, [5, 6]));
        assert_eq!((input.extents, input.channels, input.sample()), ([1, 5, 8], 19, 19 * 40));
        assert_eq!((input.header, input.len()), (8, 8 + 3 * 19 * 40), "an exponent and a block for each sample");
        assert_eq!(packed(&problem(3, 74, 2, [5, 6])).channels, 24, "whole blocks of each group");
        let variant = VARIANTS.iter().find(|variant| variant.teams_convert).unwrap();
        let input = Input::new(&problem(3, 37, 1, [5, 6]), variant);
        assert_eq!((input.extents, input.channels, input.header), ([1, 5, 6], 37, 0), "as it is");
    }

    #[test]
    fn what_is_split_has_two_words_for_each_pair_in_whole_blocks() {
        let variant = VARIANTS.iter().find(|variant| variant.reads_packed() && variant.split).unwrap();
        let input = Input::new(&problem(3, 37, 1, [5, 6]), variant);
        assert_eq!((input.extents, input.channels, input.is_split), ([1, 5, 8], 48, true));
        assert_eq!(Input::new(&problem(3, 34, 2, [5, 6]), variant).channels, 32, "of each group");
    }

    #[test]
    fn few_blocks_pack_many_samples() {
        let blocks = |batch, extent| packed(&problem(batch, 64, 1, [extent; 2])).blocks();
        assert_eq!(blocks(1, 4), 1);
        assert_eq!(blocks(1, 64), 64, "512 fours each");
        assert_eq!((blocks(1, 1024), blocks(100, 1024), blocks(2000, 1024)), (1024, 10, 1));
    }

    #[test]
    fn too_large_a_sample_is_not_packed() {
        assert!(Input::can_be_packed(&problem(1, 32, 1, [1 << 14; 2]), false));
        assert!(!Input::can_be_packed(&problem(1, 32, 1, [1 << 14; 2]), true), "two words for each pair");
        assert!(!Input::can_be_packed(&problem(1, 512, 1, [1 << 14; 2]), false));
        assert!(!Input::can_be_packed(&problem(1 << 22, 32, 1, [1; 2]), false), "too many blocks");
    }
}
