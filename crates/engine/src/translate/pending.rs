//! Stores to the context that a tool puts off: values that stay in scratch vector registers until they are stored, or overwritten.
//!
//! When the block is left because of a fault, the handler stores them in the block's stead.

use super::Emitter;

/// Bytes of a scratch vector register that belong into the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number of the scratch vector register: [`Emitter::scratch_vector`].
    pub register: u8,
    /// Where they begin in the register.
    pub within: u8,
    /// How many there are.
    pub bytes: u8,
    /// Their offset in the context.
    pub place: u32,
}

/// Which of a translation's pending stores there are: from one position up to another.
pub(crate) type PendingRange = (u32, u32);

impl Emitter<'_> {
    /// From here on these stores are put off, and no others.
    pub fn set_pending(&mut self, pending: &[Pending]) {
        let (start, end) = self.state.pending;
        if self.pending[start as usize..end as usize] == *pending {
            return;
        }
        let start = self.pending.len() as u32;
        self.pending.extend(pending);
        self.state.pending = (start, self.pending.len() as u32);
        self.note_state();
    }
}
