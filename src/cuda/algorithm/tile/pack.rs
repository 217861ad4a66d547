//! Pack: the launches that pack a weight for the kernels of this algorithm, `flat` and `patch`.

use bytemuck::Zeroable;
use conv_transpose_kernels::{
    Divisor,
    tile::{PORTION_THREADS, Packing, Portions, Slab, WEIGHING_THREADS, WEIGHT_HEADER},
};

use crate::cuda::{
    algorithm::{Target, Task},
    recipe::{
        Argument::{self, PackedWeight, Weight},
        Launch,
    },
};

/// The kernel that finds the largest values of a weight that is packed as `f16`.
pub(in crate::cuda::algorithm) const WEIGH: &str = "weigh";

/// The kernel that packs a weight as `f16`, or as sums of two such numbers.
pub(in crate::cuda::algorithm) const fn pack_f16(split: bool) -> &'static str {
    if split { "pack_split_f16" } else { "pack_f16" }
}

/// The kernel that packs a weight as it is, for ordinary cores.
pub(super) const PACK: &str = "pack";

/// Words of a block of eight columns in a slab.
const BLOCK_WORDS: u64 = 64;

/// Words below which each thread packs one for itself: all of them are under way at the same time.
const FEW_WORDS: u32 = 1 << 17;

/// Taps below which they do: lanes load from few lines of the cache.
const FEW_TAPS: u32 = 3;

/// Bytes that a portion is to have at most, so that a multiprocessor has room for several.
const PORTION_BYTES: u64 = 40 << 10;

/// The launch that packs the weight by a kernel and the table of that number.
pub(super) fn pack(kernel: &'static str, task: &Task, packing: &Packing, table: usize) -> Launch {
    let tensors = [Argument::Table(table), Weight, PackedWeight];
    let launch = |values: &[Argument]| Launch::per_element(kernel, packing.words.into(), [values, &tensors].concat());
    if kernel == PACK {
        return launch(&[Argument::value(packing)]);
    }
    match portions(packing, &task.target) {
        None => launch(&[Argument::value(packing), Argument::value(&Portions::zeroed())]),
        Some(portions) => Launch {
            blocks: [count(packing, &portions), 1],
            threads: PORTION_THREADS,
            shared_bytes: shared_bytes(packing, &portions) as u32,
            ..launch(&[Argument::value(packing), Argument::value(&portions)])
        },
    }
}

/// The launches that pack the weight as `f16`, or as sums of two such numbers: one finds its largest values, which the
/// other one waits for when it has loaded its own.
pub(in crate::cuda::algorithm) fn pack_as_f16(
    task: &Task,
    split: bool,
    packing: &Packing,
    table: usize,
) -> Vec<Launch> {
    let elements = task.problem.weight_shape().len() as u64;
    let arguments = vec![Argument::value(&elements), Weight, PackedWeight];
    let weigh = Launch::of_blocks(WEIGH, WEIGHT_HEADER, WEIGHING_THREADS, arguments);
    vec![weigh, Launch { beside: task.target.large_tiles, ..pack(pack_f16(split), task, packing, table) }]
}

/// The portions of a large weight with taps enough, if one fits: of as many output channels as have room, unless there
/// are too few portions then.
fn portions(packing: &Packing, target: &Target) -> Option<Portions> {
    if packing.words < FEW_WORDS || packing.taps < FEW_TAPS || packing.close_channels > 0 {
        return None;
    }
    let (phases, column_blocks) = (packing.column_phases.value(), packing.slab_words.value() / BLOCK_WORDS);
    if !column_blocks.is_multiple_of(phases) {
        return None;
    }
    let channel_blocks = column_blocks / phases;
    let of = |blocks: u64| {
        // Of an odd number of taps, those of four input channels by eight output channels are on different banks.
        let channel_words = u64::from(packing.taps) + u64::from(Portions::padding(packing.taps));
        let row_words = (8 * blocks * channel_words).next_multiple_of(16) + 8;
        let portions = Portions {
            taps: Divisor::new(packing.taps.into()),
            of_stage: Divisor::new(channel_blocks / blocks),
            column_blocks: Divisor::new(blocks * phases),
            out_channels: 8 * blocks as u32,
            row_words: row_words.try_into().ok()?,
        };
        (shared_bytes(packing, &portions) <= target.shared_bytes.into()).then_some(portions)
    };
    let enough = |portions: &Portions| {
        shared_bytes(packing, portions) <= PORTION_BYTES && count(packing, portions) >= 2 * target.multiprocessors
    };
    let smallest = of(1).filter(|portions| 2 * count(packing, portions) >= target.multiprocessors)?;
    let larger = [8, 4, 2].into_iter().filter(|blocks| channel_blocks.is_multiple_of(*blocks)).filter_map(of);
    Some(larger.into_iter().find(enough).unwrap_or(smallest))
}

/// How many there are.
fn count(packing: &Packing, portions: &Portions) -> u32 {
    let stage_words = packing.stage_slabs.value() * packing.slab_words.value();
    (u64::from(packing.words) / stage_words * portions.of_stage.value()) as u32
}

/// Bytes of shared memory of a block that packs one.
fn shared_bytes(packing: &Packing, portions: &Portions) -> u64 {
    let table = packing.stage_slabs.value() * packing.column_phases.value() * size_of::<Slab>() as u64;
    table + u64::from(packing.stage_channels) * u64::from(portions.row_words) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConvTranspose2d, Precision, Shape,
        cuda::algorithm::{Algorithm, choose},
    };

    /// The launches that pack the weight of a layer.
    fn launches(channels: [usize; 2], kernel: usize, precision: Precision, target: Target) -> Vec<Launch> {
        let layer = ConvTranspose2d::builder(channels[0], channels[1], [kernel; 2]).stride([2; 2]).build().unwrap();
        let problem = layer.problem(Shape::batched(8, channels[0], [16, 16])).unwrap().to_compute();
        choose(Algorithm::Tile, &Task::new(problem, precision, target)).unwrap().1.pack
    }

    #[test]
    fn large_weights_are_packed_in_portions() {
        let in_portions = |channels: [usize; 2], kernel: usize, target: Target| {
            [Precision::Tf32, Precision::F32].map(|precision| {
                let launches = launches(channels, kernel, precision, target);
                launches.last().unwrap().shared_bytes > 0
            })
        };
        assert_eq!(in_portions([1024, 512], 4, Target::EMULATED), [true; 2]);
        assert_eq!(in_portions([1024, 512], 4, Target::EMULATED_OLDER), [true; 2]);
        assert_eq!(in_portions([1024, 512], 4, Target::EMULATED_ORDINARY), [false; 2], "ordinary cores");
        assert_eq!(in_portions([64, 64], 4, Target::EMULATED), [false; 2], "few words");
        assert_eq!(in_portions([1024, 1024], 1, Target::EMULATED), [false; 2], "one tap");
        assert_eq!(in_portions([16, 16], 64, Target::EMULATED), [false; 2], "more taps than a block has room for");
    }

    #[test]
    fn portions_are_all_of_the_packed_weight_and_have_room() {
        for (channels, kernel) in [([1024, 512], 4), ([512, 96], 3), ([2048, 1000], 3), ([256, 256], 7)] {
            for precision in [Precision::Tf32, Precision::F32] {
                let launch = launches(channels, kernel, precision, Target::EMULATED).pop().unwrap();
                let [Argument::Value(packing), Argument::Value(portions), ..] = &launch.arguments[..] else { panic!() };
                let packing: Packing = bytemuck::pod_read_unaligned(packing);
                let portions: Portions = bytemuck::pod_read_unaligned(portions);
                let words = packing.stage_slabs.value() * portions.column_blocks.value() * BLOCK_WORDS;
                assert_eq!(u64::from(launch.blocks[0]) * words, u64::from(packing.words), "{packing:?} {portions:?}");
                let entries = (packing.stage_slabs.value() * packing.column_phases.value()) as u32;
                let words = 4 * entries + packing.stage_channels * portions.row_words;
                assert_eq!(launch.shared_bytes, 4 * words);
                let row = portions.out_channels * (packing.taps + Portions::padding(packing.taps));
                assert!(row <= portions.row_words && launch.shared_bytes <= Target::EMULATED.shared_bytes);
            }
        }
    }
}
