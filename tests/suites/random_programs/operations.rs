//! What random programs are made of: operations on real numbers, each in the spellings that programmers and compilers have for it.

use crate::format::Format::{self, Double, Extended, Float};
use crate::rules::{
    Rule, absolute, add, between, complex_quotient, complex_square, copy_sign, divide, first, fraction, fused,
    interpolated, larger_pairs, maximum, maximum_of_unequal, median, minimum, multiplied_sign, multiply, negate,
    polynomial, rest_of_lower, rest_of_nearest, rest_towards_zero, root, same, scale_down, scale_up, select,
    select_of_unequal, shuffled, subtract, value,
};

/// Code that may lose a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// None.
    Nowhere,
    /// That of compilers at -O0.
    Unoptimised,
    /// Any.
    Anywhere,
}

/// An operation in one spelling.
pub struct Operation {
    /// Body of a C function of `$R a, b, c, d` and `int k`, in which `$R` is the format, `$B` and `$I` are the unsigned and signed integer of its size, `$M` and `$E` the
    /// widths of mantissa and exponent, `$F` the suffix of its math functions.
    pub body: &'static str,
    /// How many of the operands it reads.
    pub operands: usize,
    /// Formats that it exists in.
    pub formats: &'static [Format],
    /// What it computes.
    pub rule: Rule,
    /// Where its derivative may be lost, with a note (docs/instructions.md).
    pub lost: Lost,
}

const EACH: &[Format] = &[Float, Double, Extended];
/// Formats whose bits are a C integer.
const BITS: &[Format] = &[Float, Double];

const fn spelled(operands: usize, formats: &'static [Format], rule: Rule, body: &'static str) -> Operation {
    Operation { body, operands, formats, rule, lost: Lost::Nowhere }
}

/// A spelling of which compilers at -O0 change single bytes in registers.
const fn unoptimised(operands: usize, formats: &'static [Format], rule: Rule, body: &'static str) -> Operation {
    Operation { body, operands, formats, rule, lost: Lost::Unoptimised }
}

/// A spelling of which compilers change one or two bytes in registers, and put them back there.
const fn lossy(operands: usize, formats: &'static [Format], rule: Rule, body: &'static str) -> Operation {
    Operation { body, operands, formats, rule, lost: Lost::Anywhere }
}

/// All operations.
pub const OPERATIONS: &[Operation] = &[
    spelled(2, EACH, add, "return a + b;"),
    spelled(2, EACH, subtract, "return a - b;"),
    spelled(2, EACH, multiply, "return a * b;"),
    spelled(2, EACH, divide, "return a / b;"),
    spelled(3, EACH, fused, "return fma$F(a, b, c);"),
    spelled(3, EACH, fused, "return a * b + c;"),
    spelled(3, EACH, fused, "return c - -a * b;"),
    spelled(
        3,
        EACH,
        fused,
        "$R s[3] = {c, a, b}; int i; for (i = 1; i < 2; i++) s[0] += s[i] * s[i + 1]; return s[0];",
    ),
    spelled(1, EACH, root, "return sqrt$F(a < 0 ? -a : a);"),
    spelled(
        1,
        EACH,
        root,
        "$R s = fabs$F(a), y = 1 + s; int i; for (i = 0; i < 16; i++) y = (y + s / y) / 2; return y;",
    ),
    // Negation.
    spelled(1, EACH, negate, "return -a;"),
    spelled(1, EACH, negate, "return 0 - a;"),
    spelled(1, EACH, negate, "return copysign$F(a, -a);"),
    spelled(1, EACH, negate, "volatile $R t = a; t = -t; return t;"),
    unoptimised(
        1,
        BITS,
        negate,
        "$B w; memcpy(&w, &a, sizeof w); w ^= ($B)1 << ($M + $E); memcpy(&a, &w, sizeof w); return a;",
    ),
    unoptimised(
        1,
        BITS,
        negate,
        "union { $R r; uint32_t w[sizeof($R) / 4]; } u; u.r = a; u.w[sizeof($R) / 4 - 1] ^= 0x80000000u; return u.r;",
    ),
    lossy(
        1,
        BITS,
        negate,
        "union { $R r; unsigned char c[sizeof($R)]; } u; u.r = a; u.c[sizeof($R) - 1] ^= 0x80; return u.r;",
    ),
    lossy(
        1,
        BITS,
        negate,
        "union { $R r; struct { $B mantissa : $M, exponent : $E, negative : 1; } f; } u; u.r = a; u.f.negative = !u.f.negative; return u.r;",
    ),
    // Absolute value.
    spelled(1, EACH, absolute, "return fabs$F(a);"),
    spelled(1, EACH, absolute, "return a < 0 ? -a : a;"),
    spelled(1, EACH, absolute, "return signbit(a) ? -a : a;"),
    spelled(1, EACH, absolute, "return fmax$F(a, -a);"),
    spelled(1, EACH, absolute, "return sqrt$F(a * a);"),
    unoptimised(
        1,
        BITS,
        absolute,
        "$B w; memcpy(&w, &a, sizeof w); w &= (($B)1 << ($M + $E)) - 1; memcpy(&a, &w, sizeof w); return a;",
    ),
    unoptimised(
        1,
        BITS,
        absolute,
        "union { $R r; uint32_t w[sizeof($R) / 4]; } u; u.r = a; u.w[sizeof($R) / 4 - 1] &= 0x7fffffff; return u.r;",
    ),
    lossy(
        1,
        BITS,
        absolute,
        "union { $R r; unsigned char c[sizeof($R)]; } u; u.r = a; u.c[sizeof($R) - 1] &= 0x7f; return u.r;",
    ),
    unoptimised(
        1,
        BITS,
        absolute,
        "$B w; memcpy(&w, &a, sizeof w); w = w << 1 >> 1; memcpy(&a, &w, sizeof w); return a;",
    ),
    // Sign of another number.
    spelled(2, EACH, copy_sign, "return copysign$F(a, b);"),
    spelled(2, EACH, copy_sign, "return (a < 0) == (b < 0) ? a : -a;"),
    spelled(2, EACH, copy_sign, "return signbit(b) ? -fabs$F(a) : fabs$F(a);"),
    spelled(
        2,
        BITS,
        copy_sign,
        "$B v, w, s = ($B)1 << ($M + $E); memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); v = (v & ~s) | (w & s); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        2,
        BITS,
        copy_sign,
        "union { $R r; uint32_t w[sizeof($R) / 4]; } u, v; u.r = a; v.r = b; u.w[sizeof($R) / 4 - 1] = (u.w[sizeof($R) / 4 - 1] & 0x7fffffff) | (v.w[sizeof($R) / 4 - 1] & 0x80000000u); return u.r;",
    ),
    spelled(
        2,
        BITS,
        multiplied_sign,
        "$B v, w; memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); v ^= w & (($B)1 << ($M + $E)); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(2, EACH, multiplied_sign, "return b < 0 ? -a : a;"),
    // Minimum and maximum.
    spelled(2, EACH, minimum, "return a < b ? a : b;"),
    spelled(2, EACH, minimum, "return b > a ? a : b;"),
    spelled(2, EACH, minimum, "return fmin$F(a, b);"),
    spelled(2, EACH, minimum, "if (b < a) { $R t = a; a = b; b = t; } return a;"),
    spelled(2, EACH, minimum, "const $R *p = &a; if (b < *p) p = &b; return *p;"),
    spelled(
        2,
        BITS,
        maximum_of_unequal,
        "$B v, w, m = -($B)(a > b); memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); v = (v & m) | (w & ~m); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(2, EACH, maximum, "return a < b ? b : a;"),
    spelled(2, EACH, maximum, "return fmax$F(a, b);"),
    spelled(2, EACH, maximum, "return (a + b + fabs$F(a - b)) / 2;"),
    spelled(
        2,
        BITS,
        maximum,
        "$I v, w; memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); if (v < 0 && w < 0) return v < w ? a : b; return v > w ? a : b;",
    ),
    // Selection.
    spelled(3, EACH, select, "return c < 0 ? a : b;"),
    spelled(3, EACH, select, "$R t[2]; t[0] = b; t[1] = a; return t[c < 0];"),
    spelled(3, EACH, select, "volatile $R t[2]; t[0] = b; t[1] = a; return t[c < 0];"),
    spelled(3, EACH, select, "switch (c < 0) { case 0: return b; default: return a; }"),
    spelled(3, EACH, select, "return (c < 0) * a + (c >= 0) * b;"),
    spelled(3, EACH, select, "$R r = b; if (c < 0) r = a; return r;"),
    spelled(
        3,
        BITS,
        select_of_unequal,
        "$B v, w, m = -($B)(c < 0); memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); v = (v & m) | (w & ~m); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        3,
        BITS,
        select_of_unequal,
        "$I v, w, m; memcpy(&m, &c, sizeof m); memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); m >>= $M + $E; v = (v & m) | (w & ~m); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        3,
        BITS,
        select_of_unequal,
        "$B v, w, m = -($B)(c < 0); memcpy(&v, &a, sizeof v); memcpy(&w, &b, sizeof w); w ^= (v ^ w) & m; memcpy(&a, &w, sizeof w); return a;",
    ),
    spelled(4, EACH, between, "return c < d ? a : b;"),
    spelled(4, EACH, between, "return isless(c, d) ? a + 0 : b - 0;"),
    spelled(4, EACH, between, "$R t = a; int less = c < d; if (!less) t = b; return t;"),
    spelled(3, EACH, median, "return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);"),
    spelled(3, EACH, median, "$R t[3] = {a, b, c}; qsort(t, 3, sizeof *t, order_$F); return t[1];"),
    spelled(
        3,
        EACH,
        median,
        "$R t[3] = {a, b, c}; int i, j; for (i = 1; i < 3; i++) for (j = i; j > 0 && t[j] < t[j - 1]; j--) { $R s = t[j]; t[j] = t[j - 1]; t[j - 1] = s; } return t[1];",
    ),
    spelled(3, EACH, median, "return fmax$F(fmin$F(a, b), fmin$F(fmax$F(a, b), c));"),
    // Powers of two.
    spelled(1, EACH, scale_up, "return ldexp$F(a, k);"),
    spelled(1, EACH, scale_up, "return scalbn$F(a, k);"),
    spelled(1, EACH, scale_up, "return a * (1 << k);"),
    spelled(1, EACH, scale_up, "int i; for (i = 0; i < k; i++) a += a; return a;"),
    spelled(1, EACH, scale_up, "return a * exp2$F(k);"),
    spelled(1, EACH, scale_down, "return ldexp$F(a, -k);"),
    spelled(1, EACH, scale_down, "return a / (1 << k);"),
    spelled(1, BITS, scale_up, "$B w; memcpy(&w, &a, sizeof w); w += ($B)k << $M; memcpy(&a, &w, sizeof w); return a;"),
    spelled(
        1,
        BITS,
        scale_down,
        "$B w; memcpy(&w, &a, sizeof w); w -= ($B)k << $M; memcpy(&a, &w, sizeof w); return a;",
    ),
    spelled(
        1,
        BITS,
        scale_up,
        "union { $R r; uint32_t w[sizeof($R) / 4]; } u; u.r = a; u.w[sizeof($R) / 4 - 1] += (uint32_t)k << $M % 32; return u.r;",
    ),
    spelled(1, BITS, scale_up, "union { $R r; $B w; } u; u.w = ((($B)1 << ($E - 1)) - 1 + k) << $M; return a * u.r;"),
    lossy(
        1,
        BITS,
        scale_up,
        "union { $R r; uint16_t w[sizeof($R) / 2]; } u; u.r = a; u.w[sizeof($R) / 2 - 1] += k << $M % 16; return u.r;",
    ),
    lossy(
        1,
        BITS,
        scale_up,
        "enum { TOP = sizeof($R) - 1 }; unsigned char *p = (unsigned char *)&a; unsigned s = p[TOP - 1] + (k << $M % 8); p[TOP - 1] = s; p[TOP] += s >> 8; return a;",
    ),
    lossy(
        1,
        BITS,
        scale_up,
        "union { $R r; struct { $B mantissa : $M, exponent : $E, negative : 1; } f; } u; u.r = a; u.f.exponent += k; return u.r;",
    ),
    // Mantissa and exponent.
    spelled(1, EACH, fraction, "int e; return frexp$F(a, &e);"),
    spelled(1, EACH, fraction, "return a / ldexp$F(1, ilogb$F(a) + 1);"),
    spelled(
        1,
        BITS,
        fraction,
        "$B w; memcpy(&w, &a, sizeof w); w = (w & ~(((($B)1 << $E) - 1) << $M)) | ((($B)1 << ($E - 1)) - 2) << $M; memcpy(&a, &w, sizeof w); return a;",
    ),
    lossy(
        1,
        BITS,
        fraction,
        "enum { FIELD = ((1 << $E) - 1) << $M % 16, HALF = ((1 << ($E - 1)) - 2) << $M % 16 }; \
         union { $R r; uint16_t w[sizeof($R) / 2]; } u; u.r = a; u.w[sizeof($R) / 2 - 1] = (u.w[sizeof($R) / 2 - 1] & ~FIELD) | HALF; return u.r;",
    ),
    lossy(
        1,
        BITS,
        fraction,
        "enum { FIELD = ((1 << $E) - 1) << $M % 16, HALF = ((1 << ($E - 1)) - 2) << $M % 16, TOP = sizeof($R) - 1 }; union { $R r; unsigned char c[sizeof($R)]; } u; \
         u.r = a; u.c[TOP] = (u.c[TOP] & ~(FIELD >> 8)) | HALF >> 8; u.c[TOP - 1] = (u.c[TOP - 1] & ~FIELD) | (HALF & 0xff); return u.r;",
    ),
    lossy(
        1,
        BITS,
        fraction,
        "enum { FIELD = ((1 << $E) - 1) << $M % 16, HALF = ((1 << ($E - 1)) - 2) << $M % 16, TOP = sizeof($R) - 1 }; \
         unsigned char *p = (unsigned char *)&a; p[TOP - 1] = (p[TOP - 1] & ~FIELD) | (HALF & 0xff); p[TOP] = (p[TOP] & ~(FIELD >> 8)) | HALF >> 8; return a;",
    ),
    spelled(1, EACH, fraction, "while (fabs$F(a) >= 1) a /= 2; while (fabs$F(a) < ($R)0.5) a *= 2; return a;"),
    // Rounding.
    spelled(1, EACH, rest_of_nearest, "return a - rint$F(a);"),
    spelled(1, EACH, rest_of_nearest, "return a - nearbyint$F(a);"),
    spelled(1, EACH, rest_of_nearest, "return a - lrint$F(a);"),
    spelled(1, EACH, rest_of_nearest, "return a - round$F(a);"),
    spelled(1, EACH, rest_of_nearest, "return remainder$F(a, 1);"),
    spelled(
        1,
        BITS,
        rest_of_nearest,
        "static volatile $R large = ($R)1.5 * (($B)1 << $M); volatile $R t = a + large; t -= large; return a - t;",
    ),
    spelled(1, EACH, rest_of_lower, "return a - floor$F(a);"),
    spelled(1, EACH, rest_of_lower, "long n = (long)a; if (n > a) n--; return a - n;"),
    spelled(1, EACH, rest_of_lower, "return ceil$F(-a) + a;"),
    spelled(1, EACH, rest_towards_zero, "return a - (int)a;"),
    spelled(1, EACH, rest_towards_zero, "return a - trunc$F(a);"),
    spelled(1, EACH, rest_towards_zero, "$R whole; return modf$F(a, &whole);"),
    spelled(1, EACH, rest_towards_zero, "return fmod$F(a, 1);"),
    spelled(1, EACH, rest_towards_zero, "return a - ($R)(long long)a;"),
    spelled(1, EACH, rest_towards_zero, "return a - (short)a;"),
    spelled(
        1,
        EACH,
        interpolated,
        "static const $R t[10] = {1, 3, 2, 5, 4, 7, 6, 9, 8, 11}; $R s = fabs$F(a) / 16; int i = (int)s; return t[i] + (s - i) * (t[i + 1] - t[i]);",
    ),
    // Copies.
    spelled(1, EACH, same, "$R t; memcpy(&t, &a, sizeof t); return t;"),
    spelled(1, EACH, same, "volatile $R t = a; return t;"),
    spelled(1, EACH, same, "static $R t; t = a; __asm__ volatile(\"\" : : \"r\"(&t) : \"memory\"); return t;"),
    spelled(1, EACH, same, "static __thread $R t; t = a; __asm__ volatile(\"\" : : \"r\"(&t) : \"memory\"); return t;"),
    spelled(
        1,
        EACH,
        same,
        "volatile unsigned char t[sizeof a]; unsigned char *p = (unsigned char *)&a; size_t i; for (i = 0; i < sizeof a; i++) t[i] = p[i]; for (i = 0; i < sizeof a; i++) p[i] = t[i]; return a;",
    ),
    unoptimised(
        1,
        EACH,
        same,
        "volatile unsigned char t[sizeof a]; unsigned char *p = (unsigned char *)&a; size_t i; for (i = sizeof a; i-- > 0;) t[i] = p[i]; for (i = 0; i < sizeof a; i++) p[i] = t[i]; return a;",
    ),
    spelled(
        1,
        EACH,
        same,
        "unsigned char *p = (unsigned char *)&a; struct { unsigned char c[sizeof a]; } t, *q = &t; memcpy(&t, p, sizeof t); __asm__ volatile(\"\" : \"+r\"(q) : : \"memory\"); memcpy(p, q, sizeof t); return a;",
    ),
    spelled(
        1,
        EACH,
        same,
        "$R *t = malloc(3 * sizeof a), y; t[0] = a; t = realloc(t, 100 * sizeof a); memmove(t + 1, t, 2 * sizeof a); y = t[1]; free(t); return y;",
    ),
    spelled(
        1,
        BITS,
        same,
        "volatile $B w; $B v; memcpy(&v, &a, sizeof v); w = v; v = w; memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        1,
        BITS,
        same,
        "volatile uint32_t w[sizeof a / 4]; uint32_t v[sizeof a / 4]; size_t i; memcpy(v, &a, sizeof v); for (i = 0; i < sizeof a / 4; i++) w[i] = v[i]; for (i = sizeof a / 4; i-- > 0;) v[i] = w[i]; memcpy(&a, v, sizeof v); return a;",
    ),
    // A sign that clang changes between the two is lost.
    lossy(
        1,
        BITS,
        same,
        "$B v; memcpy(&v, &a, sizeof v); v = sizeof v == 4 ? __builtin_bswap32(v) : __builtin_bswap64(v); __asm__ volatile(\"\" : \"+r\"(v)); v = sizeof v == 4 ? __builtin_bswap32(v) : __builtin_bswap64(v); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        1,
        BITS,
        same,
        "$B v, n = 4 * sizeof v; memcpy(&v, &a, sizeof v); v = v << n | v >> n; __asm__ volatile(\"\" : \"+r\"(v)); v = v << n | v >> n; memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(
        1,
        BITS,
        same,
        "$B v, w = 0; volatile unsigned char t[sizeof v]; size_t i; memcpy(&v, &a, sizeof v); for (i = 0; i < sizeof v; i++) t[i] = (unsigned char)(v >> 8 * i); for (i = 0; i < sizeof v; i++) w |= ($B)t[i] << 8 * i; memcpy(&a, &w, sizeof w); return a;",
    ),
    spelled(
        1,
        BITS,
        same,
        "static $B t; $B v; memcpy(&v, &a, sizeof v); v = __atomic_exchange_n(&t, v, __ATOMIC_SEQ_CST); v = __atomic_exchange_n(&t, v, __ATOMIC_SEQ_CST); memcpy(&a, &v, sizeof v); return a;",
    ),
    spelled(1, EACH, same, "return pick(2, (double)0, (double)a);"),
    spelled(1, EACH, same, "return (double)a;"),
    spelled(1, EACH, same, "return (float)a;"),
    spelled(1, EACH, same, "return (long double)a;"),
    spelled(1, EACH, same, "float t = a; return ($R)(double)t;"),
    spelled(1, EACH, same, "return -(float)-a;"),
    spelled(1, EACH, same, "return (a + (int)(a * 16)) - (int)(a * 16);"),
    spelled(
        1,
        EACH,
        same,
        "jmp_buf place; volatile $R t = a; if (!setjmp(place)) { t = -t; longjmp(place, 1); } return -t;",
    ),
    spelled(2, EACH, first, "$R s = a; a = b; b = s; return b;"),
    spelled(
        2,
        EACH,
        first,
        "struct { $R r; int n; $R s; } t = {b, 7, a}, u = t; __asm__ volatile(\"\" : : \"r\"(&u) : \"memory\"); return u.s;",
    ),
    spelled(
        2,
        BITS,
        first,
        "static $B word; $B old, sum; memcpy(&word, &b, sizeof word); memcpy(&old, &b, sizeof old); memcpy(&sum, &a, sizeof sum); __atomic_compare_exchange_n(&word, &old, sum, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); memcpy(&a, &word, sizeof a); return a;",
    ),
    spelled(
        2,
        BITS,
        add,
        "static $B word; $B old, new; $R t; memcpy(&word, &a, sizeof word); do { old = __atomic_load_n(&word, __ATOMIC_RELAXED); memcpy(&t, &old, sizeof t); t += b; memcpy(&new, &t, sizeof t); } while (!__atomic_compare_exchange_n(&word, &old, new, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); memcpy(&t, &word, sizeof t); return t;",
    ),
    // Polynomials, complex numbers, vectors of the compiler.
    spelled(2, EACH, polynomial, "$R s = 0; int i; for (i = 0; i < 4; i++) s = s * a + b; return s;"),
    spelled(2, EACH, polynomial, "$R s = b, p = a; s += b * p; p *= a; s += b * p; p *= a; return s + b * p;"),
    spelled(3, EACH, complex_square, "$R _Complex z = a + b * I; z *= z; return creal$F(z) + cimag$F(z) * c;"),
    spelled(3, EACH, complex_quotient, "$R _Complex z = (a + b * I) / (c + 2 * I); return creal$F(z) - cimag$F(z);"),
    spelled(
        4,
        BITS,
        shuffled,
        "typedef $R V __attribute__((vector_size(4 * sizeof($R)))); V v = {a, b, c, d}, w; w[0] = v[3]; w[1] = v[2]; w[2] = v[1]; w[3] = v[0]; w = v * w + v; return w[0] - w[1] + w[2] - w[3];",
    ),
    spelled(
        4,
        BITS,
        larger_pairs,
        "typedef $R V __attribute__((vector_size(4 * sizeof($R)))); typedef $I W __attribute__((vector_size(4 * sizeof($R)))); V v = {a, b, c, d}, w = {c, d, a, b}; W m = v > w; v = (V)(((W)v & m) | ((W)w & ~m)); return v[0] * 2 + v[1] + v[2] + v[3];",
    ),
    spelled(
        4,
        BITS,
        larger_pairs,
        "$R v[4] = {a, b, c, d}, w[4] = {c, d, a, b}, s = 0; int i; for (i = 0; i < 4; i++) if (w[i] > v[i]) v[i] = w[i]; for (i = 0; i < 4; i++) s += v[i] * (i == 0 ? 2 : 1); return s;",
    ),
    // Math functions.
    spelled(
        1,
        EACH,
        |x, _| {
            let y = (x[0] / 8.0).exp();
            value(y, [y / 8.0])
        },
        "return exp$F(a / 8);",
    ),
    spelled(
        1,
        EACH,
        |x, _| {
            let y = (x[0] / 8.0).exp2();
            value(y, [y * std::f64::consts::LN_2 / 8.0])
        },
        "return exp2$F(a / 8);",
    ),
    spelled(
        1,
        EACH,
        |x, _| value((x[0].abs() + 2.0).ln(), [x[0].signum() / (x[0].abs() + 2.0)]),
        "return log$F(fabs$F(a) + 2);",
    ),
    spelled(1, EACH, |x, _| value(x[0].sin(), [x[0].cos()]), "return sin$F(a);"),
    spelled(1, EACH, |x, _| value(x[0].cos(), [-x[0].sin()]), "return cos$F(a);"),
    spelled(1, EACH, |x, _| value(x[0].sin() + x[0].cos(), [x[0].cos() - x[0].sin()]), "return sin$F(a) + cos$F(a);"),
    spelled(1, EACH, |x, _| value(x[0].atan(), [1.0 / (1.0 + x[0] * x[0])]), "return atan$F(a);"),
    spelled(1, EACH, |x, _| value(x[0].cbrt(), [x[0].cbrt() / (3.0 * x[0])]), "return cbrt$F(a);"),
    spelled(
        2,
        EACH,
        |x, _| {
            let s = x[0] * x[0] + x[1] * x[1];
            value(x[0].hypot(x[1]), [x[0] / s.sqrt(), x[1] / s.sqrt()])
        },
        "return hypot$F(a, b);",
    ),
    spelled(
        2,
        EACH,
        |x, _| {
            let s = x[0] * x[0] + x[1] * x[1];
            value(x[0].atan2(x[1]), [x[1] / s, -x[0] / s])
        },
        "return atan2$F(a, b);",
    ),
    spelled(
        2,
        EACH,
        |x, _| {
            let (p, q) = (1.0 + x[0].abs(), x[1] / 16.0);
            let y = p.powf(q);
            value(y, [q * y / p * x[0].signum(), y * p.ln() / 16.0])
        },
        "return pow$F(1 + fabs$F(a), b / 16);",
    ),
];
