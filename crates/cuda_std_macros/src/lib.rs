//! The `#[kernel]` attribute; `cuda_std` re-exports it.

mod arguments;
mod expand;
mod rules;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

use crate::arguments::Arguments;

/// Makes a function a GPU kernel: an entry point that the host launches by its name.
///
/// Compiled for the GPU, the function gets the kernel calling convention and keeps its name in the PTX, so names are
/// unique over all kernels of a crate. Compiled for the host it stays the `unsafe fn` that it is written as; beside it
/// stands a static, `SCALE_ENTRY` for a kernel `scale`, of type `cuda_std::entry::Entry`: with it the kernel can be
/// found and called by name.
///
/// ```
/// # use cuda_std_macros::kernel;
/// /// Scales a vector.
/// ///
/// /// # Safety
/// ///
/// /// `values` points to `count` values.
/// #[kernel]
/// pub unsafe fn scale(values: *mut f32, count: u32, factor: f32) {
///     // ...
/// }
/// ```
///
/// # Rules
///
/// A kernel is a free `unsafe fn` without generics and without a return value; it is not `async`, `const` or
/// `extern`. Each parameter has a plain name and a type that is `Copy` and no reference: the launch copies its bytes.
/// Structures among them want `#[repr(C)]`, so that host and GPU agree on the layout.
///
/// # Launch bounds
///
/// `#[kernel(launch_bounds(THREADS, BLOCKS))]` promises that no block has more than `THREADS` threads, and asks for
/// registers to be given out so that `BLOCKS` of them fit on a multiprocessor. Both are constant expressions of type
/// `u32`, and `BLOCKS` may be left out. The compiler writes no such directive into PTX itself: the attribute leaves a
/// comment in the assembly, and `cuda_builder` turns it into `.maxntid` and `.minnctapersm`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let function = parse_macro_input!(item as ItemFn);
    match rules::check(&function.sig) {
        Ok(()) => expand::expand(&function, &arguments).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
