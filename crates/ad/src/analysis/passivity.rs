//! Which shadow is known to be passive: operations on passive operands do nothing but clear, and clearing what is passive does nothing.

use super::RegisterSet;
use crate::ir::{Effect, Operation, Place, Span};
use crate::shadow::{FILE_BYTES, Range, X87, X87_BYTES};

/// An operation with what is known about its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation.
    pub operation: Operation,
    /// Whether each of the first two [`Effect::sources`] is certainly passive (also if there is none).
    pub passive: [bool; 2],
    /// Whether the target is certainly passive before the operation.
    pub target_passive: bool,
}

/// What is known at the start of a block, and about memory.
pub struct Assumptions<'a> {
    /// Shadow registers that are passive throughout, because the version of the block assumes it: where an operation would make them
    /// active, the block is left.
    pub assumed: RegisterSet,
    /// Whether a memory operand of an instruction can never be active: constants in read-only memory.
    pub constant: &'a dyn Fn(u16, Span) -> bool,
}

/// The operations that remain, given the assumptions.
pub fn remaining(operations: &[Operation], assumptions: &Assumptions<'_>) -> Vec<Step> {
    let mut known = assumptions.assumed;
    operations.iter().filter_map(|operation| step(*operation, &mut known, assumptions)).collect()
}

fn step(operation: Operation, known: &mut RegisterSet, assumptions: &Assumptions<'_>) -> Option<Step> {
    let is_passive = |known: &RegisterSet, span: Option<Span>| match span {
        None => true,
        Some(span) => match span.register() {
            Some(range) => known.contains(range),
            None => (assumptions.constant)(operation.instruction, span),
        },
    };
    let [first, second, third] = operation.effect.sources();
    let passive = [is_passive(known, first), is_passive(known, second)];
    let target = operation.effect.target();
    let register = target.and_then(Span::register);
    let target_passive = register.is_some_and(|range| known.contains(range));
    let all_passive = passive == [true, true] && is_passive(known, third);

    let simplified = match operation.effect {
        Effect::State { .. } | Effect::CompareExchange { .. } | Effect::Update { .. } => {
            forget_all(known, assumptions);
            return Some(Step { operation, passive, target_passive: false });
        }
        Effect::Rotate { .. } | Effect::Stack { .. } => return stack(operation, known),
        Effect::RepeatedMove { .. } | Effect::RepeatedStore { .. } => {
            return Some(Step { operation, passive, target_passive: false });
        }
        Effect::Lost { .. } if all_passive => return None,
        Effect::Clear { .. } if target_passive => return None,
        Effect::Replay { masked: true, .. } => operation.effect,
        Effect::Copy { .. }
        | Effect::Convert { .. }
        | Effect::Real { .. }
        | Effect::BitTrick { .. }
        | Effect::X87 { .. }
        | Effect::X87Move { .. }
        | Effect::Select { .. }
        | Effect::Replay { .. }
            if all_passive =>
        {
            if target_passive || is_in_place(&operation.effect) {
                return None;
            }
            Effect::Clear { target: target? }
        }
        effect => effect,
    };
    // Where nothing else is kept, no mask is needed.
    let clears = matches!(simplified, Effect::Clear { .. });
    let mask = operation.mask.filter(|mask| !(clears && mask.zeroing));
    if let Some(range) = register {
        match simplified {
            Effect::Clear { .. } if mask.is_none() => known.insert(range),
            // Elements that are not cleared keep what they are.
            Effect::Clear { .. } => {}
            // Constants have values, but no shadow.
            Effect::Fetch { .. } if all_passive => known.insert(range),
            // An assumption remains true: the block is left before it becomes wrong.
            _ if assumptions.assumed.contains(range) => {}
            _ => known.remove(range),
        }
    }
    Some(Step { operation: Operation { effect: simplified, mask, ..operation }, passive, target_passive })
}

/// The x87 stack moves. Its registers are not among those that a version assumes passive and tests: it assumes all or nothing.
fn stack(operation: Operation, known: &mut RegisterSet) -> Option<Step> {
    let registers = Range { offset: X87, bytes: X87_BYTES };
    if known.contains(registers) {
        return None;
    }
    match operation.effect {
        Effect::Rotate { by } => known.rotate_x87(by),
        _ => known.remove(registers),
    }
    Some(Step { operation, passive: [false; 2], target_passive: false })
}

/// An operation with passive operands on the place of one of them leaves it passive.
fn is_in_place(effect: &Effect) -> bool {
    let place = |span: Option<Span>| span.map(|span| (span.place, span.bytes));
    effect.sources().into_iter().any(|source| source.is_some() && place(source) == place(effect.target()))
}

fn forget_all(known: &mut RegisterSet, assumptions: &Assumptions<'_>) {
    *known = assumptions.assumed;
}

/// The whole shadow register file.
pub const EVERYTHING: Range = Range { offset: 0, bytes: FILE_BYTES };

/// Whether a place is a register that the version assumes passive.
pub fn is_assumed(assumed: &RegisterSet, place: Place, bytes: u16) -> bool {
    matches!(place, Place::Register(offset) if assumed.contains(Range { offset, bytes }))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};

    use super::*;
    use crate::lift::lift;

    fn effects(instructions: &[Instruction], assumed: RegisterSet, constant: bool) -> Vec<Effect> {
        let assumptions = Assumptions { assumed, constant: &|_, _| constant };
        remaining(&lift(instructions).operations, &assumptions).iter().map(|step| step.operation.effect).collect()
    }

    fn addsd(register: Register) -> Instruction {
        Instruction::with2(Code::Addsd_xmm_xmmm64, register, MemoryOperand::with_base(Register::RDI)).unwrap()
    }

    #[test]
    fn zeroing_makes_later_operations_on_the_register_vanish() {
        let zero = Instruction::with2(Code::Xorps_xmm_xmmm128, Register::XMM1, Register::XMM1).unwrap();
        let copy = Instruction::with2(Code::Addsd_xmm_xmmm64, Register::XMM2, Register::XMM1).unwrap();
        let square = Instruction::with2(Code::Mulsd_xmm_xmmm64, Register::XMM1, Register::XMM1).unwrap();
        assert_eq!(effects(&[zero, square], RegisterSet::NONE, false).len(), 1);
        assert_eq!(effects(&[zero, square, copy], RegisterSet::NONE, false).len(), 2);
        assert_eq!(effects(&[zero, zero], RegisterSet::NONE, false).len(), 1);
    }

    #[test]
    fn with_passive_registers_only_memory_matters() {
        let register = Instruction::with2(Code::Addsd_xmm_xmmm64, Register::XMM2, Register::XMM1).unwrap();
        let block = [register, addsd(Register::XMM1), register];
        assert_eq!(effects(&block, RegisterSet::ALL, false).len(), 1);
        assert_eq!(effects(&block, RegisterSet::ALL, true).len(), 0);
    }

    #[test]
    fn a_constant_operand_is_known_to_be_passive() {
        let assumptions = Assumptions { assumed: RegisterSet::NONE, constant: &|_, _| true };
        let steps = remaining(&lift(&[addsd(Register::XMM3)]).operations, &assumptions);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].passive, [false, true]);
    }
}
