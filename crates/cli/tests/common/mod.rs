//! What the tests of the commands share.

// Each test executable uses a part of this.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Path of the `derivgrind` command.
pub const DERIVGRIND: &str = env!("CARGO_BIN_EXE_derivgrind");
/// Path of the `tape-evaluation` command.
pub const TAPE_EVALUATION: &str = env!("CARGO_BIN_EXE_tape-evaluation");
/// Path of the `derivgrind-config` command.
pub const DERIVGRIND_CONFIG: &str = env!("CARGO_BIN_EXE_derivgrind-config");

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command to its end.
pub fn run(command: &str, arguments: &[impl AsRef<OsStr>]) -> Ended {
    ended(Command::new(command).args(arguments).output().unwrap())
}

/// How a finished command ended.
pub fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// Asserts that it ended with a code and with messages that hold all of `words`.
    #[track_caller]
    pub fn says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("derivgrind: "), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "expected {word:?} in {self:?}");
        }
    }

    /// Asserts that it succeeded and printed no message.
    #[track_caller]
    pub fn succeeds(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        &self.stdout
    }
}

/// A block of the exchange format.
pub struct Block(pub [u64; 2], pub [f64; 2]);

/// A directory with a handmade recording in the exchange format.
pub struct Recording {
    directory: TempDir,
}

impl Recording {
    /// Writes a recording.
    pub fn new(blocks: &[Block], inputs: &[u64], outputs: &[u64]) -> Recording {
        let recording = Recording { directory: tempfile::tempdir().unwrap() };
        let mut bytes = Vec::new();
        for Block(indices, derivatives) in blocks {
            bytes.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
            bytes.extend(derivatives.iter().flat_map(|derivative| derivative.to_le_bytes()));
        }
        recording.write("dg-tape", bytes);
        let lines = |indices: &[u64]| indices.iter().map(|index| format!("{index}\n")).collect::<String>();
        recording.write("dg-input-indices", lines(inputs));
        recording.write("dg-output-indices", lines(outputs));
        recording
    }

    /// The product of two inputs, 3 and -4 (figure 1 of the paper).
    pub fn product() -> Recording {
        Recording::new(
            &[
                Block([0, 0], [0.0, 0.0]),
                Block([0, 0], [0.0, 0.0]),
                Block([0, 0], [0.0, 0.0]),
                Block([1, 2], [-4.0, 3.0]),
                Block([3, 0], [1.0, 0.0]),
            ],
            &[1, 2],
            &[4],
        )
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory as an argument.
    pub fn argument(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// Path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), content).unwrap();
    }

    /// Reads a file in it.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap()
    }

    /// Reads numbers, one a line.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        String::from_utf8(self.read(name)).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// `derivgrind eval`.
    pub fn evaluate(&self) -> Ended {
        run(DERIVGRIND, &["eval", self.argument()])
    }
}
