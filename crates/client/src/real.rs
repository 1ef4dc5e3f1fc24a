//! Types of variables that can be declared.

mod sealed {
    /// Keeps other types from being declared as real numbers.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point type whose variables can be inputs and outputs: `f32` and `f64`.
pub trait Real: sealed::Sealed + Copy {
    /// Zero.
    const ZERO: Self;

    /// The same number in binary64.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    const ZERO: f32 = 0.0;

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;

    fn to_f64(self) -> f64 {
        self
    }
}
