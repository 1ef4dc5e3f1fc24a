//! The table of math functions: a line for each, with names, prototype, rule and a description for people.

use super::{Argument, Call, MAX_REALS, MathFunction, Partials, Place, Width, rules, special};

use Argument::{Int, Long, Pointer, Real};

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

/// A line of the table: a function in both formats.
#[derive(Debug)]
pub struct Line {
    /// Name of the binary64 function.
    pub double: &'static str,
    /// Name of the binary32 function.
    pub float: &'static str,
    /// Arguments and results.
    pub signature: &'static Signature,
    pub(super) rule: Rule,
    /// Its partial derivatives as formulas; x, y, z are the real arguments, n is the integer one, f the result.
    pub formula: &'static str,
    /// Points without a derivative or with one of its own, and what is taken there.
    pub special: &'static str,
}

/// How a function's partial derivatives are computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// The results do not vary: integers, exponents.
    Constant,
    /// One argument, one result.
    Unary(fn(f64) -> f64),
    /// One argument, and the result is needed. If the function is a binary32 one, its result has too few bits: `value` computes it anew.
    UnaryByValue { value: fn(f64) -> f64, partial: fn(f64, f64) -> f64 },
    /// One argument, and the result is needed, which is exact in both formats.
    UnaryByExactValue(fn(f64, f64) -> f64),
    /// One argument, two results.
    Pair(fn(f64) -> [f64; 2]),
    /// Two arguments, one result.
    Binary(fn(f64, f64) -> [f64; 2]),
    /// Like `UnaryByValue`.
    BinaryByValue { value: fn(f64, f64) -> f64, partial: fn(f64, f64, f64) -> [f64; 2] },
    /// Like `UnaryByExactValue`.
    BinaryByExactValue(fn(f64, f64, f64) -> [f64; 2]),
    /// Three arguments, one result.
    Ternary(fn(f64, f64, f64) -> [f64; 3]),
    /// A real and an integer argument; the partial depends on the integer only.
    Scale(fn(i64) -> f64),
    /// An integer and a real argument.
    Order(fn(i64, f64) -> f64),
}

impl Rule {
    pub(super) fn partials(self, function: &MathFunction, call: &Call) -> Partials {
        let [x, y, z] = call.reals;
        let result = call.results[0];
        let narrow = function.width == Width::Binary32;
        let one = |partial: f64| [[partial, 0.0, 0.0], [0.0; MAX_REALS]];
        let two = |[by_x, by_y]: [f64; 2]| [[by_x, by_y, 0.0], [0.0; MAX_REALS]];
        match self {
            Rule::Constant => [[0.0; MAX_REALS]; 2],
            Rule::Unary(partial) => one(partial(x)),
            Rule::UnaryByValue { value, partial } => one(partial(x, if narrow { value(x) } else { result })),
            Rule::UnaryByExactValue(partial) => one(partial(x, result)),
            Rule::Pair(partials) => partials(x).map(|by_x| [by_x, 0.0, 0.0]),
            Rule::Binary(partials) => two(partials(x, y)),
            Rule::BinaryByValue { value, partial } => two(partial(x, y, if narrow { value(x, y) } else { result })),
            Rule::BinaryByExactValue(partials) => two(partials(x, y, result)),
            Rule::Ternary(partials) => [partials(x, y, z), [0.0; MAX_REALS]],
            Rule::Scale(partial) => one(partial(function.integer(call))),
            Rule::Order(partial) => one(partial(function.integer(call), x)),
        }
    }
}

const fn signature(arguments: &'static [Argument], results: &'static [Place], prototype: &'static str) -> Signature {
    Signature { arguments, results, prototype }
}

static R: Signature = signature(&[Real], &[Place::Register], "double f(double)");
static RR: Signature = signature(&[Real, Real], &[Place::Register], "double f(double, double)");
static RRR: Signature = signature(&[Real, Real, Real], &[Place::Register], "double f(double, double, double)");
static RI: Signature = signature(&[Real, Int], &[Place::Register], "double f(double, int)");
static RL: Signature = signature(&[Real, Long], &[Place::Register], "double f(double, long)");
static IR: Signature = signature(&[Int, Real], &[Place::Register], "double f(int, double)");
static R_INT: Signature = signature(&[Real, Pointer], &[Place::Register], "double f(double, int *)");
static RR_INT: Signature = signature(&[Real, Real, Pointer], &[Place::Register], "double f(double, double, int *)");
static R_REAL: Signature =
    signature(&[Real, Pointer], &[Place::Register, Place::Pointer(0)], "double f(double, double *)");
static R_REAL_REAL: Signature =
    signature(&[Real, Pointer, Pointer], &[Place::Pointer(0), Place::Pointer(1)], "void f(double, double *, double *)");

use Rule::{
    Binary, BinaryByExactValue, BinaryByValue, Constant, Order, Pair, Scale, Ternary, Unary, UnaryByExactValue,
    UnaryByValue,
};

/// Names that are the double's with an `f` at the end, or both names, and the other fields in order.
macro_rules! line {
    (($double:literal, $float:expr), $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        Line {
            double: $double,
            float: $float,
            signature: &$signature,
            rule: $rule,
            formula: $formula,
            special: $special,
        }
    };
    ($double:literal, $signature:ident, $rule:expr, $formula:literal, $special:literal) => {
        line!(($double, concat!($double, "f")), $signature, $rule, $formula, $special)
    };
}

/// All lines, sorted by name.
pub fn lines() -> &'static [Line] {
    &LINES
}

/// Functions (without the `f` of the binary32 ones) that older glibc has for `-ffinite-math-only` as `__NAME_finite`.
pub(super) const FINITE: [&str; 26] = [
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
    "log",
    "log10",
    "log2",
    "pow",
    "remainder",
    "sinh",
    "sqrt",
    "y0",
    "y1",
    "yn",
    "lgamma_r",
    "lgammaf_r",
];

#[rustfmt::skip]
static LINES: [Line; 72] = [
    line!("acos", R, Unary(rules::acos), "−1/√(1−x²)", "±1: −∞"),
    line!("acosh", R, Unary(rules::acosh), "1/√(x²−1)", "1: ∞"),
    line!("asin", R, Unary(rules::asin), "1/√(1−x²)", "±1: ∞"),
    line!("asinh", R, Unary(rules::asinh), "1/√(1+x²)", ""),
    line!("atan", R, Unary(rules::atan), "1/(1+x²)", ""),
    line!("atan2", RR, Binary(rules::atan2), "∂x: y/(x²+y²), ∂y: −x/(x²+y²)", "(0, 0): NaN, NaN (derivatives are unbounded around it); an infinite argument: 0, 0"),
    line!("atanh", R, Unary(rules::atanh), "1/(1−x²)", "±1: ∞"),
    line!("cbrt", R, UnaryByValue { value: libm::cbrt, partial: rules::cbrt }, "1/(3·f²)", "0: ∞"),
    line!("ceil", R, Constant, "0", "integers: 0"),
    line!("copysign", RR, Binary(rules::copysign), "∂x: 1 if x and y have the same sign, else −1, ∂y: 0", "signs of zeros count"),
    line!("cos", R, Unary(rules::cos), "−sin x", ""),
    line!("cosh", R, Unary(rules::cosh), "sinh x", ""),
    line!("drem", RR, BinaryByExactValue(rules::remainder), "as remainder", ""),
    line!("erf", R, Unary(special::erf), "2/√π·exp(−x²)", ""),
    line!("erfc", R, Unary(special::erfc), "−2/√π·exp(−x²)", ""),
    line!("exp", R, UnaryByValue { value: libm::exp, partial: rules::exp }, "f", ""),
    line!("exp10", R, UnaryByValue { value: libm::exp10, partial: rules::exp10 }, "f·ln 10", ""),
    line!("exp2", R, UnaryByValue { value: libm::exp2, partial: rules::exp2 }, "f·ln 2", ""),
    line!("expm1", R, Unary(rules::expm1), "exp x", ""),
    line!("fabs", R, Unary(rules::fabs), "1 if x > 0, −1 if x < 0", "0: 0"),
    line!("fdim", RR, Binary(rules::fdim), "∂x: 1, ∂y: −1 if x > y, else 0, 0", "x = y: 0, 0"),
    line!("floor", R, Constant, "0", "integers: 0"),
    line!("fma", RRR, Ternary(rules::fma), "∂x: y, ∂y: x, ∂z: 1", ""),
    line!("fmax", RR, Binary(rules::fmax), "1 for the larger argument, 0 for the other", "x = y: 1, 0; one NaN: 1 for the other argument"),
    line!("fmaximum", RR, Binary(rules::fmax), "as fmax", "x = y: 1, 0"),
    line!("fmaximum_num", RR, Binary(rules::fmax), "as fmax", "as fmax"),
    line!("fmaxmag", RR, Binary(rules::fmaxmag), "1 for the argument of larger magnitude, 0 for the other", "equal magnitudes: as fmax; one NaN: 1 for the other argument"),
    line!("fmin", RR, Binary(rules::fmin), "1 for the smaller argument, 0 for the other", "x = y: 1, 0; one NaN: 1 for the other argument"),
    line!("fminimum", RR, Binary(rules::fmin), "as fmin", "x = y: 1, 0"),
    line!("fminimum_num", RR, Binary(rules::fmin), "as fmin", "as fmin"),
    line!("fminmag", RR, Binary(rules::fminmag), "1 for the argument of smaller magnitude, 0 for the other", "equal magnitudes: as fmin; one NaN: 1 for the other argument"),
    line!("fmod", RR, BinaryByExactValue(rules::remainder), "∂x: 1, ∂y: −n where f = x − n·y", "multiples of y: the same, with the n of f = 0; y infinite: 1, 0"),
    line!("frexp", R_INT, UnaryByExactValue(rules::significand), "2^−n where f = x·2^−n", "0 and ±∞: 1; where 2^−n overflows (subnormal x): ∞"),
    line!("gamma", R, Unary(special::lgamma), "as lgamma", "as lgamma"),
    line!("hypot", RR, BinaryByValue { value: libm::hypot, partial: rules::hypot }, "∂x: x/f, ∂y: y/f", "(0, 0): 0, 0; one argument infinite: ±1 for it, 0 for the other; both: NaN, NaN"),
    line!("j0", R, Unary(special::j0), "−J₁(x)", ""),
    line!("j1", R, Unary(special::j1), "(J₀(x) − J₂(x))/2", ""),
    line!("jn", IR, Order(special::jn), "(Jₙ₋₁(x) − Jₙ₊₁(x))/2", ""),
    line!("ldexp", RI, Scale(rules::ldexp), "2^n", "0 for n < −1074, ∞ for n > 1023"),
    line!("lgamma", R, Unary(special::lgamma), "ψ(x)", "0: −∞, −0: ∞; negative integers: NaN"),
    line!(("lgamma_r", "lgammaf_r"), R_INT, Unary(special::lgamma), "as lgamma", "as lgamma"),
    line!("log", R, Unary(rules::log), "1/x", "0 and −0: ∞"),
    line!("log10", R, Unary(rules::log10), "1/(x·ln 10)", "0 and −0: ∞"),
    line!("log1p", R, Unary(rules::log1p), "1/(1+x)", "−1: ∞"),
    line!("log2", R, Unary(rules::log2), "1/(x·ln 2)", "0 and −0: ∞"),
    line!("logb", R, Constant, "0", "powers of two: 0"),
    line!("modf", R_REAL, Pair(rules::modf), "fraction: 1, integer: 0", "integers and ±∞: the same"),
    line!("nearbyint", R, Constant, "0", "half-integers: 0"),
    line!("nextafter", RR, Binary(rules::nextafter), "∂x: 1, ∂y: 0", "x = y: the same"),
    line!("nextdown", R, Unary(rules::nextup), "1", ""),
    line!("nextup", R, Unary(rules::nextup), "1", ""),
    line!("pow", RR, BinaryByValue { value: libm::pow, partial: rules::pow }, "∂x: y·x^(y−1), ∂y: f·ln x", "y = 0: ∂x is 0, also at x = 0; x = 0: ∂y is 0 for y ≥ 0, −∞ for y < 0, and ∂x is 0 for y > 1, 1 for y = 1, ∞ for 0 < y < 1; x < 0: ∂y is NaN; f = 0 for x > 0: ∂y is 0"),
    line!("pow10", R, UnaryByValue { value: libm::exp10, partial: rules::exp10 }, "as exp10", ""),
    line!("remainder", RR, BinaryByExactValue(rules::remainder), "∂x: 1, ∂y: −n where f = x − n·y", "half-way between multiples of y: the same, with the n of f; y infinite: 1, 0"),
    line!("remquo", RR_INT, BinaryByExactValue(rules::remainder), "as remainder", "as remainder"),
    line!("rint", R, Constant, "0", "half-integers: 0"),
    line!("round", R, Constant, "0", "half-integers: 0"),
    line!("roundeven", R, Constant, "0", "half-integers: 0"),
    line!("scalbln", RL, Scale(rules::ldexp), "as ldexp", "as ldexp"),
    line!("scalbn", RI, Scale(rules::ldexp), "as ldexp", "as ldexp"),
    line!("significand", R, UnaryByExactValue(rules::significand), "as frexp", "as frexp"),
    line!("sin", R, Unary(rules::sin), "cos x", ""),
    line!("sincos", R_REAL_REAL, Pair(rules::sincos), "sine: cos x, cosine: −sin x", ""),
    line!("sinh", R, Unary(rules::sinh), "cosh x", ""),
    line!("sqrt", R, UnaryByValue { value: libm::sqrt, partial: rules::sqrt }, "1/(2·f)", "0 and −0: ∞"),
    line!("tan", R, UnaryByValue { value: libm::tan, partial: rules::tan }, "1+f²", ""),
    line!("tanh", R, Unary(rules::tanh), "1/cosh² x", ""),
    line!("tgamma", R, UnaryByValue { value: libm::tgamma, partial: special::tgamma }, "f·ψ(x)", "0 and −0: −∞; where f underflows to 0: 0"),
    line!("trunc", R, Constant, "0", "integers: 0"),
    line!("y0", R, Unary(special::y0), "−Y₁(x)", "0: ∞"),
    line!("y1", R, Unary(special::y1), "(Y₀(x) − Y₂(x))/2", "0: ∞"),
    line!("yn", IR, Order(special::yn), "(Yₙ₋₁(x) − Yₙ₊₁(x))/2", "0: ∞, for odd n < 0 −∞"),
];
