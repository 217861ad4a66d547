//! The kernels that pack the weight, under the emulator: every element has to be where its slab says, exactly, whether
//! threads pack words one by one or blocks pack portions.

use conv_transpose_kernels::{
    Divisor, KERNELS,
    tile::{PORTION_THREADS, Packing, Portions, Slab, WEIGHT_HEADER},
};
use cuda_std::emulator::{Launch, Memory};
use cuda_std::{entry, half};

use crate::weighed;

/// The bits of a word that tensor cores look at.
const TF32_BITS: u32 = 0xffff_e000;

/// How a kernel writes elements.
#[derive(Clone, Copy, Debug)]
struct Format {
    kernel: &'static str,
    f16: bool,
    split: bool,
}

const FORMATS: [Format; 4] = [
    Format { kernel: "pack_tf32", f16: false, split: false },
    Format { kernel: "pack_split", f16: false, split: true },
    Format { kernel: "pack_f16", f16: true, split: false },
    Format { kernel: "pack_split_f16", f16: true, split: true },
];

/// A weight `[input channel][output channel][tap]`, and how it is divided.
#[derive(Debug)]
struct Case {
    /// Groups, or shares of a group, and input channels of each. The last ones may end beyond all that there are.
    shares: usize,
    in_per_share: usize,
    in_channels: usize,
    out_channels: usize,
    taps: usize,
    /// Channels of a stage, and of a tile.
    stage_channels: usize,
    tile_channels: usize,
    /// Blocks of eight columns of each phase.
    channel_blocks: usize,
    phases: usize,
    /// Columns of each phase, if these lie close together, otherwise 0.
    close_channels: usize,
    pair_distance: usize,
    /// For each slab of a stage and each phase.
    slabs: Vec<Slab>,
}

impl Case {
    fn slab_words(&self) -> usize {
        self.channel_blocks * self.phases * 64
    }

    fn stage_slabs(&self) -> usize {
        self.slabs.len() / self.phases
    }

    fn stages(&self) -> usize {
        self.in_per_share.div_ceil(self.stage_channels)
    }

    fn tiles(&self) -> usize {
        self.out_channels.div_ceil(self.tile_channels)
    }

    fn packing(&self) -> Packing {
        let divisor = |value: usize| Divisor::new(value as u64);
        let slabs = self.shares * self.tiles() * self.stages() * self.stage_slabs();
        Packing {
            stage_slabs: divisor(self.stage_slabs()),
            stages: divisor(self.stages()),
            channel_tiles: divisor(self.tiles()),
            slab_words: divisor(self.slab_words()),
            column_phases: divisor(self.phases),
            in_channels: self.in_channels as u64,
            close_channels: self.close_channels as u32,
            pair_distance: self.pair_distance as u32,
            in_per_share: self.in_per_share as u32,
            out_per_group: self.out_channels as u32,
            stage_channels: self.stage_channels as u32,
            taps: self.taps as u32,
            tile_channels: self.tile_channels as u32,
            words: (slabs * self.slab_words()) as u32,
        }
    }

    /// Portions of so many blocks of output channels.
    fn portions(&self, blocks: usize) -> Portions {
        let divisor = |value: usize| Divisor::new(value as u64);
        Portions {
            taps: divisor(self.taps),
            of_stage: divisor(self.channel_blocks / blocks),
            column_blocks: divisor(blocks * self.phases),
            out_channels: 8 * blocks as u32,
            row_words: (8 * blocks) as u32 * (self.taps as u32 + Portions::padding(self.taps as u32)) + 4,
        }
    }

    fn weight(&self) -> Vec<f32> {
        let elements = self.in_channels * self.out_channels * self.taps;
        (0..elements).map(|at| (at * 37 % 2001) as f32 - 1000.0).collect()
    }

    /// The words of a weight as numbers, one for each input channel of a word.
    fn expected(&self, weight: &[f32], f16: bool) -> Vec<[f64; 2]> {
        let mut words = Vec::new();
        for share in 0..self.shares {
            for tile in 0..self.tiles() {
                for stage in 0..self.stages() {
                    for entries in self.slabs.chunks(self.phases) {
                        for block in 0..self.channel_blocks * self.phases {
                            let mut of_block = [[0.0; 2]; 64];
                            for column in 0..8 {
                                let (phase, of_tile) = self.phase_and_channel(block, column);
                                let Some(entry) = entries.get(phase) else { continue };
                                for channel in 0..if f16 { 16 } else { 8 } {
                                    let value = self.element(weight, share, stage, entry, channel, [tile, of_tile]);
                                    let distance = self.pair_distance;
                                    let pair = channel % distance + channel / (2 * distance) * distance;
                                    of_block[pair / 4 * 32 + column * 4 + pair % 4][channel / distance % 2] = value;
                                }
                            }
                            words.extend(of_block);
                        }
                    }
                }
            }
        }
        words
    }

    /// Which phase a column of a block of a slab belongs to, and which of the tile's channels.
    fn phase_and_channel(&self, block: usize, column: usize) -> (usize, usize) {
        match self.close_channels {
            0 => (block % self.phases, block / self.phases * 8 + column),
            close => ((block * 8 + column) / close, (block * 8 + column) % close),
        }
    }

    /// An element of a slab, zero if there is none.
    fn element(
        &self,
        weight: &[f32],
        share: usize,
        stage: usize,
        entry: &Slab,
        channel: usize,
        [tile, of_tile]: [usize; 2],
    ) -> f64 {
        let tap = entry.taps[channel / 8];
        let of_share = stage * self.stage_channels + entry.channels[channel / 8] as usize + channel % 8;
        let in_channel = share * self.in_per_share + of_share;
        let out_channel = tile * self.tile_channels + of_tile;
        let is_input = of_share < self.in_per_share && in_channel < self.in_channels;
        let is_output = of_tile < self.tile_channels && out_channel < self.out_channels;
        if tap == Slab::NO_TAP || !is_input || !is_output {
            return 0.0;
        }
        let row = in_channel * self.out_channels + out_channel;
        weight[row * self.taps + tap as usize].into()
    }

    /// Packs the weight, which begins so many words after an aligned address, in portions of so many blocks or word by
    /// word, and compares every word.
    fn check(&self, Format { kernel, f16, split }: Format, blocks: Option<usize>, offset: usize) {
        let what = format!("{kernel}, portions {blocks:?}, {self:?}");
        let weight = self.weight();
        let packing = self.packing();
        let portions = blocks.map(|blocks| self.portions(blocks));
        let table_words = 4 * self.slabs.len() as u32;
        let shared_words = portions.map_or(0, |portions| table_words + packing.stage_channels * portions.row_words);
        let stages = packing.words as usize / (self.slab_words() * self.stage_slabs());
        let grid = blocks.map_or(packing.words.div_ceil(256), |blocks| (stages * self.channel_blocks / blocks) as u32);
        let portions = portions.unwrap_or(bytemuck::Zeroable::zeroed());

        let mut memory = Memory::new();
        let shifted = [&vec![f32::MAX; offset], &weight[..]].concat();
        let mut source = memory.read_only("weight", &shifted).wrapping_add(offset);
        let slabs: Vec<[u32; 4]> = self.slabs.iter().map(|slab| bytemuck::cast(*slab)).collect();
        let mut table = memory.read_only("slabs", &slabs);
        let header = if f16 { WEIGHT_HEADER as usize } else { 0 };
        let words = packing.words as usize * if split { 2 } else { 1 };
        let mut packed: *mut u32 = memory.uninitialised("packed", header + words);
        if f16 {
            weighed::launch(&mut memory, weight.len(), source, packed);
        }
        let arguments = [
            (&raw const packing).cast_mut().cast(),
            (&raw const portions).cast_mut().cast(),
            (&raw mut table).cast(),
            (&raw mut source).cast(),
            (&raw mut packed).cast(),
        ];
        let launch = Launch::new(grid, blocks.map_or(256, |_| PORTION_THREADS)).shared_bytes(shared_words as usize * 4);
        // SAFETY: the arguments are in the order of the kernel's parameters, and of their types.
        let run = unsafe { launch.run_entry(&mut memory, entry::find(KERNELS, kernel).unwrap(), &arguments) };
        run.unwrap_or_else(|fault| panic!("{what}: {fault}"));

        let written: Vec<u32> = memory.values(packed.cast_const()).unwrap();
        let numbers = |word: u32| match f16 {
            true => half::unpack(word).map(f64::from),
            false => [f64::from(f32::from_bits(word & TF32_BITS)), 0.0],
        };
        let parts: Vec<[f64; 2]> = written[header..].iter().copied().map(numbers).collect();
        let found: Vec<[f64; 2]> = if split {
            let sums = |slab: &[[f64; 2]]| {
                let (large, small) = slab.split_at(self.slab_words());
                large.iter().zip(small).map(|(a, b)| [a[0] + b[0], a[1] + b[1]]).collect::<Vec<_>>()
            };
            parts.chunks(2 * self.slab_words()).flat_map(sums).collect()
        } else {
            parts
        };
        let expected = self.expected(&weight, f16);
        assert_eq!(found.len(), expected.len());
        // The same power of two for all of them.
        let scale = found.iter().zip(&expected).find(|(_, expected)| expected[0] != 0.0).map(|(a, b)| a[0] / b[0]);
        let scale = scale.unwrap();
        assert!(scale.log2().fract() == 0.0 && (f16 || scale == 1.0), "{what}: {scale}");
        for (number, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            assert_eq!(found, expected.map(|value| value * scale), "word {number}: {what}");
        }
    }
}

/// Slabs of eight channels for each of some taps.
fn slabs_of_eight(taps: &[u32], channels: u32) -> Vec<Slab> {
    let of = |first: u32| taps.iter().map(move |&tap| Slab { taps: [tap; 2], channels: [first; 2] });
    (0..channels / 8).flat_map(|block| of(8 * block)).collect()
}

#[test]
fn weights_are_where_their_slabs_say() {
    let ends = Case {
        shares: 2,
        in_per_share: 19,
        in_channels: 38,
        out_channels: 21,
        taps: 4,
        stage_channels: 16,
        tile_channels: 16,
        channel_blocks: 2,
        phases: 1,
        close_channels: 0,
        pair_distance: 8,
        slabs: slabs_of_eight(&[3, 0, 2], 16),
    };
    let phases = Case {
        shares: 1,
        in_per_share: 8,
        in_channels: 8,
        out_channels: 41,
        taps: 9,
        stage_channels: 8,
        tile_channels: 30,
        channel_blocks: 4,
        phases: 3,
        slabs: slabs_of_eight(&[8, 1, 4, 0, Slab::NO_TAP, 5], 8),
        ..ends
    };
    let slabs = slabs_of_eight(&[8, 1, Slab::NO_TAP, 0], 8);
    let beyond = Case { shares: 4, in_per_share: 16, in_channels: 37, slabs: ends.slabs.clone(), ..ends };
    let close = Case { out_channels: 3, tile_channels: 3, phases: 2, close_channels: 4, slabs, ..phases };
    for format in FORMATS.into_iter().filter(|format| !format.f16) {
        close.check(format, None, 0);
    }
    for case in [&ends, &beyond, &phases] {
        for format in FORMATS.into_iter().filter(|format| !format.f16) {
            for (blocks, offset) in [(None, 0), (Some(1), 0), (Some(1), 1), (Some(2), 0), (Some(2), 3)] {
                case.check(format, blocks, offset);
            }
        }
    }
}

#[test]
fn pairs_of_weights_are_where_their_slabs_say() {
    let following = [2, Slab::NO_TAP, 0].map(|tap| Slab { taps: [tap; 2], channels: [0, 8] });
    let of_two_taps =
        [[0, 4], [3, Slab::NO_TAP], [1, 2], [Slab::NO_TAP, 1]].map(|taps| Slab { taps, channels: [0; 2] });
    let following = Case {
        shares: 2,
        in_per_share: 21,
        in_channels: 42,
        out_channels: 23,
        taps: 3,
        stage_channels: 16,
        tile_channels: 23,
        channel_blocks: 4,
        phases: 1,
        close_channels: 0,
        pair_distance: 1,
        slabs: following.to_vec(),
    };
    let of_two_taps = Case {
        in_per_share: 13,
        in_channels: 26,
        out_channels: 17,
        taps: 5,
        stage_channels: 8,
        tile_channels: 9,
        channel_blocks: 2,
        phases: 2,
        pair_distance: 4,
        slabs: of_two_taps.to_vec(),
        ..following
    };
    let padded = Case { taps: 8, slabs: following.slabs.clone(), ..following };
    let beyond = Case { shares: 4, in_per_share: 16, in_channels: 37, slabs: following.slabs.clone(), ..following };
    for case in [&following, &of_two_taps, &padded, &beyond] {
        for format in FORMATS.into_iter().filter(|format| format.f16) {
            for (blocks, offset) in [(None, 0), (Some(1), 0), (Some(1), 1), (Some(2), 0), (Some(2), 3)] {
                case.check(format, blocks, offset);
            }
        }
    }
}
