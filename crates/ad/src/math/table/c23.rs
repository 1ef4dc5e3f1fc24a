//! Functions that ISO C 2023 adds; glibc has them from version 2.41 on.

use super::super::rule::Rule::{Binary, BinaryByValue, Integer, Unary, UnaryByValue};
use super::super::rules::{c23, elementary};
use super::{Line, Names, R, RL, RR, line};

#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line!("acospi", R, Unary(c23::acospi), "−1/(π·√(1−x²))", "±1: −∞"),
    line!("asinpi", R, Unary(c23::asinpi), "1/(π·√(1−x²))", "±1: ∞"),
    line!("atan2pi", RR, Binary(c23::atan2pi), "those of atan2, by π", "as atan2"),
    line!("atanpi", R, Unary(c23::atanpi), "1/(π·(1+x²))", ""),
    line!("compoundn", RL, Integer { value: c23::compoundn_value, partial: c23::compoundn }, "n·f/(1+x)", "−1: as pown at 0"),
    line!("cospi", R, Unary(c23::cospi), "−π·sin(π·x)", ""),
    line!("exp10m1", R, Unary(c23::exp10m1), "ln 10·10^x", ""),
    line!("exp2m1", R, Unary(c23::exp2m1), "ln 2·2^x", ""),
    line!("log10p1", R, Unary(c23::log10p1), "1/((1+x)·ln 10)", "−1: ∞"),
    line!("log2p1", R, Unary(c23::log2p1), "1/((1+x)·ln 2)", "−1: ∞"),
    line!("logp1", R, Unary(elementary::log1p), "1/(1+x)", "−1: ∞"),
    line!("pown", RL, Integer { value: c23::pown_value, partial: c23::pown }, "n·x^(n−1)", "as pow by its base"),
    line!("powr", RR, BinaryByValue { value: libm::pow, partial: elementary::pow }, "as pow", "as pow"),
    line!("rootn", RL, Integer { value: c23::rootn_value, partial: c23::rootn }, "f/(n·x)", "0: ∞ for n > 1, −∞ for n < 0"),
    line!("rsqrt", R, UnaryByValue { value: c23::rsqrt_value, partial: c23::rsqrt }, "−f/(2·x)", "0 and −0: −∞"),
    line!("sinpi", R, Unary(c23::sinpi), "π·cos(π·x)", ""),
    line!("tanpi", R, Unary(c23::tanpi), "π/cos²(π·x)", "half-integers: ∞"),
];
