//! Where a derivative is ill-conditioned, so that the last place of an argument decides, and what error is allowed there.
//!
//! The list is part of `docs/math-functions.md`.

use std::f64::consts::PI;

use derivgrind_ad::math;

/// An exception from the bound of 4 units in the last place of the partial derivative.
pub struct Exception {
    /// Functions, by the name of the binary64 one if it holds for all formats.
    pub functions: &'static [&'static str],
    /// Where it holds.
    pub place: &'static str,
    /// In units in the last place of what the error is measured.
    pub unit_of: &'static str,
    /// How many of them.
    pub bound: f64,
    /// Whether it holds for these real arguments.
    pub applies: fn(&[f64]) -> bool,
    /// That of which the units count, from the real arguments, the value, and the partial derivative or the magnitude of a complex derivative.
    pub scale: fn(&[f64], f64, f64) -> f64,
}

/// All exceptions.
pub static EXCEPTIONS: &[Exception] = &[
    Exception {
        functions: &["j0", "j1", "y0", "y1"],
        place: "everywhere, since values of two orders are subtracted",
        unit_of: "the derivative or, near its zeros, of its amplitude √(2/(π·x)), at most 1",
        bound: 8.0,
        applies: |_| true,
        scale: |reals, _, partial| partial.abs().max(amplitude(reals)),
    },
    Exception {
        functions: &["jn", "yn"],
        place: "everywhere, since errors grow in the recurrence over the orders",
        unit_of: "the derivative or, near its zeros, of its amplitude √(2/(π·x)), at most 1",
        bound: 16.0,
        applies: |_| true,
        scale: |reals, _, partial| partial.abs().max(amplitude(reals)),
    },
    Exception {
        functions: &["lgamma"],
        place: "x < 0",
        unit_of: "the sum of the terms of ψ(1−x) − π·cot(π·x), whose difference has zeros",
        bound: 4.0,
        applies: |reals| reals[0] < 0.0,
        scale: |reals, _, _| reflection_terms(reals[0]),
    },
    Exception {
        functions: &["tgamma"],
        place: "x < 0",
        unit_of: "f times the terms of ψ, as lgamma",
        bound: 8.0,
        applies: |reals| reals[0] < 0.0,
        scale: |reals, value, _| reflection_terms(reals[0]) * value.abs(),
    },
    Exception {
        functions: &["cpowf"],
        place: "everywhere",
        unit_of: "the derivative times 1 + |w·ln z|, since the binary32 value is computed anew as exp(w·ln z)",
        bound: 4.0,
        applies: |_| true,
        scale: |reals, _, size| {
            let logarithm = reals[0].hypot(reals[1]).ln().hypot(reals[1].atan2(reals[0]));
            size * (1.0 + logarithm * reals[2].hypot(reals[3]))
        },
    },
];

/// The exception for a function, if one holds for these arguments.
pub fn exception(function: &str, reals: &[f64]) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| exception.functions.contains(&function) && (exception.applies)(reals))
}

/// Of a Bessel function's oscillation, and so of its derivative's.
fn amplitude(reals: &[f64]) -> f64 {
    (2.0 / (PI * reals[0])).sqrt().min(1.0)
}

fn reflection_terms(x: f64) -> f64 {
    // A unit in the last place of π·r moves the cotangent by up to itself plus its derivative times the argument.
    let r = x - x.round();
    math::digamma(1.0 - x).abs() + (PI / (PI * r).tan()).abs() + PI * PI * r.abs()
}
