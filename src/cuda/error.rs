//! What can go wrong on the way to the GPU, and on it.

use std::{
    ffi::{CStr, c_char},
    fmt, ptr,
};

use cust::sys;
use thiserror::Error;

use super::Algorithm;
use crate::Argument;

/// A result code of the CUDA driver. Prints its name and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver describes codes that are newer than this library, so ask it by number.
        type Describe = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
        let describe = |symbol: &CStr| {
            let driver = cuda_loader::driver().ok()?;
            // SAFETY: both functions have this type in cuda.h; the code is passed as the integer it is there.
            let function: Describe = unsafe { driver.symbol(symbol) }.ok()?;
            let mut text = ptr::null();
            // SAFETY: the driver stores a pointer to a static string, or null.
            let known = unsafe { function(self.0, &mut text) } == 0 && !text.is_null();
            // SAFETY: a static, null-terminated string, as just checked.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        match (describe(c"cuGetErrorName"), describe(c"cuGetErrorString")) {
            (Some(name), Some(meaning)) => write!(f, "{name} ({}): {meaning}", self.0),
            _ => write!(f, "CUDA error {}", self.0),
        }
    }
}

impl From<cust::error::CudaError> for Status {
    fn from(error: cust::error::CudaError) -> Self {
        Self(error as u32)
    }
}

/// Why an algorithm cannot solve a problem.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A quantity exceeds what the kernel can count.
    #[error("{what} is {value}, but at most {limit} is supported")]
    TooLarge {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: u128,
        /// The largest value that is supported.
        limit: u128,
    },
    /// It is for other GPUs.
    #[error("it needs a GPU of compute capability 9.0")]
    Hopper,
    /// Input positions do not make patches of the output of their own, or rows are not aligned.
    #[error(
        "it needs kernels that reach no further than their strides, which are powers of two, outputs as many times as \
         large as the input, and aligned rows"
    )]
    NoPatches,
    /// No way to cut the problem into tiles fits in shared memory.
    #[error("no tile of it fits in shared memory")]
    NoTile,
}

/// Everything that the CUDA backend refuses or reports.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No CUDA driver is installed, or it cannot be loaded.
    #[error("{0}")]
    NoDriver(#[from] cuda_loader::NoDriver),
    /// There is a driver, but no such device.
    #[error("there is no CUDA device {ordinal}: the driver sees {count}")]
    NoDevice {
        /// The device asked for.
        ordinal: u32,
        /// Number of devices that the driver sees.
        count: u32,
    },
    /// The thread has no current context to take over.
    #[error("this thread has no current CUDA context")]
    NoContext,
    /// The device is older than the oldest one that the kernels were compiled for.
    #[error("{name} has compute capability {}.{}, but at least {}.{} is needed", capability.0, capability.1, needed.0, needed.1)]
    DeviceTooOld {
        /// The device's name.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// The lowest compute capability that is supported.
        needed: (u32, u32),
    },
    /// There are no kernels for the architecture that was asked for.
    #[error("there are no kernels for {architecture:?}, only for {}", embedded.join(", "))]
    NoSuchArchitecture {
        /// What was asked for.
        architecture: String,
        /// The architectures that the kernels were compiled for.
        embedded: Vec<&'static str>,
    },
    /// The device cannot run the kernels of the architecture that was asked for.
    #[error("{name} has compute capability {}.{}, which cannot run kernels for {architecture}", capability.0, capability.1)]
    WrongArchitecture {
        /// The device's name.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// What was asked for, such as `sm_90a`.
        architecture: &'static str,
    },
    /// The driver does not accept the kernels' PTX.
    #[error(
        "the CUDA driver (which supports CUDA {}.{}) refuses the kernels of {target}, which need PTX {ptx_version}: {status}\n{log}",
        driver.0, driver.1
    )]
    PtxRefused {
        /// What the kernels were compiled for, such as `sm_80`.
        target: String,
        /// The `.version` of the PTX.
        ptx_version: String,
        /// The newest CUDA version that the driver supports.
        driver: (u32, u32),
        /// The driver's code.
        status: Status,
        /// The log of the driver's compiler; may be empty.
        log: String,
    },
    /// The kernels of this architecture do not include one that a plan needs.
    #[error("there is no kernel `{name}` for {architecture}")]
    NoKernel {
        /// The kernel.
        name: &'static str,
        /// The architecture whose kernels the device runs, such as `sm_80`.
        architecture: &'static str,
    },
    /// There is not enough device memory.
    #[error("no device memory for {bytes} bytes")]
    OutOfMemory {
        /// Size of the allocation that failed.
        bytes: usize,
    },
    /// The driver reports an error: of this call, or of a kernel launched before it. After an error such as an illegal
    /// address, a context is unusable and every further call reports the same.
    #[error("{call}: {status}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// What it returned.
        status: Status,
    },
    /// The algorithm cannot solve this problem.
    #[error("the {algorithm} algorithm does not support this problem: {reason}")]
    Unsupported {
        /// The algorithm.
        algorithm: Algorithm,
        /// Its limit.
        reason: Unsupported,
    },
    /// A buffer has too few elements.
    #[error("{argument} has {value} elements, but {needed} are needed")]
    TooShort {
        /// The buffer.
        argument: Argument,
        /// Its number of elements.
        value: usize,
        /// The number needed.
        needed: usize,
    },
    /// The output shares memory with an operand.
    #[error("output and {with} overlap in memory")]
    Overlap {
        /// The operand.
        with: Argument,
    },
    /// A buffer is not memory that the driver knows, for example because it was freed.
    #[error("{argument} is not memory of a CUDA device: {status}")]
    NotDeviceMemory {
        /// The buffer.
        argument: Argument,
        /// What the driver said of its address.
        status: Status,
    },
    /// A buffer lies on another device than the plan.
    #[error("{argument} is on CUDA device {value}, but the plan is on device {expected}")]
    WrongDevice {
        /// The buffer.
        argument: Argument,
        /// Its device.
        value: i32,
        /// The plan's device.
        expected: i32,
    },
    /// A buffer lies in the memory of another context than the plan.
    #[error("{argument} is in the memory of another CUDA context than the plan")]
    WrongContext {
        /// The buffer.
        argument: Argument,
    },
    /// The packed weight was made by another plan.
    #[error("the packed weight was packed by another plan")]
    ForeignWeight,
    /// The call uses the plan's workspace, and so cannot become part of a graph. Nothing was enqueued, and the capture
    /// goes on.
    #[error("the stream is being captured: use `forward_packed`, `forward` packs the weight into the plan's workspace")]
    Captured,
    /// The stream belongs to another context than the plan.
    #[error("the stream belongs to another CUDA context than the plan")]
    WrongStream,
}

impl CudaError {
    /// Whether there was no memory, for a tensor or for something that the driver needed.
    pub(super) fn is_out_of_memory(&self) -> bool {
        const OUT_OF_MEMORY: Status = Status(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32);
        matches!(self, Self::OutOfMemory { .. } | Self::Driver { status: OUT_OF_MEMORY, .. })
    }
}

/// Turns a driver call's result into an error that names the call.
pub(super) fn check(call: &'static str, result: sys::CUresult) -> Result<(), CudaError> {
    match result as u32 {
        0 => Ok(()),
        code => Err(CudaError::Driver { call, status: Status(code) }),
    }
}
