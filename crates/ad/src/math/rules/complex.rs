//! Derivatives of the complex functions (ISO C, annex G, has the branch cuts). On a cut the derivative is that of the side which the sign of
//! a zero names.

use std::f64::consts::LOG10_E;

use super::super::complex::Complex;
use super::elementary;

/// cabs = hypot
pub(in crate::math) fn cabs(x: f64, y: f64, f: f64) -> [f64; 2] {
    elementary::hypot(x, y, f)
}

/// carg = atan2(y, x)
pub(in crate::math) fn carg(x: f64, y: f64) -> [f64; 2] {
    let [by_y, by_x] = elementary::atan2(y, x);
    [by_x, by_y]
}

/// cproj: z, or the point at infinity.
pub(in crate::math) fn cproj(z: Complex) -> [[f64; 2]; 2] {
    if z.re.is_infinite() || z.im.is_infinite() { [[0.0; 2]; 2] } else { [[1.0, 0.0], [0.0, 1.0]] }
}

/// cacos′ = −1/√(1−z²)
pub(in crate::math) fn cacos(z: Complex) -> Complex {
    -casin(z)
}

/// cacosh′ = 1/(√(z−1)·√(z+1))
pub(in crate::math) fn cacosh(z: Complex) -> Complex {
    (-z.one_minus()).sqrt().reciprocal() * z.plus_one().sqrt().reciprocal()
}

/// casin′ = 1/√(1−z²) = 1/(√(1−z)·√(1+z))
pub(in crate::math) fn casin(z: Complex) -> Complex {
    z.one_minus().sqrt().reciprocal() * z.plus_one().sqrt().reciprocal()
}

/// casinh z = −i·casin(i·z)
pub(in crate::math) fn casinh(z: Complex) -> Complex {
    casin(z.times_i())
}

/// catan z = −i·catanh(i·z)
pub(in crate::math) fn catan(z: Complex) -> Complex {
    catanh(z.times_i())
}

/// catanh′ = 1/((1−z)·(1+z))
pub(in crate::math) fn catanh(z: Complex) -> Complex {
    z.one_minus().reciprocal() * z.plus_one().reciprocal()
}

/// ccos′ = −csin
pub(in crate::math) fn ccos(z: Complex) -> Complex {
    -sine(z)
}

/// ccosh′ = csinh
pub(in crate::math) fn ccosh(z: Complex) -> Complex {
    z.sinh()
}

/// cexp′ = cexp
pub(in crate::math) fn cexp(f: Complex) -> Complex {
    f
}

/// clog′ = 1/z
pub(in crate::math) fn clog(z: Complex) -> Complex {
    z.reciprocal()
}

/// clog10′ = 1/(z·ln 10)
pub(in crate::math) fn clog10(z: Complex) -> Complex {
    z.reciprocal().scaled(LOG10_E)
}

/// cpow = exp(w·ln z): ∂z: w·f/z, ∂w: f·ln z
pub(in crate::math) fn cpow(z: Complex, w: Complex, f: Complex) -> [Complex; 2] {
    if z == Complex::ZERO {
        // As pow at 0, where the exponent is real; else the derivative is unbounded or 0.
        let by_z = if w.im == 0.0 { elementary::pow(0.0, w.re, f.re)[0] } else { f64::NAN };
        return [Complex::new(by_z, 0.0), Complex::ZERO];
    }
    [w * (f * z.reciprocal()), f * z.ln()]
}

/// z^w
pub(in crate::math) fn cpow_value(z: Complex, w: Complex) -> Complex {
    (w * z.ln()).exp()
}

/// csin′ = ccos
pub(in crate::math) fn csin(z: Complex) -> Complex {
    // cos z = cosh(i·z)
    z.times_i().cosh()
}

/// csinh′ = ccosh
pub(in crate::math) fn csinh(z: Complex) -> Complex {
    z.cosh()
}

/// csqrt′ = 1/(2·f)
pub(in crate::math) fn csqrt(f: Complex) -> Complex {
    f.reciprocal().scaled(0.5)
}

/// ctan z = −i·ctanh(i·z)
pub(in crate::math) fn ctan(z: Complex) -> Complex {
    ctanh(z.times_i())
}

/// ctanh′ = 1/ccosh²; not 1 − f², which cancels for a large real part.
///
/// With w = exp(∓2z), the one that is smaller than 1, that is 4·w/(1 + w)²; near the imaginary axis 1 + w can cancel. There it is 1/(1 + sinh² z)
/// where sinh z is small, so that its error has little weight.
pub(in crate::math) fn ctanh(z: Complex) -> Complex {
    /// From this real part on |w| is at most 1/2.
    const AWAY_FROM_AXIS: f64 = 0.35;
    if libm::fabs(z.re) < AWAY_FROM_AXIS || z.re.is_nan() {
        let sine = z.sinh();
        let small = sine.re * sine.re + sine.im * sine.im < 0.5;
        let cosine = z.cosh();
        return if small { (sine * sine).plus_one() } else { cosine * cosine }.reciprocal();
    }
    let side = libm::copysign(-2.0, z.re);
    let w = z.scaled(side).exp();
    let divisor = w.plus_one().reciprocal();
    w.scaled(4.0) * (divisor * divisor)
}

/// sin z = −i·sinh(i·z)
fn sine(z: Complex) -> Complex {
    -z.times_i().sinh().times_i()
}
