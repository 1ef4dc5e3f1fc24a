//! Which status flags must survive at each point of a block.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, RflagsBits};

use super::block::{Block, BlockEnd};
use crate::memory;

/// The flags that instrumentation can destroy.
pub const STATUS_FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// How far a successor is looked at, in instructions.
const LOOK_AHEAD: usize = 12;

/// Live flags before each instruction and at the end.
pub(super) fn flags_live(block: &Block) -> Vec<u32> {
    let instructions = block.instructions();
    let mut live = vec![0; instructions.len() + 1];
    live[instructions.len()] = flags_live_at_end(block.end);
    for (index, instruction) in instructions.iter().enumerate().rev() {
        live[index] = before(instruction, live[index + 1]);
    }
    live
}

fn before(instruction: &Instruction, after: u32) -> u32 {
    (after & !flags_overwritten(instruction) | instruction.rflags_read()) & STATUS_FLAGS
}

/// Flags whose old value certainly has no influence any more. A shift by CL may leave them as they are: iced lists those as modified, too,
/// so shifts whose count is not an immediate keep everything alive.
pub(crate) fn flags_overwritten(instruction: &Instruction) -> u32 {
    use iced_x86::Mnemonic::*;
    match instruction.mnemonic() {
        Shl | Sal | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd => {
            let last = instruction.op_count().saturating_sub(1);
            let known =
                matches!(instruction.op_kind(last), iced_x86::OpKind::Immediate8 | iced_x86::OpKind::Immediate8to64)
                    && instruction.immediate(last) & 0x1f != 0;
            if known { instruction.rflags_modified() } else { 0 }
        }
        // With a repeat count of zero nothing is compared.
        Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq
            if instruction.has_rep_prefix() || instruction.has_repne_prefix() =>
        {
            0
        }
        _ => instruction.rflags_modified(),
    }
}

fn flags_live_at_end(end: BlockEnd) -> u32 {
    match end {
        BlockEnd::FallThrough(next) | BlockEnd::Jump(next) => flags_live_at(next),
        BlockEnd::Conditional { taken, next } => flags_live_at(taken) | flags_live_at(next),
        BlockEnd::Call { target, .. } => flags_live_at(target),
        _ => STATUS_FLAGS,
    }
}

/// Flags that code at `address` may read before it writes them; all of them where that is not plain to see.
fn flags_live_at(address: u64) -> u32 {
    let Some(end) = memory::executable_until(address) else {
        return STATUS_FLAGS;
    };
    let length = (end - address).min(LOOK_AHEAD as u64 * 8) as usize;
    // SAFETY: `memory::executable_until` has found these bytes mapped and readable.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let (mut undecided, mut live) = (STATUS_FLAGS, 0);
    for _ in 0..LOOK_AHEAD {
        if undecided == 0 || !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        live |= instruction.rflags_read() & undecided;
        undecided &= !(flags_overwritten(&instruction) | live);
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    live | undecided
}
