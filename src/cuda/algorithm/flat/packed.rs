//! Packed: the input as the flat kernels read it, and the two grids that pack it, as those of tiles do.

use conv_transpose_kernels::{
    Divisor,
    flat::{FlatPacking, parts_of_factor},
    tile::INPUT_PACKING_THREADS,
};

use super::{cut::Layout, positions::begin};
use crate::{
    Problem,
    cuda::{
        algorithm::tile,
        recipe::{
            Argument::{self, Input, PackedInput},
            Launch,
        },
    },
};

/// The kernels that pack it, one after the other.
pub(super) fn packers(split: bool) -> [&'static str; 2] {
    if split { ["pack_flat_split", "repack_flat_split"] } else { ["pack_flat", "repack_flat"] }
}

/// Positions that a thread packs, if the blocks are not too many then.
const POSITIONS_OF_THREAD: usize = 4;

/// Words of eight channels of a position.
const POSITION_WORDS: usize = 4;

/// The packed input.
pub(super) struct Packed {
    batch: usize,
    /// Positions of a sample, in all channels.
    positions: usize,
    /// Whether values are split, so that there are twice as many.
    split: bool,
}

impl Packed {
    pub(super) fn new(problem: &Problem<3>, layout: &Layout) -> Self {
        let positions = layout.packed_positions(problem) as usize;
        Self { batch: problem.batch(), positions, split: layout.cut.variant.split }
    }

    /// Words of all samples and the header.
    pub(super) fn len(&self) -> usize {
        self.header() + self.batch * self.positions * POSITION_WORDS * parts_of_factor(self.split) as usize
    }

    /// Words of the header: an exponent for each sample, then the largest values that blocks have found.
    pub(super) fn header(&self) -> usize {
        (self.batch * (1 + self.blocks())).next_multiple_of(POSITION_WORDS)
    }

    /// Blocks that pack a sample.
    fn blocks(&self) -> usize {
        let needed = self.positions.div_ceil(INPUT_PACKING_THREADS as usize * POSITIONS_OF_THREAD);
        needed.min(tile::PACKING_BLOCKS / self.batch.max(1)).max(1)
    }

    /// The launches that pack it. The first one needs nothing of what is before it, and the second one waits for that.
    pub(super) fn pack(&self, problem: &Problem<3>, layout: &Layout) -> [Launch; 2] {
        let axes = problem.axes();
        let divisor = |value: usize| Divisor::new(value as u64);
        let input = axes.each_ref().map(|axis| axis.input as u32);
        let residues = layout.cut.residues();
        let packing = FlatPacking {
            row: divisor(layout.positions.row as usize),
            slice: divisor(layout.positions.slice as usize),
            planes: divisor((layout.plane * residues[2]) as usize),
            outer_residues: divisor((residues[0] * residues[1]) as usize),
            channel_blocks: divisor(2 * layout.channel_blocks as usize),
            blocks: divisor(self.blocks()),
            sample: axes.iter().map(|axis| axis.input as u64).product::<u64>() * problem.in_channels() as u64,
            input,
            begin: axes.each_ref().map(|axis| begin(axis) as u32),
            residues,
            input_plane: input.iter().product(),
            in_per_group: problem.in_channels_per_group() as u32,
            batch: self.batch as u32,
            positions: self.positions as u32,
            positions_of_block: self.positions.div_ceil(self.blocks()).next_multiple_of(INPUT_PACKING_THREADS as usize)
                as u32,
            header: self.header() as u32,
            plane: layout.plane,
        };
        let blocks = (self.batch * self.blocks()) as u32;
        let launch = |kernel: &'static str| {
            let arguments = vec![Argument::value(&packing), Input, PackedInput];
            Launch { beside: true, ..Launch::of_blocks(kernel, blocks, INPUT_PACKING_THREADS, arguments) }
        };
        packers(self.split).map(launch)
    }
}
