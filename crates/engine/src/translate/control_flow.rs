//! The end of a block: jumps, calls, returns, and what leaves the cache.

use std::mem::{offset_of, size_of};

use iced_x86::{Code, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

use super::assembler::Condition;
use super::block::BlockEnd;
use super::emitter::{Emitter, LookupSite};
use super::exits::ExitKind;
use super::operand::{self, Reach, context_indexed, context_memory};
use crate::context::{Context, Gpr, LookupTable};

impl Emitter<'_> {
    /// Emits the block's control flow, behind everything the tool has emitted.
    pub(super) fn emit_end(&mut self) {
        self.release_scratch();
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
        self.asm.lea(Register::RSP, operand::memory(Register::RSP, -8));
        for (offset, half) in [(0, address as u32), (4, (address >> 32) as u32)] {
            let store = Instruction::with2(Code::Mov_rm32_imm32, operand::memory(Register::RSP, offset), half);
            self.asm.push(&store.expect("mov takes memory and constant"));
        }
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
        self.asm.store(spilled(Gpr::Rax), Register::RAX);
        self.asm.store(spilled(Gpr::Rcx), Register::RCX);
    }

    /// Jumps to the translation of the address in RAX; RAX and RCX have been spilled, flags stay as they are.
    fn emit_lookup(&mut self) {
        let table = offset_of!(Context, lookup) + usize::from(self.version.0) * size_of::<LookupTable>();
        let entry = |field| context_indexed(table + field, Register::RCX, 8);

        self.asm.store(context_memory(offset_of!(Context, branch_target)), Register::RAX);
        self.emit_lookup_slot();
        self.asm.load(Register::RCX, entry(offset_of!(LookupTable, negated)));
        self.asm.lea(Register::RCX, MemoryOperand::new(Register::RAX, Register::RCX, 1, 0, 0, false, Register::None));
        let displacement = self.asm.address() + 1;
        let hit = self.asm.short_branch(&[0xe3]); // jrcxz

        let miss = self.asm.address();
        self.restore_after_lookup();
        self.leave(self.version, ExitKind::Indirect);

        self.asm.bind_short(hit);
        let hit_address = self.asm.address();
        self.emit_lookup_slot();
        self.asm.load(Register::RCX, entry(offset_of!(LookupTable, code)));
        let hit_stored = self.asm.address();
        self.asm.store(context_memory(offset_of!(Context, jump)), Register::RCX);
        self.restore_after_lookup();
        let jump = Instruction::with1(Code::Jmp_rm64, context_memory(offset_of!(Context, jump)));
        self.asm.push(&jump.expect("jmp takes memory"));
        self.lookup = Some(LookupSite { displacement, hit: hit_address, hit_stored, miss });
    }

    /// ECX = `LookupTable::slot(RAX)`, without touching the flags.
    fn emit_lookup_slot(&mut self) {
        let sum = MemoryOperand::new(Register::RAX, Register::RCX, 1, 0, 0, false, Register::None);
        self.asm.push2(Code::Mov_r32_rm32, Register::ECX, Register::EAX);
        self.asm.push(&Instruction::with1(Code::Bswap_r32, Register::ECX).expect("bswap takes a register"));
        self.asm.push2m(Code::Lea_r32_m, Register::ECX, sum);
        self.asm.push2(Code::Movzx_r32_rm16, Register::ECX, Register::CX);
    }

    fn restore_after_lookup(&mut self) {
        self.asm.load(Register::RAX, spilled(Gpr::Rax));
        self.asm.load(Register::RCX, spilled(Gpr::Rcx));
    }
}

fn spilled(register: Gpr) -> MemoryOperand {
    context_memory(offset_of!(Context, spill) + 8 * register as usize)
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
