//! x87 instructions, and what MMX instructions do to the x87 stack.
//!
//! Operands are named by their distance from the top of the stack *before* the instruction. What moves the stack comes after the instruction, and what
//! is loaded comes after that; see [`crate::ir`].

use iced_x86::Mnemonic::{self, *};
use iced_x86::{Code, ConditionCode, MemorySize, OpKind};

use super::assign::{Byte, bytes_of};
use super::{Class, Lifter};
use crate::ir::{Effect, Place, Span, StackChange, StateTransfer, X87Format, X87Operand, X87Operation};
use crate::shadow;

/// What an instruction does, and how often it pops the stack afterwards.
pub(crate) struct X87 {
    kind: Kind,
    pops: u8,
}

/// What an instruction does. Names with two operands: the destination is the first one of registers, or ST(0) with a memory operand.
enum Kind {
    /// Pushes a register or memory operand.
    Load,
    /// Pushes a number that is passive: a constant, or an integer, which has been no real number's bits before.
    LoadPassive,
    /// Stores ST(0) to a register or to memory.
    Store,
    /// Stores something that is no real number.
    StorePassive,
    /// The destination becomes destination op source.
    Destination(X87Operation),
    /// The destination becomes source op destination.
    Reversed(X87Operation),
    /// ST(0) becomes op ST(0).
    Unary(X87Operation),
    /// ST(0) becomes ST(0) op ST(1).
    Top(X87Operation),
    /// ST(1) becomes ST(0) op ST(1).
    Below(X87Operation),
    /// ST(0) becomes an integer.
    Round,
    /// ST(0) becomes the exponent, the significand is pushed.
    Extract,
    /// Flags are set.
    Compare,
    /// Two registers change places.
    Exchange,
    /// ST(0) becomes the source if the condition holds.
    Select(ConditionCode),
    /// The stack moves.
    Rotate(i8),
    /// A register becomes empty.
    Free,
    /// All registers become empty.
    Initialise,
    /// The whole state is stored, and initialised.
    Save,
    /// The whole state is loaded.
    Restore,
    /// Control, status and tag words are loaded.
    LoadEnvironment,
    /// `fsincos`
    SineCosine,
    /// `fptan`
    Tangent,
}

macro_rules! x87 {
    ($( $kind:expr, $pops:literal => $($mnemonic:ident)+; )*) => {
        &[
            $($( ($mnemonic, Class::X87(X87 { kind: $kind, pops: $pops })), )+)*
            // Control and status words are no numbers.
            (Fldcw, Class::Overwrite), (Fnstcw, Class::Overwrite), (Fstcw, Class::Overwrite), (Fnstsw, Class::Overwrite),
            (Fstsw, Class::Overwrite), (Fnstenv, Class::Overwrite), (Fstenv, Class::Overwrite), (Fnclex, Class::Overwrite),
            (Fclex, Class::Overwrite), (Fnop, Class::Overwrite), (Wait, Class::Overwrite),
        ]
    };
}

/// All x87 instructions.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = x87! {
    Kind::Load, 0 => Fld;
    Kind::LoadPassive, 0 => Fild Fbld Fld1 Fldl2e Fldl2t Fldlg2 Fldln2 Fldpi Fldz;
    Kind::Store, 0 => Fst;
    Kind::Store, 1 => Fstp Fstpnce;
    Kind::StorePassive, 0 => Fist;
    Kind::StorePassive, 1 => Fistp Fisttp Fbstp;
    Kind::Destination(X87Operation::Add), 0 => Fadd Fiadd;
    Kind::Destination(X87Operation::Add), 1 => Faddp;
    Kind::Destination(X87Operation::Subtract), 0 => Fsub Fisub;
    Kind::Destination(X87Operation::Subtract), 1 => Fsubp;
    Kind::Reversed(X87Operation::Subtract), 0 => Fsubr Fisubr;
    Kind::Reversed(X87Operation::Subtract), 1 => Fsubrp;
    Kind::Destination(X87Operation::Multiply), 0 => Fmul Fimul;
    Kind::Destination(X87Operation::Multiply), 1 => Fmulp;
    Kind::Destination(X87Operation::Divide), 0 => Fdiv Fidiv;
    Kind::Destination(X87Operation::Divide), 1 => Fdivp;
    Kind::Reversed(X87Operation::Divide), 0 => Fdivr Fidivr;
    Kind::Reversed(X87Operation::Divide), 1 => Fdivrp;
    Kind::Unary(X87Operation::SquareRoot), 0 => Fsqrt;
    Kind::Unary(X87Operation::Absolute), 0 => Fabs;
    Kind::Unary(X87Operation::Negate), 0 => Fchs;
    Kind::Unary(X87Operation::Exp2Minus1), 0 => F2xm1;
    Kind::Unary(X87Operation::Sine), 0 => Fsin;
    Kind::Unary(X87Operation::Cosine), 0 => Fcos;
    Kind::Top(X87Operation::Scale), 0 => Fscale;
    Kind::Top(X87Operation::Remainder), 0 => Fprem;
    Kind::Top(X87Operation::NearestRemainder), 0 => Fprem1;
    Kind::Below(X87Operation::YLog2X), 1 => Fyl2x;
    Kind::Below(X87Operation::YLog2XPlus1), 1 => Fyl2xp1;
    Kind::Below(X87Operation::ArcTangent), 1 => Fpatan;
    Kind::Round, 0 => Frndint;
    Kind::Extract, 0 => Fxtract;
    Kind::SineCosine, 0 => Fsincos;
    Kind::Tangent, 0 => Fptan;
    Kind::Compare, 0 => Fcom Fucom Fcomi Fucomi Ficom Ftst Fxam;
    Kind::Compare, 1 => Fcomp Fucomp Fcomip Fucomip Ficomp;
    Kind::Compare, 2 => Fcompp Fucompp;
    Kind::Exchange, 0 => Fxch;
    Kind::Select(ConditionCode::b), 0 => Fcmovb;
    Kind::Select(ConditionCode::ae), 0 => Fcmovnb;
    Kind::Select(ConditionCode::e), 0 => Fcmove;
    Kind::Select(ConditionCode::ne), 0 => Fcmovne;
    Kind::Select(ConditionCode::be), 0 => Fcmovbe;
    Kind::Select(ConditionCode::a), 0 => Fcmovnbe;
    Kind::Select(ConditionCode::p), 0 => Fcmovu;
    Kind::Select(ConditionCode::np), 0 => Fcmovnu;
    Kind::Rotate(1), 0 => Fdecstp;
    Kind::Rotate(-1), 0 => Fincstp;
    Kind::Free, 0 => Ffree;
    Kind::Free, 1 => Ffreep;
    Kind::Initialise, 0 => Fninit Finit;
    Kind::Save, 0 => Fnsave Fsave;
    Kind::Restore, 0 => Frstor;
    Kind::LoadEnvironment, 0 => Fldenv;
};

const TOP: X87Operand = X87Operand::register(0);
const BELOW: X87Operand = X87Operand::register(1);

/// An x87 instruction.
pub(super) fn lift(lifter: &mut Lifter<'_>, x87: &X87) {
    lifter.leave_mmx();
    match x87.kind {
        Kind::Load => load(lifter),
        Kind::LoadPassive => {
            if lifter.instruction.op0_kind() == OpKind::Memory
                && let Some(source) = lifter.operand(0)
            {
                lifter.lost(source);
            }
            push(lifter);
            lifter.clear(TOP.span());
        }
        Kind::Store => store(lifter),
        Kind::StorePassive => {
            if let Some(target) = lifter.operand(0) {
                lifter.clear(target);
            }
        }
        Kind::Destination(operation) => {
            if let Some((destination, source)) = operands(lifter) {
                real(lifter, operation, destination.place, destination, Some(source));
            }
        }
        Kind::Reversed(operation) => {
            if let Some((destination, source)) = operands(lifter) {
                real(lifter, operation, destination.place, source, Some(destination));
            }
        }
        Kind::Unary(operation) => real(lifter, operation, TOP.place, TOP, None),
        Kind::Top(operation) => real(lifter, operation, TOP.place, TOP, Some(BELOW)),
        Kind::Below(operation) => real(lifter, operation, BELOW.place, TOP, Some(BELOW)),
        Kind::Round => lifter.clear(TOP.span()),
        Kind::Extract => extract(lifter),
        Kind::Compare => {}
        Kind::Exchange => exchange(lifter),
        Kind::Select(condition) => {
            if let Some(source) = register(lifter, 1) {
                lifter.push(Effect::Select { condition, target: TOP.span(), source: source.place });
            }
        }
        Kind::Rotate(by) => {
            lifter.after();
            lifter.push(Effect::Rotate { by });
        }
        Kind::Free => {
            if let Some(freed) = register(lifter, 0) {
                lifter.clear(freed.span());
            }
        }
        Kind::Initialise => initialise(lifter),
        Kind::Save => {
            lifter.push(Effect::State { transfer: StateTransfer::FnSave(environment_bytes(lifter)) });
            initialise(lifter);
        }
        Kind::Restore => lifter.push(Effect::State { transfer: StateTransfer::FRestore(environment_bytes(lifter)) }),
        Kind::LoadEnvironment => {
            // The status word is the second one, of two or four bytes.
            let status = if environment_bytes(lifter) == 14 { 2 } else { 4 };
            lifter.push(Effect::Stack { change: StackChange::LoadEnvironment(status) });
        }
        Kind::SineCosine => lifter.push(Effect::Stack { change: StackChange::SineCosine }),
        Kind::Tangent => lifter.push(Effect::Stack { change: StackChange::Tangent }),
    }
    for _ in 0..x87.pops {
        lifter.after();
        lifter.clear(TOP.span());
        lifter.push(Effect::Rotate { by: -1 });
    }
}

/// The stack moves by a push. What is in the new ST(0) is to be overwritten.
fn push(lifter: &mut Lifter<'_>) {
    lifter.after();
    lifter.push(Effect::Rotate { by: 1 });
}

fn real(lifter: &mut Lifter<'_>, operation: X87Operation, target: Place, a: X87Operand, b: Option<X87Operand>) {
    lifter.push(Effect::X87 { operation, target, a, b });
}

fn copy(lifter: &mut Lifter<'_>, target: Place, source: Place) {
    lifter.push(Effect::Copy { target, source, bytes: X87Format::Extended.bytes() });
}

/// A register operand.
fn register(lifter: &Lifter<'_>, operand: u32) -> Option<X87Operand> {
    let register = lifter.instruction.op_register(operand);
    (lifter.instruction.op_kind(operand) == OpKind::Register && register.is_st())
        .then(|| X87Operand::register(register.number() as u16))
}

/// A register or memory operand.
fn operand(lifter: &Lifter<'_>, operand: u32) -> Option<X87Operand> {
    if lifter.instruction.op_kind(operand) != OpKind::Memory {
        return register(lifter, operand);
    }
    let format = match lifter.instruction.memory_size() {
        MemorySize::Float32 => X87Format::Binary32,
        MemorySize::Float64 => X87Format::Binary64,
        MemorySize::Float80 => X87Format::Extended,
        MemorySize::Int16 => X87Format::Integer16,
        MemorySize::Int32 => X87Format::Integer32,
        _ => return None,
    };
    Some(X87Operand { place: lifter.operand(operand)?.place, format })
}

/// Destination and source.
fn operands(lifter: &Lifter<'_>) -> Option<(X87Operand, X87Operand)> {
    match lifter.instruction.op_count() {
        1 => Some((TOP, operand(lifter, 0)?)),
        _ => Some((register(lifter, 0)?, operand(lifter, 1)?)),
    }
}

fn load(lifter: &mut Lifter<'_>) {
    let Some(source) = operand(lifter, 0) else { return };
    push(lifter);
    match source.place {
        // It has moved with all others. The eighth one is where the new ST(0) is now.
        Place::Register(_) => {
            let number = lifter.instruction.op_register(0).number() as u16;
            if number < 7 {
                copy(lifter, TOP.place, X87Operand::register(number + 1).place);
            }
        }
        Place::Memory { .. } => lifter.push(Effect::X87Move { target: TOP, source }),
    }
}

fn store(lifter: &mut Lifter<'_>) {
    let Some(target) = operand(lifter, 0) else { return };
    lifter.after();
    match target.place {
        place @ Place::Register(_) if place != TOP.place => copy(lifter, place, TOP.place),
        Place::Register(_) => {}
        Place::Memory { .. } => lifter.push(Effect::X87Move { target, source: TOP }),
    }
}

fn extract(lifter: &mut Lifter<'_>) {
    real(lifter, X87Operation::Significand, TOP.place, TOP, None);
    push(lifter);
    copy(lifter, TOP.place, BELOW.place);
    lifter.clear(BELOW.span());
}

fn exchange(lifter: &mut Lifter<'_>) {
    let (Some(a), Some(b)) = (register(lifter, 0), register(lifter, 1)) else { return };
    for (target, source) in [(a, b), (b, a)] {
        let bytes: Vec<Byte> = bytes_of(source.span()).collect();
        lifter.assign(target.place, &bytes);
    }
}

fn initialise(lifter: &mut Lifter<'_>) {
    lifter.clear(Span::new(Place::Register(shadow::X87), shadow::X87_BYTES));
}

/// Bytes of control, status and tag words and pointers in memory, in the format of the instruction.
fn environment_bytes(lifter: &Lifter<'_>) -> u8 {
    use Code::*;
    let short = [Fldenv_m14byte, Fnsave_m94byte, Fsave_m94byte, Frstor_m94byte];
    if short.contains(&lifter.instruction.code()) { 14 } else { 28 }
}

/// Before an MMX instruction: its registers are found in the shadow register file if TOP is 0.
pub(super) fn enter_mmx(lifter: &mut Lifter<'_>) {
    let instruction = lifter.instruction;
    if (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_mm()) && lifter.begins_mmx() {
        lifter.push(Effect::Stack { change: StackChange::ToMmx });
    }
}
