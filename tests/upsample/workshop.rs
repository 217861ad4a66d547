//! A directory to work in, and the program.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use image::DynamicImage;
use tempfile::TempDir;

pub struct Workshop {
    directory: TempDir,
    program: PathBuf,
}

impl Workshop {
    pub fn new() -> Self {
        // Cargo puts tests in `deps` and examples in `examples`, side by side.
        let test = std::env::current_exe().expect("the path of this test");
        let folder = test.parent().and_then(Path::parent).expect("the test lies two folders deep");
        let program = folder.join("examples").join(format!("upsample{}", std::env::consts::EXE_SUFFIX));
        assert!(program.is_file(), "{} is missing: build it with `cargo build --example upsample`", program.display());
        Self { directory: TempDir::new().expect("a temporary directory"), program }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file in the temporary directory");
    }

    pub fn put_image(&self, name: &str, image: &DynamicImage) {
        image.save(self.path(name)).expect("a picture in the temporary directory");
    }

    pub fn open(&self, name: &str) -> DynamicImage {
        image::open(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs the program in the directory; the arguments are separated by spaces.
    pub fn run(&self, arguments: &str) -> Output {
        let mut command = Command::new(&self.program);
        command.current_dir(self.directory.path()).args(arguments.split_whitespace());
        command.output().expect("the program starts")
    }

    /// Runs the program on the CPU, expects success, and returns what it printed.
    pub fn succeeds(&self, arguments: &str) -> String {
        let output = self.run(&format!("{arguments} --backend cpu"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "upsample {arguments}: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the program, expects a refusal in one line that leaves every file as it was, and returns that line.
    pub fn refuses(&self, arguments: &str) -> String {
        let before = self.files();
        let output = self.run(arguments);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "upsample {arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "upsample {arguments}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.len() > 12, "upsample {arguments}: {stderr}");
        assert!(output.stdout.is_empty(), "upsample {arguments}");
        assert!(self.files() == before, "upsample {arguments} changed files");
        stderr
    }

    /// Every file of the directory with its content.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.directory.path()).expect("the temporary directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
    }

    /// Enlarges an image and returns the result.
    pub fn enlarge(&self, image: &DynamicImage, filter: &str, scale: u32) -> DynamicImage {
        self.put_image("in.png", image);
        self.succeeds(&format!("in.png -o out.png --filter {filter} --scale {scale}"));
        self.open("out.png")
    }
}
