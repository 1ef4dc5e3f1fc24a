//! Registers that are free for a tool: reserved for a whole block, borrowed for an instruction or put aside, and given back.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::Assembler;
use super::emitter::{Emitter, State};
use super::operand::context_memory;
use super::registers::{self, RegisterSet, general, general_number};
use super::trampolines::{self, VectorWidth};
use super::vector_state;
use crate::context::{Context, Gpr};

impl Emitter<'_> {
    /// So many scratch vector registers can be reserved.
    pub const MOST_VECTORS: usize = VECTOR_SLOTS;

    /// Reserves scratch registers for the whole block, at most [`Emitter::MOST_VECTORS`] vector registers; they keep their values between instructions. As many are free as the
    /// tool has asked for in [`Tool::scratch`](crate::Tool::scratch).
    pub fn reserve(&mut self, generals: usize, vectors: usize) {
        assert!(vectors <= Self::MOST_VECTORS, "there are {VECTOR_SLOTS} places for their values");
        assert!(self.scratch_general.is_empty() && self.state.vectors == 0, "reserved once a block");
        assert!(vectors == 0 || self.scratch_vector.is_empty(), "of one kind or the other");
        self.scratch_general = self.block.used().free_general().take(generals).map(general).collect();
        if vectors != 0 {
            self.scratch_vector = self.block.used().free_vector().take(vectors).map(|n| n as u8).collect();
            self.state.vectors = ((1u16 << self.scratch_vector.len()) - 1) as u8;
        }
        self.spill_scratch();
    }

    /// The k-th reserved general register, as its 64-bit form.
    pub fn scratch(&self, k: usize) -> Register {
        self.scratch_general[k]
    }

    /// The k-th reserved vector register, as its XMM form.
    pub fn scratch_vector(&self, k: usize) -> Register {
        registers::xmm(usize::from(self.scratch_vector[k]))
    }

    /// How many vector registers are reserved.
    pub fn scratch_vectors(&self) -> usize {
        self.scratch_vector.len()
    }

    /// Whether a general register is reserved as scratch.
    pub fn is_scratch(&self, register: Register) -> bool {
        self.scratch_general.contains(&register)
    }

    fn spill_scratch(&mut self) {
        for register in self.scratch_general.clone() {
            self.asm.store(spill_slot(register), register);
            self.state.spilled |= 1 << register.number();
        }
        self.save_vectors();
        self.note_state();
    }

    /// Stores the scratch vector registers in use.
    pub(super) fn save_vectors(&mut self) {
        for (k, vector) in self.vectors_in_use() {
            trampolines::store_vector(&mut self.asm, vector_slot(k), vector);
        }
    }

    /// Slots and registers; registers that are borrowed have no slots.
    fn vectors_in_use(&self) -> Vec<(usize, u8)> {
        let used = self.state.vectors;
        let slots = self.scratch_vector.iter().copied().enumerate().take(VECTOR_SLOTS);
        slots.filter(|(k, _)| used & (1 << k) != 0).collect()
    }

    /// Borrows vector registers (given in their XMM forms) that instruction `index` does not use, in code without reserved ones, until
    /// [`Emitter::return_vectors`].
    pub fn borrow_vectors(&mut self, index: usize, count: usize) -> Vec<Register> {
        debug_assert_eq!(self.state.vectors, 0);
        let used = RegisterSet::of(&self.block.instructions()[index]);
        let mut borrowed = Vec::new();
        for number in used.free_vector().map(|number| number as u8) {
            let known = self.scratch_vector.iter().position(|&other| other == number);
            // An instruction has at most four vector registers: the eight slots suffice for any three others.
            let slot = match known {
                None if self.scratch_vector.len() < VECTOR_SLOTS => {
                    self.scratch_vector.push(number);
                    self.scratch_vector.len() - 1
                }
                None => continue,
                Some(slot) => slot,
            };
            if borrowed.len() < count {
                self.state.vectors |= 1 << slot;
                borrowed.push(registers::xmm(number.into()));
            }
            if borrowed.len() == count {
                break;
            }
        }
        self.save_vectors();
        self.note_state();
        borrowed
    }

    /// Gives back what [`Emitter::borrow_vectors`] has borrowed.
    pub fn return_vectors(&mut self) {
        self.load_vectors();
        self.state.vectors = 0;
        self.note_state();
    }

    /// Brings the application's registers and flags back, as the present state says. The state itself is unchanged: for exits in the
    /// middle of a block.
    pub(super) fn emit_restores(&mut self) {
        if self.state.flags_saved {
            self.emit_restore_flags();
        }
        if let Some(register) = self.state.temporary {
            self.asm.load(register, spill_slot(register));
        }
        if let Some(register) = self.state.mask {
            self.asm.push2m(vector_state::mask_load(), register, mask_slot());
        }
        if let Some(kept) = self.state.kept {
            // As before the instruction.
            self.asm.load(kept.address, spill_slot(kept.address));
            self.asm.load(kept.overwritten, spill_slot(kept.overwritten));
        }
        for register in self.scratch_general.clone() {
            if self.state.spilled & (1 << register.number()) != 0 {
                self.asm.load(register, spill_slot(register));
            }
        }
        self.load_vectors();
    }

    /// Loads the application's values of the scratch vector registers in use.
    ///
    /// Upper halves are loaded only if they can be other than zero, and else brought into the state of `vzeroupper`, which a load would end: while one register is
    /// not in this state, each legacy SSE instruction behind a VEX one costs more than a hundred cycles on many processors (Intel optimization manual, "Mixing AVX
    /// code with SSE code").
    fn load_vectors(&mut self) {
        let vectors = self.vectors_in_use();
        let load = |asm: &mut Assembler, width| {
            for &(k, vector) in &vectors {
                trampolines::load_vector(asm, vector, vector_slot(k), width);
            }
        };
        let width = trampolines::vector_width();
        if vectors.is_empty() || width == VectorWidth::Xmm || self.state.upper_noted {
            load(&mut self.asm, width);
            return;
        }
        let asm = &mut self.asm;
        asm.store(aside(), Register::RCX);
        asm.load(Register::RCX, context_memory(offset_of!(Context, upper_possible)));
        let zero = asm.short_branch(&[0xe3]); // jrcxz
        load(asm, width);
        let loaded = asm.short_branch(&[0xeb]); // jmp
        asm.bind_short(zero);
        asm.push(&Instruction::with(Code::VEX_Vzeroupper));
        load(asm, VectorWidth::Xmm);
        asm.bind_short(loaded);
        asm.load(Register::RCX, aside());
    }

    /// Gives all scratch registers back, at the end of the block.
    pub(super) fn release_scratch(&mut self) {
        self.end_instruction();
        self.restore_flags();
        self.emit_restores();
        self.state = State::default();
        self.note_state();
    }

    /// Notes whether the application's upper halves of vector registers can be other than zero from here on.
    pub(super) fn note_upper(&mut self, possible: bool) {
        self.asm.store_constant(context_memory(offset_of!(Context, upper_possible)), i32::from(possible));
        self.state.upper_noted = possible;
    }

    /// Puts a register of the application aside, to use it otherwise for a few instructions. It must not be a scratch register.
    pub fn put_aside(&mut self, register: Register) {
        self.asm.store(spill_slot(register), register);
        self.state.spilled |= 1 << register.number();
        self.note_state();
    }

    /// Brings back a register that [`Emitter::put_aside`] has put aside.
    pub fn bring_back(&mut self, register: Register) {
        self.asm.load(register, spill_slot(register));
        self.state.spilled &= !(1 << register.number());
        self.note_state();
    }

    /// Puts a mask register of the application aside. One at a time.
    pub fn put_mask_aside(&mut self, register: Register) {
        debug_assert!(self.state.mask.is_none());
        self.save_mask(register);
        self.state.mask = Some(register);
        self.note_state();
    }

    pub(super) fn save_mask(&mut self, register: Register) {
        let store = Instruction::with2(vector_state::mask_store(), mask_slot(), register);
        self.asm.push(&store.expect("kmov takes memory and register"));
    }

    /// Brings back what [`Emitter::put_mask_aside`] has put aside.
    pub fn bring_mask_back(&mut self) {
        if let Some(register) = self.state.mask.take() {
            self.asm.push2m(vector_state::mask_load(), register, mask_slot());
            self.note_state();
        }
    }
}

/// Where a register is for a few instructions, whether it is a scratch register or not: the slot of RSP, which is never spilled.
pub(super) fn aside() -> MemoryOperand {
    context_memory(offset_of!(Context, spill) + 8 * Gpr::Rsp as usize)
}

pub(super) fn spill_slot(register: Register) -> MemoryOperand {
    let number = general_number(register).expect("only general registers are spilled here");
    context_memory(offset_of!(Context, spill) + 8 * number)
}

/// Slots of `context.vector_spill`.
pub(crate) const VECTOR_SLOTS: usize = 8;

fn mask_slot() -> MemoryOperand {
    context_memory(offset_of!(Context, mask_spill))
}

pub(super) fn vector_slot(k: usize) -> MemoryOperand {
    context_memory(offset_of!(Context, vector_spill) + VectorWidth::SLOT * k)
}
