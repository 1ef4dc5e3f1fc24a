//! Where the writer's bytes go: a file, out of the way of the recorded program, or a substitute that fails on purpose.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Result, TapeError};

/// Something that bytes can be written to at an offset, from several threads.
pub(crate) trait Sink: Send + Sync {
    /// Writes all bytes at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// The file descriptor, or -1.
    fn descriptor(&self) -> i32 {
        -1
    }
}

/// A file whose descriptor is out of the program's way.
pub(crate) struct FileSink(File);

impl FileSink {
    /// Creates the file or empties it.
    pub(crate) fn create(path: &Path) -> Result<FileSink> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|source| TapeError::io("create", path, source))?;
        Ok(FileSink(move_out_of_the_way(file)))
    }
}

impl Sink for FileSink {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Retries when interrupted; written with a system call and not through a mapping, where a full disk means SIGBUS.
        self.0.write_all_at(bytes, offset)
    }

    fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Descriptors are given out from the lowest number: the program must get those that it gets without us. So ours move up to the limit.
fn move_out_of_the_way(file: File) -> File {
    // The kernel's table is as long as the greatest descriptor, and each fork copies it.
    const HIGHEST: u64 = 1 << 14;
    const SPAN: u64 = 24;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(HIGHEST).min(HIGHEST);
    let lowest = limit.saturating_sub(SPAN) as i32;
    match rustix::io::fcntl_dupfd_cloexec(&file, lowest) {
        Ok(descriptor) => File::from(descriptor),
        // No free descriptor up there: then it stays where it is, which few programs notice.
        Err(_) => file,
    }
}
