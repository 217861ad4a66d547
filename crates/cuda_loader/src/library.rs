//! Code that belongs to no context: the driver of CUDA 12 compiles it while kernels are launched and other code is
//! compiled. A module, which belongs to one, it compiles with the context locked.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;

use cust_raw::{CUfunction, CUjit_option, CUresult};

use crate::forward::Entry;
use crate::status::from_code;

/// A loaded library: a `CUlibrary`, which `cust_raw` does not have.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Library(*mut c_void);

// SAFETY: a library handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

type LoadData = unsafe extern "C" fn(
    *mut Library,
    *const c_void,
    *mut CUjit_option,
    *mut *mut c_void,
    c_uint,
    *mut c_uint,
    *mut *mut c_void,
    c_uint,
) -> u32;

type GetKernel = unsafe extern "C" fn(*mut *mut c_void, Library, *const c_char) -> u32;

type GetFunction = unsafe extern "C" fn(*mut CUfunction, *mut c_void) -> u32;

type Unload = unsafe extern "C" fn(Library) -> u32;

/// Has the driver compile PTX: `cuLibraryLoadData`, with the options of `cuModuleLoadDataEx`. A driver before CUDA 12
/// says `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
///
/// # Safety
///
/// Each value has to be what its option asks for.
pub unsafe fn load_library<const N: usize>(
    ptx: &CStr,
    mut options: [CUjit_option; N],
    mut values: [*mut c_void; N],
) -> Result<Library, CUresult> {
    static ENTRY: Entry<LoadData> = Entry::new("cuLibraryLoadData\0");
    let mut library = Library(ptr::null_mut());
    let (code, options, values) = (ptx.as_ptr().cast(), options.as_mut_ptr(), values.as_mut_ptr());
    // SAFETY: this is the function's type; a null-terminated text, as many values as options, and no options of the
    // other kind.
    let result =
        unsafe { ENTRY.get()?(&mut library, code, options, values, N as c_uint, ptr::null_mut(), ptr::null_mut(), 0) };
    succeeded(result).map(|()| library)
}

/// The kernel of that name, for launches in the current context: `cuLibraryGetKernel` and `cuKernelGetFunction`.
///
/// # Safety
///
/// The library must be loaded. Once it is not, the function must not be used any more.
pub unsafe fn library_function(library: Library, name: &CStr) -> Result<CUfunction, CUresult> {
    static KERNEL: Entry<GetKernel> = Entry::new("cuLibraryGetKernel\0");
    static FUNCTION: Entry<GetFunction> = Entry::new("cuKernelGetFunction\0");
    let (mut kernel, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: these are the functions' types, and each writes one handle.
    unsafe {
        succeeded(KERNEL.get()?(&mut kernel, library, name.as_ptr()))?;
        succeeded(FUNCTION.get()?(&mut function, kernel))?;
    }
    Ok(function)
}

/// Unloads a library: `cuLibraryUnload`.
///
/// # Safety
///
/// The library must be loaded, and nobody use its functions any more.
pub unsafe fn unload_library(library: Library) -> Result<(), CUresult> {
    static ENTRY: Entry<Unload> = Entry::new("cuLibraryUnload\0");
    // SAFETY: this is the function's type.
    succeeded(unsafe { ENTRY.get()?(library) })
}

fn succeeded(code: u32) -> Result<(), CUresult> {
    match from_code(code) {
        CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(error),
    }
}
