//! The tape of real-number operations: format, writer, reader, evaluator. Knows no machine code.
//!
//! A recorded program's active variables are identified by *indices* 1, 2, 3, ...; index 0 is passive. The operation that created
//! index `i` is the tape's record `i`: which [`Operation`], the indices of up to two operands, and the operand values that the partial
//! derivatives need. Operands precede their operation, so the order of indices is a topological order, and one pass over the tape
//! from its end propagates bar values (reverse mode), one pass from its beginning dot values (forward mode).
//!
//! - [`TapeWriter`] is the recorder's side: threads fill [`Chunk`]s of [`Record`]s and hand them in.
//! - `docs/tape-format.md` describes the files to the byte.

mod encode;
mod error;
mod format;
mod index_list;
pub mod operation;
mod queue;
mod record;
mod sink;
mod writer;

pub use error::{Result, TapeError};
pub use format::Process;
pub use operation::Operation;
pub use record::{Chunk, INDEX_BITS, INDEX_MASK, Record};
pub use writer::TapeWriter;
