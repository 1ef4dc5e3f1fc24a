//! Partial derivatives, by the formulas that `docs/math-functions.md` shows.
//!
//! `x`, `y`, `z` are the arguments in order, `f` is the function's value. Cancellation is avoided where the derivative itself is
//! well-conditioned; `crates/ad/tests/math_reference.rs` checks a bound of 4 units in the last place. Arguments for which the result is NaN need no
//! care here: [`super::MathFunction::partials`] makes their partials NaN.

pub(super) mod c23;
pub(super) mod complex;
pub(super) mod elementary;
pub(super) mod narrowing;
pub(super) mod piecewise;
pub(super) mod special;
