//! Partial derivatives of functions that are linear or constant in pieces.

/// ∂copysign/∂x = f/x
pub(in crate::math) fn copysign(x: f64, y: f64) -> [f64; 2] {
    [if x.is_sign_negative() == y.is_sign_negative() { 1.0 } else { -1.0 }, 0.0]
}

/// fabs′ = sign x
pub(in crate::math) fn fabs(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { libm::copysign(1.0, x) }
}

/// fdim = x − y where x > y, else 0
pub(in crate::math) fn fdim(x: f64, y: f64) -> [f64; 2] {
    if x > y { [1.0, -1.0] } else { [0.0, 0.0] }
}

/// fma = x·y + z
pub(in crate::math) fn fma(x: f64, y: f64, _: f64) -> [f64; 3] {
    [y, x, 1.0]
}

/// fmax: the larger one; the first on a tie; the other one if one is NaN.
pub(in crate::math) fn fmax(x: f64, y: f64) -> [f64; 2] {
    selected(y.is_nan() || x >= y)
}

/// fmin: the smaller one; the first on a tie; the other one if one is NaN.
pub(in crate::math) fn fmin(x: f64, y: f64) -> [f64; 2] {
    selected(y.is_nan() || x <= y)
}

/// fmaxmag: the one of larger magnitude, on a tie as fmax.
pub(in crate::math) fn fmaxmag(x: f64, y: f64) -> [f64; 2] {
    let (a, b) = (libm::fabs(x), libm::fabs(y));
    if a == b { fmax(x, y) } else { fmax(a, b) }
}

/// fminmag: the one of smaller magnitude, on a tie as fmin.
pub(in crate::math) fn fminmag(x: f64, y: f64) -> [f64; 2] {
    let (a, b) = (libm::fabs(x), libm::fabs(y));
    if a == b { fmin(x, y) } else { fmin(a, b) }
}

fn selected(first: bool) -> [f64; 2] {
    if first { [1.0, 0.0] } else { [0.0, 1.0] }
}

/// fmod and remainder: f = x − n·y with an integer n that is constant around all but isolated points.
pub(in crate::math) fn remainder(x: f64, y: f64, f: f64) -> [f64; 2] {
    // Halves: x − f may overflow where its quotient by y does not.
    let quotient = (0.5 * x - 0.5 * f) / (0.5 * y);
    [1.0, 0.0 - libm::rint(quotient)]
}

/// frexp and significand: f = x·2^−e, with an integer e that is constant around all but isolated points; f/x is computed exactly.
pub(in crate::math) fn significand(x: f64, f: f64) -> f64 {
    if x == 0.0 || x.is_infinite() { 1.0 } else { f / x }
}

/// ldexp, scalbn, scalbln: x·2^n. The power of two is exact between 2^−1074 and 2^1023, and 0 or ∞ beyond.
pub(in crate::math) fn ldexp(n: i64) -> f64 {
    libm::ldexp(1.0, n.clamp(-2000, 2000) as i32)
}

/// modf: the fraction x − n and the integer n.
pub(in crate::math) fn modf(_: f64) -> [f64; 2] {
    [1.0, 0.0]
}

/// ∂nextafter/∂x = 1: x plus or minus one unit in the last place.
pub(in crate::math) fn nextafter(_: f64, _: f64) -> [f64; 2] {
    [1.0, 0.0]
}

/// nextup, nextdown.
pub(in crate::math) fn nextup(_: f64) -> f64 {
    1.0
}

/// scalb: x·2^y with an integer y
pub(in crate::math) fn scalb(_: f64, y: f64) -> [f64; 2] {
    [ldexp(y as i64), 0.0]
}
