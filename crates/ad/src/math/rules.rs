//! Partial derivatives of the elementary functions.
//!
//! `x`, `y`, `z` are the arguments in order, `f` is the function's value. Cancellation is avoided where the derivative itself is
//! well-conditioned; `crates/ad/tests/math_reference.rs` checks a bound of 4 units in the last place. Arguments for which the result is NaN need no care here:
//! [`super::MathFunction::partials`] makes their partials NaN.

use std::f64::consts::{LN_2, LN_10, LOG2_E, LOG10_E};

/// acos′ = −1/√(1−x²)
pub(super) fn acos(x: f64) -> f64 {
    -asin(x)
}

/// acosh′ = 1/√(x²−1)
pub(super) fn acosh(x: f64) -> f64 {
    1.0 / (libm::sqrt(x - 1.0) * libm::sqrt(x + 1.0))
}

/// asin′ = 1/√(1−x²)
pub(super) fn asin(x: f64) -> f64 {
    1.0 / libm::sqrt((1.0 - x) * (1.0 + x))
}

/// asinh′ = 1/√(1+x²)
pub(super) fn asinh(x: f64) -> f64 {
    1.0 / libm::hypot(1.0, x)
}

/// atan′ = 1/(1+x²)
pub(super) fn atan(x: f64) -> f64 {
    // Beyond 2^30 the 1 is lost in x², and x² may overflow where the quotient does not underflow.
    if libm::fabs(x) > f64::from(1 << 30) { 1.0 / x / x } else { 1.0 / (1.0 + x * x) }
}

/// atanh′ = 1/(1−x²)
pub(super) fn atanh(x: f64) -> f64 {
    1.0 / ((1.0 - x) * (1.0 + x))
}

/// ∂atan2(x, y)/∂x = y/(x²+y²), ∂/∂y = −x/(x²+y²); `x` is the first argument, the ordinate.
pub(super) fn atan2(x: f64, y: f64) -> [f64; 2] {
    if x.is_infinite() || y.is_infinite() {
        return [0.0, 0.0];
    }
    // With the larger argument near 1, squares neither overflow nor underflow unless they do not matter.
    let exponent = exponent_of_larger(x, y);
    let (xs, ys) = (libm::ldexp(x, -exponent), libm::ldexp(y, -exponent));
    let square = xs * xs + ys * ys;
    [libm::ldexp(ys / square, -exponent), libm::ldexp(-xs / square, -exponent)]
}

/// cbrt′ = 1/(3·f²)
pub(super) fn cbrt(_: f64, f: f64) -> f64 {
    1.0 / (3.0 * f * f)
}

/// ∂copysign/∂x = f/x
pub(super) fn copysign(x: f64, y: f64) -> [f64; 2] {
    [if x.is_sign_negative() == y.is_sign_negative() { 1.0 } else { -1.0 }, 0.0]
}

/// cos′ = −sin
pub(super) fn cos(x: f64) -> f64 {
    -libm::sin(x)
}

/// cosh′ = sinh
pub(super) fn cosh(x: f64) -> f64 {
    libm::sinh(x)
}

/// exp′ = exp
pub(super) fn exp(_: f64, f: f64) -> f64 {
    f
}

/// exp10′ = ln 10 · exp10
pub(super) fn exp10(_: f64, f: f64) -> f64 {
    LN_10 * f
}

/// exp2′ = ln 2 · exp2
pub(super) fn exp2(_: f64, f: f64) -> f64 {
    LN_2 * f
}

/// expm1′ = exp; not 1 + f, which cancels for x ≪ 0.
pub(super) fn expm1(x: f64) -> f64 {
    libm::exp(x)
}

/// fabs′ = sign x
pub(super) fn fabs(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { libm::copysign(1.0, x) }
}

/// fdim = x − y where x > y, else 0
pub(super) fn fdim(x: f64, y: f64) -> [f64; 2] {
    if x > y { [1.0, -1.0] } else { [0.0, 0.0] }
}

/// fma = x·y + z
pub(super) fn fma(x: f64, y: f64, _: f64) -> [f64; 3] {
    [y, x, 1.0]
}

/// fmax: the larger one; the first on a tie; the other one if one is NaN.
pub(super) fn fmax(x: f64, y: f64) -> [f64; 2] {
    selected(y.is_nan() || x >= y)
}

/// fmin: the smaller one; the first on a tie; the other one if one is NaN.
pub(super) fn fmin(x: f64, y: f64) -> [f64; 2] {
    selected(y.is_nan() || x <= y)
}

/// fmaxmag: the one of larger magnitude, on a tie as fmax.
pub(super) fn fmaxmag(x: f64, y: f64) -> [f64; 2] {
    let (a, b) = (libm::fabs(x), libm::fabs(y));
    if a == b { fmax(x, y) } else { fmax(a, b) }
}

/// fminmag: the one of smaller magnitude, on a tie as fmin.
pub(super) fn fminmag(x: f64, y: f64) -> [f64; 2] {
    let (a, b) = (libm::fabs(x), libm::fabs(y));
    if a == b { fmin(x, y) } else { fmin(a, b) }
}

fn selected(first: bool) -> [f64; 2] {
    if first { [1.0, 0.0] } else { [0.0, 1.0] }
}

/// fmod and remainder: f = x − n·y with an integer n that is constant around all but isolated points.
pub(super) fn remainder(x: f64, y: f64, f: f64) -> [f64; 2] {
    // Halves: x − f may overflow where its quotient by y does not.
    let quotient = (0.5 * x - 0.5 * f) / (0.5 * y);
    [1.0, 0.0 - libm::rint(quotient)]
}

/// frexp and significand: f = x·2^−e, with an integer e that is constant around all but isolated points; f/x is computed exactly.
pub(super) fn significand(x: f64, f: f64) -> f64 {
    if x == 0.0 || x.is_infinite() { 1.0 } else { f / x }
}

/// ∂hypot/∂x = x/f, ∂hypot/∂y = y/f
pub(super) fn hypot(x: f64, y: f64, f: f64) -> [f64; 2] {
    if x.is_infinite() || y.is_infinite() {
        return match (x.is_infinite(), y.is_infinite()) {
            (true, false) => [libm::copysign(1.0, x), 0.0],
            (false, true) => [0.0, libm::copysign(1.0, y)],
            _ => [f64::NAN; 2],
        };
    }
    if f == 0.0 {
        return [0.0, 0.0];
    }
    if f.is_normal() {
        return [x / f, y / f];
    }
    // The value has overflowed or has few bits.
    let exponent = exponent_of_larger(x, y);
    let (xs, ys) = (libm::ldexp(x, -exponent), libm::ldexp(y, -exponent));
    let fs = libm::hypot(xs, ys);
    [xs / fs, ys / fs]
}

/// An integer e with max(|x|, |y|) in [2^(e−1), 2^e); 0 if both are 0.
fn exponent_of_larger(x: f64, y: f64) -> i32 {
    libm::frexp(libm::fmax(libm::fabs(x), libm::fabs(y))).1
}

/// ldexp, scalbn, scalbln: x·2^n. The power of two is exact between 2^−1074 and 2^1023, and 0 or ∞ beyond.
pub(super) fn ldexp(n: i64) -> f64 {
    libm::ldexp(1.0, n.clamp(-2000, 2000) as i32)
}

/// log′ = 1/x
pub(super) fn log(x: f64) -> f64 {
    logarithm(1.0, x)
}

/// log10′ = 1/(x·ln 10)
pub(super) fn log10(x: f64) -> f64 {
    logarithm(LOG10_E, x)
}

/// log1p′ = 1/(1+x)
pub(super) fn log1p(x: f64) -> f64 {
    logarithm(1.0, 1.0 + x)
}

/// log2′ = 1/(x·ln 2)
pub(super) fn log2(x: f64) -> f64 {
    logarithm(LOG2_E, x)
}

/// The magnitude: the derivative at −0 is that at +0.
fn logarithm(scale: f64, x: f64) -> f64 {
    scale / libm::fabs(x)
}

/// modf: the fraction x − n and the integer n.
pub(super) fn modf(_: f64) -> [f64; 2] {
    [1.0, 0.0]
}

/// ∂nextafter/∂x = 1: x plus or minus one unit in the last place.
pub(super) fn nextafter(_: f64, _: f64) -> [f64; 2] {
    [1.0, 0.0]
}

/// nextup, nextdown.
pub(super) fn nextup(_: f64) -> f64 {
    1.0
}

/// ∂pow/∂x = y·x^(y−1), ∂pow/∂y = x^y·ln x
pub(super) fn pow(x: f64, y: f64, f: f64) -> [f64; 2] {
    [pow_by_base(x, y, f), pow_by_exponent(x, y, f)]
}

fn pow_by_base(x: f64, y: f64, f: f64) -> f64 {
    // x^±∞ is 0 in a neighbourhood of where it is 0, not ∞·0.
    if y == 0.0 || (y.is_infinite() && f == 0.0) {
        return 0.0;
    }
    // f/x rather than x^(y−1): y − 1 may be rounded, which a large ln x magnifies.
    let quotient = f / x;
    if f.is_normal() && x != 0.0 && quotient.is_normal() { y * quotient } else { y * libm::pow(x, y - 1.0) }
}

fn pow_by_exponent(x: f64, y: f64, f: f64) -> f64 {
    if x == 0.0 {
        if y >= 0.0 { 0.0 } else { f64::NEG_INFINITY }
    } else if f == 0.0 && x > 0.0 {
        0.0
    } else {
        // NaN for x < 0: there the function is defined for integers y only.
        f * libm::log(x)
    }
}

/// sin′ = cos
pub(super) fn sin(x: f64) -> f64 {
    libm::cos(x)
}

/// sincos: the sine and the cosine.
pub(super) fn sincos(x: f64) -> [f64; 2] {
    [libm::cos(x), -libm::sin(x)]
}

/// sinh′ = cosh
pub(super) fn sinh(x: f64) -> f64 {
    libm::cosh(x)
}

/// sqrt′ = 1/(2·f)
pub(super) fn sqrt(_: f64, f: f64) -> f64 {
    0.5 / libm::fabs(f)
}

/// tan′ = 1 + f²
pub(super) fn tan(_: f64, f: f64) -> f64 {
    1.0 + f * f
}

/// tanh′ = 1/cosh²; not 1 − f², which cancels for large |x|.
pub(super) fn tanh(x: f64) -> f64 {
    let reciprocal = 1.0 / libm::cosh(x);
    reciprocal * reciprocal
}
