//! Hashes as text.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// What was hashed, in hexadecimal.
pub(crate) fn hex(hasher: Sha256) -> String {
    let mut hex = String::new();
    for byte in hasher.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
