//! The algorithms of the CUDA backend as types, so that an engine can be of one of them.

use conv_transpose::cuda::Algorithm;

/// An algorithm, and what its engines are called.
pub trait Kind {
    const ALGORITHM: Algorithm;
    const CUDA: &'static str;
    const EMULATED: &'static str;
    /// On a GPU; the emulator repeats everything.
    const REPEATABLE: bool = true;
}

/// [`Algorithm::Direct`].
pub struct Direct;
/// [`Algorithm::Gather`].
pub struct Gather;
/// [`Algorithm::Scatter`].
pub struct Scatter;

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
