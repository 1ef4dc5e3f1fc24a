//! Partial derivatives of the math functions against high-precision reference values, and at points that are special.
//!
//! The reference data are differences of the functions themselves in high-precision arithmetic; `data/generate.py` makes them.

use std::collections::HashMap;

use derivgrind_ad::math::{self, Argument, Call, MathFunction, Width};

/// Units in the last place that a partial derivative may be wrong by.
const BOUND: f64 = 4.0;

/// A point at which a function's partial derivatives are known.
struct Point {
    function: &'static str,
    integer: i64,
    reals: Vec<f64>,
    value: f64,
    partials: Vec<f64>,
}

fn points() -> Vec<Point> {
    include_str!("data/math_reference.txt").lines().map(point).collect()
}

fn point(line: &'static str) -> Point {
    let mut fields = line.split(' ');
    let function = fields.next().unwrap();
    let integer = fields.next().unwrap().parse().unwrap_or(0);
    let numbers: Vec<f64> = fields.map(|field| field.parse().unwrap()).collect();
    // As many partial derivatives as arguments, and the value between.
    let reals = numbers.len() / 2;
    Point {
        function,
        integer,
        reals: numbers[..reals].to_vec(),
        value: numbers[reals],
        partials: numbers[reals + 1..].to_vec(),
    }
}

fn function(name: &str) -> &'static MathFunction {
    math::lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"))
}

/// The partials of the function's first result.
fn partials(function: &MathFunction, reals: &[f64], integer: i64, value: f64) -> Vec<f64> {
    let mut call = Call { integers: [integer as u64, 0], results: [value, 0.0], ..Call::default() };
    call.reals[..reals.len()].copy_from_slice(reals);
    function.partials(&call)[0][..reals.len()].to_vec()
}

fn unit_in_last_place(x: f64) -> f64 {
    let magnitude = x.abs().max(f64::MIN_POSITIVE);
    f64::from_bits(magnitude.to_bits() + 1) - magnitude
}

/// Where a derivative is ill-conditioned: the error that is allowed there instead of [`BOUND`] units in the last place, as a number.
///
/// All of these are places where the derivative is a small difference of large terms, so that the last place of an argument decides.
fn exception(point: &Point) -> Option<f64> {
    let x = *point.reals.first()?;
    match point.function {
        // Bessel functions oscillate: near a zero of the derivative only an error relative to their amplitude is meaningful.
        "j0" | "j1" | "jn" | "y0" | "y1" | "yn" => {
            let amplitude = (2.0 / (std::f64::consts::PI * x)).sqrt();
            let scale = point.partials[0].abs().max(amplitude.min(1.0));
            Some(BOUND * f64::EPSILON * scale)
        }
        // ψ(x) = ψ(1−x) − π·cot(π·x) has zeros between the negative integers.
        "lgamma" if x < 0.0 => Some(BOUND * f64::EPSILON * reflection_terms(x)),
        "tgamma" if x < 0.0 => Some(BOUND * f64::EPSILON * reflection_terms(x) * point.value.abs()),
        _ => None,
    }
}

fn reflection_terms(x: f64) -> f64 {
    let pi = std::f64::consts::PI;
    // A unit in the last place of π·r moves the cotangent by up to itself plus its derivative times the argument.
    let r = x - x.round();
    math::digamma(1.0 - x).abs() + (pi / (pi * r).tan()).abs() + pi * pi * r.abs()
}

fn check(
    function: &MathFunction,
    point: &Point,
    value: f64,
    worst: &mut HashMap<String, f64>,
    failures: &mut Vec<String>,
) {
    let computed = partials(function, &point.reals, point.integer, value);
    for (argument, (&got, &expected)) in computed.iter().zip(&point.partials).enumerate() {
        let unit = unit_in_last_place(expected);
        let error = (got - expected).abs();
        let units = error / unit;
        let allowed = exception(point).unwrap_or(BOUND * unit).max(BOUND * unit);
        if exception(point).is_none() {
            let entry = worst.entry(function.name.to_owned()).or_default();
            *entry = entry.max(units);
        }
        // Not `error > allowed`: NaN must fail.
        let within = error <= allowed;
        if !within {
            failures.push(format!(
                "{}({:?}, n = {}), partial {argument}: {got:e} instead of {expected:e}, {units:.1} units in the last place",
                function.name, point.reals, point.integer
            ));
        }
    }
}

fn report(worst: HashMap<String, f64>, failures: Vec<String>) {
    let mut worst: Vec<_> = worst.into_iter().collect();
    worst.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, units) in worst.iter().take(12) {
        println!("{name}: {units:.2} units in the last place");
    }
    assert!(failures.is_empty(), "{} of the partial derivatives are wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn binary64_functions_agree_with_the_reference() {
    let (mut worst, mut failures) = (HashMap::new(), Vec::new());
    for point in points() {
        check(function(point.function), &point, point.value, &mut worst, &mut failures);
    }
    report(worst, failures);
}

/// The binary32 function's partials are as exact as the binary64 function's, though its own result has been rounded to binary32.
#[test]
fn binary32_functions_agree_with_the_reference() {
    let (mut worst, mut failures) = (HashMap::new(), Vec::new());
    let mut checked = 0;
    for point in points() {
        if point.reals.iter().any(|&x| f64::from(x as f32) != x) {
            continue;
        }
        let narrow = function(&format!("{}f", point.function));
        assert_eq!(narrow.width, Width::Binary32);
        check(narrow, &point, f64::from(point.value as f32), &mut worst, &mut failures);
        checked += 1;
    }
    assert!(checked > 1000, "{checked}");
    report(worst, failures);
}

/// Every function whose derivative is a formula has points.
#[test]
fn reference_covers_the_table() {
    let piecewise_linear = [
        "ceil",
        "copysign",
        "fabs",
        "fdim",
        "floor",
        "fma",
        "fmax",
        "fmaximum",
        "fmaximum_num",
        "fmaxmag",
        "fmin",
        "fminimum",
        "fminimum_num",
        "fminmag",
        "logb",
        "modf",
        "nearbyint",
        "nextafter",
        "nextdown",
        "nextup",
        "rint",
        "round",
        "roundeven",
        "trunc",
        "ldexp",
        "scalbn",
        "scalbln",
        "sincos",
    ];
    let same_rule = [
        ("drem", "remainder"),
        ("gamma", "lgamma"),
        ("lgamma_r", "lgamma"),
        ("pow10", "exp10"),
        ("significand", "frexp"),
    ];
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for point in points() {
        *counts.entry(point.function).or_default() += 1;
    }
    for line in math::lines() {
        let name = same_rule.iter().find(|(alias, _)| *alias == line.double).map_or(line.double, |(_, name)| name);
        let count = counts.get(name).copied().unwrap_or(0);
        assert!(count >= 60 || piecewise_linear.contains(&name), "{name} has {count} points");
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Function, real arguments, integer argument, value, partials.
type Special = (&'static str, &'static [f64], i64, f64, &'static [f64]);

#[rustfmt::skip]
const SPECIAL: &[Special] = &[
    ("acos", &[1.0], 0, 0.0, &[-INF]),
    ("acos", &[-1.0], 0, std::f64::consts::PI, &[-INF]),
    ("acos", &[1.5], 0, NAN, &[NAN]),
    ("acosh", &[1.0], 0, 0.0, &[INF]),
    ("acosh", &[INF], 0, INF, &[0.0]),
    ("asin", &[1.0], 0, std::f64::consts::FRAC_PI_2, &[INF]),
    ("asin", &[-1.0], 0, -std::f64::consts::FRAC_PI_2, &[INF]),
    ("asinh", &[-INF], 0, -INF, &[0.0]),
    ("asinh", &[1e300], 0, 691.5, &[1e-300]),
    ("atan", &[INF], 0, std::f64::consts::FRAC_PI_2, &[0.0]),
    ("atan2", &[0.0, 0.0], 0, 0.0, &[NAN, NAN]),
    ("atan2", &[0.0, 2.0], 0, 0.0, &[0.5, 0.0]),
    ("atan2", &[INF, 1.0], 0, std::f64::consts::FRAC_PI_2, &[0.0, 0.0]),
    ("atan2", &[1.0, -INF], 0, std::f64::consts::PI, &[0.0, 0.0]),
    ("atan2", &[1e300, 1e300], 0, std::f64::consts::FRAC_PI_4, &[5e-301, -5e-301]),
    ("atanh", &[1.0], 0, INF, &[INF]),
    ("cbrt", &[0.0], 0, 0.0, &[INF]),
    ("cbrt", &[-8.0], 0, -2.0, &[1.0 / 12.0]),
    ("ceil", &[2.5], 0, 3.0, &[0.0]),
    ("copysign", &[3.0, -0.0], 0, -3.0, &[-1.0, 0.0]),
    ("copysign", &[-3.0, -2.0], 0, -3.0, &[1.0, 0.0]),
    ("copysign", &[-0.0, 2.0], 0, 0.0, &[-1.0, 0.0]),
    ("cos", &[INF], 0, NAN, &[NAN]),
    ("cosh", &[1000.0], 0, INF, &[INF]),
    ("erf", &[INF], 0, 1.0, &[0.0]),
    ("erf", &[1e200], 0, 1.0, &[0.0]),
    ("exp", &[-INF], 0, 0.0, &[0.0]),
    ("exp", &[INF], 0, INF, &[INF]),
    ("expm1", &[-50.0], 0, -1.0, &[1.9287498479639178e-22]),
    ("fabs", &[0.0], 0, 0.0, &[0.0]),
    ("fabs", &[-0.0], 0, 0.0, &[0.0]),
    ("fabs", &[-INF], 0, INF, &[-1.0]),
    ("fdim", &[2.0, 1.0], 0, 1.0, &[1.0, -1.0]),
    ("fdim", &[1.0, 2.0], 0, 0.0, &[0.0, 0.0]),
    ("fdim", &[1.0, 1.0], 0, 0.0, &[0.0, 0.0]),
    ("floor", &[NAN], 0, NAN, &[NAN]),
    ("fma", &[2.0, 3.0, 4.0], 0, 10.0, &[3.0, 2.0, 1.0]),
    ("fma", &[0.0, INF, 1.0], 0, NAN, &[NAN, NAN, NAN]),
    ("fmax", &[1.0, 2.0], 0, 2.0, &[0.0, 1.0]),
    ("fmax", &[2.0, 2.0], 0, 2.0, &[1.0, 0.0]),
    ("fmax", &[NAN, 2.0], 0, 2.0, &[0.0, 1.0]),
    ("fmax", &[2.0, NAN], 0, 2.0, &[1.0, 0.0]),
    ("fmaximum", &[2.0, NAN], 0, NAN, &[NAN, NAN]),
    ("fmaxmag", &[-3.0, 2.0], 0, -3.0, &[1.0, 0.0]),
    ("fmaxmag", &[-3.0, 3.0], 0, 3.0, &[0.0, 1.0]),
    ("fmaxmag", &[NAN, 3.0], 0, 3.0, &[0.0, 1.0]),
    ("fmin", &[1.0, 2.0], 0, 1.0, &[1.0, 0.0]),
    ("fmin", &[NAN, 2.0], 0, 2.0, &[0.0, 1.0]),
    ("fminmag", &[-3.0, 2.0], 0, 2.0, &[0.0, 1.0]),
    ("fmod", &[6.0, 2.0], 0, 0.0, &[1.0, -3.0]),
    ("fmod", &[-6.0, 2.0], 0, -0.0, &[1.0, 3.0]),
    ("fmod", &[6.0, INF], 0, 6.0, &[1.0, 0.0]),
    ("fmod", &[6.0, 0.0], 0, NAN, &[NAN, NAN]),
    ("fmod", &[1e300, 3.0], 0, 2.0, &[1.0, -(1e300 / 3.0)]),
    ("frexp", &[0.0], 0, 0.0, &[1.0]),
    ("frexp", &[-INF], 0, -INF, &[1.0]),
    ("frexp", &[f64::MAX], 0, 1.0 - f64::EPSILON / 2.0, &[f64::MIN_POSITIVE / 4.0]),
    ("frexp", &[5e-324], 0, 0.5, &[INF]),
    ("hypot", &[0.0, 0.0], 0, 0.0, &[0.0, 0.0]),
    ("hypot", &[-INF, 3.0], 0, INF, &[-1.0, 0.0]),
    ("hypot", &[NAN, INF], 0, INF, &[0.0, 1.0]),
    ("hypot", &[INF, INF], 0, INF, &[NAN, NAN]),
    ("hypot", &[1.5e308, -1.5e308], 0, INF, &[std::f64::consts::FRAC_1_SQRT_2, -std::f64::consts::FRAC_1_SQRT_2]),
    ("hypot", &[5e-324, 5e-324], 0, 5e-324, &[std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2]),
    ("j1", &[0.0], 0, 0.0, &[0.5]),
    ("jn", &[0.0], 1, 0.0, &[0.5]),
    ("jn", &[0.0], 7, 0.0, &[0.0]),
    ("ldexp", &[3.0], 10, 3072.0, &[1024.0]),
    ("ldexp", &[3.0], -1, 1.5, &[0.5]),
    ("ldexp", &[1.0], -1074, 5e-324, &[5e-324]),
    ("ldexp", &[1.0], -1080, 0.0, &[0.0]),
    ("ldexp", &[1e-300], 1500, 3.5e151, &[INF]),
    ("ldexp", &[0.0], 1023, 0.0, &[8.98846567431158e307]),
    ("scalbln", &[1.0], 1 << 40, INF, &[INF]),
    ("scalbn", &[1.0], 3, 8.0, &[8.0]),
    // The upper half of an `int` argument's register is undefined.
    ("scalbn", &[1.0], 0x1234_5678_0000_0003, 8.0, &[8.0]),
    ("scalbn", &[1.0], 0x0000_0000_ffff_ffff, 0.5, &[0.5]),
    ("lgamma", &[0.0], 0, INF, &[-INF]),
    ("lgamma", &[-0.0], 0, INF, &[INF]),
    ("lgamma", &[-2.0], 0, INF, &[NAN]),
    ("lgamma", &[INF], 0, INF, &[INF]),
    ("log", &[0.0], 0, -INF, &[INF]),
    ("log", &[-0.0], 0, -INF, &[INF]),
    ("log", &[-1.0], 0, NAN, &[NAN]),
    ("log", &[INF], 0, INF, &[0.0]),
    ("log1p", &[-1.0], 0, -INF, &[INF]),
    ("logb", &[8.0], 0, 3.0, &[0.0]),
    ("modf", &[2.5], 0, 0.5, &[1.0]),
    ("modf", &[INF], 0, 0.0, &[1.0]),
    ("nextafter", &[1.0, 1.0], 0, 1.0, &[1.0, 0.0]),
    ("pow", &[3.0, 0.0], 0, 1.0, &[0.0, 1.0986122886681098]),
    ("pow", &[0.0, 0.0], 0, 1.0, &[0.0, 0.0]),
    ("pow", &[0.0, 0.5], 0, 0.0, &[INF, 0.0]),
    ("pow", &[0.0, 1.0], 0, 0.0, &[1.0, 0.0]),
    ("pow", &[0.0, 2.0], 0, 0.0, &[0.0, 0.0]),
    ("pow", &[-0.0, 3.0], 0, -0.0, &[0.0, 0.0]),
    ("pow", &[0.0, -1.0], 0, INF, &[-INF, -INF]),
    ("pow", &[-2.0, 3.0], 0, -8.0, &[12.0, NAN]),
    ("pow", &[-2.0, -1.0], 0, -0.5, &[-0.25, NAN]),
    ("pow", &[NAN, 0.0], 0, 1.0, &[0.0, NAN]),
    ("pow", &[1.0, NAN], 0, 1.0, &[NAN, 0.0]),
    ("pow", &[1.0, 5.0], 0, 1.0, &[5.0, 0.0]),
    ("pow", &[0.5, INF], 0, 0.0, &[0.0, 0.0]),
    ("pow", &[2.0, -INF], 0, 0.0, &[0.0, 0.0]),
    ("pow", &[INF, -2.0], 0, 0.0, &[0.0, 0.0]),
    ("remainder", &[5.0, 2.0], 0, 1.0, &[1.0, -2.0]),
    ("remainder", &[7.0, 2.0], 0, -1.0, &[1.0, -4.0]),
    ("remainder", &[f64::MAX, f64::MAX * 0.625], 0, -0.25 * f64::MAX, &[1.0, -2.0]),
    ("sqrt", &[0.0], 0, 0.0, &[INF]),
    ("sqrt", &[-0.0], 0, -0.0, &[INF]),
    ("sqrt", &[-1.0], 0, NAN, &[NAN]),
    ("sqrt", &[INF], 0, INF, &[0.0]),
    ("tanh", &[-INF], 0, -1.0, &[0.0]),
    ("tanh", &[360.0], 0, 1.0, &[8.12892320969e-313]),
    ("tgamma", &[0.0], 0, INF, &[-INF]),
    ("tgamma", &[-0.0], 0, -INF, &[-INF]),
    ("tgamma", &[-1.0], 0, NAN, &[NAN]),
    ("tgamma", &[-300.5], 0, 0.0, &[0.0]),
    ("y0", &[0.0], 0, -INF, &[INF]),
    ("y1", &[0.0], 0, -INF, &[INF]),
    ("yn", &[0.0], 4, -INF, &[INF]),
    ("yn", &[0.0], -1, INF, &[-INF]),
    ("yn", &[1e-200], 2, -INF, &[INF]),
];

#[test]
fn special_points_are_as_documented() {
    for &(name, reals, integer, value, expected) in SPECIAL {
        let got = partials(function(name), reals, integer, value);
        for (&got, &expected) in got.iter().zip(expected) {
            let same = got == expected
                || (got.is_nan() && expected.is_nan())
                || (got - expected).abs() <= 2.0 * unit_in_last_place(expected)
                || (expected.abs() < f64::MIN_POSITIVE && (got / expected - 1.0).abs() < 1e-3);
            assert!(same, "{name}({reals:?}, n = {integer}) = {value}: {got:e} instead of {expected:e}");
        }
    }
}

#[test]
fn functions_with_two_results() {
    let call = Call { reals: [0.5, 0.0, 0.0], results: [0.5f64.sin(), 0.5f64.cos()], ..Call::default() };
    let rows = function("sincos").partials(&call);
    assert_eq!(rows[0][0], 0.877_582_561_890_372_8);
    assert_eq!(rows[1][0], -0.479_425_538_604_203);
    let call = Call { reals: [2.5, 0.0, 0.0], results: [0.5, 2.0], ..Call::default() };
    let rows = function("modff").partials(&call);
    assert_eq!((rows[0][0], rows[1][0]), (1.0, 0.0));
}

#[test]
fn every_function_exists_in_both_formats() {
    let mut previous = "";
    for line in math::lines() {
        assert!(previous < line.double, "the table is sorted: {previous}, {}", line.double);
        previous = line.double;
        let (double, float) = (function(line.double), function(line.float));
        assert_eq!(double.width, Width::Binary64);
        assert_eq!(float.width, Width::Binary32);
        assert_eq!(double.arguments, float.arguments);
        assert_eq!(double.results, float.results);
        assert_eq!(line.double.replace("_r", "").len() + 1, line.float.replace("_r", "").len());
    }
    assert_eq!(math::functions().count(), 2 * math::lines().len());
}

/// ISO C 95 has these in `math.h`.
#[test]
fn c95_is_complete() {
    for name in [
        "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "fabs", "floor", "fmod", "frexp", "ldexp",
        "log", "log10", "modf", "pow", "sin", "sinh", "sqrt", "tan", "tanh",
    ] {
        function(name);
        function(&format!("{name}f"));
    }
}

#[test]
fn aliases_and_strangers() {
    assert_eq!(function("__exp_finite").name, "exp");
    assert_eq!(function("__log2f_finite").name, "log2f");
    assert_eq!(function("__lgamma_r_finite").name, "lgamma_r");
    assert_eq!(function("__lgammaf_r_finite").name, "lgammaf_r");
    for name in ["sinl", "__sin", "__expl_finite", "__finite", "printf", "", "__floor_finite", "log_finite"] {
        assert!(math::lookup(name).is_none(), "{name}");
    }
}

/// No more arguments or results than the recorder provides for.
#[test]
fn signatures_fit() {
    for function in math::functions() {
        assert!(function.reals() >= 1 && function.reals() <= math::MAX_REALS);
        assert!(function.integers() <= math::MAX_INTEGERS);
        assert!(!function.results.is_empty() && function.results.len() <= math::MAX_RESULTS);
        let pointers: Vec<usize> = function
            .arguments
            .iter()
            .filter(|&&a| a != Argument::Real)
            .enumerate()
            .filter_map(|(position, &a)| (a == Argument::Pointer).then_some(position))
            .collect();
        for result in function.results {
            if let math::Place::Pointer(position) = result {
                assert!(pointers.contains(position), "{}", function.name);
            }
        }
    }
}
