//! The kernels of this repository: what decides their PTX, and how to compile them.

use std::path::PathBuf;

use cuda_builder::{CudaBuilder, DeviceCompiler, Error, Ptx, Sources};

use crate::{machine_code::MachineCode, prebuilt::Prebuilt};

/// One for each generation whose instructions the kernels use; a newer GPU runs the newest that it can. One that ends
/// in `a` has instructions of that generation alone, and no newer GPU runs it.
const ARCHITECTURES: &[&str] = &["sm_70", "sm_80", "sm_90a"];

/// What the PTX is compiled from. Tests and documents of these crates are not in it.
const SOURCES: &[&str] = &[
    "kernels/Cargo.toml",
    "kernels/src",
    "crates/cuda_std/Cargo.toml",
    "crates/cuda_std/src",
    "crates/cuda_std_macros/Cargo.toml",
    "crates/cuda_std_macros/src",
];

/// The kernels in a checkout of the repository.
#[derive(Clone, Debug)]
pub struct Kernels {
    root: PathBuf,
}

impl Kernels {
    /// The kernels in the checkout at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The files that the PTX is made from.
    #[must_use]
    pub fn sources(&self) -> Sources {
        Sources::new(&self.root, SOURCES.iter().copied())
    }

    /// The hash of all that decides the PTX.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a source file cannot be read.
    pub fn hash(&self) -> Result<String, Error> {
        self.sources().hash(&self.builder().recipe())
    }

    /// The builder, set to all architectures.
    #[must_use]
    pub fn builder(&self) -> CudaBuilder {
        let builder = CudaBuilder::new(self.root.join("kernels"));
        ARCHITECTURES.iter().copied().fold(builder, CudaBuilder::arch)
    }

    /// Compiles them, from within a build script.
    ///
    /// # Errors
    ///
    /// The builder's.
    pub fn compile(&self) -> Result<Vec<Ptx>, Error> {
        let compiler = DeviceCompiler::find()?;
        compiler.print_rerun_if_changed();
        self.builder().compiler(compiler).build()
    }

    /// The prebuilt files.
    #[must_use]
    pub fn prebuilt(&self) -> Prebuilt {
        Prebuilt::new(self.prebuilt_dir(), ARCHITECTURES)
    }

    /// The machine code beside them.
    #[must_use]
    pub fn machine_code(&self) -> MachineCode {
        MachineCode::new(self.prebuilt_dir())
    }

    fn prebuilt_dir(&self) -> PathBuf {
        self.root.join("ptx")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_code_may_ask_for_every_architecture() {
        let manifest = include_str!("../../../Cargo.toml");
        let names: Vec<_> = ARCHITECTURES.iter().map(|arch| format!("{arch:?}")).collect();
        assert!(manifest.contains(&format!("cfg(cuda_arch, values({}))", names.join(", "))));
    }
}
