//! Plain moves.

use iced_x86::Mnemonic::{self, *};
use iced_x86::OpKind;

use super::assign::{Byte, bytes_of, zero_extended};
use super::{Class, Lifter, bits};
use crate::ir::{BitOperand, BitOperation, Span};

/// As many bytes as the operands have.
const ALL: u16 = 64;

/// Moves of the second operand's low bytes.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = &[
    (Mov, Class::Move(ALL)), (Movzx, Class::Custom(zero_extend)), (Movnti, Class::Move(ALL)),
    // The bytes that sign extension fills are no part of a real number.
    (Movsx, Class::Move(ALL)), (Movsxd, Class::Move(ALL)),
    (Movaps, Class::Move(ALL)), (Vmovaps, Class::Move(ALL)), (Movups, Class::Move(ALL)), (Vmovups, Class::Move(ALL)),
    (Movapd, Class::Move(ALL)), (Vmovapd, Class::Move(ALL)), (Movupd, Class::Move(ALL)), (Vmovupd, Class::Move(ALL)),
    (Movdqa, Class::Move(ALL)), (Vmovdqa, Class::Move(ALL)), (Movdqu, Class::Move(ALL)), (Vmovdqu, Class::Move(ALL)),
    (Lddqu, Class::Move(ALL)), (Vlddqu, Class::Move(ALL)),
    (Movntps, Class::Move(ALL)), (Vmovntps, Class::Move(ALL)), (Movntpd, Class::Move(ALL)), (Vmovntpd, Class::Move(ALL)),
    (Movntdq, Class::Move(ALL)), (Vmovntdq, Class::Move(ALL)), (Movntdqa, Class::Move(ALL)), (Vmovntdqa, Class::Move(ALL)),
    (Movntq, Class::Move(8)), (Movntss, Class::Move(4)), (Movntsd, Class::Move(8)),
    (Movd, Class::Move(4)), (Vmovd, Class::Move(4)), (Movq, Class::Move(8)), (Vmovq, Class::Move(8)),
    (Movq2dq, Class::Move(8)), (Movdq2q, Class::Move(8)), (Vmovw, Class::Move(2)),
    (Movss, Class::Rearrange(|lifter| scalar(lifter, 4))), (Vmovss, Class::Rearrange(|lifter| scalar(lifter, 4))),
    (Vmovsh, Class::Rearrange(|lifter| scalar(lifter, 2))),
    (Movsd, Class::Rearrange(|lifter| scalar(lifter, 8))), (Vmovsd, Class::Rearrange(|lifter| scalar(lifter, 8))),
    (Movlps, Class::Rearrange(low_half)), (Vmovlps, Class::Rearrange(low_half)),
    (Movlpd, Class::Rearrange(low_half)), (Vmovlpd, Class::Rearrange(low_half)),
    (Movhps, Class::Rearrange(high_half)), (Vmovhps, Class::Rearrange(high_half)),
    (Movhpd, Class::Rearrange(high_half)), (Vmovhpd, Class::Rearrange(high_half)),
    (Movbe, Class::Custom(reversed)), (Bswap, Class::Custom(reversed)),
    (Vzeroupper, Class::Custom(|lifter| clear_vectors(lifter, 16))), (Vzeroall, Class::Custom(|lifter| clear_vectors(lifter, 0))),
    (Emms, Class::Custom(clear_mmx)),
];

/// The first operand receives the low `limit` bytes of the second.
pub(super) fn lift(lifter: &mut Lifter<'_>, limit: u16) {
    let Some(target) = lifter.operand(0) else { return };
    let moved = match lifter.operand(1) {
        Some(source) => {
            let bytes = limit.min(source.bytes).min(target.bytes);
            bytes_of(source.part(0, bytes)).collect()
        }
        // An immediate, or a register that cannot carry reals.
        None => Vec::new(),
    };
    let until = lifter.cleared_until(0, target.bytes);
    lifter.assign(target.place, &zero_extended(moved, until));
}

/// `movzx`: compilers take the upper two bytes out of a binary32 number by it, as by a mask.
fn zero_extend(lifter: &mut Lifter<'_>) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return lift(lifter, ALL) };
    if source.place.is_memory() || (target.bytes, source.bytes) != (4, 2) {
        return lift(lifter, ALL);
    }
    let whole = BitOperand::Span(Span::new(source.place, 4));
    bits::trick(lifter, BitOperation::Take, target, &[whole, BitOperand::Immediate(0xffff)]);
}

/// `movss` and `movsd`: between registers only the low element is moved, a load clears the rest.
fn scalar(lifter: &mut Lifter<'_>, bytes: u16) {
    if lifter.data_operands() == 3 {
        let (Some(target), Some(upper), Some(low)) = (lifter.operand(0), lifter.operand(1), lifter.operand(2)) else {
            return;
        };
        merge(lifter, target, [low.part(0, bytes), upper.part(bytes, 16 - bytes)]);
    } else if lifter.instruction.op0_kind() == OpKind::Register && lifter.instruction.op1_kind() == OpKind::Register {
        let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
        lifter.assign(target.place, &bytes_of(source.part(0, bytes)).collect::<Vec<_>>());
    } else {
        lift(lifter, bytes);
    }
}

/// `movlps`, `movlpd`: the low half of a register is loaded or stored.
fn low_half(lifter: &mut Lifter<'_>) {
    half(lifter, 0);
}

/// `movhps`, `movhpd`: the high half of a register is loaded or stored.
fn high_half(lifter: &mut Lifter<'_>) {
    half(lifter, 8);
}

fn half(lifter: &mut Lifter<'_>, at: u16) {
    if lifter.instruction.op0_kind() == OpKind::Memory {
        let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
        lifter.assign(target.place, &bytes_of(source.part(at, 8)).collect::<Vec<_>>());
        return;
    }
    let Some((target, kept, loaded)) = lifter.destination_and_sources() else { return };
    let halves = if at == 0 { [loaded, kept.part(8, 8)] } else { [kept.part(0, 8), loaded] };
    merge(lifter, target, halves);
}

/// Two pieces that make up a 16-byte register.
fn merge(lifter: &mut Lifter<'_>, target: Span, pieces: [Span; 2]) {
    let bytes: Vec<Byte> = pieces.into_iter().flat_map(bytes_of).collect();
    let until = lifter.cleared_until(0, 16);
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// `movbe`, `bswap`: bytes in reverse order.
fn reversed(lifter: &mut Lifter<'_>) {
    let Some(target) = lifter.operand(0) else { return };
    let source = if lifter.instruction.op_count() == 2 { lifter.operand(1) } else { Some(target) };
    let Some(source) = source else { return };
    let mut bytes: Vec<Byte> = bytes_of(source).collect();
    bytes.reverse();
    let until = lifter.cleared_until(0, target.bytes);
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// `vzeroupper`, `vzeroall`.
fn clear_vectors(lifter: &mut Lifter<'_>, from: u16) {
    use crate::ir::Place;
    use crate::shadow;
    for number in 0..16 {
        let place = Place::Register(shadow::vector(number) + from);
        lifter.clear(Span::new(place, lifter.vector_bytes() - from));
    }
}

/// `emms`: the MMX registers are free.
fn clear_mmx(lifter: &mut Lifter<'_>) {
    use crate::ir::Place;
    use crate::shadow;
    lifter.clear(Span::new(Place::Register(shadow::X87), shadow::X87_BYTES));
}
