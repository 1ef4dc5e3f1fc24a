//! A thread's shadow registers and the fields beside them, as helpers see them.

use derivgrind_engine::context::Context;

use super::layout::{FIELDS, Fields, file_start, layers};
use super::passive::FIRST_PATIENCE;
use crate::shadow::{FILE_BYTES, TEMPORARY};

/// Access to the shadow of application memory from helpers.
pub(crate) mod shadow_address {
    pub(crate) use derivgrind_engine::memory::user::{
        read_layer, read_shadow as read, write_layer, write_shadow as write,
    };
}

/// The calling thread's state.
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

    /// The context.
    pub(crate) fn context_mut(&mut self) -> &mut Context {
        self.context
    }

    /// The fields shared with cached code.
    pub(crate) fn fields(&mut self) -> &mut Fields {
        let fields = &raw mut self.context.tool[FIELDS];
        // SAFETY: `layout` asserts that the fields fit; the tool's part is aligned for u64 within the context and any bytes are valid
        // integers.
        unsafe { &mut *fields.cast::<Fields>() }
    }

    /// The same, to be read.
    pub(crate) fn shared_fields(&self) -> &Fields {
        let fields = &raw const self.context.tool[FIELDS];
        // SAFETY: as above.
        unsafe { &*fields.cast::<Fields>() }
    }

    /// Prepares a thread that has not run yet.
    pub(super) fn start(&mut self) {
        self.fields().countdown = FIRST_PATIENCE;
        self.fields().patience = FIRST_PATIENCE;
    }

    /// Bytes of a layer's shadow register file.
    pub fn shadow_file(&self, layer: usize, offset: u16, bytes: usize) -> &[u8] {
        &self.context.tool[file_start(layer) + usize::from(offset)..][..bytes]
    }

    /// Bytes of a layer's shadow register file.
    pub fn shadow_file_mut(&mut self, layer: usize, offset: u16, bytes: usize) -> &mut [u8] {
        &mut self.context.tool[file_start(layer) + usize::from(offset)..][..bytes]
    }

    /// Whether a shadow register is not passive, in any layer.
    pub fn has_active_registers(&self) -> bool {
        layers().any(|layer| self.shadow_file(layer, 0, TEMPORARY.into()).iter().any(|&byte| byte != 0))
    }

    /// Makes bytes of all layers' shadow register files passive.
    pub fn clear_file(&mut self, offset: u16, bytes: u16) {
        layers().for_each(|layer| self.shadow_file_mut(layer, offset, bytes.into()).fill(0));
    }

    /// Makes all registers passive.
    pub fn clear_registers(&mut self) {
        self.clear_file(0, FILE_BYTES);
    }

    /// Changes the `DG_DISABLE` counter and returns its previous value.
    pub(super) fn disable(&mut self, plus: u64, minus: u64) -> u64 {
        let previous = self.fields().disabled;
        self.fields().disabled = previous.wrapping_add(plus).wrapping_sub(minus);
        previous
    }
}
