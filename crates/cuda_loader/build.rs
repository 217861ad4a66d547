//! Puts an empty `libcuda.a` where the linker finds it, in every program that contains this crate: `cust` asks for one.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo follows OUT_DIR when a target directory moves; it would not follow a path into the sources.
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out_dir.join("libcuda.a"), include_bytes!("stub/lib64/libcuda.a")).expect("OUT_DIR can be written to");
    println!("cargo::rustc-link-search=native={}", out_dir.display());
}
