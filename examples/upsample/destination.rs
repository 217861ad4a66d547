//! Where the result goes: checked before the work, written whole or not at all.

use std::{
    fs::{self, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use image::{ColorType, ImageFormat};

use crate::{
    arguments::Arguments,
    filter::Interpolation,
    picture::{BUNDLED_NAME, Picture},
};

/// The most links that are followed, as on Linux.
const MOST_LINKS: usize = 40;

/// A file to be written.
pub struct Destination {
    path: PathBuf,
    /// The file itself, where the path is that of a link.
    target: PathBuf,
    format: ImageFormat,
}

impl Destination {
    /// The file that the arguments name or imply. Refuses the input itself, and places where nothing can be written.
    pub fn choose(arguments: &Arguments) -> Result<Self> {
        let path = arguments.output.clone().unwrap_or_else(|| default_path(arguments));
        let context = || format!("cannot write {}", path.display());
        let format = format_of(&path).with_context(context)?;
        check_not_input(&path, arguments.source()).with_context(context)?;
        let target = target(&path).with_context(context)?;
        check_writable(&target).with_context(context)?;
        Ok(Self { path, target, format })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The colour type of the enlarged picture, if the format can hold it.
    pub fn colour(&self, picture: &Picture, interpolation: &Interpolation) -> Result<ColorType> {
        if self.format == ImageFormat::Png {
            return Ok(picture.colour);
        }
        let longest = u64::from(picture.width.max(picture.height)) * interpolation.scale as u64;
        ensure!(longest <= u64::from(u16::MAX), "a JPEG has at most {} pixels a side, not {longest}", u16::MAX);
        match picture.colour {
            ColorType::L8 | ColorType::L16 => Ok(ColorType::L8),
            ColorType::Rgb8 | ColorType::Rgb16 => Ok(ColorType::Rgb8),
            _ => bail!("a JPEG cannot hold the transparency of this picture: name a .png"),
        }
    }

    /// Writes the picture beside its place, then moves it there. It gets the permissions of the file that it replaces.
    pub fn write(&self, picture: &Picture) -> Result<()> {
        self.try_write(picture).with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn try_write(&self, picture: &Picture) -> Result<()> {
        let mut file = temporary_file(directory(&self.target))?;
        let mut writer = BufWriter::new(file.as_file_mut());
        picture.encode(&mut writer, self.format)?;
        writer.flush()?;
        drop(writer);
        if let Ok(facts) = fs::metadata(&self.target) {
            file.as_file().set_permissions(facts.permissions())?;
        }
        file.persist(&self.target)?;
        Ok(())
    }
}

/// `<name>-<scale>x.png` in the current directory.
fn default_path(arguments: &Arguments) -> PathBuf {
    let source = arguments.source().unwrap_or(Path::new(BUNDLED_NAME));
    let mut name = source.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}x.png", arguments.scale));
    name.into()
}

fn format_of(path: &Path) -> Result<ImageFormat> {
    match ImageFormat::from_path(path) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => Ok(format),
        _ => bail!("its name ends in none of .png, .jpg and .jpeg"),
    }
}

fn check_not_input(path: &Path, input: Option<&Path>) -> Result<()> {
    if let (Some(Ok(input)), Ok(path)) = (input.map(Path::canonicalize), path.canonicalize()) {
        ensure!(input != path, "it is the input");
    }
    Ok(())
}

/// Follows links to the file that they lead to, whether or not it is there.
fn target(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        // Whatever cannot be read as a link is none.
        let Ok(link) = fs::read_link(&target) else { return Ok(target) };
        target = directory(&target).join(link);
    }
    bail!("it is a link that leads nowhere")
}

fn check_writable(path: &Path) -> Result<()> {
    if let Ok(facts) = fs::metadata(path) {
        ensure!(!facts.is_dir(), "it is a directory");
        ensure!(facts.is_file(), "it exists, and is no regular file");
        // Replacing a file asks for no permission to write it.
        ensure!(!facts.permissions().readonly(), "it is read-only");
        OpenOptions::new().write(true).open(path)?;
    }
    let directory = directory(path);
    ensure!(directory.is_dir(), "the directory {} does not exist", directory.display());
    temporary_file(directory)?.close()?;
    Ok(())
}

/// The directory of a file; `.` for a bare name.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is removed again unless it is persisted, with the permissions of any newly made file.
fn temporary_file(directory: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.prefix(".upsample-").tempfile_in(directory)
}
