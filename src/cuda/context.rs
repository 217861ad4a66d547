//! CUDA contexts: which one a device lives in, and how calls enter and leave it.

use std::ptr;

use cust::sys::{self, CUstreamCaptureMode as CaptureMode};

use super::error::{CudaError, check};

/// A context that a [`Device`](super::Device) works in.
#[derive(Debug)]
pub(super) enum Context {
    /// The primary context, kept alive by this handle.
    Primary(cust::context::Context),
    /// Somebody else's context, who keeps it alive.
    Borrowed(sys::CUcontext),
}

// SAFETY: a context handle may be used from any thread; that is what making it current per call is for.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises what needs it.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn raw(&self) -> sys::CUcontext {
        match self {
            Self::Primary(context) => context.as_raw(),
            Self::Borrowed(raw) => *raw,
        }
    }

    /// Makes the context current until the guard is dropped, which restores what was current before.
    pub(super) fn enter(&self) -> Result<Entered, CudaError> {
        let pushed = current()? != self.raw();
        if pushed {
            // SAFETY: the context is alive: kept so by the handle, or by the promise of whoever lent it.
            check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.raw()) })?;
        }
        Ok(Entered { pushed })
    }

    /// As [`enter`](Self::enter), to free or unload what is in the context: no concern of graphs that others capture.
    pub(super) fn enter_to_free(&self) -> Result<Freeing, CudaError> {
        let entered = self.enter()?;
        Ok(Freeing { _beside: BesideCaptures::begin(), _entered: entered })
    }

    /// As [`enter_to_free`](Self::enter_to_free), when no kernel runs any more. Where there is no waiting for them, what
    /// is loaded has to stay.
    pub(super) fn enter_to_unload(&self) -> Result<Freeing, CudaError> {
        let freeing = self.enter_to_free()?;
        wait()?;
        Ok(freeing)
    }
}

/// Proof that a context is current on this thread, and that it may free what is in it.
#[derive(Debug)]
#[must_use = "the context is left when this is dropped"]
pub(super) struct Freeing {
    // Dropped in this order.
    _beside: BesideCaptures,
    _entered: Entered,
}

/// Proof that a context is current on this thread.
#[derive(Debug)]
#[must_use = "the context is left when this is dropped"]
pub(super) struct Entered {
    pushed: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: undoes the push of `enter`. An error here is the sticky error of an earlier launch, which the
            // next call reports.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
        }
    }
}

/// Waits for all that runs in the current context, as one does who frees memory. `cuCtxSynchronize` would spoil graphs
/// that are being captured meanwhile, on whatever thread.
fn wait() -> Result<(), CudaError> {
    let mut address = 0;
    // SAFETY: writes one address.
    check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, 1) })?;
    // SAFETY: this memory is nobody else's.
    check("cuMemFree", unsafe { sys::cuMemFree_v2(address) })
}

/// What this thread allocates, frees, loads and unloads is no concern of graphs that others capture, until this is
/// dropped. By default nobody may do such things while anyone captures: the capture would fail, and memory be lost.
#[derive(Debug)]
#[must_use = "the former mode is back when this is dropped"]
pub(super) struct BesideCaptures {
    former: CaptureMode,
}

impl BesideCaptures {
    pub(super) fn begin() -> Self {
        Self { former: exchange(CaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for BesideCaptures {
    fn drop(&mut self) {
        exchange(self.former);
    }
}

/// Sets the mode of this thread: the former one. If it fails, the thread is as it was.
fn exchange(mut mode: CaptureMode) -> CaptureMode {
    // SAFETY: reads a mode and writes the former one.
    let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    mode
}

/// The context that is current on this thread, if there is one that can still be used. The driver leaves one current
/// that has been destroyed, as a primary context is when nobody holds it any longer.
pub(super) fn current_alive() -> Result<Option<sys::CUcontext>, CudaError> {
    let context = current()?;
    let mut version = 0;
    // SAFETY: writes one integer. The driver tells contexts that it does not know, or no longer.
    let alive = !context.is_null() && unsafe { sys::cuCtxGetApiVersion(context, &mut version) } as u32 == 0;
    Ok(alive.then_some(context))
}

/// The context that is current on this thread; null if there is none.
fn current() -> Result<sys::CUcontext, CudaError> {
    let mut context = ptr::null_mut();
    // SAFETY: writes one handle.
    check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut context) })?;
    Ok(context)
}
