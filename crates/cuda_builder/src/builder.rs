//! The builder: which crate, which architectures, where to.

use std::env;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use sha2::{Digest, Sha256};

use crate::cargo;
use crate::compiler::DeviceCompiler;
use crate::error::Error;
use crate::hash::hex;
use crate::ptx::Defect;
use crate::split::{self, KernelPtx};
use crate::{ptx, recipe};

/// Compiles a crate of kernels to PTX, once for each architecture.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    crate_dir: PathBuf,
    archs: Vec<String>,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    compiler: Option<DeviceCompiler>,
}

/// All kernels, compiled for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The oldest architecture that can run it, such as `sm_80`.
    pub arch: String,
    /// The file that it is in.
    pub path: PathBuf,
    /// The PTX itself.
    pub text: String,
}

impl Ptx {
    /// The PTX of each kernel alone, for programs that load only the kernels they use.
    ///
    /// # Errors
    ///
    /// [`Defect`] if the text has no kernels, or is not whole.
    pub fn kernels(&self) -> Result<Vec<KernelPtx>, Defect> {
        split::by_kernel(&self.text)
    }

    /// A hash of the text, in hexadecimal: tells one build of the kernels from another.
    #[must_use]
    pub fn hash(&self) -> String {
        hex(Sha256::new_with_prefix(&self.text))
    }
}

impl CudaBuilder {
    /// A builder for the crate of kernels in `crate_dir`.
    #[must_use]
    pub fn new(crate_dir: impl Into<PathBuf>) -> Self {
        Self { crate_dir: crate_dir.into(), archs: Vec::new(), copy_to: None, target_dir: None, compiler: None }
    }

    /// Also compiles for this architecture, such as `sm_80`. Kernels know it as `cfg(cuda_arch = "sm_80")`, and that
    /// they are for a GPU at all as `cfg(gpu)`.
    #[must_use]
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.archs.push(arch.into());
        self
    }

    /// Puts the PTX files, one `sm_XX.ptx` for each architecture, into this directory.
    #[must_use]
    pub fn copy_to(mut self, dir: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(dir.into());
        self
    }

    /// Builds in this directory. By default it is `cuda_builder` in the target directory that the build script runs
    /// for, which all profiles share.
    #[must_use]
    pub fn target_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(dir.into());
        self
    }

    /// Uses this compiler instead of looking for one.
    #[must_use]
    pub fn compiler(mut self, compiler: DeviceCompiler) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Everything beside the sources that decides the PTX: flags, profile, architectures.
    #[must_use]
    pub fn recipe(&self) -> String {
        recipe::describe(&self.archs)
    }

    /// Compiles; the modules come in the order in which the architectures were given.
    ///
    /// # Errors
    ///
    /// [`Error`], which says what to do about it.
    pub fn build(&self) -> Result<Vec<Ptx>, Error> {
        if self.archs.is_empty() {
            return Err(Error::NoArchitecture);
        }
        if let Some(bad) = self.archs.iter().find(|arch| !is_architecture(arch)) {
            return Err(Error::BadArchitecture(bad.clone()));
        }
        let compiler = match &self.compiler {
            Some(compiler) => compiler.clone(),
            None => DeviceCompiler::find()?,
        };
        let crate_dir = self.crate_dir.canonicalize().map_err(Error::at(&self.crate_dir))?;
        let target_dir = self.resolved_target_dir()?;
        // Each architecture is a single long compilation, so they run side by side.
        thread::scope(|scope| {
            let (compiler, crate_dir, target_dir) = (&compiler, &crate_dir, &target_dir);
            let archs = self.archs.iter();
            let builds = archs.map(|arch| scope.spawn(move || self.build_one(compiler, crate_dir, target_dir, arch)));
            let builds = Vec::from_iter(builds).into_iter();
            builds.map(|build| build.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn build_one(
        &self,
        compiler: &DeviceCompiler,
        crate_dir: &Path,
        target_dir: &Path,
        arch: &str,
    ) -> Result<Ptx, Error> {
        let assembly_dir = target_dir.join("ptx").join(assembly_name(compiler, crate_dir, arch));
        create_dir(&assembly_dir)?;
        let assembly = assembly_dir.join(format!("{arch}.s"));
        cargo::compile(compiler, crate_dir, target_dir, arch, &assembly)?;
        let raw = fs::read_to_string(&assembly).map_err(Error::at(&assembly))?;
        let text = ptx::finish(&raw).map_err(|defect| Error::Unusable { arch: arch.to_owned(), defect })?;
        let dir = self.copy_to.as_ref().unwrap_or(&assembly_dir);
        create_dir(dir)?;
        let path = dir.join(format!("{arch}.ptx"));
        write_if_different(&path, &text)?;
        let arch = arch.to_owned();
        Ok(Ptx { arch, path, text })
    }

    /// The inner cargo runs elsewhere, so the path has to be absolute.
    fn resolved_target_dir(&self) -> Result<PathBuf, Error> {
        let dir = match &self.target_dir {
            Some(dir) => dir.clone(),
            None => {
                let out_dir = env::var_os("OUT_DIR").ok_or(Error::NoTargetDir)?;
                let outer = cargo::enclosing_target_dir(Path::new(&out_dir));
                outer.ok_or(Error::NoTargetDir)?.join("cuda_builder")
            }
        };
        std::path::absolute(&dir).map_err(Error::at(&dir))
    }
}

/// The name of a directory for a crate's assembly, of its own for all that cargo tells builds apart by: what is
/// compiled already is taken from there.
fn assembly_name(compiler: &DeviceCompiler, crate_dir: &Path, arch: &str) -> String {
    let name = crate_dir.file_name().unwrap_or_default().to_string_lossy();
    let recipe = recipe::describe(&[arch.to_owned()]);
    let hash = hex(Sha256::new_with_prefix(format!("{crate_dir:?}\n{compiler:?}\n{recipe}")));
    format!("{name}-{}", &hash[..16])
}

/// `sm_80`, `sm_90a`, `sm_100f`.
fn is_architecture(name: &str) -> bool {
    let Some(number) = name.strip_prefix("sm_") else {
        return false;
    };
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn create_dir(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::at(dir))
}

/// Leaves the file's time alone when nothing changes, so that nothing that depends on it is rebuilt.
fn write_if_different(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    fs::write(path, text).map_err(Error::at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_recognised() {
        assert!(["sm_70", "sm_90a", "sm_100f", "sm_121"].into_iter().all(is_architecture));
        assert!(!["80", "sm_", "sm_a", "sm-80", "compute_80", "sm_8x"].into_iter().any(is_architecture));
    }

    #[test]
    fn the_builder_wants_architectures_that_exist() {
        let builder = CudaBuilder::new("kernels");
        assert!(matches!(builder.build(), Err(Error::NoArchitecture)));
        let error = builder.arch("turing").build().unwrap_err();
        assert!(matches!(error, Error::BadArchitecture(name) if name == "turing"));
    }

    #[test]
    fn the_recipe_names_every_architecture() {
        let recipe = CudaBuilder::new("kernels").arch("sm_70").arch("sm_90a").recipe();
        assert!(recipe.contains("target-cpu=sm_70"));
        assert!(recipe.contains("target-cpu=sm_90a") && recipe.contains("cuda_arch=\"sm_90a\""));
    }
}
