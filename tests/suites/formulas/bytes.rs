//! The upper bytes of real numbers, one or two at a time: constants over sign and exponent, exponents that are raised or replaced, signs, in memory and as compilers keep unions in registers.

use derivgrind_tests::formula::{Formula, formula};

/// The others use what the first one defines: the two bytes with sign and exponent, bits in them below the exponent, the ones of its field, that of numbers from 1/2 to 1, and the two bytes of a number like
/// 3.06 that make it -4 times what it is.
pub fn formulas() -> Vec<Formula> {
    const X: &[f64] = &[1.53, -0.75];
    vec![
        formula("byte_raised", X, "return byte_raised(x[0] * 2) * x[1];", |x| vec![4.0 * x[1], 4.0 * x[0]]).with(
            "enum { UPPER_PAIR = (MANTISSA + EXPONENT) / 16, LOW = MANTISSA % 16, ONES = ((1 << EXPONENT) - 1) << LOW, ONE_HALF = ((1 << (EXPONENT - 1)) - 2) << LOW,
                    OTHER = 0x8000 | (ONE_HALF + (4 << LOW)) | (REAL_BYTES == 4 ? 0x43 : REAL_BYTES == 8 ? 8 : 0) };
             union bytes { REAL r; unsigned char c[sizeof(REAL)]; uint16_t pairs[sizeof(REAL) / 2]; };
             #define SECOND c[2 * UPPER_PAIR]
             #define HIGHEST c[2 * UPPER_PAIR + 1]
             static NOINLINE REAL byte_raised(REAL a) { union bytes u; u.r = a; u.SECOND += 1 << LOW; return u.r; }",
        ),
        formula("byte_raised_in_memory", X, "union bytes u; u.r = x[0] * 2; raise_byte(&u); return u.r * x[1];", |x| vec![4.0 * x[1], 4.0 * x[0]])
            .with("static NOINLINE void raise_byte(volatile union bytes *u) { u->SECOND += 1 << LOW; }"),
        formula("byte_raised_in_place", X, "union bytes u; u.r = x[0] * 2; raise_in_place(&u.SECOND); return u.r * x[1];", |x| vec![4.0 * x[1], 4.0 * x[0]])
            .with("static NOINLINE void raise_in_place(unsigned char *c) { *c += 1 << LOW; }"),
        formula("constant_over_pair", X, "return constant_pair(x[0] * 2) * x[1];", |x| vec![-8.0 * x[1], -8.0 * x[0]])
            .with("static NOINLINE REAL constant_pair(REAL a) { union bytes u; u.r = a; u.pairs[UPPER_PAIR] = OTHER; return u.r; }"),
        formula("constants_over_bytes", X, "return highest_first(x[0] * 2) * highest_last(x[0] * 2) * x[1];", |x| vec![128.0 * x[0] * x[1], 64.0 * x[0] * x[0]])
            .with(
                "static NOINLINE REAL highest_first(REAL a) { union bytes u; u.r = a; u.HIGHEST = OTHER >> 8; u.SECOND = OTHER & 0xff; return u.r; }
                 static NOINLINE REAL highest_last(REAL a) { union bytes u; u.r = a; u.SECOND = OTHER & 0xff; u.HIGHEST = OTHER >> 8; return u.r; }",
            ),
        formula(
            "constants_over_bytes_in_memory",
            X,
            "union bytes t, s; t.r = s.r = x[0] * 2; put_constants(&t, 1); put_constants(&s, 0); return t.r * s.r * x[1];",
            |x| vec![128.0 * x[0] * x[1], 64.0 * x[0] * x[0]],
        )
        .with(
            "static NOINLINE void put_constants(volatile union bytes *u, int highest_first) {
                if (highest_first) u->HIGHEST = OTHER >> 8;
                u->SECOND = OTHER & 0xff;
                if (!highest_first) u->HIGHEST = OTHER >> 8; }",
        ),
        formula("frexp_by_pair", X, "return frexp_pair(x[0] * 2) * x[1];", |x| vec![0.5 * x[1], 0.5 * x[0]])
            .with("static NOINLINE REAL frexp_pair(REAL a) { union bytes u; u.r = a; u.pairs[UPPER_PAIR] = (u.pairs[UPPER_PAIR] & ~ONES) | ONE_HALF; return u.r; }"),
        formula("frexp_by_bytes", X, "return frexp_highest_first(x[0] * 2) * frexp_highest_last(x[0] * 2) * x[1];", |x| vec![0.5 * x[0] * x[1], 0.25 * x[0] * x[0]])
            .with(
                "#define FREXP(BYTE, BITS) u.BYTE = (u.BYTE & ~(ONES >> BITS)) | (ONE_HALF >> BITS & 0xff);
                 static NOINLINE REAL frexp_highest_first(REAL a) { union bytes u; u.r = a; FREXP(HIGHEST, 8) FREXP(SECOND, 0) return u.r; }
                 static NOINLINE REAL frexp_highest_last(REAL a) { union bytes u; u.r = a; FREXP(SECOND, 0) FREXP(HIGHEST, 8) return u.r; }
                 #undef FREXP",
            ),
        formula(
            "frexp_by_bytes_in_memory",
            X,
            "union bytes t, s; t.r = s.r = x[0] * 2; put_half(&t, 1); put_half(&s, 0); return t.r * s.r * x[1];",
            |x| vec![0.5 * x[0] * x[1], 0.25 * x[0] * x[0]],
        )
        .with(
            "static NOINLINE void put_half(volatile union bytes *u, int highest_first) {
                if (highest_first) u->HIGHEST = (u->HIGHEST & ~(ONES >> 8)) | ONE_HALF >> 8;
                u->SECOND = (u->SECOND & ~ONES) | (ONE_HALF & 0xff);
                if (!highest_first) u->HIGHEST = (u->HIGHEST & ~(ONES >> 8)) | ONE_HALF >> 8; }",
        ),
        formula("copysign_by_bytes", X, "return byte_copysign(x[0] * 2, x[1]) * x[1];", |x| vec![-2.0 * x[1], -2.0 * x[0]])
            .with(
                "static NOINLINE REAL byte_copysign(REAL a, REAL b) { union bytes u, v; u.r = a; v.r = b; u.HIGHEST = (u.HIGHEST & 0x7f) | (v.HIGHEST & 0x80); return u.r; }",
            ),
    ]
}
