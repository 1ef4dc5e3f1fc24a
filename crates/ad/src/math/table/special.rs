//! Gamma, error and Bessel functions.

use super::super::Width;
use super::super::rule::Rule::{Order, Unary, UnaryByValue};
use super::super::rules::special;
use super::{IR, Line, Names, R, R_INT, line};

/// Fortran's intrinsic `erfc_scaled`, exp(x²)·erfc(x), in libgfortran.
const ERFC_SCALED: Names = Names::Exactly(&[
    ("_gfortran_erfc_scaled_r8", Width::Binary64),
    ("_gfortran_erfc_scaled_r4", Width::Binary32),
    ("_gfortran_erfc_scaled_r10", Width::Extended),
]);

#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line!(@ ERFC_SCALED, R, UnaryByValue { value: special::erfc_scaled_value, partial: special::erfc_scaled }, "2·x·f − 2/√π", ""),
    line!("erf", R, Unary(special::erf), "2/√π·exp(−x²)", ""),
    line!("erfc", R, Unary(special::erfc), "−2/√π·exp(−x²)", ""),
    line!("gamma", R, Unary(special::lgamma), "as lgamma", "as lgamma"),
    line!("j0", R, Unary(special::j0), "−J₁(x)", ""),
    line!("j1", R, Unary(special::j1), "(J₀(x) − J₂(x))/2", ""),
    line!("jn", IR, Order(special::jn), "(Jₙ₋₁(x) − Jₙ₊₁(x))/2", ""),
    line!("lgamma", R, Unary(special::lgamma), "ψ(x)", "0: −∞, −0: ∞; negative integers: NaN"),
    line!(("lgamma", "_r"), R_INT, Unary(special::lgamma), "as lgamma", "as lgamma"),
    line!("tgamma", R, UnaryByValue { value: libm::tgamma, partial: special::tgamma }, "f·ψ(x)", "0 and −0: −∞; where f underflows to 0: 0"),
    line!(("tgamma", "_r"), R_INT, UnaryByValue { value: libm::tgamma, partial: special::tgamma_magnitude }, "|f|·ψ(x)", "as tgamma"),
    line!("y0", R, Unary(special::y0), "−Y₁(x)", "0: ∞"),
    line!("y1", R, Unary(special::y1), "(Y₀(x) − Y₂(x))/2", "0: ∞"),
    line!("yn", IR, Order(special::yn), "(Yₙ₋₁(x) − Yₙ₊₁(x))/2", "0: ∞, for odd n < 0 −∞"),
];
