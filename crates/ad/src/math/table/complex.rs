//! Functions of `complex.h`.

use super::super::complex::Complex;
use super::super::rule::Rule::{
    Binary, BinaryByValue, ComplexLinear, Holomorphic, HolomorphicBinary, HolomorphicByValue,
};
use super::super::rules::complex;
use super::{C, C_TO_REAL, CC, Line, Names, line};

#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line!("cabs", C_TO_REAL, BinaryByValue { value: libm::hypot, partial: complex::cabs }, "x/f, y/f", "as hypot"),
    line!("cacos", C, Holomorphic(complex::cacos), "−1/√(1−z²)", "±1: −∞"),
    line!("cacosh", C, Holomorphic(complex::cacosh), "1/(√(z−1)·√(z+1))", "±1: ∞"),
    line!("carg", C_TO_REAL, Binary(complex::carg), "−y/|z|², x/|z|²", "0: NaN; an infinite part: 0, 0"),
    line!("casin", C, Holomorphic(complex::casin), "1/√(1−z²)", "±1: ∞"),
    line!("casinh", C, Holomorphic(complex::casinh), "1/√(1+z²)", "±i: ∞"),
    line!("catan", C, Holomorphic(complex::catan), "1/(1+z²)", "±i: ∞"),
    line!("catanh", C, Holomorphic(complex::catanh), "1/(1−z²)", "±1: ∞"),
    line!("ccos", C, Holomorphic(complex::ccos), "−csin z", ""),
    line!("ccosh", C, Holomorphic(complex::ccosh), "csinh z", ""),
    line!("cexp", C, HolomorphicByValue { value: Complex::exp, partial: complex::cexp }, "f", ""),
    line!("clog", C, Holomorphic(complex::clog), "1/z", "0: ∞"),
    line!("clog10", C, Holomorphic(complex::clog10), "1/(z·ln 10)", "0: ∞"),
    line!("cpow", CC, HolomorphicBinary { value: complex::cpow_value, partial: complex::cpow }, "∂z: w·f/z, ∂w: f·clog z", "z = 0: ∂z as pow if the exponent is real, else NaN, ∂w: 0"),
    line!("cproj", C, ComplexLinear(complex::cproj), "1", "an infinite part: 0"),
    line!("csin", C, Holomorphic(complex::csin), "ccos z", ""),
    line!("csinh", C, Holomorphic(complex::csinh), "ccosh z", ""),
    line!("csqrt", C, HolomorphicByValue { value: Complex::sqrt, partial: complex::csqrt }, "1/(2·f)", "0: ∞"),
    line!("ctan", C, Holomorphic(complex::ctan), "1/ccos² z", ""),
    line!("ctanh", C, Holomorphic(complex::ctanh), "1/ccosh² z", ""),
];
