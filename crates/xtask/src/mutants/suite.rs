//! The tests that need no GPU, quick ones first, until one fails.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, bail};
use wait_timeout::ChildExt as _;

/// Tests that take longer run for ever.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Cargo's arguments and the random cases of each property, one run after the other. The last one is the whole suite.
/// The emulator runs the kernels.
const RUNS: &[(&[&str], &str)] = &[
    (&["-p", "conv-transpose", "--features", "emulator", "--test", "named_cases", "--test", "refusals"], "32"),
    (&["-p", "conv-transpose-kernels"], "64"),
    (&["-p", "conv-transpose", "--features", "emulator", "--lib", "--test", "shapes"], "32"),
    (&["-p", "conv-transpose", "--features", "emulator", "--test", "properties", "--test", "cpu_backend"], "32"),
    (&["-p", "conv-transpose", "-p", "conv-transpose-kernels", "--features", "conv-transpose/emulator"], "256"),
];

/// The tests of a copy of the repository.
pub(super) struct Suite {
    dir: PathBuf,
    target_dir: PathBuf,
    log: PathBuf,
}

/// What became of a fault.
pub(super) enum Outcome {
    /// The name of a test that fails.
    Caught(String),
    Survived,
}

impl Suite {
    pub fn new(dir: &Path, own_dir: &Path) -> Self {
        Self { dir: dir.to_owned(), target_dir: own_dir.join("target"), log: own_dir.join("output.txt") }
    }

    /// Runs until a test fails. Sources that do not compile are an error: no test has looked at them.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        for &(arguments, cases) in RUNS {
            if !self.cargo(&[arguments, &["--no-run"]].concat(), cases)?.is_some_and(|passed| passed) {
                bail!("it does not compile:\n{}", self.output()?);
            }
            match self.cargo(arguments, cases)? {
                Some(true) => {}
                Some(false) => return Ok(Outcome::Caught(failed_test(&self.output()?))),
                None => return Ok(Outcome::Caught(format!("running for {} minutes", PATIENCE.as_secs() / 60))),
            }
        }
        Ok(Outcome::Survived)
    }

    fn output(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// Whether `cargo test` succeeds; `None` if it does not end.
    ///
    /// The packages themselves are compiled without optimisation: that is where the time goes.
    fn cargo(&self, arguments: &[&str], cases: &str) -> anyhow::Result<Option<bool>> {
        let log = File::create(&self.log)?;
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.dir).arg("test").args(arguments);
        for package in ["conv-transpose", "conv-transpose-kernels"] {
            command.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
        }
        command.env("CARGO_TARGET_DIR", &self.target_dir).env("PROPTEST_CASES", cases);
        // The copy's PTX is not that of its kernels, see `renew_hash`; no test runs it.
        command.env("CONV_TRANSPOSE_PTX", "prebuilt");
        command.stdout(log.try_clone()?).stderr(log).process_group(0);
        let mut child = command.spawn().context("cannot run cargo")?;
        match child.wait_timeout(PATIENCE)? {
            Some(status) => Ok(Some(status.success())),
            None => end(child).map(|()| None),
        }
    }
}

/// Ends cargo and the tests that it runs.
fn end(mut child: Child) -> anyhow::Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("cannot run kill")?;
    child.wait()?;
    Ok(())
}

/// The first test that failed, and how many more.
fn failed_test(output: &str) -> String {
    let mut failed = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    match (failed.next(), failed.count()) {
        (Some(first), 0) => format!("`{first}`"),
        (Some(first), others) => format!("`{first}` and {others} more"),
        (None, _) => format!("a crash: {}", output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_test_that_failed_is_named() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest d ... FAILED\n\ntest result: FAILED. 1 passed\n";
        assert_eq!(failed_test(output), "`a::c` and 1 more");
        assert_eq!(failed_test("test e ... FAILED\n"), "`e`");
        assert!(failed_test("Caused by:\n  (signal: 11, SIGSEGV)\n").contains("SIGSEGV"));
    }
}
