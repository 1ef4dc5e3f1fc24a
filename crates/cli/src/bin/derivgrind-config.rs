//! The `derivgrind-config` command: what a compiler needs to know.
#![no_main]

use std::ffi::{c_char, c_int};

/// The C entry point; see [`derivgrind::start`].
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    derivgrind::start::run(derivgrind::commands::derivgrind_config)
}
