//! What is in the table, and which names lead there.

use std::collections::HashMap;

use derivgrind_ad::math::{self, Argument, Line, Names, Place, Width};

use super::function;
use super::points::points;

fn lines() -> impl Iterator<Item = &'static Line> {
    math::GROUPS.iter().flat_map(|group| group.lines)
}

/// The usual name of a line's binary64 function.
fn name(line: &Line) -> String {
    math::forms(&line.names).swap_remove(0)
}

/// Every function whose derivative is a formula has points.
#[test]
fn reference_covers_the_table() {
    /// Linear or constant in pieces; these have special points only.
    const WITHOUT_POINTS: [&str; 41] = [
        "ceil",
        "copysign",
        "cproj",
        "fabs",
        "fdim",
        "floor",
        "fma",
        "fmax",
        "fmaximum",
        "fmaximum_mag",
        "fmaximum_mag_num",
        "fmaximum_num",
        "fmaxmag",
        "fmin",
        "fminimum",
        "fminimum_mag",
        "fminimum_mag_num",
        "fminimum_num",
        "fminmag",
        "fromfp",
        "fromfpx",
        "ldexp",
        "logb",
        "modf",
        "nearbyint",
        "nextafter",
        "nextdown",
        "nexttoward",
        "nextup",
        "rint",
        "round",
        "roundeven",
        "scalb",
        "scalbln",
        "scalbn",
        "sincos",
        "trunc",
        "ufromfp",
        "ufromfpx",
        "finite",
        "isinf",
    ];
    let same_rule = HashMap::from([
        ("drem", "remainder"),
        ("gamma", "lgamma"),
        ("lgamma_r", "lgamma"),
        ("pow10", "exp10"),
        ("significand", "frexp"),
        ("tgamma_r", "tgamma"),
    ]);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for point in points() {
        *counts.entry(&point.function.name).or_default() += 1;
    }
    for line in lines().filter(|line| !line.signature.results.is_empty() && !matches!(line.names, Names::Narrowing(_)))
    {
        let name = name(line);
        let name = same_rule.get(name.as_str()).copied().unwrap_or(&name);
        let count = counts.get(name).copied().unwrap_or(0);
        assert!(count >= 60 || WITHOUT_POINTS.contains(&name), "{name} has {count} points");
    }
}

#[test]
fn lines_are_sorted_and_no_name_comes_twice() {
    let mut all = HashMap::new();
    for group in &math::GROUPS {
        let names: Vec<(bool, String)> =
            group.lines.iter().map(|line| (matches!(line.names, Names::Narrowing(_)), name(line))).collect();
        assert!(names.is_sorted(), "{}: {names:?}", group.title);
        for line in group.lines {
            for form in math::forms(&line.names) {
                assert_eq!(function(&form).name, form);
                assert!(all.insert(form.clone(), group.title).is_none(), "{form}");
            }
        }
    }
    assert!(math::FOLLOWED.iter().all(|(name, _)| math::lookup(name).is_none()));
}

#[test]
fn formats() {
    for (name, width) in [("sin", Width::Binary64), ("sinf", Width::Binary32), ("cpowf", Width::Binary32)] {
        assert_eq!((function(name).width, function(name).result_width), (width, width));
    }
    assert_eq!(function("cpowl").width, Width::Extended);
    let narrowing = function("f64mulf64x");
    assert_eq!((narrowing.width, narrowing.result_width), (Width::Extended, Width::Binary64));
    let narrowing = function("f32addf64");
    assert_eq!((narrowing.width, narrowing.result_width), (Width::Binary64, Width::Binary32));
}

/// What ISO C 99 has in `math.h` and `complex.h` is in the table, or in the list of functions that are followed.
#[test]
fn c99_is_complete() {
    let followed: Vec<&str> = math::FOLLOWED.iter().map(|&(name, _)| name).collect();
    for name in [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "fdim",
        "floor",
        "fma",
        "fmax",
        "fmin",
        "fmod",
        "frexp",
        "hypot",
        "ilogb",
        "ldexp",
        "lgamma",
        "llrint",
        "llround",
        "log",
        "log10",
        "log1p",
        "log2",
        "logb",
        "lrint",
        "lround",
        "modf",
        "nan",
        "nearbyint",
        "nextafter",
        "nexttoward",
        "pow",
        "remainder",
        "remquo",
        "rint",
        "round",
        "scalbln",
        "scalbn",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "tgamma",
        "trunc",
        "cabs",
        "cacos",
        "cacosh",
        "carg",
        "casin",
        "casinh",
        "catan",
        "catanh",
        "ccos",
        "ccosh",
        "cexp",
        "cimag",
        "clog",
        "conj",
        "cpow",
        "cproj",
        "creal",
        "csin",
        "csinh",
        "csqrt",
        "ctan",
        "ctanh",
    ] {
        for form in [name.to_owned(), format!("{name}f"), format!("{name}l")] {
            assert!(math::lookup(&form).is_some() || followed.contains(&name), "{form}");
        }
    }
}

#[test]
fn aliases_and_strangers() {
    for (alias, name) in [
        ("__exp_finite", "exp"),
        ("__log2f_finite", "log2f"),
        ("__lgamma_r_finite", "lgamma_r"),
        ("__lgammaf_r_finite", "lgammaf_r"),
        ("__gammaf_r_finite", "tgammaf_r"),
        ("__expl_finite", "expl"),
        ("sinf64x", "sinl"),
        ("sinf64", "sin"),
        ("sinf32x", "sin"),
        ("cexpf32", "cexpf"),
        ("lgammaf32_r", "lgammaf_r"),
        ("log10p1f64", "log10p1"),
        ("_ZGVbN2v_sin", "sin"),
        ("_ZGVcN8vv_powf", "powf"),
        ("_ZGVdN4vvv_sincos", "sincos"),
        ("_ZGVeN16v_exp10f", "exp10f"),
        ("__svml_sin8", "sin"),
        ("__svml_exp2", "exp"),
        ("__svml_exp24_la", "exp2"),
        ("__svml_atan28_ha", "atan2"),
        ("__svml_log1pf16", "log1pf"),
        ("__svml_powf4_ep", "powf"),
    ] {
        assert_eq!(function(alias).name, name, "{alias}");
    }
    for name in [
        "sinf128",
        "__sin",
        "__finite_finite",
        "printf",
        "",
        "__floor_finite",
        "log_finite",
        "_ZGVbN2vv_sin",
        "_ZGVbM2v_sin",
        "_ZGVzN2v_sin",
        "_ZGVbN2u_sin",
        "_ZGVbN99v_sin",
        "_ZGVbN2v_mine",
        "_ZGVb",
        "_ZGV",
        "sin_",
        "xsin",
        "fadds",
        "_ZGVdN4vv_fadd",
        "_ZGVdN4v_csin",
        "_ZGVdN4v_sinl",
        "__svml_sin3",
        "__svml_sin16",
        "__svml_sinf2",
        "__svml_sin8_mask",
        "__svml_sincos8",
        "__svml_cexp4",
        "__svml_8",
    ] {
        assert!(math::lookup(name).is_none(), "{name}");
    }
}

/// No more arguments or results than the recorder provides for, and a place for each of them.
#[test]
fn signatures_fit() {
    for form in lines().flat_map(|line| math::forms(&line.names)) {
        let function = function(&form);
        assert!((1..=math::MAX_REALS).contains(&function.reals()), "{form}");
        assert!(function.integers() <= math::MAX_INTEGERS, "{form}");
        assert!(function.results.len() <= math::MAX_RESULTS, "{form}");
        for lane in function.lanes() {
            assert_eq!(
                (lane.arguments.len(), lane.results.len()),
                (function.reals(), function.results.len()),
                "{form}"
            );
        }
        let integers: Vec<Argument> = function.arguments.iter().copied().filter(|kind| kind.is_integer()).collect();
        for result in function.results {
            if let Place::Pointer(position) = *result {
                assert_eq!(integers[position], Argument::Pointer, "{form}");
            }
        }
    }
}
