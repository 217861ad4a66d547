//! The kernels of the CUDA backend, run as written on the CPU, as engines.

use std::marker::PhantomData;

use conv_transpose::{
    ConvTranspose, Tensor,
    cuda::{EmulatedPlan, Options},
};

use super::{
    Computes,
    kind::{self, Kind},
};
use crate::geometries::{Draw, Stop};

/// One algorithm on the emulator, which reports every access out of bounds, race and unwritten output element.
///
/// Each case runs with 32-bit indices and, where there are kernels for it, with 64-bit indices, and both have to give
/// the same bits.
pub struct Emulated<A>(PhantomData<A>);

/// The tile kernels, and the one that sums up their columns.
pub type Col2im = Emulated<kind::Col2im>;
/// The direct kernels.
pub type Direct = Emulated<kind::Direct>;
/// The gather kernels.
pub type Gather = Emulated<kind::Gather>;
/// The scatter kernels. One thread after the other, they add up in the same order each time.
pub type Scatter = Emulated<kind::Scatter>;
/// The tile kernels.
pub type Tile = Emulated<kind::Tile>;
/// Those for ordinary cores.
pub type OrdinaryTile = Emulated<kind::OrdinaryTile>;

impl<A: Kind> Computes for Emulated<A> {
    const NAME: &'static str = A::EMULATED;
    const ROUNDOFF: f64 = A::ROUNDOFF;

    fn draw(usual: u32) -> Draw {
        Draw::usual(usual.div_ceil(A::EMULATED_SHARE))
    }

    fn start() -> Result<Self, String> {
        Ok(Self(PhantomData))
    }

    fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        let options = Options::default().algorithm(A::ALGORITHM);
        let plan = EmulatedPlan::with_architecture(layer, input.shape(), options, A::ARCHITECTURE)?;
        let narrow = plan.forward(input, weight, bias)?.into_vec();
        if !A::HAS_WIDE {
            return Ok(narrow);
        }
        let wide = plan.wide()?.forward(input, weight, bias)?.into_vec();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        if bits(&narrow) != bits(&wide) {
            return Err(Stop::Failed("32-bit and 64-bit indices disagree".into()));
        }
        Ok(narrow)
    }
}
