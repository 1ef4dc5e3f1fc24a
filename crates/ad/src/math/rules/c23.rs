//! Partial derivatives of the functions that ISO C 2023 adds.

use std::f64::consts::{FRAC_1_PI, LN_2, LN_10, LOG2_E, LOG10_E, PI};

use super::elementary;

/// acospi′ = −1/(π·√(1−x²))
pub(in crate::math) fn acospi(x: f64) -> f64 {
    FRAC_1_PI * elementary::acos(x)
}

/// asinpi′ = 1/(π·√(1−x²))
pub(in crate::math) fn asinpi(x: f64) -> f64 {
    FRAC_1_PI * elementary::asin(x)
}

/// atanpi′ = 1/(π·(1+x²))
pub(in crate::math) fn atanpi(x: f64) -> f64 {
    FRAC_1_PI * elementary::atan(x)
}

/// atan2pi = atan2/π
pub(in crate::math) fn atan2pi(x: f64, y: f64) -> [f64; 2] {
    elementary::atan2(x, y).map(|partial| FRAC_1_PI * partial)
}

/// compoundn′ = n·(1+x)^(n−1) = n·f/(1+x)
pub(in crate::math) fn compoundn(x: f64, n: i64, f: f64) -> f64 {
    if n == 0 {
        return 0.0;
    }
    if x == -1.0 {
        // As pow(0, n).
        return elementary::pow(0.0, n as f64, f)[0];
    }
    n as f64 * (f / (1.0 + x))
}

/// (1+x)^n
pub(in crate::math) fn compoundn_value(x: f64, n: i64) -> f64 {
    let base = 1.0 + x;
    let rounding = (x - (base - 1.0)) / base;
    libm::pow(base, n as f64) * (1.0 + n as f64 * rounding)
}

/// cospi′ = −π·sin(π·x)
pub(in crate::math) fn cospi(x: f64) -> f64 {
    -PI * sin_and_cos(x)[0]
}

/// sinpi′ = π·cos(π·x)
pub(in crate::math) fn sinpi(x: f64) -> f64 {
    PI * sin_and_cos(x)[1]
}

/// tanpi′ = π/cos²(π·x)
pub(in crate::math) fn tanpi(x: f64) -> f64 {
    let cosine = sin_and_cos(x)[1];
    PI / (cosine * cosine)
}

/// exp10m1′ = ln 10 · 10^x; not by the value, which cancels for x ≪ 0.
pub(in crate::math) fn exp10m1(x: f64) -> f64 {
    LN_10 * libm::exp10(x)
}

/// exp2m1′ = ln 2 · 2^x
pub(in crate::math) fn exp2m1(x: f64) -> f64 {
    LN_2 * libm::exp2(x)
}

/// log10p1′ = 1/((1+x)·ln 10)
pub(in crate::math) fn log10p1(x: f64) -> f64 {
    LOG10_E / libm::fabs(1.0 + x)
}

/// log2p1′ = 1/((1+x)·ln 2)
pub(in crate::math) fn log2p1(x: f64) -> f64 {
    LOG2_E / libm::fabs(1.0 + x)
}

/// pown′ = n·x^(n−1)
pub(in crate::math) fn pown(x: f64, n: i64, f: f64) -> f64 {
    elementary::pow(x, n as f64, f)[0]
}

/// x^n
pub(in crate::math) fn pown_value(x: f64, n: i64) -> f64 {
    libm::pow(x, n as f64)
}

/// rootn′ = f/(n·x); infinite at 0 for n > 1, as of `sqrt`.
pub(in crate::math) fn rootn(x: f64, n: i64, f: f64) -> f64 {
    if n == 1 {
        return 1.0;
    }
    if x == 0.0 { f64::INFINITY.copysign(n as f64) } else { libm::fabs(f / x) / n as f64 }
}

/// |x|^(1/n)
pub(in crate::math) fn rootn_value(x: f64, n: i64) -> f64 {
    let x = libm::fabs(x);
    let root = libm::pow(x, 1.0 / n as f64);
    if root == 0.0 || root.is_infinite() {
        return root;
    }
    // A Newton step: 1/n has been rounded.
    root * (1.0 - (libm::pow(root, n as f64) / x - 1.0) / n as f64)
}

/// rsqrt′ = −f/(2·x)
pub(in crate::math) fn rsqrt(x: f64, f: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { -0.5 * f / x }
}

/// 1/√x
pub(in crate::math) fn rsqrt_value(x: f64) -> f64 {
    1.0 / libm::sqrt(x)
}

/// sin(π·x) and cos(π·x). All steps before the last one are exact.
fn sin_and_cos(x: f64) -> [f64; 2] {
    // x is r plus a number of half turns, with |r| at most a quarter turn: 1/2.
    let halves = libm::rint(2.0 * libm::fmod(x, 2.0));
    let angle = PI * (libm::fmod(x, 2.0) - 0.5 * halves);
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    match (halves as i64).rem_euclid(4) {
        0 => [sine, cosine],
        1 => [cosine, -sine],
        2 => [-sine, -cosine],
        _ => [-cosine, sine],
    }
}
