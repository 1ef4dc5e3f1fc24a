//! The one table from which programs, values and expected gradients come.

/// A function of a few real inputs, as C or C++ code and with its gradient.
pub struct Formula {
    /// Name of the case and of the C function.
    pub name: &'static str,
    /// Where the gradient is taken. Each number is a binary32 one, so that both precisions start from the same point.
    pub inputs: &'static [f64],
    /// Definitions outside the function.
    pub helpers: &'static str,
    /// Body of `REAL f(REAL *x)`. `REAL` is `float` or `double`, `M(sin)` the math function for it, `BITS` and `SIGN` the unsigned
    /// integer of its size and the sign bit in it.
    pub body: &'static str,
    /// Derivative with respect to each input at a point.
    pub gradient: fn(&[f64]) -> Vec<f64>,
}

/// A formula that needs no helpers.
pub const fn formula(
    name: &'static str,
    inputs: &'static [f64],
    body: &'static str,
    gradient: fn(&[f64]) -> Vec<f64>,
) -> Formula {
    Formula { name, inputs, helpers: "", body, gradient }
}

impl Formula {
    /// The same with definitions outside the function.
    pub const fn with(mut self, helpers: &'static str) -> Self {
        self.helpers = helpers;
        self
    }
}

/// Formulas in C.
pub fn c() -> Vec<Formula> {
    [
        crate::arithmetic::formulas(),
        crate::functions::formulas(),
        crate::memory::formulas(),
        crate::control::formulas(),
        crate::wide::formulas(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Formulas in C++.
pub fn cpp() -> Vec<Formula> {
    crate::classes::formulas()
}
