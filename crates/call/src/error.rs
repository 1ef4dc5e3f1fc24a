//! What can go wrong with a call.

use std::io;
use std::time::Duration;

use derivgrind_tape::TapeError;

/// Why a function could not be called or did not return.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The library cannot be loaded, or it has no such function.
    #[error("{0}")]
    Load(String),
    /// The worker process cannot be started.
    #[error("cannot start the process that calls the library: {0}")]
    Start(String),
    /// The call was refused before the function was entered, or its recording failed.
    #[error("{0}")]
    Refused(String),
    /// The function has ended its process.
    #[error("{0}")]
    Died(String),
    /// Something was written or accessed beside an array.
    #[error("{0}")]
    OutOfBounds(String),
    /// The function has not returned in time.
    #[error("{symbol} did not return within {} s and was stopped; is there an endless loop? A longer timeout allows more", limit.as_secs_f64())]
    Timeout {
        /// The function.
        symbol: String,
        /// The limit.
        limit: Duration,
    },
    /// The caller did not want to wait any longer.
    #[error("interrupted")]
    Interrupted,
    /// Communication with the worker failed.
    #[error("cannot communicate with the process that calls the library: {0}")]
    Communication(#[from] io::Error),
    /// The recording cannot be read.
    #[error("the recording of the call is unusable: {0}")]
    Tape(#[from] TapeError),
}

/// Names of the signals that end processes.
const SIGNALS: &[(i32, &str, &str)] = &[
    (libc::SIGSEGV, "SIGSEGV", "it accessed memory that it does not have"),
    (libc::SIGBUS, "SIGBUS", "it accessed memory that it does not have"),
    (
        libc::SIGABRT,
        "SIGABRT",
        "it called abort: a failed assertion, an exception that nobody caught, or a damaged heap; it may have said more on standard error",
    ),
    (libc::SIGFPE, "SIGFPE", "a whole number was divided by zero, or a floating-point exception was not masked"),
    (libc::SIGILL, "SIGILL", "it met an instruction that does not exist; was the library built for another processor?"),
    (libc::SIGTRAP, "SIGTRAP", "it met a breakpoint"),
    (libc::SIGKILL, "SIGKILL", "somebody killed it; was memory short?"),
    (libc::SIGTERM, "SIGTERM", "somebody ended it"),
    (libc::SIGINT, "SIGINT", "it was interrupted"),
    (libc::SIGXCPU, "SIGXCPU", "its limit of processor time was reached"),
    (libc::SIGPIPE, "SIGPIPE", "it wrote to a closed pipe"),
];

/// Name and usual reason of a signal.
pub(crate) fn signal(number: i32) -> (String, &'static str) {
    match SIGNALS.iter().find(|(known, ..)| *known == number) {
        Some((_, name, reason)) => ((*name).to_owned(), reason),
        None => (format!("signal {number}"), "no usual reason is known"),
    }
}
