//! Judging a derivative by difference quotients.
//!
//! Along a line through the inputs, `x(t) = x + t d`, an output is a function `y(t)`. Derivatives at `t = 0` are compared with the central
//! difference `D(h) = (y(h) - y(-h)) / 2h`. Its truncation error is proportional to h², so that `|D(2h) - D(h)|` is three times as much; its rounding error is
//! about the output's rounding unit times `|y| / h`. The step `h` where both are small is near the cube root of the rounding unit: 1e-5 of
//! the inputs' size for binary64, 4e-3 for binary32.

/// Step for inputs of the given sizes in bytes, relative to the inputs' magnitude.
pub fn step(sizes: impl IntoIterator<Item = u64>) -> f64 {
    // No powers of two: then outputs that are computed in binary64 do not look like binary32 numbers.
    const BINARY64: f64 = 1e-5;
    const BINARY32: f64 = 4e-3;
    if sizes.into_iter().any(|size| size == 4) { BINARY32 } else { BINARY64 }
}

/// An output at `t = -2h, -h, 0, h, 2h`.
pub type Samples = [f64; 5];

/// What comes of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The derivative is the difference quotient up to the latter's error.
    Agrees,
    /// The output has different slopes to both sides, and the derivative is between them: there is no derivative at this point.
    Kink,
    /// The difference quotient is too inaccurate to say anything.
    Unclear,
    /// The derivative is wrong, or the program jumps here.
    Differs,
}

impl Verdict {
    /// In a table.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Kink => "kink",
            Verdict::Unclear => "unclear",
            Verdict::Differs => "DIFFERS",
        }
    }
}

/// A derivative beside its difference quotient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The derivative.
    pub derivative: f64,
    /// The difference quotient.
    pub quotient: f64,
    /// How wrong the quotient may be.
    pub uncertainty: f64,
    /// Whether they agree.
    pub verdict: Verdict,
}

/// Rounding errors of an output: it is the result of many operations.
const ROUNDING: f64 = 16.0;
/// A quotient is good for something if its uncertainty is below this share.
const USEFUL: f64 = 0.1;

/// Compares a derivative with samples at distance `h`.
pub fn compare(derivative: f64, samples: &Samples, h: f64) -> Comparison {
    let [far_left, left, middle, right, far_right] = *samples;
    let (quotient, wide) = ((right - left) / (2.0 * h), (far_right - far_left) / (4.0 * h));
    let largest = samples.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    // An output whose values are different and all binary32 numbers most likely is one. (A constant can be such a number by chance.)
    let narrow = samples.iter().all(|&value| f64::from(value as f32) == value) && samples.iter().any(|&v| v != middle);
    let unit = if narrow { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let uncertainty = (wide - quotient).abs() + ROUNDING * unit * largest / h;
    let within = |low: f64, high: f64| low - uncertainty <= derivative && derivative <= high + uncertainty;
    let slopes = [(middle - left) / h, (right - middle) / h];
    let wide_slopes = [(middle - far_left) / (2.0 * h), (far_right - middle) / (2.0 * h)];
    // With a second derivative the difference of slopes doubles with the distance; with a kink it stays what it is.
    let (bend, wide_bend) = ((slopes[1] - slopes[0]).abs(), (wide_slopes[1] - wide_slopes[0]).abs());
    let has_kink = bend > uncertainty && wide_bend < 1.5 * bend;
    let verdict = if within(quotient, quotient) {
        if uncertainty > USEFUL * derivative.abs().max(quotient.abs()) && uncertainty > USEFUL * largest {
            Verdict::Unclear
        } else {
            Verdict::Agrees
        }
    } else if has_kink && within(slopes[0].min(slopes[1]), slopes[0].max(slopes[1])) {
        Verdict::Kink
    } else if samples.iter().any(|value| !value.is_finite()) || uncertainty > derivative.abs().max(quotient.abs()) {
        Verdict::Unclear
    } else {
        Verdict::Differs
    };
    Comparison { derivative, quotient, uncertainty, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(function: fn(f64) -> f64, at: f64, derivative: f64) -> Verdict {
        let h = step([8]);
        let samples = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|steps| function(at + steps * h));
        compare(derivative, &samples, h).verdict
    }

    #[test]
    fn right_derivatives_agree_and_wrong_ones_do_not() {
        type Function = fn(f64) -> f64;
        let functions: [(Function, Function); 4] = [
            (|x| x * x, |x| 2.0 * x),
            (f64::exp, f64::exp),
            (|x| (5.0 * x).sin(), |x| 5.0 * (5.0 * x).cos()),
            (|x| 1.0 / x, |x| -1.0 / (x * x)),
        ];
        for (function, derivative) in functions {
            for at in [0.3, 1.0, 1.7] {
                let exact = derivative(at);
                assert_eq!(judge(function, at, exact), Verdict::Agrees);
                for wrong in [exact * 1.001, -exact, 0.0, exact * 2.0] {
                    assert_eq!(judge(function, at, wrong), Verdict::Differs, "{wrong} instead of {exact}");
                }
            }
        }
    }

    #[test]
    fn a_kink_is_told_from_a_wrong_derivative() {
        for derivative in [-1.0, 0.5, 1.0] {
            assert!(matches!(judge(f64::abs, 0.0, derivative), Verdict::Kink));
        }
        assert_eq!(judge(f64::abs, 0.0, 1.5), Verdict::Differs);
    }

    #[test]
    fn constants_agree_with_zero() {
        assert_eq!(judge(|_| 3.0, 1.0, 0.0), Verdict::Agrees);
        assert_eq!(judge(|_| 3.0, 1.0, 1.0), Verdict::Differs);
    }

    #[test]
    fn noise_says_nothing() {
        let samples = [1.0, -1.0, 0.3, 0.8, -0.9];
        assert_eq!(compare(1.0, &samples, step([8])).verdict, Verdict::Unclear);
    }
}
