//! The kernels are in the library, for every architecture.
#![cfg(feature = "cuda")]

/// What the generated table is made of.
struct Ptx {
    name: &'static str,
    hash: &'static str,
    machine_code: Option<&'static [u8]>,
    kernels: &'static [(&'static str, &'static str)],
}

static PTX: &[Ptx] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

#[test]
fn every_architecture_has_its_kernels() {
    let names: Vec<_> = PTX.iter().map(|ptx| ptx.name).collect();
    assert_eq!(names, ["sm_70", "sm_80", "sm_90a"]);
    for ptx in PTX {
        assert_eq!(ptx.hash.len(), 64);
        assert!(ptx.kernels.iter().any(|&(name, _)| name == "gather"));
        assert!(ptx.machine_code.is_none_or(|code| code.starts_with(b"\x7fELF")), "machine code is an ELF file");
        for (name, text) in ptx.kernels {
            assert!(text.contains(&format!(".target {}\n", ptx.name)));
            assert!(text.contains(&format!(".visible .entry {name}(")));
            assert_eq!(text.matches(".entry ").count(), 1, "{name} is alone");
        }
    }
}
