//! Judging a derivative by difference quotients.
//!
//! Along a line through the inputs, `x(t) = x + t d`, an output is a function `y(t)`. Derivatives at `t = 0` are compared with the central
//! difference `D(h) = (y(h) - y(-h)) / 2h`. Its truncation error is proportional to h², so that `|D(2h) - D(h)|` is three times as much; the error from rounding is
//! proportional to `1 / h`. The step `h` where both are small is near the cube root of the output's relative *noise*: 1e-5 of the inputs' size if that is the
//! rounding unit of binary64, 4e-3 for binary32.
//!
//! What noise an output really has is estimated from its values, if the derivative is not confirmed by the first quotient: a program may compute in binary32 between
//! inputs and outputs in binary64, or iterate to some tolerance. A divided difference of order k is a sum of values with weights w, which is small for a smooth function;
//! of noise with standard deviation σ its mean square is σ² Σ w². For values at equal distances that is the method of Hamming, *Introduction to Applied Numerical
//! Analysis*, chapter 6, and of Moré & Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011). Here distances are unequal: where the output is a
//! staircase (an input that is rounded to binary32), equal distances can be close to a multiple of the stairs' width, and there would be no noise to be seen.

use std::ops::RangeInclusive;

/// Step for inputs of the given sizes in bytes, relative to the inputs' magnitude.
pub fn step(sizes: impl IntoIterator<Item = u64>) -> f64 {
    // No powers of two: then outputs that are computed in binary64 do not look like binary32 numbers.
    const BINARY64: f64 = 1e-5;
    const BINARY32: f64 = 4e-3;
    if sizes.into_iter().any(|size| size == 4) { BINARY32 } else { BINARY64 }
}

/// Where a quotient and its truncation error take values, in units of the step.
const QUOTIENT: [f64; 5] = [-2.0, -1.0, 0.0, 1.0, 2.0];
/// The same with what an estimate of the noise needs.
const NOISE_TOO: [f64; 9] = [-3.732, -2.618, -2.0, -1.0, 0.0, 1.0, 2.0, 2.414, 3.303];
/// With so many different steps at most.
const ROUNDS: usize = 3;
/// No step is longer than this share of the inputs' magnitude.
const LONGEST: f64 = 0.05;

/// An output at [`QUOTIENT`] or at [`NOISE_TOO`].
struct Samples {
    step: f64,
    values: Vec<f64>,
}

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
    /// The step of the quotient.
    pub step: f64,
    /// The output's largest magnitude.
    largest: f64,
    /// Whether they agree.
    pub verdict: Verdict,
}

impl Comparison {
    /// Whether nothing more is to be learnt from other steps.
    fn is_settled(&self) -> bool {
        let is_accurate = self.uncertainty <= (ACCURATE * self.derivative.abs()).max(NEGLIGIBLE * self.largest);
        self.verdict == Verdict::Kink || self.verdict == Verdict::Agrees && is_accurate
    }
}

/// Rounding errors of an output: it is the result of many operations.
const ROUNDING: f64 = 16.0;
/// Error of a quotient in units of the estimated standard deviation of the noise by the step: it comes from few values, so that the noise can be several
/// times as much.
const NOISE: f64 = 8.0;
/// A quotient is good for something if its uncertainty is below this share of the derivative,
const USEFUL: f64 = 0.1;
/// or below this share of the output itself.
const SMALL: f64 = 1e-3;
/// A kink has slopes whose difference is so many times their error: few noisy values on one side can lie on a smooth curve by chance.
const CLEAR: f64 = 4.0;
/// An uncertainty below this share of the derivative need not become smaller,
const ACCURATE: f64 = 1e-3;
/// nor one below this share of the output itself.
const NEGLIGIBLE: f64 = 1e-6;
/// Standard deviation of the noise in values at some of [`NOISE_TOO`]: the largest of the estimates from differences of these orders.
/// In a smooth function they are far below the truncation error of a quotient.
fn noise(places: &[f64], values: &[f64], orders: RangeInclusive<usize>) -> f64 {
    let estimate = |order: usize| {
        let windows = places.windows(order + 1).zip(values.windows(order + 1));
        let squares: Vec<f64> = windows.map(|(places, values)| contrast(places, values).powi(2)).collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    orders.map(estimate).fold(0.0, f64::max)
}

/// The divided difference of the highest order, in units of the root of the sum of its squared weights.
fn contrast(places: &[f64], values: &[f64]) -> f64 {
    let weight = |at: f64| 1.0 / places.iter().filter(|&&other| other != at).map(|other| at - other).product::<f64>();
    let weights = || places.iter().map(|&place| weight(place));
    let difference: f64 = weights().zip(values).map(|(weight, value)| weight * value).sum();
    difference / weights().map(|weight| weight * weight).sum::<f64>().sqrt()
}

impl Samples {
    /// The noise that can be seen; none if there are too few values.
    fn noise(&self) -> f64 {
        if self.values.len() == NOISE_TOO.len() { noise(&NOISE_TOO, &self.values, 4..=6) } else { 0.0 }
    }

    /// The noise to both sides of the middle: less, if there is a kink in it.
    fn noise_of_sides(&self) -> f64 {
        if self.values.len() < NOISE_TOO.len() {
            return 0.0;
        }
        let middle = NOISE_TOO.len() / 2;
        let side = |range: RangeInclusive<usize>| noise(&NOISE_TOO[range.clone()], &self.values[range], 3..=4);
        side(0..=middle).max(side(middle..=2 * middle))
    }

    /// Whether the step is too short to see how the output changes: at least half of the values are the same as their neighbours (Moré & Wild, section 5).
    fn is_too_fine(&self) -> bool {
        let same = self.values.windows(2).filter(|pair| pair[0] == pair[1]).count();
        2 * same >= self.values.len() - 1
    }

    /// A step that promises a better quotient than these samples, if there is one: where the noise, seen in relation to the derivative, and the truncation error
    /// meet; or a much longer one if this one is too short to see anything.
    fn better_step(&self, found: &Comparison) -> Option<f64> {
        let size = found.derivative.abs().max(found.quotient.abs());
        let step = if self.is_too_fine() { 100.0 * self.step } else { (self.noise() / size).cbrt() };
        let step = step.min(LONGEST);
        (step > 2.0 * self.step).then_some(step)
    }
}

/// All outputs at [`QUOTIENT`] or at [`NOISE_TOO`].
struct Round {
    step: f64,
    outputs: Vec<Vec<f64>>,
}

impl Round {
    fn samples(&self, output: usize) -> Samples {
        Samples { step: self.step, values: self.outputs.iter().map(|values| values[output]).collect() }
    }
}

/// Compares the derivatives of all outputs along a line, where they are `middle` at `t = 0`, with quotients of what `evaluate` says of them at other `t`. The first
/// step is `step`; derivatives that are not confirmed by it are compared further, with what the noise says.
///
/// # Errors
/// Those of `evaluate`.
pub fn judge<E>(
    derivatives: &[f64],
    middle: &[f64],
    step: f64,
    mut evaluate: impl FnMut(f64) -> Result<Vec<f64>, E>,
) -> Result<Vec<Comparison>, E> {
    // The outputs at `places`, of which those in the middle are known.
    let mut around = |step: f64, known: Vec<Vec<f64>>, places: &[f64]| {
        let beside = (places.len() - known.len()) / 2;
        let mut at = |places: &[f64]| places.iter().map(|place| evaluate(place * step)).collect::<Result<Vec<_>, E>>();
        let (left, right) = (at(&places[..beside])?, at(&places[places.len() - beside..])?);
        Ok(Round { step, outputs: [left, known, right].concat() })
    };
    let all = |rounds: &[Round]| -> Vec<Comparison> {
        let samples = |output| rounds.iter().map(|round| round.samples(output)).collect::<Vec<_>>();
        derivatives.iter().enumerate().map(|(output, &derivative)| best(derivative, &samples(output))).collect()
    };
    let mut rounds = vec![around(step, vec![middle.to_vec()], &QUOTIENT)?];
    let mut found = all(&rounds);
    // Noise in few values can look like a kink.
    if found.iter().all(|comparison| comparison.is_settled() && comparison.verdict != Verdict::Kink) {
        return Ok(found);
    }
    let first = rounds.remove(0);
    rounds.push(around(step, first.outputs, &NOISE_TOO)?);
    loop {
        found = all(&rounds);
        let last = &rounds[rounds.len() - 1];
        let better = found.iter().enumerate().filter(|(_, comparison)| !comparison.is_settled());
        let better = better.filter_map(|(output, comparison)| last.samples(output).better_step(comparison));
        match better.reduce(f64::max) {
            Some(step) if rounds.len() < ROUNDS => rounds.push(around(step, vec![middle.to_vec()], &NOISE_TOO)?),
            _ => return Ok(found),
        }
    }
}

/// Compares a derivative with each of several rounds of samples, at least one. What the most accurate quotient says counts; samples that are too close to each other
/// only if all are.
fn best(derivative: f64, rounds: &[Samples]) -> Comparison {
    let compared = rounds.iter().map(|samples| (samples.is_too_fine(), compare(derivative, samples)));
    let key = |&(too_fine, comparison): &(bool, Comparison)| (too_fine, comparison.uncertainty);
    let best = compared.reduce(|best, other| if key(&other) < key(&best) { other } else { best });
    best.expect("at least one round").1
}

/// Compares a derivative with samples.
fn compare(derivative: f64, samples: &Samples) -> Comparison {
    let (h, count) = (samples.step, samples.values.len() / 2);
    let near = &samples.values[count - 2..=count + 2];
    let &[far_left, left, middle, right, far_right] = near else { unreachable!("five values") };
    let (quotient, wide) = ((right - left) / (2.0 * h), (far_right - far_left) / (4.0 * h));
    let values = || samples.values.iter().copied();
    let largest = values().fold(0.0f64, |largest, value| largest.max(value.abs()));
    // An output whose values are different and all binary32 numbers most likely is one. (A constant can be such a number by chance.)
    let narrow = values().all(|value| f64::from(value as f32) == value) && values().any(|value| value != middle);
    let unit = if narrow { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let error = |noise: f64| (wide - quotient).abs() + (ROUNDING * unit * largest).max(NOISE * noise) / h;
    let slopes = [(middle - left) / h, (right - middle) / h];
    let wide_slopes = [(middle - far_left) / (2.0 * h), (far_right - middle) / (2.0 * h)];
    // With a second derivative the difference of slopes doubles with the distance; with a kink it stays what it is.
    let (bend, wide_bend) = ((slopes[1] - slopes[0]).abs(), (wide_slopes[1] - wide_slopes[0]).abs());
    let beside = error(samples.noise_of_sides());
    let has_kink = bend > CLEAR * beside && wide_bend < 1.5 * bend;
    // Differences of high order across a kink look like noise.
    let uncertainty = if has_kink { beside } else { error(samples.noise()) };
    let within = |low: f64, high: f64| low - uncertainty <= derivative && derivative <= high + uncertainty;
    let verdict = if within(quotient, quotient) {
        if uncertainty > USEFUL * derivative.abs().max(quotient.abs()) && uncertainty > SMALL * largest {
            Verdict::Unclear
        } else {
            Verdict::Agrees
        }
    } else if has_kink && within(slopes[0].min(slopes[1]), slopes[0].max(slopes[1])) {
        Verdict::Kink
    } else if values().any(|value| !value.is_finite()) || uncertainty > derivative.abs().max(quotient.abs()) {
        Verdict::Unclear
    } else {
        Verdict::Differs
    };
    Comparison { derivative, quotient, uncertainty, step: h, largest, verdict }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// The verdict about a derivative of a function of one binary64 number, and at how many places the function was evaluated.
    fn followed(function: impl Fn(f64) -> f64, at: f64, derivative: f64) -> (Comparison, usize) {
        let mut runs = 0;
        let evaluate = |t: f64| {
            runs += 1;
            Ok::<_, Infallible>(vec![function(at + t)])
        };
        let Ok(found) = judge(&[derivative], &[function(at)], step([8]), evaluate);
        (found[0], runs)
    }

    fn verdict(function: impl Fn(f64) -> f64, at: f64, derivative: f64) -> Verdict {
        followed(function, at, derivative).0.verdict
    }

    type Function = fn(f64) -> f64;
    const FUNCTIONS: [(Function, Function); 4] = [
        (|x| x * x, |x| 2.0 * x),
        (f64::exp, f64::exp),
        (|x| (5.0 * x).sin(), |x| 5.0 * (5.0 * x).cos()),
        (|x| 1.0 / x, |x| -1.0 / (x * x)),
    ];
    const PLACES: [f64; 3] = [0.3, 1.0, 1.7];

    #[test]
    fn right_derivatives_agree_and_wrong_ones_do_not() {
        for (function, derivative) in FUNCTIONS {
            for at in PLACES {
                let exact = derivative(at);
                let (found, runs) = followed(function, at, exact);
                assert_eq!((found.verdict, runs), (Verdict::Agrees, QUOTIENT.len() - 1));
                for wrong in [exact * 1.00001, exact * 1.001, -exact, 0.0, exact * 2.0] {
                    let (found, runs) = followed(function, at, wrong);
                    assert_eq!(found.verdict, Verdict::Differs, "{wrong} instead of {exact}: {found:?}");
                    assert!(runs <= NOISE_TOO.len(), "{runs}");
                }
            }
        }
    }

    /// Functions that are computed in binary32 in between: their arguments or their results are rounded.
    #[test]
    fn the_step_and_the_error_bar_follow_the_noise() {
        let narrow = |x: f64| f64::from(x as f32);
        for (function, derivative) in FUNCTIONS {
            for place in 0..200 {
                let at = 0.3 + 0.0073 * f64::from(place);
                let exact = derivative(at);
                let rounded: [Box<dyn Fn(f64) -> f64>; 3] = [
                    Box::new(|x| function(narrow(x))),
                    Box::new(|x| narrow(function(x)) + 0.1),
                    Box::new(|x| narrow(function(narrow(x))) * 1.1 / 1.1),
                ];
                for rounded in rounded {
                    let (found, _) = followed(&rounded, at, exact);
                    assert_eq!(found.verdict, Verdict::Agrees, "{at} {exact} {found:?}");
                    // Not so if the derivative is near zero.
                    if exact.abs() > 0.3 {
                        for wrong in [exact * 1.1, exact * 0.5] {
                            let (found, _) = followed(&rounded, at, wrong);
                            assert_eq!(found.verdict, Verdict::Differs, "{at} {exact} {found:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_that_is_too_short_to_see_anything_is_not_believed() {
        let coarse = |x: f64| f64::from((1e4 + x) as f32);
        let (found, runs) = followed(coarse, 1.0, 1.0);
        assert_ne!(found.verdict, Verdict::Differs, "{found:?}");
        assert!(runs <= ROUNDS * NOISE_TOO.len());
        assert_eq!(verdict(coarse, 1.0, 3.0), Verdict::Differs);
    }

    #[test]
    fn a_kink_is_told_from_a_wrong_derivative() {
        for derivative in [-1.0, 0.5, 1.0] {
            assert_eq!(verdict(f64::abs, 0.0, derivative), Verdict::Kink);
        }
        assert_eq!(verdict(f64::abs, 0.0, 1.5), Verdict::Differs);
        assert_eq!(verdict(|x| (x - 1e-3).max(0.0), 0.0, 1.0), Verdict::Differs);
    }

    #[test]
    fn constants_agree_with_zero() {
        assert_eq!(verdict(|_| 3.0, 1.0, 0.0), Verdict::Agrees);
        assert_eq!(verdict(|_| 3.0, 1.0, 1.0), Verdict::Differs);
    }

    #[test]
    fn chaos_says_nothing() {
        assert_eq!(verdict(|x| (1e9 * x).sin(), 1.0, 1.0), Verdict::Unclear);
        assert_eq!(verdict(|x| if x == 1.0 { 0.0 } else { f64::INFINITY }, 1.0, 1.0), Verdict::Unclear);
    }

    #[test]
    fn the_estimate_of_noise_is_its_standard_deviation() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        let mut estimates = Vec::new();
        for _ in 0..1000 {
            let values: Vec<f64> = NOISE_TOO.iter().map(|place| (0.01 * place).sin() + 1e-6 * random()).collect();
            estimates.push(noise(&NOISE_TOO, &values, 4..=6) / (1e-6 / 12f64.sqrt()));
        }
        estimates.sort_by(f64::total_cmp);
        assert!(estimates[500] > 0.5 && estimates[500] < 1.2, "median {}", estimates[500]);
        assert!(estimates[20] > 1.0 / NOISE * 1.2 && estimates[999] < 3.0, "{} {}", estimates[20], estimates[999]);
    }
}
