//! What the suites of whole programs share.
//!
//! Each suite in `suites/` is a test executable that runs real programs natively and under derivgrind and compares. A case has a
//! name, a group of prerequisites, and ends as passed, failed, known failure or skipped: see [`suite`].

pub mod compiler;
pub mod document;
pub mod formula;
pub mod numbers;
pub mod process;
pub mod recording;
pub mod suite;

use std::path::{Path, PathBuf};

/// Root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"))
}

/// Directory of the binaries under test: `DERIVGRIND_TEST_BINARIES`, or the directory above the one of the running test.
pub fn binaries() -> PathBuf {
    if let Some(directory) = std::env::var_os("DERIVGRIND_TEST_BINARIES") {
        return directory.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

/// Path of the `derivgrind` binary under test.
pub fn derivgrind() -> PathBuf {
    binaries().join("derivgrind")
}

/// Whether the long form of each suite was asked for.
pub fn full() -> bool {
    std::env::var_os("DERIVGRIND_TEST_FULL").is_some()
}
