//! The general rule for instructions without a rule of their own.

use iced_x86::{InstructionInfo, OpAccess, Register, UsedMemory};

use super::Lifter;
use crate::ir::{Address, Place, Span};
use crate::shadow;

/// The rule for an instruction that is not in the tables.
pub(super) fn without_entry(lifter: &mut Lifter<'_>) {
    lifter.ir.by_default.push((lifter.position, lifter.instruction.code()));
    general_rule(lifter, true);
}

/// Everything written becomes passive. With `lossy`, operands that are read are noted as lost if they are active.
pub(super) fn general_rule(lifter: &mut Lifter<'_>, lossy: bool) {
    let info = lifter.factory.info(lifter.instruction).clone();
    let targets = written(lifter, &info);
    if lossy && !targets.is_empty() {
        lifter.fetch();
        for source in read(lifter) {
            lifter.lost(source);
        }
    }
    if lifter.mask.is_some() {
        // Nothing but the destination is written under a mask.
        return lifter.clear_destination();
    }
    for target in targets {
        lifter.clear(target);
    }
}

/// Whether something is written, perhaps on some condition.
pub(crate) fn is_write(access: OpAccess) -> bool {
    use OpAccess::*;
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

fn is_read(access: OpAccess) -> bool {
    use OpAccess::*;
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn written(lifter: &Lifter<'_>, info: &InstructionInfo) -> Vec<Span> {
    let registers = info
        .used_registers()
        .iter()
        .filter(|used| is_write(used.access()) && used.register() != Register::RSP && !used.register().is_st())
        .filter_map(|used| lifter.register(used.register()))
        .map(|span| visible(span, lifter.vector_bytes()));
    let memory =
        info.used_memory().iter().filter(|used| is_write(used.access())).filter_map(|used| span_of(lifter, used));
    registers.chain(memory).collect()
}

/// Vector writes are reported in the width of the widest vector register that processors have.
fn visible(span: Span, vector_bytes: u16) -> Span {
    match span.place {
        Place::Register(offset) if (shadow::VECTOR..shadow::X87).contains(&offset) => {
            Span::new(span.place, span.bytes.min(vector_bytes))
        }
        _ => span,
    }
}

fn read(lifter: &mut Lifter<'_>) -> Vec<Span> {
    // A destination of which elements are kept is not a source for that.
    let mut instruction = *lifter.instruction;
    instruction.set_op_mask(Register::None);
    instruction.set_zeroing_masking(false);
    let info = lifter.factory.info(&instruction).clone();
    let explicit = (0..lifter.instruction.op_count())
        .filter(|&operand| is_read(info.op_access(operand)))
        .filter_map(|operand| lifter.operand(operand));
    // `mul` reads RAX, `cmpxchg16b` four registers: what is no operand, and no part of an address.
    let operands = |register: Register| {
        let full = register.full_register();
        (0..instruction.op_count()).any(|operand| instruction.op_register(operand).full_register() == full)
            || info
                .used_memory()
                .iter()
                .any(|used| [used.base(), used.index()].map(Register::full_register).contains(&full))
    };
    let implicit = info
        .used_registers()
        .iter()
        .filter(|used| is_read(used.access()) && !operands(used.register()) && used.register() != Register::RSP)
        .filter_map(|used| lifter.register(used.register()));
    explicit.chain(implicit).filter(|span| span.bytes > 0).collect()
}

/// The span of a memory access, explicit or implicit.
fn span_of(lifter: &Lifter<'_>, used: &UsedMemory) -> Option<Span> {
    let instruction = lifter.instruction;
    let bytes = used.memory_size().size() as u16;
    let explicit = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == iced_x86::OpKind::Memory)
        && used.base() == instruction.memory_base()
        && used.index() == instruction.memory_index()
        && used.displacement() == instruction.memory_displacement64();
    let base = if explicit {
        Address::Operand
    } else if used.index() != Register::None {
        return None;
    } else {
        match used.base() {
            Register::RSP => Address::Stack,
            Register::RBP => Address::Frame,
            Register::RSI => Address::StringSource,
            Register::RDI => Address::StringDestination,
            _ => return None,
        }
    };
    let offset = if explicit { 0 } else { i16::try_from(used.displacement() as i64).ok()? };
    (bytes > 0).then(|| Span::new(Place::Memory { base, offset }, bytes))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Decoder, DecoderOptions};

    use crate::ir::Effect;
    use crate::lift::lift;

    /// Effects of one instruction, and whether it has an entry.
    fn lifted(bytes: &[u8]) -> (Code, Vec<Effect>, bool) {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let ir = lift(&[instruction]);
        let known = ir.by_default.is_empty();
        (instruction.code(), ir.operations.iter().map(|operation| operation.effect).collect(), known)
    }

    #[test]
    fn encodings_of_amd_processors_have_no_entry_and_lose_what_they_read() {
        let vfmaddpd = [0xc4, 0xe3, 0xf1, 0x69, 0xc2, 0x30];
        let vpcmov = [0x8f, 0xe8, 0x78, 0xa2, 0xc1, 0x20];
        let expected =
            [(&vfmaddpd[..], Code::VEX_Vfmaddpd_xmm_xmm_xmm_xmmm128), (&vpcmov, Code::XOP_Vpcmov_xmm_xmm_xmmm128_xmm)];
        for (bytes, code) in expected {
            let (found, effects, known) = lifted(bytes);
            assert_eq!((found, known), (code, false));
            assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Lost { .. })).count(), 3, "{code:?}");
            assert!(matches!(effects.last(), Some(Effect::Clear { .. })), "{code:?}");
        }
    }

    #[test]
    fn implicit_operands_are_lost_and_addresses_are_not() {
        let lost = |bytes: &[u8]| {
            let (_, effects, _) = lifted(bytes);
            effects.iter().filter(|effect| matches!(effect, Effect::Lost { .. })).count()
        };
        // mul rcx: RAX and RCX. imul eax, [rbx+rdx], 3: the memory. pushfq: nothing.
        assert_eq!(lost(&[0x48, 0xf7, 0xe1]), 2);
        assert_eq!(lost(&[0x6b, 0x04, 0x13, 0x03]), 1);
        assert_eq!(lost(&[0x9c]), 0);
    }

    #[test]
    fn half_precision_is_known_and_loses_what_it_reads() {
        let (code, effects, known) = lifted(&[0xc4, 0xe3, 0x79, 0x1d, 0xc1, 0x00]);
        assert_eq!((code, known), (Code::VEX_Vcvtps2ph_xmmm64_xmm_imm8, true));
        assert!(matches!(effects[..], [Effect::Lost { .. }, Effect::Clear { .. }]), "{effects:?}");
    }
}
