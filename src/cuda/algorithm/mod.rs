//! The algorithms, and the one place where one is chosen.
//!
//! To add one: write its file, with an [`Implementation`], and add a line to [`IMPLEMENTATIONS`].

mod gather;
mod scatter;

use std::fmt;

use cust::sys;

use super::{
    device::Device,
    error::{CudaError, Unsupported},
    operands::Operands,
};
use crate::Problem;

/// How a plan computes its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The first algorithm that supports the problem and is bitwise repeatable.
    #[default]
    Auto,
    /// One thread per output element, which sums the taps that reach it. Any geometry, bitwise repeatable.
    Gather,
    /// One thread per input position and output channel, which adds into the output atomically. Any geometry. **Not bitwise
    /// repeatable**: the order of the additions, and so their rounding, varies from run to run. Never chosen by `Auto`.
    Scatter,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
        })
    }
}

/// An algorithm that is prepared for one problem on one device.
pub(super) trait Prepared: fmt::Debug + Send + Sync {
    /// Device memory that it holds, in bytes.
    fn device_bytes(&self) -> usize;

    /// Enqueues its kernels.
    ///
    /// # Safety
    /// The device's context is current and `stream` belongs to it. The operands are addresses of that device with as many elements as
    /// the problem says, the output apart from the others, and stay valid until the kernels have run.
    unsafe fn launch(&self, stream: sys::CUstream, operands: &Operands) -> Result<(), CudaError>;
}

/// What the choice needs to know of an algorithm.
struct Implementation {
    algorithm: Algorithm,
    /// Whether two runs give the same bits.
    repeatable: bool,
    /// The limits of the algorithm.
    can_implement: fn(&Problem<3>) -> Result<(), Unsupported>,
    /// Looks up the kernels and uploads their tables.
    prepare: Prepare,
}

type Prepare = fn(&Device, &Problem<3>) -> Result<Box<dyn Prepared>, CudaError>;

/// In order of preference.
const IMPLEMENTATIONS: &[Implementation] = &[gather::IMPLEMENTATION, scatter::IMPLEMENTATION];

/// Prepares the algorithm that was asked for, or the preferred one of those that can solve the problem. Says which it is.
pub(super) fn prepare(
    wanted: Algorithm,
    device: &Device,
    problem: &Problem<3>,
) -> Result<(Algorithm, Box<dyn Prepared>), CudaError> {
    let eligible = |candidate: &&Implementation| match wanted {
        Algorithm::Auto => candidate.repeatable,
        wanted => candidate.algorithm == wanted,
    };
    let mut refusal = None;
    for Implementation { algorithm, can_implement, prepare, .. } in IMPLEMENTATIONS.iter().filter(eligible) {
        match can_implement(problem) {
            Ok(()) => return Ok((*algorithm, prepare(device, problem)?)),
            Err(reason) => refusal = Some(CudaError::Unsupported { algorithm: *algorithm, reason }),
        }
    }
    Err(refusal.expect("every algorithm has an implementation, and one of them is repeatable"))
}

/// The launcher that `docs/kernels.md` shows.
#[cfg(test)]
#[path = "../../../docs/pointwise_launcher.rs"]
mod pointwise;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvTranspose2d, Shape};

    #[test]
    fn the_document_shows_the_launcher_that_compiles() {
        let document = include_str!("../../../docs/kernels.md");
        assert!(document.contains(include_str!("../../../docs/pointwise_launcher.rs")));
    }

    #[test]
    fn the_documented_launcher_takes_one_tap_only() {
        let _: Prepare = pointwise::prepare;
        let can_implement = |kernel, stride| {
            let layer = ConvTranspose2d::builder(4, 6, kernel).stride(stride).build().unwrap();
            pointwise::can_implement(&layer.problem(Shape::batched(2, 4, [5, 7])).unwrap().to_3d())
        };
        assert_eq!(can_implement([1, 1], [1, 1]), Ok(()));
        assert!(can_implement([1, 2], [1, 1]).unwrap_err().to_string().starts_with("a kernel extent is 2"));
        assert!(can_implement([1, 1], [3, 1]).unwrap_err().to_string().starts_with("a stride is 3"));
    }
}
