//! What a tool writes a block with: copies of the application's instructions, its own instructions between them, and ways
//! out of the block.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, Condition, Label};
use super::block::{Block, Emulated, Fault};
use super::client_request::Request;
use super::operand::{self, Reach, context_memory};
use super::registers::{self, RegisterSet, general, general_number};
use super::trampolines::{self, VectorWidth};
use crate::context::{Context, Gpr};
use crate::hooks::{self, Hook};
use crate::tool::{Tool, Version};

/// What happens after a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperNext {
    /// Go on behind the helper call, in the same block.
    Resume,
    /// Leave the block: go on at `context.rip` in `context.version`.
    Leave,
}

/// A function that cached code calls with the exact application state in the context (`context.rip` is the instruction being
/// executed). The number is the one given to [`Emitter::call_helper`].
pub type Helper = fn(&mut Context, u64) -> HelperNext;

/// Why and whereto cached code is left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExitKind {
    /// To a known application address; the displacement at `patch` can be changed to go there directly.
    Branch {
        target: u64,
        patch: u64,
    },
    /// To the address in `context.branch_target`, which the look-up table did not hold.
    Indirect,
    Syscall {
        next: u64,
    },
    Emulated {
        what: Emulated,
        next: u64,
    },
    ClientRequest {
        request: Request,
        next: u64,
    },
    Fault {
        address: u64,
        fault: Fault,
    },
    Helper {
        helper: Helper,
        payload: u64,
        address: u64,
        resume: u64,
    },
}

/// An exit with the version in which the application continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub version: Version,
    pub kind: ExitKind,
    /// Address of the code that leaves the cache through this exit; an unlinked `patch` points here.
    pub stub: u64,
}

/// How the application's state is kept from some offset on: needed to rebuild it after a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// General registers whose application value is in `context.spill`.
    spilled: u16,
    /// Whether the reserved vector registers are in use.
    vectors: bool,
    /// Whether the application's flags are in `context.saved_flags`.
    flags_saved: bool,
    /// A spilled register that belongs to one instruction only (its address), not to the whole block.
    temporary: Option<Register>,
    /// The register that stands in for the base of the present instruction's memory operand.
    prepared: Option<Register>,
}

/// From `offset` on, instruction `instruction` is being executed with the application's state kept in this way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub offset: u32,
    pub address: u64,
    pub spilled: u16,
    pub vectors: bool,
    pub flags_saved: bool,
}

/// A translated block, ready to be put into the code cache.
pub(crate) struct Translation {
    pub code: Vec<u8>,
    pub exits: Vec<Exit>,
    pub recovery: Vec<Recovery>,
    /// Vector registers that `context.vector_spill` holds while `Recovery::vectors` is set.
    pub vector_scratch: Vec<u8>,
    /// The inlined look-up of an indirect branch.
    pub lookup: Option<LookupSite>,
}

/// Where an inlined look-up can be diverted to leave the cache (see `cache::request_exit`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupSite {
    /// Address of the 8-bit displacement of `jrcxz hit`.
    pub displacement: u64,
    /// From here to `hit_stored` the target's translation has been found but not yet written to `context.jump`.
    pub hit: u64,
    pub hit_stored: u64,
    /// Where a miss continues.
    pub miss: u64,
}

type Cold<'a> = Box<dyn FnOnce(&mut Emitter<'a>) + 'a>;

/// Writes one version of one block.
///
/// A tool calls [`Emitter::reserve`] first if it wants scratch registers, then for each instruction of the block's body in order emits what it
/// wants before it, [`Emitter::copy`], and what it wants after it. What it emits for the block's terminator comes before that.
pub struct Emitter<'a> {
    pub(super) asm: Assembler,
    pub(super) block: &'a Block,
    pub(super) version: Version,
    pub(super) exits: Vec<Exit>,
    first_exit: u64,
    pub(super) lookup: Option<LookupSite>,
    cold: Vec<(Label, State, u64, Cold<'a>)>,
    recovery: Vec<Recovery>,
    state: State,
    /// Address of the instruction that emitted code belongs to.
    address: u64,
    /// Whether that instruction itself has been emitted already.
    copied: bool,
    scratch_general: Vec<Register>,
    scratch_vector: Vec<u8>,
}

/// Translates `block` for `base`, the address at which the code will be put. Exits get numbers from `first_exit` on.
pub(crate) fn translate(
    tool: &dyn Tool,
    block: &Block,
    version: Version,
    base: u64,
    first_exit: u64,
    instrumented: bool,
) -> Translation {
    let mut emitter = Emitter {
        asm: Assembler::new(base),
        block,
        version,
        exits: Vec::new(),
        first_exit,
        lookup: None,
        cold: Vec::new(),
        recovery: Vec::new(),
        state: State::default(),
        address: block.address,
        copied: false,
        scratch_general: Vec::new(),
        scratch_vector: Vec::new(),
    };
    emitter.note_state();
    let hooked = match hooks::hook_at(block.address) {
        // Programs resolve their functions at start-up, in whatever version they start.
        Some(Hook::IfuncResolver(_)) => true,
        Some(Hook::Function(_)) => tool.hooks_version(version),
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
    emitter.finish()
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

    /// Reserves scratch registers for the whole block; they keep their values between instructions. As many are free as the
    /// tool has asked for in [`Tool::scratch`].
    pub fn reserve(&mut self, generals: usize, vectors: usize) {
        assert!(self.scratch_general.is_empty() && self.scratch_vector.is_empty(), "reserved once a block");
        self.scratch_general = self.block.used().free_general().take(generals).map(general).collect();
        self.scratch_vector = self.block.used().free_vector().take(vectors).map(|n| n as u8).collect();
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
        for (k, vector) in self.scratch_vector.clone().into_iter().enumerate() {
            trampolines::store_vector(&mut self.asm, vector_slot(k), vector);
        }
        self.state.vectors = !self.scratch_vector.is_empty();
        self.note_state();
    }

    /// Brings the application's registers and flags back, as the present state says. The state itself is unchanged: for exits in the
    /// middle of a block.
    fn emit_restores(&mut self) {
        if self.state.flags_saved {
            self.emit_restore_flags();
        }
        if let Some(register) = self.state.temporary {
            self.asm.load(register, spill_slot(register));
        }
        for register in self.scratch_general.clone() {
            if self.state.spilled & (1 << register.number()) != 0 {
                self.asm.load(register, spill_slot(register));
            }
        }
        if self.state.vectors {
            for (k, vector) in self.scratch_vector.clone().into_iter().enumerate() {
                trampolines::load_vector(&mut self.asm, vector, vector_slot(k));
            }
        }
    }

    /// Gives all scratch registers back, at the end of the block.
    pub(super) fn release_scratch(&mut self) {
        self.end_instruction();
        self.restore_flags();
        self.emit_restores();
        self.state = State::default();
        self.note_state();
    }

    fn note_state(&mut self) {
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

    fn end_instruction(&mut self) {
        self.state.prepared = None;
        if let Some(register) = self.state.temporary.take() {
            self.asm.load(register, spill_slot(register));
            self.note_state();
        }
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

    // --- flags ---

    /// Puts the application's status flags aside if they are live before instruction `index`; they come back with
    /// [`Emitter::restore_flags`].
    pub fn save_flags(&mut self, index: usize) {
        if self.state.flags_saved || self.block.flags_live_before(index) == 0 {
            return;
        }
        let aside = context_memory(offset_of!(Context, spill) + 8 * Gpr::Rsp as usize);
        self.asm.store(aside, Register::RAX);
        self.asm.bytes(&[0x9f]); // lahf
        self.asm.bytes(&[0x0f, 0x90, 0xc0]); // seto al
        self.asm.store(context_memory(offset_of!(Context, saved_flags)), Register::RAX);
        self.asm.load(Register::RAX, aside);
        self.state.flags_saved = true;
        self.note_state();
    }

    /// Brings flags back that [`Emitter::save_flags`] has put aside.
    pub fn restore_flags(&mut self) {
        if self.state.flags_saved {
            self.emit_restore_flags();
            self.state.flags_saved = false;
            self.note_state();
        }
    }

    fn emit_restore_flags(&mut self) {
        let aside = context_memory(offset_of!(Context, spill) + 8 * Gpr::Rsp as usize);
        self.asm.store(aside, Register::RAX);
        self.asm.load(Register::RAX, context_memory(offset_of!(Context, saved_flags)));
        self.asm.bytes(&[0x04, 0x7f]); // add al, 127: sets OF again
        self.asm.bytes(&[0x9e]); // sahf
        self.asm.load(Register::RAX, aside);
    }

    // --- ways out ---

    /// Code that is rarely run, put behind the block. It starts with the application's state kept as it is now.
    pub fn cold(&mut self, code: impl FnOnce(&mut Emitter<'a>) + 'a) -> Label {
        let label = self.asm.label();
        self.cold.push((label, self.state, self.address, Box::new(code)));
        label
    }

    /// A label in the cold part that leaves the block: the application goes on at instruction `index` (which has not been executed) in
    /// another version.
    pub fn exit_to_version(&mut self, index: usize, version: Version) -> Label {
        let target = self.block.instructions()[index].ip();
        self.cold(move |emitter| emitter.branch(target, version))
    }

    /// Leaves the block here if one of `widths` bytes at `memory` is not zero, as [`Emitter::exit_to_version`]. The test leaves live flags
    /// alone.
    pub fn exit_if_nonzero(&mut self, index: usize, memory: MemoryOperand, width: usize, version: Version) {
        let target = self.block.instructions()[index].ip();
        if self.block.flags_live_before(index) == 0 || self.state.flags_saved {
            let exit = self.exit_to_version(index, version);
            let code = match width {
                1 => Code::Cmp_rm8_imm8,
                2 => Code::Cmp_rm16_imm8,
                4 => Code::Cmp_rm32_imm8,
                _ => Code::Cmp_rm64_imm8,
            };
            self.asm.push(&Instruction::with2(code, memory, 0).expect("cmp takes memory and constant"));
            self.asm.jump_if(Condition::NotEqual, exit);
            return;
        }
        // Only `jrcxz` branches on a value without touching the flags.
        let slot = context_memory(offset_of!(Context, spill) + 8 * Gpr::Rsp as usize);
        self.asm.store(slot, Register::RCX);
        let exit = self.cold(move |emitter| {
            emitter.asm.load(Register::RCX, slot);
            emitter.branch(target, version);
        });
        let (code, register) = match width {
            1 => (Code::Movzx_r32_rm8, Register::ECX),
            2 => (Code::Movzx_r32_rm16, Register::ECX),
            4 => (Code::Mov_r32_rm32, Register::ECX),
            _ => (Code::Mov_r64_rm64, Register::RCX),
        };
        self.asm.push2m(code, register, memory);
        let zero = self.asm.short_branch(&[0xe3]); // jrcxz
        self.asm.jump(exit);
        self.asm.bind_short(zero);
        self.asm.load(Register::RCX, slot);
    }

    /// Leaves the block here for a known address.
    pub(super) fn branch(&mut self, target: u64, version: Version) {
        self.emit_restores();
        let stub = self.asm.label();
        let patch = self.asm.patchable_jump(stub);
        self.asm.bind(stub);
        self.leave(version, ExitKind::Branch { target, patch });
    }

    /// The code that leaves the cache with a number which stands for `kind`. Scratch registers have been given back.
    pub(super) fn leave(&mut self, version: Version, kind: ExitKind) {
        let number = self.first_exit + self.exits.len() as u64;
        self.exits.push(Exit { version, kind, stub: self.asm.address() });
        self.asm.store_constant(context_memory(offset_of!(Context, exit)), number as i32);
        self.asm.jump_to(trampolines::get().exit);
    }

    /// Calls `helper(context, payload)` here, with the exact application state in the context. Scratch registers do not keep
    /// their values across it.
    pub fn call_helper(&mut self, helper: Helper, payload: u64) {
        let resume = self.asm.label();
        let call = self.helper_stub(helper, payload, resume);
        self.asm.jump(call);
        self.asm.bind(resume);
    }

    /// As [`Emitter::call_helper`], if the condition holds.
    pub fn call_helper_if(&mut self, condition: Condition, helper: Helper, payload: u64) {
        let resume = self.asm.label();
        let call = self.helper_stub(helper, payload, resume);
        self.asm.jump_if(condition, call);
        self.asm.bind(resume);
    }

    /// A label in the cold part that calls the helper and goes on at `resume`.
    pub fn helper_stub(&mut self, helper: Helper, payload: u64, resume: Label) -> Label {
        self.cold(move |emitter| emitter.emit_helper(helper, payload, resume))
    }

    fn emit_helper(&mut self, helper: Helper, payload: u64, resume: Label) {
        self.call_helper_here(helper, payload);
        self.asm.jump(resume);
    }

    /// As [`Emitter::call_helper`], for code that is cold itself: the call stands right here.
    pub fn call_helper_here(&mut self, helper: Helper, payload: u64) {
        self.emit_restores();
        let address = self.address;
        let kind = ExitKind::Helper { helper, payload, address, resume: 0 };
        self.leave(self.version, kind);
        let resumed_at = self.asm.address();
        if let ExitKind::Helper { resume, .. } = &mut self.exits.last_mut().expect("just pushed").kind {
            *resume = resumed_at;
        }
        self.emit_spills_again();
    }

    /// After a helper: the state as the code at the resume point expects it.
    fn emit_spills_again(&mut self) {
        if self.state.flags_saved {
            let aside = context_memory(offset_of!(Context, spill) + 8 * Gpr::Rsp as usize);
            self.asm.store(aside, Register::RAX);
            self.asm.bytes(&[0x9f, 0x0f, 0x90, 0xc0]);
            self.asm.store(context_memory(offset_of!(Context, saved_flags)), Register::RAX);
            self.asm.load(Register::RAX, aside);
        }
        for register in self.scratch_general.clone() {
            if self.state.spilled & (1 << register.number()) != 0 {
                self.asm.store(spill_slot(register), register);
            }
        }
        if self.state.vectors {
            for (k, vector) in self.scratch_vector.clone().into_iter().enumerate() {
                trampolines::store_vector(&mut self.asm, vector_slot(k), vector);
            }
        }
        if let Some(register) = self.state.temporary {
            self.asm.store(spill_slot(register), register);
        }
        if let Some(register) = self.state.prepared {
            let instruction = self.block.instructions().iter().find(|i| i.ip() == self.address);
            let instruction = *instruction.expect("the prepared instruction is in the block");
            self.load_base(&instruction, operand::reach(&instruction), register);
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
            lookup: self.lookup,
            code: self.asm.finish(),
        }
    }
}

fn spill_slot(register: Register) -> MemoryOperand {
    let number = general_number(register).expect("only general registers are spilled here");
    context_memory(offset_of!(Context, spill) + 8 * number)
}

fn vector_slot(k: usize) -> MemoryOperand {
    context_memory(offset_of!(Context, vector_spill) + VectorWidth::SLOT * k)
}
