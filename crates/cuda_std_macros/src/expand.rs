//! The code that a kernel becomes: one item for the GPU, two for the host, and the checks that need types.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, Type};

use crate::arguments::Arguments;

pub(crate) fn expand(function: &ItemFn, arguments: &Arguments) -> TokenStream {
    let mut on_gpu = function.clone();
    on_gpu.sig.abi = Some(syn::parse_quote!(extern "ptx-kernel"));
    let entry = entry(function);
    let checks = copy_checks(function);
    let bounds = arguments.items(&function.sig.ident);
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #on_gpu

        #[cfg(not(target_arch = "nvptx64"))]
        #function

        #entry
        #checks
        #bounds
    }
}

/// The static by which the host finds the kernel and calls it with an array of pointers to its arguments.
fn entry(function: &ItemFn) -> TokenStream {
    let kernel = &function.sig.ident;
    let visibility = &function.vis;
    let name = kernel.unraw().to_string();
    let entry = format_ident!("{}_ENTRY", name.to_uppercase(), span = kernel.span());
    let types: Vec<_> = parameter_types(function).collect();
    let numbers = 0..types.len();
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc(hidden)]
        #[allow(dead_code, reason = "a kernel need not be in a table")]
        #visibility static #entry: ::cuda_std::macros::Entry = ::cuda_std::macros::Entry {
            name: #name,
            parameters: &[#(::cuda_std::macros::Layout::new::<#types>()),*],
            call: {
                unsafe fn call(_arguments: *const *mut ::core::ffi::c_void) {
                    // SAFETY: the caller vouches for the array, and for what the kernel asks.
                    unsafe { #kernel(#(::cuda_std::macros::argument::<#types>(_arguments, #numbers)),*) }
                }
                call
            },
        };
    }
}

/// A launch copies the bytes of its arguments and runs no destructor, which is what `Copy` allows.
fn copy_checks(function: &ItemFn) -> TokenStream {
    let checks = parameter_types(function).map(|ty| {
        quote_spanned! {ty.span()=> kernel_parameters_are_copied::<#ty>();}
    });
    quote! {
        const _: () = {
            const fn kernel_parameters_are_copied<T: ::core::marker::Copy>() {}
            #(#checks)*
        };
    }
}

fn parameter_types(function: &ItemFn) -> impl Iterator<Item = &Type> {
    function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(&*parameter.ty),
        FnArg::Receiver(_) => None,
    })
}
