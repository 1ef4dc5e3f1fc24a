//! Real-number arithmetic of the vector units.

use iced_x86::Mnemonic::{self, *};

use super::assign::{Byte, bytes_of, zero_extended};
use super::{Class, Lifter, fallback};
use crate::ir::{BitOperand, BitOperation, Effect, Format, Place, RealOperation, Span};

/// Which lanes of its operands an operation combines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The low lanes of both sources.
    Scalar,
    /// The low lane of the last source.
    ScalarUnary,
    /// Corresponding lanes of both sources.
    Packed,
    /// Each lane of the last source.
    PackedUnary,
    /// Neighbouring lanes of the first, then of the second source.
    Horizontal,
    /// Corresponding lanes, subtracted in even and added in odd positions.
    Alternating,
    /// Sums of products of those lanes that the immediate selects.
    DotProduct,
}

/// A real operation on the lanes of vector registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real {
    operation: RealOperation,
    format: Format,
    shape: Shape,
}

/// A conversion between formats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    to: Format,
    packed: bool,
}

/// A fused multiply-add: `±(x * y) ± z`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fused {
    /// Operand numbers of factors and addend.
    operands: [u32; 3],
    sign: FusedSign,
    format: Format,
    packed: bool,
}

#[derive(Clone, Copy, Debug)]
enum FusedSign {
    /// `x*y + z`
    MultiplyAdd,
    /// `x*y - z`
    MultiplySubtract,
    /// `-(x*y) + z`
    NegativeMultiplyAdd,
    /// `-(x*y) - z`
    NegativeMultiplySubtract,
    /// `x*y - z` in even, `x*y + z` in odd lanes.
    AddSubtract,
    /// The reverse.
    SubtractAdd,
}

macro_rules! reals {
    ($( $operation:ident $format:ident $shape:ident: $($mnemonic:ident)+; )*) => {
        &[$($( ($mnemonic, Class::Real(Real {
            operation: RealOperation::$operation, format: Format::$format, shape: Shape::$shape,
        })), )+)*
        // Conversions between formats, packed or of the low lane.
        (Cvtss2sd, CONVERT_LOW_64), (Vcvtss2sd, CONVERT_LOW_64), (Cvtsd2ss, CONVERT_LOW_32), (Vcvtsd2ss, CONVERT_LOW_32),
        (Cvtps2pd, CONVERT_64), (Vcvtps2pd, CONVERT_64), (Cvtpd2ps, CONVERT_32), (Vcvtpd2ps, CONVERT_32),
        // Two bytes of shadow hold neither an index nor a useful dot value: a binary16 number is passive, in both directions.
        (Vcvtps2ph, Class::Lossy), (Vcvtph2ps, Class::Lossy),
        // The derivative of rounding is zero almost everywhere; integers, masks and selectors are no real numbers.
        (Cvtsi2ss, Class::FromIntegers(4)), (Vcvtsi2ss, Class::FromIntegers(4)), (Cvtsi2sd, Class::FromIntegers(8)), (Vcvtsi2sd, Class::FromIntegers(8)),
        (Roundss, Class::ClearLow(4)), (Vroundss, Class::ClearLow(4)), (Roundsd, Class::ClearLow(8)), (Vroundsd, Class::ClearLow(8)),
        (Cmpss, Class::ClearLow(4)), (Vcmpss, Class::ClearLow(4)), (Cmpsd, Class::ClearLow(8)), (Vcmpsd, Class::ClearLow(8)),
        ]
    };
}

const CONVERT_LOW_64: Class = Class::Convert(Conversion { to: Format::Binary64, packed: false });
const CONVERT_LOW_32: Class = Class::Convert(Conversion { to: Format::Binary32, packed: false });
const CONVERT_64: Class = Class::Convert(Conversion { to: Format::Binary64, packed: true });
const CONVERT_32: Class = Class::Convert(Conversion { to: Format::Binary32, packed: true });

/// Arithmetic and conversions.
pub(super) const TABLE: &[(Mnemonic, Class)] = reals! {
    Add Binary32 Scalar: Addss Vaddss;              Add Binary64 Scalar: Addsd Vaddsd;
    Add Binary32 Packed: Addps Vaddps;              Add Binary64 Packed: Addpd Vaddpd;
    Sub Binary32 Scalar: Subss Vsubss;              Sub Binary64 Scalar: Subsd Vsubsd;
    Sub Binary32 Packed: Subps Vsubps;              Sub Binary64 Packed: Subpd Vsubpd;
    Mul Binary32 Scalar: Mulss Vmulss;              Mul Binary64 Scalar: Mulsd Vmulsd;
    Mul Binary32 Packed: Mulps Vmulps;              Mul Binary64 Packed: Mulpd Vmulpd;
    Div Binary32 Scalar: Divss Vdivss;              Div Binary64 Scalar: Divsd Vdivsd;
    Div Binary32 Packed: Divps Vdivps;              Div Binary64 Packed: Divpd Vdivpd;
    Min Binary32 Scalar: Minss Vminss;              Min Binary64 Scalar: Minsd Vminsd;
    Min Binary32 Packed: Minps Vminps;              Min Binary64 Packed: Minpd Vminpd;
    Max Binary32 Scalar: Maxss Vmaxss;              Max Binary64 Scalar: Maxsd Vmaxsd;
    Max Binary32 Packed: Maxps Vmaxps;              Max Binary64 Packed: Maxpd Vmaxpd;
    Sqrt Binary32 ScalarUnary: Sqrtss Vsqrtss;      Sqrt Binary64 ScalarUnary: Sqrtsd Vsqrtsd;
    Sqrt Binary32 PackedUnary: Sqrtps Vsqrtps;      Sqrt Binary64 PackedUnary: Sqrtpd Vsqrtpd;
    Reciprocal Binary32 ScalarUnary: Rcpss Vrcpss Vrcp14ss;
    Reciprocal Binary32 PackedUnary: Rcpps Vrcpps Vrcp14ps;
    Reciprocal Binary64 ScalarUnary: Vrcp14sd;      Reciprocal Binary64 PackedUnary: Vrcp14pd;
    ReciprocalSqrt Binary32 ScalarUnary: Rsqrtss Vrsqrtss Vrsqrt14ss;
    ReciprocalSqrt Binary32 PackedUnary: Rsqrtps Vrsqrtps Vrsqrt14ps;
    ReciprocalSqrt Binary64 ScalarUnary: Vrsqrt14sd;
    ReciprocalSqrt Binary64 PackedUnary: Vrsqrt14pd;
    Add Binary32 Horizontal: Haddps Vhaddps;        Add Binary64 Horizontal: Haddpd Vhaddpd;
    Sub Binary32 Horizontal: Hsubps Vhsubps;        Sub Binary64 Horizontal: Hsubpd Vhsubpd;
    Add Binary32 Alternating: Addsubps Vaddsubps;   Add Binary64 Alternating: Addsubpd Vaddsubpd;
    Mul Binary32 DotProduct: Dpps Vdpps;            Mul Binary64 DotProduct: Dppd Vdppd;
};

macro_rules! fused {
    ($( $sign:ident { $($order:ident $ps:ident $pd:ident $($ss:ident $sd:ident)?;)+ } )*) => {
        &[$($(
            ($ps, Class::Fused(Fused { operands: $order, sign: FusedSign::$sign, format: Format::Binary32, packed: true })),
            ($pd, Class::Fused(Fused { operands: $order, sign: FusedSign::$sign, format: Format::Binary64, packed: true })),
            $(
            ($ss, Class::Fused(Fused { operands: $order, sign: FusedSign::$sign, format: Format::Binary32, packed: false })),
            ($sd, Class::Fused(Fused { operands: $order, sign: FusedSign::$sign, format: Format::Binary64, packed: false })),
            )?
        )+)*]
    };
}

/// Operand numbers of the two factors and the addend in the three forms of FMA3.
const F132: [u32; 3] = [0, 2, 1];
const F213: [u32; 3] = [1, 0, 2];
const F231: [u32; 3] = [1, 2, 0];

/// FMA3.
pub(super) const FUSED: &[(Mnemonic, Class)] = fused! {
    MultiplyAdd {
        F132 Vfmadd132ps Vfmadd132pd Vfmadd132ss Vfmadd132sd;
        F213 Vfmadd213ps Vfmadd213pd Vfmadd213ss Vfmadd213sd;
        F231 Vfmadd231ps Vfmadd231pd Vfmadd231ss Vfmadd231sd;
    }
    MultiplySubtract {
        F132 Vfmsub132ps Vfmsub132pd Vfmsub132ss Vfmsub132sd;
        F213 Vfmsub213ps Vfmsub213pd Vfmsub213ss Vfmsub213sd;
        F231 Vfmsub231ps Vfmsub231pd Vfmsub231ss Vfmsub231sd;
    }
    NegativeMultiplyAdd {
        F132 Vfnmadd132ps Vfnmadd132pd Vfnmadd132ss Vfnmadd132sd;
        F213 Vfnmadd213ps Vfnmadd213pd Vfnmadd213ss Vfnmadd213sd;
        F231 Vfnmadd231ps Vfnmadd231pd Vfnmadd231ss Vfnmadd231sd;
    }
    NegativeMultiplySubtract {
        F132 Vfnmsub132ps Vfnmsub132pd Vfnmsub132ss Vfnmsub132sd;
        F213 Vfnmsub213ps Vfnmsub213pd Vfnmsub213ss Vfnmsub213sd;
        F231 Vfnmsub231ps Vfnmsub231pd Vfnmsub231ss Vfnmsub231sd;
    }
    AddSubtract {
        F132 Vfmaddsub132ps Vfmaddsub132pd;
        F213 Vfmaddsub213ps Vfmaddsub213pd;
        F231 Vfmaddsub231ps Vfmaddsub231pd;
    }
    SubtractAdd {
        F132 Vfmsubadd132ps Vfmsubadd132pd;
        F213 Vfmsubadd213ps Vfmsubadd213pd;
        F231 Vfmsubadd231ps Vfmsubadd231pd;
    }
};

/// One lane: the result and the operands.
struct Lane {
    operation: RealOperation,
    target: Place,
    a: Place,
    b: Option<Place>,
}

/// A real operation on lanes.
pub(super) fn real(lifter: &mut Lifter<'_>, real: &Real) {
    lifter.fetch();
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let Real { operation, format, shape } = *real;
    let size = format.bytes();
    let count = target.bytes / size;
    let lane = |span: Span, lane: u16| span.place.advanced(lane * size);
    let binary = |operation, position| Lane {
        operation,
        target: lane(target, position),
        a: lane(a, position),
        b: Some(lane(b, position)),
    };
    let unary = |position| Lane { operation, target: lane(target, position), a: lane(b, position), b: None };
    let (lanes, written): (Vec<Lane>, u16) = match shape {
        Shape::Scalar => (vec![binary(operation, 0)], size),
        Shape::ScalarUnary => (vec![unary(0)], size),
        Shape::Packed => ((0..count).map(|position| binary(operation, position)).collect(), target.bytes),
        Shape::PackedUnary => ((0..count).map(unary).collect(), target.bytes),
        Shape::Alternating => {
            let operation = |position| if position % 2 == 0 { RealOperation::Sub } else { RealOperation::Add };
            ((0..count).map(|position| binary(operation(position), position)).collect(), target.bytes)
        }
        Shape::Horizontal => {
            let per_group = 16 / size;
            let pair = |position: u16| {
                let (group, within) = (position / per_group, position % per_group);
                let source = if within < per_group / 2 { a } else { b };
                let first = group * per_group + 2 * (within % (per_group / 2));
                Lane {
                    operation,
                    target: lane(target, position),
                    a: lane(source, first),
                    b: Some(lane(source, first + 1)),
                }
            };
            ((0..count).map(pair).collect(), target.bytes)
        }
        Shape::DotProduct => return dot_product(lifter, target, [a, b], format),
    };
    emit(lifter, format, lanes);
    finish_register(lifter, target, a, written);
}

/// Emits lanes, through temporaries if a lane's target is another one's operand.
fn emit(lifter: &mut Lifter<'_>, format: Format, mut lanes: Vec<Lane>) {
    let span = |place| Span::new(place, format.bytes());
    let conflict = lanes.iter().enumerate().any(|(position, lane)| {
        lanes[position + 1..].iter().any(|later| {
            span(later.a).overlaps(span(lane.target)) || later.b.is_some_and(|b| span(b).overlaps(span(lane.target)))
        })
    });
    if conflict {
        for lane in &mut lanes {
            let temporary = lifter.temporary(format.bytes());
            let bytes: Vec<Byte> = bytes_of(span(temporary)).collect();
            lifter.assign(lane.target, &bytes);
            lane.target = temporary;
        }
    }
    for (position, Lane { operation, target, a, b }) in lanes.into_iter().enumerate() {
        lifter.push_lane(Effect::Real { operation, format, target, a, b }, position as u16);
    }
}

/// What lies above the `written` low bytes of the destination: a legacy encoding keeps it; VEX takes it from the first source up to
/// byte 16 and clears it from there.
pub(super) fn finish_register(lifter: &mut Lifter<'_>, target: Span, first_source: Span, written: u16) {
    if !lifter.is_vex() {
        return;
    }
    let kept = vec![Byte::Keep; usize::from(written)];
    let middle = (written..16).map(|offset| Byte::From(first_source.place.advanced(offset)));
    let bytes: Vec<Byte> = kept.into_iter().chain(middle).collect();
    let until = lifter.cleared_until(0, bytes.len() as u16);
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// The low bytes become passive, the rest is as for a scalar operation.
pub(super) fn clear_low(lifter: &mut Lifter<'_>, bytes: u16) {
    if lifter.instruction.op0_register().is_k() {
        return fallback::general_rule(lifter, false);
    }
    let Some((target, a, _)) = lifter.destination_and_sources() else { return };
    lifter.push_lane(Effect::Clear { target: target.part(0, bytes) }, 0);
    finish_register(lifter, target, a, bytes);
}

/// Conversions of integers to real numbers. What is a real number's bits is no longer one then: that is lost.
pub(super) fn from_integers(lifter: &mut Lifter<'_>, low: u16) {
    let source = lifter.instruction.op_count().checked_sub(1);
    let trick = |target, source| Effect::BitTrick {
        operation: BitOperation::FromInteger,
        target,
        a: BitOperand::Span(source),
        b: None,
        c: None,
    };
    lifter.fetch();
    match (lifter.operand(0), source.and_then(|source| lifter.operand(source))) {
        (Some(target), Some(source)) if low == 0 && lifter.mask.is_none() && source.bytes <= target.bytes => {
            lifter.push(trick(target, source));
            let until = lifter.cleared_until(0, target.bytes);
            lifter.clear(Span::new(target.place.advanced(target.bytes), until - target.bytes));
        }
        (_, Some(source)) if low != 0 => {
            let Some((target, first, _)) = lifter.destination_and_sources() else { return };
            lifter.push(trick(target.part(0, low), source));
            finish_register(lifter, target, first, low);
        }
        _ => fallback::general_rule(lifter, true),
    }
}

/// `dpps`, `dppd`: bits 7:4 of the immediate select products, bits 3:0 the lanes that receive their sum. In each 128-bit lane the
/// sum is `(p0 + p1) + (p2 + p3)`.
fn dot_product(lifter: &mut Lifter<'_>, target: Span, [a, b]: [Span; 2], format: Format) {
    let immediate = lifter.immediate();
    let size = format.bytes();
    let per_group = 16 / size;
    let mut bytes = Vec::new();
    for group in 0..target.bytes / 16 {
        let products: Vec<Place> = (0..per_group)
            .map(|position| {
                let place = lifter.temporary(size);
                let offset = group * 16 + position * size;
                if immediate & (0x10 << position) != 0 {
                    let (a, b) = (a.place.advanced(offset), Some(b.place.advanced(offset)));
                    lifter.push(Effect::Real { operation: RealOperation::Mul, format, target: place, a, b });
                } else {
                    lifter.clear(Span::new(place, size));
                }
                place
            })
            .collect();
        let sum = products.chunks_exact(2).map(|pair| add(lifter, format, pair[0], pair[1])).collect::<Vec<_>>();
        let sum = sum.into_iter().reduce(|first, second| add(lifter, format, first, second));
        for position in 0..per_group {
            match sum {
                Some(sum) if immediate & (1 << position) != 0 => bytes.extend(bytes_of(Span::new(sum, size))),
                _ => bytes.extend(vec![Byte::Zero; usize::from(size)]),
            }
        }
    }
    let until = if lifter.is_vex() { lifter.cleared_until(0, target.bytes) } else { target.bytes };
    lifter.assign(target.place, &zero_extended(bytes, until));
}

/// Adds `b` to the temporary `a`.
fn add(lifter: &mut Lifter<'_>, format: Format, a: Place, b: Place) -> Place {
    lifter.push(Effect::Real { operation: RealOperation::Add, format, target: a, a, b: Some(b) });
    a
}

/// A fused multiply-add is a product and a sum: neither needs the product's value.
pub(super) fn fused(lifter: &mut Lifter<'_>, fused: &Fused) {
    lifter.fetch();
    let operand = |lifter: &Lifter<'_>, position: usize| lifter.operand(fused.operands[position]);
    let (Some(target), Some(x), Some(y), Some(z)) =
        (lifter.operand(0), operand(lifter, 0), operand(lifter, 1), operand(lifter, 2))
    else {
        return;
    };
    let format = fused.format;
    let size = format.bytes();
    let written = if fused.packed { target.bytes } else { size };
    // All products come first, so that equal operations on neighbouring lanes stand together.
    let products = lifter.temporary(written);
    let negative = matches!(fused.sign, FusedSign::NegativeMultiplySubtract);
    let lanes = 0..written / size;
    let at = |place: Place, lane: u16| place.advanced(lane * size);
    let mut effect =
        |lane, operation, target, a, b| lifter.push_lane(Effect::Real { operation, format, target, a, b }, lane);
    for lane in lanes.clone() {
        effect(lane, RealOperation::Mul, at(products, lane), at(x.place, lane), Some(at(y.place, lane)));
    }
    for lane in lanes.clone().filter(|_| negative) {
        effect(lane, RealOperation::Negate, at(products, lane), at(products, lane), None);
    }
    for lane in lanes {
        use FusedSign::*;
        let (product, z) = (at(products, lane), at(z.place, lane));
        let (operation, a, b) = match (fused.sign, lane % 2) {
            (MultiplyAdd, _) | (AddSubtract, 1) | (SubtractAdd, 0) => (RealOperation::Add, product, z),
            (NegativeMultiplyAdd, _) => (RealOperation::Sub, z, product),
            (NegativeMultiplySubtract | MultiplySubtract | AddSubtract | SubtractAdd, _) => {
                (RealOperation::Sub, product, z)
            }
        };
        effect(lane, operation, at(target.place, lane), a, Some(b));
    }
    finish_register(lifter, target, target, written);
}

/// Conversions between formats.
pub(super) fn convert(lifter: &mut Lifter<'_>, conversion: &Conversion) {
    lifter.fetch();
    let Some((target, a, b)) = lifter.destination_and_sources() else { return };
    let (to, from) = match conversion.to {
        Format::Binary32 => (4, 8),
        Format::Binary64 => (8, 4),
    };
    if !conversion.packed {
        lifter.push_lane(Effect::Convert { to: conversion.to, target: target.place, source: b.place }, 0);
        finish_register(lifter, target, a, to);
        return;
    }
    let lanes = (target.bytes / to).min(b.bytes / from);
    // Widening in place must start at the top, or it overwrites operands.
    let mut order: Vec<u16> = (0..lanes).collect();
    if to > from {
        order.reverse();
    }
    for lane in order {
        let (target, source) = (target.place.advanced(lane * to), b.place.advanced(lane * from));
        lifter.push_lane(Effect::Convert { to: conversion.to, target, source }, lane);
    }
    let written = usize::from(lanes * to);
    let mut bytes = vec![Byte::Keep; written];
    bytes.resize(written.max(16), Byte::Zero);
    let until = if lifter.is_vex() { lifter.cleared_until(0, bytes.len() as u16) } else { bytes.len() as u16 };
    lifter.assign(target.place, &zero_extended(bytes, until));
}
