//! The kernels are in the library, for every architecture.
#![cfg(feature = "cuda")]

/// What the generated table is made of.
struct Ptx {
    name: &'static str,
    text: &'static str,
}

static PTX: &[Ptx] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

#[test]
fn every_architecture_has_its_kernels() {
    let names: Vec<_> = PTX.iter().map(|ptx| ptx.name).collect();
    assert_eq!(names, ["sm_70", "sm_80", "sm_90a"]);
    for ptx in PTX {
        assert!(ptx.text.contains(&format!(".target {}", ptx.name)));
        assert!(ptx.text.contains(".visible .entry "));
    }
}
