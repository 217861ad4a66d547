//! Whole sectors: warps pass on what they hold beyond their last whole sector of a row.
//!
//! A warp holds 16 neighbouring words of a row, one for each of its positions. Where rows do not begin with sectors of
//! the memory, these begin and end within one; and a sector of 32 bytes that is written in two pieces takes memory
//! several times as long as one that is written at once. So a warp passes its last words on to the warp that holds the
//! words behind them, which writes them with its own; the last warp of a line passes on to the first one. Then only the
//! ends of lines are written in pieces.

use cuda_std::{
    hint, mem,
    shared::{SharedPtr, dynamic_shared_mem},
};

use super::{
    Target,
    direct::{Channels, Pieces},
    sync_team,
};
use crate::{
    tile::{TEAM_ROWS, WARP_ROWS},
    unrolled::unrolled,
};

/// Words of a sector of the memory.
pub const SECTOR_WORDS: u32 = 8;

/// Lanes that may have something to pass on: those of the second half of a warp's words.
const PASSING_LANES: u32 = 16;

/// Warps of a team.
const TEAM_WARPS: u32 = TEAM_ROWS / WARP_ROWS;

/// What a lane needs to know to pass words on.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    /// Where it leaves what it passes on.
    place: SharedPtr<[f32; 2]>,
    /// How many warps further on the one is that passes on to it; negative if that one comes before.
    warps: i32,
    /// Its first word among those of its warp.
    word: u32,
}

impl Target<'_> {
    /// How the lane passes words on, of so many pairs of a lane.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn passing(&self, pairs: u32) -> Passing {
        let t = self.t;
        let (team, thread) = Self::team();
        let (warp, lane) = (thread / 32, thread % 32);
        // A power of two.
        let warps = t.direct_warps;
        let start = dynamic_shared_mem::<u8>().add(t.output_start + team * t.output_bytes).cast::<[f32; 2]>();
        Passing {
            place: start.add(warp * pairs * PASSING_LANES + lane % PASSING_LANES),
            warps: if warp & (warps - 1) == 0 { warps as i32 - 1 } else { -1 },
            word: lane / 4 * 2,
        }
    }

    /// Stores a pair of words of each row, by channel, with the bias added: those that the lane gets instead of those
    /// that it passes on. Groups of channels come in their order, and before the first one a barrier.
    ///
    /// # Safety
    /// As [`store_direct`](Self::store_direct); all threads of the team come here together. Nobody else reads or writes
    /// the staged output.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_sectors<const ROWS: usize>(
        &self,
        channels: &Channels,
        pieces: &Pieces<ROWS>,
        passing: &Passing,
        values: [[[f32; 2]; 2]; ROWS],
        group: u32,
    ) {
        let pairs = ROWS as u32 * 2;
        let buffer = group % 2 * TEAM_WARPS * pairs * PASSING_LANES;
        let place_of = |pair: usize| passing.place.add(buffer + pair as u32 * PASSING_LANES);
        let values = channels.with_biases(values);
        let mut is_passed_on = [[false; 2]; ROWS];
        // SAFETY: the staged output has room for two buffers. While one is read, the other one is written to.
        unsafe {
            unrolled!(ROW in 0..ROWS, at most 8 => {
                unrolled!(CHANNEL in 0..2, at most 2 => {
                    let (_, place) = channels.piece(pieces, ROW, CHANNEL);
                    is_passed_on[ROW][CHANNEL] = passing.is_passed_on(place);
                    if is_passed_on[ROW][CHANNEL] {
                        place_of(ROW * 2 + CHANNEL).store(values[ROW][CHANNEL]);
                    }
                });
            });
            sync_team();
            // Places are found again, not kept in registers meanwhile.
            let pieces = &pieces.again();
            let to_other = passing.warps * (pairs * PASSING_LANES * 8) as i32;
            let others =
                SharedPtr::<[f32; 2]>::from_address(hint::opaque(place_of(0).address().wrapping_add_signed(to_other)));
            unrolled!(ROW in 0..ROWS, at most 8 => {
                unrolled!(CHANNEL in 0..2, at most 2 => {
                    let (first, place) = channels.piece(pieces, ROW, CHANNEL);
                    let is_passed_on = is_passed_on[ROW][CHANNEL];
                    // No branch: registers of one pair that is on its way would be another one's, which then waits.
                    let words = if is_passed_on { passing.warps * WARP_ROWS as i32 } else { 0 };
                    let other = others.add((ROW as u32 * 2 + CHANNEL as u32) * PASSING_LANES);
                    let value = other.load_if(is_passed_on, values[ROW][CHANNEL]);
                    let place = place.wrapping_offset(words as isize);
                    mem::store_below(first + words, pieces.words[ROW], place.cast(), value);
                });
            });
        }
    }
}

impl Passing {
    /// Whether what the lane holds at a place lies beyond its warp's last whole sector.
    #[cfg_attr(gpu, inline(always))]
    fn is_passed_on(&self, place: *mut f32) -> bool {
        // Where the warp's words begin in a sector.
        let begin = ((place.addr() / 4) as u32).wrapping_sub(self.word) % SECTOR_WORDS;
        begin + self.word >= WARP_ROWS
    }
}
