//! Ways out of a block: to other blocks, to other versions, and to helpers.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Condition, Label};
use super::block::{Emulated, Fault};
use super::client_request::Request;
use super::emitter::Emitter;
use super::operand::{self, context_memory};
use super::scratch::{aside, spill_slot};
use super::trampolines;
use crate::context::Context;
use crate::tool::Version;

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

impl<'a> Emitter<'a> {
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

    /// Leaves the block here if one of `width` bytes at `memory` is not zero, as [`Emitter::exit_to_version`]. The test leaves live flags
    /// alone.
    pub fn exit_if_nonzero(&mut self, index: usize, memory: MemoryOperand, width: usize, version: Version) {
        let target = self.block.instructions()[index].ip();
        self.if_nonzero(index, memory, width, move |emitter| emitter.branch(target, version));
    }

    /// Goes on with `code`, in the cold part, if one of `width` bytes at `memory` is not zero. The test leaves flags alone that are live before
    /// instruction `index`.
    pub fn if_nonzero(
        &mut self,
        index: usize,
        memory: MemoryOperand,
        width: usize,
        code: impl FnOnce(&mut Emitter<'a>) + 'a,
    ) {
        if self.block.flags_live_before(index) == 0 || self.state.flags_saved {
            let cold = self.cold(code);
            let compare = match width {
                1 => Code::Cmp_rm8_imm8,
                2 => Code::Cmp_rm16_imm8,
                4 => Code::Cmp_rm32_imm8,
                _ => Code::Cmp_rm64_imm8,
            };
            self.asm.push(&Instruction::with2(compare, memory, 0).expect("cmp takes memory and constant"));
            self.asm.jump_if(Condition::NotEqual, cold);
            return;
        }
        // Only `jrcxz` branches on a value without touching the flags.
        let slot = aside();
        self.asm.store(slot, Register::RCX);
        let cold = self.cold(move |emitter| {
            emitter.asm.load(Register::RCX, slot);
            code(emitter);
        });
        let (load, register) = match width {
            1 => (Code::Movzx_r32_rm8, Register::ECX),
            2 => (Code::Movzx_r32_rm16, Register::ECX),
            4 => (Code::Mov_r32_rm32, Register::ECX),
            _ => (Code::Mov_r64_rm64, Register::RCX),
        };
        self.asm.push2m(load, register, memory);
        let zero = self.asm.short_branch(&[0xe3]); // jrcxz
        self.asm.jump(cold);
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
            self.emit_save_flags();
        }
        for register in self.scratch_general.clone() {
            if self.state.spilled & (1 << register.number()) != 0 {
                self.asm.store(spill_slot(register), register);
            }
        }
        self.load_distances();
        self.save_vectors();
        if let Some(register) = self.state.temporary {
            self.asm.store(spill_slot(register), register);
        }
        if let Some(register) = self.state.mask {
            self.save_mask(register);
        }
        if let Some(register) = self.state.prepared {
            let instruction = self.block.instructions().iter().find(|i| i.ip() == self.address);
            let instruction = *instruction.expect("the prepared instruction is in the block");
            self.load_base(&instruction, operand::reach(&instruction), register);
        }
    }
}
