//! Partial derivatives of the error function, the Gamma function and the Bessel functions.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::super::digamma;

/// erf′ = 2/√π · exp(−x²)
pub(in crate::math) fn erf(x: f64) -> f64 {
    // exp magnifies the rounding error of x² by x² itself, so that error is carried along.
    let square = x * x;
    let error = libm::fma(x, x, -square);
    if square.is_infinite() {
        return 0.0;
    }
    FRAC_2_SQRT_PI * libm::exp(-square) * (1.0 - error)
}

/// erfc′ = −erf′
pub(in crate::math) fn erfc(x: f64) -> f64 {
    -erf(x)
}

/// (exp(x²)·erfc(x))′ = 2·x·f − 2/√π
pub(in crate::math) fn erfc_scaled(x: f64, f: f64) -> f64 {
    // The difference is −2·exp(x²) times the integral of erfc from x on.
    if x > 1.0 { -2.0 * f * integral_ratio(1, x) } else { 2.0 * x * f - FRAC_2_SQRT_PI }
}

/// exp(x²)·erfc(x)
pub(in crate::math) fn erfc_scaled_value(x: f64) -> f64 {
    if x > 1.0 {
        return FRAC_2_SQRT_PI * integral_ratio(0, x);
    }
    let square = x * x;
    libm::exp(square) * libm::erfc(x) * (1.0 + libm::fma(x, x, -square))
}

/// The quotient of the n-th and the one time less often repeated integral of erfc, whose 0th is erfc itself and −1st 2/√π·exp(−x²), for x > 1: the
/// continued fraction 1/2 / (x + (n+1)/2 / (x + (n+2)/2 / (x + ...))) (Abramowitz & Stegun 7.2.5, 7.1.14).
fn integral_ratio(n: u32, x: f64) -> f64 {
    /// So many terms are enough at 1.
    const TERMS: u32 = 300;
    let tail = (1..=TERMS).rev().fold(x, |tail, term| x + 0.5 * f64::from(n + term) / tail);
    0.5 / tail
}

/// lgamma′ = ψ
pub(in crate::math) fn lgamma(x: f64) -> f64 {
    digamma(x)
}

/// tgamma_r′ = |f|·ψ, the derivative of what `tgamma` computes before it puts the sign to it
pub(in crate::math) fn tgamma_magnitude(x: f64, f: f64) -> f64 {
    tgamma(x, f.abs())
}

/// tgamma′ = f·ψ
pub(in crate::math) fn tgamma(x: f64, f: f64) -> f64 {
    if f == 0.0 { 0.0 } else { f * digamma(x) }
}

/// J₀′ = −J₁
pub(in crate::math) fn j0(x: f64) -> f64 {
    -libm::j1(x)
}

/// J₁′ = (J₀ − J₂)/2
pub(in crate::math) fn j1(x: f64) -> f64 {
    jn(1, x)
}

/// Jₙ′ = (Jₙ₋₁ − Jₙ₊₁)/2
pub(in crate::math) fn jn(n: i64, x: f64) -> f64 {
    if n == 0 {
        return j0(x);
    }
    let (below, above) = neighbours(n);
    0.5 * (libm::jn(below, x) - libm::jn(above, x))
}

/// Y₀′ = −Y₁
pub(in crate::math) fn y0(x: f64) -> f64 {
    yn(0, x)
}

/// Y₁′ = (Y₀ − Y₂)/2
pub(in crate::math) fn y1(x: f64) -> f64 {
    yn(1, x)
}

/// Yₙ′ = (Yₙ₋₁ − Yₙ₊₁)/2
pub(in crate::math) fn yn(n: i64, x: f64) -> f64 {
    if n == 0 {
        return -libm::y1(x);
    }
    if n < 0 {
        // Y₋ₙ = (−1)ⁿ·Yₙ
        return if n % 2 == 0 { yn(-n, x) } else { -yn(-n, x) };
    }
    let (below, above) = neighbours(n);
    let above = libm::yn(above, x);
    if above.is_infinite() {
        // At 0 and near it, where Yₙ₊₁ overflows and outweighs Yₙ₋₁.
        return -above;
    }
    0.5 * (libm::yn(below, x) - above)
}

/// The orders n − 1 and n + 1; at the ends of the range of `int` the functions are 0 or infinite all the same.
fn neighbours(n: i64) -> (i32, i32) {
    let order = |n: i64| n.clamp(i64::from(-i32::MAX), i64::from(i32::MAX)) as i32;
    (order(n - 1), order(n + 1))
}
