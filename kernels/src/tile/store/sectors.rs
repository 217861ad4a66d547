//! Whole sectors: warps pass on what they hold beyond their last whole sector of a row.
//!
//! A warp holds 16 neighbouring words of a row, one for each of its positions. Where rows do not begin with sectors of
//! the memory, these begin and end within one; and a sector of 32 bytes that is written in two pieces takes memory
//! several times as long as one that is written at once. So a warp passes its last words on to the warp that holds the
//! words behind them, which writes them with its own; the last warp of a line passes on to the first one. Where slots
//! lie side by side, that has the words behind them in the next slot; so a line goes through all of them. Then only the
//! ends of lines are written in pieces.

use cuda_std::shared::{SharedPtr, dynamic_shared_mem};

use super::{
    Target,
    direct::{Channels, GroupChannels, Pieces, Places},
    sync_team,
};
use crate::{
    tile::{TEAM_ROWS, WARP_ROWS, is_specialised},
    unrolled::unrolled,
};

/// Words of a sector of the memory.
pub const SECTOR_WORDS: u32 = 8;

/// Lanes that may have something to pass on: those of the second half of a warp's words.
const PASSING_LANES: u32 = 16;

/// The most slots with which a kernel for any layer has the registers for lines that go through all of them.
const MOST_SLOTS_OF_A_LINE: usize = 2;

/// Warps of a team.
const TEAM_WARPS: u32 = TEAM_ROWS / WARP_ROWS;

/// How a lane passes words on: in all groups of eight channels alike, whose planes are a whole number of sectors.
pub(super) struct Passing<const ROWS: usize> {
    /// Where it leaves what it passes on.
    place: SharedPtr<[f32; 2]>,
    /// Where it finds what it gets instead: of the first row, and of the others, as if they began with the first.
    others: [SharedPtr<[f32; 2]>; 2],
    /// Whether it passes on its words of a row, by channel.
    is_passed_on: [[bool; 2]; ROWS],
}

impl<const ROWS: usize> Passing<ROWS> {
    /// Nothing is passed on.
    pub(super) const NOTHING: Self = Self {
        place: SharedPtr::from_address(0),
        others: [SharedPtr::from_address(0); 2],
        is_passed_on: [[false; 2]; ROWS],
    };

    /// Pairs of words that a warp passes on of a group.
    const PAIRS: u32 = ROWS as u32 * 2 * PASSING_LANES;

    /// Where the lane finds what it gets instead in a row.
    #[cfg_attr(gpu, inline(always))]
    fn other(&self, row: usize) -> SharedPtr<[f32; 2]> {
        self.others[usize::from(row > 0)]
    }
}

impl Target<'_> {
    /// How the lane passes words on. `places` are those of its own words before, and of those that it stores
    /// afterwards.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn pass_on<const ROWS: usize>(&self, places: &mut Places<ROWS>, channels: &Channels) -> Passing<ROWS> {
        let t = self.t;
        let (team, thread) = Self::team();
        let (warp, lane) = (thread / 32, thread % 32);
        // Warps that hold a line of one slot: a power of two.
        let warps = (1 << (t.box_x.value() as u32 | TEAM_ROWS).trailing_zeros()) / WARP_ROWS;
        let is_first = warp & (warps - 1) == 0;
        let is_first_of_several =
            is_first && t.direct_words > warps && (ROWS <= MOST_SLOTS_OF_A_LINE || is_specialised());
        // How many warps further on the one is that passes on to this one, and by how many rows, for the first row and
        // for the others.
        let from = if is_first { warps as i32 - 1 } else { -1 };
        let rows = if is_first_of_several { [ROWS as i32 - 1, -1] } else { [0; 2] };
        let own = *places;
        // The lane's first word among those of its warp.
        let word = lane / 4 * 2;
        let mut is_passed_on = [[false; 2]; ROWS];
        unrolled!(ROW in 0..ROWS, at most 8 => {
            // Rows before this one have as many words in a sector before theirs.
            let before = (ROW + ROWS - 1) % ROWS;
            unrolled!(CHANNEL in 0..2, at most 2 => {
                let place = channels.first.wrapping_add(own.offsets[ROW][CHANNEL] as usize);
                // Where the warp's words begin in a sector.
                let begin = ((place.addr() / 4) as u32).wrapping_sub(word) % SECTOR_WORDS;
                // Beyond the warp's last whole sector.
                is_passed_on[ROW][CHANNEL] = begin + word >= WARP_ROWS;
                if is_passed_on[ROW][CHANNEL] {
                    let Places { first, offsets, words } = &own;
                    // By known numbers: an array that is indexed by others would be kept in memory.
                    let [first, offset, line_words] = if is_first_of_several {
                        [first[before][CHANNEL], offsets[before][CHANNEL] as i32, words[before][CHANNEL]]
                    } else {
                        [first[ROW][CHANNEL], offsets[ROW][CHANNEL] as i32, words[ROW][CHANNEL]]
                    };
                    let further = from * WARP_ROWS as i32;
                    places.first[ROW][CHANNEL] = first + further;
                    places.offsets[ROW][CHANNEL] = (offset as u32).wrapping_add_signed(further);
                    places.words[ROW][CHANNEL] = line_words;
                }
            });
        });
        let start = dynamic_shared_mem::<u8>().add(t.output_start + team * t.output_bytes).cast::<[f32; 2]>();
        let place = start.add(warp * Passing::<ROWS>::PAIRS + lane % PASSING_LANES);
        let other = |rows: i32| {
            let pairs = from * Passing::<ROWS>::PAIRS as i32 + rows * (2 * PASSING_LANES) as i32;
            SharedPtr::from_address(place.address().wrapping_add_signed(8 * pairs))
        };
        Passing { place, others: rows.map(other), is_passed_on }
    }
}

impl GroupChannels {
    /// Stores a pair of words of each row, by channel, with the bias added: those that the lane gets instead of those
    /// that it passes on. Groups of channels come in their order, and before the first one a barrier.
    ///
    /// # Safety
    /// As [`Target::store_direct`]; all threads of the team come here together. Nobody else reads or writes the staged
    /// output.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn store_sectors<const ROWS: usize>(
        &self,
        pieces: &Pieces<ROWS>,
        passing: &Passing<ROWS>,
        values: [[[f32; 2]; 2]; ROWS],
    ) {
        let buffer = self.group % 2 * TEAM_WARPS * Passing::<ROWS>::PAIRS;
        let values = self.with_biases(values);
        // SAFETY: the staged output has room for two buffers. While one is read, the other one is written to.
        unsafe {
            unrolled!(ROW in 0..ROWS, at most 8 => {
                unrolled!(CHANNEL in 0..2, at most 2 => {
                    if passing.is_passed_on[ROW][CHANNEL] {
                        passing.place.add(buffer + (ROW * 2 + CHANNEL) as u32 * PASSING_LANES).store(values[ROW][CHANNEL]);
                    }
                });
            });
            sync_team();
            unrolled!(ROW in 0..ROWS, at most 8 => {
                unrolled!(CHANNEL in 0..2, at most 2 => {
                    // No branch: registers of one pair that is on its way would be another one's, which then waits.
                    let other = passing.other(ROW).add(buffer + (ROW * 2 + CHANNEL) as u32 * PASSING_LANES);
                    let value = other.load_if(passing.is_passed_on[ROW][CHANNEL], values[ROW][CHANNEL]);
                    self.store_piece(pieces, ROW, CHANNEL, value);
                });
            });
        }
    }
}
