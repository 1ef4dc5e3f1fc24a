//! Messages to the user: on the standard error stream, each with our name in front.

use std::io::Write;

/// Prints an error.
pub fn error(message: &str) {
    print(message);
}

/// Prints what the user should know, unless `quiet`.
pub fn note(quiet: bool, message: &str) {
    if !quiet {
        print(message);
    }
}

fn print(message: &str) {
    // One write, so that lines of several processes do not mix. There is nobody to tell if it fails.
    let _ = std::io::stderr().write_all(format!("derivgrind: {}\n", message.trim_end()).as_bytes());
}
