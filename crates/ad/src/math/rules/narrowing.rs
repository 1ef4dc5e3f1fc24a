//! Partial derivatives of the basic operations, for functions that round them to a narrower format.

/// x + y
pub(in crate::math) fn add(_: f64, _: f64) -> [f64; 2] {
    [1.0, 1.0]
}

/// x − y
pub(in crate::math) fn sub(_: f64, _: f64) -> [f64; 2] {
    [1.0, -1.0]
}

/// x·y
pub(in crate::math) fn mul(x: f64, y: f64) -> [f64; 2] {
    [y, x]
}

/// x/y
pub(in crate::math) fn div(x: f64, y: f64) -> [f64; 2] {
    [1.0 / y, -x / y / y]
}

/// √x′ = 1/(2·√x); the root is computed anew, since the function's value has fewer bits.
pub(in crate::math) fn sqrt(x: f64) -> f64 {
    0.5 / libm::fabs(libm::sqrt(x))
}
