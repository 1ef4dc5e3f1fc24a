//! The lists of inputs and outputs: text, one decimal index a line, in order of declaration.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Result, TapeError};
use crate::sink::Sink;

/// The writing side of a list.
pub(crate) struct IndexList {
    sink: Box<dyn Sink>,
    declared: AtomicU64,
    pending: Mutex<Pending>,
}

/// Text that is not in the file yet.
struct Pending {
    text: Vec<u8>,
    offset: u64,
    result: io::Result<()>,
}

impl IndexList {
    /// Text is written when so much has come together.
    const BUFFER: usize = 1 << 16;

    pub(crate) fn new(sink: Box<dyn Sink>) -> IndexList {
        let pending = Pending { text: Vec::with_capacity(Self::BUFFER + 24), offset: 0, result: Ok(()) };
        IndexList { sink, declared: AtomicU64::new(0), pending: Mutex::new(pending) }
    }

    /// Appends an index. An error is kept for [`flush`](Self::flush).
    pub(crate) fn declare(&self, index: u64) {
        self.declare_all(&[index]);
    }

    /// Appends indices, in order and without others between them.
    pub(crate) fn declare_all(&self, indices: &[u64]) {
        let mut pending = lock(&self.pending);
        for &index in indices {
            push_decimal(&mut pending.text, index);
            if pending.text.len() >= Self::BUFFER {
                pending.write(&*self.sink);
            }
        }
        self.declared.fetch_add(indices.len() as u64, Ordering::Relaxed);
    }

    /// How many indices have been declared.
    pub(crate) fn declared(&self) -> u64 {
        self.declared.load(Ordering::Relaxed)
    }

    /// Writes everything to the file.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut pending = lock(&self.pending);
        pending.write(&*self.sink);
        std::mem::replace(&mut pending.result, Ok(()))
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.sink.descriptor()
    }
}

impl Pending {
    fn write(&mut self, sink: &dyn Sink) {
        if self.result.is_ok() {
            self.result = sink.write_at(&self.text, self.offset);
        }
        self.offset += self.text.len() as u64;
        self.text.clear();
    }
}

/// Appends a line with a number. There may be millions, which the formatting machinery would make slow.
fn push_decimal(text: &mut Vec<u8>, mut number: u64) {
    let mut line = [b'\n'; 21];
    let mut start = line.len() - 1;
    loop {
        start -= 1;
        line[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&line[start..]);
}

/// Locks, also if a thread has panicked with the lock: what it guards is valid at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Reads a list.
pub(crate) fn read(path: &Path) -> Result<Vec<u64>> {
    let regular = fs::metadata(path).map(|metadata| metadata.is_file());
    let text = regular.and_then(|regular| match regular {
        true => fs::read(path),
        false => Err(io::Error::other("it is not a regular file")),
    });
    let text = text.map_err(|source| TapeError::io("read", path, source))?;
    let text = String::from_utf8_lossy(&text);
    let parse = |(number, line): (usize, &str)| {
        line.trim().parse().map_err(|_| TapeError::Line {
            path: path.to_owned(),
            line: number + 1,
            what: format!("expected a decimal index, found {:?}", shorten(line)),
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(parse).collect()
}

/// The beginning of a line, for error messages.
pub(crate) fn shorten(line: &str) -> String {
    const LONGEST: usize = 40;
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_in_decimal() {
        let mut text = Vec::new();
        let numbers = [0, 7, 10, 1_234_567_890, u64::MAX];
        numbers.iter().for_each(|&number| push_decimal(&mut text, number));
        assert_eq!(text, b"0\n7\n10\n1234567890\n18446744073709551615\n");
    }
}
