//! The four operations, conversions, and sign tricks.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("add", &[1.5, -0.75], "return x[0] + x[1];", |_| vec![1.0, 1.0]),
        formula("sub", &[1.5, -0.75], "return x[0] - x[1];", |_| vec![1.0, -1.0]),
        formula("mul", &[1.5, -0.75], "return x[0] * x[1];", |x| vec![x[1], x[0]]),
        formula("div", &[1.5, -0.75], "return x[0] / x[1];", |x| vec![1.0 / x[1], -x[0] / (x[1] * x[1])]),
        formula("add_constant", &[1.5], "return x[0] + (REAL)3.5;", |_| vec![1.0]),
        formula("sub_from_constant", &[1.5], "return (REAL)2.25 - x[0];", |_| vec![-1.0]),
        formula("mul_by_constant", &[1.5], "return x[0] * (REAL)-0.625;", |_| vec![-0.625]),
        formula("div_by_constant", &[1.5], "return x[0] / (REAL)4.5;", |_| vec![1.0 / 4.5]),
        formula("constant_by", &[-0.625], "return (REAL)1.5 / x[0];", |x| vec![-1.5 / (x[0] * x[0])]),
        formula("same_operand_twice", &[1.25, 3.0], "return x[0] * x[0] + (x[0] - x[0]) * x[1] + x[1] / x[1];", |x| vec![2.0 * x[0], 0.0]),
        formula("compound_assignment", &[1.5, -0.75], "REAL y = x[0]; y += x[1]; y *= x[1]; y -= x[0]; y /= x[1]; return y;", |x| {
            vec![1.0 - 1.0 / x[1], 1.0 + x[0] / (x[1] * x[1])]
        }),
        formula("overwritten", &[1.5, -0.75], "REAL y = x[0] * x[1]; x[0] = x[1]; y = x[0]; return y;", |_| vec![0.0, 1.0]),
        formula(
            "horner",
            &[0.75],
            "return ((((x[0] * 2 - 3) * x[0] + 5) * x[0] - 7) * x[0] + 11) * x[0] - 13;",
            |x| vec![(((10.0 * x[0] - 12.0) * x[0] + 15.0) * x[0] - 14.0) * x[0] + 11.0],
        ),
        formula("rational", &[1.5, -0.75], "return (x[0] * x[1] + 1) / (x[0] - x[1] * x[1]);", |x| {
            let (p, q) = (x[0] * x[1] + 1.0, x[0] - x[1] * x[1]);
            vec![(x[1] * q - p) / (q * q), (x[0] * q + 2.0 * x[1] * p) / (q * q)]
        }),
        formula("rosenbrock", &[-1.25, 0.5], "REAL u = 1 - x[0], v = x[1] - x[0] * x[0]; return u * u + 100 * v * v;", |x| {
            let v = x[1] - x[0] * x[0];
            vec![-2.0 * (1.0 - x[0]) - 400.0 * x[0] * v, 200.0 * v]
        }),
        formula(
            "product_of_eight",
            &[1.5, -0.75, 0.5, 2.0, -1.25, 3.0, 0.875, 1.125],
            "REAL y = 1; int i; for (i = 0; i < 8; i++) y *= x[i]; return y;",
            |x| {
                let product: f64 = x.iter().product();
                x.iter().map(|factor| product / factor).collect()
            },
        ),
        formula("through_double", &[1.5, -0.75], "double a = x[0], b = x[1]; return (REAL)(a * b + a);", |x| vec![x[1] + 1.0, x[0]]),
        formula("through_float", &[1.5, -0.75], "float a = (float)x[0], b = (float)x[1]; return (REAL)(a * b + a);", |x| {
            vec![x[1] + 1.0, x[0]]
        }),
        formula("through_half", &[1.5, -0.75], "return (REAL)half((float)x[0] + 4096) * x[1] + x[0];", |_| vec![1.0, 4096.0]).with(
            "static NOINLINE float half(float a) { __asm__(\"vcvtps2ph $0, %0, %0\\n\\tvcvtph2ps %0, %0\" : \"+x\"(a)); return a; }",
        ),
        formula("through_int", &[1.5, 2.75], "int i = (int)x[1]; return x[0] * (REAL)i + x[1];", |x| vec![x[1].trunc(), 1.0]),
        formula("through_long", &[1.5, -3.75], "long i = (long)(x[1] * 2); return x[0] * (REAL)i;", |x| vec![(2.0 * x[1]).trunc(), 0.0]),
        formula("through_unsigned", &[1.5, 3.75], "unsigned long i = (unsigned long)x[1]; return x[0] * (REAL)i;", |x| {
            vec![x[1].trunc(), 0.0]
        }),
        formula("negate", &[1.5, -0.75], "return -(x[0] * x[1]);", |x| vec![-x[1], -x[0]]),
        formula("negate_zero", &[0.0, 2.0], "REAL y = -x[0]; return y * x[1] + x[1];", |x| vec![-x[1], -x[0] + 1.0]),
        formula("negate_by_xor", &[1.5, -0.75], "return flip_sign(x[0]) * x[1];", |x| vec![-x[1], -x[0]]).with(
            "static REAL flip_sign(REAL a) { union { REAL r; BITS b; } u; u.r = a; u.b ^= SIGN; return u.r; }",
        ),
        formula("abs_by_and", &[-1.5, 0.75], "return clear_sign(x[0]) * clear_sign(x[1]);", |x| vec![-x[1], -x[0]]).with(
            "static REAL clear_sign(REAL a) { union { REAL r; BITS b; } u; u.r = a; u.b &= ~SIGN; return u.r; }",
        ),
        formula("exec_that_fails", &[1.5, -0.75], "REAL y = x[0] * x[1]; replace_program(); return y * x[0];", |x| {
            vec![2.0 * x[0] * x[1], x[0] * x[0]]
        })
        .with("#include <unistd.h>
             static void replace_program(void) { static char big[1 << 20]; char *arguments[] = {(char *)\"true\", big, 0};
                size_t i; for (i = 0; i + 1 < sizeof big; i++) big[i] = 'a'; execv(\"/bin/true\", arguments); }"),
        formula("constant_made_writable", &[1.5, -0.75], "REAL z = x[0] * x[1], before = 0, after; int i; for (i = 0; i < 3; i++) before += read_number();
             make_writable(); *(volatile REAL *)&number[8] = z; after = read_number(); *(volatile REAL *)&number[8] = 3; return after * before;", |x| {
            vec![9.0 * x[1], 9.0 * x[0]]
        })
        .with("#include <sys/mman.h>
             static const REAL number[16] = {1, 1, 1, 1, 1, 1, 1, 1, 3};
             static NOINLINE REAL read_number(void) { return *(const volatile REAL *)&number[8]; }
             static void make_writable(void) { size_t page = (size_t)number & ~(size_t)4095;
                mprotect((void *)page, 8192, PROT_READ | PROT_WRITE); }"),
        formula("rounding_constant", &[1.3, -0.7], "REAL c = ROUNDING, fine = c / 4;
             return x[0] * x[0] + ((10 * x[0] + c) - c) + (fine - (fine - x[1])) + x[1] * ((x[0] - c) + c);", |x| vec![2.0 * x[0], 1.0]),
        formula("rounding_constant_loop", &[1.31, -0.7], "REAL t[16], y = 0; int i; for (i = 0; i < 16; i++) t[i] = x[i & 1] * (REAL)(i + 1);
             fractions(t, 16); for (i = 0; i < 16; i++) y += (REAL)(i + 1) * t[i]; return y;", |_| {
            [0, 1].iter().map(|&k| (0..16).filter(|i| i % 2 == k).map(|i| f64::from((i + 1) * (i + 1))).sum()).collect()
        })
        .with("static NOINLINE void fractions(REAL *t, int n) { const REAL c = ROUNDING;
                int i; for (i = 0; i < n; i++) t[i] -= (t[i] + c) - c; }"),
        formula("rounding_in_two_functions", &[1.31, -0.73], "volatile REAL t[16]; REAL y = 0; int i; for (i = 0; i < 16; i++) t[i] = with_constant(x[i & 1] * (REAL)(i + 1));
             for (i = 0; i < 16; i++) y += without_constant(t[i]) * x[0] + x[1]; return y;", |x| {
            let rounded = |i: usize| (x[i & 1] * (i + 1) as f64).round();
            vec![(0..16).map(rounded).sum(), 16.0]
        })
        .with("static NOINLINE REAL with_constant(REAL a) { return a + ROUNDING; }
             static NOINLINE REAL without_constant(REAL a) { return a - ROUNDING; }"),
        formula("sum_with_rounding_constant", &[0.3, 1e-6], "REAL c = ROUNDING, sum = c * x[0] + c, small = c + (c * x[1]);
             return (sum * 2 + small - 4 * c * x[0] * x[1]) / c + 3 * ((small + c) / c);", |x| {
            vec![2.0 - 4.0 * x[1], 4.0 - 4.0 * x[0]]
        }),
        formula("rounding_to_odd_halves", &[1.31, -0.7], "REAL c = ROUNDING / 2, d = c - (REAL)0.5, e = c + 15;
             return x[0] * x[0] * ((x[1] + c) - d) + x[1] * ((x[0] + e) - c);", |x| {
            let halves = |a: f64| (2.0 * a).round_ties_even() / 2.0;
            vec![2.0 * x[0] * (halves(x[1]) + 0.5), halves(x[0]) + 15.0]
        }),
        formula("rounding_by_bits", &[1.31, -0.7], "return stepped(x[0]) * stepped(x[1]);", |x| {
            // The number of sixteenths, in two parts, and what is left.
            let parts = |x: f64| {
                let sixteenths = (16.0 * x).round_ties_even();
                let whole = (sixteenths / 16.0).floor();
                ((1.0 + (sixteenths / 16.0 - whole)) * whole.exp2(), x - sixteenths / 16.0)
            };
            let ((p, a), (q, b)) = (parts(x[0]), parts(x[1]));
            vec![p * q * 2.0 * a * (1.0 + b * b), p * q * 2.0 * b * (1.0 + a * a)]
        })
        .with("union rounding { REAL r; BITS b; };
             static NOINLINE REAL stepped(REAL a) { union rounding u, c, scale; REAL s = a * 16 + ROUNDING, rest = a - (s - ROUNDING) / 16; BITS k;
                u.r = s; c.r = ROUNDING; k = u.b - c.b; scale.r = 1; scale.b += (k & ~(BITS)15) << (MANTISSA - 4);
                return scale.r * (1 + (REAL)(int)(k & 15) / 16) * (1 + rest * rest); }")
        .not_extended(),
        formula("copysign_by_bits", &[1.5, -0.75, 2.5], "return with_sign(x[0], x[1]) * with_sign(x[1], x[2]);", |x| {
            vec![x[1], x[0], 0.0]
        })
        .with(
            "static REAL with_sign(REAL a, REAL s) { union { REAL r; BITS b; } u, v; u.r = a; v.r = s;
                u.b = (u.b & ~SIGN) | (v.b & SIGN); return u.r; }",
        ),
        formula("select_by_mask", &[1.5, -0.75], "return masked(x[0], x[1], x[0] > x[1]) + 2 * masked(x[0], x[1], x[0] < x[1]);", |_| {
            vec![1.0, 2.0]
        })
        .with(
            "static REAL masked(REAL a, REAL b, int first) { union { REAL r; BITS b; } u, v; BITS m = -(BITS)first; u.r = a; v.r = b;
                u.b = (u.b & m) | (v.b & ~m); return u.r; }",
        ),
        formula("maximum", &[1.5, -0.75], "REAL m = x[0] > x[1] ? x[0] : x[1]; return m * m;", |x| vec![2.0 * x[0], 0.0]),
        formula("minimum", &[1.5, -0.75], "REAL m = x[0] < x[1] ? x[0] : x[1]; return m * m;", |x| vec![0.0, 2.0 * x[1]]),
        formula("clamp", &[1.5, -0.75, 0.25], "int i; REAL y = 0; for (i = 0; i < 3; i++) y += (i + 1) * (x[i] < -1 ? -1 : x[i] > 1 ? 1 : x[i]); return y;", |_| {
            vec![0.0, 2.0, 3.0]
        }),
    ]
}
