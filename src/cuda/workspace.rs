//! Memory of a plan that each forward call fills and reads, and so only one at a time.

use std::sync::{Mutex, PoisonError};

use cust::{memory::DeviceBuffer, sys};

use super::{
    device::Device,
    error::{CudaError, check},
    memory::DeviceMemory,
};

/// Device memory that calls on different streams use in turn: each waits, on the GPU, for the one before.
#[derive(Debug)]
pub(super) struct Workspace {
    memory: DeviceMemory<f32>,
    /// What the last user has enqueued.
    last_use: Event,
    /// Held while a user enqueues its work.
    turn: Mutex<()>,
}

/// An event for order, not for time.
#[derive(Debug)]
struct Event {
    raw: sys::CUevent,
    device: Device,
}

// SAFETY: the driver's events may be used from any thread; each use enters their context.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Workspace {
    pub(super) fn new(device: &Device, memory: DeviceBuffer<f32>) -> Result<Self, CudaError> {
        let memory = DeviceMemory::new(device.clone(), memory);
        Ok(Self { memory, last_use: Event::new(device)?, turn: Mutex::new(()) })
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.buffer().len() * size_of::<f32>()
    }

    /// Enqueues work on `stream` that uses the memory at the address that `enqueue` gets.
    ///
    /// # Errors
    /// [`CudaError::Captured`] if a graph is being captured from the stream: the graph would run without waiting for its turn.
    ///
    /// # Safety
    /// The device's context is current, and the stream belongs to it.
    pub(super) unsafe fn in_turn(
        &self,
        stream: sys::CUstream,
        enqueue: impl FnOnce(u64) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let mut capture = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller's stream; writes one value.
        check("cuStreamIsCapturing", unsafe { sys::cuStreamIsCapturing(stream, &mut capture) })?;
        if capture != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(CudaError::Captured);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the event lives as long as the workspace; the caller vouches for the stream. An event that was never recorded
        // holds nobody up.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, self.last_use.raw, 0) })?;
        let enqueued = enqueue(self.memory.buffer().as_device_ptr().as_raw());
        // SAFETY: as above. Recorded after a failure too: some of the work may be on its way.
        let recorded = check("cuEventRecord", unsafe { sys::cuEventRecord(self.last_use.raw, stream) });
        enqueued.and(recorded)
    }
}

impl Event {
    fn new(device: &Device) -> Result<Self, CudaError> {
        let _entered = device.enter()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current; writes one handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        Ok(Self { raw, device: device.clone() })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: dropped once; the driver keeps the event until work that waits for it is done. An error here is an earlier
            // launch's.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
