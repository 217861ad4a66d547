//! The driver's linker: compiles PTX to machine code.
//!
//! It works on as many texts at a time as threads ask for, where a module that is loaded from PTX waits until others have been compiled. Both keep what they made
//! in the driver's cache on disk.

use std::{
    ffi::{CString, c_uint, c_void},
    marker::PhantomData,
    ptr,
};

use cust::sys::{self, CUresult};

use super::error::Status;

/// A linker, which writes what it does not like into a log.
pub(super) struct Linker<'a> {
    raw: sys::CUlinkState,
    /// Of the options: the log, and its length, which the driver keeps up to date.
    values: Box<[*mut c_void; 2]>,
    log: PhantomData<&'a mut [u8]>,
}

impl<'a> Linker<'a> {
    pub(super) fn new(log: &'a mut [u8]) -> Result<Self, Status> {
        let mut options =
            [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver takes integers in the place of pointers here.
        let values = Box::new([log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void]);
        let mut linker = Self { raw: ptr::null_mut(), values, log: PhantomData };
        // SAFETY: two options with a value each, which live as long as the linker; the log is as long as its option says, and outlives it.
        succeeded(unsafe {
            let count = options.len() as c_uint;
            sys::cuLinkCreate_v2(count, options.as_mut_ptr(), linker.values.as_mut_ptr(), &mut linker.raw)
        })?;
        Ok(linker)
    }

    /// Compiles a text.
    pub(super) fn add(&mut self, ptx: &str) -> Result<(), Status> {
        let text = CString::new(ptx).expect("the compiler's PTX is text");
        let bytes = text.as_bytes_with_nul();
        let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
        // SAFETY: a null-terminated text, which the driver only reads, while this lasts; no options.
        succeeded(unsafe {
            let (data, name) = (bytes.as_ptr().cast_mut().cast(), c"kernel".as_ptr());
            sys::cuLinkAddData_v2(self.raw, kind, data, bytes.len(), name, 0, ptr::null_mut(), ptr::null_mut())
        })
    }

    /// Loads what was compiled into the current context.
    pub(super) fn load(self) -> Result<sys::CUmodule, Status> {
        let (mut code, mut bytes, mut raw) = (ptr::null_mut(), 0, ptr::null_mut());
        // SAFETY: a linker that has not been finished.
        succeeded(unsafe { sys::cuLinkComplete(self.raw, &mut code, &mut bytes) })?;
        // SAFETY: machine code, which says itself how long it is, and lives as long as the linker.
        succeeded(unsafe { sys::cuModuleLoadData(&mut raw, code) })?;
        Ok(raw)
    }
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: called once. An error here would be of something that is not needed any more.
            let _ = unsafe { sys::cuLinkDestroy(self.raw) };
        }
    }
}

fn succeeded(result: CUresult) -> Result<(), Status> {
    match result as u32 {
        0 => Ok(()),
        code => Err(Status(code)),
    }
}
