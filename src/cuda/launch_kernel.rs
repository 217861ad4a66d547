//! The kernel of a launch: a general one, until the driver has compiled one for the plan.

use std::{
    ffi::c_void,
    sync::Arc,
    time::{Duration, Instant},
};

use cuda_loader::Grid;
use rayon::prelude::*;

use super::{device::Device, error::CudaError, module::Kernel, recipe::Launch, specialised::Specialised};

/// A kernel, and the one that takes its place when it has been compiled.
#[derive(Debug)]
pub(super) struct LaunchKernel {
    /// The one that is compiled for the plan, or a general one, until there is that one.
    kernel: Kernel,
    specialised: Option<Arc<Specialised>>,
}

impl LaunchKernel {
    /// Those of some launches, ready for them. What is compiled for their values is waited for with some patience;
    /// there is nothing such without.
    pub(super) fn all(
        device: &Device,
        launches: &[Launch],
        patience: Option<Duration>,
    ) -> Result<Vec<Self>, CudaError> {
        let begun = Instant::now();
        // All compilations begin before one is waited for.
        let specialise = |launch: &Launch| match launch.constants().filter(|_| patience.is_some()) {
            Some(values) => device.specialised_kernel(launch, &values).map(Some),
            None => Ok(None),
        };
        let specialised = launches.iter().map(specialise).collect::<Result<Vec<_>, _>>()?;
        let ready = |(launch, specialised)| {
            let patience = patience.unwrap_or_default().saturating_sub(begun.elapsed());
            Self::new(device, launch, specialised, patience)
        };
        launches.par_iter().zip(specialised).map(ready).collect()
    }

    fn new(
        device: &Device,
        launch: &Launch,
        specialised: Option<Arc<Specialised>>,
        patience: Duration,
    ) -> Result<Self, CudaError> {
        let general = || -> Result<Kernel, CudaError> {
            let kernel = device.kernel(launch.kernel)?;
            let _entered = device.enter()?;
            kernel.allow_shared_bytes(launch.shared_bytes)?;
            Ok(kernel)
        };
        if let Some(specialised) = specialised {
            let patience = if device.is_at_hand(launch.kernel) { patience } else { Duration::MAX };
            match specialised.wait(patience) {
                None => return Ok(Self { kernel: general()?, specialised: Some(specialised) }),
                Some(Ok(kernel)) => return Ok(Self { kernel, specialised: Some(specialised) }),
                // Without its library for that, the driver cannot compile; there may be machine code.
                Some(Err(CudaError::PtxRefused { .. })) => {}
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(Self { kernel: general()?, specialised: None })
    }

    /// Launches the kernel that there is now. One that is compiled for the plan does not get what it was compiled for.
    ///
    /// # Safety
    /// As [`Kernel::launch`], with all arguments of the general kernel.
    pub(super) unsafe fn launch(&self, grid: Grid, arguments: &mut [*mut c_void]) -> Result<(), CudaError> {
        let specialised = self.specialised.as_ref().and_then(|own| Some((own.kernel()?, own.constants())));
        let (kernel, constants) = specialised.unwrap_or((self.kernel, 0));
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(grid, &mut arguments[constants..]) }
    }

    /// Whether there is, or is going to be, a kernel that is compiled for the plan.
    pub(super) fn is_to_be_specialised(&self) -> bool {
        self.specialised.is_some()
    }

    /// Whether that is in use.
    pub(super) fn is_specialised(&self) -> bool {
        self.specialised.as_ref().is_some_and(|specialised| specialised.kernel().is_some())
    }

    /// Whether that takes in what only kernels for one layer do: see [`Specialised::goes_on`].
    pub(super) fn is_specialised_to_go_on(&self) -> bool {
        self.specialised.as_ref().is_some_and(|specialised| specialised.goes_on())
    }

    /// Waits for it, if there is going to be one.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        let outcome = self.specialised.as_ref().and_then(|specialised| specialised.wait(Duration::MAX));
        outcome.map_or(Ok(()), |kernel| kernel.map(drop))
    }
}
