//! The tape of real-number operations: format, writer, reader, evaluator. Knows no machine code.
//!
//! A recorded program's active variables are identified by *indices* 1, 2, 3, ...; index 0 is passive. The operation that created
//! index `i` is the tape's record `i`: which [`Operation`], the indices of up to two operands, and the operand values that the partial
//! derivatives need. Operands precede their operation, so the order of indices is a topological order, and one pass over the tape
//! from its end propagates bar values (reverse mode), one pass from its beginning dot values (forward mode).
//!
//! - [`TapeWriter`] is the recorder's side: threads fill [`Chunk`]s of [`Record`]s and hand them in.
//! - [`Tape`] is a recording on disk: [`Tape::reverse`] and [`Tape::forward`] evaluate it, [`Tape::statistics`], [`Tape::print`],
//!   [`Tape::export`] and [`import`] look at it and convert it, [`values`] reads and writes the evaluator's text files.
//! - `docs/tape-format.md` describes the files to the byte.

mod adjoint;
mod decode;
mod encode;
mod error;
mod evaluate;
mod exchange;
mod form;
mod format;
pub mod guard;
mod index_list;
mod inspect;
mod lookup;
pub mod operation;
mod period;
mod propagate;
mod queue;
mod reader;
mod record;
mod repeat;
mod run;
mod sequence;
mod sink;
mod stream;
pub mod values;
mod writer;

pub use decode::Partials;
pub use error::{Result, TapeError};
pub use evaluate::{Progress, Sweep};
pub use exchange::import;
pub use format::Process;
pub use inspect::{Dependence, OperationCount, Statistics};
pub use operation::Operation;
pub use reader::{Format, Tape};
pub use record::{Chunk, INDEX_BITS, INDEX_MASK, Record};
pub use writer::TapeWriter;
