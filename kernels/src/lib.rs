//! The GPU kernels of conv-transpose, and the parameters that host and device share.
//!
//! On the GPU this crate is compiled to PTX; on the host it is an ordinary library, whose parameter types the launchers
//! fill in. There the large kernels (`tile`, `flat`, `patch`) are left out, unless for the emulator: the host needs
//! their parameters and limits. What has to be inlined on the GPU is not on the host (`cfg(gpu)`), which compiles in a
//! quarter of the time then, and runs nearly as fast.
//!
//! A kernel is one file, or a folder: its idea and its limits at the top, then the code. A kernel that counts the
//! elements of whole tensors comes twice: with 32-bit indices for tensors below 2^31 elements, and as `..._wide` with
//! 64-bit indices for the rest.

#![no_std]
#![cfg_attr(gpu, feature(abi_ptx, asm_experimental_arch))]

mod col2im;
mod direct;
#[cfg(feature = "emulator")]
mod entries;
mod fill_bias;
#[cfg_attr(
    not(any(gpu, feature = "emulator")),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "the kernels themselves are left out, as those of tiles are"
    )
)]
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
pub mod flat;
mod gather;
mod index;
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
#[cfg_attr(not(any(gpu, feature = "emulator")), allow(dead_code, reason = "the kernels that have them are left out"))]
mod jobs;
#[cfg_attr(
    not(any(gpu, feature = "emulator")),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "the kernels themselves are left out, as those of tiles are"
    )
)]
#[cfg(any(cuda_arch = "sm_90a", not(gpu)))]
pub mod patch;
mod problem;
mod scatter;
#[cfg_attr(
    not(any(gpu, feature = "emulator")),
    allow(dead_code, unused_imports, unused_macros, reason = "the kernels themselves are left out, which are large")
)]
pub mod tile;
mod unrolled;

pub use col2im::{col2im, col2im_wide};
pub use direct::{
    MOST_IN_VECTORS, PIECES, Pieces, WINDOW_OF_QUADS, direct, direct_quads, direct_quads_wide, direct_wide,
};
#[cfg(feature = "emulator")]
pub use entries::KERNELS;
pub use fill_bias::{FILLED, fill_bias, fill_bias_wide};
pub use gather::{FEW_PRODUCTS, gather, gather_wide};
pub use index::{Divisor, Index};
pub use problem::{Axis, Phase, Problem};
pub use scatter::{scatter, scatter_wide};
