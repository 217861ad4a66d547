//! The installed driver: one library, opened once, kept open for as long as the program runs.

use std::ffi::CStr;
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

/// Where a driver may be. The name without a version (`libcuda.so`) is left out on purpose: it is what CUDA toolkits
/// call their link-time stub, which loads and then fails every call.
#[cfg(not(windows))]
const LIBRARY_NAMES: &[&str] = &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"];
#[cfg(windows)]
const LIBRARY_NAMES: &[&str] = &["nvcuda.dll"];

/// The CUDA driver of this machine.
#[derive(Debug)]
pub struct Driver {
    library: Library,
    name: &'static str,
}

/// No CUDA driver could be loaded; says which libraries were tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no NVIDIA driver could be loaded ({})", Attempts(.attempts))]
pub struct NoDriver {
    attempts: Vec<Attempt>,
}

/// One library that was tried as the driver, and why it did not load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The library's file name, as given to the operating system.
    pub library: &'static str,
    /// What the operating system said.
    pub reason: String,
}

/// The driver has no function of this name: it is older than the function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the NVIDIA driver has no function `{name}`: {reason}")]
pub struct MissingSymbol {
    name: String,
    reason: String,
}

/// Loads the CUDA driver, once for the whole program.
///
/// # Errors
///
/// [`NoDriver`] when no driver is installed, or it cannot be loaded. The answer is remembered too.
pub fn driver() -> Result<&'static Driver, NoDriver> {
    loaded().map_err(NoDriver::clone)
}

/// [`driver`] without the copy of the error, for calls that only need to know that there is one.
pub(crate) fn loaded() -> Result<&'static Driver, &'static NoDriver> {
    static DRIVER: OnceLock<Result<Driver, NoDriver>> = OnceLock::new();
    DRIVER.get_or_init(|| open_first(LIBRARY_NAMES)).as_ref()
}

fn open_first(names: &[&'static str]) -> Result<Driver, NoDriver> {
    let mut attempts = Vec::new();
    for &name in names {
        // SAFETY: the only code this runs is the initialisers of NVIDIA's driver library, which have no requirements.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(Driver { library, name }),
            Err(error) => attempts.push(Attempt { library: name, reason: error.to_string() }),
        }
    }
    Err(NoDriver { attempts })
}

impl Driver {
    /// The file name under which the driver was found.
    #[must_use]
    pub fn library_name(&self) -> &'static str {
        self.name
    }

    /// Looks up a function that `cust` has no binding for, such as `cuTensorMapEncodeTiled`.
    ///
    /// ```no_run
    /// use std::ffi::c_int;
    /// type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // SAFETY: this is the function's type in cuda.h.
    /// let get_version: DriverGetVersion = unsafe { cuda_loader::driver()?.symbol(c"cuDriverGetVersion")? };
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`MissingSymbol`] when the driver is too old to have it.
    ///
    /// # Safety
    ///
    /// `F` must be the `unsafe extern "C" fn` type that `cuda.h` gives the function `name`. Declare results as
    /// integers rather than as `CUresult`: a newer driver may return codes that this enumeration does not have.
    pub unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, MissingSymbol> {
        // SAFETY: the caller vouches for the type; the library is never closed, so a copy of the pointer stays valid.
        match unsafe { self.library.get::<F>(name) } {
            Ok(symbol) => Ok(*symbol),
            Err(error) => Err(MissingSymbol { name: name.to_string_lossy().into_owned(), reason: error.to_string() }),
        }
    }
}

impl NoDriver {
    /// Every library that was tried, in order.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }
}

/// The attempts in one line.
struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", attempt.library, attempt.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_names_every_library_that_was_tried() {
        let error = open_first(&["libnot-a-driver.so.1", "libnor-this.so.1"]).unwrap_err();
        let tried: Vec<_> = error.attempts().iter().map(|a| a.library).collect();
        assert_eq!(tried, ["libnot-a-driver.so.1", "libnor-this.so.1"]);
        assert!(error.to_string().contains("libnor-this.so.1: "), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_missing_symbol_is_named() {
        let library = open_first(&["libc.so.6"]).unwrap();
        // SAFETY: the symbol does not exist, so nothing is ever called through the type.
        let found = unsafe { library.symbol::<unsafe extern "C" fn()>(c"cuNoSuchFunction") };
        assert!(found.unwrap_err().to_string().contains("`cuNoSuchFunction`"));
    }
}
