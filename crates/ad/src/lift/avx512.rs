//! What only AVX-512 has. The forms of other instructions that AVX-512 adds need no entries of their own.

use iced_x86::Mnemonic::{self, *};

use super::arithmetic::finish_register;
use super::assign::{Byte, bytes_of, zero_extended};
use super::bits::trick;
use super::{Class, Lifter, shuffles};
use crate::ir::{BitOperand, BitOperation, Effect, Format, Span};

/// Moves that the instruction itself makes, on shadow.
const AGAIN: Class = Class::Rearrange(shuffles::run_again);
const BOTH: Class = Class::Replay(0, 0b110);
const LAST: Class = Class::Replay(0, 0b100);
const FIRST_AND_LAST: Class = Class::Replay(0, 0b101);
const SCATTER: Class = Class::Custom(shuffles::scatter);

macro_rules! spread {
    ($bytes:literal) => {
        Class::Rearrange(|lifter| shuffles::broadcast(lifter, $bytes))
    };
}
macro_rules! insert {
    ($bytes:literal) => {
        Class::Rearrange(|lifter| shuffles::insert(lifter, $bytes))
    };
}
macro_rules! extract {
    ($bytes:literal) => {
        Class::Rearrange(|lifter| shuffles::extract(lifter, $bytes))
    };
}

/// Moves.
#[rustfmt::skip]
pub(super) const MOVES: &[(Mnemonic, Class)] = &[
    (Vmovdqu8, Class::Move(64)), (Vmovdqu16, Class::Move(64)), (Vmovdqu32, Class::Move(64)), (Vmovdqu64, Class::Move(64)),
    (Vmovdqa32, Class::Move(64)), (Vmovdqa64, Class::Move(64)),
    // Compilers put general registers aside in mask registers.
    (Kmovb, Class::Move(1)), (Kmovw, Class::Move(2)), (Kmovd, Class::Move(4)), (Kmovq, Class::Move(8)),
    (Vbroadcastf32x2, spread!(8)), (Vbroadcasti32x2, spread!(8)),
    (Vbroadcastf32x4, spread!(16)), (Vbroadcasti32x4, spread!(16)), (Vbroadcastf64x2, spread!(16)), (Vbroadcasti64x2, spread!(16)),
    (Vbroadcastf32x8, spread!(32)), (Vbroadcasti32x8, spread!(32)), (Vbroadcastf64x4, spread!(32)), (Vbroadcasti64x4, spread!(32)),
    (Vinsertf32x4, insert!(16)), (Vinserti32x4, insert!(16)), (Vinsertf64x2, insert!(16)), (Vinserti64x2, insert!(16)),
    (Vinsertf32x8, insert!(32)), (Vinserti32x8, insert!(32)), (Vinsertf64x4, insert!(32)), (Vinserti64x4, insert!(32)),
    (Vextractf32x4, extract!(16)), (Vextracti32x4, extract!(16)), (Vextractf64x2, extract!(16)), (Vextracti64x2, extract!(16)),
    (Vextractf32x8, extract!(32)), (Vextracti32x8, extract!(32)), (Vextractf64x4, extract!(32)), (Vextracti64x4, extract!(32)),
    (Valignd, BOTH), (Valignq, BOTH),
    (Vshuff32x4, BOTH), (Vshufi32x4, BOTH), (Vshuff64x2, BOTH), (Vshufi64x2, BOTH),
    (Vblendmps, BOTH), (Vblendmpd, BOTH), (Vpblendmb, BOTH), (Vpblendmw, BOTH), (Vpblendmd, BOTH), (Vpblendmq, BOTH),
    (Vpermb, LAST), (Vpermw, LAST),
    (Vpermi2b, BOTH), (Vpermi2w, BOTH), (Vpermi2d, BOTH), (Vpermi2q, BOTH), (Vpermi2ps, BOTH), (Vpermi2pd, BOTH),
    (Vpermt2b, FIRST_AND_LAST), (Vpermt2w, FIRST_AND_LAST), (Vpermt2d, FIRST_AND_LAST),
    (Vpermt2q, FIRST_AND_LAST), (Vpermt2ps, FIRST_AND_LAST), (Vpermt2pd, FIRST_AND_LAST),
    (Vcompressps, AGAIN), (Vcompresspd, AGAIN), (Vexpandps, AGAIN), (Vexpandpd, AGAIN),
    (Vpcompressb, AGAIN), (Vpcompressw, AGAIN), (Vpcompressd, AGAIN), (Vpcompressq, AGAIN),
    (Vpexpandb, AGAIN), (Vpexpandw, AGAIN), (Vpexpandd, AGAIN), (Vpexpandq, AGAIN),
    // The low bytes of elements, close together.
    (Vpmovqd, AGAIN), (Vpmovqw, AGAIN), (Vpmovqb, AGAIN), (Vpmovdw, AGAIN), (Vpmovdb, AGAIN), (Vpmovwb, AGAIN),
    (Vscatterdps, SCATTER), (Vscatterdpd, SCATTER), (Vscatterqps, SCATTER), (Vscatterqpd, SCATTER),
    (Vpscatterdd, SCATTER), (Vpscatterdq, SCATTER), (Vpscatterqd, SCATTER), (Vpscatterqq, SCATTER),
];

macro_rules! in_format {
    ($function:ident, $ps:ident $pd:ident $ss:ident $sd:ident) => {
        [
            ($ps, Class::Custom(|lifter| $function(lifter, Format::Binary32, false))),
            ($pd, Class::Custom(|lifter| $function(lifter, Format::Binary64, false))),
            ($ss, Class::Custom(|lifter| $function(lifter, Format::Binary32, true))),
            ($sd, Class::Custom(|lifter| $function(lifter, Format::Binary64, true))),
        ]
    };
}

const SCALE: [(Mnemonic, Class); 4] = in_format!(scale, Vscalefps Vscalefpd Vscalefss Vscalefsd);
const MANTISSA: [(Mnemonic, Class); 4] = in_format!(mantissa, Vgetmantps Vgetmantpd Vgetmantss Vgetmantsd);
const REMAINDER: [(Mnemonic, Class); 4] = in_format!(remainder, Vreduceps Vreducepd Vreducess Vreducesd);
const RANGE: [(Mnemonic, Class); 4] = in_format!(range, Vrangeps Vrangepd Vrangess Vrangesd);
const FIX_UP: [(Mnemonic, Class); 4] = in_format!(fix_up, Vfixupimmps Vfixupimmpd Vfixupimmss Vfixupimmsd);

/// Operations on numbers and on masks.
pub(super) const OPERATIONS: &[&[(Mnemonic, Class)]] = &[&SCALE, &MANTISSA, &REMAINDER, &RANGE, &FIX_UP, REST];

#[rustfmt::skip]
const REST: &[(Mnemonic, Class)] = &[
    (Vpternlogd, Class::Custom(ternary)), (Vpternlogq, Class::Custom(ternary)),
    // Step functions, comparisons, and conversions to and from integers.
    (Vrndscaleps, Class::Overwrite), (Vrndscalepd, Class::Overwrite), (Vrndscaless, Class::ClearLow(4)), (Vrndscalesd, Class::ClearLow(8)),
    (Vgetexpps, Class::Overwrite), (Vgetexppd, Class::Overwrite), (Vgetexpss, Class::ClearLow(4)), (Vgetexpsd, Class::ClearLow(8)),
    (Vfpclassps, Class::Overwrite), (Vfpclasspd, Class::Overwrite), (Vfpclassss, Class::Overwrite), (Vfpclasssd, Class::Overwrite),
    (Vpcmpb, Class::Overwrite), (Vpcmpub, Class::Overwrite), (Vpcmpw, Class::Overwrite), (Vpcmpuw, Class::Overwrite),
    (Vpcmpd, Class::Overwrite), (Vpcmpud, Class::Overwrite), (Vpcmpq, Class::Overwrite), (Vpcmpuq, Class::Overwrite),
    (Vptestmb, Class::Overwrite), (Vptestmw, Class::Overwrite), (Vptestmd, Class::Overwrite), (Vptestmq, Class::Overwrite),
    (Vptestnmb, Class::Overwrite), (Vptestnmw, Class::Overwrite), (Vptestnmd, Class::Overwrite), (Vptestnmq, Class::Overwrite),
    (Vcvtpd2udq, Class::Overwrite), (Vcvttpd2udq, Class::Overwrite), (Vcvtps2udq, Class::Overwrite), (Vcvttps2udq, Class::Overwrite),
    (Vcvtpd2qq, Class::Overwrite), (Vcvttpd2qq, Class::Overwrite), (Vcvtps2qq, Class::Overwrite), (Vcvttps2qq, Class::Overwrite),
    (Vcvtpd2uqq, Class::Overwrite), (Vcvttpd2uqq, Class::Overwrite), (Vcvtps2uqq, Class::Overwrite), (Vcvttps2uqq, Class::Overwrite),
    (Vcvtudq2ps, Class::FromIntegers(0)), (Vcvtudq2pd, Class::FromIntegers(0)), (Vcvtqq2ps, Class::FromIntegers(0)), (Vcvtqq2pd, Class::FromIntegers(0)),
    (Vcvtuqq2ps, Class::FromIntegers(0)), (Vcvtuqq2pd, Class::FromIntegers(0)),
    (Vcvtss2usi, Class::Overwrite), (Vcvttss2usi, Class::Overwrite), (Vcvtsd2usi, Class::Overwrite), (Vcvttsd2usi, Class::Overwrite),
    (Vcvtusi2ss, Class::FromIntegers(4)), (Vcvtusi2sd, Class::FromIntegers(8)),
    // Masks are no real numbers.
    (Vpmovm2b, Class::Overwrite), (Vpmovm2w, Class::Overwrite), (Vpmovm2d, Class::Overwrite), (Vpmovm2q, Class::Overwrite),
    (Vpmovb2m, Class::Overwrite), (Vpmovw2m, Class::Overwrite), (Vpmovd2m, Class::Overwrite), (Vpmovq2m, Class::Overwrite),
    (Vpbroadcastmb2q, Class::Overwrite), (Vpbroadcastmw2d, Class::Overwrite),
    (Kandb, Class::Lossy), (Kandw, Class::Lossy), (Kandd, Class::Lossy), (Kandq, Class::Lossy),
    (Kandnb, Class::Lossy), (Kandnw, Class::Lossy), (Kandnd, Class::Lossy), (Kandnq, Class::Lossy),
    (Korb, Class::Lossy), (Korw, Class::Lossy), (Kord, Class::Lossy), (Korq, Class::Lossy),
    (Kxorb, Class::Lossy), (Kxorw, Class::Lossy), (Kxord, Class::Lossy), (Kxorq, Class::Lossy),
    (Kxnorb, Class::Lossy), (Kxnorw, Class::Lossy), (Kxnord, Class::Lossy), (Kxnorq, Class::Lossy),
    (Knotb, Class::Lossy), (Knotw, Class::Lossy), (Knotd, Class::Lossy), (Knotq, Class::Lossy),
    (Kaddb, Class::Lossy), (Kaddw, Class::Lossy), (Kaddd, Class::Lossy), (Kaddq, Class::Lossy),
    (Kshiftlb, Class::Lossy), (Kshiftlw, Class::Lossy), (Kshiftld, Class::Lossy), (Kshiftlq, Class::Lossy),
    (Kshiftrb, Class::Lossy), (Kshiftrw, Class::Lossy), (Kshiftrd, Class::Lossy), (Kshiftrq, Class::Lossy),
    (Kunpckbw, Class::Lossy), (Kunpckwd, Class::Lossy), (Kunpckdq, Class::Lossy),
];

/// Sources of a packed or scalar operation with a destination of its own: the last `count` registers or memory operands.
fn sources(lifter: &Lifter<'_>, count: u32) -> Vec<Span> {
    let all = lifter.data_operands();
    (all.saturating_sub(count)..all).filter_map(|operand| lifter.operand(operand)).collect()
}

/// A bit trick on numbers: in all elements, or in the lowest one.
fn number_trick(lifter: &mut Lifter<'_>, operation: BitOperation, format: Format, scalar: bool, sources: &[Span]) {
    let Some((target, first, _)) = lifter.destination_and_sources() else { return };
    let operands: Vec<BitOperand> = sources
        .iter()
        .map(|source| BitOperand::Span(if scalar { source.part(0, format.bytes()) } else { *source }))
        .collect();
    if !scalar {
        return trick(lifter, operation, target, &operands);
    }
    let [Some(a), b, c] = [0, 1, 2].map(|k| operands.get(k).copied()) else { return };
    let target_lane = target.part(0, format.bytes());
    lifter.push_lane(Effect::BitTrick { operation, target: target_lane, a, b, c }, 0);
    finish_register(lifter, target, first, format.bytes());
}

/// `vscalef`: `a` times 2 to the power of `b`, rounded down.
fn scale(lifter: &mut Lifter<'_>, format: Format, scalar: bool) {
    lifter.fetch();
    let sources = sources(lifter, 2);
    number_trick(lifter, BitOperation::Scale(format), format, scalar, &sources);
}

/// `vgetmant`: the operand times a power of two.
fn mantissa(lifter: &mut Lifter<'_>, format: Format, scalar: bool) {
    lifter.fetch();
    let sources = sources(lifter, 1);
    number_trick(lifter, BitOperation::Mantissa(format), format, scalar, &sources);
}

/// `vrange`: one of the operands, perhaps with another sign.
fn range(lifter: &mut Lifter<'_>, format: Format, scalar: bool) {
    lifter.fetch();
    let sources = sources(lifter, 2);
    number_trick(lifter, BitOperation::Choice(format), format, scalar, &sources);
}

/// `vfixupimm`: the destination, the second operand or a constant, as a table in the third one says.
fn fix_up(lifter: &mut Lifter<'_>, format: Format, scalar: bool) {
    lifter.fetch();
    let sources: Vec<Span> = [lifter.operand(0), lifter.operand(1)].into_iter().flatten().collect();
    number_trick(lifter, BitOperation::Choice(format), format, scalar, &sources);
}

/// `vreduce`: what rounding takes away; its derivative is one.
fn remainder(lifter: &mut Lifter<'_>, format: Format, scalar: bool) {
    lifter.fetch();
    let Some((target, first, source)) = lifter.destination_and_sources() else { return };
    let bytes = if scalar { format.bytes() } else { target.bytes };
    match lifter.mask_from(0, format.bytes()) {
        None => {
            let moved: Vec<Byte> = bytes_of(source.part(0, bytes)).collect();
            lifter.assign(target.place, &moved);
        }
        mask => {
            let copy = Effect::Copy { target: target.place, source: source.place, bytes };
            lifter.push_under(copy, mask);
        }
    }
    if scalar {
        finish_register(lifter, target, first, bytes);
    } else {
        let until = lifter.cleared_until(0, bytes);
        lifter.assign(target.place, &zero_extended(vec![Byte::Keep; bytes.into()], until));
    }
}

/// The truth table with which one of several equal operands stands for all of them: what is a function of two is not to be taken for one of three.
fn of_equal_operands(table: u8, operands: [Span; 3]) -> u8 {
    // Operand k has bit 2 - k of a row's number.
    let first = |operand: usize| (0..3).find(|&other| operands[other] == operands[operand]).unwrap_or(operand);
    let row = |row: u8| (0..3).fold(0, |same, operand| same | (row >> (2 - first(operand)) & 1) << (2 - operand));
    (0..8).fold(0, |merged, number| merged | (table >> row(number) & 1) << number)
}

/// `vpternlog`: any bitwise function of three operands.
fn ternary(lifter: &mut Lifter<'_>) {
    lifter.fetch();
    let operands: Vec<Span> = (0..3).filter_map(|operand| lifter.operand(operand)).collect();
    let &[target, b, c] = &operands[..] else { return };
    let table = of_equal_operands(lifter.immediate() as u8, [target, b, c]);
    let depends = |bit: u8| (0..8).any(|row| table >> row & 1 != table >> (row ^ (1 << bit)) & 1);
    // The first operand has the highest bit of a row's number.
    if ![0, 1, 2].into_iter().any(depends) {
        return lifter.clear_destination();
    }
    trick(lifter, BitOperation::Ternary(table), target, &[target, b, c].map(BitOperand::Span));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Place;

    #[test]
    fn equal_operands_of_a_ternary_function_are_one() {
        let span = |number: u16| Span::new(Place::Register(64 * number), 64);
        let [a, b, c] = [1, 2, 3].map(span);
        assert_eq!(of_equal_operands(0x26, [a, b, c]), 0x26);
        // Of two equal operands nothing is left of this one.
        assert_eq!(of_equal_operands(0x26, [a, b, b]), 0);
        // `a ^ b ^ c` is then `a`, or `b` if the first two are equal.
        assert_eq!(of_equal_operands(0x96, [a, b, b]), 0xf0);
        assert_eq!(of_equal_operands(0x96, [a, a, c]), 0xaa);
        // All three: `a ^ a ^ a`.
        assert_eq!(of_equal_operands(0x96, [a, a, a]), 0xf0);
    }
}
