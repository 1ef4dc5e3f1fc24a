//! A thread's part of the tape: its chunk, and recording from Rust.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use derivgrind_engine::context::Context;
use derivgrind_tape::operation::BINARY32;
use derivgrind_tape::{Chunk, INDEX_MASK, Operation, Record, TapeError, guard};

use crate::bit_tricks::index_and_factor;
use crate::instrument::{MODE_FIELDS, Thread, lost_at, lost_in_pieces};
use crate::ir::Format;
use crate::shadow::{NARROW_LIMIT, NARROW_TAG, WIDE_TAG};

use super::layout::TapeFields;
use super::{errors, tape};

/// Contexts with a chunk, so that all chunks can be handed in at exit, whatever the threads are doing.
static THREADS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn threads() -> MutexGuard<'static, BTreeSet<usize>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fewest indices of a chunk.
const SMALLEST_CHUNK: usize = 64;

/// What a thread can do with the tape.
pub(super) trait TapeThread {
    /// The recorder's fields shared with cached code.
    fn tape_fields(&mut self) -> &mut TapeFields;
    /// The thread takes part from now on.
    fn begin(&mut self);
    /// Hands in what the thread has recorded; it records no more.
    fn end(&mut self);
    /// Writes a record and returns its index without a tag; 0 if all operands are passive or nothing can be recorded. Operands may carry the tag of binary64.
    ///
    /// For [`Operation::Partials`] the values are the partial derivatives. `format` is that of the result.
    fn record(&mut self, operation: Operation, format: Format, operands: [u64; 2], values: [f64; 2]) -> u64;
    /// The index in the shadow of a binary64 number, with the factor that waits there recorded ([`index_and_factor`]); `None` if these are pieces of other indices.
    fn settle(&mut self, word: u64) -> Option<u64>;
    /// Writes a finished record and returns its index without a tag, or 0.
    fn push(&mut self, record: Record, format: Format) -> u64;
    /// Index of the next record, without tag.
    fn next_index(&mut self) -> u64;
    /// Sees to it that a record can be written whose operands' indices are at most `highest`. `false` if nothing is to be recorded.
    fn make_room(&mut self, highest: u64) -> bool;
    /// Gets a chunk for the thread.
    fn take_chunk(&mut self);
    /// Leaves no room in the thread's chunk.
    fn close_chunk(&mut self);
    /// Gives the room back that [`TapeThread::close_chunk`] has taken.
    fn open_chunk(&mut self);
    /// Hands the thread's chunk in.
    fn submit_chunk(&mut self);
}

impl TapeThread for Thread<'_> {
    fn tape_fields(&mut self) -> &mut TapeFields {
        let fields = &raw mut self.context_mut().tool[MODE_FIELDS];
        // SAFETY: `layout` asserts that the fields fit; the tool's part is aligned for u64 within the context and any bytes are valid
        // integers.
        unsafe { &mut *fields.cast::<TapeFields>() }
    }

    fn begin(&mut self) {
        threads().insert(&raw const *self.context() as usize);
    }

    fn end(&mut self) {
        threads().remove(&(&raw const *self.context() as usize));
        self.submit_chunk();
    }

    fn record(&mut self, operation: Operation, format: Format, operands: [u64; 2], values: [f64; 2]) -> u64 {
        debug_assert!(operation.code() & BINARY32 == 0);
        let operands = operands.map(|operand| operand & !WIDE_TAG);
        if operands == [0, 0] && operation != Operation::Partials {
            return 0;
        }
        self.push(Record::binary64(operation, operands, values), format)
    }

    fn settle(&mut self, word: u64) -> Option<u64> {
        match index_and_factor(word)? {
            (index, 1.0) => Some(index),
            (index, factor) => Some(self.record(Operation::Partials, Format::Binary64, [index, 0], [factor, 0.0])),
        }
    }

    fn push(&mut self, mut record: Record, format: Format) -> u64 {
        let highest = record.operands().into_iter().max().unwrap_or(0);
        if !self.make_room(highest) {
            return 0;
        }
        let index = self.next_index();
        if format == Format::Binary32 && index >= NARROW_LIMIT {
            errors::narrow_overflow();
            lost_at(self.context().rip);
            return 0;
        }
        for operand in [&mut record.operand1, &mut record.operand2] {
            if *operand & INDEX_MASK != 0 {
                *operand |= guard::WIDE_TAG;
            }
        }
        let fields = self.tape_fields();
        // SAFETY: `make_room` has made sure that the cursor points to a free record of this thread's chunk.
        unsafe { (fields.cursor as *mut Record).write(record) };
        fields.cursor += Record::BYTES as u64;
        index
    }

    fn next_index(&mut self) -> u64 {
        let fields = self.tape_fields();
        (fields.cursor / Record::BYTES as u64).wrapping_add(fields.narrow_bias).wrapping_sub(NARROW_TAG)
    }

    fn make_room(&mut self, highest: u64) -> bool {
        if self.fields().disabled != 0 || tape_is_lost() {
            return false;
        }
        let next = self.next_index();
        let fields = self.tape_fields();
        if fields.chunk != 0 {
            let full = fields.cursor == fields.end;
            if !full && highest < next {
                return true;
            }
            // A thread that goes on with other threads' results abandons the rest of its chunk each time: it gets smaller ones.
            let used = (fields.cursor - fields.chunk_start) / Record::BYTES as u64;
            fields.appetite = (if full { 4 } else { 2 } * used).max(1);
        }
        self.submit_chunk();
        self.take_chunk();
        // An index that nobody has handed out cannot be the program's doing.
        highest < self.next_index()
    }

    fn take_chunk(&mut self) {
        let wanted = match self.tape_fields().appetite {
            0 => Chunk::RECORDS,
            appetite => (appetite as usize).clamp(SMALLEST_CHUNK, Chunk::RECORDS),
        };
        let mut chunk = Box::new(tape().take_chunk_of(wanted));
        let start = chunk.records() as u64;
        let first_slot = start / Record::BYTES as u64;
        let bias = chunk.first_index().wrapping_sub(first_slot);
        let used = chunk.start() as u64;
        let fields = self.tape_fields();
        fields.chunk_start = start;
        fields.cursor = start + used * Record::BYTES as u64;
        fields.end = start + (chunk.capacity() * Record::BYTES) as u64;
        fields.narrow_bias = bias.wrapping_add(NARROW_TAG);
        fields.wide_bias = bias.wrapping_add(WIDE_TAG);
        fields.chunk = Box::into_raw(chunk) as u64;
    }

    fn close_chunk(&mut self) {
        let fields = self.tape_fields();
        fields.end = fields.cursor;
    }

    fn open_chunk(&mut self) {
        let fields = self.tape_fields();
        // SAFETY: `take_chunk` made it with Box::into_raw, and `submit_chunk` clears the field before it gives the box away.
        if let Some(chunk) = unsafe { (fields.chunk as *const Chunk).as_ref() } {
            fields.end = fields.chunk_start + (chunk.capacity() * Record::BYTES) as u64;
        }
    }

    fn submit_chunk(&mut self) {
        let fields = self.tape_fields();
        let chunk = std::mem::take(&mut fields.chunk);
        if chunk == 0 {
            return;
        }
        let used = (fields.cursor - fields.chunk_start) as usize / Record::BYTES;
        (fields.cursor, fields.end) = (0, 0);
        // SAFETY: `take_chunk` made it with Box::into_raw, and it has just been taken out of the fields.
        let chunk = unsafe { Box::from_raw(chunk as *mut Chunk) };
        tape().submit(*chunk, used);
    }
}

/// Whether the tape cannot take more: a write has failed, or the program has ended.
fn tape_is_lost() -> bool {
    tape().error().is_some()
}

/// To be held across `fork`.
pub(super) fn lock_for_fork() -> impl Sized + 'static {
    threads()
}

/// In the child after `fork`.
pub(super) fn fork_child(context: &mut Context) {
    let own = &raw const *context as usize;
    threads().retain(|&thread| thread == own);
    if let Err(error) = tape().fork_child(std::process::id()) {
        errors::tape_error(&error);
    }
}

/// Hands in the chunks of all threads.
pub(super) fn hand_in() {
    for &thread in threads().iter() {
        // SAFETY: contexts of live threads are in the set. Another thread may still be recording: it then writes beyond what is handed
        // in here, in memory that stays allocated.
        let context = unsafe { &mut *(thread as *mut Context) };
        Thread::new(context).submit_chunk();
    }
}

/// Makes the registers of all threads passive.
pub(super) fn clear_registers() {
    for &thread in threads().iter() {
        // SAFETY: contexts of live threads are in the set. A thread that goes on at this moment may keep an index for as long as a block takes.
        let context = unsafe { &mut *(thread as *mut Context) };
        Thread::new(context).clear_registers();
    }
}

/// Hands in the chunks of all threads and completes the tape.
pub(super) fn finish() {
    hand_in();
    if let Err(error) = complete() {
        errors::tape_error(&error);
    }
}

/// Completes the tape and counts what has been found on it.
pub(super) fn complete() -> Result<(), TapeError> {
    let finished = tape().finish();
    lost_in_pieces(tape().take_broken_operands());
    finished
}

/// Takes [`finish`] back: threads get new chunks with their next records.
pub(super) fn resume() {
    if let Err(error) = tape().resume() {
        errors::tape_error(&error);
    }
}
