//! Partial derivatives of the math functions against high-precision reference values, and at points that are special.
//!
//! The reference data are differences of the functions themselves in high-precision arithmetic; `data/generate.py` makes them.

mod coverage;
mod exceptions;
mod points;
mod special_points;

use std::collections::BTreeMap;

use derivgrind_ad::math::{self, Call, MathFunction, Partials, Width};

use exceptions::exception;
use points::{Point, points};
use special_points::{COMPLEX, SPECIAL};

/// Units in the last place that a partial derivative may be wrong by.
const BOUND: f64 = 4.0;

fn function(name: &str) -> &'static MathFunction {
    math::lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"))
}

fn partials(function: &MathFunction, reals: &[f64], integer: i64, value: &[f64]) -> Partials {
    let mut call = Call { integers: [integer as u64, 0, 0], ..Call::default() };
    call.reals[..reals.len()].copy_from_slice(reals);
    call.results[..value.len()].copy_from_slice(value);
    function.partials(&call)
}

fn unit_in_last_place(x: f64) -> f64 {
    let magnitude = x.abs().max(f64::MIN_POSITIVE);
    f64::from_bits(magnitude.to_bits() + 1) - magnitude
}

/// What has been found so far.
#[derive(Default)]
struct Findings {
    /// The largest error of each function in units in the last place, exceptions aside.
    worst: BTreeMap<String, f64>,
    failures: Vec<String>,
}

impl Findings {
    fn check(&mut self, function: &MathFunction, point: &Point, value: &[f64]) {
        let computed = partials(function, &point.reals, point.integer, value);
        let exception = [&point.function.name, &function.name].iter().find_map(|name| exception(name, &point.reals));
        for (row, expected) in point.rows().iter().enumerate() {
            for (argument, &expected) in expected.iter().enumerate() {
                let got = computed[row][argument];
                // The parts of a complex number are accurate together.
                let size = if point.is_complex() {
                    let slope = &point.partials[argument / 2 * 2..][..2];
                    slope[0].hypot(slope[1])
                } else {
                    expected
                };
                let scale = match exception {
                    Some(exception) => (exception.scale)(&point.reals, point.value[0], size),
                    None => size,
                };
                let units = (got - expected).abs() / unit_in_last_place(scale);
                if exception.is_none() {
                    let worst = self.worst.entry(function.name.clone()).or_default();
                    *worst = worst.max(units);
                }
                // Not `units > bound`: NaN must fail.
                let within = units <= exception.map_or(BOUND, |exception| exception.bound);
                if !within {
                    let (place, unit_of) =
                        exception.map_or(("everywhere", "it"), |exception| (exception.place, exception.unit_of));
                    self.failures.push(format!(
                        "{}({:?}, n = {}), result {row}, argument {argument}: {got:e} instead of {expected:e}, {units:.1} units in the last place of {unit_of} ({place})",
                        function.name, point.reals, point.integer
                    ));
                }
            }
        }
    }

    fn report(self) {
        let mut worst: Vec<_> = self.worst.into_iter().collect();
        worst.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (name, units) in worst.iter().take(16) {
            println!("{name}: {units:.2} units in the last place");
        }
        let failures = self.failures;
        assert!(
            failures.is_empty(),
            "{} of the partial derivatives are wrong:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}

#[test]
fn binary64_functions_agree_with_the_reference() {
    let mut findings = Findings::default();
    for point in points() {
        findings.check(point.function, point, &point.value);
    }
    findings.report();
}

/// The binary32 function's partials are as exact as the binary64 function's, though its own result has been rounded to binary32.
#[test]
fn binary32_functions_agree_with_the_reference() {
    let mut findings = Findings::default();
    let mut checked = 0;
    for point in points() {
        if point.reals.iter().any(|&x| f64::from(x as f32) != x) {
            continue;
        }
        let name = &point.function.name;
        let narrow = function(&if name.starts_with('_') { name.replace("_r8", "_r4") } else { format!("{name}f") });
        assert_eq!(narrow.width, Width::Binary32);
        let value: Vec<f64> = point.value.iter().map(|&value| f64::from(value as f32)).collect();
        findings.check(narrow, point, &value);
        checked += 1;
    }
    assert!(checked > 1000, "{checked}");
    findings.report();
}

#[test]
fn special_points_are_as_documented() {
    for &(name, reals, integer, value, expected) in SPECIAL {
        let got = partials(function(name), reals, integer, &[value])[0];
        for (&got, &expected) in got.iter().zip(expected) {
            assert!(same(got, expected), "{name}({reals:?}, n = {integer}) = {value}: {got:e} instead of {expected:e}");
        }
    }
}

#[test]
fn special_points_of_complex_functions() {
    for &(name, argument, value, slope) in COMPLEX {
        let got = partials(function(name), &argument, 0, &value);
        for (got, expected) in
            [(got[0][0], slope[0]), (got[1][0], slope[1]), (got[0][1], -slope[1]), (got[1][1], slope[0])]
        {
            assert!(same(got, expected), "{name}({argument:?}): {got:e} instead of {expected:e}");
        }
    }
}

/// Up to rounding.
fn same(got: f64, expected: f64) -> bool {
    got == expected
        || (got.is_nan() && expected.is_nan())
        || (got - expected).abs() <= 2.0 * unit_in_last_place(expected)
        || (expected.abs() < f64::MIN_POSITIVE && (got / expected - 1.0).abs() < 1e-3)
}

#[test]
fn functions_with_two_results() {
    let rows = partials(function("sincos"), &[0.5], 0, &[0.5f64.sin(), 0.5f64.cos()]);
    assert_eq!(rows[0][0], 0.877_582_561_890_372_8);
    assert_eq!(rows[1][0], -0.479_425_538_604_203);
    let rows = partials(function("modff"), &[2.5], 0, &[0.5, 2.0]);
    assert_eq!((rows[0][0], rows[1][0]), (1.0, 0.0));
    let rows = partials(function("cproj"), &[2.5, -1.0], 0, &[2.5, -1.0]);
    assert_eq!([rows[0][0], rows[0][1], rows[1][0], rows[1][1]], [1.0, 0.0, 0.0, 1.0]);
    let rows = partials(function("cproj"), &[f64::INFINITY, -1.0], 0, &[f64::INFINITY, -0.0]);
    assert_eq!(rows, [[0.0; 4]; 2]);
}

#[test]
fn narrowing_functions() {
    assert_eq!(partials(function("fdiv"), &[3.0, 4.0], 0, &[0.75])[0][..2], [0.25, -0.1875]);
    assert_eq!(partials(function("f32fmaf64"), &[3.0, 4.0, 5.0], 0, &[17.0])[0][..3], [4.0, 3.0, 1.0]);
    // The value has been rounded to binary32, the partial derivative has not.
    let root = f64::from(2f64.sqrt() as f32);
    assert_eq!(partials(function("fsqrt"), &[2.0], 0, &[root])[0][0], 0.5 / 2f64.sqrt());
}
