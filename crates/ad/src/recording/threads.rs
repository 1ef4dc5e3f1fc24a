//! Chunks of the tape and the threads that fill them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use derivgrind_engine::Context;
use derivgrind_tape::{Chunk, Operation, Record, TapeWriter};

use super::lost::Lost;
use super::state::{RECORD_SHIFT, State};
use crate::shadow::NARROW_LIMIT;

/// Who fills which chunk.
#[derive(Default)]
pub(super) struct Threads {
    /// By the address of the thread's context.
    chunks: Mutex<HashMap<usize, Chunk>>,
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the thread's chunk in, if it has one.
    pub fn retire(&self, context: &mut Context, writer: &TapeWriter) {
        let chunk = self.lock().remove(&key(context));
        let state = State::of(context);
        if let Some(chunk) = chunk {
            submit(chunk, state.cursor, writer);
        }
        (state.cursor, state.end, state.bias) = (0, 0, 0);
    }

    /// Gives the thread a new chunk in place of the one it has. All of its indices are greater than any index given out before.
    pub fn renew(&self, context: &mut Context, writer: &TapeWriter) {
        self.retire(context, writer);
        let mut chunk = writer.take_chunk();
        let records = chunk.records() as u64;
        let first = chunk.first_index();
        let start = records + (chunk.start() << RECORD_SHIFT) as u64;
        let state = State::of(context);
        state.cursor = start;
        state.end = records + ((Chunk::RECORDS as u64) << RECORD_SHIFT);
        state.bias = first.wrapping_sub(records >> RECORD_SHIFT);
        self.lock().insert(key(context), chunk);
    }

    /// Hands in the chunks of all threads, which may still be running.
    pub fn retire_all(&self, writer: &TapeWriter) {
        for (context, chunk) in self.lock().drain() {
            // SAFETY: a thread's context exists until `thread_exit` has removed its chunk from the map. The thread may be writing the
            // cursor at this moment; it is an aligned word.
            let cursor = unsafe { std::ptr::read_volatile(&raw const State::of(&mut *(context as *mut Context)).cursor) };
            submit(chunk, cursor, writer);
        }
    }

    /// In a child process: the other threads are gone, their chunks are the parent's business.
    pub fn forget_others(&self, context: &Context) {
        let own = key(context);
        let mut chunks = self.lock();
        let others: Vec<usize> = chunks.keys().copied().filter(|key| *key != own).collect();
        for other in others {
            std::mem::forget(chunks.remove(&other));
        }
    }
}

fn key(context: &Context) -> usize {
    std::ptr::from_ref(context) as usize
}

fn submit(mut chunk: Chunk, cursor: u64, writer: &TapeWriter) {
    let used = cursor.saturating_sub(chunk.records() as u64) >> RECORD_SHIFT;
    writer.submit(chunk, used as usize);
}

/// Appends a record from a helper and returns its index; 0 if recording is disabled, or if an index is impossible (which is counted).
pub(super) fn append(
    context: &mut Context,
    threads: &Threads,
    writer: &TapeWriter,
    lost: &Lost,
    record: Record,
    narrow: bool,
) -> u64 {
    if State::of(context).mask == 0 {
        return 0;
    }
    let greatest = record.operands().into_iter().max().unwrap_or(0);
    let full = |state: &State| state.cursor + (1 << RECORD_SHIFT) > state.end;
    let state = State::of(context);
    if full(state) || greatest >= state.index() {
        threads.renew(context, writer);
    }
    let index = State::of(context).index();
    if greatest >= index {
        // No such index has been given out: bytes of an index that was torn apart.
        lost.count(context.rip);
        return 0;
    }
    if narrow && index >= NARROW_LIMIT {
        lost.narrow_exhausted(context.rip);
        return 0;
    }
    let state = State::of(context);
    // SAFETY: the cursor points into the thread's chunk, before its end.
    unsafe { (state.cursor as *mut Record).write(record) };
    state.cursor += state.step;
    index
}

/// A record with partial derivatives.
pub(super) fn partials(operands: [u64; 2], partials: [f64; 2]) -> Record {
    Record::binary64(Operation::Partials, operands, partials)
}
