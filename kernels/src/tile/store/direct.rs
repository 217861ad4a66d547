//! Storing straight from the product: the elements that a lane holds of an output row go out in one piece.
//!
//! A store reads its registers long after it is issued, and whoever writes to them next has to wait. So all that a
//! block of columns stores is computed first, and then stored.

use cuda_std::{
    hint,
    mem::{self, Transfer},
    shared::SharedPtr,
};

use super::{
    Line, Target,
    held::{pairs, quads, quads_of_halves},
    sectors::Passing,
    sync_team,
};
use crate::{
    index::Index,
    tile::{TEAM_ROWS, is_specialised, multiply::Product, parameters::Tiling},
    unrolled::unrolled,
};

/// The most slots with which a kernel for any layer has the registers to pass words on.
const MOST_SLOTS_THAT_PASS_ON: usize = 4;

impl Target<'_> {
    /// Stores a product of which a lane holds pieces of rows: `HELD` is one of [`Tiling`]'s ways.
    ///
    /// # Safety
    /// As [`store`](Self::store); the pieces are aligned, and all elements of one exist, or none.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_direct<const BLOCKS: usize, const SLOTS: usize, const HELD: u32>(
        &self,
        product: &impl Product<BLOCKS, SLOTS>,
    ) {
        let t = self.t;
        let used_blocks = hint::opaque(t.used_blocks);
        let row = self.lane_row();
        let channels = self.channels();
        let passes_on = HELD == Tiling::PAIRS
            && hint::opaque(t.direct_words) > 1
            && (SLOTS <= MOST_SLOTS_THAT_PASS_ON || is_specialised());
        // One line of each row after the other: it is the same for all columns of some phases.
        for line in 0..hint::opaque(t.row_lines) {
            // SAFETY: the caller's promise; the blocks are used, the product complete.
            unsafe {
                let mut places = self.places::<SLOTS>(&row, line);
                let passing = if passes_on {
                    // What was passed on last has been taken.
                    sync_team();
                    self.pass_on(&mut places, &channels)
                } else {
                    Passing::NOTHING
                };
                let pieces = channels.pieces(&places);
                unrolled!(BLOCK in 0..BLOCKS, at most 16 => {
                    const NEXT: usize = BLOCK + 1;
                    let last = if HELD == Tiling::QUADS { NEXT } else { BLOCK };
                    let is_first = HELD != Tiling::QUADS || BLOCK.is_multiple_of(2);
                    // Found again for each job, not kept in registers meanwhile.
                    let (group, phase) = hint::opaque(BLOCK as u32).divide(t.column_phases);
                    let is_of_line = hint::opaque(t.row_lines) == 1 || phase.divide(t.columns_x).0 == line;
                    if is_first && last < BLOCKS && (last as u32) < used_blocks && is_of_line {
                        let channels = channels.of_group(group, self.plane());
                        match HELD {
                            Tiling::PAIRS if passes_on => {
                                let values = pairs::<BLOCKS, SLOTS, BLOCK>(product);
                                channels.store_sectors(&pieces, &passing, values);
                            }
                            Tiling::PAIRS => channels.store(&pieces, pairs::<BLOCKS, SLOTS, BLOCK>(product)),
                            Tiling::QUADS => channels.store(&pieces, quads::<BLOCKS, SLOTS, BLOCK, NEXT>(product)),
                            _ => channels.store(&pieces, quads_of_halves::<BLOCKS, SLOTS, BLOCK>(product)),
                        }
                    }
                });
            }
        }
    }

    /// The lane's row, and its first word there.
    #[cfg_attr(gpu, inline(always))]
    fn lane_row(&self) -> LaneRow {
        let (team, thread) = Self::team();
        let first = team * TEAM_ROWS;
        let position = first + Self::first_row(thread);
        // Rows of the product without a position have no words of a line.
        let exists = position < self.t.positions;
        let (row, x) = if exists { position } else { first }.divide(self.t.box_x);
        let segment = row - first.divide(self.t.box_x).0;
        // The first row begins where the team does.
        let x = if segment == 0 { position - first } else { x };
        LaneRow { segment, first: if exists { (x * self.t.line_phases.value() as u32) as i32 } else { NOWHERE } }
    }

    /// The lane's places in a line of each output row.
    ///
    /// # Safety
    /// The lines have been found.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn places<const ROWS: usize>(&self, row: &LaneRow, line: u32) -> Places<ROWS> {
        let (team, _) = Self::team();
        let segments = self.t.segments.value() as u32;
        let rows = ROWS as u32 / hint::opaque(self.t.halves);
        let plane = self.plane() as u32;
        let lines = self.lines(team).add(line * segments + row.segment);
        let mut places = Places { first: [[row.first; 2]; ROWS], offsets: [[0; 2]; ROWS], words: [[0; 2]; ROWS] };
        unrolled!(ROW in 0..ROWS, at most 8 => {
            if (ROW as u32) < rows {
                let place = lines.add(ROW as u32 * self.t.row_lines * segments).cast::<[u32; 4]>();
                // SAFETY: the caller's promise: there are so many rows.
                let line: Line = bytemuck::cast(unsafe { place.load() });
                let offset = line.offset.wrapping_add(row.first as u32);
                places.offsets[ROW] = [offset, offset.wrapping_add(plane)];
                places.words[ROW] = [line.words as i32; 2];
            }
        });
        places
    }

    /// The lane's channels.
    #[cfg_attr(gpu, inline(always))]
    fn channels(&self) -> Channels {
        let t = self.t;
        let (team, thread) = Self::team();
        let number = thread % 4 * 2;
        let plane = self.plane();
        let all_exist = t.tiled_channels.value() as u32 == t.out_per_group;
        let behind = |before: u32| self.channels_from(0).saturating_sub(before);
        let groups = |number: u32| if all_exist { i32::MAX } else { behind(number).div_ceil(8) as i32 };
        Channels {
            first: self.first_output().wrapping_add(number as usize * plane),
            groups: [number, number + 1].map(groups),
            biases: self.biases(team).add(number),
        }
    }

    /// Words from one channel of the output to the next: fewer than 2^31.
    #[cfg_attr(gpu, inline(always))]
    fn plane(&self) -> usize {
        hint::opaque(self.t.output_plane as u32) as usize
    }
}

/// Where a lane's two positions are.
struct LaneRow {
    /// The row of the box, counted from the team's first one.
    segment: u32,
    /// The first position's word in the line there, or [`NOWHERE`].
    first: i32,
}

/// Beyond all lines, by far: there is no such word.
const NOWHERE: i32 = i32::MAX / 2;

/// A lane's places in lines: one in each output row and either of its channels of a group.
#[derive(Clone, Copy)]
pub(super) struct Places<const ROWS: usize> {
    /// Which word of the line it is.
    pub(super) first: [[i32; 2]; ROWS],
    /// How many words further it lies than the tile begins in the first one of the channels.
    pub(super) offsets: [[u32; 2]; ROWS],
    /// Words of the line: none if there is no such row.
    pub(super) words: [[i32; 2]; ROWS],
}

/// The pieces of output rows that a lane stores in either of its channels of a group: in all groups alike.
pub(super) struct Pieces<const ROWS: usize> {
    /// As in [`Places`].
    offsets: [[u32; 2]; ROWS],
    /// In how many groups it exists.
    groups: [[i32; 2]; ROWS],
}

/// The output channels of a lane: two of each group of eight.
pub(super) struct Channels {
    /// The first one, where the tile begins.
    pub(super) first: *mut f32,
    /// In how many groups either of them exists.
    groups: [i32; 2],
    /// The bias of the first one; those of the others follow.
    biases: SharedPtr<f32>,
}

impl Channels {
    /// The pieces at some places.
    #[cfg_attr(gpu, inline(always))]
    fn pieces<const ROWS: usize>(&self, places: &Places<ROWS>) -> Pieces<ROWS> {
        let mut pieces = Pieces { offsets: places.offsets, groups: [self.groups; ROWS] };
        unrolled!(ROW in 0..ROWS, at most 8 => {
            unrolled!(CHANNEL in 0..2, at most 2 => {
                if places.first[ROW][CHANNEL] >= places.words[ROW][CHANNEL] {
                    pieces.groups[ROW][CHANNEL] = 0;
                }
            });
        });
        pieces
    }

    /// Those of a group. Channels are `plane` words apart.
    ///
    /// # Safety
    /// The biases have been found; the tile has such a group.
    #[cfg_attr(gpu, inline(always))]
    unsafe fn of_group(&self, group: u32, plane: usize) -> GroupChannels {
        GroupChannels {
            group,
            first: hint::opaque_pointer(self.first.wrapping_add((group * 8) as usize * plane)).cast_mut(),
            // SAFETY: a team has biases for all channels of the tile.
            biases: unsafe { self.biases.add(group * 8).cast::<[f32; 2]>().load() },
        }
    }
}

/// The two output channels of a lane of a group.
pub(super) struct GroupChannels {
    /// The group.
    pub(super) group: u32,
    /// The first one, where the tile begins.
    first: *mut f32,
    /// Their biases.
    biases: [f32; 2],
}

impl GroupChannels {
    /// Stores a piece of each row, by channel, with the bias added.
    ///
    /// # Safety
    /// As [`Target::store_direct`].
    #[cfg_attr(gpu, inline(always))]
    unsafe fn store<const ROWS: usize, const WORDS: usize>(
        &self,
        pieces: &Pieces<ROWS>,
        values: [[[f32; WORDS]; 2]; ROWS],
    ) where
        [f32; WORDS]: Transfer,
    {
        let values = self.with_biases(values);
        unrolled!(ROW in 0..ROWS, at most 8 => {
            unrolled!(CHANNEL in 0..2, at most 2 => {
                // SAFETY: the caller's promise.
                unsafe { self.store_piece(pieces, ROW, CHANNEL, values[ROW][CHANNEL]) };
            });
        });
    }

    /// Stores the piece of a row in a channel, if it exists.
    ///
    /// # Safety
    /// As [`Target::store_direct`].
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_piece<const ROWS: usize, const WORDS: usize>(
        &self,
        pieces: &Pieces<ROWS>,
        row: usize,
        channel: usize,
        value: [f32; WORDS],
    ) where
        [f32; WORDS]: Transfer,
    {
        let place = self.first.wrapping_add(pieces.offsets[row][channel] as usize);
        // SAFETY: the caller's promise; the piece exists if the condition holds.
        unsafe { mem::store_below(self.group as i32, pieces.groups[row][channel], place.cast(), value) };
    }

    /// The values of each row, by channel, with the biases added.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn with_biases<const ROWS: usize, const WORDS: usize>(
        &self,
        values: [[[f32; WORDS]; 2]; ROWS],
    ) -> [[[f32; WORDS]; 2]; ROWS] {
        let [left, right] = self.biases;
        values.map(|[a, b]| [a.map(|value| value + left), b.map(|value| value + right)])
    }
}
