//! The kernels are in the library, for every architecture.
#![cfg(feature = "cuda")]

/// What the generated table is made of.
struct Ptx {
    arch: u32,
    name: &'static str,
    text: &'static str,
}

static PTX: &[Ptx] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

#[test]
fn every_architecture_has_its_kernels() {
    let archs: Vec<_> = PTX.iter().map(|ptx| ptx.arch).collect();
    assert_eq!(archs, [70, 80]);
    for ptx in PTX {
        assert!(ptx.text.contains(&format!(".target {}", ptx.name)));
        assert!(ptx.text.contains(".visible .entry "));
    }
}
