//! Single machine instructions: which there are ([`forms`]), with which operands ([`operands`]), and what the host processor does with
//! them ([`Native`]).
//!
//! Tests use it to compare what the lifter says about an instruction, and what the whole tool makes of it, with the processor. An instruction
//! is executed on a [`Machine`]: all registers and a piece of memory, given and observed. The code around it comes from a [`Stage`].

mod execute;
pub mod forms;
mod machine;
pub mod operands;
mod random;
mod stage;

pub use execute::{Native, Refusal};
pub use machine::{DATA_BYTES, Machine, Pointer};
pub use random::Random;
pub use stage::{Registers, Stage};
