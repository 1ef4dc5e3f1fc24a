//! Functions of a few real inputs with their gradients: tables of them become client programs in several languages, whose derivatives are compared with
//! the table.
//!
//! All formulas of a program are in one recording. Each output has its own bar value, so that a contribution that ends up in another formula's inputs
//! shows. If the whole program fails under the tool, each formula is recorded by itself, so that the failure is put down to the right ones.

mod cases;
mod combination;
mod program;

pub use cases::{check_table, compare};
pub use combination::{Combination, Language, Real};

/// A function of a few real inputs, as C, C++ or Fortran code and with its gradient.
#[derive(Clone)]
pub struct Formula {
    /// Name of the case and of the C function.
    pub name: &'static str,
    /// Where the gradient is taken. Each number is a binary32 one, so that both precisions start from the same point.
    pub inputs: &'static [f64],
    /// Definitions outside the function.
    pub helpers: &'static str,
    /// Body of `REAL f(REAL *x)`. `REAL` is `float`, `double` or `long double`, `M(sin)` the math function for it; `BITS`, `SIGN` and
    /// `MANTISSA` are the unsigned integer of its size, the sign bit in it and the number of bits below the exponent.
    ///
    /// In Fortran, declarations and statements of `function f(x) result(y)` with `real(rk) :: x(*), y`.
    pub body: &'static str,
    /// What the tool's derivative with respect to each input is at a point.
    pub gradient: fn(&[f64]) -> Vec<f64>,
    /// It exists for `long double` as well.
    pub extended: bool,
    /// `gradient` is the function's derivative. Where it is not, the documentation says why.
    pub differentiates: bool,
    /// Relative error of what the formula itself computes, beyond rounding: of a quadrature, of an iteration.
    pub error: f64,
    /// Number of terms of a long sum, each of which is rounded: errors of either sign add up to the root of it.
    pub terms: u32,
}

/// A formula that needs no helpers.
pub const fn formula(
    name: &'static str,
    inputs: &'static [f64],
    body: &'static str,
    gradient: fn(&[f64]) -> Vec<f64>,
) -> Formula {
    Formula { name, inputs, helpers: "", body, gradient, extended: true, differentiates: true, error: 0.0, terms: 1 }
}

impl Formula {
    /// The same with definitions outside the function.
    pub const fn with(mut self, helpers: &'static str) -> Self {
        self.helpers = helpers;
        self
    }

    /// The same only for binary32 and binary64: it is about their bit patterns or their vector instructions.
    pub const fn not_extended(mut self) -> Self {
        self.extended = false;
        self
    }

    /// The same with a `gradient` that is not the function's derivative but what the tool documents to compute.
    pub const fn as_documented(mut self) -> Self {
        self.differentiates = false;
        self
    }

    /// The same with a sum of so many terms.
    pub const fn with_terms(mut self, terms: u32) -> Self {
        self.terms = terms;
        self
    }

    /// The same with a method of finite accuracy.
    pub const fn within(mut self, error: f64) -> Self {
        self.error = error;
        self
    }
}
