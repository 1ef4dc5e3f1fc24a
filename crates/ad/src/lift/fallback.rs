//! The general rule for instructions without a rule of their own.

use iced_x86::{InstructionInfo, OpAccess, Register, UsedMemory};

use super::Lifter;
use crate::ir::{Address, Effect, Place, Span};
use crate::shadow;

/// Everything written becomes passive. With `lossy`, operands that are read are noted as lost if they are active.
pub(super) fn general_rule(lifter: &mut Lifter<'_>, lossy: bool) {
    let info = lifter.factory.info(lifter.instruction).clone();
    let targets = written(lifter, &info);
    if lossy {
        lifter.ir.by_default.push((lifter.position, lifter.instruction.code()));
        if !targets.is_empty() {
            for source in read(lifter, &info) {
                lifter.push(Effect::Lost { source });
            }
        }
    }
    for target in targets {
        lifter.clear(target);
    }
}

fn is_write(access: OpAccess) -> bool {
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
        .map(visible);
    let memory =
        info.used_memory().iter().filter(|used| is_write(used.access())).filter_map(|used| span_of(lifter, used));
    registers.chain(memory).collect()
}

/// Vector writes are reported in the width of the widest vector register.
fn visible(span: Span) -> Span {
    match span.place {
        Place::Register(offset) if (shadow::VECTOR..shadow::vector(16)).contains(&offset) => {
            Span::new(span.place, span.bytes.min(shadow::VECTOR_WIDTH))
        }
        _ => span,
    }
}

fn read(lifter: &Lifter<'_>, info: &InstructionInfo) -> Vec<Span> {
    (0..lifter.instruction.op_count())
        .filter(|&operand| is_read(info.op_access(operand)))
        .filter_map(|operand| lifter.operand(operand))
        .filter(|span| span.bytes > 0)
        .collect()
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
