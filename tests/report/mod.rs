//! What a test run tells about itself: what ran, and what was skipped for want of a GPU.

#![allow(dead_code, reason = "every test file includes this module and uses its own part of it")]

use std::{io::Write as _, path::Path};

/// Whether the driver of an NVIDIA GPU shows itself, natively or under WSL. Tests that need a GPU may not be skipped
/// then.
pub fn machine_has_gpu() -> bool {
    ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}

/// Writes a line to standard error, past the test harness, which captures `eprintln!`.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("standard error is open");
}
