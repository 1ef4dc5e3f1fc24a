//! What a tool writes a block with: copies of the application's instructions, its own instructions between them, and ways
//! out of the block.

use std::any::Any;

use iced_x86::{Instruction, MemoryOperand, Mnemonic, Register};

use super::assembler::{Assembler, Label};
use super::block::Block;
use super::exits::Exit;
use super::lent;
use super::operand::{self, Reach, context_memory};
use super::pending::{Pending, PendingRange};
use super::registers::{self, RegisterSet};
use super::scratch::spill_slot;
use crate::cache;
use crate::hooks::{self, Hook};
use crate::tool::{Tool, Version};

/// How the application's state is kept from some offset on: needed to rebuild it after a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// General registers whose application value is in `context.spill`.
    pub(super) spilled: u16,
    /// Scratch vector registers in use: bit k for slot k of `context.vector_spill`.
    pub(super) vectors: u8,
    /// Whether the application's flags are in `context.saved_flags`.
    pub(super) flags_saved: bool,
    /// A spilled register that belongs to one instruction only (its address), not to the whole block.
    pub(super) temporary: Option<Register>,
    /// The mask register that is put aside.
    pub(super) mask: Option<Register>,
    /// The register that stands in for the base of the present instruction's memory operand.
    pub(super) prepared: Option<Register>,
    /// See [`Emitter::copy_keeping_address`].
    pub(super) kept: Option<Kept>,
    /// See [`Emitter::set_pending`].
    pub(super) pending: PendingRange,
    /// Whether `context.upper_possible` has been set in this block.
    pub(super) upper_noted: bool,
}

/// An instruction has overwritten a register that its own address needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Holds the address; its application value is spilled.
    pub(super) address: Register,
    /// Its value before the instruction is spilled.
    pub(super) overwritten: Register,
}

/// From `offset` on, instruction `instruction` is being executed with the application's state kept in this way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub offset: u32,
    pub address: u64,
    pub spilled: u16,
    /// Bit k: slot k of `context.vector_spill` holds the application's value.
    pub vectors: u8,
    pub flags_saved: bool,
    /// Number of the mask register that `context.mask_spill` holds.
    pub mask: Option<u8>,
    /// Stores that are put off, in [`Translation::pending`].
    pub pending: PendingRange,
}

/// A translated block, ready to be put into the code cache.
pub(crate) struct Translation {
    pub code: Vec<u8>,
    pub exits: Vec<Exit>,
    pub recovery: Vec<Recovery>,
    /// The vector registers that belong to the slots of `context.vector_spill`; see `Recovery::vectors`.
    pub vector_scratch: Vec<u8>,
    /// Bytes of the checked entry that the code begins with, if there is one.
    pub entry: u64,
    /// Stores that are put off somewhere in the block.
    pub pending: Vec<Pending>,
    /// The inlined look-up of an indirect branch.
    pub lookup: Option<LookupSite>,
    /// What helpers refer to.
    pub kept: Vec<Box<dyn Any + Send>>,
}

/// Where an inlined look-up can be diverted to leave the cache (see `cache::request_exit`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupSite {
    /// Address of the displacement, from the base of GS, of the table that it looks into.
    pub displacement: u64,
}

pub(super) type Cold<'a> = Box<dyn FnOnce(&mut Emitter<'a>) + 'a>;

/// Writes one version of one block.
///
/// A tool calls [`Emitter::reserve`] first if it wants scratch registers, then for each instruction of the block's body in order emits what it
/// wants before it, [`Emitter::copy`], and what it wants after it. What it emits for the block's terminator comes before that.
pub struct Emitter<'a> {
    pub(super) asm: Assembler,
    pub(super) block: &'a Block,
    pub(super) version: Version,
    pub(super) exits: Vec<Exit>,
    pub(super) first_exit: u64,
    /// The tables of its indirect branches.
    pub(super) set: cache::Set,
    pub(super) lookup: Option<LookupSite>,
    kept: Vec<Box<dyn Any + Send>>,
    pub(super) cold: Vec<(Label, State, u64, Cold<'a>)>,
    recovery: Vec<Recovery>,
    pub(super) state: State,
    /// Address of the instruction that emitted code belongs to.
    pub(super) address: u64,
    /// Whether that instruction itself has been emitted already.
    copied: bool,
    pub(super) scratch_general: Vec<Register>,
    pub(super) scratch_vector: Vec<u8>,
    /// Whether registers that only AVX-512 has can be the tool's in some blocks.
    pub(super) borrows: bool,
    pub(super) pending: Vec<Pending>,
    /// Of the scratch registers, those for operands in further shadow layers: one for an address, others for distances.
    pub(super) layer_scratch: Vec<Register>,
}

/// Where a translation goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address at which the code will be put.
    pub base: u64,
    /// The number of its first exit.
    pub first_exit: u64,
    /// The tables of its indirect branches.
    pub set: cache::Set,
    /// Whether it gets an entry for indirect branches.
    pub checked: bool,
}

/// Translates a block for its place.
pub(crate) fn translate(
    tool: &dyn Tool,
    block: &Block,
    version: Version,
    place: Place,
    instrumented: bool,
) -> Translation {
    let mut emitter = Emitter {
        asm: Assembler::new(place.base),
        block,
        version,
        exits: Vec::new(),
        first_exit: place.first_exit,
        set: place.set,
        lookup: None,
        kept: Vec::new(),
        cold: Vec::new(),
        recovery: Vec::new(),
        state: State::default(),
        address: block.address,
        copied: false,
        scratch_general: Vec::new(),
        scratch_vector: Vec::new(),
        borrows: lent::available() && tool.borrows_avx512(),
        pending: Vec::new(),
        layer_scratch: Vec::new(),
    };
    emitter.note_state();
    if place.checked {
        emitter.emit_checked_entry();
    }
    let entry = emitter.asm.position() as u64;
    emitter.give_lendable();
    let hooked = match hooks::hook_at(block.address) {
        // Programs resolve their functions at start-up, in whatever version they start.
        Some(Hook::IfuncResolver(_)) => true,
        Some(Hook::Function(function)) => tool.hooks_version(version, function),
        None => false,
    };
    if hooked {
        emitter.call_helper(crate::dispatcher::function_entered, block.address);
    }
    if instrumented {
        tool.instrument(block, version, &mut emitter);
    } else {
        super::NullTool.instrument(block, version, &mut emitter);
    }
    Translation { entry, ..emitter.finish() }
}

impl<'a> Emitter<'a> {
    /// The block being written.
    pub fn block(&self) -> &'a Block {
        self.block
    }

    /// Raw access for instructions of the tool's own. They may change only scratch registers, and flags only where these are not
    /// live or saved.
    pub fn asm(&mut self) -> &mut Assembler {
        &mut self.asm
    }

    /// Keeps `value` as long as the code being written and returns its address, which helpers of this code can use: a helper's payload.
    pub fn keep<T: Send + 'static>(&mut self, value: T) -> u64 {
        let value = Box::new(value);
        let address = (&raw const *value) as u64;
        self.kept.push(value);
        address
    }

    pub(super) fn note_state(&mut self) {
        let mut spilled = self.state.spilled;
        if let Some(register) = self.state.temporary {
            spilled |= 1 << register.number();
        }
        self.recovery.push(Recovery {
            offset: self.asm.position() as u32,
            address: self.address,
            spilled,
            vectors: self.state.vectors,
            flags_saved: self.state.flags_saved,
            mask: self.state.mask.map(|register| register.number() as u8),
            pending: self.state.pending,
        });
    }

    // --- instructions of the application ---

    /// What is emitted from now on belongs to instruction `index`: a fault or helper there finds the application before it.
    pub fn begin(&mut self, index: usize) {
        let address = self.block.instructions()[index].ip();
        if self.address != address {
            self.end_instruction();
            self.address = address;
            self.copied = false;
            self.note_state();
        }
        if !self.state.upper_noted && registers::reaches_upper_halves(&self.block.instructions()[index]) {
            self.note_upper(true);
        }
    }

    /// Emits application instruction `index` itself.
    pub fn copy(&mut self, index: usize) {
        let instruction = &self.block.instructions()[index];
        self.prepare(index);
        let position_dependent = operand::has_memory(instruction)
            && (self.state.prepared.is_some() && !operand::has_absolute_address(instruction)
                || instruction.is_ip_rel_memory_operand());
        if !position_dependent {
            // The very same bytes: no encoder can choose another form of the instruction.
            self.asm.bytes(self.block.bytes(index));
            if matches!(instruction.mnemonic(), Mnemonic::Vzeroupper | Mnemonic::Vzeroall) {
                self.note_upper(false);
            }
            self.end_instruction();
            self.copied = true;
            return;
        }
        let copy = match self.state.prepared {
            Some(base) => {
                operand::replace_memory(instruction, operand::operand_with(instruction, Some(base), 0, Register::None))
            }
            None if instruction.is_ip_rel_memory_operand() => {
                operand::replace_memory(instruction, operand::operand_with(instruction, None, 0, Register::None))
            }
            None => *instruction,
        };
        self.asm.push(&copy);
        self.end_instruction();
        self.copied = true;
    }

    /// Emits application instruction `index`, which overwrites a general register that its memory operand's address needs, and keeps the
    /// address: the operand can still be had until the next instruction begins, and leaving the block until then finds the application
    /// before the instruction. No helper can be called meanwhile. The register must not be RSP.
    pub fn copy_keeping_address(&mut self, index: usize, overwritten: Register) {
        let mut used = RegisterSet::of(&self.block.instructions()[index]).and(Register::RCX);
        for &scratch in &self.scratch_general {
            used = used.and(scratch);
        }
        let address = operand::untouched_general(used);
        self.put_aside(address);
        self.put_aside(overwritten);
        let operand = self.application_memory(index, 0);
        self.asm.lea(address, operand);
        self.copy(index);
        self.state.kept = Some(Kept { address, overwritten });
    }

    /// Another instruction in place of application instruction `index`, or beside it, with that one's memory operand in the given
    /// form: used to run a move once more on shadows.
    pub fn shadow_memory(&mut self, index: usize, offset: i64) -> MemoryOperand {
        self.operand_in(index, offset, Register::GS)
    }

    /// The memory operand of application instruction `index`, `offset` bytes further on.
    pub fn application_memory(&mut self, index: usize, offset: i64) -> MemoryOperand {
        self.operand_in(index, offset, Register::None)
    }

    fn operand_in(&mut self, index: usize, offset: i64, segment: Register) -> MemoryOperand {
        if let Some(Kept { address, .. }) = self.state.kept {
            let size = if offset == 0 { 0 } else { 8 };
            return MemoryOperand::new(address, Register::None, 1, offset, size, false, segment);
        }
        self.prepare(index);
        let instruction = &self.block.instructions()[index];
        operand::operand_with(instruction, self.state.prepared, offset, segment)
    }

    /// Makes the memory operand of instruction `index` reachable.
    fn prepare(&mut self, index: usize) {
        self.begin(index);
        let instruction = &self.block.instructions()[index];
        if self.state.prepared.is_some() || !operand::has_memory(instruction) {
            return;
        }
        let reach = operand::reach(instruction);
        if reach == Reach::Direct {
            return;
        }
        let register = match operand::overwritten_destination(instruction) {
            Some(register) if !self.copied => register,
            _ => {
                let mut used = RegisterSet::of(instruction);
                for &scratch in &self.scratch_general {
                    used = used.and(scratch);
                }
                let register = operand::untouched_general(used);
                self.asm.store(spill_slot(register), register);
                self.state.temporary = Some(register);
                self.note_state();
                register
            }
        };
        self.load_base(instruction, reach, register);
        self.state.prepared = Some(register);
    }

    /// Loads into `register` what stands in for the base of the instruction's memory operand.
    pub(super) fn load_base(&mut self, instruction: &Instruction, reach: Reach, register: Register) {
        match reach {
            Reach::Direct => {}
            Reach::Constant(address) => self.asm.constant(register, address),
            Reach::Segment(base_offset) => {
                self.asm.load(register, context_memory(base_offset));
                let base = instruction.memory_base();
                if instruction.is_ip_rel_memory_operand() {
                    // `fs:[rip + x]` is legal, if unheard of.
                    let address = instruction.ip_rel_memory_address();
                    self.asm.lea(register, operand::memory(register, address as i64));
                } else if base.is_gpr64() {
                    let sum = MemoryOperand::new(register, base, 1, 0, 0, false, Register::None);
                    // An index cannot be RSP: let it be the base then.
                    let sum = if base == Register::RSP {
                        MemoryOperand::new(base, register, 1, 0, 0, false, Register::None)
                    } else {
                        sum
                    };
                    self.asm.lea(register, sum);
                }
            }
        }
    }

    pub(super) fn end_instruction(&mut self) {
        self.state.prepared = None;
        if let Some(kept) = self.state.kept.take() {
            self.state.spilled &= !(1 << kept.overwritten.number());
            self.bring_back(kept.address);
        }
        if let Some(register) = self.state.temporary.take() {
            self.asm.load(register, spill_slot(register));
            self.note_state();
        }
    }

    fn finish(mut self) -> Translation {
        self.emit_end();
        while let Some((label, state, address, code)) = self.cold.pop() {
            self.state = state;
            self.address = address;
            self.asm.bind(label);
            self.note_state();
            code(&mut self);
        }
        Translation {
            exits: self.exits,
            recovery: self.recovery,
            vector_scratch: self.scratch_vector,
            entry: 0,
            pending: self.pending,
            lookup: self.lookup,
            kept: self.kept,
            code: self.asm.finish(),
        }
    }
}
