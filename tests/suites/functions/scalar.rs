//! Each function of the table by its own name.

use std::process::Command;
use std::sync::Arc;

use derivgrind_ad::math::{self, Argument, Line, Names, Place};
use derivgrind_tests::compiler;

use crate::Plan;
use crate::program::{self, Case};

/// Formats with the macro that selects them.
const FORMATS: [(&str, &str); 3] = [("double", ""), ("float", "-DSINGLE"), ("long-double", "-DEXTENDED")];

/// Programs of all functions that the installed library has.
pub fn plans() -> Vec<Plan> {
    let cases = Arc::new(cases());
    let mut plans = Vec::new();
    for (format, option) in FORMATS {
        for (linking, options) in [("dynamic", &["-O1"][..]), ("static", &["-O1", "-static"][..])] {
            let own = Arc::clone(&cases);
            plans.push(Plan {
                name: format!("{format}-{linking}"),
                narrow: format == "float",
                cases: cases.iter().map(|case| case.name.clone()).collect(),
                build: Box::new(move || program::build("gcc", "c", &program::source("", &own), options, option)),
            });
        }
    }
    plans
}

fn cases() -> Vec<Case> {
    let lines = || math::GROUPS.iter().flat_map(|group| group.lines);
    // The forms of `double`, which are as many as those of other formats.
    let names: Vec<String> = lines().map(|line| math::forms(&line.names).swap_remove(0)).collect();
    let present = present("libm.so.6", &names);
    let mut cases: Vec<Case> = lines()
        .zip(names)
        .filter(|(line, name)| matches!(line.names, Names::Suffixed(..)) && present.contains(name))
        // Their results have become real numbers with ISO C 2023.
        .filter(|(_, name)| !name.contains("fromfp"))
        .map(|(line, name)| case(line, name))
        .collect();
    cases.extend(FOLLOWED.iter().map(|&(name, inputs, outputs, declarations, body)| Case {
        name: name.to_owned(),
        inputs: inputs.to_vec(),
        outputs,
        declarations: declarations.to_owned(),
        body: body.to_owned(),
    }));
    cases
}

/// Functions that are not intercepted, and what compilers make of complex operators.
const FOLLOWED: &[(&str, &[f64], usize, &str, &str)] = &[
    (
        "conj",
        &[0.375, 0.625],
        2,
        "CT M(conj)(CT);",
        "union { T p[2]; CT z; } u = {{x[0], x[1]}}; u.z = M(conj)(u.z); y[0] = u.p[0]; y[1] = u.p[1];",
    ),
    (
        "creal",
        &[0.375, 0.625],
        1,
        "T M(creal)(CT);",
        "union { T p[2]; CT z; } u = {{x[0], x[1]}}; y[0] = M(creal)(u.z);",
    ),
    (
        "cimag",
        &[0.375, 0.625],
        1,
        "T M(cimag)(CT);",
        "union { T p[2]; CT z; } u = {{x[0], x[1]}}; y[0] = M(cimag)(u.z);",
    ),
    ("canonicalize", &[0.375], 1, "int M(canonicalize)(T *, const T *);", "T a = x[0]; M(canonicalize)(&y[0], &a);"),
    (
        "complex_product",
        &[0.375, 0.625, 1.5, -0.25],
        2,
        "",
        "union { T p[2]; CT z; } a = {{x[0], x[1]}}, b = {{x[2], x[3]}}; a.z *= b.z; y[0] = a.p[0]; y[1] = a.p[1];",
    ),
    (
        "complex_quotient",
        &[0.375, 0.625, 1.5, -0.25],
        2,
        "",
        "union { T p[2]; CT z; } a = {{x[0], x[1]}}, b = {{x[2], x[3]}}; a.z /= b.z; y[0] = a.p[0]; y[1] = a.p[1];",
    ),
];

/// The names that a shared object exports.
pub fn present(library: &str, names: &[String]) -> Vec<String> {
    let paths = ["/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
    let Some(path) =
        paths.iter().map(|path| format!("{path}/{library}")).find(|path| std::path::Path::new(path).is_file())
    else {
        return Vec::new();
    };
    let Some(nm) = compiler::find("nm") else { return Vec::new() };
    let Ok(output) = Command::new(nm).args(["-D", "--defined-only", &path]).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Without a default version it cannot be linked.
    let exported: std::collections::HashSet<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .filter_map(|symbol| symbol.split_once("@@").map(|(name, _)| name))
        .collect();
    names.iter().filter(|name| exported.contains(name.as_str())).cloned().collect()
}

/// A call of a function with the arguments that its signature wants.
fn case(line: &Line, name: String) -> Case {
    let signature = line.signature;
    let Names::Suffixed(base, end) = line.names else { unreachable!("filtered by the caller") };
    let symbol = if end.is_empty() { format!("M({base})") } else { format!("JOIN({base},{end})") };
    let reals: usize = signature.arguments.iter().map(|argument| argument.reals()).sum();
    let inputs = point(&name, reals);
    let (mut types, mut arguments, mut setup) = (Vec::new(), Vec::new(), String::new());
    let (mut real, mut integer) = (0, 0);
    for argument in signature.arguments {
        let (kind, value) = match argument {
            Argument::Real if real < inputs.len() => ("T", format!("x[{real}]")),
            Argument::Real => ("T", "3".to_owned()),
            Argument::Complex => {
                setup += &format!("union {{ T p[2]; CT z; }} a{real} = {{{{x[{real}], x[{}]}}}}; ", real + 1);
                ("CT", format!("a{real}.z"))
            }
            Argument::Int => ("int", "3".to_owned()),
            Argument::Long => ("long", "3".to_owned()),
            Argument::Pointer if signature.results.contains(&Place::Pointer(integer)) => {
                setup += &format!("T r{integer}; ");
                ("T *", format!("&r{integer}"))
            }
            Argument::Pointer => {
                setup += &format!("int r{integer}; ");
                ("int *", format!("&r{integer}"))
            }
            Argument::Ignored => ("long double", "2".to_owned()),
        };
        types.push(kind);
        arguments.push(value);
        real += argument.reals();
        integer += usize::from(argument.is_integer());
    }
    let is_complex = signature.results.contains(&Place::Imaginary);
    let has_value = signature.results.contains(&Place::Value);
    let result = match (signature.results.is_empty(), is_complex, has_value) {
        (true, ..) => "int",
        (_, true, _) => "CT",
        (_, _, true) => "T",
        _ => "void",
    };
    let call = format!("{symbol}({})", arguments.join(", "));
    let mut body = setup;
    body += &match result {
        "int" => format!("volatile int n = {call}; (void)n; "),
        "void" => format!("{call}; "),
        "CT" => format!("union {{ T p[2]; CT z; }} u; u.z = {call}; "),
        _ => format!("T v = {call}; "),
    };
    for (number, place) in signature.results.iter().enumerate() {
        body += &match place {
            Place::Value if is_complex => format!("y[{number}] = u.p[0]; "),
            Place::Value => format!("y[{number}] = v; "),
            Place::Imaginary => format!("y[{number}] = u.p[1]; "),
            Place::Pointer(pointer) => format!("y[{number}] = r{pointer}; "),
        };
    }
    let join = "#undef JOIN\n#if defined(SINGLE)\n#define JOIN(a, b) a##f##b\n#elif defined(EXTENDED)\n#define JOIN(a, b) a##l##b\n#else\n#define JOIN(a, b) a##b\n#endif\n";
    let declarations = format!("{}{result} {symbol}({});", if end.is_empty() { "" } else { join }, types.join(", "));
    Case { name, inputs, outputs: signature.results.len(), declarations, body }
}

/// Where a function's derivatives are taken, on binary32 numbers that are far from where it has none.
fn point(name: &str, reals: usize) -> Vec<f64> {
    match name {
        "acosh" | "gamma" | "lgamma" | "lgamma_r" | "tgamma" | "j0" | "j1" | "jn" | "y0" | "y1" | "yn" => vec![1.75],
        "fmod" | "remainder" | "remquo" | "drem" => vec![7.5, 2.25],
        "frexp" | "modf" | "significand" => vec![5.25],
        "pow" | "powr" | "fdim" => vec![1.5, 1.25],
        // The second argument is an integer.
        "scalb" => vec![1.5],
        _ => [0.375, 0.625, 1.25, -0.5][..reals].to_vec(),
    }
}
