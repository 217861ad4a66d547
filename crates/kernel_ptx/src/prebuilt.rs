//! PTX that lies in the repository, for users without a compiler for GPU code.
//!
//! Beside it lie the hash of the sources that it was made from, without which nobody could tell that it is out of date,
//! and the compiler's version, with which its text can be reproduced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cuda_builder::Ptx;

/// The directory of prebuilt PTX.
#[derive(Clone, Debug)]
pub struct Prebuilt {
    dir: PathBuf,
    archs: &'static [&'static str],
}

/// Why the prebuilt PTX cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It was made from other sources.
    #[error("the prebuilt PTX in {} is from other sources (theirs: {found:.12}, now: {expected:.12})", dir.display())]
    Stale {
        /// The directory of prebuilt PTX.
        dir: PathBuf,
        /// The hash of the sources it was made from.
        found: String,
        /// The hash of the sources as they are.
        expected: String,
    },
    /// A part of it is not there.
    #[error("prebuilt PTX: {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Prebuilt {
    pub(crate) fn new(dir: PathBuf, archs: &'static [&'static str]) -> Self {
        Self { dir, archs }
    }

    /// The modules, if they were made from the sources that have this hash.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if not.
    pub fn load(&self, expected: &str) -> Result<Vec<Ptx>, Unusable> {
        let found = self.read(&self.hash_path())?;
        if found != expected {
            return Err(Unusable::Stale { dir: self.dir.clone(), found, expected: expected.to_owned() });
        }
        self.archs.iter().map(|arch| self.load_module(arch)).collect()
    }

    fn load_module(&self, arch: &str) -> Result<Ptx, Unusable> {
        let path = self.dir.join(format!("{arch}.ptx"));
        let text = fs::read_to_string(&path).map_err(unreadable(&path))?;
        let arch = arch.to_owned();
        // A checkout with other line endings holds the same text.
        let text = text.replace("\r\n", "\n");
        Ok(Ptx { arch, path, text })
    }

    /// The version of the compiler that made it.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if it is not recorded.
    pub fn compiler(&self) -> Result<String, Unusable> {
        self.read(&self.compiler_path())
    }

    /// Records what PTX in [`Prebuilt::dir`] was made from, and by which compiler.
    ///
    /// # Errors
    ///
    /// Whatever keeps the files from being written.
    pub fn record(&self, hash: &str, compiler: &str) -> io::Result<()> {
        fs::write(self.hash_path(), format!("{hash}\n"))?;
        fs::write(self.compiler_path(), format!("{compiler}\n"))
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn hash_path(&self) -> PathBuf {
        self.dir.join("SOURCE_HASH")
    }

    fn compiler_path(&self) -> PathBuf {
        self.dir.join("COMPILER")
    }

    fn read(&self, path: &Path) -> Result<String, Unusable> {
        let text = fs::read_to_string(path).map_err(unreadable(path))?;
        Ok(text.trim().to_owned())
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Unusable {
    move |source| Unusable::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prebuilt(hash: &str) -> (tempfile::TempDir, Prebuilt) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sm_70.ptx"), "one\r\ntwo\r\n").unwrap();
        let prebuilt = Prebuilt::new(dir.path().to_owned(), &["sm_70"]);
        prebuilt.record(hash, "rustc 1.96.0").unwrap();
        (dir, prebuilt)
    }

    #[test]
    fn current_ptx_is_loaded() {
        let (_dir, prebuilt) = prebuilt("abc");
        let modules = prebuilt.load("abc").unwrap();
        assert_eq!(modules.len(), 1);
        assert_eq!(modules[0].arch, "sm_70");
        assert_eq!(modules[0].text, "one\ntwo\n");
        assert_eq!(prebuilt.compiler().unwrap(), "rustc 1.96.0");
    }

    #[test]
    fn stale_ptx_is_not() {
        let (_dir, prebuilt) = prebuilt("abc");
        assert!(matches!(prebuilt.load("abd"), Err(Unusable::Stale { .. })));
    }

    #[test]
    fn a_missing_module_is_named() {
        let (dir, prebuilt) = prebuilt("abc");
        fs::remove_file(dir.path().join("sm_70.ptx")).unwrap();
        let error = prebuilt.load("abc").unwrap_err();
        assert!(error.to_string().contains("sm_70.ptx"), "{error}");
    }
}
