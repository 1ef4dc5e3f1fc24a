//! Instructions whose result is another one each time, or another one in the code cache: they are not executed natively, their outcome is
//! taken over from the engine.

use std::arch::x86_64::__cpuid_count;
use std::ops::Range;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::context::Context;
use crate::translate::registers::general_number;

/// Clocks, counters, random numbers, the number of the processor, and waiting, whose carry flag tells how it ended.
const UNPREDICTABLE: &[Mnemonic] = &[
    Mnemonic::Rdtsc,
    Mnemonic::Rdtscp,
    Mnemonic::Rdpmc,
    Mnemonic::Rdpru,
    Mnemonic::Rdpid,
    Mnemonic::Rdrand,
    Mnemonic::Rdseed,
    Mnemonic::Tpause,
    Mnemonic::Umwait,
    // Which state components are in use: not the same after an XRSTOR as without.
    Mnemonic::Xgetbv,
];

/// Instructions that store the address of the last x87 instruction, or only those state components that are in use.
const STORING: &[(Mnemonic, Size)] = &[
    (Mnemonic::Xsave, Size::Extended),
    (Mnemonic::Xsave64, Size::Extended),
    (Mnemonic::Xsavec, Size::Extended),
    (Mnemonic::Xsavec64, Size::Extended),
    (Mnemonic::Xsaveopt, Size::Extended),
    (Mnemonic::Xsaveopt64, Size::Extended),
    (Mnemonic::Fxsave, Size::Bytes(512)),
    (Mnemonic::Fxsave64, Size::Bytes(512)),
    (Mnemonic::Fnsave, Size::Bytes(108)),
    (Mnemonic::Fnstenv, Size::Bytes(28)),
];

/// How much is stored.
#[derive(Clone, Copy)]
enum Size {
    Bytes(u64),
    /// An XSAVE image with all components that the operating system has enabled.
    Extended,
}

impl Size {
    fn bytes(self) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Extended => {
                // SAFETY: cpuid is available on every amd64 processor.
                #[allow(unused_unsafe)]
                let leaf = unsafe { __cpuid_count(0xd, 0) };
                leaf.ebx.into()
            }
        }
    }
}

fn stored(instruction: &Instruction) -> Option<Size> {
    STORING.iter().find(|(mnemonic, _)| *mnemonic == instruction.mnemonic()).map(|entry| entry.1)
}

/// Whether an instruction's result differs from run to run.
pub(super) fn is_unpredictable(instruction: &Instruction) -> bool {
    UNPREDICTABLE.contains(&instruction.mnemonic()) || stored(instruction).is_some()
}

/// The memory that such an instruction is about to write.
pub(super) fn written(instruction: &Instruction, context: &Context) -> Option<Range<u64>> {
    let size = stored(instruction)?;
    let operand = instruction.op_kinds().position(|kind| kind == OpKind::Memory)?;
    let address = instruction.virtual_address(operand as u32, 0, |register, _, _| match register {
        Register::FS => Some(context.fs_base),
        Register::GS => Some(context.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ => general_number(register).map(|number| context.gpr[number]),
    })?;
    Some(address..address.saturating_add(size.bytes()))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    #[test]
    fn the_memory_of_an_fxsave() {
        // SAFETY: this test's own thread, which runs no application code.
        let context = unsafe { &mut *crate::context::current() };
        context.gpr[4] = 0x10000;
        context.gpr[1] = 0x10;
        // fxsave [rsp+rcx*8+0x40]
        let code = [0x0f, 0xae, 0x44, 0xcc, 0x40];
        let instruction = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).decode();
        assert_eq!(written(&instruction, context), Some(0x100c0..0x102c0));
        assert!(is_unpredictable(&instruction));
        assert_eq!(written(&Decoder::with_ip(64, &[0x0f, 0x31], 0, DecoderOptions::NONE).decode(), context), None);
    }
}
