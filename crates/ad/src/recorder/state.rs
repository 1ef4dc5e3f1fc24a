//! A thread's recording state, as helpers see it: shadow registers, chunk, and recording from Rust.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::xsave_layout;
use derivgrind_tape::operation::BINARY32;
use derivgrind_tape::{Chunk, Operation, Record};

use crate::ir::Format;
use crate::shadow::{INDEX_BITS, NARROW_LIMIT, WIDE_TAG};

use super::layout::{FIELDS, Fields};
use super::passive::FIRST_PATIENCE;
use super::{summary, tape};

/// Access to the shadow of application memory from helpers.
pub(super) mod shadow_address {
    pub(in crate::recorder) use derivgrind_engine::memory::user::{read_shadow as read, write_shadow as write};
}

/// Contexts with a chunk, so that all chunks can be handed in at exit, whatever the threads are doing.
static THREADS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn threads() -> MutexGuard<'static, BTreeSet<usize>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's recording state.
pub struct Thread<'a> {
    context: &'a mut Context,
}

impl<'a> Thread<'a> {
    /// The state in a thread's context.
    pub fn new(context: &'a mut Context) -> Thread<'a> {
        Thread { context }
    }

    /// The context.
    pub fn context(&self) -> &Context {
        self.context
    }

    /// The fields shared with cached code.
    pub(super) fn fields(&mut self) -> &mut Fields {
        let fields = &raw mut self.context.tool[FIELDS];
        // SAFETY: `layout` asserts that the fields fit; the tool's part is aligned for u64 within the context and any bytes are valid
        // integers.
        unsafe { &mut *fields.cast::<Fields>() }
    }

    /// Prepares a thread that has not run yet.
    pub(super) fn start(&mut self) {
        self.fields().countdown = FIRST_PATIENCE;
        self.fields().patience = FIRST_PATIENCE;
        threads().insert(&raw const *self.context as usize);
    }

    /// Hands in what the thread has recorded; it records no more.
    pub(super) fn end(&mut self) {
        threads().remove(&(&raw const *self.context as usize));
        self.submit_chunk();
    }

    /// Bytes of the shadow register file.
    pub fn shadow_file(&self, offset: u16, bytes: usize) -> &[u8] {
        &self.context.tool[usize::from(offset)..usize::from(offset) + bytes]
    }

    /// Bytes of the shadow register file.
    pub fn shadow_file_mut(&mut self, offset: u16, bytes: usize) -> &mut [u8] {
        &mut self.context.tool[usize::from(offset)..usize::from(offset) + bytes]
    }

    /// The value of a YMM register.
    pub fn vector(&self, number: usize) -> [u8; 32] {
        /// Offset of the XMM registers in an XSAVE image, and of the bits that say which components are present.
        const XMM: usize = 160;
        const XSTATE_BV: usize = 512;
        const YMM_PRESENT: u8 = 4;
        let image = &self.context.vector_state;
        let mut value = [0; 32];
        value[..16].copy_from_slice(&image[XMM + 16 * number..][..16]);
        let high = xsave_layout().ymm_high;
        if high != 0 && image[XSTATE_BV] & YMM_PRESENT != 0 {
            value[16..].copy_from_slice(&image[high + 16 * number..][..16]);
        }
        value
    }

    /// Writes a record and returns its index without a tag; 0 if all operands are passive or nothing can be recorded. Indices may carry tags.
    ///
    /// For [`Operation::Partials`] the values are the partial derivatives. `format` is that of the result.
    pub fn record(&mut self, operation: Operation, format: Format, operands: [u64; 2], values: [f64; 2]) -> u64 {
        let operands = operands.map(|operand| operand & INDEX_BITS);
        if operands == [0, 0] && operation != Operation::Partials {
            return 0;
        }
        self.record_always(operation, format, operands, values)
    }

    /// As [`Thread::record`], also if all operands are passive.
    pub fn record_always(&mut self, operation: Operation, format: Format, operands: [u64; 2], values: [f64; 2]) -> u64 {
        debug_assert!(operation.code() & BINARY32 == 0);
        self.push(Record::binary64(operation, operands, values), format)
    }

    /// Writes a finished record and returns its index without a tag, or 0.
    pub(super) fn push(&mut self, record: Record, format: Format) -> u64 {
        let highest = record.operands().into_iter().max().unwrap_or(0);
        if !self.make_room(highest) {
            return 0;
        }
        let index = self.next_index();
        if format == Format::Binary32 && index >= NARROW_LIMIT {
            summary::narrow_overflow();
            return 0;
        }
        let fields = self.fields();
        // SAFETY: `make_room` has made sure that the cursor points to a free record of this thread's chunk.
        unsafe { (fields.cursor as *mut Record).write(record) };
        fields.cursor += Record::BYTES as u64;
        index
    }

    /// Index of the next record, without tag.
    pub(super) fn next_index(&mut self) -> u64 {
        let fields = self.fields();
        (fields.cursor / Record::BYTES as u64).wrapping_add(fields.narrow_bias)
    }

    /// Sees to it that a record can be written whose operands' indices are at most `highest`. `false` if nothing is to be recorded.
    pub(super) fn make_room(&mut self, highest: u64) -> bool {
        if self.fields().disabled != 0 || tape_is_lost() {
            return false;
        }
        let fields = self.fields();
        if fields.chunk != 0 && fields.cursor != fields.end && highest < self.next_index() {
            return true;
        }
        self.submit_chunk();
        self.take_chunk();
        // An index that nobody has handed out cannot be the program's doing.
        highest < self.next_index()
    }

    fn take_chunk(&mut self) {
        let mut chunk = Box::new(tape().take_chunk());
        let start = chunk.records() as u64;
        let first_slot = start / Record::BYTES as u64;
        let bias = chunk.first_index().wrapping_sub(first_slot);
        let used = chunk.start() as u64;
        let fields = self.fields();
        fields.chunk_start = start;
        fields.cursor = start + used * Record::BYTES as u64;
        fields.end = start + (Chunk::RECORDS * Record::BYTES) as u64;
        fields.narrow_bias = bias;
        fields.wide_bias = bias.wrapping_add(WIDE_TAG);
        fields.chunk = Box::into_raw(chunk) as u64;
    }

    fn submit_chunk(&mut self) {
        let fields = self.fields();
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

    /// Changes the `DG_DISABLE` counter and returns its previous value.
    pub(super) fn disable(&mut self, plus: u64, minus: u64) -> u64 {
        let previous = self.fields().disabled;
        let now = previous.wrapping_add(plus).wrapping_sub(minus);
        self.fields().disabled = now;
        if now != 0 {
            // Without room each operation takes the slow path, and that makes its result passive.
            self.submit_chunk();
        }
        previous
    }
}

/// Whether the tape cannot take more: a write has failed, or the program has ended.
fn tape_is_lost() -> bool {
    tape().error().is_some()
}

/// In the child after `fork`.
pub(super) fn fork_child(context: &mut Context) {
    let own = &raw const *context as usize;
    threads().retain(|&thread| thread == own);
    if let Err(error) = tape().fork_child(std::process::id()) {
        summary::tape_error(&error);
    }
}

/// Hands in the chunks of all threads and completes the tape.
pub(super) fn finish() {
    for thread in std::mem::take(&mut *threads()) {
        // SAFETY: contexts of live threads are in the set. Another thread may still be recording: it then writes beyond what is handed
        // in here, in memory that stays allocated, until the process ends in a moment.
        let context = unsafe { &mut *(thread as *mut Context) };
        Thread::new(context).submit_chunk();
    }
    if let Err(error) = tape().finish() {
        summary::tape_error(&error);
    }
}

const _: () = assert!(offset_of!(Context, tool).is_multiple_of(64) && FIELDS.is_multiple_of(64));
