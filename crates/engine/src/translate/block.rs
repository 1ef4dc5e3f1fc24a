//! Decoding: from an application address to a basic block.

use std::cell::OnceCell;

use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, Mnemonic};

use super::client_request::{self, Request};
use super::liveness;
use super::registers::RegisterSet;
use crate::lockstep;
use crate::memory;

/// Longest block, in instructions. Long straight-line code is cut, so that side tables stay small and a queued signal waits
/// for a bounded number of instructions.
pub const MAX_INSTRUCTIONS: usize = 96;

/// Why a block ends, and where it can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// Runs into the instruction at this address (the block was cut).
    FallThrough(u64),
    /// Direct jump.
    Jump(u64),
    /// `jcc`, `loop`, `jrcxz`: taken target and fall-through.
    Conditional {
        /// Where it goes if the condition holds.
        taken: u64,
        /// Where it goes otherwise.
        next: u64,
    },
    /// Direct call: target and return address.
    Call {
        /// The called function.
        target: u64,
        /// The return address.
        next: u64,
    },
    /// Jump through a register or memory.
    IndirectJump,
    /// Call through a register or memory; return address.
    IndirectCall {
        /// The return address.
        next: u64,
    },
    /// `ret` that releases so many bytes of arguments.
    Return {
        /// The immediate operand of `ret`.
        release: u16,
    },
    /// `syscall`; the address behind it.
    Syscall(u64),
    /// An instruction that the engine carries out itself.
    Emulated(Emulated, u64),
    /// A client request sequence; the address behind it.
    ClientRequest(Request, u64),
    /// The instruction at this address cannot be executed: the signal that it raises natively.
    Fault {
        /// Address of the instruction.
        address: u64,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// Instructions that the engine carries out on the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Emulated {
    Cpuid,
    ReadFsBase,
    WriteFsBase,
    ReadGsBase,
    WriteGsBase,
}

/// Why an address cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No executable memory there (SIGSEGV).
    NotExecutable,
    /// No valid instruction, or one that user programs must not use (SIGILL, SIGSEGV, SIGTRAP as the processor has it): the
    /// instruction is run natively to raise its signal.
    Raises,
}

/// A decoded basic block.
#[derive(Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub address: u64,
    /// How it ends.
    pub end: BlockEnd,
    /// Flags that must survive before instruction i (last entry: at the block's end), as iced's `RflagsBits`.
    flags_live: OnceCell<Vec<u32>>,
    instructions: Vec<Instruction>,
    /// The instructions' bytes, one behind the other.
    code: Vec<u8>,
    body: usize,
    used: RegisterSet,
}

/// How many registers must stay unused in a block, because a tool wants them as scratch registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// General registers.
    pub general: usize,
    /// Vector registers.
    pub vector: usize,
}

impl Block {
    /// Decodes the block at `address`, cutting it short where it would leave fewer unused registers than `scratch` asks for.
    pub fn decode(address: u64, scratch: Scratch) -> Block {
        let mut block = Block {
            address,
            end: BlockEnd::FallThrough(address),
            flags_live: OnceCell::new(),
            instructions: Vec::new(),
            code: Vec::new(),
            body: 0,
            used: RegisterSet::default(),
        };
        block.decode_instructions(scratch);
        block
    }

    fn decode_instructions(&mut self, scratch: Scratch) {
        let mut address = self.address;
        let Some(end) = memory::executable_until(address) else {
            self.end = BlockEnd::Fault { address, fault: Fault::NotExecutable };
            return;
        };
        let code = code_bytes(address, end);
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let volatile = memory::guard::is_volatile(address);
        while self.instructions.len() < MAX_INSTRUCTIONS {
            let bytes = &code[(address - self.address) as usize..];
            if let Some((request, length)) = client_request::recognise(bytes) {
                if self.instructions.is_empty() {
                    self.end = BlockEnd::ClientRequest(request, address + length);
                } else {
                    self.end = BlockEnd::FallThrough(address);
                }
                return;
            }
            let instruction = decoder.decode();
            let alone = volatile || lockstep::stands_alone(&instruction);
            if alone && !self.instructions.is_empty() {
                self.end = BlockEnd::FallThrough(address);
                return;
            }
            let next = instruction.next_ip();
            let truncated = instruction.is_invalid() && bytes.len() < 15;
            let end_here = if truncated {
                Some(BlockEnd::Fault { address, fault: Fault::NotExecutable })
            } else {
                block_end(&instruction)
            };
            if let Some(BlockEnd::Fault { .. }) = end_here {
                // Natively the instructions before it are executed first.
                self.end = if self.instructions.is_empty() {
                    end_here.expect("just matched")
                } else {
                    BlockEnd::FallThrough(address)
                };
                return;
            }
            // Tools without scratch registers need not know.
            let used = if scratch == Scratch::default() { self.used } else { self.used.with(&instruction) };
            if !self.instructions.is_empty() && !used.leaves(scratch) {
                self.end = BlockEnd::FallThrough(address);
                return;
            }
            self.used = used;
            self.code.extend_from_slice(&bytes[..instruction.len()]);
            self.instructions.push(instruction);
            if let Some(end) = end_here {
                self.end = end;
                return;
            }
            self.body = self.instructions.len();
            address = next;
            if alone {
                break;
            }
        }
        self.end = BlockEnd::FallThrough(address);
    }

    /// All instructions, with the one that ends the block.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether an instruction uses registers that only AVX-512 has, or their upper halves.
    pub fn uses_avx512(&self) -> bool {
        self.instructions.iter().any(|instruction| {
            instruction.encoding() == EncodingKind::EVEX
                || (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_k())
        })
    }

    /// Whether an instruction uses XMM registers in an encoding from before AVX, which leaves their upper halves alone.
    pub fn has_legacy_vectors(&self) -> bool {
        self.instructions.iter().any(|instruction| {
            instruction.encoding() == EncodingKind::Legacy
                && (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_xmm())
        })
    }

    /// The bytes of instruction `index`, as they were when it was decoded.
    pub fn bytes(&self, index: usize) -> &[u8] {
        let instruction = &self.instructions[index];
        let start = (instruction.ip() - self.address) as usize;
        &self.code[start..start + instruction.len()]
    }

    /// The bytes of all instructions, as they were when they were decoded.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        &self.code
    }

    /// How many of them are copied; one behind these, if there is one, transfers control and is emitted by the engine.
    pub fn body_len(&self) -> usize {
        self.body
    }

    /// The instruction that ends the block, unless it just runs on.
    pub fn terminator(&self) -> Option<&Instruction> {
        self.instructions.get(self.body)
    }

    /// The status flags (iced's `RflagsBits`) whose values may still be read at instruction `index` or later.
    pub fn flags_live_before(&self, index: usize) -> u32 {
        self.flags_live.get_or_init(|| liveness::flags_live(self))[index]
    }

    /// Registers that occur in the block, if the tool wants scratch registers.
    pub fn used(&self) -> RegisterSet {
        self.used
    }

    /// Application bytes that were decoded, as a half-open range.
    pub fn range(&self) -> (u64, u64) {
        let end = self.instructions.last().map_or(self.address + 1, Instruction::next_ip);
        let end = if let BlockEnd::ClientRequest(_, next) = self.end { next } else { end };
        (self.address, end)
    }
}

/// The executable bytes from `address`, as many as the longest block needs.
fn code_bytes<'a>(address: u64, end: u64) -> &'a [u8] {
    const LONGEST_INSTRUCTION: u64 = 15;
    let length = end.saturating_sub(address).min(MAX_INSTRUCTIONS as u64 * LONGEST_INSTRUCTION) as usize;
    // SAFETY: `memory::executable_until` has found these bytes mapped, readable and executable. Another thread could unmap them at
    // this moment; then the fault is the application's own race and is reported as such.
    unsafe { std::slice::from_raw_parts(address as *const u8, length) }
}

fn block_end(instruction: &Instruction) -> Option<BlockEnd> {
    let next = instruction.next_ip();
    let fault = BlockEnd::Fault { address: instruction.ip(), fault: Fault::Raises };
    let emulated = match instruction.mnemonic() {
        Mnemonic::Cpuid => Some(Emulated::Cpuid),
        Mnemonic::Rdfsbase => Some(Emulated::ReadFsBase),
        Mnemonic::Wrfsbase => Some(Emulated::WriteFsBase),
        Mnemonic::Rdgsbase => Some(Emulated::ReadGsBase),
        Mnemonic::Wrgsbase => Some(Emulated::WriteGsBase),
        _ => None,
    };
    if let Some(emulated) = emulated {
        return Some(BlockEnd::Emulated(emulated, next));
    }
    if writes_segment_register(instruction) {
        return Some(fault);
    }
    Some(match instruction.flow_control() {
        FlowControl::Next => return None,
        FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() => {
            BlockEnd::Jump(instruction.near_branch_target())
        }
        FlowControl::ConditionalBranch => BlockEnd::Conditional { taken: instruction.near_branch_target(), next },
        FlowControl::Call if instruction.is_call_near() => {
            BlockEnd::Call { target: instruction.near_branch_target(), next }
        }
        FlowControl::Call if instruction.code() == Code::Syscall => BlockEnd::Syscall(next),
        FlowControl::IndirectBranch if instruction.is_jmp_near_indirect() => BlockEnd::IndirectJump,
        FlowControl::IndirectCall if instruction.is_call_near_indirect() => BlockEnd::IndirectCall { next },
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            BlockEnd::Return { release: if instruction.op_count() == 1 { instruction.immediate16() } else { 0 } }
        }
        // Far transfers, `int`, `iret`, `sysenter`, `xbegin`, privileged and invalid instructions.
        _ => fault,
    })
}

/// `mov fs, ax` and the like would take FS and GS away from the engine. With the null selector, the only use in 64-bit
/// programs, they clear the base; nothing that still runs depends on it.
fn writes_segment_register(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Mov_Sreg_rm16
            | Code::Mov_Sreg_r32m16
            | Code::Mov_Sreg_r64m16
            | Code::Popw_FS
            | Code::Popq_FS
            | Code::Popw_GS
            | Code::Popq_GS
    ) || matches!(instruction.mnemonic(), Mnemonic::Lfs | Mnemonic::Lgs)
}
