//! What a kernel's signature may look like. Each refusal says what to write instead, at the place that is wrong.

use quote::ToTokens;
use syn::{Error, FnArg, Pat, PatIdent, PatType, ReturnType, Safety, Signature, Type};

/// Every rule that the signature breaks, as one error.
pub(crate) fn check(signature: &Signature) -> syn::Result<()> {
    let mut errors = Vec::new();
    errors.extend(check_qualifiers(signature));
    errors.extend(check_shape(signature));
    errors.extend(signature.inputs.iter().filter_map(check_parameter));
    let all = errors.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    });
    all.map_or(Ok(()), Err)
}

fn check_qualifiers(signature: &Signature) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut refuse = |place: &dyn ToTokens, message: &str| {
        errors.push(Error::new_spanned(place, message));
    };
    if let Some(token) = &signature.constness {
        refuse(token, "a kernel cannot be `const`: remove the word");
    }
    if let Some(token) = &signature.asyncness {
        refuse(token, "a kernel cannot be `async`: remove the word");
    }
    if let Some(abi) = &signature.abi {
        refuse(abi, "a kernel's calling convention is chosen by `#[kernel]`: remove the `extern`");
    }
    if !matches!(signature.safety, Safety::Unsafe(_)) {
        refuse(
            &signature.fn_token,
            "a kernel must be an `unsafe fn`, because nothing checks the pointers that it is launched with: \
             write `unsafe fn`",
        );
    }
    errors
}

fn check_shape(signature: &Signature) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut refuse = |place: &dyn ToTokens, message: &str| {
        errors.push(Error::new_spanned(place, message));
    };
    if !signature.generics.params.is_empty() {
        refuse(
            &signature.generics,
            "a kernel cannot be generic, because it is launched by its name: \
             write one kernel per type, each calling a generic function",
        );
    } else if let Some(clause) = &signature.generics.where_clause {
        refuse(clause, "a kernel cannot have a `where` clause: remove it");
    }
    if let ReturnType::Type(_, returned) = &signature.output {
        refuse(returned, "a kernel cannot return a value: write the result through a pointer parameter");
    }
    if let Some(variadic) = &signature.variadic {
        refuse(variadic, "a kernel cannot take a variable number of arguments: name each of them");
    }
    errors
}

fn check_parameter(parameter: &FnArg) -> Option<Error> {
    match parameter {
        FnArg::Receiver(receiver) => Some(Error::new_spanned(
            receiver,
            "a kernel cannot be a method: make it a free function outside of the `impl`",
        )),
        FnArg::Typed(PatType { pat, ty, .. }) => check_pattern(pat).or_else(|| check_type(ty)),
    }
}

fn check_pattern(pattern: &Pat) -> Option<Error> {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, .. }) => None,
        _ => Some(Error::new_spanned(pattern, "a kernel's parameter must be a plain name: take it apart in the body")),
    }
}

fn check_type(ty: &Type) -> Option<Error> {
    match ty {
        Type::Reference(_) => Some(Error::new_spanned(
            ty,
            "a kernel cannot take a reference, because GPU memory is not the host's: \
             pass `*const T` or `*mut T`",
        )),
        Type::ImplTrait(_) => Some(Error::new_spanned(ty, "a kernel cannot be generic: name the parameter's type")),
        _ => None,
    }
}
