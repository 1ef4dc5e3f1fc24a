//! BLAS and LAPACK through their Fortran interface.

use std::f64::consts::PI;

use derivgrind_tests::formula::{Formula, formula};

use crate::reference::{Matrix, dot, nuclear_norm_gradient, solve, symmetric_eigenvalues, times, transposed};

const DECLARATIONS: &str = "
double ddot_(const int *, const double *, const int *, const double *, const int *);
double dnrm2_(const int *, const double *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *, const int *, const double *, double *, const int *);
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *, const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *, const int *, double *, const int *);
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
void dsyev_(const char *, const char *, const int *, double *, const int *, double *, double *, const int *, int *);
void dgesvd_(const char *, const char *, const int *, const int *, double *, const int *, double *, double *, const int *, double *, const int *, double *, const int *, int *);
void dpotrf_(const char *, const int *, double *, const int *, int *);
void dgels_(const char *, const int *, const int *, const int *, double *, const int *, double *, const int *, double *, const int *, int *);
static const int ONE = 1, TWO = 2; static const double UNIT = 1, NOTHING = 0;
static int entry(int i, int j, int a, int b, int m) { return (a * i + b * j) % m; }
static double weighted(const double *t, int n) { double y = 0; int i; for (i = 0; i < n; i++) y += (i % 4 - 1) * t[i]; return y; }
#define M_SIZE 37
static void gemm(const char *ta, const char *tb, const double *x, double *c) { static double a[M_SIZE * M_SIZE], b[M_SIZE * M_SIZE]; const int n = M_SIZE; int i, j;
    for (j = 0; j < n; j++) for (i = 0; i < n; i++) { a[j * n + i] = x[0] * entry(i, j, 1, 2, 5) + entry(i, j, 1, 0, 3); b[j * n + i] = x[1] * entry(i, j, 3, 1, 7); c[j * n + i] = 0; }
    dgemm_(ta, tb, &n, &n, &n, &UNIT, a, &n, b, &n, &NOTHING, c, &n); }";

/// Size of the product of matrices, not a multiple of what kernels take at once.
const N: usize = 37;

fn entry(i: usize, j: usize, a: usize, b: usize, m: usize) -> f64 {
    ((a * i + b * j) % m) as f64
}

fn weight(k: usize) -> f64 {
    (k % 4) as f64 - 1.0
}

/// Gradient of the weighted sum of the product's elements, stored by columns.
fn product_gradient(x: &[f64], transpose: bool) -> Vec<f64> {
    let at = |i: usize, k: usize| if transpose { (k, i) } else { (i, k) };
    let mut gradient = vec![0.0; 2];
    for j in 0..N {
        for i in 0..N {
            for k in 0..N {
                let (row, column) = at(i, k);
                let (p, q, r) = (entry(row, column, 1, 2, 5), entry(row, column, 1, 0, 3), entry(k, j, 3, 1, 7));
                gradient[0] += weight(j * N + i) * p * x[1] * r;
                gradient[1] += weight(j * N + i) * (x[0] * p + q) * r;
            }
        }
    }
    gradient
}

/// A matrix of two parameters: x0 on the diagonal, x1 above it, constants below and far away.
fn band(x: &[f64], n: usize) -> Matrix {
    let element = |i: usize, j: usize| match (i, j) {
        _ if i == j => x[0],
        _ if j == i + 1 => x[1],
        _ if i == j + 1 => 0.5,
        _ if i + 5 == j => 0.25,
        _ => 0.0,
    };
    (0..n).map(|i| (0..n).map(|j| element(i, j)).collect()).collect()
}

/// Gradient of the weighted sum of the solution of a system with that matrix and right side 1, 2, 3...
fn solution_gradient(x: &[f64], n: usize) -> Vec<f64> {
    let matrix = band(x, n);
    let right: Vec<f64> = (1..=n).map(|k| k as f64).collect();
    let weights: Vec<f64> = (0..n).map(weight).collect();
    let (solution, adjoint) = (solve(&matrix, &right), solve(&transposed(&matrix), &weights));
    let by = |direction: [f64; 2]| {
        let mut change = band(&direction, n);
        let constant = band(&[0.0, 0.0], n);
        for (row, constant) in change.iter_mut().zip(constant) {
            row.iter_mut().zip(constant).for_each(|(a, b)| *a -= b);
        }
        -dot(&adjoint, &times(&change, &solution))
    };
    vec![by([1.0, 0.0]), by([0.0, 1.0])]
}

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("ddot", &[1.5, -0.75], "double a[103], b[103]; const int n = 103; int i; for (i = 0; i < n; i++) { a[i] = x[i & 1]; b[i] = x[0] * i; } return ddot_(&n, a, &ONE, b, &ONE) / 100;", |x| {
            let (even, odd): (f64, f64) = ((0..103).step_by(2).map(f64::from).sum(), (1..103).step_by(2).map(f64::from).sum());
            vec![(2.0 * x[0] * even + x[1] * odd) / 100.0, x[0] * odd / 100.0]
        })
        .with(DECLARATIONS),
        formula("dnrm2", &[1.5, -0.75, 2.5], "const int n = 3; return dnrm2_(&n, x, &ONE);", |x| {
            let norm = dot(x, x).sqrt();
            x.iter().map(|x| x / norm).collect()
        }),
        formula("dgemm", &[1.5, -0.75], "static double c[M_SIZE * M_SIZE]; gemm(\"N\", \"N\", x, c); return weighted(c, M_SIZE * M_SIZE) / 1000;", |x| {
            product_gradient(x, false).iter().map(|d| d / 1000.0).collect()
        }),
        formula("dgemm_transposed", &[1.5, -0.75], "static double c[M_SIZE * M_SIZE]; gemm(\"T\", \"N\", x, c); return weighted(c, M_SIZE * M_SIZE) / 1000;", |x| {
            product_gradient(x, true).iter().map(|d| d / 1000.0).collect()
        }),
        formula("dgemv", &[1.5, -0.75], "double a[21 * 21], v[21], r[21]; const int n = 21; int i; for (i = 0; i < n * n; i++) a[i] = x[0] * (i % 3); for (i = 0; i < n; i++) v[i] = x[1] + i;
             dgemv_(\"N\", &n, &n, &UNIT, a, &n, v, &ONE, &NOTHING, r, &ONE); return weighted(r, n);", |x| {
            let mut gradient = vec![0.0; 2];
            for (i, j) in (0..21).flat_map(|i| (0..21).map(move |j| (i, j))) {
                let a = ((j * 21 + i) % 3) as f64;
                gradient[0] += weight(i) * a * (x[1] + j as f64);
                gradient[1] += weight(i) * a * x[0];
            }
            gradient
        }),
        formula("dtrsm", &[2.5, -0.75], "double a[4] = {x[0], x[1], 0, x[0]}, b[4] = {1, 2, x[1], 4}; dtrsm_(\"L\", \"L\", \"N\", \"N\", &TWO, &TWO, &UNIT, a, &TWO, b, &TWO); return b[0] + b[1] + 2 * b[2] + 3 * b[3];", |x| {
            // Columns of the result: (1/p, (2 - q/p)/p) and (q/p, (4 - q q/p)/p).
            let (p, q) = (x[0], x[1]);
            vec![
                (-1.0 - 2.0 - 2.0 * q - 12.0) / (p * p) + 2.0 * (q + 3.0 * q * q) / p.powi(3),
                -1.0 / (p * p) + 2.0 / p - 6.0 * q / (p * p),
            ]
        }),
        formula("dgesv_of_two", &[2.0, -0.75, 0.5, 1.5], "double a[4] = {x[0], x[2], x[1], x[3]}, b[2] = {1, 2}; int p[2], info; dgesv_(&TWO, &ONE, a, &TWO, p, b, &TWO, &info); return b[0];", |x| {
            let (a, b, c, d) = (x[0], x[1], x[2], x[3]);
            let (p, q) = (d - 2.0 * b, a * d - b * c);
            vec![-p * d / (q * q), (-2.0 * q + p * c) / (q * q), p * b / (q * q), (q - p * a) / (q * q)]
        }),
        formula("dgesv", &[4.0, -1.25], "static double a[70 * 70]; double b[70]; int p[70], info, i, j; const int n = 70; for (j = 0; j < n; j++) for (i = 0; i < n; i++) a[j * n + i] = i == j ? x[0] : j == i + 1 ? x[1] : i == j + 1 ? 0.5 : i + 5 == j ? 0.25 : 0;
             for (i = 0; i < n; i++) b[i] = i + 1; dgesv_(&n, &ONE, a, &n, p, b, &n, &info); return weighted(b, n);", |x| solution_gradient(x, 70)),
        formula("dpotrf", &[2.5, 0.75, 1.5], "double a[4] = {x[0], x[1], x[1], x[2]}; int info; dpotrf_(\"L\", &TWO, a, &TWO, &info); return 2 * log(a[0] * a[3]);", |x| {
            let det = x[0] * x[2] - x[1] * x[1];
            vec![x[2] / det, -2.0 * x[1] / det, x[0] / det]
        }),
        formula("dsyev_of_two", &[2.5, 0.75, 1.5], "double a[4] = {x[0], x[1], x[1], x[2]}, w[2], work[64]; int info; const int n = 64; dsyev_(\"V\", \"U\", &TWO, a, &TWO, w, work, &n, &info); return 3 * w[0] + 5 * w[1];", |x| {
            let [(_, low), (_, high)] = symmetric_eigenvalues([x[0], x[1], x[2]]);
            (0..3).map(|k| 3.0 * low[k] + 5.0 * high[k]).collect()
        }),
        formula("dsyev", &[1.5, 0.75], "static double a[40 * 40]; double w[40], work[4000]; int info, i; const int n = 40, room = 4000; memset(a, 0, sizeof a); for (i = 0; i < n; i++) { a[i * n + i] = 2 * x[0] + x[1]; if (i) a[i * n + i - 1] = -x[0]; }
             dsyev_(\"N\", \"U\", &n, a, &n, w, work, &room, &info); return w[0] + 2 * w[20] + 3 * w[39];", |_| {
            let by_scale = |k: f64| 2.0 - 2.0 * (k * PI / 41.0).cos();
            vec![by_scale(1.0) + 2.0 * by_scale(21.0) + 3.0 * by_scale(40.0), 6.0]
        }),
        formula("dgesvd", &[2.0, -0.75, 0.5, 1.5], "double a[4] = {x[0], x[2], x[1], x[3]}, s[2], u[4], v[4], work[64]; int info; const int n = 64; dgesvd_(\"A\", \"A\", &TWO, &TWO, a, &TWO, s, u, &TWO, v, &TWO, work, &n, &info); return s[0] + s[1];", |x| {
            nuclear_norm_gradient([x[0], x[1], x[2], x[3]]).to_vec()
        }),
        formula("dgels", &[1.5, -0.75, 2.5, 0.5], "double a[8] = {1, 1, 1, 1, 0, 1, 2, 3}, b[4], work[64]; int info; const int n = 64, rows = 4; memcpy(b, x, sizeof b); dgels_(\"N\", &rows, &TWO, &ONE, a, &rows, b, &rows, work, &n, &info); return b[0] + 3 * b[1];", |_| {
            // Regression on 0, 1, 2, 3: slope (t - 3/2) / 5, intercept 1/4 - 3/2 slope.
            (0..4).map(|t| 0.25 + 1.5 * (f64::from(t) - 1.5) / 5.0).collect()
        }),
    ]
}
