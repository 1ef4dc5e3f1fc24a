//! Calls and storage: long argument lists, thread-local variables, `alloca`, complex numbers, jumps, text.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("eighteen_arguments", &[1.5, -0.75], "return eighteen(1, x[0], 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, x[1], 12, 13, 14, 15, x[0]);", |x| {
            vec![2.0 * x[0] + x[1] + 17.0, x[0]]
        })
        .with(
            "static NOINLINE REAL eighteen(int a, REAL b, REAL c, REAL d, int e, REAL f, REAL g, REAL h, REAL i, REAL j, REAL k, REAL l, REAL m, REAL n, long o, REAL p, REAL q, REAL r) {
                return b * r + m * b + r * (REAL)(a + e + o) + b * (c - 3) + 0 * (d + f + g + h + i + j + k + l + n + p + q); }",
        ),
        formula("thread_local", &[1.5, -0.75], "own_value = x[0]; own_array[3] = x[1]; return read_own() * own_value;", |x| vec![x[1], x[0]])
            .with("static __thread REAL own_value, own_array[5]; static NOINLINE REAL read_own(void) { return own_array[3]; }"),
        formula("alloca", &[1.5, -0.75], "return on_stack(x, 21);", |x| vec![20.0 * x[1] + 1.0, 20.0 * x[0]]).with(
            "static NOINLINE REAL on_stack(const REAL *x, int n) { REAL *t = (REAL *)alloca(n * sizeof *t), y = 0; int i; for (i = 0; i < n; i++) t[i] = x[0]; for (i = 1; i < n; i++) y += t[i] * x[1]; return y + t[0]; }",
        ),
        formula("pair_returned", &[1.5, -0.75], "struct couple c = divided(x[0], x[1]); return c.quotient * 3 + c.product;", |x| {
            vec![3.0 / x[1] + x[1], -3.0 * x[0] / (x[1] * x[1]) + x[0]]
        })
        .with("struct couple { REAL quotient, product; }; static NOINLINE struct couple divided(REAL a, REAL b) { struct couple c; c.quotient = a / b; c.product = a * b; return c; }"),
        formula("real_beside_integer", &[1.5, -0.75], "struct tagged t = tagged(x[0] * x[1], 4); return t.value * (REAL)t.tag;", |x| vec![4.0 * x[1], 4.0 * x[0]])
            .with("struct tagged { REAL value; int tag; }; static NOINLINE struct tagged tagged(REAL a, int k) { struct tagged t; t.value = a; t.tag = k; return t; }"),
        formula("varargs_copied", &[1.5, -0.75], "return (REAL)twice(2, (double)x[0], (double)x[1]);", |x| vec![x[1], x[0]]).with(
            "static double all_of(int n, va_list l) { double y = 1; while (n--) y *= va_arg(l, double); return y; }
             static NOINLINE double twice(int n, ...) { va_list l, m; double y; va_start(l, n); va_copy(m, l); y = (all_of(n, l) + all_of(n, m)) / 2; va_end(l); va_end(m); return y; }",
        ),
        formula("setjmp_in_loop", &[1.125], "volatile int count = 0; volatile REAL y = x[0]; setjmp(again); if (count++ < 5) { y = y * x[0]; longjmp(again, 1); } return y;", |x| {
            vec![6.0 * x[0].powi(5)]
        })
        .with("static jmp_buf again;"),
        formula("computed_goto", &[1.5, -0.75], "static const int program[] = {0, 1, 0, 2}; REAL y = x[0]; int i = 0; const void *targets[3];
             targets[0] = &&add; targets[1] = &&multiply; targets[2] = &&done; goto *targets[program[i++]]; add: y += x[1]; goto *targets[program[i++]];
             multiply: y *= x[1]; goto *targets[program[i++]]; done: return y;", |x| vec![x[1], x[0] + 2.0 * x[1] + 1.0]),
        formula("duff_device", &[1.5, -0.75], "REAL y = 0; int n = 11, i = 0, k = (n + 3) / 4; switch (n % 4) { case 0: do { y += x[i++ & 1]; case 3: y += x[i++ & 1]; case 2: y += x[i++ & 1]; case 1: y += x[i++ & 1]; } while (--k > 0); } return y;", |_| {
            vec![6.0, 5.0]
        }),
        formula("complex_product", &[1.5, -0.75], "COMPLEX z = made(x[0], x[1]); z = z * z * z; return part(z, 0) + 2 * part(z, 1);", |x| {
            let (re, im) = (3.0 * (x[0] * x[0] - x[1] * x[1]), 6.0 * x[0] * x[1]);
            vec![re + 2.0 * im, -im + 2.0 * re]
        })
        .with(
            "static NOINLINE COMPLEX made(REAL a, REAL b) { COMPLEX z; ((REAL *)&z)[0] = a; ((REAL *)&z)[1] = b; return z; }
             static NOINLINE REAL part(COMPLEX z, int k) { return ((REAL *)&z)[k]; }",
        ),
        formula("complex_quotient", &[1.5, -0.75], "COMPLEX z = made(x[0], x[1]); z = 1 / z; return part(z, 0) + 2 * part(z, 1);", |x| {
            // -1/z^2 in the first direction, -i/z^2 in the second.
            let (re, im) = (x[0] * x[0] - x[1] * x[1], 2.0 * x[0] * x[1]);
            let size = re * re + im * im;
            let (re, im) = (-re / size, im / size);
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("complex_quotient_with_constants", &[-0.75], "COMPLEX z = 1 / made(1, x[0]); return part(z, 0) + 2 * part(z, 1);", |x| {
            // (1 - ix)/(1 + x^2)
            let size = 1.0 + x[0] * x[0];
            vec![(-2.0 * x[0] - 2.0 * (1.0 - x[0] * x[0])) / (size * size)]
        }),
        formula("complex_quotients_with_constants", &[-0.75, 1e-5], "static const double parts[] = {1, 1.5, 3, 0.75, -6, 2, 0.375, 0.5}; REAL y = 0; int i;
             for (i = 0; i < 8; i++) { COMPLEX z = made(2, 1) / made((REAL)parts[i], x[i & 1]); y += part(z, 0) + 2 * part(z, 1); } return y;", |x| {
            // (2 + i)(c - ix)/(c^2 + x^2) = (2c + x + i(c - 2x))/(c^2 + x^2)
            let mut gradient = vec![0.0; 2];
            for (i, c) in [1.0, 1.5, 3.0, 0.75, -6.0, 2.0, 0.375, 0.5f64].into_iter().enumerate() {
                let x = x[i & 1];
                let (size, numerator) = (c * c + x * x, 4.0 * c - 3.0 * x);
                gradient[i & 1] += -3.0 / size - numerator * 2.0 * x / (size * size);
            }
            gradient
        }),
        formula("complex_exponential", &[0.5, -0.75], "COMPLEX z = M(cexp)(made(x[0], x[1])); return part(z, 0) + 2 * part(z, 1);", |x| {
            let (re, im) = (x[0].exp() * x[1].cos(), x[0].exp() * x[1].sin());
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("complex_root", &[1.5, -0.75], "COMPLEX z = M(csqrt)(made(x[0], x[1])); return part(z, 0) + 2 * part(z, 1);", |x| {
            // 1/(2 sqrt z), sqrt z = p + q i.
            let r = x[0].hypot(x[1]);
            let (p, q) = (((r + x[0]) / 2.0).sqrt(), x[1].signum() * ((r - x[0]) / 2.0).sqrt());
            let (re, im) = (p / (2.0 * r), -q / (2.0 * r));
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("through_text", &[1.5, -0.75], "char text[64]; snprintf(text, sizeof text, \"%.9g\", (double)x[1]); return x[0] * (REAL)atof(text);", |x| vec![x[1], 0.0])
            .as_documented(),
        formula("binary_search", &[1.5, -0.75], "REAL key = x[0] * 2, t[5], *found; int i; for (i = 0; i < 5; i++) t[i] = (REAL)i * x[0]; found = (REAL *)bsearch(&key, t, 5, sizeof *t, by_order); return found ? *found * x[1] : 0;", |x| {
            vec![2.0 * x[1], 2.0 * x[0]]
        })
        .with("static int by_order(const void *a, const void *b) { REAL p = *(const REAL *)a, q = *(const REAL *)b; return (p > q) - (p < q); }"),
    ]
}
