//! The operations that a tape can hold, and their differentiation rules.
//!
//! The table below is the only place that knows an operation: its code in a record, its name in dumps, how many operands it has,
//! which operand values each partial derivative needs, and the partial derivatives themselves. They are computed in binary64 from the
//! values *before* the operation, when the tape is evaluated or exported, never while the program runs.

/// Set in an operation code when the operand values are binary32.
pub const BINARY32: u8 = 0x40;

/// The part of an operation code that names the operation.
pub const OPERATION_MASK: u8 = 0x3f;

/// Which operand values a partial derivative needs: a set of [`FIRST`] and [`SECOND`].
pub type Needs = u8;

/// No operand value.
pub const NOTHING: Needs = 0;
/// The first operand's value.
pub const FIRST: Needs = 1;
/// The second operand's value.
pub const SECOND: Needs = 2;
/// Both operand values.
pub const BOTH: Needs = FIRST | SECOND;

macro_rules! operations {
    ($( $(#[$doc:meta])* $code:literal $variant:ident $name:literal $operands:literal
        ($first_needs:ident: $first:expr) ($second_needs:ident: $second:expr); )*) => {
        /// An operation on the tape. The discriminant is its code in a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Operation {
            $( $(#[$doc])* $variant = $code, )*
        }

        impl Operation {
            /// All operations, in the order of their codes.
            pub const ALL: &[Operation] = &[$(Operation::$variant),*];

            /// The operation of a code (with or without [`BINARY32`]), or `None` for a code that names none.
            #[inline]
            pub const fn from_code(code: u8) -> Option<Operation> {
                match code & !BINARY32 {
                    $( $code => Some(Operation::$variant), )*
                    _ => None,
                }
            }

            /// The name used in dumps and statistics.
            pub const fn name(self) -> &'static str {
                match self { $( Operation::$variant => $name, )* }
            }

            /// Number of operands that have an index: 0, 1 or 2.
            #[inline]
            pub const fn operands(self) -> u8 {
                match self { $( Operation::$variant => $operands, )* }
            }

            /// The operand values that the partial derivatives with respect to the first and to the second operand need.
            #[inline]
            pub const fn needs(self) -> [Needs; 2] {
                match self { $( Operation::$variant => [$first_needs, $second_needs], )* }
            }

            /// Partial derivatives with respect to both operands, at the operand values `a` and `b`.
            ///
            /// A partial derivative is meaningful only if the values that it [`needs`](Self::needs) are given.
            #[inline]
            pub fn partials(self, a: f64, b: f64) -> [f64; 2] {
                type Rule = fn(f64, f64) -> f64;
                match self {
                    $( Operation::$variant => {
                        const RULES: [Rule; 2] = [$first, $second];
                        [RULES[0](a, b), RULES[1](a, b)]
                    } )*
                }
            }
        }
    };
}

operations! {
    /// An unused slot: an index that belongs to no value. All-zero bytes.
    0 None "none" 0 (NOTHING: |_, _| 0.0) (NOTHING: |_, _| 0.0);
    /// An independent variable.
    1 Input "input" 0 (NOTHING: |_, _| 0.0) (NOTHING: |_, _| 0.0);
    /// A dependent variable: a copy with an index of its own.
    2 Output "output" 1 (NOTHING: |_, _| 1.0) (NOTHING: |_, _| 0.0);
    /// A copy, or a conversion between floating-point formats.
    3 Copy "copy" 1 (NOTHING: |_, _| 1.0) (NOTHING: |_, _| 0.0);
    /// `a + b`
    4 Add "add" 2 (NOTHING: |_, _| 1.0) (NOTHING: |_, _| 1.0);
    /// `a - b`
    5 Sub "sub" 2 (NOTHING: |_, _| 1.0) (NOTHING: |_, _| -1.0);
    /// `a * b`
    6 Mul "mul" 2 (SECOND: |_, b| b) (FIRST: |a, _| a);
    /// `a / b`
    7 Div "div" 2 (SECOND: |_, b| 1.0 / b) (BOTH: |a, b| -(a / b) / b);
    /// `sqrt(a)`
    8 Sqrt "sqrt" 1 (FIRST: |a, _| 0.5 / a.sqrt()) (NOTHING: |_, _| 0.0);
    /// `a < b ? a : b`, as x86 defines it: the second operand if the two are equal or unordered.
    9 Min "min" 2 (BOTH: |a, b| selects(a < b)) (BOTH: |a, b| selects(!matches(a < b)));
    /// `a > b ? a : b`, as x86 defines it: the second operand if the two are equal or unordered.
    10 Max "max" 2 (BOTH: |a, b| selects(a > b)) (BOTH: |a, b| selects(!matches(a > b)));
    /// `-a`
    11 Negate "negate" 1 (NOTHING: |_, _| -1.0) (NOTHING: |_, _| 0.0);
    /// Any operation whose partial derivatives are known already: value 1 and value 2 are the partial derivatives with respect to the
    /// two operands, always in binary64.
    12 Partials "partials" 2 (FIRST: |a, _| a) (SECOND: |_, b| b);
    /// `1 / a`, also in its approximations (`rcpps`).
    13 Reciprocal "reciprocal" 1 (FIRST: |a, _| -1.0 / (a * a)) (NOTHING: |_, _| 0.0);
    /// `1 / sqrt(a)`, also in its approximations (`rsqrtps`).
    14 ReciprocalSqrt "reciprocal-sqrt" 1 (FIRST: |a, _| -0.5 / (a * a.sqrt())) (NOTHING: |_, _| 0.0);
}

/// Keeps comparisons in the table from being read as negatable: `!(a < b)` is wanted, `a >= b` would be wrong for NaN.
#[inline]
const fn matches(condition: bool) -> bool {
    condition
}

/// The partial derivative with respect to an operand that is selected or not.
#[inline]
fn selects(selected: bool) -> f64 {
    f64::from(u8::from(selected))
}

impl Operation {
    /// The code of this operation in a record.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The operand values that must be kept, given which operands are active.
    #[inline]
    pub const fn needed(self, first_active: bool, second_active: bool) -> Needs {
        let [first, second] = self.needs();
        self.shown() | (if first_active { first } else { NOTHING }) | (if second_active { second } else { NOTHING })
    }

    /// The values that are kept although no partial derivative needs them: a declared variable's own value, as its first operand value,
    /// for the user to see.
    const fn shown(self) -> Needs {
        match self {
            Operation::Input | Operation::Output => FIRST,
            _ => NOTHING,
        }
    }

    /// Bytes of an operand value, for operations with and without [`BINARY32`].
    #[inline]
    pub const fn value_bytes(self, binary32: bool) -> u8 {
        if binary32 && !matches!(self, Operation::Partials) { 4 } else { 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense_and_leave_the_format_bit_free() {
        for (position, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(usize::from(operation.code()), position);
            assert!(operation.code() < BINARY32);
            assert_eq!(Operation::from_code(operation.code()), Some(*operation));
            assert_eq!(Operation::from_code(operation.code() | BINARY32), Some(*operation));
        }
        assert_eq!(Operation::from_code(OPERATION_MASK), None);
        assert_eq!(Operation::from_code(0x80), None);
    }

    #[test]
    fn partial_derivatives_agree_with_difference_quotients() {
        type Function = fn(f64, f64) -> f64;
        let functions: &[(Operation, Function)] = &[
            (Operation::Output, |a, _| a),
            (Operation::Copy, |a, _| a),
            (Operation::Add, |a, b| a + b),
            (Operation::Sub, |a, b| a - b),
            (Operation::Mul, |a, b| a * b),
            (Operation::Div, |a, b| a / b),
            (Operation::Sqrt, |a, _| a.sqrt()),
            (Operation::Min, |a, b| if a < b { a } else { b }),
            (Operation::Max, |a, b| if a > b { a } else { b }),
            (Operation::Negate, |a, _| -a),
            (Operation::Reciprocal, |a, _| 1.0 / a),
            (Operation::ReciprocalSqrt, |a, _| 1.0 / a.sqrt()),
        ];
        for (operation, function) in functions {
            for (a, b) in [(1.25, 3.5), (2.75, 0.625), (0.5, -1.5)] {
                let h = 1e-6;
                let first = (function(a + h, b) - function(a - h, b)) / (2.0 * h);
                let second = (function(a, b + h) - function(a, b - h)) / (2.0 * h);
                let partials = operation.partials(a, b);
                assert!((partials[0] - first).abs() < 1e-8, "{operation:?} at {a}, {b}: {partials:?} {first}");
                assert!((partials[1] - second).abs() < 1e-8, "{operation:?} at {a}, {b}: {partials:?} {second}");
            }
        }
    }

    #[test]
    fn a_partial_derivative_depends_on_nothing_but_what_it_needs() {
        for operation in Operation::ALL {
            for (position, needs) in operation.needs().into_iter().enumerate() {
                let value = operation.partials(1.5, 2.5)[position];
                let garbled_a = if needs & FIRST == 0 { f64::NAN } else { 1.5 };
                let garbled_b = if needs & SECOND == 0 { f64::NAN } else { 2.5 };
                assert_eq!(operation.partials(garbled_a, garbled_b)[position], value, "{operation:?}");
            }
        }
    }

    #[test]
    fn minimum_and_maximum_take_the_second_operand_when_equal_or_unordered() {
        for operation in [Operation::Min, Operation::Max] {
            for (a, b) in [(1.0, 1.0), (0.0, -0.0), (f64::NAN, 1.0), (1.0, f64::NAN)] {
                assert_eq!(operation.partials(a, b), [0.0, 1.0]);
            }
        }
    }
}
