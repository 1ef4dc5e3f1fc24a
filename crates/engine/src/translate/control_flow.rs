//! The end of a block: jumps, calls, returns, and what leaves the cache.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

use super::assembler::{Assembler, Condition};
use super::block::BlockEnd;
use super::emitter::{Emitter, LookupSite};
use super::exits::ExitKind;
use super::operand::{self, Reach, context_memory};
use super::scratch::spill_slot;
use super::trampolines::{self, Search};
use crate::cache;
use crate::context::Context;

impl Emitter<'_> {
    /// Emits the block's control flow, behind everything the tool has emitted.
    pub(super) fn emit_end(&mut self) {
        self.release_scratch();
        if self.block.terminator().is_some() {
            // What faults from here on is that instruction.
            self.begin(self.block.body_len());
        }
        let version = self.version;
        match self.block.end {
            BlockEnd::FallThrough(target) | BlockEnd::Jump(target) => self.branch(target, version),
            BlockEnd::Conditional { taken, next } => self.emit_conditional(taken, next),
            BlockEnd::Call { target, next } => {
                self.emit_push(next);
                self.branch(target, version);
            }
            BlockEnd::IndirectJump => self.emit_indirect(None),
            BlockEnd::IndirectCall { next } => self.emit_indirect(Some(next)),
            BlockEnd::Return { release } => self.emit_return(release),
            BlockEnd::Syscall(next) => self.leave(version, ExitKind::Syscall { next }),
            BlockEnd::Emulated(what, next) => self.leave(version, ExitKind::Emulated { what, next }),
            BlockEnd::ClientRequest(request, next) => {
                self.leave(version, ExitKind::ClientRequest { request, next });
            }
            BlockEnd::Fault { address, fault } => self.leave(version, ExitKind::Fault { address, fault }),
        }
    }

    fn emit_conditional(&mut self, taken: u64, next: u64) {
        let version = self.version;
        let terminator = self.block.terminator().expect("a conditional branch ends the block");
        let opcode = short_opcode(terminator);
        if let Some(opcode) = opcode {
            // `loop` and `jrcxz` exist with an 8-bit displacement only.
            let short = self.asm.short_branch(opcode);
            self.branch(next, version);
            self.asm.bind_short(short);
            self.branch(taken, version);
            return;
        }
        let condition = condition_of(terminator).expect("every other conditional branch is a jcc");
        let stub = self.asm.label();
        let patch = self.asm.patchable_jump_if(condition, stub);
        self.branch(next, version);
        self.asm.bind(stub);
        self.leave(version, ExitKind::Branch { target: taken, patch });
    }

    /// Pushes a return address: the application's own, so that unwinders and debuggers find what they know.
    fn emit_push(&mut self, address: u64) {
        if let Ok(immediate) = i32::try_from(address as i64) {
            self.asm.push(&Instruction::with1(Code::Pushq_imm32, immediate).expect("push takes a constant"));
            return;
        }
        // RSP last: if the stack is not mapped there, the fault finds the application before the instruction.
        for (offset, half) in [(-8, address as u32), (-4, (address >> 32) as u32)] {
            let store = Instruction::with2(Code::Mov_rm32_imm32, operand::memory(Register::RSP, offset), half);
            self.asm.push(&store.expect("mov takes memory and constant"));
        }
        self.asm.lea(Register::RSP, operand::memory(Register::RSP, -8));
    }

    fn emit_indirect(&mut self, return_address: Option<u64>) {
        let terminator = *self.block.terminator().expect("an indirect branch ends the block");
        self.spill_for_lookup();
        if terminator.op_kind(0) == OpKind::Register {
            if terminator.op0_register() != Register::RAX {
                self.asm.push2(Code::Mov_r64_rm64, Register::RAX, terminator.op0_register());
            }
        } else {
            let reach = operand::reach(&terminator);
            let base = (reach != Reach::Direct).then(|| self.lookup_address_base(&terminator, reach));
            let memory = operand::operand_with(&terminator, base, 0, Register::None);
            self.asm.load(Register::RAX, memory);
        }
        if let Some(address) = return_address {
            self.emit_push(address);
        }
        self.emit_lookup();
    }

    /// The base of a branch operand that is not directly reachable, in RAX or RCX, whichever the operand's index does not need
    /// (both are spilled; the operand's own base is added in before it is overwritten).
    fn lookup_address_base(&mut self, terminator: &Instruction, reach: Reach) -> Register {
        let needed = [terminator.memory_index(), terminator.memory_base()];
        let register = if needed.contains(&Register::RAX) { Register::RCX } else { Register::RAX };
        self.load_base(terminator, reach, register);
        register
    }

    fn emit_return(&mut self, release: u16) {
        self.spill_for_lookup();
        self.asm.load(Register::RAX, operand::memory(Register::RSP, 0));
        self.asm.lea(Register::RSP, operand::memory(Register::RSP, 8 + i64::from(release)));
        self.emit_lookup();
    }

    fn spill_for_lookup(&mut self) {
        LOOKUP_REGISTERS.into_iter().for_each(|register| self.put_aside(register));
    }

    /// Jumps to the translation of the address in RAX, or to what finds it; RAX and RCX have been spilled, flags stay as they are.
    fn emit_lookup(&mut self) {
        self.asm.push2(Code::Movzx_r32_rm16, Register::ECX, Register::AX);
        let displacement = self.asm.patchable_table_jump(cache::first_level(self.set));
        self.lookup = Some(LookupSite { displacement });
    }

    /// The entry of indirect branches: they come with the application's target in RAX. If it is not this block, the search goes on; else RAX and
    /// RCX get their own values back.
    pub(super) fn emit_checked_entry(&mut self) {
        LOOKUP_REGISTERS.into_iter().for_each(|register| self.state.spilled |= 1 << register.number());
        self.note_state();
        let negated = self.block.address.wrapping_neg();
        if let Ok(negated) = i32::try_from(negated as i64) {
            self.asm.lea(Register::RCX, operand::memory(Register::RAX, negated.into()));
        } else {
            self.asm.constant(Register::RCX, negated);
            let sum = MemoryOperand::new(Register::RAX, Register::RCX, 1, 0, 0, false, Register::None);
            self.asm.lea(Register::RCX, sum);
        }
        let same = self.asm.short_branch(&[0xe3]); // jrcxz
        self.asm.jump_to(trampolines::search(self.set).start);
        self.asm.bind_short(same);
        LOOKUP_REGISTERS.into_iter().for_each(|register| self.bring_back(register));
    }
}

/// What an indirect branch changes until it has arrived: the target and its slot in the table.
const LOOKUP_REGISTERS: [Register; 2] = [Register::RAX, Register::RCX];

fn restore_after_lookup(asm: &mut Assembler) {
    LOOKUP_REGISTERS.into_iter().for_each(|register| asm.load(register, spill_slot(register)));
}

/// Writes the routine that searches the second level for the address in RAX, with RAX and RCX spilled. It leaves the flags alone.
/// `number` is that of its exit, `exit` the way there.
pub(super) fn emit_search(asm: &mut Assembler, set: cache::Set, number: u64, exit: u64) -> Search {
    let slot = Register::RDX;
    let start = asm.address();
    asm.store(spill_slot(slot), slot);
    // RDX = `cache::lookup::second_slot(RAX)`
    let sum = MemoryOperand::new(Register::RAX, slot, 1, 0, 0, false, Register::None);
    asm.push2(Code::Mov_r32_rm32, Register::EDX, Register::EAX);
    asm.push(&Instruction::with1(Code::Bswap_r32, Register::EDX).expect("bswap takes a register"));
    asm.push2m(Code::Lea_r32_m, Register::EDX, sum);
    asm.push2(Code::Movzx_r32_rm16, Register::EDX, Register::DX);
    let found = |way: usize| cache::second_level(set, way, slot);
    let hits: Vec<usize> = (0..cache::WAYS)
        .map(|way| {
            let [negated, _] = found(way);
            asm.load(Register::RCX, negated);
            asm.lea(Register::RCX, MemoryOperand::new(Register::RCX, Register::RAX, 1, 0, 0, false, Register::None));
            asm.short_branch(&[0xe3]) // jrcxz
        })
        .collect();
    let miss = asm.label();
    asm.jump(miss);
    for (way, hit) in hits.into_iter().enumerate() {
        asm.bind_short(hit);
        let [_, code] = found(way);
        asm.load(Register::RCX, code);
        asm.load(slot, spill_slot(slot));
        asm.push(&Instruction::with1(Code::Jmp_rm64, Register::RCX).expect("jmp takes a register"));
    }
    let end = asm.address();
    asm.bind(miss);
    asm.load(slot, spill_slot(slot));
    let leave = asm.address();
    asm.store(context_memory(offset_of!(Context, branch_target)), Register::RAX);
    restore_after_lookup(asm);
    asm.store_constant(context_memory(offset_of!(Context, exit)), number as i32);
    asm.jump_to(exit);
    Search { start, end, miss: asm.label_address(miss), leave }
}

/// Opcode bytes of branches that exist with an 8-bit displacement only.
fn short_opcode(instruction: &Instruction) -> Option<&'static [u8]> {
    let narrow = matches!(
        instruction.code(),
        Code::Jecxz_rel8_64 | Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX
    );
    Some(match (instruction.mnemonic(), narrow) {
        (Mnemonic::Jrcxz | Mnemonic::Jecxz, false) => &[0xe3],
        (Mnemonic::Jrcxz | Mnemonic::Jecxz, true) => &[0x67, 0xe3],
        (Mnemonic::Loop, false) => &[0xe2],
        (Mnemonic::Loop, true) => &[0x67, 0xe2],
        (Mnemonic::Loope, false) => &[0xe1],
        (Mnemonic::Loope, true) => &[0x67, 0xe1],
        (Mnemonic::Loopne, false) => &[0xe0],
        (Mnemonic::Loopne, true) => &[0x67, 0xe0],
        _ => return None,
    })
}

/// The condition of a `jcc`.
fn condition_of(instruction: &Instruction) -> Option<Condition> {
    use iced_x86::ConditionCode as C;
    Some(match instruction.condition_code() {
        C::None => return None,
        C::o => Condition::Overflow,
        C::no => Condition::NotOverflow,
        C::b => Condition::Below,
        C::ae => Condition::AboveOrEqual,
        C::e => Condition::Equal,
        C::ne => Condition::NotEqual,
        C::be => Condition::BelowOrEqual,
        C::a => Condition::Above,
        C::s => Condition::Sign,
        C::ns => Condition::NotSign,
        C::p => Condition::Parity,
        C::np => Condition::NotParity,
        C::l => Condition::Less,
        C::ge => Condition::GreaterOrEqual,
        C::le => Condition::LessOrEqual,
        C::g => Condition::Greater,
    })
}
