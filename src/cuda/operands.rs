//! The buffers of one forward call, and the checks that they pass before a launch.

use std::{ffi::c_void, ops::Range};

use cust::{
    memory::{DeviceCopy, DeviceSlice},
    sys,
};

use super::{
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

    /// Asks the driver on which device the buffer lies. An empty buffer lies nowhere, and is not asked about.
    pub(super) fn check_device(&self, expected: i32) -> Result<(), CudaError> {
        if self.elements == 0 {
            return Ok(());
        }
        let mut value = 0i32;
        // SAFETY: this attribute is a 32-bit integer, which the driver writes; any address may be asked about.
        let result = unsafe {
            sys::cuPointerGetAttribute(
                (&raw mut value).cast::<c_void>(),
                sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                self.address,
            )
        };
        match result as u32 {
            0 if value == expected => Ok(()),
            0 => Err(CudaError::WrongDevice { argument: self.argument, value, expected }),
            code => Err(CudaError::NotDeviceMemory { argument: self.argument, status: Status(code) }),
        }
    }
}

/// Checks lengths, overlap and device of the four buffers. The weight has `weight_len` elements: a packed one has more
/// or fewer than the problem's.
pub(super) fn checked<const D: usize>(
    problem: &Problem<D>,
    weight_len: usize,
    device: i32,
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
        operand.check_device(device)?;
    }
    output.check_device(device)?;
    Ok(Operands {
        input: input.address,
        weight: weight.address,
        bias: bias.map_or(0, |bias| bias.address),
        output: output.address,
        ..Operands::default()
    })
}
