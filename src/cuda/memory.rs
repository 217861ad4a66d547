//! Device memory that is freed in the context it belongs to.

use std::{mem::ManuallyDrop, ptr};

use cust::memory::{DeviceBuffer, DeviceCopy};

use super::device::Device;

/// A `cust` buffer that keeps its device alive. `cust` alone frees in whatever context is current; on a thread that has
/// none, the memory would be lost.
#[derive(Debug)]
pub(super) struct DeviceMemory<T: DeviceCopy> {
    device: Device,
    buffer: ManuallyDrop<DeviceBuffer<T>>,
}

impl<T: DeviceCopy> DeviceMemory<T> {
    pub(super) fn new(device: Device, buffer: DeviceBuffer<T>) -> Self {
        Self { device, buffer: ManuallyDrop::new(buffer) }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn buffer(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }

    pub(super) fn buffer_mut(&mut self) -> &mut DeviceBuffer<T> {
        &mut self.buffer
    }

    pub(super) fn into_buffer(self) -> DeviceBuffer<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so its fields are taken apart only here, and not used afterwards.
        unsafe {
            ptr::drop_in_place(&mut this.device);
            ManuallyDrop::take(&mut this.buffer)
        }
    }
}

impl<T: DeviceCopy> Drop for DeviceMemory<T> {
    fn drop(&mut self) {
        // A context that cannot be entered is gone or broken, and its memory with it.
        if let Ok(_entered) = self.device.enter_to_free() {
            // SAFETY: dropped once, here; nothing uses the buffer afterwards.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}
