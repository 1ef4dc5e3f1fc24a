//! The commands `derivgrind`, `tape-evaluation` and `derivgrind-config`.
//!
//! This crate only connects: programs are run by `derivgrind-engine` with the tools of `derivgrind-ad`, tapes are read and
//! evaluated by `derivgrind-tape`.

pub mod arguments;
pub mod commands;
pub mod difference;
pub mod failure;
pub mod fortran;
pub mod gradient;
pub mod messages;
pub mod npy;
pub mod progress;
pub mod recorder;
pub mod recording;
pub mod repeated;
pub mod start;
pub mod tape_size;
