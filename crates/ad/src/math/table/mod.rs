//! The table of math functions: a line for each, with names, prototype, rule and a description for people.

mod c23;
mod complex;
mod elementary;
mod piecewise;
mod special;
mod without_derivative;

use super::rule::Rule;
use super::{Argument, Place, Width};

use Argument::{Complex, Ignored, Int, Long, Pointer, Real};
use Place::{Imaginary, Value};

/// Arguments and results of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    /// Arguments in order.
    pub arguments: &'static [Argument],
    /// Real results.
    pub results: &'static [Place],
    /// C prototype of the binary64 function, with `f` for the function's name.
    pub prototype: &'static str,
}

/// Which symbols a line is for.
#[derive(Debug, PartialEq, Eq)]
pub enum Names {
    /// The name of the binary64 function in two parts, between which other formats have a suffix: `lgamma` and `_r`.
    Suffixed(&'static str, &'static str),
    /// Functions whose result is narrower than their arguments: `fNAME` and its kin.
    Narrowing(&'static str),
    /// These names, each with its format.
    Exactly(&'static [(&'static str, Width)]),
}

impl Names {
    /// A function of `math.h` or `complex.h`, of which the binary64 one has this name; the other part is behind a `_r`.
    pub(super) fn of_math_h(name: &'static str) -> Names {
        match name.strip_suffix("_r") {
            Some(base) => Names::Suffixed(base, "_r"),
            None => Names::Suffixed(name, ""),
        }
    }
}

/// A line of the table: a function in its formats.
#[derive(Debug)]
pub struct Line {
    /// Its symbols.
    pub names: Names,
    /// Arguments and results.
    pub signature: &'static Signature,
    pub(super) rule: Rule,
    /// Its partial derivatives as formulas; x, y, z are the real arguments, n is the integer one, f the result.
    pub formula: &'static str,
    /// Points without a derivative or with one of its own, and what is taken there.
    pub special: &'static str,
}

/// Lines that belong together.
#[derive(Debug)]
pub struct Group {
    /// What they are.
    pub title: &'static str,
    /// The lines, sorted by name.
    pub lines: &'static [Line],
}

/// All lines.
pub static GROUPS: [Group; 6] = [
    Group { title: "Elementary functions", lines: elementary::LINES },
    Group { title: "Gamma, error and Bessel functions", lines: special::LINES },
    Group { title: "Minima, signs, remainders, exponents, rounding", lines: piecewise::LINES },
    Group { title: "Functions of ISO C 2023", lines: c23::LINES },
    Group { title: "Complex functions", lines: complex::LINES },
    Group { title: "Functions without real results", lines: without_derivative::LINES },
];

/// Functions of `math.h` and `complex.h` that are not intercepted because following their instructions gives the right derivative, and why it does.
pub static FOLLOWED: &[(&str, &str)] = &[
    ("conj", "changes a sign"),
    ("creal", "moves"),
    ("cimag", "moves"),
    ("canonicalize", "moves"),
    ("nan", "has no real argument"),
    ("getpayload", "has a constant result"),
    ("setpayload", "has a constant result"),
    ("setpayloadsig", "has a constant result"),
    ("totalorder", "has an integer result"),
    ("totalordermag", "has an integer result"),
];

/// The lines of all groups.
pub(super) fn lines() -> impl Iterator<Item = &'static Line> {
    GROUPS.iter().flat_map(|group| group.lines)
}

const fn signature(arguments: &'static [Argument], results: &'static [Place], prototype: &'static str) -> Signature {
    Signature { arguments, results, prototype }
}

static R: Signature = signature(&[Real], &[Value], "double f(double)");
static RR: Signature = signature(&[Real, Real], &[Value], "double f(double, double)");
static RRR: Signature = signature(&[Real, Real, Real], &[Value], "double f(double, double, double)");
static RI: Signature = signature(&[Real, Int], &[Value], "double f(double, int)");
static RL: Signature = signature(&[Real, Long], &[Value], "double f(double, long)");
static IR: Signature = signature(&[Int, Real], &[Value], "double f(int, double)");
static R_INT: Signature = signature(&[Real, Pointer], &[Value], "double f(double, int *)");
static RR_INT: Signature = signature(&[Real, Real, Pointer], &[Value], "double f(double, double, int *)");
static R_REAL: Signature = signature(&[Real, Pointer], &[Value, Place::Pointer(0)], "double f(double, double *)");
static R_REAL_REAL: Signature =
    signature(&[Real, Pointer, Pointer], &[Place::Pointer(0), Place::Pointer(1)], "void f(double, double *, double *)");
static RX: Signature = signature(&[Real, Ignored], &[Value], "double f(double, long double)");
static RII: Signature = signature(&[Real, Int, Int], &[Value], "double f(double, int, unsigned)");
static R_TO_INTEGER: Signature = signature(&[Real], &[], "long f(double)");
static RR_TO_INTEGER: Signature = signature(&[Real, Real], &[], "int f(double, double)");
static C: Signature = signature(&[Complex], &[Value, Imaginary], "double complex f(double complex)");
static CC: Signature =
    signature(&[Complex, Complex], &[Value, Imaginary], "double complex f(double complex, double complex)");
static C_TO_REAL: Signature = signature(&[Complex], &[Value], "double f(double complex)");

/// Names, and the other fields in order.
macro_rules! line {
    (($start:literal, $end:literal), $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        line!(@ Names::Suffixed($start, $end), $signature, $rule, $formula, $special)
    };
    (narrowing $name:literal, $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        line!(@ Names::Narrowing($name), $signature, $rule, $formula, $special)
    };
    (@ $names:expr, $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        Line { names: $names, signature: &$signature, rule: $rule, formula: $formula, special: $special }
    };
    ($name:literal, $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        line!(@ Names::Suffixed($name, ""), $signature, $rule, $formula, $special)
    };
}
use line;

/// Functions that older glibc has for `-ffinite-math-only` as `__NAME_finite`, by the name of the binary64 one.
pub(super) const FINITE: [&str; 27] = [
    "acos",
    "acosh",
    "asin",
    "atan2",
    "atanh",
    "cosh",
    "exp",
    "exp10",
    "exp2",
    "fmod",
    "hypot",
    "j0",
    "j1",
    "jn",
    "lgamma_r",
    "log",
    "log10",
    "log2",
    "pow",
    "remainder",
    "scalb",
    "sinh",
    "sqrt",
    "tgamma_r",
    "y0",
    "y1",
    "yn",
];
