//! Analyses of the AD IR of a basic block.
//!
//! [`liveness`] goes backwards and drops what is overwritten before it is read; [`passivity`] goes forwards and drops what is passive
//! anyway. Neither knows how code is emitted.

pub mod liveness;
pub mod passivity;
mod ranges;

pub use passivity::Step;
pub use ranges::RegisterSet;
