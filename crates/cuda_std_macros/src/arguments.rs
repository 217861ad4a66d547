//! The attribute's arguments: launch bounds, and the mark that they leave in the assembly for `cuda_builder` to find.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Token, parenthesized};

/// Nothing, `launch_bounds(THREADS)` or `launch_bounds(THREADS, BLOCKS)`.
pub(crate) struct Arguments {
    launch_bounds: Vec<Expr>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let launch_bounds = if input.is_empty() { Vec::new() } else { parse_launch_bounds(input)? };
        Ok(Self { launch_bounds })
    }
}

fn parse_launch_bounds(input: ParseStream) -> syn::Result<Vec<Expr>> {
    let name: Ident = input.parse()?;
    if name != "launch_bounds" {
        let message = "unknown argument: `#[kernel]` only knows `launch_bounds(THREADS, BLOCKS)`";
        return Err(syn::Error::new(name.span(), message));
    }
    let inner;
    parenthesized!(inner in input);
    let bounds = Punctuated::<Expr, Token![,]>::parse_terminated(&inner)?;
    if bounds.is_empty() || bounds.len() > 2 {
        let message = "launch bounds are the most threads of a block, then the least blocks per multiprocessor: \
                       write `launch_bounds(256)` or `launch_bounds(256, 2)`";
        return Err(syn::Error::new(name.span(), message));
    }
    Ok(bounds.into_iter().collect())
}

impl Arguments {
    /// The items that check the bounds on every target, and write them down on the GPU.
    pub(crate) fn items(&self, kernel: &Ident) -> TokenStream {
        let bounds = &self.launch_bounds;
        if bounds.is_empty() {
            return TokenStream::new();
        }
        let checks = bounds.iter().map(|bound| quote_spanned! {bound.span()=> const _: u32 = #bound;});
        let mark = format!("// launch_bounds {kernel}{}", " {}".repeat(bounds.len()));
        quote! {
            #(#checks)*
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#mark, #(const #bounds),*);
        }
    }
}
