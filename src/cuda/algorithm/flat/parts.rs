//! Parts: what is staged together of a block of input channels, and which taps multiply it.
//!
//! A *row of taps* has those along x, at one place along the other axes. Where slots are rows of residues, a part has
//! all that they read along that axis. Elsewhere it has a stretch of positions of one residue, and the rows of taps
//! that read it.

use std::collections::BTreeMap;

use conv_transpose_kernels::{
    flat::{self, Part, Run, Stretch},
    tile::Slab,
};

use super::{
    cut::Cut,
    positions::{Positions, shift},
};
use crate::Axis;

/// The most slabs of all parts: a table has an entry for each, and each residue that is joined.
const MOST_SLABS: usize = 1 << 16;

/// The parts of a block of channels.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) parts: Vec<Part>,
    stretches: Vec<Stretch>,
    runs: Vec<Run>,
    /// What the packed weight holds, for each slab and joined residue.
    pub(super) slabs: Vec<Slab>,
    /// Positions of a stretch.
    pub(super) stretch: u32,
}

/// Taps along x at one place along the other axes.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The tap along the axis without residues.
    other_tap: usize,
    /// From the coordinate of the first residue to the one that is read, along the axis of residues.
    along: usize,
}

impl Parts {
    /// The parts of a cut; none if there are too many.
    pub(super) fn new(axes: &[Axis; 3], cut: &Cut, positions: &Positions) -> Option<Self> {
        let taps = axes.iter().try_fold(1usize, |taps, axis| taps.checked_mul(axis.kernel))?;
        if taps > MOST_SLABS {
            return None;
        }
        let mut builder = Builder {
            axes,
            cut,
            positions,
            parts: Self { parts: Vec::new(), stretches: Vec::new(), runs: Vec::new(), slabs: Vec::new(), stretch: 0 },
        };
        let rows = builder.rows();
        if rows.len() * axes[2].kernel > MOST_SLABS {
            return None;
        }
        if cut.rows() > 1 {
            builder.add_rows_of_slots(&rows)
        } else {
            builder.add_stretches(&rows)
        }
        let parts = builder.parts;
        (parts.table_rows() <= flat::MOST_ROWS).then_some(parts)
    }

    /// The table that kernels read.
    pub(super) fn rows(&self) -> Vec<[u32; 4]> {
        let parts = bytemuck::cast_slice::<_, [u32; 4]>(&self.parts).iter();
        let stretches = bytemuck::cast_slice(&self.stretches).iter();
        parts.chain(stretches).chain(bytemuck::cast_slice(&self.runs)).copied().collect()
    }

    /// How many rows that are.
    pub(super) fn table_rows(&self) -> u32 {
        self.first_run_row() + self.runs.len() as u32 * flat::rows::<Run>()
    }

    pub(super) fn first_stretch_row(&self) -> u32 {
        self.parts.len() as u32 * flat::rows::<Part>()
    }

    pub(super) fn first_run_row(&self) -> u32 {
        self.first_stretch_row() + self.stretches.len() as u32 * flat::rows::<Stretch>()
    }

    /// Behind the last position that a tile reads.
    pub(super) fn reach(&self) -> u32 {
        self.stretches.iter().map(|stretch| stretch.shift).max().unwrap_or(0) + self.stretch
    }

    /// Stretches of the largest part.
    pub(super) fn most_stretches(&self) -> u32 {
        self.parts.iter().map(|part| part.stretches).max().unwrap_or(0)
    }

    /// Slabs of the largest part.
    pub(super) fn most_slabs(&self) -> u32 {
        self.parts.iter().map(|part| part.slabs).max().unwrap_or(0)
    }
}

struct Builder<'a> {
    axes: &'a [Axis; 3],
    cut: &'a Cut,
    positions: &'a Positions,
    parts: Parts,
}

impl Builder<'_> {
    /// The axis of residues.
    fn along(&self) -> &Axis {
        &self.axes[self.cut.axis]
    }

    /// The other outer axis.
    fn other(&self) -> &Axis {
        &self.axes[1 - self.cut.axis]
    }

    /// All rows of taps: joined residues read some in common.
    fn rows(&self) -> Vec<Row> {
        let along = self.along();
        let joined = self.cut.joined as usize;
        let mut read: Vec<usize> =
            (0..along.kernel).flat_map(|tap| (0..joined).map(move |residue| residue + shift(along, tap))).collect();
        read.sort_unstable();
        read.dedup();
        let other_taps = 0..self.other().kernel;
        other_taps.flat_map(|other_tap| read.iter().map(move |&along| Row { other_tap, along })).collect()
    }

    /// From the first position of a tile to the first one that a row of taps reads, of the residue that it reads.
    fn stretch(&self, row: &Row) -> Stretch {
        let residues = self.cut.residues()[self.cut.axis];
        let (position, residue) = (row.along as u32 / residues, row.along as u32 % residues);
        let other = shift(self.other(), row.other_tap) as u32 * self.positions.step(1 - self.cut.axis);
        let x = &self.axes[2];
        let shift = position * self.positions.step(self.cut.axis) + other + shift(x, x.kernel - 1) as u32;
        Stretch { shift, residue, padding: [0; 2] }
    }

    /// Positions from the first tap along x to the last one.
    fn reach(&self) -> u32 {
        let x = &self.axes[2];
        (x.kernel as u32 - 1) * x.dilation as u32
    }

    /// A part for each tap along the other axis: all that the rows of slots read, coordinate by coordinate.
    fn add_rows_of_slots(&mut self, rows: &[Row]) {
        let most = rows.iter().map(|row| row.along).max().unwrap_or(0);
        let coordinates = most + ((self.cut.rows() - 1) * self.cut.joined) as usize + 1;
        self.parts.stretch = self.cut.tile_positions() + self.reach();
        for rows in rows.chunk_by(|a, b| a.other_tap == b.other_tap) {
            let stretches = (0..coordinates).map(|along| self.stretch(&Row { along, ..rows[0] })).collect();
            let stretch = self.parts.stretch;
            let runs: Vec<_> = rows.iter().map(|&row| (row.along as u32 * stretch, row)).collect();
            self.add_part(stretches, &runs);
        }
    }

    /// A part for each stretch of positions that rows of taps read.
    fn add_stretches(&mut self, rows: &[Row]) {
        let mut by_residue = BTreeMap::<_, Vec<(Stretch, Row)>>::new();
        for row in rows {
            let stretch = self.stretch(row);
            by_residue.entry(stretch.residue).or_default().push((stretch, *row));
        }
        let most_apart = if self.cut.merges_rows { self.cut.tile_positions() } else { 0 };
        let mut stretches = Vec::new();
        for mut rows in by_residue.into_values() {
            rows.sort_by_key(|(stretch, _)| stretch.shift);
            let overlap = |a: &(Stretch, Row), b: &(Stretch, Row)| b.0.shift - a.0.shift <= most_apart;
            stretches.extend(rows.chunk_by(overlap).map(<[_]>::to_vec));
        }
        for rows in stretches {
            let first = rows[0].0;
            let runs: Vec<_> = rows.iter().map(|(stretch, row)| (stretch.shift - first.shift, *row)).collect();
            let reach = runs.last().map_or(0, |(place, _)| place + self.reach());
            self.parts.stretch = self.parts.stretch.max(self.cut.tile_positions() + reach);
            self.add_part(vec![first], &runs);
        }
    }

    /// Adds a part of some stretches and rows of taps, with where they begin in what is staged.
    fn add_part(&mut self, stretches: Vec<Stretch>, rows: &[(u32, Row)]) {
        let x = &self.axes[2];
        let taps = x.kernel as u32;
        self.parts.parts.push(Part {
            first_stretch: self.parts.stretches.len() as u32,
            stretches: stretches.len() as u32,
            first_run: self.parts.runs.len() as u32,
            runs: rows.len() as u32,
            first_slab: self.parts.slabs.len() as u32 / self.cut.joined,
            slabs: rows.len() as u32 * taps,
            padding: [0; 2],
        });
        self.parts.stretches.extend(stretches);
        for (place, row) in rows {
            self.parts.runs.push(Run { place: *place, taps, padding: [0; 2] });
            for tap in (0..x.kernel).rev() {
                let slabs: Vec<_> = (0..self.cut.joined as usize).map(|residue| self.slab(row, tap, residue)).collect();
                self.parts.slabs.extend(slabs);
            }
        }
    }

    /// The kernel element by which a joined residue multiplies what a row of taps reads with that tap along x, if there
    /// is one.
    fn slab(&self, row: &Row, tap: usize, residue: usize) -> Slab {
        let along = self.along();
        let tap_along = (0..along.kernel).find(|&tap| residue + shift(along, tap) == row.along);
        let [z, y] =
            if self.cut.axis == 0 { [tap_along, Some(row.other_tap)] } else { [Some(row.other_tap), tap_along] };
        let element = z.zip(y).map(|(z, y)| (z * self.axes[1].kernel + y) * self.axes[2].kernel + tap);
        Slab { taps: [element.map_or(Slab::NO_TAP, |element| element as u32); 2], channels: [0, 8] }
    }
}
