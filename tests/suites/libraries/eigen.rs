//! Eigen: templates that the compiler turns into vector code of the program's own.

use derivgrind_tests::formula::{Formula, formula};

use crate::reference::{nuclear_norm_gradient, symmetric_eigenvalues};

const HEADERS: &str = "#include <Eigen/Dense>\n#include <Eigen/IterativeLinearSolvers>\n";

const X: &[f64] = &[2.0, -0.75, 0.5, 1.5];

/// First unknown of (a b; c d) u = (1, 2).
fn first_unknown(x: &[f64]) -> Vec<f64> {
    let (a, b, c, d) = (x[0], x[1], x[2], x[3]);
    let (p, q) = (d - 2.0 * b, a * d - b * c);
    vec![-p * d / (q * q), (-2.0 * q + p * c) / (q * q), p * b / (q * q), (q - p * a) / (q * q)]
}

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("partial_pivot_lu", X, "Eigen::MatrixXd a(2, 2); a << x[0], x[1], x[2], x[3]; return a.partialPivLu().solve(Eigen::Vector2d(1, 2))[0];", first_unknown).with(HEADERS),
        formula("householder_qr", X, "Eigen::MatrixXd a(2, 2); a << x[0], x[1], x[2], x[3]; return a.colPivHouseholderQr().solve(Eigen::VectorXd(Eigen::Vector2d(1, 2)))[0];", first_unknown),
        formula("fixed_size_inverse", X, "Eigen::Matrix2d a; a << x[0], x[1], x[2], x[3]; return (a.inverse() * Eigen::Vector2d(1, 2))[0];", first_unknown),
        formula("conjugate_gradient", &[2.5, 0.75, 1.5], "Eigen::Matrix2d a; a << x[0], x[1], x[1], x[2]; Eigen::ConjugateGradient<Eigen::Matrix2d, Eigen::Lower | Eigen::Upper> s(a); return s.solve(Eigen::Vector2d(1, 2))[0];", |x| {
            let (a, b, c) = (x[0], x[1], x[2]);
            let (p, q) = (c - 2.0 * b, a * c - b * b);
            vec![-p * c / (q * q), (-2.0 * q + 2.0 * p * b) / (q * q), (q - p * a) / (q * q)]
        })
        .within(1e-10),
        formula("determinant", X, "Eigen::MatrixXd a(2, 2); a << x[0], x[1], x[2], x[3]; return a.determinant();", |x| vec![x[3], -x[2], -x[1], x[0]]),
        formula("self_adjoint_eigenvalues", &[2.5, 0.75, 1.5], "Eigen::Matrix2d a; a << x[0], x[1], x[1], x[2]; Eigen::SelfAdjointEigenSolver<Eigen::Matrix2d> s(a); return 3 * s.eigenvalues()[0] + 5 * s.eigenvalues()[1];", |x| {
            let [(_, low), (_, high)] = symmetric_eigenvalues([x[0], x[1], x[2]]);
            (0..3).map(|k| 3.0 * low[k] + 5.0 * high[k]).collect()
        }),
        formula("jacobi_svd", X, "Eigen::MatrixXd a(2, 2); a << x[0], x[1], x[2], x[3]; return a.jacobiSvd().singularValues().sum();", |x| {
            nuclear_norm_gradient([x[0], x[1], x[2], x[3]]).to_vec()
        }),
        formula("large_product", &[1.5, -0.75], "Eigen::MatrixXd a = Eigen::MatrixXd::Constant(45, 45, x[0]), b = Eigen::MatrixXd::Constant(45, 45, x[1]); a(3, 4) = 0; return ((a * b).row(3).sum() + (a * b)(0, 0)) / 45;", |x| {
            vec![45.0 * x[1] - x[1] + x[1], 45.0 * x[0] - x[0] + x[0]]
        }),
        formula("array_functions", &[0.75, 0.5], "Eigen::ArrayXd a(31); for (int i = 0; i < 31; i++) a[i] = x[i & 1]; return (a.exp() * a.sin() + a.sqrt() + a.log() + a.tanh()).sum();", |x| {
            let derivative = |x: f64| x.exp() * (x.sin() + x.cos()) + 0.5 / x.sqrt() + 1.0 / x + 1.0 / x.cosh().powi(2);
            vec![16.0 * derivative(x[0]), 15.0 * derivative(x[1])]
        })
        // Eigen's own vector functions: the derivative of a rational approximation that is accurate to rounding.
        .within(1e-7),
        formula("quaternion", &[0.75, 0.5], "Eigen::Quaterniond q(Eigen::AngleAxisd(x[0], Eigen::Vector3d::UnitZ())); Eigen::Vector3d v = q * Eigen::Vector3d(x[1], 0, 0); return v[0] + 3 * v[1];", |x| {
            vec![x[1] * (-x[0].sin() + 3.0 * x[0].cos()), x[0].cos() + 3.0 * x[0].sin()]
        }),
    ]
}
