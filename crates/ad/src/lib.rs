//! From machine instructions to derivatives: lifting, AD IR, rules, recording and forward mode.

pub mod analysis;
mod arrays;
pub mod bit_tricks;
pub mod compression;
pub mod declared;
pub mod forward;
pub mod instrument;
pub mod ir;
pub mod lift;
pub mod math;
pub mod perturb;
pub mod recorder;
mod rounding;
pub mod shadow;
pub mod x87;

pub use forward::Forward;
pub use recorder::{Recorder, Settings};
