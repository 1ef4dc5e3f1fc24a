//! Rounding constants in additions, found inline: see [`crate::rounding`].

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext, Label, memory};
use derivgrind_tape::Operation;
use iced_x86::{Code, Instruction, Register};

use crate::instrument::Thread;
use crate::ir::Format;
use crate::rounding::{cancels, concerns, has_value, pattern, sums};
use crate::shadow::{narrow_index, of_narrow, of_wide};

use super::layout::{TapeFields, tape_field};
use super::real::{Lane, call_with_indices, store_value};
use super::state::TapeThread;

/// For an addition or subtraction: where exactly one operand is passive and a rounding constant, and this is the second half of a rounding, continues at
/// `passive` with 0 in the third scratch register. `active` are the operands whose indices are in the first two; the flags are the recorder's own.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize, lane: &Lane, active: &[usize], passive: Label) {
    if !concerns(lane.operation) {
        return;
    }
    for k in 0..2 {
        let Some(operand) = lane.operands[k].filter(|operand| has_value(operand.place)) else { continue };
        let resume = emitter.asm().label();
        let (lane, register, spare) = (*lane, emitter.scratch(k), emitter.scratch(2));
        let check = emitter.cold(move |emitter| {
            let value = |k: usize| tape_field(offset_of!(TapeFields, values) + 8 * k);
            store_value(emitter, index, operand.place, lane.format, value(k), register);
            emitter.asm().load(register, value(k));
            let other = emitter.asm().label();
            emit_comparison(emitter, lane.format, register, spare, other);
            if let Some(sum) = lane.operands[1 - k].filter(|sum| has_value(sum.place)) {
                store_value(emitter, index, sum.place, lane.format, value(1 - k), spare);
            } else {
                // A product inside a fused multiply-add: no sum at least.
                emitter.asm().store_constant(value(1 - k), 0);
            }
            emitter.asm().constant(register, 0);
            let indices = [0, 1].map(|k| Some(emitter.scratch(k)));
            call_with_indices(emitter, indices, decide, Question::of(&lane, k).payload());
            emitter.asm().load(spare, tape_field(offset_of!(TapeFields, rounds)));
            emitter.asm().push2(Code::Test_rm64_r64, spare, spare);
            emitter.asm().jump_if(Condition::Equal, resume);
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

/// What a helper is asked: whether this operation, one operand of which is a rounding constant, is the second half of a rounding.
struct Question {
    format: Format,
    subtracts: bool,
    /// Which operand is the constant.
    constant: usize,
}

impl Question {
    fn of(lane: &Lane, constant: usize) -> Question {
        Question { format: lane.format, subtracts: lane.operation == Operation::Sub, constant }
    }

    fn payload(&self) -> u64 {
        u64::from(self.format == Format::Binary32) | u64::from(self.subtracts) << 1 | (self.constant as u64) << 2
    }

    fn from_payload(bits: u64) -> Question {
        let format = if bits & 1 != 0 { Format::Binary32 } else { Format::Binary64 };
        Question { format, subtracts: bits & 2 != 0, constant: (bits >> 2 & 1) as usize }
    }
}

/// Answers, and if it is a sum, remembers the index that it will have.
fn decide(context: &mut Context, payload: u64) -> HelperNext {
    let Question { format, subtracts, constant } = Question::from_payload(payload);
    let mut thread = Thread::new(context);
    let wide = format == Format::Binary64;
    let shadow = thread.tape_fields().slow[1 - constant];
    let index = if wide { thread.settle(shadow) } else { narrow_index(shadow) };
    let shadow = if wide { index.map_or(shadow, of_wide) } else { shadow };
    thread.tape_fields().slow[1 - constant] = shadow;
    let values = thread.tape_fields().values;
    let sum = values[1 - constant];
    let rounds = cancels(format, subtracts, sum, values[constant]) && sums::contains(shadow);
    thread.tape_fields().rounds = rounds.into();
    // What is no index, or cannot be recorded, is the slow path's business.
    if let Some(operand) = index.filter(|_| !rounds)
        && thread.make_room(operand)
    {
        let index = thread.next_index();
        sums::remember(if wide { of_wide(index) } else { of_narrow(index) });
    }
    HelperNext::Resume
}

/// Continues at `other` unless the number in the low bytes of `value` is a rounding constant. Both registers are changed.
fn emit_comparison(emitter: &mut Emitter<'_>, format: Format, value: Register, spare: Register, other: Label) {
    let pattern = pattern(format);
    let asm = emitter.asm();
    let shift = |code, register, count: u32| {
        Instruction::with2(code, register, count as i32).expect("a shift takes a register and a constant")
    };
    // The number goes to the top of the register, without its sign; its mantissa is rounded to the bits that matter.
    let to_top = 65 - pattern.bits;
    let mantissa_bits = pattern.mantissa_bits_that_matter();
    asm.push(&shift(Code::Shl_rm64_imm8, value, to_top));
    asm.constant(spare, pattern.half() << to_top);
    asm.push2(Code::Add_r64_rm64, value, spare);
    asm.push(&shift(Code::Shr_rm64_imm8, value, to_top + pattern.free_bits));
    let constant = asm.label();
    asm.constant(spare, pattern.plain >> pattern.free_bits);
    asm.push2(Code::Cmp_r64_rm64, value, spare);
    asm.jump_if(Condition::Equal, constant);
    // A factor of 1.5: of the mantissa's bits only the first is set.
    asm.push2(Code::Mov_r64_rm64, spare, value);
    asm.push(&shift(Code::Shl_rm64_imm8, spare, 64 - mantissa_bits));
    asm.push2(Code::Add_r64_rm64, spare, spare);
    asm.jump_if(Condition::NotEqual, other);
    asm.jump_if(Condition::AboveOrEqual, other);
    asm.push(&shift(Code::Shr_rm64_imm8, value, mantissa_bits));
    asm.lea(spare, memory(value, -(pattern.first_exponent as i64)));
    let range = Instruction::with2(Code::Cmp_rm64_imm8, spare, pattern.further_exponents as i32);
    asm.push(&range.expect("cmp takes a register and a constant"));
    asm.jump_if(Condition::Above, other);
    asm.bind(constant);
}
