//! The bit patterns of real numbers: exponents changed by integer arithmetic, in whole words, in halves, in bytes and in bit fields.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("exponent_added", &[1.5, -0.75], "return scaled_up(x[0], 3) * scaled_up(x[1], 1);", |x| vec![16.0 * x[1], 16.0 * x[0]])
            .with(PATTERN),
        formula("exponent_subtracted", &[1.5, -0.75], "return scaled_down(x[0], 3) * x[1];", |x| vec![x[1] / 8.0, x[0] / 8.0])
            .with("static NOINLINE REAL scaled_down(REAL a, int k) { union pattern u; u.r = a; u.b -= (BITS)k << MANTISSA; return u.r; }"),
        formula("exponent_added_in_memory", &[1.5, -0.75], "REAL t[2]; t[0] = x[0]; t[1] = x[1]; raise_exponent(&t[0], 2); raise_exponent(&t[1], 1); return t[0] * t[1];", |x| {
            vec![8.0 * x[1], 8.0 * x[0]]
        })
        .with("static NOINLINE void raise_exponent(REAL *p, int k) { BITS b; memcpy(&b, p, sizeof b); b += (BITS)k << MANTISSA; memcpy(p, &b, sizeof b); }"),
        formula("exponent_added_in_array", &[1.5, -0.75], "REAL t[24], y = 0; int i; for (i = 0; i < 24; i++) t[i] = x[i & 1]; raise_exponents(t, 24); for (i = 0; i < 24; i++) y += t[i] * t[i]; return y;", |x| {
            vec![12.0 * 16.0 * 2.0 * x[0], 12.0 * 16.0 * 2.0 * x[1]]
        })
        .with("static NOINLINE void raise_exponents(REAL *t, int n) { int i; for (i = 0; i < n; i++) { BITS b; memcpy(&b, &t[i], sizeof b); b += (BITS)2 << MANTISSA; memcpy(&t[i], &b, sizeof b); } }"),
        formula("negated_in_memory", &[1.5, -0.75], "REAL t[2]; t[0] = x[0] * 2; t[1] = x[1]; negate(&t[0]); negate(&t[1]); return t[0] * t[1] * x[0];", |x| {
            vec![4.0 * x[0] * x[1], 2.0 * x[0] * x[0]]
        })
        .with("static NOINLINE void negate(REAL *p) { BITS b; memcpy(&b, p, sizeof b); b ^= SIGN; memcpy(p, &b, sizeof b); }"),
        formula("highest_byte_in_memory", &[1.5, -0.75], "REAL t[2]; t[0] = x[0] * 2; t[1] = x[1]; flip_highest(&t[0]); clear_highest(&t[1]); return t[0] * t[1] * x[0];", |x| {
            vec![4.0 * x[0] * x[1], 2.0 * x[0] * x[0]]
        })
        .with(
            "static NOINLINE void flip_highest(REAL *p) { ((unsigned char *)p)[(MANTISSA + EXPONENT) / 8] ^= 0x80; }
             static NOINLINE void clear_highest(REAL *p) { ((unsigned char *)p)[(MANTISSA + EXPONENT) / 8] &= 0x7f; }",
        ),
        formula("upper_half_in_memory", &[1.5, -0.75], "REAL t[2]; t[0] = x[0] * 2; t[1] = x[1]; raise_upper(&t[0]); raise_upper(&t[1]); return t[0] * t[1] * x[0];", |x| {
            vec![4.0 * 64.0 * x[0] * x[1], 2.0 * 64.0 * x[0] * x[0]]
        })
        .with("typedef uint16_t __attribute__((may_alias)) PIECE;
             static NOINLINE void raise_upper(REAL *p) { ((PIECE *)p)[(MANTISSA + EXPONENT) / 16] += 3 << (MANTISSA % 16); }"),
        formula("constant_in_highest_byte", &[1.5, -0.75], "REAL t = x[0] * 2; set_highest(&t); return t * x[1];", |x| vec![-2.0 * x[1], -2.0 * x[0]])
        .with(
            "static NOINLINE void set_highest(REAL *p) { ((volatile unsigned char *)p)[(MANTISSA + EXPONENT) / 8] = 0xc0; }",
        ),
        formula("bit_fields", &[1.5, -0.75], "return other_sign(x[0] * 2) * raised(x[1]) * x[0];", |x| vec![-4.0 * 8.0 * x[0] * x[1], -2.0 * 8.0 * x[0] * x[0]])
        .with(
            "#if REAL_BYTES == 4
             struct fields { uint32_t mantissa : MANTISSA, exponent : EXPONENT, negative : 1; };
             #elif REAL_BYTES == 8
             struct fields { uint64_t mantissa : MANTISSA, exponent : EXPONENT, negative : 1; };
             #else
             struct fields { uint64_t mantissa; unsigned exponent : EXPONENT, negative : 1; };
             #endif
             union parts { REAL r; struct fields f; };
             static NOINLINE REAL other_sign(REAL a) { union parts u; u.r = a; u.f.negative = !u.f.negative; return u.r; }
             static NOINLINE REAL raised(REAL a) { union parts u; u.r = a; u.f.exponent += 3; return u.r; }",
        ),
        formula("signs_of_narrowed_numbers", &[1.5, -0.75], "return (REAL)negative(x[0]) * (REAL)magnitude(x[1]) * (REAL)signed_as(x[0], 1);", |x| vec![2.0 * x[0] * x[1], x[0] * x[0]])
        .with(
            "static NOINLINE float negative(REAL a) { return -(float)a; }
             static NOINLINE float magnitude(REAL a) { return fabsf((float)a); }
             static NOINLINE float signed_as(REAL a, float sign) { return copysignf((float)a, sign); }",
        ),
        formula("selection_of_narrowed_numbers", &[1.5, -0.75], "REAL d[8], s = 0; float f[8]; int i;
            for (i = 0; i < 8; i++) { d[i] = 3 * x[i & 1]; f[i] = (float)x[1 - (i & 1)]; }
            for (i = 0; i < 8; i++) if (f[i] < 0) f[i] = -f[i];
            for (i = 0; i < 8; i++) f[i] = copysignf(f[i], (float)d[i]);
            for (i = 0; i < 8; i++) s += (REAL)f[i] * (REAL)(f[i] > (float)d[i] ? f[i] : (float)d[i]);
            return s;", |x| {
            // -x1 * 3 x0 and x0^2, four times each
            vec![4.0 * (-3.0 * x[1] + 2.0 * x[0]), -12.0 * x[0]]
        }),
        formula("minimum_of_narrowed_numbers", &[1.5, -0.75], "return (REAL)smaller(x[0], x[1]) * (REAL)smaller(x[1], -x[0]) * (REAL)smaller(x[1], 2 * x[0]);", |x| {
            // -x0 * -x0 * -x1, by masks with clang
            vec![-2.0 * x[0] * x[1], -x[0] * x[0]]
        })
        .with("static NOINLINE float smaller(REAL a, REAL b) { return fminf(-(float)a, (float)b); }"),
        formula("select_by_exclusive_or", &[1.5, -0.75], "return chosen(x[0], x[1], 1) * chosen(x[1], x[0] * 2, 0) * chosen(3, x[1], 0) * chosen(x[1], 3, 1);", |x| {
            // Among them numbers that are a power of two times each other.
            vec![4.0 * x[0] * x[1] * x[1], 4.0 * x[0] * x[0] * x[1]]
        })
        .with(
            "static NOINLINE REAL chosen(REAL a, REAL b, int first) { union { REAL r; BITS b; } u, v; BITS m = -(BITS)first; u.r = a; v.r = b;
                u.b = v.b ^ ((u.b ^ v.b) & m); return u.r; }",
        )
        .not_extended(),
        formula("select_by_exclusive_or_in_array", &[1.5, -0.75], "REAL t[24], s[24], y = 0; int i; for (i = 0; i < 24; i++) { t[i] = x[i & 1] + i; s[i] = x[1] * (i - 5); }
            choose_larger(t, s, 24); for (i = 0; i < 24; i++) y += t[i] * (i + 1); return y;", |x| {
            let mut gradient = vec![0.0; 2];
            for i in 0..24 {
                let [first, second] = [x[i & 1] + i as f64, x[1] * (i as f64 - 5.0)];
                if first > second {
                    gradient[i & 1] += (i + 1) as f64;
                } else {
                    gradient[1] += (i + 1) as f64 * (i as f64 - 5.0);
                }
            }
            gradient
        })
        .with("static NOINLINE void choose_larger(REAL *t, const REAL *s, int n) { int i; for (i = 0; i < n; i++) { BITS a, b; memcpy(&a, &t[i], sizeof a); memcpy(&b, &s[i], sizeof b); b ^= (a ^ b) & -(BITS)(t[i] > s[i]); memcpy(&t[i], &b, sizeof b); } }")
        .not_extended(),
        formula("swapped_by_exclusive_or", &[1.5, -0.75], "REAL a = x[0], b = 3 * x[1]; swap_bits(&a, &b); return a * a * b;", |x| vec![9.0 * x[1] * x[1], 18.0 * x[0] * x[1]])
        .with("static NOINLINE void swap_bits(REAL *p, REAL *q) { union { REAL r; BITS b; } u, v; u.r = *p; v.r = *q; u.b ^= v.b; v.b ^= u.b; u.b ^= v.b; *p = u.r; *q = v.r; }")
        .not_extended(),
        formula("bytes_by_shifts_in_a_register", &[1.5, -0.75], "return bytes_moved(x[0], sizeof(BITS)) * bytes_moved(x[1], sizeof(BITS)) * x[0];", |x| vec![2.0 * x[0] * x[1], x[0] * x[0]])
        .with(
            "static NOINLINE REAL bytes_moved(REAL a, volatile unsigned n) {
                volatile unsigned char c[sizeof(BITS)]; BITS b, sum = 0; unsigned i;
                memcpy(&b, &a, sizeof b);
                for (i = 0; i < n; i++) c[i] = (unsigned char)(b >> 8 * i);
                for (i = 0; i < n; i++) sum |= (BITS)c[i] << 8 * i;
                memcpy(&a, &sum, sizeof b); return a; }",
        )
        .not_extended(),
        formula(
            "bytes_of_a_number_and_of_the_one_that_a_change_made_of_it",
            &[1.5, -0.75],
            "BITS b[3]; volatile unsigned n = sizeof(BITS);
             b[0] = bits_of(x[0]) ^ SIGN; b[1] = bits_of(x[1]) & ~SIGN; b[2] = bits_of(x[0]) + ((BITS)3 << MANTISSA);
             return mixed_in_memory(x[0], b[0], n) * mixed_in_memory(x[1], b[1], n) * mixed_in_memory(x[0], b[2], n)
                + mixed_by_shifts(x[0], b[0], n) * mixed_by_shifts(x[1], b[1], n) * mixed_by_shifts(x[0], b[2], n);",
            |x| vec![16.0 * 2.0 * x[0] * x[1], 16.0 * x[0] * x[0]],
        )
        .with(
            "#define SIGN ((BITS)1 << (MANTISSA + EXPONENT))
             static NOINLINE BITS bits_of(REAL a) { union pattern u; u.r = a; return u.b; }
             static NOINLINE REAL mixed_in_memory(REAL a, BITS b, unsigned n) {
                union { REAL r; unsigned char c[sizeof(REAL)]; } from, to; unsigned i; from.r = a; to.r = 0;
                for (i = 0; i < n; i++) ((volatile unsigned char *)to.c)[i] = i < n - 2 ? from.c[i] : (unsigned char)(b >> 8 * i);
                return to.r; }
             static NOINLINE REAL mixed_by_shifts(REAL a, BITS b, unsigned n) {
                volatile unsigned char c[sizeof(BITS)]; BITS old = bits_of(a), sum = 0; unsigned i;
                for (i = 0; i < n; i++) c[i] = (unsigned char)((i < n - 2 ? old : b) >> 8 * i);
                for (i = 0; i < n; i++) sum |= (BITS)c[i] << 8 * i;
                memcpy(&a, &sum, sizeof sum); return a; }",
        )
        .not_extended(),
        formula("frexp_by_hand", &[5.0, -0.75], "int e; REAL m = fraction_of(x[0], &e); return m * e + fraction_of(x[1], &e) * e;", |_| {
            // 5 = 1.25 * 2^2, -0.75 = -1.5 * 2^-1
            vec![2.0 / 4.0, -2.0]
        })
        .with(
            "static NOINLINE REAL fraction_of(REAL a, int *e) { union pattern u; u.r = a; *e = (int)((u.b & EXPONENT_MASK) >> MANTISSA) - (1 << (EXPONENT - 1)) + 1;
                u.b = (u.b & ~EXPONENT_MASK) | BIAS; return u.r; }",
        ),
        formula("ldexp_by_hand", &[1.5, -0.75], "return x[0] * power_of_two(5) + x[1] * power_of_two(-3);", |_| vec![32.0, 0.125])
            .with("static NOINLINE REAL power_of_two(int k) { union pattern u; u.r = 1; u.b += (BITS)k << MANTISSA; return u.r; }"),
        formula("is_negative_by_bits", &[1.5, -0.75], "return (sign_of(x[0]) + 2 * sign_of(x[1])) * x[0];", |_| vec![2.0, 0.0])
            .with("static NOINLINE int sign_of(REAL a) { union pattern u; u.r = a; return (int)(u.b >> (MANTISSA + EXPONENT)) & 1; }"),
        formula("order_by_bits", &[1.5, 0.75], "return larger_bits(x[0], x[1]) * x[1];", |x| vec![x[1], x[0]])
            .with("static NOINLINE REAL larger_bits(REAL a, REAL b) { union pattern u, v; u.r = a; v.r = b; return u.b > v.b ? u.r : v.r; }")
            .not_extended(),
        formula("absolute_by_shifts", &[-1.5, 0.75], "return without_sign(x[0]) * without_sign(x[1]);", |x| vec![-x[1], -x[0]])
            .with("static NOINLINE REAL without_sign(REAL a) { union pattern u; u.r = a; u.b = u.b << 1 >> 1; return u.r; }")
            .not_extended(),
        formula("bytes_reversed_twice", &[1.5, -0.75], "return host_order(network_order(x[0])) * x[1];", |x| vec![x[1], x[0]])
            .with(
                "static NOINLINE BITS network_order(REAL a) { union pattern u; u.r = a; return sizeof u.b == 4 ? (BITS)__builtin_bswap32((uint32_t)u.b) : (BITS)__builtin_bswap64((uint64_t)u.b); }
                 static NOINLINE REAL host_order(BITS b) { union pattern u; u.b = sizeof b == 4 ? (BITS)__builtin_bswap32((uint32_t)b) : (BITS)__builtin_bswap64((uint64_t)b); return u.r; }",
            )
            .not_extended(),
        formula("halves_swapped_twice", &[1.5, -0.75], "return rotated(rotated(x[0])) * x[1];", |x| vec![x[1], x[0]])
            .with("static NOINLINE REAL rotated(REAL a) { union pattern u; u.r = a; u.b = u.b << (4 * sizeof u.b) | u.b >> (4 * sizeof u.b); return u.r; }")
            .not_extended(),
        formula("halves_through_integers", &[1.5, -0.75], "return rejoined(x[0]) * x[1];", |x| vec![x[1], x[0]])
            .with(
                "static NOINLINE REAL rejoined(REAL a) { volatile HALF kept[2]; HALF h[2]; memcpy(h, &a, sizeof h); kept[0] = h[0]; kept[1] = h[1];
                    h[0] = kept[0]; h[1] = kept[1]; memcpy(&a, h, sizeof h); return a; }",
            )
            .not_extended(),
        formula("fast_inverse_sqrt", &[2.5], "return inverse_sqrt(x[0], 1);", |x| vec![newton_derivative(x[0], 1)])
            .with(INVERSE_SQRT)
            .not_extended()
            .as_documented(),
        formula("fast_inverse_sqrt_converged", &[2.5], "return inverse_sqrt(x[0], 6);", |x| vec![-0.5 * x[0].powf(-1.5)])
            .not_extended(),
    ]
}

const PATTERN: &str = "union pattern { REAL r; BITS b; unsigned char c[sizeof(REAL)]; };
#define EXPONENT_MASK ((((BITS)1 << EXPONENT) - 1) << MANTISSA)
#define BIAS ((((BITS)1 << (EXPONENT - 1)) - 1) << MANTISSA)
static NOINLINE REAL scaled_up(REAL a, int k) { union pattern u; u.r = a; u.b += (BITS)k << MANTISSA; return u.r; }";

const INVERSE_SQRT: &str = "
#if REAL_BYTES == 4
#define MAGIC 0x5f3759df
#else
#define MAGIC 0x5fe6eb3be0000000
#endif
static NOINLINE REAL inverse_sqrt(REAL a, int steps) { union pattern u; REAL y; u.r = a; u.b = (BITS)MAGIC - (u.b >> 1); y = u.r;
    while (steps--) y = y * ((REAL)1.5 - (REAL)0.5 * a * y * y); return y; }";

/// Derivative of `steps` of Newton's iteration for 1/sqrt(x) from a guess that counts as constant: the guess of the binary64 program, which that of the
/// binary32 program agrees with to its own accuracy.
fn newton_derivative(x: f64, steps: u32) -> f64 {
    let mut y = f64::from_bits(0x5fe6_eb3b_e000_0000 - (x.to_bits() >> 1));
    let mut derivative = 0.0;
    for _ in 0..steps {
        derivative = derivative * (1.5 - 1.5 * x * y * y) - 0.5 * y * y * y;
        y *= 1.5 - 0.5 * x * y * y;
    }
    derivative
}
