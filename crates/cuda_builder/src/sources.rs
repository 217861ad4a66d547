//! The source files that PTX is made from: their hash, which tells whether PTX is up to date with them.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::hash::hex;

/// Files and directories below a root. Of directories, the Rust sources and manifests count, at any depth.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
    paths: Vec<PathBuf>,
}

impl Sources {
    /// The given files and directories, relative to `root`.
    pub fn new<P: Into<PathBuf>>(root: impl Into<PathBuf>, paths: impl IntoIterator<Item = P>) -> Self {
        let root = root.into();
        let paths = paths.into_iter().map(Into::into).collect();
        Self { root, paths }
    }

    /// A hash, in hexadecimal, of every file's path and content, and of `recipe`: see
    /// [`CudaBuilder::recipe`](crate::CudaBuilder::recipe).
    ///
    /// It is the same in every checkout: paths count from the root, and line endings do not count.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a file cannot be read.
    pub fn hash(&self, recipe: &str) -> Result<String, Error> {
        let mut hasher = Sha256::new();
        add_part(&mut hasher, recipe.as_bytes());
        for (name, path) in self.files()? {
            let content = fs::read(&path).map_err(Error::at(&path))?;
            add_part(&mut hasher, name.as_bytes());
            add_part(&mut hasher, &without_carriage_returns(content));
        }
        Ok(hex(hasher))
    }

    /// Has cargo run the build script again when one of the files changes, appears or disappears.
    pub fn print_rerun_if_changed(&self) {
        for path in &self.paths {
            println!("cargo::rerun-if-changed={}", self.root.join(path).display());
        }
    }

    /// Each file's name from the root, with slashes, and its path; sorted by name.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let mut paths = Vec::new();
        for path in &self.paths {
            collect(&self.root.join(path), &mut paths)?;
        }
        let mut files: Vec<_> = paths.into_iter().map(|path| (self.name_of(&path), path)).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn name_of(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(Error::at(path))? {
        let entry = entry.map_err(Error::at(path))?.path();
        let is_source = entry.extension().is_some_and(|end| end == "rs" || end == "toml");
        if entry.is_dir() || is_source {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

/// The length goes first, so that no two sequences of parts are the same bytes.
fn add_part(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part);
}

fn without_carriage_returns(mut content: Vec<u8>) -> Vec<u8> {
    content.retain(|&byte| byte != b'\r');
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn hash(files: &[(&str, &str)]) -> String {
        let root = checkout(files);
        Sources::new(root.path(), ["src", "Cargo.toml"]).hash("recipe").unwrap()
    }

    const PLAIN: &[(&str, &str)] = &[("Cargo.toml", "[package]\n"), ("src/lib.rs", "fn a() {}\nfn b() {}\n")];

    #[test]
    fn the_place_and_the_line_endings_of_a_checkout_do_not_count() {
        let other = [("Cargo.toml", "[package]\r\n"), ("src/lib.rs", "fn a() {}\r\nfn b() {}\r\n")];
        assert_eq!(hash(PLAIN), hash(&other));
        assert_eq!(hash(PLAIN).len(), 64);
    }

    #[test]
    fn names_content_and_new_files_count() {
        let renamed = [PLAIN[0], ("src/main.rs", PLAIN[1].1)];
        let edited = [PLAIN[0], ("src/lib.rs", "fn a() {}\n")];
        let added = [PLAIN[0], PLAIN[1], ("src/deep/er.rs", "")];
        for changed in [&renamed[..], &edited, &added] {
            assert_ne!(hash(PLAIN), hash(changed), "{changed:?}");
        }
    }

    #[test]
    fn what_an_editor_leaves_behind_does_not_count() {
        let littered = [PLAIN[0], PLAIN[1], ("src/.lib.rs.swp", "")];
        assert_eq!(hash(PLAIN), hash(&littered));
    }

    #[test]
    fn the_recipe_counts() {
        let root = checkout(PLAIN);
        let sources = Sources::new(root.path(), ["src"]);
        assert_ne!(sources.hash("sm_70").unwrap(), sources.hash("sm_80").unwrap());
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let root = checkout(PLAIN);
        let error = Sources::new(root.path(), ["build.rs"]).hash("").unwrap_err();
        assert!(error.to_string().contains("build.rs"), "{error}");
    }
}
