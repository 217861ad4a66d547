//! Parts: what is staged together of a block of input channels, and which taps multiply it.
//!
//! A *row of taps* has those along x, at one place along the other axes. Where teams divide residues, a part has
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

/// The most taps of which lists are made. Far fewer fit.
const MOST_TAPS: usize = 1 << 16;

/// The parts of a block of channels.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) parts: Vec<Part>,
    stretches: Vec<Stretch>,
    runs: Vec<Run>,
    /// What the packed weight holds, for each slab and joined residue.
    pub(super) slabs: Vec<Slab>,
    /// From one tap of a run to the next, in positions.
    pub(super) tap_step: u32,
    /// Positions of a stretch.
    pub(super) stretch: u32,
}

/// Taps along x at one place along the other axes: what they read of one residue along x.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The tap along the outer axis without residues.
    other_tap: usize,
    /// From the coordinate of the first residue to the one that is read, along the axis of residues.
    along: usize,
    /// The residue along x.
    residue: usize,
}

impl Parts {
    /// The parts of a cut; none if there are too many, or no shared memory of that size has room for one.
    pub(super) fn new(axes: &[Axis; 3], cut: &Cut, positions: &Positions, shared_bytes: u32) -> Option<Self> {
        let taps = axes.iter().try_fold(1usize, |taps, axis| taps.checked_mul(axis.kernel))?;
        if taps > MOST_TAPS {
            return None;
        }
        let x = &axes[2];
        let parts = Self {
            parts: Vec::new(),
            stretches: Vec::new(),
            runs: Vec::new(),
            slabs: Vec::new(),
            // Neighbours share what they read only where all coordinates are read.
            tap_step: if cut.joined_along_x > 1 { 1 } else { x.dilation as u32 },
            stretch: 0,
        };
        let (read, read_along_x) = (read(&axes[cut.axis], cut.joined), read(x, cut.joined_along_x));
        let mut builder = Builder { axes, cut, positions, read, read_along_x, parts };
        // Known before anything is built, which may be far too large.
        if !cut.has_room(builder.row_taps(), builder.reach(), shared_bytes) || !builder.fits_the_table() {
            return None;
        }
        let rows = builder.rows();
        if cut.rows() > 1 {
            builder.add_rows_of_residues(&rows)
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

    fn first_stretch_row(&self) -> u32 {
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

/// What so many joined residues read along an axis, counted from the first one: each coordinate once, in ascending
/// order.
fn read(axis: &Axis, joined: u32) -> Vec<usize> {
    let of_tap = |tap| (0..joined as usize).map(move |residue| residue + shift(axis, tap));
    let mut read: Vec<usize> = (0..axis.kernel).flat_map(of_tap).collect();
    read.sort_unstable();
    read.dedup();
    read
}

/// The tap by which a residue reads that coordinate, counted from the first residue, if there is one.
fn tap(axis: &Axis, residue: usize, read: usize) -> Option<usize> {
    // The first tap reads furthest ahead.
    let before = (residue + shift(axis, 0)).checked_sub(read)?;
    let tap = before / axis.dilation;
    (before.is_multiple_of(axis.dilation) && tap < axis.kernel).then_some(tap)
}

struct Builder<'a> {
    axes: &'a [Axis; 3],
    cut: &'a Cut,
    positions: &'a Positions,
    /// What joined residues read along the axis of residues, and along x.
    read: Vec<usize>,
    read_along_x: Vec<usize>,
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

    /// Residues along x.
    fn residues_along_x(&self) -> usize {
        self.cut.joined_along_x as usize
    }

    /// Whether the table may have a row for each row of taps, and for each stretch that residues read.
    fn fits_the_table(&self) -> bool {
        let staged = if self.cut.rows() > 1 { self.coordinates() } else { 0 };
        let rows = self.other().kernel.saturating_mul(self.residues_along_x());
        rows.saturating_mul(self.read.len().max(staged)) <= flat::MOST_ROWS as usize
    }

    /// The coordinates from the first one that residues read to the last one, along the axis of residues.
    fn coordinates(&self) -> usize {
        self.read.last().map_or(0, |last| last + ((self.cut.rows() - 1) * self.cut.joined) as usize + 1)
    }

    /// All rows of taps: joined residues read some in common.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for other_tap in 0..self.other().kernel {
            for &along in &self.read {
                rows.extend((0..self.residues_along_x()).map(|residue| Row { other_tap, along, residue }));
            }
        }
        rows
    }

    /// The coordinates along x that a row of taps reads, counted from the first residue.
    fn read_by(&self, row: &Row) -> impl Iterator<Item = usize> {
        let (residues, residue) = (self.residues_along_x(), row.residue);
        self.read_along_x.iter().copied().filter(move |coordinate| coordinate % residues == residue)
    }

    /// From the first position of a tile to the first one that a row of taps reads, of the residue that it reads.
    fn stretch(&self, row: &Row) -> Stretch {
        let residues = self.cut.residues()[self.cut.axis];
        let (position, residue) = (row.along as u32 / residues, row.along as u32 % residues);
        let other = shift(self.other(), row.other_tap) as u32 * self.positions.step(1 - self.cut.axis);
        let x = self.read_by(row).next().map_or(0, |coordinate| coordinate / self.residues_along_x());
        let shift = position * self.positions.step(self.cut.axis) + other + x as u32;
        let residue = residue * self.cut.joined_along_x + row.residue as u32;
        Stretch { shift, residue, padding: [0; 2] }
    }

    /// Taps of a row, at most: coordinates that it reads.
    fn row_taps(&self) -> usize {
        self.read_along_x.len().div_ceil(self.residues_along_x())
    }

    /// Positions from the first tap along x to the last one, at most.
    fn reach(&self) -> u32 {
        (self.row_taps() as u32 - 1) * self.parts.tap_step
    }

    /// A part for each tap along the other axis: all that residues read, coordinate by coordinate.
    fn add_rows_of_residues(&mut self, rows: &[Row]) {
        let (coordinates, residues) = (self.coordinates(), self.residues_along_x());
        self.parts.stretch = self.cut.tile_positions() + self.reach();
        for rows in rows.chunk_by(|a, b| a.other_tap == b.other_tap) {
            let staged = (0..coordinates * residues).map(|number| Row {
                along: number / residues,
                residue: number % residues,
                ..rows[0]
            });
            let stretches = staged.map(|row| self.stretch(&row)).collect();
            let stretch = self.parts.stretch;
            let place = |row: &Row| (row.along * residues + row.residue) as u32 * stretch;
            let runs: Vec<_> = rows.iter().map(|row| (place(row), *row)).collect();
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
        let (first_run, first_slab) = (self.parts.runs.len() as u32, self.added_slabs());
        for (place, row) in rows {
            let read: Vec<_> = self.read_by(row).collect();
            self.parts.runs.push(Run { place: *place, taps: read.len() as u32, padding: [0; 2] });
            for x in read {
                let slabs: Vec<_> = self.joined().map(|residues| self.slab(row, x, residues)).collect();
                self.parts.slabs.extend(slabs);
            }
        }
        self.parts.parts.push(Part {
            first_stretch: self.parts.stretches.len() as u32,
            stretches: stretches.len() as u32,
            first_run,
            runs: rows.len() as u32,
            first_slab,
            slabs: self.added_slabs() - first_slab,
            padding: [0; 2],
        });
        self.parts.stretches.extend(stretches);
    }

    /// Slabs that have been added.
    fn added_slabs(&self) -> u32 {
        self.parts.slabs.len() as u32 / self.cut.all_joined()
    }

    /// The residues that share the rows of a product, along the outer axis and along x, in their order.
    fn joined(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (outer, inner) = (self.cut.joined as usize, self.cut.joined_along_x as usize);
        (0..outer).flat_map(move |residue| (0..inner).map(move |along_x| (residue, along_x)))
    }

    /// The kernel element by which a joined residue multiplies what a row of taps reads at a coordinate along x, if
    /// there is one.
    fn slab(&self, row: &Row, x: usize, (residue, along_x): (usize, usize)) -> Slab {
        let along = tap(self.along(), residue, row.along);
        let [z, y] = if self.cut.axis == 0 { [along, Some(row.other_tap)] } else { [Some(row.other_tap), along] };
        let taps = z.zip(y).zip(tap(&self.axes[2], along_x, x));
        let element = taps.map(|((z, y), x)| (z * self.axes[1].kernel + y) * self.axes[2].kernel + x);
        Slab { taps: [element.map_or(Slab::NO_TAP, |element| element as u32); 2], channels: [0, 8] }
    }
}
