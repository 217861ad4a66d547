//! A copy of the checkout to plant faults in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The copy. It stays where it is, so that the next run finds its build.
pub(super) struct Copy {
    dir: PathBuf,
}

impl Copy {
    /// Copies what git knows and does not ignore, as it is now. Files that are the same already keep their time of
    /// change.
    pub fn make(root: &Path, dir: PathBuf) -> anyhow::Result<Self> {
        let names = list(root)?;
        for name in &names {
            copy_if_changed(&root.join(name), &dir.join(name)).with_context(|| format!("cannot copy {name}"))?;
        }
        remove_others(&dir, &dir, &names)?;
        Ok(Self { dir })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn read(&self, name: &str) -> anyhow::Result<String> {
        let text = fs::read_to_string(self.dir.join(name)).with_context(|| name.to_owned())?;
        Ok(text.replace("\r\n", "\n"))
    }

    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.dir.join(name), text).with_context(|| name.to_owned())
    }
}

fn list(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(arguments).output().context("cannot run git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout)?;
    let there = |name: &&str| !name.is_empty() && root.join(name).is_file();
    Ok(names.split('\0').filter(there).map(str::to_owned).collect())
}

fn copy_if_changed(from: &Path, to: &Path) -> anyhow::Result<()> {
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
    Ok(fs::write(to, content)?)
}

/// Removes what an earlier copy had.
fn remove_others(dir: &Path, root: &Path, names: &BTreeSet<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, root, names)?;
        } else if !names.contains(&path.strip_prefix(root)?.to_string_lossy().replace('\\', "/")) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(root: &Path, arguments: &[&str]) {
        let output = Command::new("git").current_dir(root).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn the_copy_is_what_the_checkout_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (root, copied) = (dir.path().join("root"), dir.path().join("copy"));
        fs::create_dir_all(root.join("src")).unwrap();
        git(&root, &["init", "-q"]);
        fs::write(root.join(".gitignore"), "target\n").unwrap();
        fs::write(root.join("src/a.rs"), "a").unwrap();
        fs::write(root.join("target"), "built").unwrap();
        Copy::make(&root, copied.clone()).unwrap();
        fs::write(copied.join("src/a.rs"), "planted").unwrap();
        fs::write(copied.join("src/old.rs"), "left behind").unwrap();
        let copy = Copy::make(&root, copied).unwrap();
        assert_eq!(copy.read("src/a.rs").unwrap(), "a");
        assert!(!copy.dir().join("target").exists() && !copy.dir().join("src/old.rs").exists());
    }
}
