//! Additions of rounding constants, inline: see [`crate::rounding`].

use std::mem::offset_of;

use derivgrind_engine::translate::{Condition, Emitter, Label, memory};
use iced_x86::{Code, Instruction, Register};

use crate::ir::Format;
use crate::rounding::{concerns, has_value, pattern};

use super::layout::{TapeFields, tape_field};
use super::real::{Lane, store_value};

/// For an addition or subtraction: where exactly one operand is passive and a rounding constant, continues at `passive` with 0 in the third
/// scratch register. `active` are the operands whose indices are in the first two; the flags are the recorder's own.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize, lane: &Lane, active: &[usize], passive: Label) {
    if !concerns(lane.operation) {
        return;
    }
    for k in 0..2 {
        let Some(operand) = lane.operands[k].filter(|operand| has_value(operand.place)) else { continue };
        let resume = emitter.asm().label();
        let (lane, register, spare) = (*lane, emitter.scratch(k), emitter.scratch(2));
        let check = emitter.cold(move |emitter| {
            let slot = tape_field(offset_of!(TapeFields, slow));
            store_value(emitter, index, operand.place, lane.format, slot, register);
            emitter.asm().load(register, slot);
            let other = emitter.asm().label();
            emit_comparison(emitter, lane.format, register, spare, other);
            emitter.asm().constant(spare, 0);
            emitter.asm().jump(passive);
            emitter.asm().bind(other);
            emitter.asm().constant(register, 0);
            emitter.asm().jump(resume);
        });
        if active.contains(&k) {
            emitter.asm().push2(Code::Test_rm64_r64, register, register);
            emitter.asm().jump_if(Condition::Equal, check);
        } else {
            emitter.asm().jump(check);
        }
        emitter.asm().bind(resume);
    }
}

/// Continues at `other` unless the number in the low bytes of `value` is a rounding constant. Both registers are changed.
fn emit_comparison(emitter: &mut Emitter<'_>, format: Format, value: Register, spare: Register, other: Label) {
    let pattern = pattern(format);
    let asm = emitter.asm();
    let shift = |code, register, count: u32| {
        Instruction::with2(code, register, count as i32).expect("a shift takes a register and a constant")
    };
    // The number goes to the top of the register, without its sign.
    let to_top = 65 - pattern.bits;
    asm.push(&shift(Code::Shl_rm64_imm8, value, to_top));
    let constant = asm.label();
    asm.constant(spare, pattern.plain << to_top);
    asm.push2(Code::Cmp_r64_rm64, value, spare);
    asm.jump_if(Condition::Equal, constant);
    // A factor of 1.5: of the mantissa's bits, other than those of a bias, only the first is set.
    if pattern.bias != 0 {
        let mask = Instruction::with2(Code::And_rm64_imm32, value, !(pattern.bias << to_top) as i32);
        asm.push(&mask.expect("and takes a register and a constant"));
    }
    asm.push2(Code::Mov_r64_rm64, spare, value);
    asm.push(&shift(Code::Shl_rm64_imm8, spare, pattern.exponent_bits));
    asm.push2(Code::Add_r64_rm64, spare, spare);
    asm.jump_if(Condition::NotEqual, other);
    asm.jump_if(Condition::AboveOrEqual, other);
    asm.push(&shift(Code::Shr_rm64_imm8, value, 64 - pattern.exponent_bits));
    asm.lea(spare, memory(value, -(pattern.first_exponent as i64)));
    let range = Instruction::with2(Code::Cmp_rm64_imm8, spare, pattern.further_exponents as i32);
    asm.push(&range.expect("cmp takes a register and a constant"));
    asm.jump_if(Condition::Above, other);
    asm.bind(constant);
}
