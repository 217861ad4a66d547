//! The kernel that finds the largest magnitudes of a weight, under the emulator.

use conv_transpose_kernels::{
    KERNELS,
    tile::{WEIGHING_THREADS, WEIGHT_HEADER},
};
use cuda_std::emulator::{Launch, Memory};
use cuda_std::entry;

/// Elements that all threads look at by fours at a time: eight of those are under way in each.
const UNDER_WAY: usize = (8 * 4 * WEIGHT_HEADER * WEIGHING_THREADS) as usize;

/// Runs the kernel on a weight of so many elements.
pub fn launch(memory: &mut Memory, elements: usize, mut weight: *const f32, mut header: *mut u32) {
    let mut elements = elements as u64;
    let arguments = [(&raw mut elements).cast(), (&raw mut weight).cast(), (&raw mut header).cast()];
    let launch = Launch::new(WEIGHT_HEADER, WEIGHING_THREADS).shared_bytes(WEIGHING_THREADS as usize / 32 * 4);
    // SAFETY: the arguments are in the order of the kernel's parameters, and of their types.
    unsafe { launch.run_entry(memory, entry::find(KERNELS, "weigh").unwrap(), &arguments) }.unwrap();
}

/// The largest of what the blocks find in a weight that begins so many words after an aligned address.
fn weigh(weight: &[f32], offset: usize) -> f32 {
    let mut memory = Memory::new();
    let shifted = [&vec![f32::MAX; offset], weight].concat();
    let source = memory.read_only("weight", &shifted).wrapping_add(offset);
    let header: *mut u32 = memory.uninitialised("header", WEIGHT_HEADER as usize);
    launch(&mut memory, weight.len(), source, header);
    let found: Vec<u32> = memory.values(header.cast_const()).unwrap();
    found.into_iter().map(f32::from_bits).fold(0.0, f32::max)
}

/// Whatever the number of elements, and wherever the weight begins; infinities and not-a-numbers do not count.
#[test]
fn the_largest_weight_is_found_wherever_it_is() {
    for count in [1, 3, 4, 1027, UNDER_WAY + 5] {
        for offset in [0, 1] {
            for largest in [0, count / 2, count - 1] {
                let mut weight = vec![0.5; count];
                weight[largest] = -3.0;
                assert_eq!(weigh(&weight, offset), 3.0, "{count} elements, {offset} words on, element {largest}");
            }
        }
    }
    assert_eq!(weigh(&[f32::INFINITY, 2.0, f32::NAN, -7.0, f32::NEG_INFINITY], 0), 7.0);
    assert_eq!(weigh(&[], 0), 0.0);
}
