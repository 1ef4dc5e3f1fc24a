//! GSL: quadrature, differential equations, special functions, roots, minimisation, statistics, linear algebra.

use derivgrind_tests::formula::{Formula, formula};

const HEADERS: &str = "
#include <gsl/gsl_errno.h>
#include <gsl/gsl_integration.h>
#include <gsl/gsl_interp.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multimin.h>
#include <gsl/gsl_odeiv2.h>
#include <gsl/gsl_roots.h>
#include <gsl/gsl_sf.h>
#include <gsl/gsl_statistics.h>
static double wave(double t, void *p) { return sin(*(double *)p * t); }
static double integral(double a, double b) { gsl_integration_workspace *w = gsl_integration_workspace_alloc(200); gsl_function f; double y, e; f.function = wave; f.params = &b;
    gsl_integration_qags(&f, 0, a, 1e-13, 1e-12, 200, w, &y, &e); gsl_integration_workspace_free(w); return y; }";

const DECAY: &str = "
static int decay(double t, const double *y, double *f, void *p) { (void)t; f[0] = -*(double *)p * y[0]; f[1] = y[0]; return GSL_SUCCESS; }
static void decayed(const gsl_odeiv2_step_type *type, double *y, double rate) { gsl_odeiv2_system s = {decay, 0, 2, 0}; gsl_odeiv2_driver *d; double t = 0; s.params = &rate;
    d = gsl_odeiv2_driver_alloc_y_new(&s, type, 1e-3, 1e-12, 1e-12); gsl_odeiv2_driver_apply(d, &t, 1, y); gsl_odeiv2_driver_free(d); }";

const ROOT: &str = "
static double square_less(double t, void *p) { return t * t - *(double *)p; }
static double twice(double t, void *p) { (void)p; return 2 * t; }
static void both(double t, void *p, double *f, double *d) { *f = square_less(t, p); *d = twice(t, p); }
static double newton_root(double a) { gsl_root_fdfsolver *s = gsl_root_fdfsolver_alloc(gsl_root_fdfsolver_newton); gsl_function_fdf f; double y; int i;
    f.f = square_less; f.df = twice; f.fdf = both; f.params = &a; gsl_root_fdfsolver_set(s, &f, 2); for (i = 0; i < 8; i++) gsl_root_fdfsolver_iterate(s); y = gsl_root_fdfsolver_root(s); gsl_root_fdfsolver_free(s); return y; }";

const MINIMUM: &str = "
static double bowl(const gsl_vector *v, void *p) { const double *x = (const double *)p; double a = gsl_vector_get(v, 0) - x[0], b = gsl_vector_get(v, 1) - x[1]; return a * a + 4 * b * b + a * b + x[0] * x[1]; }
static void slope(const gsl_vector *v, void *p, gsl_vector *g) { const double *x = (const double *)p; double a = gsl_vector_get(v, 0) - x[0], b = gsl_vector_get(v, 1) - x[1]; gsl_vector_set(g, 0, 2 * a + b); gsl_vector_set(g, 1, 8 * b + a); }
static void bowl_and_slope(const gsl_vector *v, void *p, double *f, gsl_vector *g) { *f = bowl(v, p); slope(v, p, g); }
static double lowest(double *x) { gsl_multimin_function_fdf f = {bowl, slope, bowl_and_slope, 2, 0}; gsl_vector *v = gsl_vector_calloc(2); double y; int i;
    gsl_multimin_fdfminimizer *s = gsl_multimin_fdfminimizer_alloc(gsl_multimin_fdfminimizer_vector_bfgs2, 2); f.params = x; gsl_multimin_fdfminimizer_set(s, &f, v, 0.1, 0.1);
    for (i = 0; i < 30 && gsl_multimin_fdfminimizer_iterate(s) == GSL_SUCCESS; i++) {} y = gsl_multimin_fdfminimizer_minimum(s); gsl_multimin_fdfminimizer_free(s); gsl_vector_free(v); return y; }";

/// Accuracy of quadrature and of integration in time.
const METHOD: f64 = 1e-9;
/// Accuracy of the derivative of a series or rational approximation that is accurate to rounding.
const SERIES: f64 = 1e-10;

/// Lambert's W on its main branch, by Newton's iteration.
fn lambert(x: f64) -> f64 {
    (0..50).fold(1.0, |w: f64, _| w - (w * w.exp() - x) / (w.exp() * (w + 1.0)))
}

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("qags", &[1.5, 2.25], "return integral(x[0], x[1]);", |x| {
            let (a, b) = (x[0], x[1]);
            vec![(a * b).sin(), (a * b).sin() * a / b - (1.0 - (a * b).cos()) / (b * b)]
        })
        .with(HEADERS)
        .within(METHOD),
        formula("gauss_legendre", &[1.5, 2.25], "gsl_integration_glfixed_table *t = gsl_integration_glfixed_table_alloc(24); gsl_function f; double y, b = x[1]; f.function = wave; f.params = &b; y = gsl_integration_glfixed(&f, 0, x[0], t); gsl_integration_glfixed_table_free(t); return y;", |x| {
            let (a, b) = (x[0], x[1]);
            vec![(a * b).sin(), (a * b).sin() * a / b - (1.0 - (a * b).cos()) / (b * b)]
        })
        .within(METHOD),
        formula("ode_explicit", &[1.5, 0.75], "double y[2] = {x[0], 0}; decayed(gsl_odeiv2_step_rk8pd, y, x[1]); return y[0] + 2 * y[1];", decay_gradient).with(DECAY).within(METHOD),
        formula("ode_multistep", &[1.5, 0.75], "double y[2] = {x[0], 0}; decayed(gsl_odeiv2_step_msadams, y, x[1]); return y[0] + 2 * y[1];", decay_gradient).within(1e-7),
        formula("bessel_J0", &[2.0], "return gsl_sf_bessel_J0(x[0]);", |_| vec![-0.576_724_807_756_873_4]).within(SERIES),
        formula("gamma", &[2.5], "return gsl_sf_gamma(x[0]);", |_| {
            // The digamma function at 5/2: 2 + 2/3 - Euler's constant - 2 ln 2.
            vec![1.329_340_388_179_137 * (8.0 / 3.0 - 0.577_215_664_901_532_9 - 2.0 * std::f64::consts::LN_2)]
        })
        .within(SERIES),
        formula("erf", &[0.75], "return gsl_sf_erf(x[0]);", |x| vec![2.0 / std::f64::consts::PI.sqrt() * (-x[0] * x[0]).exp()]).within(SERIES),
        formula("lambert_W", &[1.75], "return gsl_sf_lambert_W0(x[0]);", |x| {
            let w = lambert(x[0]);
            vec![w / (x[0] * (1.0 + w))]
        })
        .within(SERIES),
        formula("exponential_integral", &[1.75], "return gsl_sf_expint_E1(x[0]);", |x| vec![-(-x[0]).exp() / x[0]]).within(SERIES),
        formula("dilogarithm", &[0.375], "return gsl_sf_dilog(x[0]);", |x| vec![-(1.0 - x[0]).ln() / x[0]]).within(SERIES),
        formula("legendre", &[0.375], "return gsl_sf_legendre_Pl(4, x[0]);", |x| vec![(140.0 * x[0].powi(3) - 60.0 * x[0]) / 8.0]),
        formula("newton_root", &[2.5], "return newton_root(x[0]);", |x| vec![0.5 / x[0].sqrt()]).with(ROOT).within(SERIES),
        formula("minimum_bfgs", &[1.5, -0.75], "return lowest(x);", |x| vec![x[1], x[0]]).with(MINIMUM).within(1e-6),
        formula("variance", &[1.5, -0.75, 2.5, 0.5], "return gsl_stats_variance(x, 1, 4);", |x| {
            let mean = x.iter().sum::<f64>() / 4.0;
            x.iter().map(|x| 2.0 * (x - mean) / 3.0).collect()
        }),
        formula("polynomial_interpolation", &[1.5, -0.75, 2.5], "double t[3] = {0, 1, 3}; gsl_interp *p = gsl_interp_alloc(gsl_interp_polynomial, 3); double y; gsl_interp_init(p, t, x, 3); y = gsl_interp_eval(p, t, x, 2, 0); gsl_interp_free(p); return y;", |_| {
            // Lagrange's polynomials at 2.
            vec![-1.0 / 3.0, 1.0, 1.0 / 3.0]
        }),
        formula("cubic_spline", &[1.5, -0.75, 2.5], "double t[3] = {0, 1, 2}; gsl_interp *p = gsl_interp_alloc(gsl_interp_cspline, 3); double y; gsl_interp_init(p, t, x, 3); y = gsl_interp_eval(p, t, x, 0.5, 0); gsl_interp_free(p); return y;", |_| {
            // Natural spline: second derivative m = 3/2 (y0 - 2 y1 + y2) at 1; at 1/2 the value is (y0 + y1)/2 - m/16.
            let m = 1.5 / 16.0;
            vec![0.5 - m, 0.5 + 2.0 * m, -m]
        }),
        formula("lu_solve", &[2.0, -0.75, 0.5, 1.5], "double a[4], b[2] = {1, 2}, r[2]; gsl_permutation *p = gsl_permutation_alloc(2); int s; gsl_matrix_view m; gsl_vector_view v, w; memcpy(a, x, sizeof a);
             m = gsl_matrix_view_array(a, 2, 2); v = gsl_vector_view_array(b, 2); w = gsl_vector_view_array(r, 2); gsl_linalg_LU_decomp(&m.matrix, p, &s); gsl_linalg_LU_solve(&m.matrix, p, &v.vector, &w.vector); gsl_permutation_free(p); return r[0];", |x| {
            let (a, b, c, d) = (x[0], x[1], x[2], x[3]);
            let (p, q) = (d - 2.0 * b, a * d - b * c);
            vec![-p * d / (q * q), (-2.0 * q + p * c) / (q * q), p * b / (q * q), (q - p * a) / (q * q)]
        }),
    ]
}

/// y' = -r y from y(0) = a, z' = y from 0: the gradient of y + 2 z at 1 with respect to a and r.
pub fn decay_gradient(x: &[f64]) -> Vec<f64> {
    let (a, r) = (x[0], x[1]);
    let decayed = (-r).exp();
    vec![decayed + 2.0 * (1.0 - decayed) / r, -a * decayed + 2.0 * a * (decayed / r - (1.0 - decayed) / (r * r))]
}
