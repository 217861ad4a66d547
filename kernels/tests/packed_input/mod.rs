//! The kernels that pack the input, under the emulator: every element has to be there again, exactly, by the exponent
//! of its sample.

use conv_transpose_kernels::{
    Divisor, KERNELS,
    tile::{INPUT_PACKING_THREADS, InputPacking},
};
use cuda_std::emulator::{Launch, Memory};
use cuda_std::{entry, half};

const BATCH: usize = 2;
/// Blocks for each sample: an odd number, so that the header is a multiple of four words.
const BLOCKS: usize = 3;

/// An input `[BATCH][channels][width]` of one group.
struct Case {
    channels: usize,
    width: usize,
    split: bool,
}

impl Case {
    /// Pairs of channels that are packed: whole blocks of eight, if they are split.
    fn pairs(&self) -> usize {
        let pairs = self.channels.div_ceil(2);
        if self.split { pairs.next_multiple_of(8) } else { pairs }
    }

    /// Words of a packed row.
    fn row(&self) -> usize {
        self.width.next_multiple_of(4)
    }

    fn sample_words(&self) -> usize {
        self.pairs() * self.row() * if self.split { 2 } else { 1 }
    }

    /// Words of the header: an exponent and the largest values of all blocks for each sample.
    fn header(&self) -> usize {
        BATCH * (1 + BLOCKS)
    }

    fn packing(&self) -> InputPacking {
        let divisor = |value: usize| Divisor::new(value as u64);
        let fours = self.pairs() * self.row() / 4;
        InputPacking {
            row_fours: divisor(self.row() / 4),
            rows: divisor(1),
            plane_fours: divisor(self.row() / 4),
            pairs: divisor(self.pairs()),
            blocks: divisor(BLOCKS),
            sample: (self.channels * self.width) as u64,
            width: self.width as u32,
            channels: self.channels as u32,
            batch: BATCH as u32,
            fours: (self.sample_words() / 4) as u32,
            fours_of_block: fours.div_ceil(BLOCKS).next_multiple_of(INPUT_PACKING_THREADS as usize) as u32,
            header: self.header() as u32,
        }
    }

    /// Packs it, and compares every element with what comes out of the words for it, and what they are filled up with,
    /// with zero.
    fn check(&self, input: &[f32]) {
        let packing = self.packing();
        let mut memory = Memory::new();
        let mut source = memory.read_only("input", input);
        let mut packed: *mut u32 = memory.uninitialised("packed", self.header() + BATCH * self.sample_words());
        for kernel in ["pack_input", "repack_input"] {
            let name = if self.split { format!("{kernel}_split") } else { kernel.to_owned() };
            let launch = Launch::new((BATCH * BLOCKS) as u32, INPUT_PACKING_THREADS);
            let arguments =
                [(&raw const packing).cast_mut().cast(), (&raw mut source).cast(), (&raw mut packed).cast()];
            let entry = entry::find(KERNELS, &name).unwrap();
            // SAFETY: the arguments are in the order of the kernel's parameters, and of their types.
            let run = unsafe {
                launch.shared_bytes(packing.shared_bytes() as usize).run_entry(&mut memory, entry, &arguments)
            };
            run.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        }
        let written: Vec<u32> = memory.values(packed.cast_const()).unwrap();
        for (sample, &exponent) in written[..BATCH].iter().enumerate() {
            let words = &written[self.header() + sample * self.sample_words()..][..self.sample_words()];
            let scale = 2f64.powi(exponent as i32);
            for (channel, x) in (0..2 * self.pairs()).flat_map(|channel| (0..self.row()).map(move |x| (channel, x))) {
                let exists = channel < self.channels && x < self.width;
                let element = (sample * self.channels + channel) * self.width + x;
                let expected = if exists { f64::from(input[element]) } else { 0.0 };
                let found = self.value(words, channel, x) / scale;
                assert_eq!(found, expected, "sample {sample}, channel {channel}, position {x}");
            }
        }
    }

    /// What the words of a sample say of an element, scaled.
    fn value(&self, words: &[u32], channel: usize, x: usize) -> f64 {
        let pair = channel / 2;
        let rows = if self.split { vec![pair / 8 * 16 + pair % 8, pair / 8 * 16 + 8 + pair % 8] } else { vec![pair] };
        let half = |row: usize| f64::from(half::unpack(words[row * self.row() + x])[channel % 2]);
        rows.into_iter().map(half).sum()
    }
}

/// Integers, in the first sample as they are, in the second one so large that it needs another exponent.
fn integers(case: &Case) -> Vec<f32> {
    let sample = case.channels * case.width;
    let integer = |at: usize| (at * 37 % 201) as f32 - 100.0;
    (0..BATCH * sample).map(|at| integer(at) * if at < sample { 1.0 } else { 65536.0 }).collect()
}

#[test]
fn words_go_through_shared_memory_where_there_are_many() {
    for split in [false, true] {
        let case = Case { channels: 16, width: 1600, split };
        assert!(case.packing().shared_bytes() > 1024);
        case.check(&integers(&case));
    }
}

#[test]
fn rows_and_channels_are_filled_up() {
    for (channels, width, split) in
        [(15, 1601, false), (16, 1601, false), (15, 1600, true), (3, 5, true), (1, 1, false)]
    {
        let case = Case { channels, width, split };
        assert!(case.packing().shared_bytes() < 1024);
        case.check(&integers(&case));
    }
}

#[test]
fn infinities_stay_and_decide_nothing() {
    for width in [1600, 1601] {
        let case = Case { channels: 16, width, split: false };
        let mut input = integers(&case);
        for at in [0, 5, input.len() - 1] {
            input[at] = f32::INFINITY;
        }
        case.check(&input);
    }
}
