//! Fragments: what the lanes of a warp load of the staged input for a product, 16 positions by eight words of each: an
//! `f32` channel, or two channels as `f16`; or by 16 words that teams make pairs of `f16` of, or that are the large
//! parts of eight such pairs and their small parts. The second half of 16 words may be the same eight channels of other
//! positions: those that another tap takes.
//!
//! Lane `4 * g + t` has positions `2 * g` and `2 * g + 1` of words `t` and `t + 4`, and of `t + 8` and `t + 12` if
//! there are as many: neighbours, so that one load brings both, where they lie in the same row and at an even word. As
//! rows of the matrix product they are numbers `g` and `g + 8`. Below, a word of all positions is called a channel.
//! Channels that are four apart become a pair.

#[cfg(not(cuda_arch = "sm_90a"))]
use cuda_std::hint;
use cuda_std::{
    half,
    shared::{SharedPtr, dynamic_shared_mem},
    thread, warp,
};

use super::{
    parameters::Tiling,
    rounding::{round_to_tf32, split},
    scale::Scale,
};
use crate::index::Index;

/// Where a lane finds its elements.
#[derive(Clone, Copy)]
pub(super) struct Fragment {
    /// The first position's address, of channel `t`.
    place: u32,
    /// How far away the second position is, in words.
    second: u32,
}

impl Fragment {
    /// The fragment at the beginning of the staged input.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn new(t: &Tiling) -> Self {
        let [first, second] = [position(), position() + 1].map(|position| position_offset(t, position));
        let start = dynamic_shared_mem::<u8>().add(t.input_start).address();
        let place = start + 4 * (warp::lane_id() % 4 * t.channel_words + first);
        Self { place, second: second.wrapping_sub(first) }
    }

    /// The same fragment that many bytes further on.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn shifted(&self, bytes: u32) -> Self {
        Self { place: self.place.wrapping_add(bytes), ..*self }
    }

    /// The same positions of the first channel, whichever the lane has.
    #[cfg(not(cuda_arch = "sm_90a"))]
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn of_first_channel(&self, t: &Tiling) -> Self {
        self.shifted((4 * (warp::lane_id() % 4 * t.channel_words)).wrapping_neg())
    }

    /// The same fragment, found anew: what is counted from there is not kept in registers meanwhile.
    #[cfg(not(cuda_arch = "sm_90a"))]
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn opaque(&self) -> Self {
        Self { place: hint::opaque(self.place), second: hint::opaque(self.second) }
    }

    /// Loads both positions of this channel and the next three, which follow so many words further each.
    ///
    /// # Safety
    /// The words lie within a staged input that is complete.
    #[cfg(not(cuda_arch = "sm_90a"))]
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn load_channels(&self, channel_words: u32) -> [[f32; 2]; 4] {
        [0, 1, 2, 3].map(|channel| {
            let first = SharedPtr::<f32>::from_address(self.place).add(channel * channel_words);
            // SAFETY: the caller's promise.
            unsafe { [first.load(), first.add(self.second).load()] }
        })
    }

    /// Loads both positions, and for more than one of `NEIGHBOURS` also the positions that follow them, of each
    /// channel: two, or four if there are 16 words. `aligned` positions are at an even word, and their neighbours
    /// follow.
    ///
    /// # Safety
    /// The words lie within a staged input that is complete. Unless there is one neighbour only and they are not
    /// aligned, the second position follows the first one.
    #[cfg_attr(gpu, inline(always))]
    pub(super) unsafe fn load<const NEIGHBOURS: usize>(&self, t: &Tiling, aligned: bool, are_16: bool) -> Loaded {
        let load = |number: u32| {
            let place = self.place.wrapping_add(number / 2 * t.second_half + number % 2 * 16 * t.channel_words);
            // SAFETY: the caller's promise.
            unsafe { load_at::<NEIGHBOURS>(place, self.second, aligned) }
        };
        [load(0), load(1), if are_16 { load(2) } else { [0.0; 4] }, if are_16 { load(3) } else { [0.0; 4] }]
    }
}

/// Loads two positions of a channel, the first one at an address, the second one so many words further, and their
/// neighbours.
///
/// # Safety
/// As [`Fragment::load`].
#[cfg_attr(gpu, inline(always))]
unsafe fn load_at<const NEIGHBOURS: usize>(place: u32, second: u32, aligned: bool) -> [f32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let word = |number: u32| SharedPtr::<f32>::from_address(place).add(number).load();
        let pair = |bytes: u32| SharedPtr::<[f32; 2]>::from_address(place.wrapping_add(bytes)).load();
        if NEIGHBOURS == 1 {
            let [a, b] = if aligned { pair(0) } else { [word(0), word(second)] };
            return [a, b, 0.0, 0.0];
        }
        // Pairs, the first of which begins before an odd word: in the same row. A warp's pairs take the shared memory
        // no longer than its single words do. There is nothing to branch at: products are under way.
        let before = if aligned { 0 } else { 4u32.wrapping_neg() };
        let ([a, b], [c, d]) = (pair(before), pair(before.wrapping_add(8)));
        let e = if NEIGHBOURS == 2 { 0.0 } else { word(if aligned { 0 } else { 3 }) };
        if aligned { [a, b, c, d] } else { [b, c, d, e] }
    }
}

/// What a lane loads: up to four words of channels `t`, `t + 4`, and, if there are 16, `t + 8` and `t + 12`, which are
/// zero otherwise.
pub(super) type Loaded = [[f32; 4]; 4];

/// The first position of this lane in its tile. The second one follows.
#[cfg_attr(gpu, inline(always))]
pub(super) fn position() -> u32 {
    thread::thread_idx_x() / 32 * 16 + warp::lane_id() / 4 * 2
}

/// Where a position of the tile begins in a staged channel, in words. Rows without a position take that of row 0.
#[cfg_attr(gpu, inline(always))]
fn position_offset(t: &Tiling, row: u32) -> u32 {
    let row = if row < t.positions { row } else { 0 };
    let (line, x) = row.divide(t.box_x);
    let (slice, y) = line.divide(t.box_y);
    let (n, z) = slice.divide(t.box_z);
    let slice = n * t.halo_z.value() as u32 + z * t.step_z;
    (slice * t.halo_y.value() as u32 + y * t.step_y) * t.pitch + x
}

/// A fragment as tensor cores take it: of both positions channel `t`, then channel `t + 4`; or both channels of these
/// as `f16`, then both of the others.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    /// Rounded, or pairs of `f16`, or the large parts.
    pub(super) large: [f32; 4],
    /// The small parts, if they are split.
    pub(super) small: [f32; 4],
}

impl Factor {
    /// All zero.
    pub(super) const ZERO: Self = Self { large: [0.0; 4], small: [0.0; 4] };

    /// The fragments that begin with each of the words that were loaded, not split: rounded; or made again if they are
    /// `F16`, of what teams `CONVERT`, or of what is packed.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn whole<const F16: bool, const CONVERT: bool>(loaded: &Loaded, scale: &Scale) -> [Self; 3] {
        let loaded = if CONVERT { packed(loaded, scale) } else { [loaded[0], loaded[1]] };
        let [a, b, c] = [words::<0>(&loaded), words::<1>(&loaded), words::<2>(&loaded)];
        let again = &scale.again;
        let larges = if CONVERT {
            [a, b.map(|word| again.word::<0>(word)), c]
        } else if F16 {
            [
                a.map(|word| again.word::<0>(word)),
                b.map(|word| again.word::<1>(word)),
                c.map(|word| again.word::<0>(word)),
            ]
        } else {
            [a.map(round_to_tf32::<0>), b.map(round_to_tf32::<1>), c.map(round_to_tf32::<0>)]
        };
        larges.map(|large| Self { large, small: [0.0; 4] })
    }

    /// The fragment that begins with word number `NEIGHBOUR` of what was loaded, split; or made again if both parts are
    /// packed as `F16` already; or such parts, if teams `CONVERT`, in which case that of the neighbour `before` has the
    /// first of its words.
    #[cfg_attr(gpu, inline(always))]
    pub(super) fn split<const NEIGHBOUR: usize, const F16: bool, const CONVERT: bool>(
        loaded: &Loaded,
        scale: &Scale,
        before: &Self,
    ) -> Self {
        let [a, b, c, d] = *loaded;
        if CONVERT {
            let word = |number: usize| Self::pairs(&loaded.map(|words| scale.of(words[number])));
            let again = |parts: [f32; 2]| parts.map(|pair| scale.again.word::<0>(pair));
            let first = if NEIGHBOUR == 0 { word(0) } else { before.second_word().map(again) };
            return Self::of_words(first, word(NEIGHBOUR % 3 + 1));
        }
        if F16 {
            let again = |word| {
                if NEIGHBOUR == 1 { scale.again.word::<1>(word) } else { scale.again.word::<0>(word) }
            };
            let [large, small] = [[a, b], [c, d]].map(|channels| words::<NEIGHBOUR>(&channels).map(again));
            return Self { large, small };
        }
        let words = words::<NEIGHBOUR>(&[a, b]);
        let parts = if NEIGHBOUR == 1 { words.map(split::<1>) } else { words.map(split::<0>) };
        Self { large: parts.map(|(large, _)| large), small: parts.map(|(_, small)| small) }
    }

    /// Of a word of four channels both pairs as `f16`: of the large parts, and of the small ones.
    #[cfg_attr(gpu, inline(always))]
    fn pairs(word: &[f32; 4]) -> [[f32; 2]; 2] {
        let [a, b, c, d] = word.map(split::<0>);
        let pair = |low, high| f32::from_bits(half::pack([low, high]));
        [[pair(a.0, b.0), pair(c.0, d.0)], [pair(a.1, b.1), pair(c.1, d.1)]]
    }

    /// The fragment of the pairs of two words that are neighbours.
    #[cfg_attr(gpu, inline(always))]
    fn of_words([large, small]: [[f32; 2]; 2], [next_large, next_small]: [[f32; 2]; 2]) -> Self {
        Self {
            large: [large[0], next_large[0], large[1], next_large[1]],
            small: [small[0], next_small[0], small[1], next_small[1]],
        }
    }

    /// The pairs of the second word.
    #[cfg_attr(gpu, inline(always))]
    fn second_word(&self) -> [[f32; 2]; 2] {
        [[self.large[1], self.large[3]], [self.small[1], self.small[3]]]
    }
}

/// Pairs of channels as `f16`, scaled.
#[cfg_attr(gpu, inline(always))]
fn packed(loaded: &Loaded, scale: &Scale) -> [[f32; 4]; 2] {
    let [a, b, c, d] = loaded.map(|words| words.map(|word| scale.of(word)));
    let pairs =
        |low: [f32; 4], high: [f32; 4]| [0, 1, 2, 3].map(|word| f32::from_bits(half::pack([low[word], high[word]])));
    [pairs(a, b), pairs(c, d)]
}

/// The words of the fragment that begins with number `NEIGHBOUR` of two channels, or two words of them.
#[cfg_attr(gpu, inline(always))]
fn words<const NEIGHBOUR: usize>([a, b]: &[[f32; 4]; 2]) -> [f32; 4] {
    let (first, second) = (NEIGHBOUR % 3, NEIGHBOUR % 3 + 1);
    [a[first], a[second], b[first], b[second]]
}
