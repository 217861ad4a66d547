//! The embedded PTX, with the machine code that there is of it, and which of it a device gets.

use std::fmt;

use super::{architecture::Architecture, error::CudaError};

/// The kernels, compiled for one architecture.
pub(super) struct Ptx {
    /// What the compiler calls the architecture, such as `sm_80`.
    pub(super) name: &'static str,
    /// Tells these kernels from those of another build.
    pub(super) hash: &'static str,
    /// Machine code of all kernels together, for devices of this architecture alone.
    pub(super) machine_code: Option<&'static [u8]>,
    /// Each kernel's name, and the PTX of that kernel alone.
    pub(super) kernels: &'static [(&'static str, &'static str)],
}

/// Oldest architecture first.
static PTX: &[Ptx] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

impl Ptx {
    fn architecture(&self) -> Architecture {
        Architecture::parse(self.name).expect("a test reads every name in the table")
    }
}

impl fmt::Debug for Ptx {
    /// Without the text, which is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ptx").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether the kernels of that hash are among those that are embedded.
pub(super) fn includes(hash: &str) -> bool {
    PTX.iter().any(|ptx| ptx.hash == hash)
}

/// The PTX of the newest architecture that a device runs.
pub(super) fn newest(device_name: &str, capability: (u32, u32)) -> Result<&'static Ptx, CudaError> {
    let candidates = PTX.iter().filter(|ptx| ptx.architecture().runs_on(capability));
    candidates.max_by_key(|ptx| ptx.architecture()).ok_or_else(|| CudaError::DeviceTooOld {
        name: device_name.to_owned(),
        capability,
        needed: oldest(),
    })
}

/// The PTX of one architecture, if a device runs it.
pub(super) fn named(architecture: &str, device_name: &str, capability: (u32, u32)) -> Result<&'static Ptx, CudaError> {
    let ptx = PTX.iter().find(|ptx| ptx.name == architecture).ok_or_else(|| CudaError::NoSuchArchitecture {
        architecture: architecture.to_owned(),
        embedded: PTX.iter().map(|ptx| ptx.name).collect(),
    })?;
    if !ptx.architecture().runs_on(capability) {
        return Err(CudaError::WrongArchitecture { name: device_name.to_owned(), capability, architecture: ptx.name });
    }
    Ok(ptx)
}

fn oldest() -> (u32, u32) {
    PTX.iter().map(|ptx| ptx.architecture().capability()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_the_newest_kernels_that_it_can_run() {
        let chosen = |major, minor| newest("", (major, minor)).map(|ptx| ptx.name);
        assert_eq!([chosen(7, 0), chosen(7, 5)], [Ok("sm_70"), Ok("sm_70")]);
        assert_eq!([chosen(8, 0), chosen(8, 9)], [Ok("sm_80"), Ok("sm_80")]);
        assert_eq!(chosen(9, 0), Ok("sm_90a"));
        assert_eq!([chosen(10, 0), chosen(12, 0)], [Ok("sm_80"), Ok("sm_80")], "Hopper's own instructions end with it");
        assert_eq!(chosen(99, 9), Ok("sm_80"), "an unknown newer device runs the newest kernels that it can");
    }

    #[test]
    fn a_device_before_all_kernels_is_refused_by_name() {
        let refusal = newest("GeForce GTX 1080", (6, 1)).unwrap_err();
        assert_eq!(refusal.to_string(), "GeForce GTX 1080 has compute capability 6.1, but at least 7.0 is needed");
    }

    #[test]
    fn a_device_gets_the_architecture_asked_for_if_it_runs_it() {
        let asked = |architecture, capability| named(architecture, "A GPU", capability).map(|ptx| ptx.name);
        assert_eq!(asked("sm_70", (9, 0)), Ok("sm_70"));
        assert_eq!(asked("sm_80", (9, 0)), Ok("sm_80"));
        assert_eq!(asked("sm_90a", (9, 0)), Ok("sm_90a"));
        let refusal = asked("sm_90a", (12, 0)).unwrap_err();
        assert_eq!(refusal.to_string(), "A GPU has compute capability 12.0, which cannot run kernels for sm_90a");
        let refusal = asked("sm_80", (7, 5)).unwrap_err();
        assert_eq!(refusal.to_string(), "A GPU has compute capability 7.5, which cannot run kernels for sm_80");
    }

    #[test]
    fn an_architecture_without_kernels_is_told_with_those_that_have_some() {
        let refusal = named("sm_75", "A GPU", (9, 0)).unwrap_err();
        assert_eq!(refusal.to_string(), "there are no kernels for \"sm_75\", only for sm_70, sm_80, sm_90a");
    }

    #[test]
    fn every_architecture_has_a_hash_of_its_own() {
        let hashes: std::collections::BTreeSet<_> = PTX.iter().map(|ptx| ptx.hash).collect();
        assert_eq!(hashes.len(), PTX.len());
        assert!(hashes.iter().all(|hash| hash.len() == 64 && includes(hash)));
        assert!(!includes("0"));
    }

    #[test]
    fn machine_code_is_for_all_devices_that_run_the_ptx() {
        for ptx in PTX.iter().filter(|ptx| ptx.machine_code.is_some()) {
            assert!(ptx.name.ends_with('a'), "{} runs on devices of several generations", ptx.name);
        }
    }

    #[test]
    fn ptx_is_printed_without_its_text() {
        assert_eq!(format!("{:?}", PTX[0]), "Ptx { name: \"sm_70\", .. }");
    }
}
