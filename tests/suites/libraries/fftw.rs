//! FFTW: transforms of lengths that are powers of two, composite and prime.

use std::f64::consts::TAU;

use derivgrind_tests::formula::{Formula, formula};

const POWER: &str = "#define FFTW_NO_Complex\n#include <fftw3.h>
static double power(const double *x, int n, int k) { double *in = fftw_malloc(n * sizeof *in), y; fftw_complex *out = fftw_malloc((n / 2 + 1) * sizeof *out); int i;
    fftw_plan plan = fftw_plan_dft_r2c_1d(n, in, out, FFTW_ESTIMATE); for (i = 0; i < n; i++) in[i] = x[i % 4] * (1 + i / 4);
    fftw_execute(plan); y = out[k][0] * out[k][0] + out[k][1] * out[k][1]; fftw_destroy_plan(plan); fftw_free(in); fftw_free(out); return y; }";

/// Gradient of a frequency's power.
fn power_gradient(x: &[f64], n: usize, k: usize) -> Vec<f64> {
    let factor = |i: usize| (1 + i / 4) as f64;
    let wave = |i: usize| {
        let angle = TAU * ((i * k) % n) as f64 / n as f64;
        (angle.cos(), -angle.sin())
    };
    let (mut re, mut im) = (0.0, 0.0);
    for i in 0..n {
        re += x[i % 4] * factor(i) * wave(i).0;
        im += x[i % 4] * factor(i) * wave(i).1;
    }
    let mut gradient = vec![0.0; 4];
    for i in 0..n {
        gradient[i % 4] += 2.0 * factor(i) * (re * wave(i).0 + im * wave(i).1);
    }
    gradient
}

const X: &[f64] = &[1.5, -0.75, 2.5, 0.5];

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("power_of_two", X, "return power(x, 64, 3);", |x| power_gradient(x, 64, 3)).with(POWER),
        formula("composite", X, "return power(x, 60, 7);", |x| power_gradient(x, 60, 7)),
        formula("prime", X, "return power(x, 47, 5);", |x| power_gradient(x, 47, 5)),
        formula("there_and_back", X, "fftw_complex *a = fftw_malloc(30 * sizeof *a); double y; int i; fftw_plan there = fftw_plan_dft_1d(30, a, a, FFTW_FORWARD, FFTW_ESTIMATE), back = fftw_plan_dft_1d(30, a, a, FFTW_BACKWARD, FFTW_ESTIMATE);
             for (i = 0; i < 30; i++) { a[i][0] = x[i % 4]; a[i][1] = x[(i + 1) % 4]; } fftw_execute(there); fftw_execute(back); y = (a[4][0] * a[5][1] + a[6][0]) / 900 + a[7][1];
             fftw_destroy_plan(there); fftw_destroy_plan(back); fftw_free(a); return y;", |x| vec![x[2] + 30.0, 0.0, x[0] + 1.0 / 30.0, 0.0]),
        formula("cosine_transform", X, "double in[4], out[4]; fftw_plan plan = fftw_plan_r2r_1d(4, in, out, FFTW_REDFT10, FFTW_ESTIMATE); memcpy(in, x, sizeof in); fftw_execute(plan); fftw_destroy_plan(plan); return out[0] + 3 * out[2];", |_| {
            (0..4).map(|j| 2.0 + 6.0 * (TAU / 8.0 * (2.0 * f64::from(j) + 1.0)).cos()).collect()
        }),
        formula("two_dimensions", X, "fftw_complex a[12]; int i; fftw_plan plan = fftw_plan_dft_2d(3, 4, a, a, FFTW_FORWARD, FFTW_ESTIMATE); for (i = 0; i < 12; i++) { a[i][0] = x[i % 4]; a[i][1] = 0; } fftw_execute(plan); fftw_destroy_plan(plan);
             return a[0][0] * a[1][1];", |x| {
            // Three rows alike: sum S and, for one wave a row, the imaginary part 3 (x3 - x1).
            let (sum, odd) = (3.0 * x.iter().sum::<f64>(), 3.0 * (x[3] - x[1]));
            vec![3.0 * odd, 3.0 * odd - 3.0 * sum, 3.0 * odd, 3.0 * odd + 3.0 * sum]
        }),
    ]
}
