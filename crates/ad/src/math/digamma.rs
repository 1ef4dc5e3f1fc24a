//! The digamma function ψ = Γ′/Γ.

use std::f64::consts::PI;

/// ψ(x), to about 4 units in the last place for x > 0 also around its zero, and for x < 0 except near its zeros there, where it is the
/// difference of two numbers of the size of π·cot(π·x).
///
/// Negative integers give NaN (a pole with different signs on its sides), ±0 gives ∓∞, ∞ gives ∞, −∞ gives NaN.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        -1.0 / x
    } else if x < 0.0 {
        reflected(x)
    } else if x < 1.0 {
        // ψ(x) = ψ(x + 1) − 1/x; both terms are negative but for x > 0.46, where the first is small.
        near_zero_of_digamma(x + 1.0) - 1.0 / x
    } else if x < ASYMPTOTIC {
        let mut argument = x;
        let mut sum = 0.0;
        while argument > 2.0 {
            argument -= 1.0;
            sum += 1.0 / argument;
        }
        near_zero_of_digamma(argument) + sum
    } else {
        asymptotic(x)
    }
}

/// ψ(x) = ψ(1 − x) − π·cot(π·x) (Abramowitz & Stegun 6.3.7).
fn reflected(x: f64) -> f64 {
    let fraction = x - libm::rint(x);
    if fraction == 0.0 || x.is_infinite() {
        return f64::NAN;
    }
    digamma(1.0 - x) - PI / libm::tan(PI * fraction)
}

/// From here on the truncated asymptotic series is exact to a hundredth of a unit in the last place.
const ASYMPTOTIC: f64 = 12.0;

/// ψ(x) ~ ln x − 1/(2x) − Σ B₂ₖ/(2k·x²ᵏ) (Abramowitz & Stegun 6.3.18).
fn asymptotic(x: f64) -> f64 {
    /// B₂ₖ/(2k) for k = 1, 2, ...
    const TERMS: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let reciprocal = 1.0 / x;
    let square = reciprocal * reciprocal;
    let series = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * square);
    libm::log(x) - (0.5 * reciprocal + series)
}

/// The zero of ψ in [1, 2], as the sum of two numbers.
const ZERO: f64 = 1.4616321449683622;
const ZERO_REST: f64 = 9.549995429965697e-17;

/// Coefficients of the polynomial p with ψ(x) = (x − zero)·p(x − 3/2) on [1, 2], lowest first. Its relative error is below 4.3e-18.
/// `crates/ad/tests/data/generate.py` computes them.
const NEAR_ZERO: [f64; 23] = [
    0.9510558760318328,
    -0.4236274212814606,
    0.24054248424078697,
    -0.14840492305388092,
    0.09498872445289039,
    -0.06192213327548831,
    0.040760833940846085,
    -0.026975796659787055,
    0.017907248317313294,
    -0.011908220105959716,
    0.007927021796868154,
    -0.005279937255532708,
    0.003518106563802472,
    -0.0023454947397380833,
    0.0015633696313653504,
    -0.0010364584817312839,
    0.0006909255761282986,
    -0.00048595039220036254,
    0.00032395945401345196,
    -0.00014480643368061614,
    9.653646261410062e-05,
    -0.0001782188548855923,
    0.00011881232908510335,
];

/// ψ on [1, 2].
fn near_zero_of_digamma(x: f64) -> f64 {
    let t = x - 1.5;
    let p = NEAR_ZERO.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    // The first difference is exact.
    ((x - ZERO) - ZERO_REST) * p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_points() {
        assert_eq!(digamma(0.0), f64::NEG_INFINITY);
        assert_eq!(digamma(-0.0), f64::INFINITY);
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
        assert!(digamma(-3.0).is_nan());
        assert!(digamma(f64::NEG_INFINITY).is_nan());
        assert!(digamma(f64::NAN).is_nan());
    }

    /// ψ(1) = −γ, ψ(1/2) = −γ − 2·ln 2 (Abramowitz & Stegun 6.3.2, 6.3.3).
    #[test]
    fn known_values() {
        const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
        assert!((digamma(1.0) + EULER_GAMMA).abs() <= f64::EPSILON);
        assert!((digamma(0.5) + EULER_GAMMA + 2.0 * std::f64::consts::LN_2).abs() <= 4.0 * f64::EPSILON);
    }

    /// The pieces of the definition meet.
    #[test]
    fn recurrence_across_the_seams() {
        for x in [0.999_999, 1.0, 1.999_999, 2.0, 10.5, 11.0, 11.999_999, 12.0, 12.5] {
            let difference = digamma(x + 1.0) - digamma(x);
            assert!((difference * x - 1.0).abs() < 20.0 * f64::EPSILON * x, "at {x}: {difference}");
        }
    }
}
