//! What can go wrong with a tape, in the user's terms.

use std::io;
use std::path::{Path, PathBuf};

/// An error about a tape or the files beside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory was asked for.
    #[error("{} is not a directory; name a directory for the recording", path.display())]
    NotADirectory {
        /// What was named.
        path: PathBuf,
    },
    /// There is no tape.
    #[error("{} holds no recording: there is no file {}", directory.display(), file.display())]
    NoTape {
        /// The directory.
        directory: PathBuf,
        /// The missing file.
        file: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a tape: {what}", path.display())]
    NotATape {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// The format is newer or older than this program.
    #[error("{}: tape format version {found} is not supported (this program reads version {supported}); record the tape again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        supported: u32,
    },
    /// The recorded process did not come to its end, or its tape could not be written in full.
    #[error(
        "{} is incomplete: {reason}. Its derivatives would be wrong; record the tape again",
        path.display()
    )]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file ends too early or contradicts itself.
    #[error("{} is damaged at byte {offset}: {what}; record the tape again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// An operand does not come before its operation.
    #[error("{}: the operation with index {index} uses index {operand}, which {what}", path.display())]
    Order {
        /// The file.
        path: PathBuf,
        /// The operation.
        index: u64,
        /// The operand.
        operand: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A line of a text file cannot be understood.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What was found and what was expected.
        what: String,
    },
    /// A file of bar or dot values is missing.
    #[error("there is no file {}: write one of {wanted}", path.display())]
    NoValues {
        /// The file.
        path: PathBuf,
        /// What should be in there.
        wanted: String,
    },
    /// The number of bar or dot values is wrong.
    #[error(
        "{found} {values} given, but the recording has {expected} {variables}: give one for each, in the order of declaration"
    )]
    Seeds {
        /// "bar values" or "dot values".
        values: &'static str,
        /// "outputs" or "inputs".
        variables: &'static str,
        /// How many were given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// The adjoint vector does not fit.
    #[error("not enough memory for {indices} bar or dot values of {lanes} vectors: {source}")]
    Memory {
        /// Number of indices.
        indices: u64,
        /// Seed vectors in one pass.
        lanes: usize,
        /// The system's reason.
        source: io::Error,
    },
}

impl TapeError {
    /// Wraps a system error.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> TapeError {
        TapeError::Io { action, path: path.to_owned(), source }
    }
}

/// A result with a [`TapeError`].
pub type Result<T, E = TapeError> = std::result::Result<T, E>;
