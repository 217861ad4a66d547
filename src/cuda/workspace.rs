//! Memory of a plan that forward calls fill and read, and so only one at a time; or memory of a graph.

use std::sync::{Mutex, PoisonError};

use cust::sys;

use super::{
    device::Device,
    error::{CudaError, check},
    memory::DeviceMemory,
    recipe::ALIGN,
};

/// Device memory that calls on different streams use in turn: each waits, on the GPU, for the one before.
#[derive(Debug)]
pub(super) struct Workspace {
    memory: DeviceMemory<f32>,
    /// Where that begins which a call fills and reads, in words.
    scratch_start: usize,
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
    /// Room for a packed weight of so many words, and for so many that a call fills and reads.
    pub(super) fn new(device: &Device, weight: usize, scratch: usize) -> Result<Self, CudaError> {
        let scratch_start = weight.next_multiple_of(ALIGN);
        let memory = {
            let _entered = device.enter()?;
            device.allocate(if scratch > 0 { scratch_start + scratch } else { weight })?
        };
        let memory = DeviceMemory::new(device.clone(), memory);
        Ok(Self { memory, scratch_start, last_use: Event::new(device)?, turn: Mutex::new(()) })
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.buffer().len() * size_of::<f32>()
    }

    /// Enqueues work on `stream` that uses the memory at the addresses that `enqueue` gets: of the packed weight, and
    /// of what a call fills and reads.
    ///
    /// # Safety
    /// The device's context is current, and the stream belongs to it, from which no graph is being captured: that would
    /// run without waiting for its turn.
    pub(super) unsafe fn in_turn(
        &self,
        stream: sys::CUstream,
        enqueue: impl FnOnce(u64, u64) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the event lives as long as the workspace; the caller vouches for the stream. An event that was never
        // recorded holds nobody up.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, self.last_use.raw, 0) })?;
        let weight = self.memory.buffer().as_device_ptr().as_raw();
        let enqueued = enqueue(weight, weight + (self.scratch_start * size_of::<f32>()) as u64);
        // SAFETY: as above. Recorded after a failure too: some of the work may be on its way.
        let recorded = check("cuEventRecord", unsafe { sys::cuEventRecord(self.last_use.raw, stream) });
        enqueued.and(recorded)
    }
}

/// Whether a graph is being captured from a stream.
///
/// # Safety
/// The stream's context is current.
pub(super) unsafe fn is_captured(stream: sys::CUstream) -> Result<bool, CudaError> {
    let mut capture = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the caller's stream; writes one value.
    check("cuStreamIsCapturing", unsafe { sys::cuStreamIsCapturing(stream, &mut capture) })?;
    Ok(capture != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Captures work from `stream` that uses so many words of memory at the address that `enqueue` gets. The graph has that
/// memory as long as it runs: nothing else uses it, however many graphs there are.
///
/// # Safety
/// As [`is_captured`], and the stream is.
pub(super) unsafe fn with_memory_of_graph(
    stream: sys::CUstream,
    words: usize,
    enqueue: impl FnOnce(u64) -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    let mut address = 0;
    // SAFETY: writes one address; while a stream is captured this is a node of the graph, as is that which frees the
    // memory.
    check("cuMemAllocAsync", unsafe { sys::cuMemAllocAsync(&mut address, words * size_of::<f32>(), stream) })?;
    let enqueued = enqueue(address);
    // SAFETY: as above, once; also after a failure, or the graph would keep it.
    let freed = check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(address, stream) });
    enqueued.and(freed)
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
        if let Ok(_entered) = self.device.enter_to_free() {
            // SAFETY: dropped once; the driver keeps the event until work that waits for it is done. An error here is
            // an earlier launch's.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
