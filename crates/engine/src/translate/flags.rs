//! The application's status flags, put aside while emitted code changes them.

use std::mem::offset_of;

use iced_x86::Register;

use super::emitter::Emitter;
use super::operand::context_memory;
use super::scratch::aside;
use crate::context::Context;

impl Emitter<'_> {
    /// Puts the application's status flags aside if they are live before instruction `index`; they come back with
    /// [`Emitter::restore_flags`].
    pub fn save_flags(&mut self, index: usize) {
        if self.state.flags_saved || self.block.flags_live_before(index) == 0 {
            return;
        }
        self.emit_save_flags();
        self.state.flags_saved = true;
        self.note_state();
    }

    pub(super) fn emit_save_flags(&mut self) {
        self.asm.store(aside(), Register::RAX);
        self.asm.bytes(&[0x9f]); // lahf
        self.asm.bytes(&[0x0f, 0x90, 0xc0]); // seto al
        self.asm.store(context_memory(offset_of!(Context, saved_flags)), Register::RAX);
        self.asm.load(Register::RAX, aside());
    }

    /// Brings flags back that [`Emitter::save_flags`] has put aside.
    pub fn restore_flags(&mut self) {
        if self.state.flags_saved {
            self.emit_restore_flags();
            self.state.flags_saved = false;
            self.note_state();
        }
    }

    pub(super) fn emit_restore_flags(&mut self) {
        self.asm.store(aside(), Register::RAX);
        self.asm.load(Register::RAX, context_memory(offset_of!(Context, saved_flags)));
        self.asm.bytes(&[0x04, 0x7f]); // add al, 127: sets OF again
        self.asm.bytes(&[0x9e]); // sahf
        self.asm.load(Register::RAX, aside());
    }
}
