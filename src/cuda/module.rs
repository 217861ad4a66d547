//! The embedded PTX: which one a device gets, and how it is loaded.

use std::{
    ffi::{CString, c_uint, c_void},
    ptr,
};

use cust::sys;

use super::{
    architecture::Architecture,
    error::{CudaError, Status, check},
};

/// The kernels, compiled for one architecture.
struct Ptx {
    /// What the compiler calls the architecture, such as `sm_80`.
    name: &'static str,
    text: &'static str,
}

/// Oldest architecture first.
static PTX: &[Ptx] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

/// The kernels, loaded into a context.
#[derive(Debug)]
pub(super) struct Module {
    raw: sys::CUmodule,
}

// SAFETY: a module handle may be used from any thread whose current context is the module's.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel function. Valid as long as its module, which whoever holds a kernel keeps alive through its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    raw: sys::CUfunction,
}

// SAFETY: as for `Module`.
unsafe impl Send for Kernel {}
// SAFETY: as for `Module`.
unsafe impl Sync for Kernel {}

impl Ptx {
    fn architecture(&self) -> Architecture {
        Architecture::parse(self.name).expect("a test reads every name in the table")
    }
}

impl Module {
    /// Loads the PTX of the newest generation that the device has, into the current context.
    pub(super) fn load(device_name: &str, capability: (u32, u32)) -> Result<Self, CudaError> {
        let ptx = choose(capability).ok_or_else(|| CudaError::DeviceTooOld {
            name: device_name.to_owned(),
            capability,
            needed: oldest(),
        })?;
        Self::load_ptx(ptx)
    }

    fn load_ptx(ptx: &Ptx) -> Result<Self, CudaError> {
        const LOG_BYTES: usize = 16 << 10;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options =
            [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver takes integers in the place of pointers here.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
        let text = CString::new(ptx.text).expect("the compiler's PTX is text");
        let mut raw = ptr::null_mut();
        // SAFETY: a null-terminated text, and two options with a value each; the log is as long as its option says.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &mut raw,
                text.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match result as u32 {
            0 => Ok(Self { raw }),
            code => Err(explain(ptx, Status(code), &log)),
        }
    }

    /// Unloads the module, whose context must be current. Kernels of it must not be used afterwards.
    pub(super) fn unload(&mut self) {
        // SAFETY: called once, by the drop of the device that owns it. An error here is an earlier launch's.
        let _ = unsafe { sys::cuModuleUnload(self.raw) };
    }

    pub(super) fn kernel(&self, name: &'static str) -> Result<Kernel, CudaError> {
        let symbol = CString::new(name).expect("kernel names are identifiers");
        let mut raw = ptr::null_mut();
        // SAFETY: the module is loaded, the name null-terminated.
        check("cuModuleGetFunction", unsafe { sys::cuModuleGetFunction(&mut raw, self.raw, symbol.as_ptr()) })?;
        Ok(Kernel { raw })
    }
}

impl Kernel {
    /// Launches a one-dimensional grid of `blocks` blocks of `threads` threads.
    ///
    /// # Safety
    /// The module's context must be current and the stream belong to it. `arguments` must point to one value per parameter of the
    /// kernel, of its type, and the kernel's own safety conditions must hold until it has run.
    pub(super) unsafe fn launch<const N: usize>(
        &self,
        stream: sys::CUstream,
        blocks: u32,
        threads: u32,
        mut arguments: [*mut c_void; N],
    ) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        let result = unsafe {
            sys::cuLaunchKernel(
                self.raw,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", result)
    }
}

/// The PTX of the newest architecture that a device of this compute capability runs.
fn choose(capability: (u32, u32)) -> Option<&'static Ptx> {
    let candidates = PTX.iter().filter(|ptx| ptx.architecture().runs_on(capability));
    candidates.max_by_key(|ptx| ptx.architecture())
}

fn oldest() -> (u32, u32) {
    PTX.iter().map(|ptx| ptx.architecture().capability()).min().unwrap_or_default()
}

fn explain(ptx: &Ptx, status: Status, log: &[u8]) -> CudaError {
    let mut version = 0;
    // SAFETY: writes one integer. Without an answer the error says version 0.0, next to what the driver said.
    let _ = unsafe { sys::cuDriverGetVersion(&mut version) };
    let version = version as u32;
    let ptx_version = ptx.text.lines().find_map(|line| line.trim().strip_prefix(".version "));
    CudaError::PtxRefused {
        target: ptx.name.to_owned(),
        ptx_version: ptx_version.unwrap_or("unknown").to_owned(),
        driver: (version / 1000, version % 1000 / 10),
        status,
        log: String::from_utf8_lossy(log).trim_end_matches('\0').trim_end().to_owned(),
    }
}

#[cfg(test)]
#[path = "../../tests/report/mod.rs"]
mod report;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Device;

    const FROM_THE_FUTURE: Ptx = Ptx { name: "sm_80", text: ".version 99.7\n.target sm_80\n.address_size 64\n" };

    #[test]
    fn a_device_gets_the_newest_kernels_that_it_can_run() {
        let chosen = |major, minor| choose((major, minor)).map(|ptx| ptx.name);
        assert_eq!([chosen(7, 0), chosen(7, 5)], [Some("sm_70"); 2]);
        assert_eq!([chosen(8, 0), chosen(8, 9)], [Some("sm_80"); 2]);
        assert_eq!(chosen(9, 0), Some("sm_90a"));
        assert_eq!([chosen(10, 0), chosen(12, 0)], [Some("sm_80"); 2], "Hopper's own instructions end with it");
        assert_eq!(chosen(99, 9), Some("sm_80"), "an unknown newer device runs the newest kernels that it can");
        assert_eq!(chosen(6, 1), None);
    }

    #[test]
    fn a_device_before_all_kernels_is_refused_by_name() {
        let refusal = Module::load("GeForce GTX 1080", (6, 1)).unwrap_err();
        assert_eq!(refusal.to_string(), "GeForce GTX 1080 has compute capability 6.1, but at least 7.0 is needed");
    }

    #[test]
    fn refused_ptx_is_told_with_its_version_and_the_log() {
        let refusal = explain(&FROM_THE_FUTURE, Status(222), b"ptxas application ptx input, line 1\n\0\0\0");
        let CudaError::PtxRefused { target, ptx_version, status, log, .. } = refusal else { panic!("{refusal}") };
        assert_eq!((target.as_str(), ptx_version.as_str(), status), ("sm_80", "99.7", Status(222)));
        assert_eq!(log, "ptxas application ptx input, line 1");
    }

    #[test]
    fn the_driver_refuses_ptx_that_is_too_new_and_says_why() {
        let device = match Device::new(0) {
            Ok(device) => device,
            Err(CudaError::NoDriver(_) | CudaError::NoDevice { .. }) if !report::machine_has_gpu() => {
                return report::say("cuda the_driver_refuses_ptx_that_is_too_new_and_says_why: skipped: no GPU");
            }
            Err(reason) => panic!("this machine has a GPU, but: {reason}"),
        };
        let _entered = device.enter().unwrap();
        let refusal = Module::load_ptx(&FROM_THE_FUTURE).unwrap_err();
        report::say(&refusal.to_string());
        let CudaError::PtxRefused { ptx_version, driver, status, log, .. } = refusal else { panic!("{refusal}") };
        assert_eq!(ptx_version, "99.7");
        assert!(driver >= (11, 0) && status != Status(0));
        assert!(!log.is_empty(), "the driver's compiler says what it does not like");
    }
}
