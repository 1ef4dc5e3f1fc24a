//! What x87's instructions compute, and the derivatives.

use super::{Extended, Session};

macro_rules! operations {
    ($( $(#[$doc:meta])* $variant:ident $name:literal $rule:expr; )*) => {
        /// An operation on x87 registers. `a` and `b` are its operands in the order of the formula.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $( $(#[$doc])* $variant, )*
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Operation] = &[$(Operation::$variant),*];

            /// The name used in dumps.
            pub const fn name(self) -> &'static str {
                match self { $( Operation::$variant => $name, )* }
            }

            /// Partial derivatives with respect to both operands, at their values before the operation, in 80 bits.
            ///
            /// Where none exists they are what the formula yields: infinite or NaN.
            pub fn partials(self, session: &Session, a: Extended, b: Extended) -> [Extended; 2] {
                type Rule = fn(&Session, Extended, Extended) -> [Extended; 2];
                match self {
                    $( Operation::$variant => {
                        const RULE: Rule = $rule;
                        RULE(session, a, b)
                    } )*
                }
            }
        }
    };
}

const ONE: Extended = Extended::ONE;
const ZERO: Extended = Extended::ZERO;

operations! {
    /// `a + b`
    Add "add" |_, _, _| [ONE, ONE];
    /// `a - b`
    Subtract "subtract" |_, _, _| [ONE, ONE.negated()];
    /// `a * b`
    Multiply "multiply" |_, a, b| [b, a];
    /// `a / b`
    Divide "divide" |s, a, b| [s.divide(ONE, b), s.divide(s.divide(a, b), b).negated()];
    /// `sqrt(a)`
    SquareRoot "square-root" |s, a, _| [s.divide(Extended::from_f64(0.5), s.sqrt(a)), ZERO];
    /// `|a|`; the derivative at zero is by the sign, as for the same operation on the bits of other formats.
    Absolute "absolute" |_, a, _| [if a.is_negative() { ONE.negated() } else { ONE }, ZERO];
    /// `-a`
    Negate "negate" |_, _, _| [ONE.negated(), ZERO];
    /// `a * 2^n`, `n` being `b` rounded towards zero
    Scale "scale" |s, _, b| [s.scale(ONE, b), ZERO];
    /// `a - q b`, with the integer `q` that one step of `fprem` takes
    Remainder "remainder" |s, a, b| remainder(s, a, b, s.remainder(a, b));
    /// `a - q b`, with the integer `q` that one step of `fprem1` takes
    NearestRemainder "nearest-remainder" |s, a, b| remainder(s, a, b, s.nearest_remainder(a, b));
    /// `a / 2^e`, the significand
    Significand "significand" |s, a, _| [if a.is_zero() { ONE } else { s.divide(s.significand(a), a) }, ZERO];
    /// `2^a - 1`
    Exp2Minus1 "exp2-minus-1" |s, a, _| [s.times_ln2(s.add(s.exp2m1(a), ONE)), ZERO];
    /// `b log2(a)`
    YLog2X "y-log2-x" |s, a, b| [s.divide(b, s.times_ln2(a)), s.y_log2_x(a, ONE)];
    /// `b log2(1 + a)`
    YLog2XPlus1 "y-log2-x-plus-1" |s, a, b| [s.divide(b, s.times_ln2(s.add(a, ONE))), s.y_log2_xp1(a, ONE)];
    /// `atan(b / a)`, in the quadrant of the point (a, b)
    ArcTangent "arc-tangent" arc_tangent;
    /// `sin(a)`; `a` itself where the processor leaves it as it is
    Sine "sine" |s, a, _| [if in_range(s, a) { s.cos(a) } else { ONE }, ZERO];
    /// `cos(a)`; `a` itself where the processor leaves it as it is
    Cosine "cosine" |s, a, _| [if in_range(s, a) { s.sin(a).negated() } else { ONE }, ZERO];
    /// `tan(a)`; `a` itself where the processor leaves it as it is
    Tangent "tangent" tangent;
}

/// `q` is `(a - r) / b` up to rounding, and an integer.
fn remainder(s: &Session, a: Extended, b: Extended, result: Extended) -> [Extended; 2] {
    [ONE, s.divide(s.subtract(a, result), b).negated()]
}

/// `(-b, a) / (a^2 + b^2)`, without overflow of the squares.
fn arc_tangent(s: &Session, a: Extended, b: Extended) -> [Extended; 2] {
    let is_flat =
        !s.subtract(Extended { high: a.high & 0x7fff, ..a }, Extended { high: b.high & 0x7fff, ..b }).is_negative();
    let (larger, smaller) = if is_flat { (a, b) } else { (b, a) };
    let ratio = s.divide(smaller, larger);
    let of_smaller = s.divide(ONE, s.multiply(larger, s.add(s.multiply(ratio, ratio), ONE)));
    let of_larger = s.multiply(ratio, of_smaller);
    if is_flat { [of_larger.negated(), of_smaller] } else { [of_smaller.negated(), of_larger] }
}

fn tangent(s: &Session, a: Extended, _: Extended) -> [Extended; 2] {
    if !in_range(s, a) {
        return [ONE, ZERO];
    }
    let tangent = s.tan(a);
    [s.add(s.multiply(tangent, tangent), ONE), ZERO]
}

/// Whether the processor computes trigonometric functions of `a`.
pub fn in_range(session: &Session, a: Extended) -> bool {
    session.out_of_range(a).is_zero()
}

/// Whether a number is a constant for rounding by addition (see `crate::rounding`) in the precision of this control word: 2^p, or 1.5·2^k around
/// that, for a significand of p + 1 bits, the last of which do not matter.
pub fn is_rounding_constant(value: Extended, control: u16) -> bool {
    let (bits, finest) = match control >> 8 & 3 {
        0 => (23, 16),
        2 => (52, 36),
        _ => (63, 47),
    };
    let is_near = |significand: u64| value.significand.abs_diff(significand) < 1 << 32;
    is_near(1 << 63) && value.exponent() == bits || is_near(3 << 62) && (finest..=bits + 2).contains(&value.exponent())
}

/// Whether adding a constant to `sum`, or subtracting one from the other (`subtracts`), can undo an addition of that constant.
pub fn cancels(subtracts: bool, sum: Extended, constant: Extended) -> bool {
    let signs_differ = (sum.high ^ constant.high) & 0x8000 != 0;
    signs_differ != subtracts && (sum.exponent() - constant.exponent()).abs() <= 1
}

/// `result / operand` of two numbers with the same significand, if binary64 can hold that: ±2^k. `None` for infinities and NaN.
pub fn ratio(operand: Extended, result: Extended) -> Option<f64> {
    let field = |value: Extended| i32::from(value.high & 0x7fff);
    let sign = if (operand.high ^ result.high) & 0x8000 == 0 { 1.0 } else { -1.0 };
    if field(operand) == field(result) {
        return Some(sign);
    }
    if [operand, result].into_iter().any(|value| field(value) == 0x7fff) {
        return None;
    }
    // Denormal numbers have the exponent of the smallest normal ones.
    let power = field(result).max(1) - field(operand).max(1);
    (-1022..=1023).contains(&power).then(|| sign * f64::from_bits(((power + 1023) as u64) << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_derivatives_agree_with_difference_quotients() {
        type Function = fn(f64, f64) -> f64;
        let functions: &[(Operation, Function, [f64; 2])] = &[
            (Operation::Add, |a, b| a + b, [1.5, -2.5]),
            (Operation::Subtract, |a, b| a - b, [1.5, -2.5]),
            (Operation::Multiply, |a, b| a * b, [1.5, -2.5]),
            (Operation::Divide, |a, b| a / b, [1.5, -2.5]),
            (Operation::SquareRoot, |a, _| a.sqrt(), [1.7, 0.0]),
            (Operation::Absolute, |a, _| a.abs(), [-1.7, 0.0]),
            (Operation::Negate, |a, _| -a, [-1.7, 0.0]),
            (Operation::Scale, |a, b| a * b.trunc().exp2(), [1.7, -3.6]),
            (Operation::Remainder, |a, b| a % b, [-11.3, 2.1]),
            (Operation::NearestRemainder, |a, b| a - (a / b).round_ties_even() * b, [-11.9, 2.1]),
            (Operation::Significand, |a, _| a / 8.0, [-11.9, 0.0]),
            (Operation::Exp2Minus1, |a, _| a.exp2() - 1.0, [-0.3, 0.0]),
            (Operation::YLog2X, |a, b| b * a.log2(), [0.3, -1.9]),
            (Operation::YLog2XPlus1, |a, b| b * a.ln_1p() / std::f64::consts::LN_2, [0.1, -1.9]),
            (Operation::ArcTangent, |a, b| b.atan2(a), [-0.3, -1.9]),
            (Operation::ArcTangent, |a, b| b.atan2(a), [2.3, -1.9]),
            (Operation::Sine, |a, _| a.sin(), [2.3, 0.0]),
            (Operation::Cosine, |a, _| a.cos(), [2.3, 0.0]),
            (Operation::Tangent, |a, _| a.tan(), [0.7, 0.0]),
        ];
        let session = Session::begin();
        for &(operation, function, [a, b]) in functions {
            let h = 1e-6;
            let expected = [
                (function(a + h, b) - function(a - h, b)) / (2.0 * h),
                (function(a, b + h) - function(a, b - h)) / (2.0 * h),
            ];
            let found =
                operation.partials(&session, Extended::from_f64(a), Extended::from_f64(b)).map(Extended::to_f64);
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-7 * expected.abs().max(1.0), "{operation:?}: {found} {expected}");
            }
        }
        assert!(Operation::ALL.iter().all(|operation| functions.iter().any(|(tested, ..)| tested == operation)));
    }

    #[test]
    fn what_the_processor_leaves_alone_is_a_copy() {
        let session = Session::begin();
        for operation in [Operation::Sine, Operation::Cosine, Operation::Tangent] {
            assert_eq!(operation.partials(&session, Extended::from_f64(1e30), ZERO)[0], ONE);
        }
    }

    #[test]
    fn large_arguments_of_the_arc_tangent() {
        let session = Session::begin();
        let huge = Extended { significand: 1 << 63, high: 16383 + 10_000 };
        let [first, second] = Operation::ArcTangent.partials(&session, huge, huge);
        assert_eq!((first.exponent(), second.exponent()), (-10_001, -10_001));
        assert!(first.is_negative() && !second.is_negative());
    }

    #[test]
    fn ratios_of_numbers_with_one_significand() {
        let of = |value: f64| Extended::from_f64(value);
        assert_eq!(ratio(of(1.25), of(-1.25)), Some(-1.0));
        assert_eq!(ratio(of(1.25), of(-1.25 * 2f64.powi(77))), Some(-2f64.powi(77)));
        assert_eq!(ratio(of(f64::INFINITY), of(1.0)), None);
        let smallest = Extended { significand: 1 << 63, high: 1 };
        assert_eq!(ratio(smallest, Extended { high: 0, ..smallest }), Some(1.0));
        assert_eq!(ratio(of(1.25), Extended { high: 1, ..of(1.25) }), None);
    }

    #[test]
    fn rounding_constants_depend_on_the_precision() {
        let of = Extended::from_f64;
        let (extended, double) = (0x37f, 0x27f);
        assert!(
            is_rounding_constant(of(2f64.powi(63)), extended)
                && is_rounding_constant(of(-1.5 * 2f64.powi(63)), extended)
        );
        assert!(
            !is_rounding_constant(of(1.5 * 2f64.powi(40)), extended)
                && !is_rounding_constant(of(2f64.powi(62)), extended)
        );
        assert!(is_rounding_constant(of(2f64.powi(52)), double) && !is_rounding_constant(of(2f64.powi(63)), double));
    }
}
