//! Translation: decode a basic block, let the tool annotate it, write machine code into the code cache.

mod assembler;
mod block;
mod client_request;
mod control_flow;
mod emitter;
mod liveness;
mod null;
mod operand;
pub mod registers;
pub(crate) mod trampolines;

pub use assembler::{Assembler, Condition, Label};
pub use block::{Block, BlockEnd, Emulated, Fault, Scratch};
pub use client_request::Request;
pub use emitter::{Emitter, Helper, HelperNext};
pub use liveness::STATUS_FLAGS;
pub(crate) use liveness::flags_overwritten;
pub use null::NullTool;
pub use operand::{context_indexed, context_memory, memory};
pub use trampolines::{XsaveLayout, xsave_layout};

pub(crate) use emitter::{Exit, ExitKind, LookupSite, Recovery, translate};
