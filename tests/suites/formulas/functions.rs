//! The functions of `math.h` in C95.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("sin", &[0.75], "return M(sin)(x[0]);", |x| vec![x[0].cos()]),
        formula("sin_large", &[1000.5], "return M(sin)(x[0]);", |x| vec![x[0].cos()]),
        formula("cos", &[0.75], "return M(cos)(x[0]);", |x| vec![-x[0].sin()]),
        formula("tan", &[0.75], "return M(tan)(x[0]);", |x| vec![1.0 / (x[0].cos() * x[0].cos())]),
        formula("asin", &[0.375], "return M(asin)(x[0]);", |x| vec![1.0 / (1.0 - x[0] * x[0]).sqrt()]),
        formula("acos", &[0.375], "return M(acos)(x[0]);", |x| vec![-1.0 / (1.0 - x[0] * x[0]).sqrt()]),
        formula("atan", &[0.375], "return M(atan)(x[0]);", |x| vec![1.0 / (1.0 + x[0] * x[0])]),
        formula("atan2", &[0.75, 1.25], "return M(atan2)(x[0], x[1]);", |x| {
            let square = x[0] * x[0] + x[1] * x[1];
            vec![x[1] / square, -x[0] / square]
        }),
        formula("atan2_third_quadrant", &[-0.75, -1.25], "return M(atan2)(x[0], x[1]);", |x| {
            let square = x[0] * x[0] + x[1] * x[1];
            vec![x[1] / square, -x[0] / square]
        }),
        formula("sinh", &[0.75], "return M(sinh)(x[0]);", |x| vec![x[0].cosh()]),
        formula("cosh", &[-0.75], "return M(cosh)(x[0]);", |x| vec![x[0].sinh()]),
        formula("tanh", &[0.75], "return M(tanh)(x[0]);", |x| vec![1.0 / (x[0].cosh() * x[0].cosh())]),
        formula("exp", &[0.75], "return M(exp)(x[0]);", |x| vec![x[0].exp()]),
        formula("exp_negative", &[-12.5], "return M(exp)(x[0]);", |x| vec![x[0].exp()]),
        formula("log", &[2.5], "return M(log)(x[0]);", |x| vec![1.0 / x[0]]),
        formula("log10", &[2.5], "return M(log10)(x[0]);", |x| vec![1.0 / (x[0] * std::f64::consts::LN_10)]),
        formula("pow", &[1.5, 2.25], "return M(pow)(x[0], x[1]);", |x| {
            vec![x[1] * x[0].powf(x[1] - 1.0), x[0].powf(x[1]) * x[0].ln()]
        }),
        formula("pow_constant_exponent", &[-1.5], "return M(pow)(x[0], (REAL)3);", |x| vec![3.0 * x[0] * x[0]]),
        formula("pow_constant_base", &[2.25], "return M(pow)((REAL)2, x[0]);", |x| {
            vec![2f64.powf(x[0]) * std::f64::consts::LN_2]
        }),
        formula("sqrt", &[2.5], "return M(sqrt)(x[0]);", |x| vec![0.5 / x[0].sqrt()]),
        formula("ceil", &[1.5, 2.5], "return M(ceil)(x[0]) * x[1];", |x| vec![0.0, x[0].ceil()]),
        formula("floor", &[-1.5, 2.5], "return M(floor)(x[0]) * x[1];", |x| vec![0.0, x[0].floor()]),
        formula("fabs", &[-1.5, 2.5], "return M(fabs)(x[0]) * M(fabs)(x[1]);", |x| vec![-x[1], -x[0]]),
        formula("fmod", &[7.5, 2.25], "return M(fmod)(x[0], x[1]);", |x| vec![1.0, -(x[0] / x[1]).trunc()]),
        formula("fmod_negative", &[-7.5, 2.25], "return M(fmod)(x[0], x[1]);", |x| vec![1.0, -(x[0] / x[1]).trunc()]),
        formula("ldexp", &[1.5], "return M(ldexp)(x[0], 3) + M(ldexp)(x[0], -2);", |_| vec![8.25]),
        formula("frexp", &[5.0, 0.75], "int e; REAL m = M(frexp)(x[0], &e); return m * x[1] * e;", |x| {
            vec![x[1] * 3.0 / 8.0, 1.875]
        }),
        formula("modf", &[5.25, 0.75], "REAL i, f = M(modf)(x[0], &i); return f * x[1] + i;", |x| {
            vec![x[1], x[0].fract()]
        }),
        formula("hypotenuse", &[1.5, -0.75], "return M(sqrt)(x[0] * x[0] + x[1] * x[1]);", |x| {
            let r = x[0].hypot(x[1]);
            vec![x[0] / r, x[1] / r]
        }),
        formula("nested_functions", &[0.75, 2.5], "return M(exp)(M(sin)(x[0]) * M(log)(x[1]));", |x| {
            let y = (x[0].sin() * x[1].ln()).exp();
            vec![y * x[0].cos() * x[1].ln(), y * x[0].sin() / x[1]]
        }),
        formula("softplus", &[0.75], "return M(log)(1 + M(exp)(x[0]));", |x| vec![1.0 / (1.0 + (-x[0]).exp())]),
        formula("function_of_passive", &[0.75], "REAL c = M(cos)((REAL)0.5); return c * x[0] + M(sin)(c);", |_| {
            vec![0.5f64.cos()]
        }),
        formula(
            "normal_density",
            &[0.75, 0.25, 1.5],
            "REAL z = (x[0] - x[1]) / x[2]; return M(exp)(-z * z / 2) / x[2];",
            |x| {
                let z = (x[0] - x[1]) / x[2];
                let y = (-z * z / 2.0).exp() / x[2];
                vec![-y * z / x[2], y * z / x[2], y * (z * z - 1.0) / x[2]]
            },
        ),
    ]
}
