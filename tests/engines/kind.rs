//! The algorithms of the CUDA backend as types, so that an engine can be of one of them.

use conv_transpose::cuda::Algorithm;

/// An algorithm, and what its engines are called.
pub trait Kind: 'static {
    const ALGORITHM: Algorithm;
    const CUDA: &'static str;
    const EMULATED: &'static str;
    /// The architecture whose kernels the emulator runs.
    const ARCHITECTURE: &'static str = "sm_90a";
    /// On a GPU; the emulator repeats everything.
    const REPEATABLE: bool = true;
    /// Whether its kernels also come with 64-bit indices.
    const HAS_WIDE: bool = true;
    /// The emulator gets one random case where others get so many.
    const EMULATED_SHARE: u32 = 8;
    /// See [`Computes::ROUNDOFF`](super::Computes::ROUNDOFF).
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
}

/// [`Algorithm::Col2im`].
pub struct Col2im;
/// [`Algorithm::Direct`].
pub struct Direct;
/// [`Algorithm::Gather`].
pub struct Gather;
/// [`Algorithm::Scatter`].
pub struct Scatter;
/// [`Algorithm::Tile`], in single precision.
pub struct Tile;
/// [`Algorithm::Tile`] on ordinary cores.
pub struct OrdinaryTile;

impl Kind for Direct {
    const ALGORITHM: Algorithm = Algorithm::Direct;
    const CUDA: &'static str = "cuda direct";
    const EMULATED: &'static str = "emulated direct";
}

impl Kind for Gather {
    const ALGORITHM: Algorithm = Algorithm::Gather;
    const CUDA: &'static str = "cuda gather";
    const EMULATED: &'static str = "emulated gather";
}

impl Kind for Scatter {
    const ALGORITHM: Algorithm = Algorithm::Scatter;
    const CUDA: &'static str = "cuda scatter";
    const EMULATED: &'static str = "emulated scatter";
    const REPEATABLE: bool = false;
}

/// Each factor is split into a first part of 11 bits and a second one, of up to 13, of which 11 count: up to 3 * 2^-23
/// of the factor is lost. The product of the second parts, up to 2^-20, is left out. Tensor cores cut off when they
/// add. In all that is less than 2^-19.
impl Kind for Tile {
    const ALGORITHM: Algorithm = Algorithm::Tile;
    const CUDA: &'static str = "cuda tile";
    const EMULATED: &'static str = "emulated tile";
    const HAS_WIDE: bool = false;
    /// Hundreds of threads meet at barriers many times, however small the case.
    const EMULATED_SHARE: u32 = 32;
    const ROUNDOFF: f64 = 1.0 / (1 << 19) as f64;
}

/// The products are those of [`Tile`], so that half as many cases will do.
impl Kind for Col2im {
    const ALGORITHM: Algorithm = Algorithm::Col2im;
    const CUDA: &'static str = "cuda col2im";
    const EMULATED: &'static str = "emulated col2im";
    const EMULATED_SHARE: u32 = 2 * Tile::EMULATED_SHARE;
    const ROUNDOFF: f64 = Tile::ROUNDOFF;
}

impl Kind for OrdinaryTile {
    const ALGORITHM: Algorithm = Algorithm::Tile;
    const ARCHITECTURE: &'static str = "sm_70";
    const CUDA: &'static str = "cuda tile on ordinary cores";
    const EMULATED: &'static str = "emulated tile on ordinary cores";
    const HAS_WIDE: bool = false;
    const EMULATED_SHARE: u32 = 48;
}
