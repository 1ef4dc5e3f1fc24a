//! OpenMP: reductions, atomics, critical sections, private copies, vectorised loops.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula(
            "omp_reduction",
            &[1.5, -0.75],
            "REAL y = 0; int i;\n#pragma omp parallel for num_threads(2) reduction(+ : y)\nfor (i = 0; i < 64; i++) y += x[i & 1] * x[0]; return y;",
            |x| vec![64.0 * x[0] + 32.0 * x[1], 32.0 * x[0]],
        ),
        formula(
            "omp_atomic",
            &[1.5, -0.75],
            "REAL y = 0; int i;\n#pragma omp parallel for num_threads(2)\nfor (i = 0; i < 64; i++) {\n#pragma omp atomic\ny += x[i & 1] * x[0];\n} return y;",
            |x| vec![64.0 * x[0] + 32.0 * x[1], 32.0 * x[0]],
        ),
        formula(
            "omp_atomic_product",
            &[1.25, 0.5],
            "REAL y = 1; int i;\n#pragma omp parallel for num_threads(2)\nfor (i = 0; i < 4; i++) {\n#pragma omp atomic\ny *= x[i & 1];\n} return y;",
            |x| vec![2.0 * x[0] * x[1] * x[1], 2.0 * x[0] * x[0] * x[1]],
        ),
        formula(
            "omp_critical",
            &[1.5, -0.75],
            "REAL y = 0; int i;\n#pragma omp parallel for num_threads(2)\nfor (i = 0; i < 16; i++) {\n#pragma omp critical\n{ y += x[i & 1]; }\n} return y * y;",
            |x| {
                let y = 8.0 * (x[0] + x[1]);
                vec![16.0 * y, 16.0 * y]
            },
        ),
        formula(
            "omp_private",
            &[1.5, -0.75],
            "REAL t[32], y = 0, a = x[1]; int i;\n#pragma omp parallel for num_threads(2) firstprivate(a)\nfor (i = 0; i < 32; i++) { a = x[0] * x[1]; t[i] = a * x[i & 1]; }\nfor (i = 0; i < 32; i++) y += t[i]; return y;",
            |x| vec![16.0 * (2.0 * x[0] * x[1] + x[1] * x[1]), 16.0 * (x[0] * x[0] + 2.0 * x[0] * x[1])],
        ),
        formula(
            "omp_simd",
            &[1.5, -0.75],
            "REAL y = 0; int i;\n#pragma omp simd reduction(+ : y)\nfor (i = 0; i < 48; i++) y += x[0] * (REAL)i + x[1]; return y;",
            |_| vec![(0..48).map(f64::from).sum(), 48.0],
        ),
        formula(
            "omp_sections",
            &[1.5, -0.75],
            "REAL a = 0, b = 0;\n#pragma omp parallel sections num_threads(2)\n{\n#pragma omp section\na = x[0] * x[0];\n#pragma omp section\nb = x[1] * x[0];\n}\nreturn a + b;",
            |x| vec![2.0 * x[0] + x[1], x[0]],
        ),
    ]
}
