//! Dead shadow: what is overwritten in the same block before anything reads it need not be computed.
//!
//! A pointer that is loaded, used as an address and overwritten is the typical case: its shadow is never looked at. At the end of the
//! block everything is live except temporaries. An exit in the middle of a block to another version of its remaining instructions
//! needs nothing more than these instructions themselves do.

use super::RegisterSet;
use crate::ir::{Effect, Operation, Span};
use crate::shadow::{FILE_BYTES, OPERAND, Range, TEMPORARY, X87, X87_BYTES};

/// The operations whose effect can be observed.
pub fn observable(operations: &[Operation]) -> Vec<Operation> {
    let mut live = RegisterSet::ALL;
    live.remove(Range { offset: TEMPORARY, bytes: FILE_BYTES - TEMPORARY });
    let mut kept: Vec<Operation> =
        operations.iter().rev().filter(|operation| step(operation, &mut live)).copied().collect();
    kept.reverse();
    kept
}

/// Goes back over one effect; returns whether it is observable.
fn step(operation: &Operation, live: &mut RegisterSet) -> bool {
    let effect = &operation.effect;
    match *effect {
        Effect::RepeatedMove { .. } | Effect::RepeatedStore { .. } => return true,
        Effect::Rotate { by } => {
            live.rotate_x87(-by);
            return true;
        }
        Effect::Stack { .. } => {
            live.insert(Range { offset: X87, bytes: X87_BYTES });
            return true;
        }
        // Everything that these touch is read, and written in part at most.
        Effect::State { .. } | Effect::CompareExchange { .. } | Effect::Update { .. } => {
            *live = RegisterSet::ALL;
            return true;
        }
        _ => {}
    }
    let target = effect.target().and_then(Span::register);
    if target.is_some_and(|target| !live.intersects(target)) {
        return false;
    }
    if let Some(target) = target.filter(|_| operation.overwrites_target()) {
        live.remove(target);
    }
    let fetched = effect.count().filter(|count| count.register().is_some_and(|range| range.offset >= OPERAND));
    for source in effect.sources().into_iter().flatten().chain(fetched).filter_map(Span::register) {
        live.insert(source);
    }
    true
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};

    use super::*;
    use crate::lift::lift;

    fn load(register: Register, base: Register) -> Instruction {
        Instruction::with2(Code::Mov_r64_rm64, register, MemoryOperand::with_base(base)).unwrap()
    }

    fn kept(instructions: &[Instruction]) -> Vec<u16> {
        observable(&lift(instructions).operations).iter().map(|operation| operation.instruction).collect()
    }

    #[test]
    fn a_pointer_that_is_only_dereferenced_has_no_observable_shadow() {
        let chain = [load(Register::RAX, Register::RDI), load(Register::RAX, Register::RAX)];
        assert_eq!(kept(&chain), [1]);
    }

    #[test]
    fn what_is_stored_or_remains_in_a_register_is_observable() {
        let store =
            Instruction::with2(Code::Mov_rm64_r64, MemoryOperand::with_base(Register::RSI), Register::RAX).unwrap();
        let block = [load(Register::RAX, Register::RDI), store, load(Register::RAX, Register::RDI)];
        assert_eq!(kept(&block), [0, 1, 2]);
    }

    #[test]
    fn numbers_of_bits_that_are_fetched_are_needed() {
        let mut shift = Instruction::with3(
            Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
            Register::ZMM1,
            Register::ZMM2,
            MemoryOperand::with_base(Register::RSI),
        )
        .unwrap();
        shift.set_is_broadcast(true);
        let operations = observable(&lift(&[shift]).operations);
        assert!(operations.iter().any(|operation| matches!(operation.effect, Effect::Fetch { .. })), "{operations:?}");
    }

    #[test]
    fn a_partial_overwrite_keeps_the_rest() {
        let byte = Instruction::with2(Code::Mov_r8_imm8, Register::AL, 1).unwrap();
        assert_eq!(kept(&[load(Register::RAX, Register::RDI), byte]), [0, 1]);
    }
}
