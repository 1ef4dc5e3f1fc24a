//! Values under control flow: branches, loops, recursion, calls through pointers, vectorised loops, jumps.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("branch_taken", &[1.5, -0.75], "if (x[0] > 0) return x[0] * x[1]; return x[0] + x[1];", |x| vec![x[1], x[0]]),
        formula("branch_not_taken", &[-1.5, -0.75], "if (x[0] > 0) return x[0] * x[1]; return x[0] + 2 * x[1];", |_| vec![1.0, 2.0]),
        formula("switch", &[1.5, -0.75], "REAL y = 0; int i; for (i = 0; i < 5; i++) switch (i) { case 0: y += x[0]; break; case 1: y *= x[1]; case 2: y += x[1]; break; case 3: y = y * y; break; default: y -= x[0]; } return y;", |x| {
            let y = x[0] * x[1] + 2.0 * x[1];
            vec![2.0 * y * x[1] - 1.0, 2.0 * y * (x[0] + 2.0)]
        }),
        formula("ternary_chain", &[1.5, -0.75], "return x[0] < 0 ? x[0] : x[0] < 1 ? 2 * x[0] : x[1] > 0 ? x[0] : x[0] * x[1];", |x| vec![x[1], x[0]]),
        formula("power_loop", &[1.125], "REAL y = 1; int i; for (i = 0; i < 20; i++) y *= x[0]; return y;", |x| vec![20.0 * x[0].powi(19)]),
        formula("harmonic_loop", &[1.5], "REAL y = 0; int i; for (i = 1; i <= 100; i++) y += 1 / (x[0] + i); return y;", |x| {
            vec![(1..=100).map(|i| -1.0 / (x[0] + f64::from(i)).powi(2)).sum()]
        })
        .with_terms(100),
        formula("newton_iteration", &[2.5], "REAL y = x[0]; int i; for (i = 0; i < 8; i++) y = (y + x[0] / y) / 2; return y;", |x| vec![0.5 / x[0].sqrt()]),
        formula("while_until_small", &[0.5], "REAL y = 0, term = 1; while (term > (REAL)1.5e-3) { y += term; term *= x[0]; } return y;", |x| {
            vec![(1..10).map(|k| f64::from(k) * x[0].powi(k - 1)).sum()]
        }),
        formula("recursion", &[1.125], "return power(x[0], 10);", |x| vec![10.0 * x[0].powi(9)])
            .with("static NOINLINE REAL power(REAL a, int n) { return n == 0 ? 1 : a * power(a, n - 1); }"),
        formula("binary_recursion", &[1.5, -0.75], "return fibonacci(x[0], x[1], 12);", |_| vec![89.0, 144.0])
            .with("static NOINLINE REAL fibonacci(REAL a, REAL b, int n) { return n == 0 ? a : n == 1 ? b : fibonacci(a, b, n - 1) + fibonacci(a, b, n - 2); }"),
        formula("mutual_recursion", &[1.125, 0.75], "return even_step(x[0], x[1], 6);", |x| vec![3.0 * x[0].powi(2) * x[1].powi(3), 3.0 * x[0].powi(3) * x[1].powi(2)]).with(
            "static REAL odd_step(REAL a, REAL b, int n); static NOINLINE REAL even_step(REAL a, REAL b, int n) { return n == 0 ? 1 : a * odd_step(a, b, n - 1); }
             static NOINLINE REAL odd_step(REAL a, REAL b, int n) { return n == 0 ? 1 : b * even_step(a, b, n - 1); }",
        ),
        formula("function_pointers", &[1.5, -0.75], "REAL y = x[0]; int i; for (i = 0; i < 4; i++) y = operations[i](y, x[1]); return y;", |x| {
            // ((a + b) * b - b) / b = a + b - 1
            let _ = x;
            vec![1.0, 1.0]
        })
        .with(
            "static REAL plus(REAL a, REAL b) { return a + b; } static REAL times(REAL a, REAL b) { return a * b; }
             static REAL minus(REAL a, REAL b) { return a - b; } static REAL by(REAL a, REAL b) { return a / b; }
             static REAL (*volatile operations[])(REAL, REAL) = {plus, times, minus, by};",
        ),
        formula("callback_with_context", &[1.5, -0.75], "struct sum s; s.factor = x[0]; s.total = 0; each(x, 2, add_to, &s); return s.total;", |x| vec![2.0 * x[0] + x[1], x[0]]).with(
            "struct sum { REAL factor, total; }; static void add_to(REAL v, void *c) { struct sum *s = c; s->total += s->factor * v; }
             static NOINLINE void each(const REAL *x, int n, void (*f)(REAL, void *), void *c) { while (n--) f(*x++, c); }",
        ),
        formula("goto_loop", &[1.125], "REAL y = x[0]; int i = 0; again: y = y * y; if (++i < 3) goto again; return y;", |x| vec![8.0 * x[0].powi(7)]),
        formula("bisection", &[2.5], "REAL low = 0, high = x[0]; int i; for (i = 0; i < 8; i++) { REAL middle = (low + high) / 2; if (middle * middle > 2) high = middle; else low = middle; } return low;", |x| {
            // Each bound is a fixed fraction of the input.
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..8 {
                let middle: f64 = 0.5 * (low + high);
                if (middle * x[0]).powi(2) > 2.0 { high = middle } else { low = middle }
            }
            vec![low]
        }),
        formula("longjmp_carries_value", &[1.5, -0.75], "carried = 0; if (setjmp(back) == 0) throw_value(x[0] * x[1]); return carried * x[0];", |x| vec![2.0 * x[0] * x[1], x[0] * x[0]]).with(
            "static jmp_buf back; static REAL carried; static NOINLINE void throw_value(REAL a) { carried = a; longjmp(back, 1); }",
        ),
        formula("matrix_vector", &[1.5, -0.75, 2.5], "REAL m[3][3], y[3], s = 0; int i, j; for (i = 0; i < 3; i++) for (j = 0; j < 3; j++) m[i][j] = (REAL)(3 * i + j);
             for (i = 0; i < 3; i++) { y[i] = 0; for (j = 0; j < 3; j++) y[i] += m[i][j] * x[j]; } for (i = 0; i < 3; i++) s += y[i]; return s;", |_| vec![9.0, 12.0, 15.0]),
        formula("determinant", &[2.0, -0.75, 0.5, 1.5], "return x[0] * x[3] - x[1] * x[2];", |x| vec![x[3], -x[2], -x[1], x[0]]),
        formula(
            "gauss_elimination",
            &[2.0, -0.75, 0.5, 1.5],
            "REAL b[2] = {1, 2}, f; if (M(fabs)(x[2]) > M(fabs)(x[0])) return 0; f = x[2] / x[0]; x[3] -= f * x[1]; b[1] -= f * b[0]; b[1] /= x[3]; return (b[0] - x[1] * b[1]) / x[0];",
            |x| {
                // First unknown by Cramer's rule: (d - 2 b) / (a d - b c).
                let (a, b, c, d) = (x[0], x[1], x[2], x[3]);
                let (p, q) = (d - 2.0 * b, a * d - b * c);
                vec![-p * d / (q * q), (-2.0 * q + p * c) / (q * q), p * b / (q * q), (q - p * a) / (q * q)]
            },
        ),
        formula("vector_axpy", &[1.5, -0.75], "REAL t[67], y = 0; int i; fill(t, 67, x[1]); axpy(t, 67, x[0]); for (i = 0; i < 67; i++) y += t[i]; return y;", |x| {
            let sum: f64 = (0..67).map(f64::from).sum();
            let _ = x;
            vec![sum, 67.0]
        })
        .with(
            "static NOINLINE void fill(REAL *t, int n, REAL v) { int i; for (i = 0; i < n; i++) t[i] = v; }
             static NOINLINE void axpy(REAL *t, int n, REAL a) { int i; for (i = 0; i < n; i++) t[i] += a * (REAL)i; }",
        ),
        formula("vector_square_and_divide", &[1.5, -0.75], "REAL t[64], y = 0; int i; grid(t, 64, x[0], x[1]); for (i = 0; i < 64; i++) y += t[i]; return y;", |x| {
            let terms = |f: fn(f64, f64, f64) -> f64| (0..64).map(|i| f(f64::from(i), x[0], x[1])).sum();
            vec![terms(|i, a, b| 2.0 * (a * i + b) * i / (i + 100.0)), terms(|i, a, b| 2.0 * (a * i + b) / (i + 100.0))]
        })
        .with("static NOINLINE void grid(REAL *t, int n, REAL a, REAL b) { int i; for (i = 0; i < n; i++) { REAL u = a * (REAL)i + b; t[i] = u * u / ((REAL)i + 100); } }"),
        formula("vector_sqrt", &[1.5, 2.5], "REAL t[32], y = 0; int i; roots(t, 32, x[0], x[1]); for (i = 0; i < 32; i++) y += t[i]; return y;", |x| {
            let root = |i: i32| (x[0] * f64::from(i) + x[1]).sqrt();
            vec![(0..32).map(|i| 0.5 * f64::from(i) / root(i)).sum(), (0..32).map(|i| 0.5 / root(i)).sum()]
        })
        .with("static NOINLINE void roots(REAL *t, int n, REAL a, REAL b) { int i; for (i = 0; i < n; i++) t[i] = M(sqrt)(a * (REAL)i + b); }"),
        formula("vector_abs_and_negate", &[1.5, -0.75], "REAL t[32], y = 0; int i; for (i = 0; i < 32; i++) t[i] = x[0] * (REAL)(i - 16) - x[1]; flips(t, 32); for (i = 0; i < 32; i++) y += t[i]; return y;", |x| {
            let sign = |i: i32| -(x[0] * f64::from(i - 16) - x[1]).signum();
            vec![(0..32).map(|i| sign(i) * f64::from(i - 16)).sum(), (0..32).map(|i| -sign(i)).sum()]
        })
        .with("static NOINLINE void flips(REAL *t, int n) { int i; for (i = 0; i < n; i++) t[i] = -M(fabs)(t[i]); }"),
        formula("vector_abs_beside_passive", &[1.5, -0.75], "REAL t[32], y = 0; int i; for (i = 0; i < 32; i++) t[i] = i % 2 ? (REAL)(i % 3 - 1) : x[0] * (REAL)(i % 3 - 1) + x[1];
             absolute(t, 32); for (i = 0; i < 32; i++) y += t[i]; return y;", |x| {
            let factor = |i: i32| f64::from(i % 3 - 1);
            let sign = |i: i32| (x[0] * factor(i) + x[1]).signum();
            vec![(0..32).step_by(2).map(|i| sign(i) * factor(i)).sum(), (0..32).step_by(2).map(sign).sum()]
        })
        .with("static NOINLINE void absolute(REAL *t, int n) { int i; for (i = 0; i < n; i++) t[i] = M(fabs)(t[i]); }"),
        formula("vector_select", &[1.5, -0.75], "REAL t[32], y = 0; int i; for (i = 0; i < 32; i++) t[i] = x[i & 1] * (REAL)(i - 15); rectify(t, 32); for (i = 0; i < 32; i++) y += t[i]; return y;", |x| {
            let kept = |i: i32| if x[(i & 1) as usize] * f64::from(i - 15) > 0.0 { f64::from(i - 15) } else { 0.0 };
            vec![(0..32).step_by(2).map(kept).sum(), (1..32).step_by(2).map(kept).sum()]
        })
        .with("static NOINLINE void rectify(REAL *t, int n) { int i; for (i = 0; i < n; i++) t[i] = t[i] > 0 ? t[i] : 0; }"),
        formula("vector_reverse_copy", &[1.5, -0.75], "REAL s[48], t[48], y = 0; int i; for (i = 0; i < 48; i++) s[i] = x[i >= 24]; backwards(t, s, 48); for (i = 0; i < 48; i++) y += (REAL)(i + 1) * t[i]; return y;", |_| {
            vec![(25..=48).map(f64::from).sum(), (1..=24).map(f64::from).sum()]
        })
        .with("static NOINLINE void backwards(REAL *t, const REAL *s, int n) { int i; for (i = 0; i < n; i++) t[i] = s[n - 1 - i]; }"),
        formula("vector_strided", &[1.5, -0.75], "REAL s[64], t[32], y = 0; int i; for (i = 0; i < 64; i++) s[i] = x[i & 1]; deinterleave(t, s, 32); for (i = 0; i < 32; i++) y += t[i]; return y;", |x| {
            vec![32.0 * x[1], 32.0 * x[0]]
        })
        .with("static NOINLINE void deinterleave(REAL *t, const REAL *s, int n) { int i; for (i = 0; i < n; i++) t[i] = s[2 * i] * s[2 * i + 1]; }"),
        formula("vector_widen", &[1.5, -0.75], "float s[32]; double t[32]; REAL y = 0; int i; for (i = 0; i < 32; i++) s[i] = (float)x[i & 1]; widen(t, s, 32); narrow(s, t, 32); for (i = 0; i < 32; i++) y += (REAL)s[i]; return y;", |x| {
            vec![32.0 * x[0], 32.0 * x[1]]
        })
        .with(
            "static NOINLINE void widen(double *t, const float *s, int n) { int i; for (i = 0; i < n; i++) t[i] = s[i]; }
             static NOINLINE void narrow(float *s, const double *t, int n) { int i; for (i = 0; i < n; i++) s[i] = (float)(t[i] * t[i]); }",
        ),
        formula("comparison_only", &[1.5, -0.75], "int count = (x[0] > x[1]) + (x[0] != x[1]) + !(x[0] <= x[1]); return (REAL)count * x[0];", |_| vec![3.0, 0.0]),
    ]
}
