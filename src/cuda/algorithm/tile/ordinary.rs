//! What the model takes into account on ordinary cores: products by fused multiply-adds, of inputs and weights that
//! come through registers.
//!
//! Constants are those of compute capability 7.0 and 7.5, by their data sheets. They have not been measured: there was
//! no such GPU.

use conv_transpose_kernels::tile;

use super::{cost::Products, layout::Layout};

/// Products of two numbers that a multiprocessor adds up per cycle.
const PRODUCTS_PER_CYCLE: f64 = 64.0;

/// Lanes that get a word of shared memory per cycle.
const LANES: f64 = 32.0;

/// Cycles that a team waits for the first factors of a tap.
const TAP_LATENCY: f64 = 40.0;

/// Cycles from the request of what is loaded together to its arrival in shared memory.
const ROUND: f64 = 1000.0;

/// Units of 16 bytes of weights, or words or such units of a channel of the input, that are loaded together.
const WEIGHTS_AT_ONCE: f64 = 8.0 * 32.0;

/// Threads that fetch the input.
const FETCHERS: f64 = 96.0;

/// Bytes per cycle that the memory of the device delivers to a multiprocessor.
const MEMORY_BYTES: f64 = 6.0;

/// What the products of so many slabs take a team.
pub(super) fn products(layout: &Layout, slabs: f64) -> Products {
    let rows = f64::from(layout.cut.rows());
    let columns = f64::from(layout.cut.variant.columns);
    let lanes = f64::from(tile::TEAM_ROWS) * 2.0;
    // Of each lane and channel: two positions of each row, two columns of each block.
    let words = 2.0 * rows + columns / 4.0;
    let products = rows * columns / 2.0;
    Products {
        cores: slabs * 8.0 * products * lanes / PRODUCTS_PER_CYCLE,
        reads: slabs * 8.0 * words * lanes / LANES,
        // Positions are loaded word by word, from places that are found each time; weights four words at once.
        instructions: slabs * 8.0 * (products + 4.0 * rows + columns / 16.0),
        latency: slabs * TAP_LATENCY,
    }
}

/// Cycles from the beginning to the end of fetching the input of a stage.
pub(super) fn fetch(layout: &Layout) -> f64 {
    let at_once = if layout.copy_words == 4 { FETCHERS } else { 4.0 * FETCHERS };
    (f64::from(layout.copies()) / at_once).ceil() * f64::from(layout.cut.stage_blocks) * ROUND
}

/// The same for so many bytes of weights.
pub(super) fn fetch_weights(bytes: f64) -> f64 {
    (bytes / 16.0 / WEIGHTS_AT_ONCE).ceil() * ROUND
}

/// Bytes per cycle that the memory delivers to so many multiprocessors.
pub(super) fn memory_bytes(multiprocessors: u32) -> f64 {
    MEMORY_BYTES * f64::from(multiprocessors)
}
