//! The code that a kernel becomes: one item for the GPU, one for the host, and the checks that need types.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn};

use crate::arguments::Arguments;

pub(crate) fn expand(function: &ItemFn, arguments: &Arguments) -> TokenStream {
    let mut on_gpu = function.clone();
    on_gpu.sig.abi = Some(syn::parse_quote!(extern "ptx-kernel"));
    let checks = copy_checks(function);
    let bounds = arguments.items(&function.sig.ident);
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #on_gpu

        #[cfg(not(target_arch = "nvptx64"))]
        #function

        #checks
        #bounds
    }
}

/// A launch copies the bytes of its arguments and runs no destructor, which is what `Copy` allows.
fn copy_checks(function: &ItemFn) -> TokenStream {
    let types = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(&parameter.ty),
        FnArg::Receiver(_) => None,
    });
    let checks = types.map(|ty| {
        quote_spanned! {ty.span()=> kernel_parameters_are_copied::<#ty>();}
    });
    quote! {
        const _: () = {
            const fn kernel_parameters_are_copied<T: ::core::marker::Copy>() {}
            #(#checks)*
        };
    }
}
