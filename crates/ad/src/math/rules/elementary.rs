//! Partial derivatives of the elementary functions.

use std::f64::consts::{LN_2, LN_10, LOG2_E, LOG10_E};

/// acos′ = −1/√(1−x²)
pub(in crate::math) fn acos(x: f64) -> f64 {
    -asin(x)
}

/// acosh′ = 1/√(x²−1)
pub(in crate::math) fn acosh(x: f64) -> f64 {
    1.0 / (libm::sqrt(x - 1.0) * libm::sqrt(x + 1.0))
}

/// asin′ = 1/√(1−x²)
pub(in crate::math) fn asin(x: f64) -> f64 {
    1.0 / libm::sqrt((1.0 - x) * (1.0 + x))
}

/// asinh′ = 1/√(1+x²)
pub(in crate::math) fn asinh(x: f64) -> f64 {
    1.0 / libm::hypot(1.0, x)
}

/// atan′ = 1/(1+x²)
pub(in crate::math) fn atan(x: f64) -> f64 {
    // Beyond 2^30 the 1 is lost in x², and x² may overflow where the quotient does not underflow.
    if libm::fabs(x) > f64::from(1 << 30) { 1.0 / x / x } else { 1.0 / (1.0 + x * x) }
}

/// atanh′ = 1/(1−x²)
pub(in crate::math) fn atanh(x: f64) -> f64 {
    1.0 / ((1.0 - x) * (1.0 + x))
}

/// ∂atan2(x, y)/∂x = y/(x²+y²), ∂/∂y = −x/(x²+y²); `x` is the first argument, the ordinate.
pub(in crate::math) fn atan2(x: f64, y: f64) -> [f64; 2] {
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
pub(in crate::math) fn cbrt(_: f64, f: f64) -> f64 {
    1.0 / (3.0 * f * f)
}

/// cos′ = −sin
pub(in crate::math) fn cos(x: f64) -> f64 {
    -libm::sin(x)
}

/// cosh′ = sinh
pub(in crate::math) fn cosh(x: f64) -> f64 {
    libm::sinh(x)
}

/// exp′ = exp
pub(in crate::math) fn exp(_: f64, f: f64) -> f64 {
    f
}

/// exp10′ = ln 10 · exp10
pub(in crate::math) fn exp10(_: f64, f: f64) -> f64 {
    LN_10 * f
}

/// exp2′ = ln 2 · exp2
pub(in crate::math) fn exp2(_: f64, f: f64) -> f64 {
    LN_2 * f
}

/// expm1′ = exp; not 1 + f, which cancels for x ≪ 0.
pub(in crate::math) fn expm1(x: f64) -> f64 {
    libm::exp(x)
}

/// ∂hypot/∂x = x/f, ∂hypot/∂y = y/f
pub(in crate::math) fn hypot(x: f64, y: f64, f: f64) -> [f64; 2] {
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

/// log′ = 1/x
pub(in crate::math) fn log(x: f64) -> f64 {
    logarithm(1.0, x)
}

/// log10′ = 1/(x·ln 10)
pub(in crate::math) fn log10(x: f64) -> f64 {
    logarithm(LOG10_E, x)
}

/// log1p′ = 1/(1+x)
pub(in crate::math) fn log1p(x: f64) -> f64 {
    logarithm(1.0, 1.0 + x)
}

/// log2′ = 1/(x·ln 2)
pub(in crate::math) fn log2(x: f64) -> f64 {
    logarithm(LOG2_E, x)
}

/// The magnitude: the derivative at −0 is that at +0.
fn logarithm(scale: f64, x: f64) -> f64 {
    scale / libm::fabs(x)
}

/// ∂pow/∂x = y·x^(y−1), ∂pow/∂y = x^y·ln x
pub(in crate::math) fn pow(x: f64, y: f64, f: f64) -> [f64; 2] {
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
pub(in crate::math) fn sin(x: f64) -> f64 {
    libm::cos(x)
}

/// sincos: the sine and the cosine.
pub(in crate::math) fn sincos(x: f64) -> [f64; 2] {
    [libm::cos(x), -libm::sin(x)]
}

/// sinh′ = cosh
pub(in crate::math) fn sinh(x: f64) -> f64 {
    libm::cosh(x)
}

/// sqrt′ = 1/(2·f)
pub(in crate::math) fn sqrt(_: f64, f: f64) -> f64 {
    0.5 / libm::fabs(f)
}

/// tan′ = 1 + f²
pub(in crate::math) fn tan(_: f64, f: f64) -> f64 {
    1.0 + f * f
}

/// tanh′ = 1/cosh²; not 1 − f², which cancels for large |x|.
pub(in crate::math) fn tanh(x: f64) -> f64 {
    let reciprocal = 1.0 / libm::cosh(x);
    reciprocal * reciprocal
}
