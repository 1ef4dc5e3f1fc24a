//! From machine instructions to derivatives: lifting, AD IR, rules, recording.

pub mod analysis;
pub mod bit_tricks;
pub mod ir;
pub mod lift;
pub mod math;
pub mod recorder;
pub mod shadow;

pub use recorder::{Recorder, Settings};
