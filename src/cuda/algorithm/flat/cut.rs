//! Cut: what is open when positions are divided into tiles, and what follows from each choice.

use std::fmt;

use conv_transpose_kernels::{
    flat::{self, CHANNELS, TEAM_CHANNELS, Variant},
    tile::{MOST_RING_SLOTS, TEAMS},
};

use super::{Task, parts::Parts, positions::Positions, variants};
use crate::Problem;

/// Bytes of a position in a plane: of eight channels.
const PLANE_POSITION_BYTES: u32 = CHANNELS / 2 * 2;

/// The fewest stages that are kept: one that is multiplied, one that is left, and one that is on its way.
const LEAST_RING: u32 = 3;

/// Where stages begin: at multiples of so many bytes.
const ALIGN: u32 = 128;

/// What the teams of a block divide between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Divided {
    /// The positions of a tile: the second team has those behind the first team's.
    Positions,
    /// Its residues: both have the same positions of different ones.
    Residues,
    /// Its output channels.
    Channels,
}

/// A way to divide positions and channels into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) variant: &'static Variant,
    /// The outer axis along which positions have residues: 0 or 1.
    pub(super) axis: usize,
    /// Residues along it that share the rows of a product, a power of two.
    pub(super) joined: u32,
    /// Residues along x that do: 1 or 2.
    pub(super) joined_along_x: u32,
    pub(super) divided: Divided,
    /// Whether rows of taps that overlap are staged together.
    pub(super) merges_rows: bool,
}

impl Cut {
    /// All cuts that are worth a thought.
    pub(super) fn all(task: &Task) -> Vec<Self> {
        let mut cuts = Vec::new();
        let joined = [1, 2, 4, 8].into_iter().flat_map(|joined| [(0, joined), (1, joined)]);
        let joined: Vec<_> = joined.flat_map(|(axis, joined)| [(axis, joined, 1), (axis, joined, 2)]).collect();
        let divided = [Divided::Positions, Divided::Residues, Divided::Channels];
        for (variant, divided) in variants(task.precision).flat_map(|variant| divided.map(|divided| (variant, divided)))
        {
            for &(axis, joined, joined_along_x) in &joined {
                for merges_rows in [false, true] {
                    cuts.push(Self { variant, axis, joined, joined_along_x, divided, merges_rows });
                }
            }
        }
        cuts.retain(|cut| cut.is_worth_a_thought(&task.problem));
        cuts
    }

    fn is_worth_a_thought(&self, problem: &Problem<3>) -> bool {
        let axes = problem.axes();
        let [along, x] = [&axes[self.axis], &axes[2]];
        let channels = problem.out_channels_per_group() as u32;
        let residues = (self.joined * self.rows()) as usize;
        let fills_rows = self.divided != Divided::Channels || channels > self.channels() / 2;
        // Rows are joined by eights of channels, and not if half as many of each would have room for all.
        let has_room = self.channels() >= 8 && (self.all_joined() == 1 || channels < 2 * self.channels());
        // Without residues both axes are alike; rows of residues are staged together anyway.
        let has_use_of_residues =
            if residues == 1 { self.axis == 1 } else { along.kernel > 1 && along.output >= residues };
        // Neighbours read nothing in common where taps are further apart.
        let has_use_along_x = self.joined_along_x == 1 || x.kernel > 1 && x.dilation == 1 && x.output > 1;
        let has_use_of_merging = !self.merges_rows || self.rows() == 1 && axes[0].kernel * axes[1].kernel > 1;
        fills_rows && has_room && has_use_of_residues && has_use_along_x && has_use_of_merging
    }

    /// Into how many shares teams divide something.
    fn shares(&self, what: Divided) -> u32 {
        if self.divided == what { TEAMS } else { 1 }
    }

    /// Residues that teams divide, counted in joined ones.
    pub(super) fn rows(&self) -> u32 {
        self.shares(Divided::Residues)
    }

    /// Residues along each axis.
    pub(super) fn residues(&self) -> [u32; 3] {
        let residues = self.joined * self.rows();
        if self.axis == 0 { [residues, 1, self.joined_along_x] } else { [1, residues, self.joined_along_x] }
    }

    /// Residues that share the rows of a product.
    pub(super) fn all_joined(&self) -> u32 {
        self.joined * self.joined_along_x
    }

    /// Columns of the packed weight: rows of the products of all teams that divide them.
    pub(super) fn columns(&self) -> u32 {
        TEAM_CHANNELS * self.shares(Divided::Channels)
    }

    /// Numbers of which a factor is the sum.
    pub(super) fn parts_of_factor(&self) -> u32 {
        flat::parts_of_factor(self.variant.split)
    }

    /// Bytes of a slab of it.
    pub(super) fn slab_bytes(&self) -> u32 {
        self.parts_of_factor() * self.columns() * CHANNELS * 2
    }

    /// Bytes of a position in all planes of a stage.
    pub(super) fn position_bytes(&self) -> u32 {
        self.parts_of_factor() * CHANNELS * 2
    }

    /// Output channels that there is room for.
    fn channels(&self) -> u32 {
        self.columns() / self.all_joined()
    }

    /// Positions of a tile.
    pub(super) fn tile_positions(&self) -> u32 {
        self.variant.positions * self.shares(Divided::Positions)
    }

    /// Whether shared memory of that size has room for stages that have the taps of a row, and what they read; and
    /// whether a sum may be of so many.
    pub(super) fn has_room(&self, row_taps: usize, reach: u32, available: u32) -> bool {
        if self.variant.split && row_taps > flat::MOST_TAPS_OF_SUMS as usize {
            return false;
        }
        let positions = u64::from(self.tile_positions()) + u64::from(reach);
        has_room(
            u64::from(self.position_bytes()) * positions + row_taps as u64 * u64::from(self.slab_bytes()),
            available,
        )
    }
}

/// Whether there is room for as many stages as are needed.
fn has_room(stage_bytes: u64, available: u32) -> bool {
    stage_bytes * u64::from(LEAST_RING) <= available.into()
}

/// A cut that fits the device, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) cut: Cut,
    pub(super) positions: Positions,
    pub(super) parts: Parts,
    pub(super) shared: Shared,
    /// Tiles of positions of a sample.
    pub(super) tiles: u32,
    /// Output channels of a tile, and tiles of those of a group.
    pub(super) tile_channels: u32,
    pub(super) channel_tiles: u32,
    /// Blocks of 16 input channels of a group.
    pub(super) channel_blocks: u32,
    /// Positions of a packed plane: all that taps read, of one residue of eight channels.
    pub(super) plane: u32,
}

impl Layout {
    /// The layout of a cut, if it fits.
    pub(super) fn new(task: &Task, cut: Cut) -> Option<Self> {
        let problem = &task.problem;
        let positions = Positions::new(problem.axes(), cut.residues())?;
        let parts = Parts::new(problem.axes(), &cut, &positions, task.target.shared_bytes)?;
        let shared = Shared::new(&cut, &parts, task.target.shared_bytes)?;
        let out_channels = problem.out_channels_per_group() as u32;
        let tile_channels = cut.channels().min(out_channels.next_multiple_of(8));
        let tiles = positions.count.div_ceil(cut.tile_positions());
        let layout = Self {
            plane: (tiles - 1).checked_mul(cut.tile_positions())?.checked_add(parts.reach())?,
            tiles,
            tile_channels,
            channel_tiles: out_channels.div_ceil(tile_channels),
            channel_blocks: (problem.in_channels_per_group() as u32).div_ceil(CHANNELS),
            cut,
            positions,
            parts,
            shared,
        };
        let weight_words =
            layout.jobs_of_weights(problem) * u64::from(layout.slabs()) * u64::from(cut.slab_bytes() / 4);
        let packed_positions = layout.packed_positions(problem) * u64::from(cut.parts_of_factor());
        let counts = [layout.jobs(problem), weight_words, packed_positions];
        let is_countable = counts.into_iter().all(|count| count < 1 << 31);
        is_countable.then_some(layout)
    }

    /// Slabs of a block of channels.
    pub(super) fn slabs(&self) -> u32 {
        self.parts.slabs.len() as u32 / self.cut.all_joined()
    }

    /// Jobs of all samples.
    pub(super) fn jobs(&self, problem: &Problem<3>) -> u64 {
        let planes = problem.batch() as u64 * problem.groups() as u64;
        planes * u64::from(self.tiles) * u64::from(self.channel_tiles)
    }

    /// Packed positions of a sample, of all channels and residues; if values are split, those of large parts.
    pub(super) fn packed_positions(&self, problem: &Problem<3>) -> u64 {
        let residues: u64 = self.cut.residues().into_iter().map(u64::from).product();
        problem.groups() as u64 * 2 * u64::from(self.channel_blocks) * residues * u64::from(self.plane)
    }

    /// Blocks of channels of the weight, of all tiles of channels.
    fn jobs_of_weights(&self, problem: &Problem<3>) -> u64 {
        problem.groups() as u64 * u64::from(self.channel_tiles) * u64::from(self.channel_blocks)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { axis, joined, joined_along_x, variant, divided, .. } = self.cut;
        let (rows, parts) = (self.cut.rows(), self.parts.parts.len());
        let times = self.cut.shares(Divided::Positions);
        write!(f, "{times} times {} positions, ", variant.positions)?;
        if rows * joined > 1 {
            write!(f, "{rows} rows and {joined} joined along axis {axis}, ")?;
        }
        if joined_along_x > 1 {
            write!(f, "{joined_along_x} joined along x, ")?;
        }
        if divided == Divided::Channels {
            f.write_str("channels divided, ")?;
        }
        write!(f, "{parts} parts of {} positions, {} stages", self.parts.stretch, self.shared.ring)
    }
}

/// How the shared memory of a block is divided up, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) ring: u32,
    pub(super) plane_bytes: u32,
    pub(super) stage_bytes: u32,
    pub(super) weight_start: u32,
    pub(super) stages_start: u32,
    pub(super) total: u32,
}

impl Shared {
    fn new(cut: &Cut, parts: &Parts, available: u32) -> Option<Self> {
        let align = |bytes: u64| bytes.next_multiple_of(ALIGN.into());
        let positions = u64::from(parts.most_stretches()) * u64::from(parts.stretch);
        let plane_bytes = positions * u64::from(PLANE_POSITION_BYTES);
        let weight_start = align(positions * u64::from(cut.position_bytes()));
        let stage_bytes = weight_start + u64::from(parts.most_slabs() * cut.slab_bytes());
        let stages_start = flat::fixed_bytes(parts.table_rows());
        let left = available.checked_sub(stages_start)?;
        if !has_room(stage_bytes, left) {
            return None;
        }
        // No larger than shared memory, that is.
        let sizes = [plane_bytes, weight_start, stage_bytes];
        let [plane_bytes, weight_start, stage_bytes] = sizes.map(|bytes| bytes as u32);
        let ring = (left / stage_bytes).min(MOST_RING_SLOTS);
        let total = stages_start + ring * stage_bytes;
        Some(Self { ring, plane_bytes, stage_bytes, weight_start, stages_start, total })
    }
}
