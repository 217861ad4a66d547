//! The kernels by name, for launchers that find them there.

use cuda_std::entry::Entry;

use crate::{
    direct::{DIRECT_ENTRY, DIRECT_QUADS_ENTRY, DIRECT_QUADS_WIDE_ENTRY, DIRECT_WIDE_ENTRY},
    fill_bias::{FILL_BIAS_ENTRY, FILL_BIAS_WIDE_ENTRY},
    gather::{GATHER_ENTRY, GATHER_WIDE_ENTRY},
    scatter::{SCATTER_ENTRY, SCATTER_WIDE_ENTRY},
};

/// Every kernel of this crate, as the host calls it.
pub static KERNELS: [&Entry; 10] = [
    &DIRECT_ENTRY,
    &DIRECT_QUADS_ENTRY,
    &DIRECT_QUADS_WIDE_ENTRY,
    &DIRECT_WIDE_ENTRY,
    &FILL_BIAS_ENTRY,
    &FILL_BIAS_WIDE_ENTRY,
    &GATHER_ENTRY,
    &GATHER_WIDE_ENTRY,
    &SCATTER_ENTRY,
    &SCATTER_WIDE_ENTRY,
];
