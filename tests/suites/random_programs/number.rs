//! What a variable of a random program holds: its value and its derivatives, as they should be.

use crate::format::Format;

/// Inputs of each program.
pub const INPUTS: usize = 3;

/// Numbers have sizes between this and its reciprocal, so that no operation overflows or loses its digits.
const LARGEST: f64 = 128.0;
/// Contributions to a derivative may grow to this.
const LARGEST_DERIVATIVE: f64 = 1e5;
/// Relative error of a variable, in rounding units of its format, that is still taken: branches and partial derivatives depend on values.
const UNITS: f64 = 100.0;

/// A value with its derivatives with respect to the inputs, in binary64 whatever the variable's format is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number {
    /// The value.
    pub value: f64,
    /// Derivative with respect to each input.
    pub gradient: [f64; INPUTS],
    /// What the contributions to a derivative sum up to without their signs. Rounding errors are in relation to it: contributions may cancel.
    pub scale: f64,
    /// What rounding has changed the value by at most, to first order.
    error: f64,
}

impl Number {
    /// A number without derivatives.
    pub fn constant(value: f64) -> Self {
        Self { value, ..Self::default() }
    }

    /// The input with the given position.
    pub fn input(value: f64, position: usize) -> Self {
        let mut gradient = [0.0; INPUTS];
        gradient[position] = 1.0;
        Self { value, gradient, scale: 1.0, error: 0.0 }
    }

    /// The result of an operation in a format, by the chain rule; `None` if it is too large, too small or too inexact to go on with.
    pub fn result(value: f64, partials: &[f64], operands: &[Self], format: Format) -> Option<Self> {
        let mut result = Self { value, error: value.abs() * format.rounding(), ..Self::default() };
        for (partial, operand) in partials.iter().zip(operands) {
            for (sum, derivative) in result.gradient.iter_mut().zip(&operand.gradient) {
                *sum += partial * derivative;
            }
            result.scale += partial.abs() * operand.scale;
            result.error += partial.abs() * operand.error;
        }
        let moderate = (1.0 / LARGEST..LARGEST).contains(&value.abs()) && result.scale < LARGEST_DERIVATIVE;
        (moderate && result.error < UNITS * Format::Float.rounding() * value.abs()).then_some(result)
    }

    /// The number in another format.
    pub fn converted(self, format: Format) -> Option<Self> {
        Self::result(self.value, &[1.0], &[self], format)
    }
}
