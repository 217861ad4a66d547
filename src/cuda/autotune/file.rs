//! Decisions in a file: JSON that people can read, with a line that says what it is.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::case::{Case, Choice};

/// What the file says that it is. Another arrangement of its contents has another number.
const FORMAT: &str = "conv-transpose autotune 2";

/// Why the decisions of an [`Autotune`](super::Autotune) cannot be saved or loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AutotuneFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file does not hold the decisions of an autotune, or is damaged.
    #[error("{} is no file of an autotune, or is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was expected, and where.
        source: serde_json::Error,
    },
    /// The file says that it is something else, such as that of another version of the library.
    #[error("{} is {found:?}, not {FORMAT:?}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it says that it is.
        found: String,
    },
}

/// The beginning of the file, which tells whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: String,
    decisions: Vec<Decision>,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    case: Case,
    choice: Choice,
}

/// Writes the file as a whole: whoever reads it meanwhile finds the former one.
pub(super) fn save(path: &Path, decisions: &BTreeMap<Case, Choice>) -> Result<(), AutotuneFileError> {
    let decision = |(case, choice): (&Case, &Choice)| Decision { case: case.clone(), choice: choice.clone() };
    let contents = Contents { format: FORMAT.to_owned(), decisions: decisions.iter().map(decision).collect() };
    let text = serde_json::to_string_pretty(&contents).expect("text and numbers can be written as JSON");
    replace(path, text.as_bytes()).map_err(|source| AutotuneFileError::Write { path: path.to_owned(), source })
}

/// Writes a file beside it, of a name that nobody else has, and gives it the name, and the permissions of what is there.
/// What a link leads to is replaced, not the link, unless it leads nowhere; a device or a pipe never is.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        path => path?,
    };
    let former = path.metadata().ok();
    former.as_ref().map_or(Ok(()), check_regular)?;
    // A bare name has an empty parent.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any other file: not for its owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.prefix(".autotune").tempfile_in(dir)?;
    file.write_all(text)?;
    if let Some(former) = former {
        file.as_file().set_permissions(former.permissions())?;
    }
    file.persist(path)?;
    Ok(())
}

/// A device or a pipe would be read without end, or replaced.
fn check_regular(file: &fs::Metadata) -> io::Result<()> {
    if file.is_file() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")) }
}

/// Reads the decisions that this build of the library can use.
pub(super) fn load(path: &Path) -> Result<BTreeMap<Case, Choice>, AutotuneFileError> {
    let text = fs::metadata(path).and_then(|file| check_regular(&file)).and_then(|()| fs::read(path));
    let text = text.map_err(|source| AutotuneFileError::Read { path: path.to_owned(), source })?;
    let damaged = |source| AutotuneFileError::Damaged { path: path.to_owned(), source };
    let Head { format } = serde_json::from_slice(&text).map_err(damaged)?;
    if format != FORMAT {
        return Err(AutotuneFileError::Format { path: path.to_owned(), found: format });
    }
    let Contents { decisions, .. } = serde_json::from_slice(&text).map_err(damaged)?;
    let decisions = decisions.into_iter().map(|Decision { case, choice }| (case, choice));
    Ok(decisions.filter(|(case, _)| case.is_current()).collect())
}

#[cfg(test)]
mod tests {
    use super::{
        super::case::tests::{gpu, task},
        *,
    };
    use crate::{
        Precision,
        cuda::{Algorithm, Options},
    };

    fn decisions() -> BTreeMap<Case, Choice> {
        let case = |batch| Case::new(gpu(), Options::default(), &task(batch, 2, Precision::F32));
        let choice = |way| Choice::of(Algorithm::Tile, way);
        BTreeMap::from([(case(1), choice("tile_16x1_f32 on 1x1x4x8 positions")), (case(2), choice("gather"))])
    }

    /// The text of a file with those decisions, changed.
    fn load_changed(from: &str, to: &str) -> Result<BTreeMap<Case, Choice>, AutotuneFileError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("changed.json");
        save(&path, &decisions()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        load(&path)
    }

    #[test]
    fn what_is_saved_is_loaded_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tuned.json");
        for decisions in [BTreeMap::new(), decisions()] {
            save(&path, &decisions).unwrap();
            assert_eq!(load(&path).unwrap(), decisions);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn many_may_save_to_one_file_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tuned.json");
        save(&path, &decisions()).unwrap();
        let save_and_load = || {
            for _ in 0..50 {
                save(&path, &decisions()).unwrap();
                assert_eq!(load(&path).unwrap(), decisions());
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(save_and_load))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn decisions_of_another_version_or_other_kernels_are_left_out() {
        let version = format!("\"library\": \"{}\"", env!("CARGO_PKG_VERSION"));
        assert_eq!(load_changed(&version, "\"library\": \"0.0.1\"").unwrap().len(), 1);
        assert_eq!(load_changed("\"kernels\": \"", "\"kernels\": \"0").unwrap().len(), 1);
        assert_eq!(load_changed("\"kernels\"", "\"kernels\"").unwrap().len(), 2);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        for (from, to) in [("\"choice\"", "\"chance\""), ("{", ""), ("\"batch\": 1", "\"batch\": -1")] {
            let error = load_changed(from, to).unwrap_err();
            assert!(matches!(error, AutotuneFileError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("changed.json is no file of an autotune, or is damaged: "), "{error}");
            assert!(error.to_string().contains(" at line "), "{error}");
        }
    }

    #[test]
    fn a_file_that_was_cut_off_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.json");
        save(&path, &decisions()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for length in [0, 1, text.len() / 2, text.len() - 1] {
            fs::write(&path, &text[..length]).unwrap();
            assert!(matches!(load(&path), Err(AutotuneFileError::Damaged { .. })), "{length} bytes");
        }
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(load(&path), Err(AutotuneFileError::Damaged { .. })), "no text");
    }

    /// The link was replaced, and its target as it had been; a device became a file.
    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_is_replaced_and_no_device_ever() {
        use std::os::unix::{fs::PermissionsExt, fs::symlink, net::UnixListener};

        let dir = tempfile::tempdir().unwrap();
        let [path, link, socket] = ["tuned.json", "link.json", "socket"].map(|name| dir.path().join(name));
        save(&path, &BTreeMap::new()).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        save(&link, &decisions()).unwrap();
        assert!(link.is_symlink());
        assert_eq!(load(&path).unwrap(), decisions());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);

        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(matches!(save(&socket, &decisions()), Err(AutotuneFileError::Write { .. })));
        assert!(matches!(load(&socket), Err(AutotuneFileError::Read { .. })));
        assert!(!socket.is_file());
    }

    #[test]
    fn another_format_is_named() {
        let error = load_changed(FORMAT, "conv-transpose autotune 9").unwrap_err();
        assert!(matches!(&error, AutotuneFileError::Format { found, .. } if found.ends_with('9')), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_and_a_place_that_cannot_be_written_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none").join("tuned.json");
        assert!(matches!(load(&missing), Err(AutotuneFileError::Read { path, .. }) if path == missing));
        assert!(matches!(save(&missing, &decisions()), Err(AutotuneFileError::Write { path, .. }) if path == missing));
    }
}
