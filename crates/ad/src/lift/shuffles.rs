//! Rearrangements of vector elements.

use iced_x86::Mnemonic::{self, *};
use iced_x86::{Code, OpKind};

use super::assign::{Byte, bytes_of, zero_extended};
use super::{Class, Lifter, fallback};
use crate::ir::{Address, Effect, Place, Span};

/// Where an element of the result comes from, within a group. In two-operand forms the destination is the first source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// This element of the first source.
    A(u8),
    /// This element of the second source.
    B(u8),
    /// The element of the first source that the bits of the immediate from this one on name.
    ASelect(u8),
    /// The same of the second source.
    BSelect(u8),
    /// The same, plus four.
    BSelectHigh(u8),
    /// This element of the second source if this bit of the immediate is set, else of the first.
    Blend(u8),
}

/// A rearrangement that is the same in each group of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    /// Bytes of an element.
    element: u16,
    /// The elements of a group of the result.
    picks: &'static [Pick],
    /// Bits of the immediate that a `Select` takes.
    select_bits: u8,
    /// Distance between the bits of the immediate that belong to successive groups.
    step: u8,
}

/// A fixed rearrangement, or one that takes two bits of the immediate for each element, the same in all groups.
const fn shuffle(element: u16, picks: &'static [Pick]) -> Class {
    Class::Shuffle(Shuffle { element, picks, select_bits: 2, step: 0 })
}

/// A rearrangement that takes one bit of the immediate for each element of the result.
const fn bitwise(element: u16, picks: &'static [Pick], step: u8) -> Class {
    Class::Shuffle(Shuffle { element, picks, select_bits: 1, step })
}

use Pick::{A, ASelect, B, BSelect, BSelectHigh, Blend};

const SHUFPS: Class = shuffle(4, &[ASelect(0), ASelect(2), BSelect(4), BSelect(6)]);
const SHUFPD: Class = bitwise(8, &[ASelect(0), BSelect(1)], 2);
const FOUR_DWORDS: Class = shuffle(4, &[BSelect(0), BSelect(2), BSelect(4), BSelect(6)]);
const LOW_WORDS: Class = shuffle(2, &[BSelect(0), BSelect(2), BSelect(4), BSelect(6), B(4), B(5), B(6), B(7)]);
const HIGH_WORDS: Class =
    shuffle(2, &[B(0), B(1), B(2), B(3), BSelectHigh(0), BSelectHigh(2), BSelectHigh(4), BSelectHigh(6)]);
const FOUR_WORDS: Class = shuffle(2, &[BSelect(0), BSelect(2), BSelect(4), BSelect(6)]);
const FOUR_QWORDS: Shuffle =
    Shuffle { element: 8, picks: &[BSelect(0), BSelect(2), BSelect(4), BSelect(6)], select_bits: 2, step: 0 };
const TWO_QWORDS: Shuffle = Shuffle { element: 8, picks: &[BSelect(0), BSelect(1)], select_bits: 1, step: 2 };
const FOUR_SINGLES: Shuffle =
    Shuffle { element: 4, picks: &[BSelect(0), BSelect(2), BSelect(4), BSelect(6)], select_bits: 2, step: 0 };
const BLEND_DWORDS: Class = bitwise(4, &[Blend(0), Blend(1), Blend(2), Blend(3)], 4);
const BLEND_QWORDS: Class = bitwise(8, &[Blend(0), Blend(1)], 2);
const BLEND_WORDS: Class =
    bitwise(2, &[Blend(0), Blend(1), Blend(2), Blend(3), Blend(4), Blend(5), Blend(6), Blend(7)], 0);

macro_rules! unpack {
    ($element:literal, low) => {
        Class::Rearrange(|lifter| unpack(lifter, $element, false))
    };
    ($element:literal, high) => {
        Class::Rearrange(|lifter| unpack(lifter, $element, true))
    };
}
macro_rules! insert {
    ($element:literal) => {
        Class::Rearrange(|lifter| insert(lifter, $element))
    };
}
macro_rules! extract {
    ($element:literal) => {
        Class::Rearrange(|lifter| extract(lifter, $element))
    };
}
macro_rules! spread {
    ($element:literal) => {
        Class::Rearrange(|lifter| broadcast(lifter, $element))
    };
}
macro_rules! widen {
    ($from:literal, $to:literal) => {
        Class::Rearrange(|lifter| widen(lifter, $from, $to))
    };
}

/// Rearrangements.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = &[
    // By a fixed pattern.
    (Movhlps, shuffle(8, &[B(1), A(1)])), (Vmovhlps, shuffle(8, &[B(1), A(1)])),
    (Movlhps, shuffle(8, &[A(0), B(0)])), (Vmovlhps, shuffle(8, &[A(0), B(0)])),
    (Movddup, shuffle(8, &[B(0), B(0)])), (Vmovddup, shuffle(8, &[B(0), B(0)])),
    (Movshdup, shuffle(4, &[B(1), B(1), B(3), B(3)])), (Vmovshdup, shuffle(4, &[B(1), B(1), B(3), B(3)])),
    (Movsldup, shuffle(4, &[B(0), B(0), B(2), B(2)])), (Vmovsldup, shuffle(4, &[B(0), B(0), B(2), B(2)])),
    (Unpcklps, unpack!(4, low)), (Vunpcklps, unpack!(4, low)), (Unpckhps, unpack!(4, high)), (Vunpckhps, unpack!(4, high)),
    (Unpcklpd, unpack!(8, low)), (Vunpcklpd, unpack!(8, low)), (Unpckhpd, unpack!(8, high)), (Vunpckhpd, unpack!(8, high)),
    (Punpcklbw, unpack!(1, low)), (Vpunpcklbw, unpack!(1, low)), (Punpckhbw, unpack!(1, high)), (Vpunpckhbw, unpack!(1, high)),
    (Punpcklwd, unpack!(2, low)), (Vpunpcklwd, unpack!(2, low)), (Punpckhwd, unpack!(2, high)), (Vpunpckhwd, unpack!(2, high)),
    (Punpckldq, unpack!(4, low)), (Vpunpckldq, unpack!(4, low)), (Punpckhdq, unpack!(4, high)), (Vpunpckhdq, unpack!(4, high)),
    (Punpcklqdq, unpack!(8, low)), (Vpunpcklqdq, unpack!(8, low)), (Punpckhqdq, unpack!(8, high)), (Vpunpckhqdq, unpack!(8, high)),
    // By an immediate.
    (Shufps, SHUFPS), (Vshufps, SHUFPS), (Shufpd, SHUFPD), (Vshufpd, SHUFPD),
    (Pshufd, FOUR_DWORDS), (Vpshufd, FOUR_DWORDS), (Pshufw, FOUR_WORDS),
    (Pshuflw, LOW_WORDS), (Vpshuflw, LOW_WORDS), (Pshufhw, HIGH_WORDS), (Vpshufhw, HIGH_WORDS),
    (Vpermq, Class::Custom(permute_qwords)), (Vpermpd, Class::Custom(permute_qwords)),
    (Blendps, BLEND_DWORDS), (Vblendps, BLEND_DWORDS), (Vpblendd, BLEND_DWORDS),
    (Blendpd, BLEND_QWORDS), (Vblendpd, BLEND_QWORDS), (Pblendw, BLEND_WORDS), (Vpblendw, BLEND_WORDS),
    (Vpermilps, Class::Custom(|lifter| permute_in_lane(lifter, &FOUR_SINGLES))),
    (Vpermilpd, Class::Custom(|lifter| permute_in_lane(lifter, &TWO_QWORDS))),
    (Vperm2f128, Class::Rearrange(permute_halves)), (Vperm2i128, Class::Rearrange(permute_halves)),
    (Insertps, Class::Rearrange(insert_single)), (Vinsertps, Class::Rearrange(insert_single)),
    (Palignr, Class::Rearrange(align_right)), (Vpalignr, Class::Rearrange(align_right)),
    (Pslldq, Class::Rearrange(|lifter| shift_bytes(lifter, 1))), (Vpslldq, Class::Rearrange(|lifter| shift_bytes(lifter, 1))),
    (Psrldq, Class::Rearrange(|lifter| shift_bytes(lifter, -1))), (Vpsrldq, Class::Rearrange(|lifter| shift_bytes(lifter, -1))),
    // Between a vector and one of its elements.
    (Pinsrb, insert!(1)), (Vpinsrb, insert!(1)), (Pinsrw, insert!(2)), (Vpinsrw, insert!(2)),
    (Pinsrd, insert!(4)), (Vpinsrd, insert!(4)), (Pinsrq, insert!(8)), (Vpinsrq, insert!(8)),
    (Vinsertf128, insert!(16)), (Vinserti128, insert!(16)),
    (Pextrb, extract!(1)), (Vpextrb, extract!(1)), (Pextrw, extract!(2)), (Vpextrw, extract!(2)),
    (Pextrd, extract!(4)), (Vpextrd, extract!(4)), (Pextrq, extract!(8)), (Vpextrq, extract!(8)),
    (Extractps, extract!(4)), (Vextractps, extract!(4)), (Vextractf128, extract!(16)), (Vextracti128, extract!(16)),
    (Vbroadcastss, spread!(4)), (Vbroadcastsd, spread!(8)), (Vbroadcastf128, spread!(16)), (Vbroadcasti128, spread!(16)),
    (Vpbroadcastb, spread!(1)), (Vpbroadcastw, spread!(2)), (Vpbroadcastd, spread!(4)), (Vpbroadcastq, spread!(8)),
    // Elements are widened; the bytes that a sign extension fills are no part of a real number.
    (Pmovzxbw, widen!(1, 2)), (Vpmovzxbw, widen!(1, 2)), (Pmovsxbw, widen!(1, 2)), (Vpmovsxbw, widen!(1, 2)),
    (Pmovzxbd, widen!(1, 4)), (Vpmovzxbd, widen!(1, 4)), (Pmovsxbd, widen!(1, 4)), (Vpmovsxbd, widen!(1, 4)),
    (Pmovzxbq, widen!(1, 8)), (Vpmovzxbq, widen!(1, 8)), (Pmovsxbq, widen!(1, 8)), (Vpmovsxbq, widen!(1, 8)),
    (Pmovzxwd, widen!(2, 4)), (Vpmovzxwd, widen!(2, 4)), (Pmovsxwd, widen!(2, 4)), (Vpmovsxwd, widen!(2, 4)),
    (Pmovzxwq, widen!(2, 8)), (Vpmovzxwq, widen!(2, 8)), (Pmovsxwq, widen!(2, 8)), (Vpmovsxwq, widen!(2, 8)),
    (Pmovzxdq, widen!(4, 8)), (Vpmovzxdq, widen!(4, 8)), (Pmovsxdq, widen!(4, 8)), (Vpmovsxdq, widen!(4, 8)),
    // By data: executed again on shadow.
    (Pshufb, Class::Replay(0b001, 0b010)), (Vpshufb, Class::Replay(0b001, 0b010)),
    (Vpermd, Class::Replay(0, 0b100)), (Vpermps, Class::Replay(0, 0b100)),
    (Blendvps, Class::Replay(0b011, 0)), (Blendvpd, Class::Replay(0b011, 0)), (Pblendvb, Class::Replay(0b011, 0)),
    (Vblendvps, Class::Replay(0, 0b110)), (Vblendvpd, Class::Replay(0, 0b110)), (Vpblendvb, Class::Replay(0, 0b110)),
    (Vmaskmovps, Class::Custom(masked_move)), (Vmaskmovpd, Class::Custom(masked_move)),
    (Vpmaskmovd, Class::Custom(masked_move)), (Vpmaskmovq, Class::Custom(masked_move)),
    (Maskmovdqu, Class::Custom(masked_store)), (Vmaskmovdqu, Class::Custom(masked_store)), (Maskmovq, Class::Custom(masked_store)),
    (Vgatherdps, Class::Custom(gather)), (Vgatherdpd, Class::Custom(gather)),
    (Vgatherqps, Class::Custom(gather)), (Vgatherqpd, Class::Custom(gather)),
    (Vpgatherdd, Class::Custom(gather)), (Vpgatherdq, Class::Custom(gather)),
    (Vpgatherqd, Class::Custom(gather)), (Vpgatherqq, Class::Custom(gather)),
];

/// Assigns a vector register or memory; the rest of a register as its encoding demands.
fn assign_vector(lifter: &mut Lifter<'_>, target: Span, bytes: Vec<Byte>) {
    let until = lifter.cleared_until(0, bytes.len() as u16);
    // A legacy encoding keeps what is above the bytes that it writes.
    let until = if lifter.is_vex() { until } else { bytes.len() as u16 };
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// A rearrangement by table.
pub(super) fn lift(lifter: &mut Lifter<'_>, shuffle: &Shuffle) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let immediate = lifter.immediate();
    let group_bytes = shuffle.element * shuffle.picks.len() as u16;
    let mut bytes = Vec::with_capacity(usize::from(target.bytes));
    for group in 0..target.bytes / group_bytes {
        let bits = |from: u8, count: u8| {
            let from = u32::from(from) + u32::from(shuffle.step) * u32::from(group);
            (immediate >> from) as u16 & ((1 << count) - 1)
        };
        for pick in shuffle.picks {
            let (source, element) = match *pick {
                A(element) => (a, u16::from(element)),
                B(element) => (b, u16::from(element)),
                ASelect(from) => (a, bits(from, shuffle.select_bits)),
                BSelect(from) => (b, bits(from, shuffle.select_bits)),
                BSelectHigh(from) => (b, 4 + bits(from, shuffle.select_bits)),
                Blend(bit) => (if bits(bit, 1) == 1 { b } else { a }, u16::from(bit)),
            };
            let place = source.place.advanced(group * group_bytes + element * shuffle.element);
            bytes.extend(bytes_of(Span::new(place, shuffle.element)));
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `vpermilps`, `vpermilpd`: selected by an immediate or by a register.
fn permute_in_lane(lifter: &mut Lifter<'_>, shuffle: &Shuffle) {
    permute(lifter, shuffle, 0b010);
}

/// `vpermq`, `vpermpd`: selected by an immediate or, with AVX-512, by a register.
fn permute_qwords(lifter: &mut Lifter<'_>) {
    permute(lifter, &FOUR_QWORDS, 0b100);
}

/// With an immediate as a table says, with a selector by data: then the given operands are data.
fn permute(lifter: &mut Lifter<'_>, shuffle: &Shuffle, data: u8) {
    if lifter.data_operands() == 3 {
        replay(lifter, 0, data);
    } else if lifter.moves_elements() {
        run_again(lifter);
    } else {
        lift(lifter, shuffle);
    }
}

/// Elements of the low or high halves of both sources alternate.
fn unpack(lifter: &mut Lifter<'_>, element: u16, high: bool) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let group = target.bytes.min(16);
    let mut bytes = Vec::new();
    for start in (0..target.bytes).step_by(usize::from(group)) {
        let from = start + if high { group / 2 } else { 0 };
        for offset in (from..from + group / 2).step_by(usize::from(element)) {
            bytes.extend(bytes_of(Span::new(a.place.advanced(offset), element)));
            bytes.extend(bytes_of(Span::new(b.place.advanced(offset), element)));
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `vperm2f128`: each half of the result is one of the four halves of the sources, or zero.
fn permute_halves(lifter: &mut Lifter<'_>) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let immediate = lifter.immediate();
    let mut bytes = Vec::new();
    for control in [immediate & 0xf, immediate >> 4 & 0xf] {
        if control & 8 != 0 {
            bytes.extend([Byte::Zero; 16]);
        } else {
            let source = if control & 2 == 0 { a } else { b };
            bytes.extend(bytes_of(Span::new(source.place.advanced(16 * (control as u16 & 1)), 16)));
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `insertps`: bits 7:6 of the immediate select the source, 5:4 the destination, 3:0 what is zeroed.
fn insert_single(lifter: &mut Lifter<'_>) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let immediate = lifter.immediate() as u16;
    let selected = if b.place.is_memory() { 0 } else { immediate >> 6 & 3 };
    let mut bytes = Vec::new();
    for element in 0..4 {
        if immediate & (1 << element) != 0 {
            bytes.extend([Byte::Zero; 4]);
        } else if element == immediate >> 4 & 3 {
            bytes.extend(bytes_of(Span::new(b.place.advanced(4 * selected), 4)));
        } else {
            bytes.extend(bytes_of(Span::new(a.place.advanced(4 * element), 4)));
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `palignr`: the concatenation of both sources, first source high, shifted right.
fn align_right(lifter: &mut Lifter<'_>) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let shift = lifter.immediate() as u16;
    let group = target.bytes.min(16);
    let mut bytes = Vec::new();
    for start in (0..target.bytes).step_by(usize::from(group)) {
        for position in shift..shift + group {
            bytes.push(match position / group {
                0 => Byte::From(b.place.advanced(start + position)),
                1 => Byte::From(a.place.advanced(start + position - group)),
                _ => Byte::Zero,
            });
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `pslldq`, `psrldq`: byte shift in each 128-bit lane, to higher (1) or lower (-1) positions.
fn shift_bytes(lifter: &mut Lifter<'_>, direction: i32) {
    let source = lifter.operand(lifter.data_operands() - 1);
    let (Some(target), Some(source)) = (lifter.operand(0), source) else { return };
    let shift = lifter.immediate().min(16) as i32 * direction;
    let mut bytes = Vec::new();
    for start in (0..target.bytes).step_by(16) {
        for position in 0..16 {
            let from = position - shift;
            let inside = (0..16).contains(&from);
            bytes.push(if inside { Byte::From(source.place.advanced(start + from as u16)) } else { Byte::Zero });
        }
    }
    assign_vector(lifter, target, bytes);
}

/// `pinsr*`, `vinsertf128`: one element is replaced by the low part of the second source.
pub(super) fn insert(lifter: &mut Lifter<'_>, element: u16) {
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let elements = target.bytes / element;
    let position = lifter.immediate() as u16 & (elements - 1);
    let mut bytes: Vec<Byte> = bytes_of(a).collect();
    bytes.truncate(usize::from(target.bytes));
    let start = usize::from(position * element);
    bytes.splice(start..start + usize::from(element), bytes_of(Span::new(b.place, element)));
    assign_vector(lifter, target, bytes);
}

/// `pextr*`, `vextractf128`: one element goes to a register or to memory.
pub(super) fn extract(lifter: &mut Lifter<'_>, element: u16) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let position = lifter.immediate() as u16 & (source.bytes / element - 1);
    let bytes: Vec<Byte> = bytes_of(Span::new(source.place.advanced(position * element), element)).collect();
    let until = lifter.cleared_until(0, target.bytes);
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// The low element of the second operand fills the first.
pub(super) fn broadcast(lifter: &mut Lifter<'_>, element: u16) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let bytes = (0..target.bytes / element).flat_map(|_| bytes_of(Span::new(source.place, element))).collect();
    assign_vector(lifter, target, bytes);
}

/// `pmovzx*`, `pmovsx*`: elements are widened.
fn widen(lifter: &mut Lifter<'_>, from: u16, to: u16) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    let mut bytes = Vec::new();
    for element in 0..target.bytes / to {
        bytes.extend(bytes_of(Span::new(source.place.advanced(element * from), from)));
        bytes.resize(usize::from((element + 1) * to), Byte::Zero);
    }
    assign_vector(lifter, target, bytes);
}

/// What is run on shadow in place of an instruction that extends signs under a mask: shadow has none.
pub(crate) fn without_signs(code: Code) -> Code {
    const TABLE: &[(Code, Code)] = &[
        (Code::EVEX_Vpmovsxbw_xmm_k1z_xmmm64, Code::EVEX_Vpmovzxbw_xmm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxbw_ymm_k1z_xmmm128, Code::EVEX_Vpmovzxbw_ymm_k1z_xmmm128),
        (Code::EVEX_Vpmovsxbw_zmm_k1z_ymmm256, Code::EVEX_Vpmovzxbw_zmm_k1z_ymmm256),
        (Code::EVEX_Vpmovsxbd_xmm_k1z_xmmm32, Code::EVEX_Vpmovzxbd_xmm_k1z_xmmm32),
        (Code::EVEX_Vpmovsxbd_ymm_k1z_xmmm64, Code::EVEX_Vpmovzxbd_ymm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128, Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128),
        (Code::EVEX_Vpmovsxbq_xmm_k1z_xmmm16, Code::EVEX_Vpmovzxbq_xmm_k1z_xmmm16),
        (Code::EVEX_Vpmovsxbq_ymm_k1z_xmmm32, Code::EVEX_Vpmovzxbq_ymm_k1z_xmmm32),
        (Code::EVEX_Vpmovsxbq_zmm_k1z_xmmm64, Code::EVEX_Vpmovzxbq_zmm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxwd_xmm_k1z_xmmm64, Code::EVEX_Vpmovzxwd_xmm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxwd_ymm_k1z_xmmm128, Code::EVEX_Vpmovzxwd_ymm_k1z_xmmm128),
        (Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256, Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256),
        (Code::EVEX_Vpmovsxwq_xmm_k1z_xmmm32, Code::EVEX_Vpmovzxwq_xmm_k1z_xmmm32),
        (Code::EVEX_Vpmovsxwq_ymm_k1z_xmmm64, Code::EVEX_Vpmovzxwq_ymm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxwq_zmm_k1z_xmmm128, Code::EVEX_Vpmovzxwq_zmm_k1z_xmmm128),
        (Code::EVEX_Vpmovsxdq_xmm_k1z_xmmm64, Code::EVEX_Vpmovzxdq_xmm_k1z_xmmm64),
        (Code::EVEX_Vpmovsxdq_ymm_k1z_xmmm128, Code::EVEX_Vpmovzxdq_ymm_k1z_xmmm128),
        (Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256),
    ];
    TABLE.iter().find(|(signed, _)| *signed == code).map_or(code, |(_, unsigned)| *unsigned)
}

/// Execution on shadow of an instruction all of whose registers and memory are data; the first operand is only written.
pub(super) fn run_again(lifter: &mut Lifter<'_>) {
    let sources =
        (1..4).filter(|&operand| lifter.operand(operand).is_some()).fold(0, |bits, operand| bits | 1 << operand);
    let stores = u8::from(lifter.instruction.op0_kind() == OpKind::Memory);
    replay_with(lifter, sources | stores, sources);
}

/// Execution on shadow, with the given data operands for the legacy and the VEX and EVEX encodings; all of them are read.
pub(super) fn replay(lifter: &mut Lifter<'_>, legacy: u8, vex: u8) {
    let data = if lifter.is_vex() { vex } else { legacy };
    replay_with(lifter, data, data);
}

/// Execution on shadow: operands that are replaced by their shadow, and those of them that are read.
fn replay_with(lifter: &mut Lifter<'_>, data: u8, sources: u8) {
    if is_mmx(lifter) {
        return fallback::general_rule(lifter, true);
    }
    let Some(target) = lifter.operand(0) else { return };
    let mut read = (0..4).filter(|operand| sources & (1 << operand) != 0).filter_map(|operand| lifter.operand(operand));
    let sources = [read.next(), read.next()];
    // Elements that are not written keep their shadow.
    let data =
        if lifter.mask.is_some() && !overwrites_selector(lifter.instruction.mnemonic()) { data | 1 } else { data };
    lifter.push(Effect::Replay { data, target, sources, masked: lifter.instruction.has_op_mask() });
    clear_above(lifter, target);
}

/// There are no scratch MMX registers to hold shadow: what selects among their bytes by data loses it.
fn is_mmx(lifter: &Lifter<'_>) -> bool {
    let instruction = lifter.instruction;
    (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_mm())
}

/// Instructions whose first operand is a selector, until the result takes its place.
fn overwrites_selector(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Vpermi2b | Vpermi2w | Vpermi2d | Vpermi2q | Vpermi2ps | Vpermi2pd)
}

fn clear_above(lifter: &mut Lifter<'_>, target: Span) {
    let until = lifter.cleared_until(0, target.bytes);
    lifter.clear(Span::new(target.place.advanced(target.bytes), until - target.bytes));
}

/// `vmaskmov*`: masked load (mask second) or masked store.
fn masked_move(lifter: &mut Lifter<'_>) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(2)) else { return };
    let data = if lifter.instruction.op0_kind() == OpKind::Memory { 0b101 } else { 0b100 };
    lifter.push(Effect::Replay { data, target, sources: [Some(source), None], masked: true });
    clear_above(lifter, target);
}

/// `maskmovdqu`: bytes of the first register go to `[rdi]` where the second has its sign bits set.
fn masked_store(lifter: &mut Lifter<'_>) {
    let Some(source) = lifter.operand(1) else { return };
    let target = Span::new(Place::Memory { base: Address::StringDestination, offset: 0 }, source.bytes);
    if is_mmx(lifter) {
        [source, target].into_iter().for_each(|source| lifter.push(Effect::Lost { source }));
        return lifter.clear(target);
    }
    lifter.push(Effect::Replay { data: 0b011, target, sources: [Some(source), None], masked: true });
}

/// Gathers: the destination keeps masked-off elements, the mask register is cleared.
fn gather(lifter: &mut Lifter<'_>) {
    if lifter.instruction.has_op_mask() {
        return masked_gather(lifter);
    }
    let (Some(target), Some(mask)) = (lifter.operand(0), lifter.operand(2)) else { return };
    lifter.push(Effect::Replay { data: 0b011, target, sources: [Some(target), lifter.operand(1)], masked: true });
    clear_above(lifter, target);
    let until = lifter.cleared_until(2, mask.bytes);
    lifter.clear(Span::new(mask.place, until));
}

/// Gathers of AVX-512: the mask register is cleared.
fn masked_gather(lifter: &mut Lifter<'_>) {
    let Some(target) = lifter.operand(0) else { return };
    lifter.push(Effect::Replay { data: 0b011, target, sources: [Some(target), lifter.operand(1)], masked: true });
    clear_above(lifter, target);
    clear_mask(lifter);
}

/// Scatters: elements of the second operand go to memory, the mask register is cleared.
pub(super) fn scatter(lifter: &mut Lifter<'_>) {
    let (Some(target), Some(source)) = (lifter.operand(0), lifter.operand(1)) else { return };
    lifter.push(Effect::Replay { data: 0b011, target, sources: [Some(source), None], masked: true });
    clear_mask(lifter);
}

fn clear_mask(lifter: &mut Lifter<'_>) {
    if let Some(mask) = lifter.register(lifter.instruction.op_mask()) {
        lifter.clear(mask);
    }
}
