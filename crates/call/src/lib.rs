//! Calls functions of compiled libraries, and records them for differentiation.
//!
//! A [`Session`] keeps a library in a process of its own, the worker. Under `derivgrind record` that keeps engine, library and code cache
//! warm from call to call, each of which gets a tape of its own; a crash of the library's code is an error and no more. A C
//! [`Prototype`] says how a function is called. Arrays and tapes go through shared memory.

mod error;
mod guarded;
mod memory;
mod message;
pub mod native;
pub mod prototype;
mod session;
mod tools;
pub mod worker;

pub use error::CallError;
pub use prototype::Prototype;
pub use session::{ArrayValue, Mode, Outcome, Patience, Session, Value};
pub use tools::Tools;
