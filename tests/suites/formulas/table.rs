//! The tables from which programs, values and expected gradients come.

use derivgrind_tests::formula::Formula;

/// Formulas in C.
pub fn c() -> Vec<Formula> {
    [
        crate::arithmetic::formulas(),
        crate::functions::formulas(),
        crate::memory::formulas(),
        crate::control::formulas(),
        crate::bits::formulas(),
        crate::words::formulas(),
        crate::bytes::formulas(),
        crate::vectors::formulas(),
        crate::calls::formulas(),
        crate::parallel::formulas(),
        crate::wide::formulas().into_iter().map(Formula::not_extended).collect(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Formulas in C++.
pub fn cpp() -> Vec<Formula> {
    [crate::classes::formulas(), crate::library::formulas()].into_iter().flatten().collect()
}

/// Formulas in Fortran.
pub fn fortran() -> Vec<Formula> {
    [crate::fortran::formulas(), crate::fortran_arrays::formulas()].into_iter().flatten().collect()
}
