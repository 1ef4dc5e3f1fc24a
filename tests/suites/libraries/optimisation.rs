//! NLopt: the value at a minimum, whose derivative is that of the objective function there.

use derivgrind_tests::formula::{Formula, formula};

const OBJECTIVE: &str = "#include <nlopt.h>
static double objective(unsigned n, const double *v, double *g, void *p) { const double *x = (const double *)p; double d = v[0] - x[0]; (void)n; if (g) g[0] = 2 * d + x[1]; return d * d + x[1] * v[0]; }
static double lowest(nlopt_algorithm a, double *x) { nlopt_opt o = nlopt_create(a, 1); double v = 0.25, y = 0; nlopt_set_min_objective(o, objective, x); nlopt_set_xtol_rel(o, 1e-9); nlopt_set_maxeval(o, 400); nlopt_optimize(o, &v, &y); nlopt_destroy(o); return y; }";

/// (v - a)² + b v has its minimum a b - b²/4.
fn gradient(x: &[f64]) -> Vec<f64> {
    vec![x[1], x[0] - x[1] / 2.0]
}

pub fn formulas() -> Vec<Formula> {
    [
        formula("lbfgs", &[1.5, -0.75], "return lowest(NLOPT_LD_LBFGS, x);", gradient).with(OBJECTIVE),
        formula("slsqp", &[1.5, -0.75], "return lowest(NLOPT_LD_SLSQP, x);", gradient),
        formula("moving_asymptotes", &[1.5, -0.75], "return lowest(NLOPT_LD_MMA, x);", gradient),
        formula("subplex", &[1.5, -0.75], "return lowest(NLOPT_LN_SBPLX, x);", gradient),
        formula("bobyqa", &[1.5, -0.75], "return lowest(NLOPT_LN_COBYLA, x);", gradient),
    ]
    .into_iter()
    // The point is known to the root of the accuracy of the value.
    .map(|formula| formula.within(1e-6))
    .collect()
}
