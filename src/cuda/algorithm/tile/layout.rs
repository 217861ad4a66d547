//! A cut: how a problem is divided into tiles, and what follows from that for shared memory and the grid.

use std::{fmt, sync::Arc};

use conv_transpose_kernels::tile::{self, Variant};

use crate::{Axis, Phase, Problem};

/// The rings and the staged output begin at multiples of this many bytes.
const ALIGN: u32 = 128;

/// A chunk of weights ends where another cluster of products would exceed this many bytes.
const CHUNK_BYTES: u32 = 24 << 10;

/// In single precision, partial sums are moved out of the tensor cores after at most that many products of eight channels, where
/// chunks allow it. The error of the sums grows with their number.
const PROMOTE_AFTER: u32 = 16;

/// The choices that are open when a problem is divided into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The kernel: output channels of a tile, slots, precision.
    pub(super) variant: &'static Variant,
    /// Slots that are phases: along z, y and x. Those along x are neighbours in the output. The rest of the slots are neighbouring
    /// positions of `row_axis`.
    pub(super) phases: [u32; 3],
    /// The axis along which slots are neighbours.
    pub(super) row_axis: usize,
    /// Positions of the tile for each slot: samples, z, y, x.
    pub(super) extents: [u32; 4],
    /// Channels of a stage, divided by eight.
    pub(super) stage_blocks: u32,
}

/// A pass: the phases that a block computes.
#[derive(Clone, Debug)]
pub(super) struct PassPhases {
    /// The first phase along each axis, of as many as are slots.
    pub(super) first: [usize; 3],
}

/// What follows from a cut.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) cut: Cut,
    /// The phases of each axis.
    pub(super) phases: Arc<[Vec<Phase>; 3]>,
    /// Distance between the origins of tiles: samples, z, y, x.
    pub(super) tile: [u32; 4],
    /// Tiles along samples, z, y, x.
    pub(super) tiles: [u32; 4],
    /// Staged extents: z, y, x.
    pub(super) halo: [u32; 3],
    /// Words of a staged row.
    pub(super) pitch: u32,
    /// Words of a staged channel.
    pub(super) channel_words: u32,
    /// Words that are copied at once.
    pub(super) copy_words: u32,
    /// Tiles of output channels.
    pub(super) channel_tiles: u32,
    /// Stages of input channels.
    pub(super) stages: u32,
}

/// Sizes and places in shared memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) input_start: u32,
    pub(super) input_bytes: u32,
    pub(super) weight_start: u32,
    pub(super) output_start: u32,
    pub(super) total: u32,
}

impl Cut {
    /// Whether all slots are rows, which dense runs serve.
    pub(super) fn is_dense(&self) -> bool {
        self.phases == [1; 3]
    }

    /// Neighbouring positions of the row axis that are slots.
    pub(super) fn rows(&self) -> u32 {
        self.variant.slots / self.phases.iter().product::<u32>()
    }

    /// How many slots lie between neighbouring positions of the box along an axis.
    pub(super) fn step(&self, axis: usize) -> u32 {
        if axis == self.row_axis && axis < 2 { self.rows() } else { 1 }
    }

    /// How many positions of an axis a tile covers.
    fn reach(&self, axis: usize) -> u32 {
        self.extents[axis + 1] * if axis == self.row_axis { self.rows() } else { 1 }
    }
}

impl Layout {
    /// The layout of a cut, for the problem's phases; `None` where counts overflow.
    pub(super) fn new(problem: &Problem<3>, phases: &Arc<[Vec<Phase>; 3]>, cut: Cut) -> Option<Self> {
        let axes = problem.axes();
        let reach = [0, 1, 2].map(|axis| cut.reach(axis));
        let positions = phases.each_ref().map(|phases| phases[0].positions as u32);
        let tiles = [0, 1, 2].map(|axis| positions[axis].div_ceil(reach[axis]));
        let spans = [0, 1, 2].map(|axis| span(&axes[axis], &phases[axis], cut.phases[axis] as usize));
        let wide_copies = axes[2].input.is_multiple_of(4) && (tiles[2] == 1 || reach[2].is_multiple_of(4));
        let halo = [0, 1, 2].map(|axis| (u64::from(reach[axis]) + spans[axis] - 1).try_into().ok());
        let [Some(z), Some(y), Some(x)]: [Option<u32>; 3] = halo else { return None };
        // A row that is copied four words at a time begins up to three words before its first element.
        let pitch = if wide_copies { x.checked_add(3)?.next_multiple_of(4) } else { x };
        let words = cut.extents[0].checked_mul(z)?.checked_mul(y)?.checked_mul(pitch)?;
        if words > 1 << 16 {
            return None;
        }
        let tile = [cut.extents[0], reach[0], reach[1], reach[2]];
        Some(Self {
            cut,
            phases: phases.clone(),
            tile,
            tiles: [(problem.batch() as u32).div_ceil(cut.extents[0]), tiles[0], tiles[1], tiles[2]],
            halo: [z, y, x],
            pitch,
            channel_words: channel_words(words),
            copy_words: if wide_copies { 4 } else { 1 },
            channel_tiles: (problem.out_channels_per_group() as u32).div_ceil(cut.variant.channels),
            stages: (problem.in_channels_per_group() as u32).div_ceil(8 * cut.stage_blocks),
        })
    }

    /// Passes along each axis: groups of as many phases as are slots.
    fn passes_along(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.phases[axis].len().div_ceil(self.cut.phases[axis] as usize))
    }

    /// Number of passes.
    pub(super) fn passes(&self) -> usize {
        self.passes_along().iter().product()
    }

    /// The phases of a pass.
    pub(super) fn pass(&self, number: usize) -> PassPhases {
        let [_, y, x] = self.passes_along();
        let groups = [number / x / y, number / x % y, number % x];
        PassPhases { first: [0, 1, 2].map(|axis| groups[axis] * self.cut.phases[axis] as usize) }
    }

    /// The phases of a pass along an axis.
    pub(super) fn phases_of(&self, pass: &PassPhases, axis: usize) -> &[Phase] {
        let phases = &self.phases[axis];
        &phases[pass.first[axis]..phases.len().min(pass.first[axis] + self.cut.phases[axis] as usize)]
    }

    /// Copies of a staged channel.
    pub(super) fn copies(&self) -> u32 {
        self.cut.extents[0] * self.halo[0] * self.halo[1] * (self.pitch / self.copy_words)
    }

    /// Bytes of a staged slab.
    pub(super) fn slab_bytes(&self) -> u32 {
        tile::slab_bytes(self.cut.variant.channels, self.cut.variant.split)
    }

    /// The most slabs of a chunk, unless one cluster alone has more.
    pub(super) fn chunk_slabs(&self) -> u32 {
        let slabs = (CHUNK_BYTES / self.slab_bytes()).max(1);
        if self.cut.variant.split { slabs.min(PROMOTE_AFTER) } else { slabs }
    }

    /// Whether partial sums move on after that many products.
    pub(super) fn promotes(&self, products: u32) -> bool {
        products >= PROMOTE_AFTER / 2
    }

    /// Jobs: a pass over a tile of positions and output channels, each.
    pub(super) fn jobs(&self, groups: usize) -> u64 {
        let tiles: u64 = self.tiles.iter().map(|&tiles| u64::from(tiles)).product();
        tiles * u64::from(self.channel_tiles) * self.passes() as u64 * groups as u64
    }

    /// Shared memory for rings with that many inputs, and chunks of at most that many slabs.
    pub(super) fn shared(&self, input_ring: u32, chunk_slabs: u32) -> Shared {
        let Cut { variant, stage_blocks, .. } = self.cut;
        // The table of offsets comes first.
        let input_start = (4 * self.copies()).next_multiple_of(ALIGN);
        let input_bytes = 4 * 8 * stage_blocks * self.channel_words;
        let weight_start = (input_start + input_ring * input_bytes).next_multiple_of(ALIGN);
        let output_start = weight_start + tile::WEIGHT_RING * chunk_slabs * self.slab_bytes();
        let total = output_start + 4 * tile::output_words(variant.slots);
        Shared { input_start, input_bytes, weight_start, output_start, total }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { phases, row_axis, extents: [n, z, y, x], stage_blocks, .. } = self.cut;
        let [rows, channels] = [self.cut.rows(), 8 * stage_blocks];
        write!(f, "on {n}x{z}x{y}x{x} positions")?;
        if rows > 1 {
            write!(f, " times {rows} along {}", ["z", "y", "x"][row_axis])?;
        }
        if let [1, 1, 1] = phases {
        } else {
            let [z, y, x] = phases;
            write!(f, ", {z}x{y}x{x} phases")?;
        }
        write!(f, ", {channels} channels at a time")
    }
}

/// The most input positions between the first and the last one that a position of a pass reads, both included.
fn span(axis: &Axis, phases: &[Phase], together: usize) -> u64 {
    let spans = phases.chunks(together).map(|phases| match reads(axis, phases) {
        Some((first, last)) => (last - first) as u64 + 1,
        None => 1,
    });
    spans.max().unwrap_or(1)
}

/// The first and the last input position that position 0 of some phases reads, if they have taps.
pub(super) fn reads(axis: &Axis, phases: &[Phase]) -> Option<(i64, i64)> {
    let with_taps = || phases.iter().filter(|phase| phase.taps > 0);
    let last = with_taps().map(|phase| phase.first_input as i64).max()?;
    let first =
        with_taps().map(|phase| phase.first_input as i64 - ((phase.taps - 1) * axis.input_step()) as i64).min()?;
    Some((first, last))
}

/// At least that many words, and 8 or 24 modulo 32: four channels times eight neighbouring positions then lie on 32 banks.
fn channel_words(words: u32) -> u32 {
    let rest = words % 32;
    words - rest
        + if rest <= 8 {
            8
        } else if rest <= 24 {
            24
        } else {
            40
        }
}
