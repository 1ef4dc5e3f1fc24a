//! Translation: decode a basic block, let the tool annotate it, write machine code into the code cache.

mod assembler;
mod block;
mod client_request;
mod control_flow;
mod emitter;
mod exits;
mod flags;
mod layers;
mod lent;
mod liveness;
mod null;
mod operand;
mod pending;
pub mod registers;
mod scratch;
pub(crate) mod trampolines;
mod vector_state;

pub use assembler::{Assembler, Condition, Label};
pub use block::{Block, BlockEnd, Emulated, Fault, Scratch};
pub use client_request::Request;
pub use emitter::Emitter;
pub use exits::{Helper, HelperNext};
pub use layers::Layered;
pub use liveness::STATUS_FLAGS;
pub(crate) use liveness::flags_overwritten;
pub use null::NullTool;
pub use operand::{context_indexed, context_memory, memory, replace_memory};
pub use pending::Pending;
pub use vector_state::{XsaveLayout, xsave_layout, xsave_offset};

pub(crate) use emitter::{LookupSite, Place, Recovery, Translation, translate};
pub(crate) use exits::{Exit, ExitKind};
pub(crate) use scratch::VECTOR_SLOTS;
