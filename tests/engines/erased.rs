//! An engine without its type: what properties take, so that each is compiled once and not once for every engine.

use std::{any::Any, rc::Rc};

use conv_transpose::{ConvTranspose, Tensor};

use super::Computes;
use crate::geometries::{Draw, Stop};

/// Something that [`Computes`], ready to run. The fields and [`draw`](Self::draw) give what its constants and functions
/// say.
pub struct Engine {
    pub repeatable: bool,
    pub roundoff: f64,
    draw: fn(u32) -> Draw,
    /// An `Rc<dyn Forward<D>>` for each `D`.
    forward: [Box<dyn Any>; 3],
}

/// [`Computes::forward`] in `D` dimensions: a trait object cannot have methods that are generic.
trait Forward<const D: usize> {
    fn forward(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop>;
}

impl<C: Computes, const D: usize> Forward<D> for C {
    fn forward(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        Computes::forward(self, layer, input, weight, bias)
    }
}

impl Engine {
    pub fn new<C: Computes>(inner: C) -> Self {
        fn erased<C: Computes, const D: usize>(inner: &Rc<C>) -> Box<dyn Any> {
            let forward: Rc<dyn Forward<D>> = inner.clone();
            Box::new(forward)
        }
        let inner = Rc::new(inner);
        Self {
            repeatable: C::REPEATABLE,
            roundoff: C::ROUNDOFF,
            draw: C::draw,
            forward: [erased::<C, 1>(&inner), erased::<C, 2>(&inner), erased::<C, 3>(&inner)],
        }
    }

    /// See [`Computes::draw`].
    pub fn draw(&self, usual: u32) -> Draw {
        (self.draw)(usual)
    }

    /// See [`Computes::forward`].
    pub fn forward<const D: usize>(
        &self,
        layer: &ConvTranspose<D>,
        input: &Tensor<f32, D>,
        weight: &Tensor<f32, D>,
        bias: Option<&[f32]>,
    ) -> Result<Vec<f32>, Stop> {
        let forward: &Rc<dyn Forward<D>> = self.forward[D - 1].downcast_ref().unwrap();
        forward.forward(layer, input, weight, bias)
    }
}
