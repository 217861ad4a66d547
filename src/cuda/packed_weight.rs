//! A weight in the form that the kernels of a plan read.

use std::sync::Arc;

use cust::{memory::DeviceCopy, stream::Stream, sys};

use super::{
    error::{CudaError, check},
    memory::DeviceMemory,
    operands::Span,
    plan::Plan,
    recipe::Operands,
    tensor::DeviceTensor,
};
use crate::{Argument, Element, Error};

/// A weight as a plan's kernels want it, made by [`Plan::pack_weight`] and used by [`Plan::forward_packed`].
#[derive(Debug)]
pub struct PackedWeight<const D: usize> {
    memory: DeviceMemory<f32>,
    /// The plan's.
    identity: Arc<()>,
}

impl<const D: usize> PackedWeight<D> {
    pub(super) fn new<T: Element + DeviceCopy>(
        plan: &Plan<D>,
        stream: &Stream,
        weight: &DeviceTensor<T, D>,
    ) -> Result<Self, Error> {
        let buffer = {
            let _entered = plan.device().enter()?;
            plan.device().allocate(plan.kept_weight_len())?
        };
        let memory = DeviceMemory::new(plan.device().clone(), buffer);
        let mut packed = Self { memory, identity: plan.identity().clone() };
        packed.update(plan, stream, weight)?;
        Ok(packed)
    }

    /// Takes over another weight for the same plan, on `stream`: for a training step, which changes it. Work that still
    /// reads the former one must be on the same stream, or waited for.
    ///
    /// # Errors
    /// As [`Plan::forward`]; [`CudaError::ForeignWeight`] if another plan packed this weight.
    pub fn update<T: Element + DeviceCopy>(
        &mut self,
        plan: &Plan<D>,
        stream: &Stream,
        weight: &DeviceTensor<T, D>,
    ) -> Result<(), Error> {
        self.check_plan(plan.identity())?;
        weight.shape().expect(Argument::Weight, plan.problem().weight_shape())?;
        let _entered = plan.enter_for(stream)?;
        let weight_span = Span::new(Argument::Weight, weight.buffer());
        weight_span.check_len(plan.problem().weight_shape().len())?;
        weight_span.check_place(plan.device())?;
        if plan.packed_len() == 0 {
            let target = self.memory.buffer().as_device_ptr().as_raw();
            // SAFETY: both buffers have as many elements, and freeing them waits for the copy, or comes behind it.
            let copied = unsafe {
                sys::cuMemcpyDtoDAsync_v2(target, weight_span.address(), self.device_bytes(), stream.as_inner())
            };
            check("cuMemcpyDtoDAsync", copied)?;
            return Ok(());
        }
        let operands = Operands {
            weight: weight_span.address(),
            packed_weight: self.memory.buffer().as_device_ptr().as_raw(),
            ..Operands::default()
        };
        // SAFETY: the context is current, the stream and the weight belong to it, and this memory is as large as the
        // packed weight.
        unsafe { plan.pack(stream.as_inner(), &operands)? };
        Ok(())
    }

    /// The device memory that it takes, in bytes.
    pub fn device_bytes(&self) -> usize {
        self.memory.buffer().len() * size_of::<f32>()
    }

    /// Where it lies, for the plan that made it.
    pub(super) fn address_for(&self, plan: &Arc<()>) -> Result<u64, CudaError> {
        self.check_plan(plan)?;
        Ok(self.memory.buffer().as_device_ptr().as_raw())
    }

    /// As an operand, for the plan that made it.
    pub(super) fn span_for(&self, plan: &Arc<()>) -> Result<Span, CudaError> {
        self.check_plan(plan)?;
        Ok(Span::new(Argument::Weight, self.memory.buffer()))
    }

    fn check_plan(&self, plan: &Arc<()>) -> Result<(), CudaError> {
        if Arc::ptr_eq(&self.identity, plan) { Ok(()) } else { Err(CudaError::ForeignWeight) }
    }
}
