//! How partial derivatives are computed: the shapes of formulas.

use super::complex::Complex;
use super::{Call, MAX_REALS, MathFunction, Partials, Width};

/// How a function's partial derivatives are computed.
///
/// Rules "by value" need the result. If the function's result is a binary32 number, it has too few bits: `value` computes it anew.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// The results do not vary: integers, exponents.
    Constant,
    /// One argument, one result.
    Unary(fn(f64) -> f64),
    /// One argument, and the result is needed.
    UnaryByValue { value: fn(f64) -> f64, partial: fn(f64, f64) -> f64 },
    /// One argument, and the result is needed, which is exact in all formats.
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
    /// A real and an integer argument, and the result is needed.
    Integer { value: fn(f64, i64) -> f64, partial: fn(f64, i64, f64) -> f64 },
    /// A holomorphic function of one complex argument.
    Holomorphic(fn(Complex) -> Complex),
    /// The same, and the result is needed.
    HolomorphicByValue { value: fn(Complex) -> Complex, partial: fn(Complex) -> Complex },
    /// A holomorphic function of two complex arguments, and the result is needed.
    HolomorphicBinary { value: fn(Complex, Complex) -> Complex, partial: fn(Complex, Complex, Complex) -> [Complex; 2] },
    /// A function of one complex argument that is linear as a function of two real ones: partials of the real part, of the imaginary part.
    ComplexLinear(fn(Complex) -> [[f64; 2]; 2]),
}

impl Rule {
    pub(super) fn partials(self, function: &MathFunction, call: &Call) -> Partials {
        let [x, y, z, _] = call.reals;
        let [a, b] = complex(call);
        let result = call.results[0];
        let narrow = function.result_width == Width::Binary32;
        let one = |partial: f64| [[partial, 0.0, 0.0, 0.0], [0.0; MAX_REALS]];
        let two = |[by_x, by_y]: [f64; 2]| [[by_x, by_y, 0.0, 0.0], [0.0; MAX_REALS]];
        match self {
            Rule::Constant => [[0.0; MAX_REALS]; 2],
            Rule::Unary(partial) => one(partial(x)),
            Rule::UnaryByValue { value, partial } => one(partial(x, if narrow { value(x) } else { result })),
            Rule::UnaryByExactValue(partial) => one(partial(x, result)),
            Rule::Pair(partials) => partials(x).map(|by_x| [by_x, 0.0, 0.0, 0.0]),
            Rule::Binary(partials) => two(partials(x, y)),
            Rule::BinaryByValue { value, partial } => two(partial(x, y, if narrow { value(x, y) } else { result })),
            Rule::BinaryByExactValue(partials) => two(partials(x, y, result)),
            Rule::Ternary(partials) => {
                let [by_x, by_y, by_z] = partials(x, y, z);
                [[by_x, by_y, by_z, 0.0], [0.0; MAX_REALS]]
            }
            Rule::Scale(partial) => one(partial(function.integer(call))),
            Rule::Order(partial) => one(partial(function.integer(call), x)),
            Rule::Integer { value, partial } => {
                let n = function.integer(call);
                one(partial(x, n, if narrow { value(x, n) } else { result }))
            }
            Rule::Holomorphic(derivative) => holomorphic([derivative(a), Complex::ZERO]),
            Rule::HolomorphicByValue { value, partial } => {
                holomorphic([partial(if narrow { value(a) } else { value_of(call) }), Complex::ZERO])
            }
            Rule::HolomorphicBinary { value, partial } => {
                holomorphic(partial(a, b, if narrow { value(a, b) } else { value_of(call) }))
            }
            Rule::ComplexLinear(partials) => partials(a).map(|[by_x, by_y]| [by_x, by_y, 0.0, 0.0]),
        }
    }
}

fn complex(call: &Call) -> [Complex; 2] {
    let [x, y, z, w] = call.reals;
    [Complex::new(x, y), Complex::new(z, w)]
}

fn value_of(call: &Call) -> Complex {
    Complex::new(call.results[0], call.results[1])
}

/// The Cauchy-Riemann equations: with f′ = u + i·v the real part has the partials u, −v and the imaginary part v, u.
fn holomorphic([a, b]: [Complex; 2]) -> Partials {
    [[a.re, -a.im, b.re, -b.im], [a.im, a.re, b.im, b.re]]
}
