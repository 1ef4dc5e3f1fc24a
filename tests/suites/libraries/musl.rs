//! musl's math functions in a static executable without symbols: nothing tells that they are functions of a math library, so that their instructions are followed. Most
//! come from FDLIBM and work on the upper halves of numbers.

use derivgrind_tests::formula::{Formula, formula};

const X: &[f64] = &[0.73, 2.31];

pub fn formulas() -> Vec<Formula> {
    let of_both = |name, body, derivatives: fn(&[f64]) -> Vec<f64>| formula(name, X, body, derivatives).within(1e-9);
    vec![
        of_both("exponentials", "return exp(x[0]) * exp2(x[1]) + expm1(x[1]) * pow(x[0], x[1]);", |x| {
            let (two, power) = (x[1].exp2(), x[0].powf(x[1]));
            vec![
                x[0].exp() * two + x[1].exp_m1() * x[1] * power / x[0],
                x[0].exp() * two * std::f64::consts::LN_2 + power * (x[1].exp() + x[1].exp_m1() * x[0].ln()),
            ]
        }),
        of_both("logarithms", "return log(x[0]) * log2(x[1]);", |x| {
            vec![x[1].log2() / x[0], x[0].ln() / x[1] / std::f64::consts::LN_2]
        }),
        of_both("trigonometric", "return sin(x[0]) * cos(x[1]) + tan(x[0]) * sin(20 * x[1]);", |x| {
            let (tangent, twenty) = (x[0].tan(), 20.0 * x[1]);
            vec![
                x[0].cos() * x[1].cos() + (1.0 + tangent * tangent) * twenty.sin(),
                -x[0].sin() * x[1].sin() + tangent * 20.0 * twenty.cos(),
            ]
        }),
        of_both("inverse_trigonometric", "return asin(x[0]) * atan(x[1]) + acos(-x[0]) + atan2(x[1], -x[0]) + acos(x[0] / 3) * asin(x[1] / 4);", |x| {
            let (root, square) = ((1.0 - x[0] * x[0]).sqrt(), x[0] * x[0] + x[1] * x[1]);
            let (third, quarter) = (x[0] / 3.0, x[1] / 4.0);
            vec![
                x[1].atan() / root + 1.0 / root + x[1] / square
                    - quarter.asin() / (1.0 - third * third).sqrt() / 3.0,
                x[0].asin() / (1.0 + x[1] * x[1]) - x[0] / square
                    + third.acos() / (1.0 - quarter * quarter).sqrt() / 4.0,
            ]
        }),
        of_both("hyperbolic", "return sinh(x[0]) * cosh(x[1]) + tanh(x[0]) * tanh(x[1] / 5);", |x| {
            let fifth = x[1] / 5.0;
            vec![
                x[0].cosh() * x[1].cosh() + fifth.tanh() / x[0].cosh().powi(2),
                x[0].sinh() * x[1].sinh() + x[0].tanh() / fifth.cosh().powi(2) / 5.0,
            ]
        }),
        of_both("roots_and_distances", "return cbrt(x[0]) * hypot(x[1], x[0]) + sqrt(x[1]) * cbrt(-x[1]);", |x| {
            let (root, distance) = (x[0].cbrt(), x[0].hypot(x[1]));
            vec![
                root / (3.0 * x[0]) * distance + root * x[0] / distance,
                root * x[1] / distance - 5.0 / 6.0 * x[1].powf(-1.0 / 6.0),
            ]
        }),
        of_both("parts_of_numbers", "int e; double i, m = frexp(20 * x[1], &e); return scalbn(x[0], 9) * m + modf(7 * x[1], &i) * ldexp(x[0], -3) + copysign(x[1], -x[0]) * fabs(-x[0]) + floor(x[0]) + rint(x[1]);", |x| {
            // 20 x1 is between 32 and 64.
            let (fraction, rest) = (20.0 * x[1] / 64.0, (7.0 * x[1]).fract());
            vec![512.0 * fraction + rest / 8.0 - x[1], 512.0 * x[0] * 20.0 / 64.0 + 7.0 * x[0] / 8.0 - x[0]]
        }),
        of_both("in_binary32", "float a = x[0], b = x[1]; return expf(a) * logf(b) + sinf(a) * cosf(b) + powf(a, b) + atanf(b) * asinf(a);", |x| {
            let [a, b] = [x[0] as f32, x[1] as f32].map(f64::from);
            let power = a.powf(b);
            vec![
                a.exp() * b.ln() + a.cos() * b.cos() + b * power / a + b.atan() / (1.0 - a * a).sqrt(),
                a.exp() / b - a.sin() * b.sin() + a.ln() * power + a.asin() / (1.0 + b * b),
            ]
        })
        .within(1e-5),
    ]
}
