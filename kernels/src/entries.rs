//! The kernels by name, for launchers that find them there.

use cuda_std::entry::Entry;

use crate::{
    fill_bias::{FILL_BIAS_ENTRY, FILL_BIAS_WIDE_ENTRY},
    gather::{GATHER_ENTRY, GATHER_WIDE_ENTRY},
    scatter::{SCATTER_ENTRY, SCATTER_WIDE_ENTRY},
    tile::*,
};

/// Every kernel of this crate, as the host calls it.
pub static KERNELS: &[&Entry] = &[
    &FILL_BIAS_ENTRY,
    &FILL_BIAS_WIDE_ENTRY,
    &GATHER_ENTRY,
    &GATHER_WIDE_ENTRY,
    &SCATTER_ENTRY,
    &SCATTER_WIDE_ENTRY,
    &PACK_SPLIT_ENTRY,
    &PACK_TF32_ENTRY,
    &TILE_8X8_TF32_ENTRY,
    &TILE_16X8_TF32_ENTRY,
    &TILE_24X4_TF32_ENTRY,
    &TILE_32X4_TF32_ENTRY,
    &TILE_48X2_TF32_ENTRY,
    &TILE_64X2_TF32_ENTRY,
    &TILE_64X1_TF32_ENTRY,
    &TILE_128X1_TF32_ENTRY,
    &TILE_8X8_F32_ENTRY,
    &TILE_16X4_F32_ENTRY,
    &TILE_24X2_F32_ENTRY,
    &TILE_32X2_F32_ENTRY,
    &TILE_48X1_F32_ENTRY,
    &TILE_64X1_F32_ENTRY,
];
