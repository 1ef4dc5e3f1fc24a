//! General registers, stack, strings, atomics and processor state.

use iced_x86::Mnemonic::{self, *};
use iced_x86::{Code, OpKind, Register};

use super::assign::{Byte, bytes_of, zero_extended};
use super::{Class, Lifter, bits};
use crate::ir::{Address, BitOperand, BitOperation, Effect, Place, Span, StateTransfer, Updated};
use crate::shadow;

macro_rules! state {
    ($transfer:expr) => {
        Class::Custom(|lifter| lifter.push(Effect::State { transfer: $transfer }))
    };
}
/// Instructions of this kind. Comparisons, tests, branches and the like need no entry: they write flags only.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = &[
    (Push, Class::Custom(push)), (Pop, Class::Custom(pop)),
    (Leave, Class::Custom(leave)), (Enter, Class::Custom(enter)),
    (Call, Class::Overwrite), (Pushfq, Class::Overwrite), (Pushf, Class::Overwrite), (Syscall, Class::Custom(syscall)),
    (Xchg, Class::Custom(exchange)), (Xadd, Class::Custom(exchange_add)),
    (Cmpxchg, Class::Custom(compare_exchange)),
    (Cmpxchg8b, Class::Custom(|lifter| compare_exchange_pair(lifter, 4))),
    (Cmpxchg16b, Class::Custom(|lifter| compare_exchange_pair(lifter, 8))),
    (Cbw, Class::Custom(|lifter| sign_extension(lifter, 1, 2))), (Cwde, Class::Custom(|lifter| sign_extension(lifter, 2, 8))),
    (Cdqe, Class::Custom(|lifter| sign_extension(lifter, 4, 8))),
    (Cwd, Class::Overwrite), (Cdq, Class::Overwrite), (Cqo, Class::Overwrite),
    (Cmova, CMOV), (Cmovae, CMOV), (Cmovb, CMOV), (Cmovbe, CMOV), (Cmove, CMOV), (Cmovg, CMOV), (Cmovge, CMOV), (Cmovl, CMOV),
    (Cmovle, CMOV), (Cmovne, CMOV), (Cmovno, CMOV), (Cmovnp, CMOV), (Cmovns, CMOV), (Cmovo, CMOV), (Cmovp, CMOV), (Cmovs, CMOV),
    (Seta, Class::Overwrite), (Setae, Class::Overwrite), (Setb, Class::Overwrite), (Setbe, Class::Overwrite),
    (Sete, Class::Overwrite), (Setg, Class::Overwrite), (Setge, Class::Overwrite), (Setl, Class::Overwrite),
    (Setle, Class::Overwrite), (Setne, Class::Overwrite), (Setno, Class::Overwrite), (Setnp, Class::Overwrite),
    (Setns, Class::Overwrite), (Seto, Class::Overwrite), (Setp, Class::Overwrite), (Sets, Class::Overwrite),
    (Lea, Class::Custom(bits::load_address)),
    (Fxsave, state!(StateTransfer::FxSave)), (Fxsave64, state!(StateTransfer::FxSave)),
    (Fxrstor, state!(StateTransfer::FxRestore)), (Fxrstor64, state!(StateTransfer::FxRestore)),
    (Xsave, state!(StateTransfer::XSave)), (Xsave64, state!(StateTransfer::XSave)),
    (Xsaveopt, state!(StateTransfer::XSave)), (Xsaveopt64, state!(StateTransfer::XSave)),
    (Xsavec, state!(StateTransfer::XSaveCompacted)), (Xsavec64, state!(StateTransfer::XSaveCompacted)),
    (Xrstor, state!(StateTransfer::XRestore)), (Xrstor64, state!(StateTransfer::XRestore)),
];

const CMOV: Class = Class::Replay(0b011, 0);

/// Below the stack pointer, as far as a push of so many bytes goes.
fn pushed(bytes: u16) -> Span {
    Span::new(Place::Memory { base: Address::Stack, offset: -(bytes as i16) }, bytes)
}

/// Bytes by which the instruction moves the stack pointer.
fn stack_bytes(lifter: &Lifter<'_>) -> u16 {
    lifter.instruction.stack_pointer_increment().unsigned_abs() as u16
}

fn push(lifter: &mut Lifter<'_>) {
    let target = pushed(stack_bytes(lifter));
    let source = lifter.operand(0).map(|source| source.part(0, source.bytes.min(target.bytes)));
    let bytes: Vec<Byte> = source.into_iter().flat_map(bytes_of).collect();
    lifter.assign(target.place, &zero_extended(bytes, target.bytes));
}

fn pop(lifter: &mut Lifter<'_>) {
    let Some(target) = lifter.operand(0) else { return };
    let source = Span::new(Place::Memory { base: Address::Stack, offset: 0 }, target.bytes);
    // A destination relative to RSP is addressed with the incremented value.
    let adjusted = match target.place {
        Place::Memory { base, offset } if lifter.instruction.memory_base() == Register::RSP => {
            Place::Memory { base, offset: offset + stack_bytes(lifter) as i16 }
        }
        place => place,
    };
    lifter.assign(adjusted, &bytes_of(source).collect::<Vec<_>>());
}

/// `leave`: RSP becomes RBP, which is popped.
fn leave(lifter: &mut Lifter<'_>) {
    // With a prefix that no compiler uses, only 16 bits are popped.
    let bytes = if lifter.instruction.code() == Code::Leavew { 2 } else { 8 };
    let source = Span::new(Place::Memory { base: Address::Frame, offset: 0 }, bytes);
    let target = Place::Register(shadow::general(Register::RBP.number() as u16));
    lifter.assign(target, &bytes_of(source).collect::<Vec<_>>());
}

/// `enter`: RBP is pushed and becomes a stack address; nested frame pointers, which no compiler uses, are addresses as well.
fn enter(lifter: &mut Lifter<'_>) {
    let frame = Span::new(Place::Register(shadow::general(Register::RBP.number() as u16)), 8);
    lifter.assign(pushed(8).place, &bytes_of(frame).collect::<Vec<_>>());
    lifter.assign(frame.place, &[Byte::Zero; 8]);
}

/// `syscall` leaves the return address in RCX, the flags in R11 and the result in RAX.
fn syscall(lifter: &mut Lifter<'_>) {
    for register in [Register::RAX, Register::RCX, Register::R11] {
        lifter.clear(Span::new(Place::Register(shadow::general(register.number() as u16)), 8));
    }
}

/// `xchg`: with memory it is done in one step, with or without a prefix.
fn exchange(lifter: &mut Lifter<'_>) {
    let (Some(a), Some(b)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let memory = [(a, b), (b, a)].into_iter().find(|(memory, _)| memory.place.is_memory());
    if let Some((memory, register)) = memory {
        lifter.push(Effect::Update { memory, becomes: Updated::Exchanged(register), previous: Some(register) });
        return;
    }
    for (operand, target, source) in [(0, a, b), (1, b, a)] {
        let until = lifter.cleared_until(operand, target.bytes);
        lifter.assign(target.place, &zero_extended(bytes_of(source).collect(), until));
    }
}

/// `xadd`: the sum goes to the destination, its old value to the source.
fn exchange_add(lifter: &mut Lifter<'_>) {
    let (Some(destination), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    if destination.bytes < 4 {
        // No real number fits in.
        for source in [destination, source] {
            lifter.push(Effect::Lost { source });
        }
        lifter.assign(source.place, &bytes_of(destination).collect::<Vec<_>>());
        lifter.finish();
        lifter.clear(destination);
        return;
    }
    let (operation, operand) = (BitOperation::Other, Some(BitOperand::Span(source)));
    if destination.place.is_memory() {
        let becomes = Updated::Bits { operation, operand };
        lifter.push(Effect::Update { memory: destination, becomes, previous: Some(source) });
        return;
    }
    let before = lifter.temporary(destination.bytes);
    lifter.push(Effect::Copy { target: before, source: destination.place, bytes: destination.bytes });
    let a = BitOperand::Span(destination);
    lifter.push(Effect::BitTrick { operation, target: destination, a, b: operand, c: None });
    let until = lifter.cleared_until(0, destination.bytes);
    lifter.clear(Span::new(destination.place.advanced(destination.bytes), until - destination.bytes));
    // The sum is written last: with one register as both operands it remains.
    if source.place != destination.place {
        let old = bytes_of(Span::new(before, destination.bytes)).collect();
        lifter.assign(source.place, &zero_extended(old, until));
    }
}

fn compare_exchange(lifter: &mut Lifter<'_>) {
    let (Some(destination), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let accumulator = Span::new(Place::Register(shadow::general(0)), destination.bytes);
    lifter.push(Effect::CompareExchange {
        destination,
        source: [Some(source), None],
        accumulator: [Some(accumulator), None],
    });
}

/// `cmpxchg8b`, `cmpxchg16b`: RCX:RBX to memory or memory to RDX:RAX.
fn compare_exchange_pair(lifter: &mut Lifter<'_>, half: u16) {
    let Some(destination) = lifter.operand(0) else { return };
    let register =
        |register: Register| Some(Span::new(Place::Register(shadow::general(register.number() as u16)), half));
    lifter.push(Effect::CompareExchange {
        destination,
        source: [register(Register::RBX), register(Register::RCX)],
        accumulator: [register(Register::RAX), register(Register::RDX)],
    });
}

/// The accumulator's low bytes stay, those up to `until` become copies of the sign.
fn sign_extension(lifter: &mut Lifter<'_>, kept: u16, until: u16) {
    lifter.clear(Span::new(Place::Register(shadow::general(0) + kept), until - kept));
}

/// String instructions, recognised by the operand kinds: `movsd` and `cmpsd` are also names of SSE2 instructions.
pub(super) fn string(lifter: &mut Lifter<'_>) {
    let instruction = lifter.instruction;
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let at = |base, bytes| Span::new(Place::Memory { base, offset: 0 }, bytes);
    match instruction.mnemonic() {
        Movsb => moved(lifter, repeated, 1),
        Movsw => moved(lifter, repeated, 2),
        Movsd => moved(lifter, repeated, 4),
        Movsq => moved(lifter, repeated, 8),
        Stosb => stored(lifter, repeated, 1),
        Stosw => stored(lifter, repeated, 2),
        Stosd => stored(lifter, repeated, 4),
        Stosq => stored(lifter, repeated, 8),
        // A repeated load is not written by any compiler; its last element is what a single load gives if the count is 1.
        Lodsb | Lodsw | Lodsd | Lodsq if !repeated => {
            let Some(target) = lifter.operand(0) else { return };
            let until = lifter.cleared_until(0, target.bytes);
            let source = at(Address::StringSource, target.bytes);
            lifter.assign(target.place, &zero_extended(bytes_of(source).collect(), until));
        }
        Lodsb | Lodsw | Lodsd | Lodsq => {
            let Some(target) = lifter.operand(0) else { return };
            lifter.push(Effect::Lost { source: at(Address::StringSource, target.bytes) });
            lifter.clear(Span::new(Place::Register(shadow::general(0)), 8));
        }
        // Comparisons set flags; port input is not for programs.
        _ => {}
    }
    lifter.finish();
}

fn moved(lifter: &mut Lifter<'_>, repeated: bool, element: u8) {
    if repeated {
        lifter.push(Effect::RepeatedMove { element });
        return;
    }
    let source = Span::new(Place::Memory { base: Address::StringSource, offset: 0 }, element.into());
    let target = Place::Memory { base: Address::StringDestination, offset: 0 };
    lifter.assign(target, &bytes_of(source).collect::<Vec<_>>());
}

fn stored(lifter: &mut Lifter<'_>, repeated: bool, element: u8) {
    if repeated {
        // It is followed to one place only.
        let accumulator = Span::new(Place::Register(shadow::general(0)), element.into());
        lifter.push(Effect::Lost { source: accumulator });
        lifter.push(Effect::RepeatedStore { element });
        return;
    }
    let accumulator = Span::new(Place::Register(shadow::general(0)), element.into());
    let target = Place::Memory { base: Address::StringDestination, offset: 0 };
    lifter.assign(target, &bytes_of(accumulator).collect::<Vec<_>>());
}

/// Whether an operand is an immediate.
pub(super) fn is_immediate(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(
        kind,
        Immediate8
            | Immediate16
            | Immediate32
            | Immediate64
            | Immediate8to16
            | Immediate8to32
            | Immediate8to64
            | Immediate32to64
    )
}
