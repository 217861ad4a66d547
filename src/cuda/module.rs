//! Kernels in a context: each is loaded when it is first asked for, and launched as often as wanted.
//!
//! To load a kernel is to have the driver compile it, which takes a moment; nobody waits for kernels that he does not
//! use. Drivers of CUDA 12 compile several at a time, and launch others meanwhile. Where there is machine code for the
//! device, and the driver takes it, all kernels are loaded at once, in milliseconds.

use std::{
    ffi::{CStr, CString, c_int, c_uint, c_void},
    ptr,
    sync::{Mutex, PoisonError},
};

use cuda_loader::{Grid, Library};
use cust::sys::{self, CUresult};

use super::{
    embedded::Ptx,
    error::{CudaError, Status, check},
};

/// A small kernel that is there for every architecture.
const PROBE: &str = "fill_bias";

/// What a call that the driver has not says.
const NO_SUCH_CALL: Status = Status(CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND as u32);

/// Threads that its blocks may have.
const PROBE_THREADS: u32 = 256;

/// The limit of a kernel's dynamic shared memory.
const MOST_SHARED_BYTES: sys::CUfunction_attribute =
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

/// The kernels of one architecture in one context, loaded or not.
#[derive(Debug)]
pub(super) struct Modules {
    ptx: &'static Ptx,
    /// All kernels, if the driver takes their machine code. One that is older than the code does not.
    machine_code: Option<Module>,
    /// Otherwise one for each kernel of the PTX, in its order. Whoever loads one holds its lock, so that it is loaded
    /// once.
    loaded: Box<[Mutex<Option<Module>>]>,
}

/// What is loaded into a context: PTX of one kernel, or machine code of all.
#[derive(Debug)]
pub(super) struct Module {
    raw: Raw,
    /// What the driver says about it. How long it keeps the address for that, it does not say.
    _log: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
enum Raw {
    /// Loaded into one context, which the driver locks while it compiles.
    OfContext(sys::CUmodule),
    /// For any context.
    Library(Library),
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

impl Modules {
    /// The machine code that there is, loaded into the current context; otherwise nothing but one small kernel, to find
    /// out whether the driver takes this PTX.
    pub(super) fn new(ptx: &'static Ptx) -> Result<Self, CudaError> {
        Self::with(ptx, ptx.machine_code.and_then(Module::load_machine_code))
    }

    fn with(ptx: &'static Ptx, machine_code: Option<Module>) -> Result<Self, CudaError> {
        let loaded = ptx.kernels.iter().map(|_| Mutex::default()).collect();
        let mut modules = Self { ptx, machine_code, loaded };
        modules.kernel(PROBE).inspect_err(|_| modules.unload())?;
        Ok(modules)
    }

    /// What the kernels were compiled for.
    pub(super) fn architecture(&self) -> &'static str {
        self.ptx.name
    }

    /// Tells the kernels from those of another build.
    pub(super) fn hash(&self) -> &'static str {
        self.ptx.hash
    }

    /// The kernel of that name; loads it, into the current context, unless it has been loaded before.
    pub(super) fn kernel(&self, name: &'static str) -> Result<Kernel, CudaError> {
        let Ptx { name: architecture, kernels, .. } = *self.ptx;
        let index = self.index(name)?;
        if let Some(module) = &self.machine_code {
            return module.kernel(name);
        }
        let mut slot = self.loaded[index].lock().unwrap_or_else(PoisonError::into_inner);
        let module = match &mut *slot {
            Some(module) => module,
            empty => empty.insert(Module::load(architecture, name, kernels[index].1)?),
        };
        module.kernel(name)
    }

    /// Whether the kernel of that name need not be compiled.
    pub(super) fn is_at_hand(&self, name: &'static str) -> bool {
        let is_loaded = |index: usize| self.loaded[index].try_lock().is_ok_and(|slot| slot.is_some());
        self.machine_code.is_some() || self.index(name).is_ok_and(is_loaded)
    }

    /// The number of the kernel of that name.
    fn index(&self, name: &'static str) -> Result<usize, CudaError> {
        let Ptx { name: architecture, kernels, .. } = *self.ptx;
        let index = kernels.iter().position(|&(kernel, _)| kernel == name);
        index.ok_or(CudaError::NoKernel { name, architecture })
    }

    /// The architecture that the kernel of that name was compiled for, its name, and its PTX.
    pub(super) fn ptx(&self, name: &'static str) -> Result<(&'static str, &'static str, &'static str), CudaError> {
        let (name, text) = self.ptx.kernels[self.index(name)?];
        Ok((self.ptx.name, name, text))
    }

    /// Number of kernels whose PTX is loaded.
    #[cfg(test)]
    pub(super) fn loaded(&self) -> usize {
        self.loaded.iter().filter(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).is_some()).count()
    }

    /// Unloads all modules, whose context must be current. Kernels of them must not run, nor be used afterwards.
    pub(super) fn unload(&mut self) {
        if let Some(module) = self.machine_code.take() {
            module.unload();
        }
        for slot in &mut self.loaded {
            if let Some(module) = slot.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
                module.unload();
            }
        }
    }

    /// How many clusters of two, four and eight blocks run at the same time, if each block takes the given shared
    /// memory. A cluster lies within a part of the device, and parts differ, so there is not always one for so many
    /// multiprocessors. The context must be current.
    pub(super) fn most_clusters(&self, shared_bytes: u32) -> Result<[u32; 3], CudaError> {
        let probe = self.kernel(PROBE)?;
        probe.allow_shared_bytes(shared_bytes)?;
        let mut counts = [0; 3];
        for (power, count) in (1..).zip(&mut counts) {
            *count = probe.most_clusters(1 << power, shared_bytes)?;
        }
        Ok(counts)
    }
}

impl Module {
    /// Has the driver compile the PTX of a kernel, that of `architecture`, for the current context.
    pub(super) fn load(architecture: &str, kernel: &str, ptx: &str) -> Result<Self, CudaError> {
        const LOG_BYTES: usize = 16 << 10;
        let mut log = vec![0; LOG_BYTES].into_boxed_slice();
        let text = |text: &str| CString::new(text).expect("names of kernels and the compiler's PTX are text");
        match Raw::compile(&text(ptx), &text(kernel), &mut log) {
            Ok(raw) => Ok(Self { raw, _log: log }),
            Err(CudaError::Driver { status, .. }) if is_about_ptx(status) => {
                Err(explain(architecture, ptx, status, &log))
            }
            Err(error) => Err(error),
        }
    }

    /// Loads machine code into the current context, if the driver takes it. If not, it says why when it gets the PTX.
    fn load_machine_code(code: &[u8]) -> Option<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: machine code as the assembler made it, which says itself how long it is.
        let result = unsafe { sys::cuModuleLoadData(&mut raw, code.as_ptr().cast()) };
        (result as u32 == 0).then_some(Self { raw: Raw::OfContext(raw), _log: Box::default() })
    }

    /// Unloads the module, whose context must be current. Its kernels must not run, nor be used afterwards.
    pub(super) fn unload(self) {
        self.raw.unload();
    }

    /// The kernel of that name, for launches in the current context.
    pub(super) fn kernel(&self, name: &str) -> Result<Kernel, CudaError> {
        let name = CString::new(name).expect("kernel names are identifiers");
        Ok(Kernel { raw: self.raw.function(&name)? })
    }
}

impl Raw {
    /// Has the driver compile the PTX of a kernel, and say in the log what it does not like.
    fn compile(ptx: &CStr, kernel: &CStr, log: &mut [u8]) -> Result<Self, CudaError> {
        match Self::compile_library(ptx, kernel, log) {
            // A driver before CUDA 12.
            Err(CudaError::Driver { status: NO_SUCH_CALL, .. }) => Self::compile_for_context(ptx, log),
            library => library,
        }
    }

    fn compile_library(ptx: &CStr, kernel: &CStr, log: &mut [u8]) -> Result<Self, CudaError> {
        let (options, values) = keep_in(log);
        // SAFETY: the values are what the options ask for.
        let library = unsafe { cuda_loader::load_library(ptx, options, values) };
        let library = Self::Library(library.map_err(failed("cuLibraryLoadData"))?);
        // Not before it is asked for a kernel does the driver say that it did not compile.
        library.function(kernel).inspect_err(|_| library.unload())?;
        Ok(library)
    }

    fn compile_for_context(ptx: &CStr, log: &mut [u8]) -> Result<Self, CudaError> {
        let (mut options, mut values) = keep_in(log);
        let (count, options, values) = (options.len() as c_uint, options.as_mut_ptr(), values.as_mut_ptr());
        let mut module = ptr::null_mut();
        // SAFETY: a null-terminated text, and options with a value each, which is what they ask for.
        let result = unsafe { sys::cuModuleLoadDataEx(&mut module, ptx.as_ptr().cast(), count, options, values) };
        check("cuModuleLoadDataEx", result)?;
        Ok(Self::OfContext(module))
    }

    fn function(self, name: &CStr) -> Result<sys::CUfunction, CudaError> {
        match self {
            Self::OfContext(module) => {
                let mut function = ptr::null_mut();
                // SAFETY: the module is loaded, the name null-terminated.
                let result = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
                check("cuModuleGetFunction", result)?;
                Ok(function)
            }
            Self::Library(library) => {
                // SAFETY: the library is loaded.
                let function = unsafe { cuda_loader::library_function(library, name) };
                function.map_err(failed("cuLibraryGetKernel"))
            }
        }
    }

    fn unload(self) {
        // SAFETY: called once, by what owns it. An error here is an earlier launch's.
        unsafe {
            match self {
                Self::OfContext(module) => drop(sys::cuModuleUnload(module)),
                Self::Library(library) => drop(cuda_loader::unload_library(library)),
            }
        }
    }
}

/// The options of the driver's compiler, and their values, that make it say in a log what it does not like.
fn keep_in(log: &mut [u8]) -> ([sys::CUjit_option; 2], [*mut c_void; 2]) {
    let options = [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes integers in the place of pointers here.
    (options, [log.as_mut_ptr().cast(), log.len() as *mut c_void])
}

/// Names the call that the driver has refused.
fn failed(call: &'static str) -> impl Fn(CUresult) -> CudaError {
    move |code| CudaError::Driver { call, status: Status(code as u32) }
}

impl Kernel {
    /// Lets launches give a block up to `bytes` of dynamic shared memory, and no fewer than before: another plan may
    /// need them. The module's context must be current.
    pub(super) fn allow_shared_bytes(&self, bytes: u32) -> Result<(), CudaError> {
        // Between reading the limit and raising it, nobody else may raise it higher.
        static RAISING: Mutex<()> = Mutex::new(());
        let _alone = RAISING.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= self.allowed_shared_bytes()? {
            return Ok(());
        }
        // SAFETY: the kernel's module is loaded.
        let result = unsafe { sys::cuFuncSetAttribute(self.raw, MOST_SHARED_BYTES, bytes as c_int) };
        check("cuFuncSetAttribute", result)
    }

    /// Bytes of local memory of a thread: registers that were spilled.
    pub(super) fn local_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// How many clusters of so many blocks run at the same time.
    fn most_clusters(&self, cluster: u32, shared_bytes: u32) -> Result<u32, CudaError> {
        let stream = ptr::null_mut();
        let grid = Grid { blocks: [cluster, 1], threads: PROBE_THREADS, shared_bytes, stream, cluster, beside: false };
        let mut count = 0;
        // SAFETY: the kernel's module is loaded.
        let result = unsafe { cuda_loader::most_active_clusters(&mut count, self.raw, grid) };
        check("cuOccupancyMaxActiveClusters", result)?;
        Ok(count as u32)
    }

    /// At first what is left of 48 KiB by the arrays that the kernel itself declares.
    fn allowed_shared_bytes(&self) -> Result<u32, CudaError> {
        self.attribute(MOST_SHARED_BYTES)
    }

    fn attribute(&self, attribute: sys::CUfunction_attribute) -> Result<u32, CudaError> {
        let mut value = 0;
        // SAFETY: the kernel's module is loaded; writes one integer.
        let result = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.raw) };
        check("cuFuncGetAttribute", result)?;
        Ok(value as u32)
    }

    /// Launches a grid. It begins when the one before it has ended if the driver knows nothing else. A block has no
    /// more dynamic shared memory than was allowed.
    ///
    /// # Safety
    /// The module's context must be current and the stream belong to it. `arguments` must point to one value per
    /// parameter of the kernel, of its type, and the kernel's own safety conditions must hold until it has run. Beside
    /// another one, it must not need what that one writes.
    pub(super) unsafe fn launch(&self, grid: Grid, arguments: &mut [*mut c_void]) -> Result<(), CudaError> {
        let Grid { blocks: [x, y], threads, shared_bytes, stream, cluster, beside } = grid;
        let arguments = arguments.as_mut_ptr();
        if beside || cluster > 1 {
            // SAFETY: the caller's promise.
            match unsafe { cuda_loader::launch_grid(self.raw, grid, arguments) } {
                CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND if cluster == 1 => {}
                result => return check("cuLaunchKernelEx", result),
            }
        }
        // SAFETY: the caller's promise.
        let result = unsafe {
            let none = ptr::null_mut();
            sys::cuLaunchKernel(self.raw, x, y, 1, threads, 1, 1, shared_bytes, stream, arguments, none)
        };
        check("cuLaunchKernel", result)
    }
}

/// Whether an error is about the PTX or the driver's compiler, and not about memory, a capture, or a kernel before.
fn is_about_ptx(status: Status) -> bool {
    const ABOUT_PTX: [CUresult; 8] = [
        CUresult::CUDA_ERROR_INVALID_IMAGE,
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUresult::CUDA_ERROR_INVALID_PTX,
        CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED,
        CUresult::CUDA_ERROR_INVALID_SOURCE,
        CUresult::CUDA_ERROR_NOT_FOUND,
    ];
    ABOUT_PTX.iter().any(|&code| status == Status(code as u32))
}

fn explain(architecture: &str, ptx: &str, status: Status, log: &[u8]) -> CudaError {
    let mut version = 0;
    // SAFETY: writes one integer. Without an answer the error says version 0.0, next to what the driver said.
    let _ = unsafe { sys::cuDriverGetVersion(&mut version) };
    let version = version as u32;
    let ptx_version = ptx.lines().find_map(|line| line.trim().strip_prefix(".version "));
    CudaError::PtxRefused {
        target: architecture.to_owned(),
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
pub(super) mod tests {
    use super::*;
    use crate::cuda::{Device, embedded};

    const FROM_THE_FUTURE: &str = ".version 99.7\n.target sm_80\n.address_size 64\n";

    #[test]
    fn refused_ptx_is_told_with_its_version_and_the_log() {
        let refusal = explain("sm_80", FROM_THE_FUTURE, Status(222), b"ptxas application ptx input, line 1\n\0\0\0");
        let CudaError::PtxRefused { target, ptx_version, status, log, .. } = refusal else { panic!("{refusal}") };
        assert_eq!((target.as_str(), ptx_version.as_str(), status), ("sm_80", "99.7", Status(222)));
        assert_eq!(log, "ptxas application ptx input, line 1");
    }

    pub(in super::super) fn device(test: &str) -> Option<Device> {
        match Device::new(0) {
            Ok(device) => Some(device),
            Err(CudaError::NoDriver(_) | CudaError::NoDevice { .. }) if !report::machine_has_gpu() => {
                report::say(&format!("cuda {test}: skipped: no GPU"));
                None
            }
            Err(reason) => panic!("this machine has a GPU, but: {reason}"),
        }
    }

    #[test]
    fn every_architecture_has_the_kernel_that_the_driver_is_tried_with() {
        for capability in [(7, 0), (8, 0), (9, 0)] {
            let ptx = embedded::newest("", capability).unwrap();
            assert!(ptx.kernels.iter().any(|&(name, _)| name == PROBE), "{ptx:?}");
        }
    }

    #[test]
    fn a_kernel_that_is_not_there_is_named() {
        let modules =
            Modules { ptx: embedded::newest("", (7, 0)).unwrap(), machine_code: None, loaded: Box::default() };
        let refusal = modules.kernel("tango").unwrap_err();
        assert_eq!(refusal.to_string(), "there is no kernel `tango` for sm_70");
    }

    #[test]
    fn a_kernel_is_loaded_when_it_is_asked_for_and_once() {
        let Some(device) = device("a_kernel_is_loaded_when_it_is_asked_for_and_once") else { return };
        let _entered = device.enter().unwrap();
        let mut modules = Modules::with(embedded::newest("", device.compute_capability()).unwrap(), None).unwrap();
        assert_eq!(modules.loaded(), 1, "the one that the driver is tried with");
        let ask = || {
            let _entered = device.enter().unwrap();
            modules.kernel("gather").unwrap();
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ask))));
        assert_eq!(modules.loaded(), 2);
        modules.unload();
        assert_eq!(modules.loaded(), 0);
    }

    #[test]
    fn machine_code_has_every_kernel() {
        let Some(device) = device("machine_code_has_every_kernel") else { return };
        let _entered = device.enter().unwrap();
        let ptx = embedded::newest("", device.compute_capability()).unwrap();
        let Some(code) = ptx.machine_code else {
            return report::say("cuda machine_code_has_every_kernel: there is none");
        };
        let Some(module) = Module::load_machine_code(code) else {
            return report::say("cuda machine_code_has_every_kernel: the driver is too old for it");
        };
        for (name, _) in ptx.kernels {
            module.kernel(name).unwrap();
        }
        let mut modules = Modules::with(ptx, Some(module)).unwrap();
        modules.kernel("gather").unwrap();
        assert_eq!(modules.loaded(), 0, "nothing is compiled");
        modules.unload();
    }

    #[test]
    fn what_is_no_machine_code_is_not_taken() {
        let Some(device) = device("what_is_no_machine_code_is_not_taken") else { return };
        let _entered = device.enter().unwrap();
        assert!(Module::load_machine_code(&[0; 4096]).is_none());
    }

    #[test]
    fn a_kernel_keeps_the_most_shared_memory_that_it_was_allowed() {
        let Some(device) = device("a_kernel_keeps_the_most_shared_memory_that_it_was_allowed") else { return };
        let _entered = device.enter().unwrap();
        let kernel = device.kernel("gather").unwrap();
        assert_eq!(kernel.allowed_shared_bytes().unwrap(), 48 << 10);
        for (asked, allowed) in [(0, 48), (64, 64), (56, 64), (60, 64)] {
            kernel.allow_shared_bytes(asked << 10).unwrap();
            assert_eq!(kernel.allowed_shared_bytes().unwrap(), allowed << 10);
        }
        let refusal = kernel.allow_shared_bytes(i32::MAX as u32).unwrap_err();
        assert!(matches!(refusal, CudaError::Driver { call: "cuFuncSetAttribute", .. }), "{refusal}");
    }

    /// What drivers before CUDA 12 do, which have no libraries.
    #[test]
    fn a_module_of_the_context_has_the_kernel_too() {
        let Some(device) = device("a_module_of_the_context_has_the_kernel_too") else { return };
        let _entered = device.enter().unwrap();
        let ptx = embedded::newest("", device.compute_capability()).unwrap();
        let (_, text) = ptx.kernels.iter().find(|&&(name, _)| name == PROBE).unwrap();
        let mut log = [0; 1024];
        let module = Raw::compile_for_context(&CString::new(*text).unwrap(), &mut log).unwrap();
        assert!(module.function(c"fill_bias").is_ok() && module.function(c"tango").is_err());
        module.unload();
        assert!(Raw::compile_for_context(&CString::new(FROM_THE_FUTURE).unwrap(), &mut log).is_err());
        assert_ne!(log[0], 0, "the driver's compiler says what it does not like");
    }

    #[test]
    fn the_driver_refuses_ptx_that_is_too_new_and_says_why() {
        let Some(device) = device("the_driver_refuses_ptx_that_is_too_new_and_says_why") else { return };
        let _entered = device.enter().unwrap();
        let refusal = Module::load("sm_80", "tango", FROM_THE_FUTURE).unwrap_err();
        report::say(&refusal.to_string());
        let CudaError::PtxRefused { ptx_version, driver, status, log, .. } = refusal else { panic!("{refusal}") };
        assert_eq!(ptx_version, "99.7");
        assert!(driver >= (11, 0) && status != Status(0));
        assert!(!log.is_empty(), "the driver's compiler says what it does not like");
    }
}
