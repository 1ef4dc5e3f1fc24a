//! Real numbers as words of 32 bits, of which the highest has sign and exponent: as FDLIBM and what descends from it take them apart and put them together.

use derivgrind_tests::formula::{Formula, formula};

/// The others use what the first one defines: which word is the highest, bits in it below the exponent, its sign and the ones of its exponent field.
pub fn formulas() -> Vec<Formula> {
    vec![
        formula(
            "highest_word_in_memory",
            &[1.5, -0.75],
            "REAL t[2]; t[0] = x[0]; t[1] = x[1]; change_words(t, 3); return t[0] * t[0] * t[1];",
            |x| vec![-2.0 * 64.0 * x[0] * x[1], -64.0 * x[0] * x[0]],
        )
        .with(
            "enum { TOP = (MANTISSA + EXPONENT) / 32, FRACTION = MANTISSA % 32 };
             #define TOP_SIGN ((uint32_t)1 << (FRACTION + EXPONENT))
             #define FIELD (((uint32_t)1 << EXPONENT) - 1)
             union words { REAL r; uint32_t w[sizeof(REAL) / 4]; };
             static inline uint32_t get_top(REAL a) { union words u; u.r = a; return u.w[TOP]; }
             static inline REAL set_top(REAL a, uint32_t top) { union words u; u.r = a; u.w[TOP] = top; return u.r; }
             static NOINLINE void change_words(REAL *t, int k) {
                union words *w = (union words *)t;
                w[0].w[TOP] += (uint32_t)k << FRACTION;
                w[1].w[TOP] &= TOP_SIGN - 1; }",
        ),
        formula(
            "highest_word_set",
            &[1.5, -0.75],
            "return set_sign(x[0], 1) * raise_top(x[1], 2) * x[0];",
            |x| vec![-8.0 * x[0] * x[1], -4.0 * x[0] * x[0]],
        )
        .with(
            "static NOINLINE REAL set_sign(REAL a, int negative) { uint32_t top = get_top(a); top = (top & (TOP_SIGN - 1)) | (negative ? TOP_SIGN : 0); return set_top(a, top); }
             static NOINLINE REAL raise_top(REAL a, int k) { return set_top(a, get_top(a) + ((uint32_t)k << FRACTION)); }",
        ),
        formula(
            "put_together_from_words",
            &[1.5, -0.75],
            "return from_words(x[0], 1, 0) * from_words(x[1], -3, 1) * x[1];",
            |x| vec![-0.25 * x[1] * x[1], -0.5 * x[0] * x[1]],
        )
        .with(
            "static NOINLINE REAL from_words(REAL a, int k, int flip) {
                union words from, to; int i; from.r = a; to.r = 0;
                to.w[TOP] = (from.w[TOP] + ((uint32_t)k << FRACTION)) ^ (flip ? TOP_SIGN : 0);
                for (i = TOP - 1; i >= 0; i--) to.w[i] = from.w[i];
                return to.r; }",
        ),
        formula(
            "ldexp_and_frexp_by_words",
            &[1.5, -0.75],
            "int e; REAL m = fraction_by_words(x[1], &e); return exponent_set(x[0], 3) + m * e;",
            // -0.75 = -0.75 * 2^0, and 7 is added to the exponent.
            |_| vec![8.0, 7.0],
        )
        .with(
            "static NOINLINE REAL exponent_set(REAL a, int k) {
                uint32_t top = get_top(a), field = top >> FRACTION & FIELD;
                return set_top(a, (top & ~(FIELD << FRACTION)) | (field + (uint32_t)k) << FRACTION); }
             static NOINLINE REAL fraction_by_words(REAL a, int *e) {
                uint32_t top = get_top(a); *e = (int)((top & (TOP_SIGN - 1)) >> FRACTION) - (int)(FIELD / 2 - 1) + 7;
                return set_top(a, (top & ~(FIELD << FRACTION)) | (FIELD / 2 - 1) << FRACTION); }",
        ),
        formula(
            "copysign_and_maximum_by_words",
            &[1.5, -0.75],
            "return sign_from(x[0], x[1]) * larger(x[0], x[1]) * larger(x[1], x[1]);",
            // -x0 * x0 * -x1
            |x| vec![2.0 * x[0] * x[1], x[0] * x[0]],
        )
        .with(
            "static NOINLINE REAL sign_from(REAL a, REAL b) { return set_top(a, (get_top(a) & (TOP_SIGN - 1)) | (get_top(b) & TOP_SIGN)); }
             static NOINLINE REAL larger(REAL a, REAL b) {
                uint32_t of_a = get_top(a) & (TOP_SIGN - 1), of_b = get_top(b) & (TOP_SIGN - 1);
                return of_a > of_b ? set_top(a, of_a) : set_top(b, of_b); }",
        ),
        formula(
            "words_used_by_everything",
            &[1.5, -0.75],
            "REAL t = other_sign_of_words(x[0]), s = 0; int i;
             for (i = -2; i <= 2; i++) s += set_top(x[1], get_top(x[1]) + (uint32_t)(i * (1 << FRACTION)));
             return (REAL)(float)t * M(exp)(other_sign_of_words(x[0])) * (REAL)(long double)other_sign_of_words(x[1]) * s;",
            |x| {
                let exp = (-x[0]).exp();
                vec![7.75 * x[1] * x[1] * exp * (1.0 - x[0]), 7.75 * 2.0 * x[0] * x[1] * exp]
            },
        )
        .with("static NOINLINE REAL other_sign_of_words(REAL a) { return set_top(a, get_top(a) ^ TOP_SIGN); }"),
    ]
}
