//! Exponentials, logarithms, powers, circular and hyperbolic functions.

use super::super::rule::Rule::{Binary, BinaryByValue, Pair, Unary, UnaryByValue};
use super::super::rules::elementary;
use super::{Line, Names, R, R_REAL_REAL, RR, line};

#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line!("acos", R, Unary(elementary::acos), "−1/√(1−x²)", "±1: −∞"),
    line!("acosh", R, Unary(elementary::acosh), "1/√(x²−1)", "1: ∞"),
    line!("asin", R, Unary(elementary::asin), "1/√(1−x²)", "±1: ∞"),
    line!("asinh", R, Unary(elementary::asinh), "1/√(1+x²)", ""),
    line!("atan", R, Unary(elementary::atan), "1/(1+x²)", ""),
    line!("atan2", RR, Binary(elementary::atan2), "∂x: y/(x²+y²), ∂y: −x/(x²+y²)", "(0, 0): NaN, NaN (derivatives are unbounded around it); an infinite argument: 0, 0"),
    line!("atanh", R, Unary(elementary::atanh), "1/(1−x²)", "±1: ∞"),
    line!("cbrt", R, UnaryByValue { value: libm::cbrt, partial: elementary::cbrt }, "1/(3·f²)", "0: ∞"),
    line!("cos", R, Unary(elementary::cos), "−sin x", ""),
    line!("cosh", R, Unary(elementary::cosh), "sinh x", ""),
    line!("exp", R, UnaryByValue { value: libm::exp, partial: elementary::exp }, "f", ""),
    line!("exp10", R, UnaryByValue { value: libm::exp10, partial: elementary::exp10 }, "f·ln 10", ""),
    line!("exp2", R, UnaryByValue { value: libm::exp2, partial: elementary::exp2 }, "f·ln 2", ""),
    line!("expm1", R, Unary(elementary::expm1), "exp x", ""),
    line!("hypot", RR, BinaryByValue { value: libm::hypot, partial: elementary::hypot }, "∂x: x/f, ∂y: y/f", "(0, 0): 0, 0; one argument infinite: ±1 for it, 0 for the other; both: NaN, NaN"),
    line!("log", R, Unary(elementary::log), "1/x", "0 and −0: ∞"),
    line!("log10", R, Unary(elementary::log10), "1/(x·ln 10)", "0 and −0: ∞"),
    line!("log1p", R, Unary(elementary::log1p), "1/(1+x)", "−1: ∞"),
    line!("log2", R, Unary(elementary::log2), "1/(x·ln 2)", "0 and −0: ∞"),
    line!("pow", RR, BinaryByValue { value: libm::pow, partial: elementary::pow }, "∂x: y·x^(y−1), ∂y: f·ln x", "y = 0: ∂x is 0, also at x = 0; x = 0: ∂y is 0 for y ≥ 0, −∞ for y < 0, and ∂x is 0 for y > 1, 1 for y = 1, ∞ for 0 < y < 1; x < 0: ∂y is NaN; f = 0 for x > 0: ∂y is 0"),
    line!("pow10", R, UnaryByValue { value: libm::exp10, partial: elementary::exp10 }, "as exp10", ""),
    line!("sin", R, Unary(elementary::sin), "cos x", ""),
    line!("sincos", R_REAL_REAL, Pair(elementary::sincos), "sine: cos x, cosine: −sin x", ""),
    line!("sinh", R, Unary(elementary::sinh), "cosh x", ""),
    line!("sqrt", R, UnaryByValue { value: libm::sqrt, partial: elementary::sqrt }, "1/(2·f)", "0 and −0: ∞"),
    line!("tan", R, UnaryByValue { value: libm::tan, partial: elementary::tan }, "1+f²", ""),
    line!("tanh", R, Unary(elementary::tanh), "1/cosh² x", ""),
];
