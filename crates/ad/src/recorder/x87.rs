//! x87 in recording mode.
//!
//! The shadow of a register is an index with the tag of binary64 in eight bytes. So loads and stores of `double` only move it. A `long double` in
//! memory keeps the bits that are not part of an index there for its own sign and exponent, [`EXPONENT`]: programs change the sign, and
//! sometimes the exponent, in memory, in bytes that have no part of the index. What is loaded then is the number that was stored times
//! ±2^k, and that is the derivative. (The field holds one more than these 16 bits, modulo 2^16. Zero, which would be an infinity, says nothing: the shadow
//! has come there in another way, such as through an MMX register.)

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext, Label, memory};
use derivgrind_tape::Operation;
use iced_x86::{Code, Instruction, Register};

use crate::instrument::{
    Thread, X87Call, X87Move, X87Real, lost_at, operand_address, reach_memory, read_shadow, shadow_of, value_in_memory,
};
use crate::ir::{Format, Place, X87Format, X87Operand, X87Operation};
use crate::rounding::sums;
use crate::shadow::{WIDE_MARK, narrow_index, of_wide, wide_index};
use crate::x87::{self, Extended, ExtendedShadow, Shadow};

use super::layout::{TapeFields, tape_field};
use super::state::TapeThread;
use super::{Recording, real};

/// Where a `long double` in memory has its sign and exponent in its shadow, and how many bits these are. Indices have fewer bits than that.
const EXPONENT: u32 = 47;
const EXPONENT_BITS: u32 = 16;
/// The bits of an index with its guard.
const INDEX: u64 = (1 << EXPONENT) - 1;

impl ExtendedShadow for Recording {
    fn loaded(context: &mut Context, value: Extended, shadow: Shadow) -> Shadow {
        let word = word(shadow);
        if word == 0 {
            return Shadow::default();
        }
        let field = (word >> EXPONENT) as u16;
        let stored = Extended { high: field.wrapping_sub(1), ..value };
        let ratio = if field == 0 { Some(1.0) } else { x87::ratio(stored, value) };
        let index = match (wide_index(word & INDEX | WIDE_MARK), ratio) {
            (Some(index), Some(1.0)) => index,
            (Some(index), Some(ratio)) => {
                let mut thread = Thread::new(context);
                thread.record(Operation::Partials, Format::Binary64, [index, 0], [ratio, 0.0])
            }
            _ => {
                lost_at(context.rip);
                0
            }
        };
        of_index(index)
    }

    fn stored(context: &mut Context, value: Extended, shadow: Shadow) -> Shadow {
        let word = word(shadow);
        let Some(index) = Thread::new(context).settle(word) else {
            lost_at(context.rip);
            return Shadow::default();
        };
        if index == 0 {
            return Shadow::default();
        }
        of_word(of_wide(index) | u64::from(value.high.wrapping_add(1)) << EXPONENT)
    }
}

/// The low eight bytes.
fn word(shadow: Shadow) -> u64 {
    u64::from_le_bytes(shadow[..8].try_into().expect("eight bytes"))
}

/// The index in the shadow of a register.
pub(super) fn index_of(shadow: Shadow) -> u64 {
    wide_index(word(shadow)).unwrap_or(0)
}

/// The shadow of a register that has this index.
pub(super) fn of_index(index: u64) -> Shadow {
    of_word(of_wide(index))
}

fn of_word(word: u64) -> Shadow {
    let mut shadow = Shadow::default();
    shadow[..8].copy_from_slice(&word.to_le_bytes());
    shadow
}

/// Records an operation.
pub(super) fn record(thread: &mut Thread<'_>, call: &X87Call) {
    let indices =
        call.operands.map(|operand| operand.map_or(0, |operand| index_of_operand(thread, operand, call.address)));
    let index = index_of_result(thread, call, indices);
    if let Place::Register(offset) = call.target {
        thread.shadow_file_mut(0, offset, Extended::BYTES).copy_from_slice(&of_index(index));
    }
}

fn index_of_operand(thread: &mut Thread<'_>, operand: X87Operand, address: u64) -> u64 {
    let index = match (operand.place, operand.real()) {
        (_, None) => Some(0),
        (Place::Register(offset), _) => {
            let word = u64::from_le_bytes(thread.shadow_file(0, offset, 8).try_into().expect("eight bytes"));
            thread.settle(word)
        }
        (Place::Memory { .. }, Some(span)) => {
            let word = read_shadow(thread, 0, span, address)[0];
            if operand.format == X87Format::Binary32 { narrow_index(word) } else { thread.settle(word) }
        }
    };
    index.unwrap_or_else(|| {
        lost_at(thread.context().rip);
        0
    })
}

fn index_of_result(thread: &mut Thread<'_>, call: &X87Call, indices: [u64; 2]) -> u64 {
    if thread.fields().disabled != 0 {
        return 0;
    }
    let rounding = call.rounding(thread, indices.map(|index| index == 0));
    if rounding.is_some_and(|(sum, undoes)| undoes && sums::contains(of_wide(indices[sum]))) {
        return 0;
    }
    let mut record = |operation, values| thread.record(operation, Format::Binary64, indices, values);
    match (call.operation, indices) {
        (operation, _) if rounding.is_some() => {
            // With an index of its own: what becomes of the operand's is another matter.
            let operation = if operation == X87Operation::Add { Operation::Add } else { Operation::Sub };
            let index = record(operation, [0.0; 2]);
            sums::remember(of_wide(index));
            return index;
        }
        (X87Operation::Add, [index, 0] | [0, index]) | (X87Operation::Subtract, [index, 0]) => return index,
        (X87Operation::Add, _) => return record(Operation::Add, [0.0; 2]),
        (X87Operation::Subtract, _) => return record(Operation::Sub, [0.0; 2]),
        (X87Operation::Negate, _) => return record(Operation::Negate, [0.0; 2]),
        _ => {}
    }
    let exact = call.partials(thread);
    let partials = exact.map(Extended::to_f64);
    if (0..2).any(|k| indices[k] != 0 && is_out_of_range(exact[k], partials[k])) {
        lost_at(thread.context().rip);
        return 0;
    }
    // A partial derivative of 0 is no dependence.
    match [0, 1].map(|k| if partials[k] == 0.0 { (0, 0.0) } else { (indices[k], partials[k]) }) {
        [(0, _), (0, _)] => 0,
        [(index, 1.0), (0, _)] | [(0, _), (index, 1.0)] => index,
        [(0, _), (index, partial)] => thread.record(Operation::Partials, Format::Binary64, [index, 0], [partial, 0.0]),
        [(first, a), (second, b)] => thread.record(Operation::Partials, Format::Binary64, [first, second], [a, b]),
    }
}

/// Whether binary64 cannot hold a partial derivative that x87 can.
fn is_out_of_range(exact: Extended, rounded: f64) -> bool {
    rounded == 0.0 && !exact.is_zero() || rounded.is_infinite() && exact.high & 0x7fff != 0x7fff
}

/// Emits the recording of a sum or difference of two active operands, which needs no values, and goes on at `join`. Any other operation goes on here.
pub(super) fn emit_sum(emitter: &mut Emitter<'_>, index: usize, call: X87Real, join: Label) {
    let operation = match call.operation {
        X87Operation::Add => Operation::Add,
        X87Operation::Subtract => Operation::Sub,
        _ => return,
    };
    let Some(b) = call.b else { return };
    let is_wide = |operand: X87Operand| matches!(operand.format, X87Format::Binary64 | X87Format::Extended);
    if !(is_wide(call.a) && is_wide(b)) {
        return;
    }
    reach_memory(emitter, index);
    emitter.save_flags(index);
    let other = emitter.asm().label();
    let register = emitter.scratch(0);
    for operand in [call.a, b] {
        let shadow = shadow_of(emitter, index, operand.place);
        emitter.asm().load(register, shadow);
        emitter.asm().push2(Code::Test_rm64_r64, register, register);
        emitter.asm().jump_if(Condition::Equal, other);
    }
    let operands = [call.a, b].map(|operand| Some(real::Operand { place: operand.place, active: true }));
    let lane = real::Lane { operation, format: Format::Binary64, target: call.target, operands, mask: None };
    real::emit(emitter, index, &lane, false);
    emitter.asm().jump(join);
    emitter.asm().bind(other);
}

/// Emits a load or store: all are inline, apart from exceptions.
pub(super) fn emit_move(emitter: &mut Emitter<'_>, index: usize, X87Move { target, source }: X87Move) {
    reach_memory(emitter, index);
    emitter.save_flags(index);
    match (source.format, target.format) {
        (X87Format::Binary32, _) => real::convert(emitter, index, Format::Binary64, target.place, source.place, None),
        (_, X87Format::Binary32) => real::convert(emitter, index, Format::Binary32, target.place, source.place, None),
        (X87Format::Extended, X87Format::Extended) if source.place.is_memory() => {
            load(emitter, index, target.place, source.place);
        }
        (X87Format::Extended, X87Format::Extended) => save(emitter, index, target.place, source.place),
        _ => {
            let (register, from) = (emitter.scratch(0), shadow_of(emitter, index, source.place));
            emitter.asm().load(register, from);
            let to = shadow_of(emitter, index, target.place);
            emitter.asm().store(to, register);
        }
    }
}

/// A register gets the shadow of a `long double` in memory.
fn load(emitter: &mut Emitter<'_>, index: usize, target: Place, source: Place) {
    let (word, exponent, value) = (emitter.scratch(0), emitter.scratch(1), emitter.scratch(2));
    let from = shadow_of(emitter, index, source);
    emitter.asm().load(word, from);
    let (passive, join) = (emitter.asm().label(), emitter.asm().label());
    emitter.asm().push2(Code::Test_rm64_r64, word, word);
    emitter.asm().jump_if(Condition::Equal, passive);
    load_exponent(emitter, index, value, source);
    emitter.asm().push2(Code::Mov_r64_rm64, exponent, word);
    shift(emitter, Code::Shl_rm64_imm8, exponent, 64 - EXPONENT - EXPONENT_BITS);
    shift(emitter, Code::Shr_rm64_imm8, exponent, 64 - EXPONENT_BITS);
    emitter.asm().lea(value, memory(value, 1));
    emitter.asm().push2(Code::Movzx_r64_rm16, value, Register::AX + value.number() as u32);
    emitter.asm().push2(Code::Cmp_r64_rm64, exponent, value);
    let instruction = emitter.block().instructions()[index];
    let payload = emitter.keep(instruction);
    let changed = emitter.cold(move |emitter| {
        emitter.call_helper_here(load_changed, payload);
        emitter.asm().jump(join);
    });
    emitter.asm().jump_if(Condition::NotEqual, changed);
    shift(emitter, Code::Shl_rm64_imm8, word, 64 - EXPONENT);
    shift(emitter, Code::Shr_rm64_imm8, word, 64 - EXPONENT);
    shift(emitter, Code::Bts_rm64_imm8, word, 63);
    emitter.asm().bind(passive);
    let to = shadow_of(emitter, index, target);
    emitter.asm().store(to, word);
    emitter.asm().bind(join);
}

/// A `long double` in memory, which has its value already, gets the shadow of a register.
fn save(emitter: &mut Emitter<'_>, index: usize, target: Place, source: Place) {
    let (word, exponent) = (emitter.scratch(0), emitter.scratch(1));
    let from = shadow_of(emitter, index, source);
    emitter.asm().load(word, from);
    let (passive, is_index) = (emitter.asm().label(), emitter.asm().label());
    emitter.asm().push2(Code::Test_rm64_r64, word, word);
    emitter.asm().jump_if(Condition::Equal, passive);
    // Above the index there is only the tag.
    emitter.asm().push2(Code::Mov_r64_rm64, exponent, word);
    shift(emitter, Code::Btr_rm64_imm8, exponent, 63);
    shift(emitter, Code::Shr_rm64_imm8, exponent, EXPONENT);
    let no_index = emitter.cold(move |emitter| {
        emitter.asm().store(tape_field(offset_of!(TapeFields, slow)), word);
        emitter.call_helper_here(no_index, 0);
        emitter.asm().load(word, tape_field(offset_of!(TapeFields, slow)));
        emitter.asm().push2(Code::Test_rm64_r64, word, word);
        emitter.asm().jump_if(Condition::Equal, passive);
        emitter.asm().jump(is_index);
    });
    emitter.asm().push2(Code::Test_rm64_r64, exponent, exponent);
    emitter.asm().jump_if(Condition::NotEqual, no_index);
    emitter.asm().bind(is_index);
    load_exponent(emitter, index, exponent, target);
    // What does not fit goes where the tag is.
    emitter.asm().lea(exponent, memory(exponent, 1));
    shift(emitter, Code::Shl_rm64_imm8, exponent, EXPONENT);
    emitter.asm().push2(Code::Or_r64_rm64, word, exponent);
    emitter.asm().bind(passive);
    let to = shadow_of(emitter, index, target);
    emitter.asm().store(to, word);
    let rest = shadow_of(emitter, index, target.advanced(8));
    let zero = Instruction::with2(Code::Mov_rm16_imm16, rest, 0);
    emitter.asm().push(&zero.expect("mov takes memory and constant"));
}

/// Sign and exponent of a `long double` in memory.
fn load_exponent(emitter: &mut Emitter<'_>, index: usize, register: Register, place: Place) {
    let Place::Memory { base, offset } = place else { return };
    let memory = value_in_memory(emitter, index, base, offset + 8);
    crate::instrument::load(emitter, register, memory, 2);
}

fn shift(emitter: &mut Emitter<'_>, code: Code, register: Register, count: u32) {
    let instruction = Instruction::with2(code, register, count as i32);
    emitter.asm().push(&instruction.expect("the code takes a register and a constant"));
}

/// ST(0) has been loaded from a `long double` whose sign or exponent has been changed in memory.
fn load_changed(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `load` passes the instruction, which is kept as long as the code that calls this.
    let instruction = unsafe { &*(payload as *const Instruction) };
    let address = operand_address(instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    let (_, shadow) = x87::argument::<Recording>(&mut thread, 0, address);
    x87::set_shadow(&mut thread, 0, 0, shadow);
    HelperNext::Resume
}

/// What should be stored with an exponent has more above it than the tag: leaves the shadow of an index in its place, or 0.
fn no_index(context: &mut Context, _: u64) -> HelperNext {
    let mut thread = Thread::new(context);
    let word = thread.tape_fields().slow[0];
    let index = thread.settle(word);
    thread.tape_fields().slow[0] = index.map_or(0, of_wide);
    if index.is_none() {
        lost_at(context.rip);
    }
    HelperNext::Resume
}
