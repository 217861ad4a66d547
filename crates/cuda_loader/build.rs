//! Puts the empty `libcuda.a` where the linker finds it, in every program that contains this crate: `cust` asks for one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let crate_dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rustc-link-search=native={crate_dir}/stub/lib64");
}
