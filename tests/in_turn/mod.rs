//! Layers whose jobs are more than a GPU has multiprocessors, and so short that one team stores after the other: a
//! single tap, or few.

use conv_transpose::{ConvTranspose, Shape};

/// What describes such ways, in TF32 precision.
pub const WORDS: &str = "stored in turn";

/// Rows that warps store as they are, and such of which they pass words on.
pub fn of_signals() -> Vec<(ConvTranspose<1>, Shape<1>)> {
    let layer = |kernel: usize| {
        (ConvTranspose::<1>::builder(8, 8, [kernel]).build().unwrap(), Shape::batched(17, 8, [8 << 10]))
    };
    vec![layer(1), layer(3)]
}
