//! The block trace: address and version of each executed block, to find where a run goes astray.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::context::Context;

static TRACE: OnceLock<Mutex<BufWriter<File>>> = OnceLock::new();

/// Opens the trace.
pub(crate) fn start(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    TRACE.set(Mutex::new(BufWriter::new(file))).map_err(|_| io::Error::other("already tracing"))
}

/// Notes that a block is about to be executed. Written out at once, so that the last line is there even if the process dies.
pub(crate) fn block(context: &Context) {
    let Some(trace) = TRACE.get() else { return };
    let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
    // A full disk ends the trace, not the program.
    let _ = writeln!(trace, "{} {:#x} v{}", context.tid, context.rip, context.version.0).and_then(|()| trace.flush());
}
