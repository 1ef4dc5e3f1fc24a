//! SUNDIALS: CVODE with its Adams and BDF methods.

use derivgrind_tests::formula::{Formula, formula};

use crate::gsl::decay_gradient;

const CVODE: &str = "
#include <cvode/cvode.h>
#include <nvector/nvector_serial.h>
#include <sunlinsol/sunlinsol_dense.h>
#include <sunmatrix/sunmatrix_dense.h>
static int decay(realtype t, N_Vector y, N_Vector f, void *p) { (void)t; NV_Ith_S(f, 0) = -*(double *)p * NV_Ith_S(y, 0); NV_Ith_S(f, 1) = NV_Ith_S(y, 0); return 0; }
static double decayed(int method, double a, double rate) { SUNContext c; N_Vector y; void *m; SUNMatrix j; SUNLinearSolver s; double t, r; SUNContext_Create(0, &c); y = N_VNew_Serial(2, c); NV_Ith_S(y, 0) = a; NV_Ith_S(y, 1) = 0;
    m = CVodeCreate(method, c); CVodeInit(m, decay, 0, y); CVodeSStolerances(m, 1e-11, 1e-12); CVodeSetUserData(m, &rate); CVodeSetMaxNumSteps(m, 20000); CVodeSetStopTime(m, 1);
    j = SUNDenseMatrix(2, 2, c); s = SUNLinSol_Dense(y, j, c); CVodeSetLinearSolver(m, s, j); CVode(m, 1, y, &t, CV_NORMAL); r = NV_Ith_S(y, 0) + 2 * NV_Ith_S(y, 1);
    CVodeFree(&m); SUNLinSolFree(s); SUNMatDestroy(j); N_VDestroy(y); SUNContext_Free(&c); return r; }";

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("adams", &[1.5, 0.75], "return decayed(CV_ADAMS, x[0], x[1]);", decay_gradient)
            .with(CVODE)
            .within(1e-6),
        formula("bdf", &[1.5, 0.75], "return decayed(CV_BDF, x[0], x[1]);", decay_gradient).within(1e-6),
    ]
}
