//! Recording of real operations, inline: one 32-byte record for each active lane.

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext, Label, registers};
use derivgrind_tape::operation::{BINARY32, FIRST, NOTHING, SECOND};
use derivgrind_tape::{Operation, Record};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::instrument::{elements, fetched, load, reach_memory, shadow_of, store, value_in_memory};
use crate::ir::{Format, Mask, Place};
use crate::shadow::{self, NARROW_LIMIT, NARROW_TAG, WIDE_TAG};

use super::helpers;
use super::layout::{TapeFields, tape_field};
use super::rounding;

/// An operand of a real operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub place: Place,
    /// Whether it can have an index.
    pub active: bool,
}

/// One lane of a real operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub operation: Operation,
    pub format: Format,
    pub target: Place,
    pub operands: [Option<Operand>; 2],
    /// The bit that says whether the operation happens in this lane.
    pub mask: Option<Mask>,
}

impl Lane {
    /// With what an analysis knows about the operands. At least one is not passive.
    pub(super) fn with_passive(mut self, passive: [bool; 2]) -> Lane {
        for (operand, passive) in self.operands.iter_mut().zip(passive) {
            if let Some(operand) = operand {
                operand.active = !passive;
            }
        }
        self
    }
}

/// Number of index bits that the position of a record in its chunk is shifted by: 32 bytes a record.
const RECORD_SHIFT: u32 = Record::BYTES.trailing_zeros();

/// Emits the recording of one lane.
///
/// If all operands are passive the target becomes passive. Otherwise a record is written at the cursor and its index becomes the
/// target's. An operand index that is not below the record's own (another thread's), a full chunk and a binary32 index out of range take the slow
/// path, which mends that and comes back.
///
/// The cursor stays in its scratch register: `cursor_loaded` says whether it is there already.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize, lane: &Lane, cursor_loaded: bool) {
    reach_memory(emitter, index);
    emitter.save_flags(index);
    let bytes = lane.format.bytes();
    let (first, second, new, cursor) = (emitter.scratch(0), emitter.scratch(1), emitter.scratch(2), emitter.scratch(3));

    let indices = [first, second];
    let active: Vec<usize> = (0..2).filter(|&k| lane.operands[k].is_some_and(|operand| operand.active)).collect();
    for &k in &active {
        let place = lane.operands[k].expect("it is active").place;
        let from = shadow_of(emitter, index, place);
        load(emitter, indices[k], from, bytes);
    }
    if !cursor_loaded {
        emitter.asm().load(cursor, tape_field(offset_of!(TapeFields, cursor)));
    }
    let (retry, passive, skip) = (emitter.asm().label(), emitter.asm().label(), emitter.asm().label());
    if let Some(mask) = lane.mask {
        let otherwise = if mask.zeroing { unselected(emitter, new, passive) } else { skip };
        unless_selected(emitter, mask, otherwise);
    }
    emitter.asm().bind(retry);
    emitter.asm().push2(Code::Mov_r64_rm64, new, indices[active[0]]);
    match active[..] {
        [_, second] => emitter.asm().push2(Code::Or_r64_rm64, new, indices[second]),
        _ => emitter.asm().push2(Code::Test_rm64_r64, new, new),
    }
    emitter.asm().jump_if(Condition::Equal, passive);
    rounding::emit(emitter, index, lane, &active, passive);

    let slow = slow_path(emitter, lane.format, [0, 1].map(|k| active.contains(&k)), retry);
    let bias = match lane.format {
        Format::Binary64 => offset_of!(TapeFields, wide_bias),
        Format::Binary32 => offset_of!(TapeFields, narrow_bias),
    };
    emitter.asm().push2m(Code::Cmp_r64_rm64, cursor, tape_field(offset_of!(TapeFields, end)));
    emitter.asm().jump_if(Condition::Equal, slow);
    emitter.asm().push2(Code::Mov_r64_rm64, new, cursor);
    immediate(emitter, Code::Shr_rm64_imm8, new, RECORD_SHIFT as i32);
    emitter.asm().push2m(Code::Add_r64_rm64, new, tape_field(bias));
    for &k in &active {
        emitter.asm().push2(Code::Cmp_r64_rm64, indices[k], new);
        emitter.asm().jump_if(Condition::AboveOrEqual, slow);
    }
    if lane.format == Format::Binary32 {
        immediate(emitter, Code::Cmp_rm64_imm32, new, (NARROW_TAG + NARROW_LIMIT - 1) as i32);
        emitter.asm().jump_if(Condition::Above, slow);
    }

    let at = |offset: usize| derivgrind_engine::translate::memory(cursor, offset as i64);
    for (k, offset) in [Record::OPERAND1, Record::OPERAND2].into_iter().enumerate() {
        if active.contains(&k) {
            emitter.asm().store(at(offset), indices[k]);
        } else if k == 0 || lane.operands[k].is_some() {
            emitter.asm().store_constant(at(offset), 0);
        }
    }
    let code = lane.operation.code() | if lane.format == Format::Binary32 { BINARY32 } else { 0 };
    // The mark stays beside the code, where it is that of an index: without it the operand is none.
    let beside = active.contains(&0) && lane.format == Format::Binary64;
    let write = if beside { Code::Or_rm8_imm8 } else { Code::Mov_rm8_imm8 };
    let opcode = Instruction::with2(write, at(Record::OPERATION), i32::from(code));
    emitter.asm().push(&opcode.expect("mov and or take memory and constant"));

    let needed = active.iter().fold(NOTHING, |needs, &k| needs | lane.operation.needs()[k]);
    for (k, (bit, offset)) in [(FIRST, Record::VALUE1), (SECOND, Record::VALUE2)].into_iter().enumerate() {
        if let Some(operand) = lane.operands[k].filter(|_| needed & bit != 0) {
            store_value(emitter, index, operand.place, lane.format, at(offset), first);
        }
    }
    emitter.asm().lea(cursor, derivgrind_engine::translate::memory(cursor, Record::BYTES as i64));
    emitter.asm().store(tape_field(offset_of!(TapeFields, cursor)), cursor);
    emitter.asm().bind(passive);
    let target = shadow_of(emitter, index, lane.target);
    store(emitter, target, new, bytes);
    emitter.asm().bind(skip);
}

/// Continues at `otherwise` if the mask's bit is clear.
fn unless_selected(emitter: &mut Emitter<'_>, mask: Mask, otherwise: Label) {
    let compare = Instruction::with2(Code::Cmp_rm8_imm8, elements(mask.offset()), 0);
    emitter.asm().push(&compare.expect("cmp takes memory and constant"));
    emitter.asm().jump_if(Condition::Equal, otherwise);
}

/// A lane that is not selected becomes passive: continues at `store` with 0 in `index`.
fn unselected(emitter: &mut Emitter<'_>, index: Register, store: Label) -> Label {
    emitter.cold(move |emitter| {
        emitter.asm().constant(index, 0);
        emitter.asm().jump(store);
    })
}

/// Hands the operand indices to the helper and comes back to `retry` with what it makes of them.
fn slow_path(emitter: &mut Emitter<'_>, format: Format, active: [bool; 2], retry: Label) -> Label {
    let indices = [0, 1].map(|k| active[k].then(|| emitter.scratch(k)));
    let helper = match format {
        Format::Binary64 => helpers::slow_record,
        Format::Binary32 => helpers::slow_narrow_record,
    };
    emitter.cold(move |emitter| {
        call_with_indices(emitter, indices, helper, 0);
        emitter.asm().jump(retry);
    })
}

/// Calls a helper with the operand indices in these registers; behind it they are what it makes of them, and the cursor is where it has it.
pub(super) fn call_with_indices(
    emitter: &mut Emitter<'_>,
    indices: [Option<Register>; 2],
    helper: fn(&mut Context, u64) -> HelperNext,
    payload: u64,
) {
    let slot = |k: usize| tape_field(offset_of!(TapeFields, slow) + 8 * k);
    for (k, register) in indices.into_iter().enumerate() {
        match register {
            Some(register) => emitter.asm().store(slot(k), register),
            None => emitter.asm().store_constant(slot(k), 0),
        }
    }
    emitter.call_helper_here(helper, payload);
    for (k, register) in indices.into_iter().enumerate() {
        if let Some(register) = register {
            emitter.asm().load(register, slot(k));
        }
    }
    let cursor = emitter.scratch(3);
    emitter.asm().load(cursor, tape_field(offset_of!(TapeFields, cursor)));
}

/// How many scratch vector registers storing an operand's value takes.
pub(super) fn vectors_for(format: Format, place: Place) -> usize {
    match place {
        Place::Register(offset) if (shadow::VECTOR..shadow::X87).contains(&offset) => {
            let (number, within) = ((offset - shadow::VECTOR) / shadow::VECTOR_BYTES, offset % shadow::VECTOR_BYTES);
            match format {
                Format::Binary32 if !within.is_multiple_of(16) => 2,
                _ if within >= 16 || number >= 16 => 1,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Stores an operand's value in the record. `scratch` may be overwritten.
pub(super) fn store_value(
    emitter: &mut Emitter<'_>,
    index: usize,
    place: Place,
    format: Format,
    to: MemoryOperand,
    scratch: Register,
) {
    let bytes = format.bytes();
    match place {
        Place::Memory { base, offset } => {
            let value = value_in_memory(emitter, index, base, offset);
            load(emitter, scratch, value, bytes);
            store(emitter, to, scratch, bytes);
        }
        Place::Register(offset) if (shadow::VECTOR..shadow::X87).contains(&offset) => {
            let number = usize::from((offset - shadow::VECTOR) / shadow::VECTOR_BYTES);
            let within = offset % shadow::VECTOR_BYTES;
            store_lane(emitter, number, within, format, to);
        }
        Place::Register(offset) if offset >= shadow::OPERAND => {
            load(emitter, scratch, fetched(offset), bytes);
            store(emitter, to, scratch, bytes);
        }
        // General registers and temporaries carry no operand values that a rule needs.
        Place::Register(_) => {}
    }
}

/// Stores the lane of a vector register that begins at byte `within`.
fn store_lane(emitter: &mut Emitter<'_>, number: usize, within: u16, format: Format, to: MemoryOperand) {
    let avx = registers::has_avx();
    let mut register = registers::xmm(number);
    if within >= 32 || number >= 16 {
        // Only AVX-512 code has values there.
        let lane = emitter.scratch_vector(0);
        let code = Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8;
        let extract = Instruction::with3(code, lane, registers::zmm(number), i32::from(within / 16));
        emitter.asm().push(&extract.expect("vextractf32x4 takes registers and a constant"));
        register = lane;
    } else if within >= 16 {
        // Only AVX code has values there.
        let upper = emitter.scratch_vector(0);
        let extract = Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, upper, registers::ymm(number), 1);
        emitter.asm().push(&extract.expect("vextractf128 takes registers and a constant"));
        register = upper;
    }
    let push = |emitter: &mut Emitter<'_>, code, register| {
        emitter.asm().push(&Instruction::with2(code, to, register).expect("a store takes memory and register"));
    };
    let lane = within % 16;
    match (format, lane) {
        (Format::Binary64, 0) => {
            push(emitter, if avx { Code::VEX_Vmovlps_m64_xmm } else { Code::Movlps_m64_xmm }, register)
        }
        (Format::Binary64, _) => {
            push(emitter, if avx { Code::VEX_Vmovhps_m64_xmm } else { Code::Movhps_m64_xmm }, register)
        }
        (Format::Binary32, lane) => {
            if lane != 0 {
                let moved = emitter.scratch_vector(1);
                let code = if avx { Code::VEX_Vpshufd_xmm_xmmm128_imm8 } else { Code::Pshufd_xmm_xmmm128_imm8 };
                let shuffle = Instruction::with3(code, moved, register, i32::from(lane / 4));
                emitter.asm().push(&shuffle.expect("pshufd takes registers and a constant"));
                register = moved;
            }
            push(emitter, if avx { Code::VEX_Vmovss_m32_xmm } else { Code::Movss_xmmm32_xmm }, register);
        }
    }
}

/// A conversion between formats has derivative 1: the index stays, its form changes.
pub(super) fn convert(
    emitter: &mut Emitter<'_>,
    index: usize,
    to: Format,
    target: Place,
    source: Place,
    mask: Option<Mask>,
) {
    emitter.save_flags(index);
    let (register, other) = (emitter.scratch(0), emitter.scratch(1));
    let (done, finished) = (emitter.asm().label(), emitter.asm().label());
    if let Some(mask) = mask {
        let otherwise = if mask.zeroing { unselected(emitter, register, done) } else { finished };
        unless_selected(emitter, mask, otherwise);
    }
    let from = shadow_of(emitter, index, source);
    let target = shadow_of(emitter, index, target);
    match to {
        Format::Binary64 => {
            load(emitter, register, from, 4);
            widen(emitter, register, other);
        }
        Format::Binary32 => {
            load(emitter, other, from, 8);
            narrow(emitter, register, other);
        }
    }
    emitter.asm().bind(done);
    store(emitter, target, register, to.bytes());
    emitter.asm().bind(finished);
}

/// Gives a binary32 index in `register` that is not zero the tag of binary64 instead of its own. What is no index remains none: it has become larger than all.
fn widen(emitter: &mut Emitter<'_>, register: Register, other: Register) {
    emitter.asm().constant(other, WIDE_TAG - NARROW_TAG);
    emitter.asm().push2(Code::Add_r64_rm64, other, register);
    emitter.asm().push2(Code::Test_rm64_r64, register, register);
    emitter.asm().push2(Code::Cmovne_r64_rm64, register, other);
}

/// `register` receives the binary64 index in `wide` with the tag of binary32. What does not fit, or is more than an index, is the helper's business.
fn narrow(emitter: &mut Emitter<'_>, register: Register, wide: Register) {
    let passive = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.asm().store(tape_field(offset_of!(TapeFields, slow)), wide);
        emitter.call_helper_here(helpers::not_narrow, 0);
        emitter.asm().load(register, tape_field(offset_of!(TapeFields, slow)));
        emitter.asm().jump(passive);
    });
    emitter.asm().push2(Code::Mov_r64_rm64, register, wide);
    emitter.asm().push2(Code::Test_rm64_r64, wide, wide);
    emitter.asm().jump_if(Condition::Equal, passive);
    // A tag that is missing appears, and makes the number too large.
    for tag in [WIDE_TAG.ilog2(), WIDE_TAG.trailing_zeros()] {
        immediate(emitter, Code::Btc_rm64_imm8, register, tag as i32);
    }
    immediate(emitter, Code::Cmp_rm64_imm32, register, (NARROW_LIMIT - 1) as i32);
    emitter.asm().jump_if(Condition::Above, cold);
    immediate(emitter, Code::Bts_rm64_imm8, register, NARROW_TAG.trailing_zeros() as i32);
    emitter.asm().bind(passive);
}

fn immediate(emitter: &mut Emitter<'_>, code: Code, register: Register, value: i32) {
    emitter.asm().push(&Instruction::with2(code, register, value).expect("code takes a register and a constant"));
}
