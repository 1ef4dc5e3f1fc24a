//! Arithmetic of complex binary64 numbers, as far as derivatives need it. It neither overflows nor underflows in between, if the result does not.

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// 0.
    pub const ZERO: Complex = Complex::new(0.0, 0.0);

    pub const fn new(re: f64, im: f64) -> Complex {
        Complex { re, im }
    }

    /// i·z
    pub fn times_i(self) -> Complex {
        Complex::new(-self.im, self.re)
    }

    pub fn scaled(self, factor: f64) -> Complex {
        Complex::new(self.re * factor, self.im * factor)
    }

    /// 1 + z
    pub fn plus_one(self) -> Complex {
        Complex::new(1.0 + self.re, self.im)
    }

    /// 1 − z. The sign of a zero is that of −z, which tells the sides of branch cuts apart.
    pub fn one_minus(self) -> Complex {
        Complex::new(1.0 - self.re, -self.im)
    }

    /// 1/z; ∞ at 0, 0 at infinity.
    pub fn reciprocal(self) -> Complex {
        if self.re == 0.0 && self.im == 0.0 {
            return Complex::new(f64::INFINITY, 0.0);
        }
        if self.is_infinite() {
            return Complex::ZERO;
        }
        let exponent = self.exponent();
        let (x, y) = (libm::ldexp(self.re, -exponent), libm::ldexp(self.im, -exponent));
        let square = x * x + y * y;
        Complex::new(libm::ldexp(x / square, -exponent), libm::ldexp(-y / square, -exponent))
    }

    /// √z with a real part that is not negative; below the branch cut, if the imaginary part is −0.
    pub fn sqrt(self) -> Complex {
        if self.re == 0.0 && self.im == 0.0 {
            return Complex::new(0.0, self.im);
        }
        if self.is_infinite() || self.re.is_nan() || self.im.is_nan() {
            return Complex::new(f64::INFINITY, self.im);
        }
        // With an even exponent 2e the root of 2^2e is exact.
        let half = self.exponent() >> 1;
        let (x, y) = (libm::ldexp(self.re, -2 * half), libm::ldexp(self.im, -2 * half));
        let larger = libm::sqrt(0.5 * (libm::fabs(x) + libm::hypot(x, y)));
        let smaller = 0.5 * libm::fabs(y) / larger;
        let (re, im) = if x >= 0.0 { (larger, smaller) } else { (smaller, larger) };
        Complex::new(libm::ldexp(re, half), libm::copysign(libm::ldexp(im, half), self.im))
    }

    /// e^z
    pub fn exp(self) -> Complex {
        if self.im == 0.0 {
            return Complex::new(libm::exp(self.re), self.im);
        }
        let magnitude = libm::exp(self.re);
        Complex::new(magnitude * libm::cos(self.im), magnitude * libm::sin(self.im))
    }

    /// ln z, principal value.
    pub fn ln(self) -> Complex {
        Complex::new(self.ln_magnitude(), libm::atan2(self.im, self.re))
    }

    /// ln |z|, accurate around z = 1, too.
    fn ln_magnitude(self) -> f64 {
        let (x, y) = (libm::fabs(self.re), libm::fabs(self.im));
        let (large, small) = if x >= y { (x, y) } else { (y, x) };
        if large > 0.5 && large < 2.0 && small < 2.0 {
            // |z|² − 1 = (large − 1)·(large + 1) + small². Where the two cancel, the angle outweighs the logarithm.
            return 0.5 * libm::log1p((large - 1.0) * (large + 1.0) + small * small);
        }
        libm::log(libm::hypot(x, y))
    }

    /// sinh z, or sin z with the parts of z exchanged: (sinh x·cos y, cosh x·sin y).
    pub fn sinh(self) -> Complex {
        Complex::new(product(libm::sinh(self.re), libm::cos(self.im)), product(libm::cosh(self.re), libm::sin(self.im)))
    }

    /// cosh z: (cosh x·cos y, sinh x·sin y).
    pub fn cosh(self) -> Complex {
        Complex::new(product(libm::cosh(self.re), libm::cos(self.im)), product(libm::sinh(self.re), libm::sin(self.im)))
    }

    fn is_infinite(self) -> bool {
        self.re.is_infinite() || self.im.is_infinite()
    }

    /// An integer e with max(|x|, |y|) in [2^(e−1), 2^e).
    fn exponent(self) -> i32 {
        libm::frexp(libm::fmax(libm::fabs(self.re), libm::fabs(self.im))).1
    }
}

/// a·b, where zero times infinity is zero: an overflown factor of a function that is zero.
fn product(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

impl std::ops::Mul for Complex {
    type Output = Complex;

    fn mul(self, other: Complex) -> Complex {
        Complex::new(
            difference_of_products(self.re, other.re, self.im, other.im),
            difference_of_products(self.re, other.im, -self.im, other.re),
        )
    }
}

/// a·b − c·d with an error of one and a half units in the last place (Kahan's method: Jeannerod, Louvet and Muller,
/// Mathematics of Computation 82, 2013).
fn difference_of_products(a: f64, b: f64, c: f64, d: f64) -> f64 {
    let product = c * d;
    let error = libm::fma(-c, d, product);
    let difference = libm::fma(a, b, -product);
    // Infinite factors leave NaN in the error.
    if error.is_nan() || difference.is_nan() { self::product(a, b) - self::product(c, d) } else { difference + error }
}

impl std::ops::Neg for Complex {
    type Output = Complex;

    fn neg(self) -> Complex {
        Complex::new(-self.re, -self.im)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex, re: f64, im: f64) -> bool {
        (a.re - re).abs() <= 4.0 * f64::EPSILON * re.abs() && (a.im - im).abs() <= 4.0 * f64::EPSILON * im.abs()
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_underflow() {
        assert!(close(Complex::new(1e300, 1e300).reciprocal(), 5e-301, -5e-301));
        assert!(close(Complex::new(1e-300, -1e-300).reciprocal(), 5e299, 5e299));
        let root = Complex::new(0.0, 2e300).sqrt();
        assert!(close(root, 1e150, 1e150), "{root:?}");
        assert!(close(Complex::new(-4e-308, -0.0).sqrt(), 0.0, -2e-154));
    }

    #[test]
    fn cancelling_products_are_accurate() {
        let (a, b) = (1.0 + f64::EPSILON, 1.0 - f64::EPSILON);
        let square = Complex::new(a, b) * Complex::new(a, b);
        assert_eq!(square.re, 4.0 * f64::EPSILON);
    }
}
