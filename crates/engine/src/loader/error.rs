//! Why a program cannot be started.

use std::io;
use std::path::PathBuf;

/// Why a program cannot be started. [`LoadError::exit_code`] gives the exit status that a shell would give.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No program was named.
    #[error("no program given; name the program to run, followed by its arguments")]
    NoProgram,
    /// No such file, or nothing of that name in `PATH`.
    #[error("{}: no such file{}", .path.display(), if *.searched { " in any directory of PATH; give a path that contains a slash if it is elsewhere" } else { "; check the path" })]
    NotFound {
        /// The name as given.
        path: PathBuf,
        /// Whether it was looked for in `PATH`.
        searched: bool,
    },
    /// The name is a directory's.
    #[error("{}: is a directory; name an executable file", .0.display())]
    Directory(PathBuf),
    /// Neither a regular file nor a directory.
    #[error("{}: not a regular file; name an executable file", .0.display())]
    NotRegular(PathBuf),
    /// Execute permission is missing.
    #[error("{}: permission denied; make it executable (chmod +x) and its directories searchable", .0.display())]
    Permission(PathBuf),
    /// The file is empty.
    #[error("{}: the file is empty; was it built completely?", .0.display())]
    Empty(PathBuf),
    /// A text file without `#!`.
    #[error(
        "{}: a text file without an interpreter line; add one like \"#!/bin/sh\" as its first line, or run its interpreter, as in `sh FILE`",
        .0.display()
    )]
    NoInterpreterLine(PathBuf),
    /// Neither ELF nor a script.
    #[error("{}: not an executable format that derivgrind knows (ELF or a #! script)", .0.display())]
    UnknownFormat(PathBuf),
    /// The file ends before what its headers announce.
    #[error("{}: truncated or damaged ELF file ({detail}); build or copy it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is missing.
        detail: String,
    },
    /// A 32-bit x86 program.
    #[error("{}: a 32-bit x86 program; derivgrind runs 64-bit programs only: build it without -m32", .0.display())]
    ThirtyTwoBit(PathBuf),
    /// Another processor architecture.
    #[error("{}: built for another processor ({architecture}); derivgrind runs amd64 programs", .path.display())]
    ForeignArchitecture {
        /// The file.
        path: PathBuf,
        /// Name or number of the architecture.
        architecture: String,
    },
    /// An object file, core dump or the like.
    #[error("{}: an ELF file, but not a program ({kind}); link it to an executable first", .path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },
    /// The interpreter of a script or dynamically linked program is unusable.
    #[error("{}: its interpreter {} cannot be used: {source}", .path.display(), .interpreter.display())]
    BadInterpreter {
        /// The program.
        path: PathBuf,
        /// What it names as its interpreter.
        interpreter: PathBuf,
        /// Why that cannot be used.
        source: Box<LoadError>,
    },
    /// The `#!` line names no interpreter.
    #[error("{}: its #! line names no interpreter; write for example \"#!/bin/sh\"", .0.display())]
    EmptyInterpreterLine(PathBuf),
    /// Scripts that name scripts as interpreters, too deep or in a circle.
    #[error("{}: too many levels of #! interpreters (the kernel follows four); name a binary as the interpreter", .0.display())]
    TooManyInterpreters(PathBuf),
    /// The program wants addresses that it cannot have.
    #[error("{}: cannot be mapped at {address:#x} (error {error}); it wants addresses outside of 0x10000..2^43 or memory is exhausted", .path.display())]
    Mapping {
        /// The file.
        path: PathBuf,
        /// Where the segment belongs.
        address: u64,
        /// Error number of `mmap`.
        error: i32,
    },
    /// Arguments and environment are too large for the stack.
    #[error(
        "arguments and environment need {bytes} bytes, more than a quarter of the stack; shorten them or raise the limit (ulimit -s)"
    )]
    ArgumentsTooLong {
        /// Bytes needed.
        bytes: u64,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LoadError {
    /// The exit status of a shell that fails to start this program: 127 if there is no such program, 126 if there is one that cannot
    /// be run.
    pub fn exit_code(&self) -> i32 {
        match self {
            LoadError::NotFound { .. } | LoadError::NoProgram => 127,
            LoadError::BadInterpreter { source, .. } => source.exit_code(),
            _ => 126,
        }
    }

    /// Classifies a failure to open or stat `path`.
    pub(super) fn from_io(path: PathBuf, source: io::Error) -> LoadError {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => LoadError::NotFound { path, searched: false },
            Some(libc::EACCES | libc::EPERM) => LoadError::Permission(path),
            _ => LoadError::Unreadable { path, source },
        }
    }
}
