//! Machine code that lies beside the prebuilt PTX: what NVIDIA's assembler makes of it, for the GPUs that it is for.
//!
//! It spares programs the driver's compiler when they start, which takes a second for a large kernel. Beside it lies
//! the hash of the PTX that it was made from: machine code of other PTX is of no use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cuda_builder::Ptx;

/// The directory of prebuilt PTX, as that of machine code.
#[derive(Clone, Debug)]
pub struct MachineCode {
    dir: PathBuf,
}

impl MachineCode {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The file with the machine code of a module, if there is one and it was made from this PTX.
    #[must_use]
    pub fn of(&self, module: &Ptx) -> Option<PathBuf> {
        let path = self.path(&module.arch);
        let made_from = fs::read_to_string(made_from(&path)).ok()?;
        (made_from.trim() == module.hash() && path.is_file()).then_some(path)
    }

    /// Where the machine code for an architecture lies.
    #[must_use]
    pub fn path(&self, arch: &str) -> PathBuf {
        self.dir.join(format!("{arch}.cubin"))
    }

    /// Writes the machine code of a module.
    ///
    /// # Errors
    ///
    /// Whatever keeps the files from being written.
    pub fn write(&self, module: &Ptx, code: &[u8]) -> io::Result<()> {
        let path = self.path(&module.arch);
        fs::write(&path, code)?;
        fs::write(made_from(&path), format!("{}\n", module.hash()))
    }
}

/// The file with the hash of the PTX that machine code was made from.
fn made_from(code: &Path) -> PathBuf {
    code.with_extension("cubin.made_from")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Ptx {
        Ptx { arch: "sm_90a".to_owned(), path: PathBuf::new(), text: text.to_owned() }
    }

    #[test]
    fn machine_code_is_that_of_its_ptx_only() {
        let dir = tempfile::tempdir().unwrap();
        let code = MachineCode::new(dir.path().to_owned());
        assert_eq!(code.of(&module("one")), None, "there is none");
        code.write(&module("one"), b"code").unwrap();
        let path = code.of(&module("one")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"code");
        assert_eq!(code.of(&module("two")), None, "it is of other PTX");
        fs::remove_file(path).unwrap();
        assert_eq!(code.of(&module("one")), None, "it is gone");
    }
}
