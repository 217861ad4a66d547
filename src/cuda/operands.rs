//! The buffers of one forward call, and the checks that they pass before a launch.

use std::{ffi::c_void, ops::Range, ptr};

use cust::{
    memory::{DeviceCopy, DeviceSlice},
    sys::{self, CUpointer_attribute as PointerAttribute},
};

use super::{
    device::Device,
    error::{CudaError, Status},
    recipe::Operands,
};
use crate::{Argument, Problem};

/// A buffer as it was handed over: whose it is, where, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    argument: Argument,
    address: u64,
    elements: usize,
    element_bytes: usize,
}

impl Span {
    pub(super) fn new<T: DeviceCopy>(argument: Argument, slice: &DeviceSlice<T>) -> Self {
        Self { argument, address: slice.as_device_ptr().as_raw(), elements: slice.len(), element_bytes: size_of::<T>() }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> Range<u64> {
        self.address..self.address.saturating_add((self.elements * self.element_bytes) as u64)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        a.start < b.end && b.start < a.end
    }

    pub(super) fn check_len(&self, needed: usize) -> Result<(), CudaError> {
        if self.elements < needed {
            return Err(CudaError::TooShort { argument: self.argument, value: self.elements, needed });
        }
        Ok(())
    }

    /// Asks the driver on which device the buffer lies, and in which context. An empty buffer lies nowhere, and is not
    /// asked about.
    pub(super) fn check_place(&self, device: &Device) -> Result<(), CudaError> {
        if self.elements == 0 {
            return Ok(());
        }
        let (argument, expected) = (self.argument, device.ordinal());
        let mut value = 0i32;
        // SAFETY: this attribute is a 32-bit integer.
        match unsafe { self.ask(PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (&raw mut value).cast()) } {
            0 if value == expected => {}
            0 => return Err(CudaError::WrongDevice { argument, value, expected }),
            code => return Err(CudaError::NotDeviceMemory { argument, status: Status(code) }),
        }
        let mut context: sys::CUcontext = ptr::null_mut();
        // SAFETY: this attribute is a handle. Memory of no context, such as that of a pool, has none.
        let _ = unsafe { self.ask(PointerAttribute::CU_POINTER_ATTRIBUTE_CONTEXT, (&raw mut context).cast()) };
        if context.is_null() || device.has_context(context) {
            Ok(())
        } else {
            Err(CudaError::WrongContext { argument })
        }
    }

    /// Has the driver write an attribute of the buffer's address: the status.
    ///
    /// # Safety
    /// `value` points to a value of the attribute's type.
    unsafe fn ask(&self, attribute: PointerAttribute, value: *mut c_void) -> u32 {
        // SAFETY: the caller's promise; any address may be asked about.
        unsafe { sys::cuPointerGetAttribute(value, attribute, self.address) as u32 }
    }
}

/// Checks lengths, overlap and place of the four buffers. The weight has `weight_len` elements: a packed one has more
/// or fewer than the problem's.
pub(super) fn checked<const D: usize>(
    problem: &Problem<D>,
    weight_len: usize,
    device: &Device,
    [input, weight, output]: [Span; 3],
    bias: Option<Span>,
) -> Result<Operands, CudaError> {
    input.check_len(problem.input_shape().len())?;
    weight.check_len(weight_len)?;
    output.check_len(problem.output_shape().len())?;
    if let Some(bias) = &bias {
        bias.check_len(problem.out_channels())?;
    }
    for operand in [Some(input), Some(weight), bias].into_iter().flatten() {
        if operand.overlaps(&output) {
            return Err(CudaError::Overlap { with: operand.argument });
        }
        operand.check_place(device)?;
    }
    output.check_place(device)?;
    Ok(Operands {
        input: input.address,
        weight: weight.address,
        bias: bias.map_or(0, |bias| bias.address),
        output: output.address,
        ..Operands::default()
    })
}
