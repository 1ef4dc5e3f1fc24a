//! Integer and bitwise operations that may be real operations in disguise.

use iced_x86::Mnemonic::{self, *};
use iced_x86::{OpKind, Register};

use super::assign::{Byte, bytes_of, zero_extended};
use super::general::is_immediate;
use super::{Class, Lifter, fallback, narrow, shuffles};
use crate::bit_tricks::in_both_halves;
use crate::ir::{BitOperand, BitOperation, Effect, Place, Span, Updated};
use crate::shadow;

/// What is known of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    operation: BitOperation,
    /// The operation of an operand with itself.
    itself: Itself,
    /// A shift by a constant number of bits: width of the elements in bytes (0: of the whole operand) and direction.
    shift: Option<Shift>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Itself {
    /// gives a constant.
    Constant,
    /// gives that operand.
    Same,
    /// is an operation as any other.
    Operation,
}

#[derive(Clone, Copy, Debug)]
struct Shift {
    element: u16,
    kind: ShiftKind,
    /// Whether each element has a count of its own.
    each: bool,
}

impl Shift {
    fn rotates(self) -> bool {
        matches!(self.kind, ShiftKind::RotateLeft | ShiftKind::RotateRight)
    }

    /// Whether nothing remains of an element of a vector.
    fn is_out(self, count: u64) -> bool {
        self.element != 0
            && count >= u64::from(8 * self.element)
            && matches!(self.kind, ShiftKind::Left | ShiftKind::Right)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShiftKind {
    Left,
    Right,
    /// With copies of the sign.
    RightSigned,
    RotateLeft,
    RotateRight,
}

const fn bits(operation: BitOperation, itself: Itself) -> Class {
    Class::Bits(Bits { operation, itself, shift: None })
}

const fn shift(element: u16, kind: ShiftKind) -> Class {
    let operation = match kind {
        ShiftKind::Right | ShiftKind::RightSigned => BitOperation::ShiftRight,
        ShiftKind::Left => BitOperation::ShiftLeft,
        ShiftKind::RotateLeft | ShiftKind::RotateRight => BitOperation::Rotate,
    };
    Class::Bits(Bits { operation, itself: Itself::Operation, shift: Some(Shift { element, kind, each: false }) })
}

/// By as many bits as the corresponding element of the second operand says.
const fn shifts(element: u16, kind: ShiftKind) -> Class {
    match shift(element, kind) {
        Class::Bits(Bits { operation, itself, shift: Some(shift) }) => {
            Class::Bits(Bits { operation, itself, shift: Some(Shift { each: true, ..shift }) })
        }
        class => class,
    }
}

const AND: Class = bits(BitOperation::And, Itself::Same);
const AND_NOT: Class = bits(BitOperation::AndNot, Itself::Constant);
const OR: Class = bits(BitOperation::Or, Itself::Same);
const XOR: Class = bits(BitOperation::Xor, Itself::Constant);
const DIFFERENCE: Class = bits(BitOperation::Other, Itself::Constant);
const NARROW_DIFFERENCE: Class = Class::Custom(narrow_difference);
const OTHER: Class = bits(BitOperation::Other, Itself::Operation);
const SUM: Class = bits(BitOperation::Sum, Itself::Operation);
/// Integer minimum or maximum: one of the operands.
const EXTREMUM: Class = bits(BitOperation::Select, Itself::Same);

/// Bitwise and integer operations on four- and eight-byte elements, in general and vector registers.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = &[
    (Mnemonic::And, AND), (Pand, AND), (Vpand, AND), (Andps, AND), (Vandps, AND), (Andpd, AND), (Vandpd, AND),
    (Andn, AND_NOT), (Pandn, AND_NOT), (Vpandn, AND_NOT),
    (Andnps, AND_NOT), (Vandnps, AND_NOT), (Andnpd, AND_NOT), (Vandnpd, AND_NOT),
    (Mnemonic::Or, OR), (Por, OR), (Vpor, OR), (Orps, OR), (Vorps, OR), (Orpd, OR), (Vorpd, OR),
    (Mnemonic::Xor, XOR), (Pxor, XOR), (Vpxor, XOR), (Xorps, XOR), (Vxorps, XOR), (Xorpd, XOR), (Vxorpd, XOR),
    (Add, SUM), (Sub, DIFFERENCE), (Adc, OTHER), (Sbb, DIFFERENCE), (Neg, OTHER), (Not, OTHER), (Inc, OTHER), (Dec, OTHER),
    (Btc, Class::Custom(change_bit)), (Btr, Class::Custom(change_bit)), (Bts, Class::Custom(change_bit)), (Bzhi, Class::Custom(zero_high_bits)),
    (Paddd, OTHER), (Vpaddd, OTHER), (Paddq, OTHER), (Vpaddq, OTHER),
    (Psubd, DIFFERENCE), (Vpsubd, DIFFERENCE), (Psubq, DIFFERENCE), (Vpsubq, DIFFERENCE),
    (Shl, shift(0, ShiftKind::Left)), (Sal, shift(0, ShiftKind::Left)), (Shlx, shift(0, ShiftKind::Left)),
    (Shr, shift(0, ShiftKind::Right)), (Shrx, shift(0, ShiftKind::Right)),
    (Sar, shift(0, ShiftKind::RightSigned)), (Sarx, shift(0, ShiftKind::RightSigned)),
    (Rol, shift(0, ShiftKind::RotateLeft)), (Ror, shift(0, ShiftKind::RotateRight)), (Rorx, shift(0, ShiftKind::RotateRight)),
    (Psllw, shift(2, ShiftKind::Left)), (Vpsllw, shift(2, ShiftKind::Left)),
    (Pslld, shift(4, ShiftKind::Left)), (Vpslld, shift(4, ShiftKind::Left)),
    (Psllq, shift(8, ShiftKind::Left)), (Vpsllq, shift(8, ShiftKind::Left)),
    (Psrlw, shift(2, ShiftKind::Right)), (Vpsrlw, shift(2, ShiftKind::Right)),
    (Psrld, shift(4, ShiftKind::Right)), (Vpsrld, shift(4, ShiftKind::Right)),
    (Psrlq, shift(8, ShiftKind::Right)), (Vpsrlq, shift(8, ShiftKind::Right)),
    (Psraw, shift(2, ShiftKind::RightSigned)), (Vpsraw, shift(2, ShiftKind::RightSigned)),
    (Psrad, shift(4, ShiftKind::RightSigned)), (Vpsrad, shift(4, ShiftKind::RightSigned)), (Vpsravd, shifts(4, ShiftKind::RightSigned)),
    (Vpsllvd, shifts(4, ShiftKind::Left)), (Vpsllvq, shifts(8, ShiftKind::Left)),
    (Vpsrlvd, shifts(4, ShiftKind::Right)), (Vpsrlvq, shifts(8, ShiftKind::Right)),
    (Shld, Class::Custom(double_shift)), (Shrd, Class::Custom(double_shift)),
    (Rcl, Class::Custom(rotate_with_carry)), (Rcr, Class::Custom(rotate_with_carry)),
    (Pminsd, EXTREMUM), (Vpminsd, EXTREMUM), (Pmaxsd, EXTREMUM), (Vpmaxsd, EXTREMUM),
    (Pminud, EXTREMUM), (Vpminud, EXTREMUM), (Pmaxud, EXTREMUM), (Vpmaxud, EXTREMUM),
    (Vpminsq, EXTREMUM), (Vpmaxsq, EXTREMUM), (Vpminuq, EXTREMUM), (Vpmaxuq, EXTREMUM),
    // AVX-512: bitwise operations have elements there, for masks.
    (Vpandd, AND), (Vpandq, AND), (Vpandnd, AND_NOT), (Vpandnq, AND_NOT), (Vpord, OR), (Vporq, OR), (Vpxord, XOR), (Vpxorq, XOR),
    (Vpsraq, shift(8, ShiftKind::RightSigned)), (Vpsravq, shifts(8, ShiftKind::RightSigned)),
    (Vprold, shift(4, ShiftKind::RotateLeft)), (Vprolq, shift(8, ShiftKind::RotateLeft)), (Vprolvd, shifts(4, ShiftKind::RotateLeft)), (Vprolvq, shifts(8, ShiftKind::RotateLeft)),
    (Vprord, shift(4, ShiftKind::RotateRight)), (Vprorq, shift(8, ShiftKind::RotateRight)), (Vprorvd, shifts(4, ShiftKind::RotateRight)), (Vprorvq, shifts(8, ShiftKind::RotateRight)),
    // Narrow elements cannot hold a real number, but the operation of a register with itself clears it.
    (Psubb, NARROW_DIFFERENCE), (Vpsubb, NARROW_DIFFERENCE), (Psubw, NARROW_DIFFERENCE), (Vpsubw, NARROW_DIFFERENCE),
    // Comparisons: the result is a mask.
    (Pcmpeqb, Class::Overwrite), (Vpcmpeqb, Class::Overwrite), (Pcmpeqw, Class::Overwrite), (Vpcmpeqw, Class::Overwrite),
    (Pcmpeqd, Class::Overwrite), (Vpcmpeqd, Class::Overwrite), (Pcmpeqq, Class::Overwrite), (Vpcmpeqq, Class::Overwrite),
    (Pcmpgtb, Class::Overwrite), (Vpcmpgtb, Class::Overwrite), (Pcmpgtw, Class::Overwrite), (Vpcmpgtw, Class::Overwrite),
    (Pcmpgtd, Class::Overwrite), (Vpcmpgtd, Class::Overwrite), (Pcmpgtq, Class::Overwrite), (Vpcmpgtq, Class::Overwrite),
    (Pcmpistri, Class::Overwrite), (Vpcmpistri, Class::Overwrite), (Pcmpistrm, Class::Overwrite), (Vpcmpistrm, Class::Overwrite),
    (Pcmpestri, Class::Overwrite), (Vpcmpestri, Class::Overwrite), (Pcmpestrm, Class::Overwrite), (Vpcmpestrm, Class::Overwrite),
    (Pcmpestri64, Class::Overwrite), (Vpcmpestri64, Class::Overwrite), (Pcmpestrm64, Class::Overwrite), (Vpcmpestrm64, Class::Overwrite),
    (Cmpps, Class::Overwrite), (Vcmpps, Class::Overwrite), (Cmppd, Class::Overwrite), (Vcmppd, Class::Overwrite),
    (Movmskps, Class::Overwrite), (Vmovmskps, Class::Overwrite), (Movmskpd, Class::Overwrite), (Vmovmskpd, Class::Overwrite),
    (Pmovmskb, Class::Overwrite), (Vpmovmskb, Class::Overwrite),
    // Conversions to and from integers, rounding to integers: derivative zero.
    (Cvtsd2si, Class::Overwrite), (Vcvtsd2si, Class::Overwrite), (Cvttsd2si, Class::Overwrite), (Vcvttsd2si, Class::Overwrite),
    (Cvtss2si, Class::Overwrite), (Vcvtss2si, Class::Overwrite), (Cvttss2si, Class::Overwrite), (Vcvttss2si, Class::Overwrite),
    (Cvtps2dq, Class::Overwrite), (Vcvtps2dq, Class::Overwrite), (Cvttps2dq, Class::Overwrite), (Vcvttps2dq, Class::Overwrite),
    (Cvtpd2dq, Class::Overwrite), (Vcvtpd2dq, Class::Overwrite), (Cvttpd2dq, Class::Overwrite), (Vcvttpd2dq, Class::Overwrite),
    (Cvtdq2ps, Class::FromIntegers(0)), (Vcvtdq2ps, Class::FromIntegers(0)), (Cvtdq2pd, Class::FromIntegers(0)), (Vcvtdq2pd, Class::FromIntegers(0)),
    (Cvtpi2ps, Class::FromIntegers(8)), (Cvtpi2pd, Class::FromIntegers(0)), (Cvtps2pi, Class::Overwrite), (Cvttps2pi, Class::Overwrite),
    (Cvtpd2pi, Class::Overwrite), (Cvttpd2pi, Class::Overwrite),
    (Roundps, Class::Overwrite), (Vroundps, Class::Overwrite), (Roundpd, Class::Overwrite), (Vroundpd, Class::Overwrite),
];

/// A bitwise or integer operation.
pub(super) fn lift(lifter: &mut Lifter<'_>, bits: &Bits) {
    lifter.fetch();
    let Some(target) = lifter.operand(0) else { return };
    let sources = sources(lifter);
    if is_with_itself(lifter, bits.itself, &sources) && lifter.mask.is_some() && bits.itself == Itself::Constant {
        return lifter.clear_destination();
    }
    if is_with_itself(lifter, bits.itself, &sources) && lifter.mask.is_none() {
        let until = lifter.cleared_until(0, target.bytes);
        let kept = match (bits.itself, sources[0]) {
            (Itself::Same, BitOperand::Span(source)) => bytes_of(source).collect(),
            _ => Vec::new(),
        };
        lifter.assign(target.place, &zero_extended(kept, until));
        return;
    }
    let sources: Vec<BitOperand> = sources.iter().map(|&source| counted(source, bits.shift, target)).collect();
    if let (Some(shift), &[BitOperand::Span(_), BitOperand::Immediate(count)]) = (bits.shift, &sources[..])
        && turns_halves(lifter, shift, target, count)
    {
        let count = BitOperand::Immediate(in_both_halves(count));
        return trick(lifter, BitOperation::Turn, target, &[sources[0], count]);
    }
    if let (Some(shift), &[BitOperand::Span(source), BitOperand::Immediate(count)]) = (bits.shift, &sources[..])
        && (count % 8 == 0 || shift.is_out(count))
        && (shift.kind != ShiftKind::RightSigned || shift.element == 0 || count == 0)
        && !(is_vector(lifter) && makes_exponents(shift, count))
    {
        return match lifter.mask {
            None => shift_by_bytes(lifter, shift, target, source, count),
            Some(_) => shuffles::run_again(lifter),
        };
    }
    if matches!(bits.shift, Some(Shift { element: 2, .. })) {
        return fallback::general_rule(lifter, true);
    }
    let operation = match (bits.operation, &sources[..]) {
        (BitOperation::Or, [BitOperand::Span(_), BitOperand::Span(_)])
            if lifter.data_operands() == 2 && !is_vector(lifter) =>
        {
            BitOperation::Merge
        }
        (operation, _) => operation,
    };
    let second = sources.get(1).map(|&second| bits.shift.map_or(second, |shift| as_count(second, shift)));
    let is_counted = matches!(second, Some(BitOperand::Count { .. })) && !is_vector(lifter);
    let operation = match operation {
        BitOperation::ShiftLeft if is_counted => BitOperation::Raise,
        BitOperation::ShiftRight if is_counted => BitOperation::Lower,
        operation => operation,
    };
    let sources: Vec<BitOperand> =
        sources.iter().take(1).copied().chain(second).chain(sources.iter().skip(2).copied()).collect();
    if target.bytes < 4 {
        return narrow::lift(lifter, operation, target, &sources);
    }
    if matches!(bits.operation, BitOperation::Or) && sets_all(lifter, target, &sources) {
        let until = lifter.cleared_until(0, target.bytes);
        return lifter.assign(target.place, &zero_extended(Vec::new(), until));
    }
    let takes = operation == BitOperation::And && !is_vector(lifter) && !has_lock(lifter);
    trick(lifter, if takes { BitOperation::Take } else { operation }, target, &sources);
}

/// Whether a constant sets all bits, as in `or eax, -1`, which is shorter than a move.
fn sets_all(lifter: &Lifter<'_>, target: Span, sources: &[BitOperand]) -> bool {
    let ones = u64::MAX >> (64 - 8 * u32::from(target.bytes.min(8)));
    let constant = matches!(sources, [_, BitOperand::Immediate(bits)] if bits & ones == ones);
    constant && !is_vector(lifter) && !has_lock(lifter)
}

/// A bit trick in all elements of the destination, and what it clears behind.
pub(super) fn trick(lifter: &mut Lifter<'_>, operation: BitOperation, target: Span, sources: &[BitOperand]) {
    if has_lock(lifter) {
        let becomes = Updated::Bits { operation, operand: sources.get(1).copied() };
        lifter.push(Effect::Update { memory: target, becomes, previous: None });
        return;
    }
    let [a, b, c] = [0, 1, 2].map(|k| sources.get(k).copied());
    let Some(a) = a else { return };
    lifter.push_under(Effect::BitTrick { operation, target, a, b, c }, lifter.whole_mask());
    let until = lifter.cleared_until(0, target.bytes);
    lifter.clear(Span::new(target.place.advanced(target.bytes), until - target.bytes));
}

/// Whether a general register's halves change places: what comes together again in this way may be a number.
fn turns_halves(lifter: &Lifter<'_>, shift: Shift, target: Span, count: u64) -> bool {
    shift.rotates() && !is_vector(lifter) && target.bytes >= 4 && count == u64::from(4 * target.bytes)
}

/// Whether memory is updated in one step.
pub(super) fn has_lock(lifter: &Lifter<'_>) -> bool {
    lifter.instruction.has_lock_prefix()
}

/// A difference of one- or two-byte elements.
fn narrow_difference(lifter: &mut Lifter<'_>) {
    let sources = sources(lifter);
    if is_with_itself(lifter, Itself::Constant, &sources) {
        lift(lifter, &Bits { operation: BitOperation::Other, itself: Itself::Constant, shift: None });
    } else {
        fallback::general_rule(lifter, true);
    }
}

/// The operand of a shift that says by how many bits.
fn as_count(operand: BitOperand, shift: Shift) -> BitOperand {
    match operand {
        BitOperand::Span(span) => BitOperand::Count { span, element: if shift.each { shift.element } else { 0 } },
        BitOperand::Immediate(count) if shift.rotates() && shift.element != 0 => {
            BitOperand::Immediate(in_both_halves(count % u64::from(8 * shift.element)))
        }
        BitOperand::Immediate(count) => BitOperand::Immediate(in_both_halves(count)),
        BitOperand::Count { .. } | BitOperand::Ones(_) => operand,
    }
}

/// `bts`, `btr`, `btc`: a bit with a constant number is set, cleared or flipped, as by a mask. (One with a number in a register could lie anywhere
/// behind a memory operand.)
fn change_bit(lifter: &mut Lifter<'_>) {
    let (Some(target), Some(BitOperand::Immediate(number))) = (lifter.operand(0), source(lifter, 1)) else {
        return fallback::general_rule(lifter, true);
    };
    let bit = 1 << (number & u64::from(8 * target.bytes - 1));
    let (operation, mask) = match lifter.instruction.mnemonic() {
        Bts => (BitOperation::Or, bit),
        Btr => (BitOperation::And, !bit),
        _ => (BitOperation::Xor, bit),
    };
    if target.bytes < 4 {
        return narrow::lift(lifter, operation, target, &[BitOperand::Span(target), BitOperand::Immediate(mask)]);
    }
    trick(lifter, operation, target, &[BitOperand::Span(target), BitOperand::Immediate(mask)]);
}

/// `bzhi`: bits from a number on, which is the last operand, become zero.
fn zero_high_bits(lifter: &mut Lifter<'_>) {
    lifter.fetch();
    if let (Some(target), Some(source), Some(number)) = (lifter.operand(0), lifter.operand(1), lifter.operand(2)) {
        trick(lifter, BitOperation::Take, target, &[BitOperand::Span(source), BitOperand::Ones(number)]);
    }
}

/// `rcl`, `rcr`: nothing happens if the count is zero, or goes round the operand and the carry.
fn rotate_with_carry(lifter: &mut Lifter<'_>) {
    let Some(target) = lifter.operand(0) else { return };
    let (mask, round) = (if target.bytes == 8 { 63 } else { 31 }, u64::from(8 * target.bytes + 1));
    match source(lifter, 1) {
        Some(BitOperand::Immediate(count)) if (count & mask) % round == 0 => {
            let until = lifter.cleared_until(0, target.bytes);
            lifter.clear(Span::new(target.place.advanced(target.bytes), until - target.bytes));
        }
        _ => fallback::general_rule(lifter, true),
    }
}

/// `shld`, `shrd`: by whole bytes, the bytes of both operands are moved.
fn double_shift(lifter: &mut Lifter<'_>) {
    let (Some(target), Some(filler)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let Some(BitOperand::Immediate(count)) = source(lifter, 2) else { return fallback::general_rule(lifter, true) };
    let count = count as u16 & if target.bytes == 8 { 63 } else { 31 };
    if !count.is_multiple_of(8) || count > 8 * target.bytes {
        return fallback::general_rule(lifter, true);
    }
    let (distance, size) = (count / 8, target.bytes);
    let (low, high, start) = match lifter.instruction.mnemonic() {
        Shld => (filler, target, size - distance),
        _ => (target, filler, distance),
    };
    let both: Vec<Byte> = bytes_of(low).chain(bytes_of(high)).collect();
    let moved = both[usize::from(start)..usize::from(start + size)].to_vec();
    let until = lifter.cleared_until(0, size);
    lifter.assign(target.place, &zero_extended(moved, until));
}

/// One or two operands: an instruction's destination is its first source if no two others are given.
fn sources(lifter: &Lifter<'_>) -> Vec<BitOperand> {
    let count = lifter.instruction.op_count();
    let first = if count >= 3 { 1 } else { 0 };
    (first..count).filter_map(|operand| source(lifter, operand)).collect()
}

fn source(lifter: &Lifter<'_>, operand: u32) -> Option<BitOperand> {
    if is_immediate(lifter.instruction.op_kind(operand)) {
        return Some(BitOperand::Immediate(lifter.instruction.immediate(operand)));
    }
    lifter.operand(operand).map(BitOperand::Span)
}

/// Whether any operand is a vector or MMX register.
fn is_vector(lifter: &Lifter<'_>) -> bool {
    let register = |operand| lifter.instruction.op_register(operand);
    (0..lifter.instruction.op_count())
        .any(|operand| register(operand).is_vector_register() || register(operand).is_mm())
}

fn is_with_itself(lifter: &Lifter<'_>, itself: Itself, sources: &[BitOperand]) -> bool {
    let registers =
        (0..lifter.instruction.op_count()).all(|operand| lifter.instruction.op_kind(operand) == OpKind::Register);
    itself != Itself::Operation && registers && sources.len() == 2 && sources[0] == sources[1]
}

/// General registers take a constant count modulo 32 or 64; vectors shift everything out.
fn counted(source: BitOperand, shift: Option<Shift>, target: Span) -> BitOperand {
    match (source, shift) {
        (BitOperand::Immediate(count), Some(Shift { element: 0, .. })) => {
            BitOperand::Immediate(count & if target.bytes == 8 { 63 } else { 31 })
        }
        _ => source,
    }
}

/// Whether a vector shift by whole bytes is not there to move numbers, or halves of them: exponential functions bring a rounded number to the place of the exponent with it.
fn makes_exponents(shift: Shift, count: u64) -> bool {
    shift.kind == ShiftKind::Left && shift.element >= 4 && !shift.is_out(count) && !count.is_multiple_of(32)
}

/// A shift or rotation by whole bytes moves them. Copies of a sign are passive, as zeros are.
fn shift_by_bytes(lifter: &mut Lifter<'_>, shift: Shift, target: Span, source: Span, count: u64) {
    let element = if shift.element == 0 { source.bytes } else { shift.element };
    let rotates = shift.rotates();
    let distance = (count / 8) as i32;
    let towards_low = matches!(shift.kind, ShiftKind::Right | ShiftKind::RightSigned | ShiftKind::RotateRight);
    let size = i32::from(element);
    let bytes: Vec<Byte> = (0..target.bytes)
        .map(|position| {
            let (start, within) = (position / element * element, i32::from(position % element));
            let from = if towards_low { within + distance } else { within - distance };
            let from = if rotates { from.rem_euclid(size) } else { from };
            if (0..size).contains(&from) { Byte::From(source.place.advanced(start + from as u16)) } else { Byte::Zero }
        })
        .collect();
    let until = lifter.cleared_until(0, target.bytes);
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// `lea`: a sum of registers, which compilers use to add to exponents as well, or a move of one.
pub(super) fn load_address(lifter: &mut Lifter<'_>) {
    let instruction = lifter.instruction;
    let Some(target) = lifter.operand(0) else { return };
    let general = |register: Register| lifter.register(register).filter(|_| register.is_gpr());
    let (base, index) = (general(instruction.memory_base()), general(instruction.memory_index()));
    let until = lifter.cleared_until(0, target.bytes);
    let width = target.bytes;
    match (base, index) {
        (Some(base), None) if instruction.memory_displacement64() == 0 && base.bytes >= width => {
            lifter.assign(target.place, &zero_extended(bytes_of(base.part(0, width)).collect(), until));
        }
        (None, None) => lifter.assign(target.place, &vec![Byte::Zero; usize::from(until)]),
        _ => {
            let stack = Place::Register(shadow::general(Register::RSP.number() as u16));
            let registers = [base, index].into_iter().flatten().filter(|register| register.place != stack);
            if matches!(width, 4 | 8) {
                let mut operands: Vec<_> = registers
                    .filter(|register| register.bytes >= width)
                    .map(|register| BitOperand::Span(register.part(0, width)))
                    .collect();
                // What it is a sum of, as far as that is known here; whether it is one, its value tells.
                let displacement = instruction.memory_displacement64();
                let operation = match (operands.len(), displacement) {
                    _ if index.is_some() && instruction.memory_index_scale() != 1 => BitOperation::Other,
                    (2, 0) => BitOperation::Sum,
                    (1, _) => {
                        operands.push(BitOperand::Immediate(displacement));
                        BitOperation::Sum
                    }
                    _ => BitOperation::Other,
                };
                if !operands.is_empty() {
                    trick(lifter, operation, target, &operands);
                    return;
                }
            } else {
                registers.for_each(|source| lifter.push(Effect::Lost { source }));
            }
            lifter.assign(target.place, &vec![Byte::Zero; usize::from(until)]);
        }
    }
}
