//! The CUDA driver's functions, found when a program runs instead of when it is linked.
//!
//! `cust` declares the driver's functions as `extern "C"` and links `-lcuda`, so that a program which uses it neither
//! builds without a CUDA toolkit nor starts without a driver. This crate defines those functions: each one looks its
//! namesake up in the installed driver at its first call and passes the call on. One binary then serves machines with
//! and without a GPU, and `-lcuda` is satisfied by an empty archive.
//!
//! Without a driver, every function returns `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED`, and [`driver`] says why in words.
//! That code is the one CUDA has for a shared library that does not load; a machine that has a driver but no GPU
//! answers `CUDA_ERROR_NO_DEVICE`, so a caller can tell the two apart. A driver that is too old to have a function
//! makes that one function return `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
//!
//! A crate that depends on `cust` has to mention this one, or nothing links it:
//!
//! ```
//! match cuda_loader::driver() {
//!     Ok(driver) => println!("using {}", driver.library_name()),
//!     Err(none) => println!("{none}"),
//! }
//! ```

mod driver;
mod forward;
mod library;
mod status;

pub use driver::{Attempt, Driver, MissingSymbol, NoDriver, driver};
pub use forward::{Grid, encode_tensor_map, launch_grid, most_active_clusters};
pub use library::{Library, library_function, load_library, unload_library};
