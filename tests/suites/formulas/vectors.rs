//! Vector instructions by intrinsics, for compilers that would not choose them: SSE to SSE4.1, AVX, AVX2, FMA.

use derivgrind_tests::formula::{Formula, formula};

/// Vectors of 16 and 32 bytes, and names of intrinsics for the format. `N` and `COUNT` are the numbers of their elements.
const VECTOR: &str = "
#if REAL_BYTES == 4
typedef __m128 VEC; typedef __m256 PAIR;
#define V(name) _mm_##name##_ps
#define Y(name) _mm256_##name##_ps
#define N 4
#else
typedef __m128d VEC; typedef __m256d PAIR;
#define V(name) _mm_##name##_pd
#define Y(name) _mm256_##name##_pd
#define N 2
#endif
#define COUNT (2 * N)
#define FOR(name) __attribute__((noinline, target(name)))
static void spread(REAL *t, const REAL *x) { int i; for (i = 0; i < 8; i++) t[i] = x[i & 1]; }
static REAL weighted_sum(const REAL *t, int n) { REAL y = 0; int i; for (i = 0; i < n; i++) y += (REAL)(i + 1) * t[i]; return y; }
static FOR(\"sse2\") REAL by_mask(const REAL *t) { VEC a = V(loadu)(t), b = V(loadu)(t + 1), m = V(cmpgt)(a, b); REAL r[N];
    V(storeu)(r, V(or)(V(and)(m, a), V(andnot)(m, V(mul)(b, b)))); return weighted_sum(r, 2); }";

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("vectors_select_by_mask", &[1.5, -0.75], "REAL t[8]; spread(t, x); return by_mask(t);", |x| {
            // Even elements: x0 > x1, so x0; odd ones: not x1 > x0, so the square of the element after it, x0.
            vec![1.0 + 4.0 * x[0], 0.0]
        })
        .with(VECTOR),
        formula("vectors_shuffle_in_place", &[1.5, -0.75], "REAL t[4]; int i; for (i = 0; i < 4; i++) t[i] = x[i & 1] * (i + 1); overlapping(t); return t[0] + 2 * t[1] + 3 * t[2] + 4 * t[3];", |_| {
            // t0 + t1, t0, t0, t1: the last step moves two numbers by the place of one.
            vec![1.0 + 2.0 + 3.0, 2.0 + 8.0]
        })
        .with(
            "static NOINLINE void overlapping(REAL *t) {
            #if REAL_BYTES == 4
                __asm__ volatile(
                    \"movups (%0), %%xmm1\\n movss 4(%0), %%xmm0\\n addss (%0), %%xmm0\\n movaps %%xmm0, %%xmm2\\n movlhps %%xmm1, %%xmm2\\n\"
                    \"shufps $0x98, %%xmm1, %%xmm2\\n shufps $0x94, %%xmm2, %%xmm2\\n movups %%xmm2, (%0)\"
                    : : \"r\"(t) : \"memory\", \"xmm0\", \"xmm1\", \"xmm2\");
            #else
                t[3] = t[1]; t[1] = t[2] = t[0]; t[0] += t[3];
            #endif
            }",
        ),
        formula("vectors_shuffle", &[1.5, -0.75], "REAL t[8]; spread(t, x); return swapped_pairs(t);", |_| vec![2.0, 1.0]).with(
            "static FOR(\"sse2\") REAL swapped_pairs(const REAL *t) { VEC a = V(loadu)(t); REAL r[N]; a = V(unpacklo)(V(shuffle)(a, a, 1), a); V(storeu)(r, a); return weighted_sum(r, 2); }",
        ),
        formula("vectors_horizontal", &[1.5, -0.75], "REAL t[8]; spread(t, x); return horizontal(t);", |_| vec![3.0, 3.0]).with(
            "static FOR(\"sse3\") REAL horizontal(const REAL *t) { VEC a = V(loadu)(t); REAL r[N]; a = V(hadd)(a, a); V(storeu)(r, a); return weighted_sum(r, 2); }",
        ),
        formula("vectors_addsub", &[1.5, -0.75], "REAL t[8]; spread(t, x); return add_and_subtract(t);", |_| vec![-1.0 + 2.0, 1.0 + 2.0]).with(
            "static FOR(\"sse3\") REAL add_and_subtract(const REAL *t) { REAL r[N]; V(storeu)(r, V(addsub)(V(loadu)(t + 1), V(loadu)(t))); return weighted_sum(r, 2); }",
        ),
        formula("vectors_blend", &[1.5, -0.75], "REAL t[8]; spread(t, x); return blended(t);", |_| {
            // Elements: t0 where t0 < 0 is false, so -t0; t1 where it is true.
            vec![-1.0, 2.0]
        })
        .with(
            "static FOR(\"sse4.1\") REAL blended(const REAL *t) { VEC a = V(loadu)(t), z = V(setzero)(); REAL r[N]; V(storeu)(r, V(blendv)(V(sub)(z, a), a, a)); return weighted_sum(r, 2); }",
        ),
        formula("vectors_dot_product", &[1.5, -0.75], "REAL t[8]; spread(t, x); return dotted(t);", |x| vec![2.0 * x[0], 2.0 * x[1]])
            .with("static FOR(\"sse4.1\") REAL dotted(const REAL *t) { VEC a = V(loadu)(t); REAL r[N]; V(storeu)(r, V(dp)(a, a, 0x31)); return r[0]; }"),
        formula("vectors_rounded", &[1.5, -0.75], "REAL t[8]; spread(t, x); return fractional(t);", |_| vec![1.0, 2.0]).with(
            "static FOR(\"sse4.1\") REAL fractional(const REAL *t) { VEC a = V(loadu)(t); REAL r[N]; V(storeu)(r, V(sub)(a, V(floor)(a))); return weighted_sum(r, 2); }",
        ),
        formula("vectors_min_max", &[1.5, -0.75], "REAL t[8]; spread(t, x); return smaller_and_larger(t);", |_| vec![1.0 + 2.0, 1.0 + 2.0]).with(
            "static FOR(\"sse2\") REAL smaller_and_larger(const REAL *t) { VEC a = V(loadu)(t), b = V(loadu)(t + 1); REAL r[N]; V(storeu)(r, V(add)(V(min)(a, b), V(max)(a, b))); return weighted_sum(r, 2); }",
        ),
        formula("vectors_converted", &[1.5, -0.625], "REAL t[8]; spread(t, x); return there_and_back(t);", |_| vec![1.0, 2.0]).with(
            "static FOR(\"avx\") REAL there_and_back(const REAL *t) { REAL r[COUNT]; int i; for (i = 0; i < COUNT; i++) r[i] = 0;
                if (sizeof(REAL) == 4) _mm_storeu_ps((float *)r, _mm256_cvtpd_ps(_mm256_cvtps_pd(_mm_loadu_ps((const float *)t))));
                else _mm256_storeu_pd((double *)r, _mm256_cvtps_pd(_mm256_cvtpd_ps(_mm256_loadu_pd((const double *)t)))); return weighted_sum(r, 2); }",
        ),
        formula("vectors_wide", &[1.5, -0.75], "REAL t[8]; spread(t, x); return wide_products(t) / COUNT;", |x| {
            // Every element is x0 x1 + x0.
            vec![x[1] + 1.0, x[0]]
        })
        .with(
            "static FOR(\"avx\") REAL wide_products(const REAL *t) { PAIR a = Y(loadu)(t), b = Y(permute)(a, sizeof(REAL) == 4 ? 0xb1 : 5), c = Y(set1)(t[0]); REAL r[COUNT], y = 0; int i;
                Y(storeu)(r, Y(add)(Y(mul)(a, b), c)); for (i = 0; i < COUNT; i++) y += r[i]; return y; }",
        ),
        formula("vectors_fused", &[1.5, -0.75], "REAL t[8]; spread(t, x); return fused(t);", |x| {
            // Elements: a a - b with b = 2; then - (a r) + a. First two elements, weights 1 and 2.
            let element = |a: f64| -3.0 * a * a + 3.0;
            vec![element(x[0]), 2.0 * element(x[1])]
        })
        .with(
            "static FOR(\"fma\") REAL fused(const REAL *t) { PAIR a = Y(loadu)(t), r = Y(fmsub)(a, a, Y(set1)((REAL)2)); REAL s[COUNT]; Y(storeu)(s, Y(fnmadd)(a, r, a)); return weighted_sum(s, 2); }",
        ),
        formula("vectors_masked_memory", &[1.5, -0.75], "REAL t[8]; spread(t, x); return masked_copy(t);", |x| vec![2.0 * x[0], 0.0]).with(
            "static FOR(\"avx\") REAL masked_copy(const REAL *t) { REAL r[COUNT]; __m256i m; int i; for (i = 0; i < COUNT; i++) r[i] = 0;
                m = sizeof(REAL) == 4 ? _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, 0) : _mm256_setr_epi64x(-1, 0, 0, 0);
                Y(maskstore)(r, m, Y(mul)(Y(maskload)(t, m), Y(loadu)(t))); return weighted_sum(r, 2); }",
        ),
        formula("vectors_gathered", &[1.5, -0.625], "REAL t[8]; spread(t, x); return gathered(t);", |x| vec![2.0 * x[0] + 2.0 * x[1], 2.0 * x[0]]).with(
            "static FOR(\"avx2\") REAL gathered(const REAL *t) { REAL r[COUNT], y = 0; __m128i i4 = _mm_setr_epi32(2, 5, 4, 0); int i;
                if (sizeof(REAL) == 4) { __m128 h = _mm_i32gather_ps((const float *)t, i4, 4); _mm_storeu_ps((float *)r, h); }
                else { __m256d h = _mm256_i32gather_pd((const double *)t, i4, 8); _mm256_storeu_pd((double *)r, h); }
                for (i = 0; i < 2; i++) y += r[i] * r[0] * (i + 1); return y; }",
        ),
        formula("vectors_across_lanes", &[1.5, -0.75], "REAL t[8]; spread(t, x); t[0] = t[0] * 2; return lanes_exchanged(t);", |_| vec![1.0, 2.0]).with(
            "static FOR(\"avx2\") REAL lanes_exchanged(const REAL *t) { PAIR a = Y(loadu)(t); REAL r[COUNT]; Y(storeu)(r, Y(permute2f128)(a, a, 1)); return weighted_sum(r, 2); }",
        ),
        formula("vectors_extracted", &[1.5, -0.75], "REAL t[8]; spread(t, x); return extracted(t);", |x| vec![x[1], x[0]]).with(
            "static FOR(\"sse4.1\") REAL extracted(const REAL *t) { BITS b[2]; REAL r[2];
                if (sizeof(REAL) == 4) { __m128i a = _mm_loadu_si128((const __m128i *)t); b[0] = (BITS)_mm_extract_epi32(a, 0); b[1] = (BITS)_mm_extract_epi32(a, 1); }
                else { __m128i a = _mm_loadu_si128((const __m128i *)t); b[0] = (BITS)_mm_cvtsi128_si64(a); b[1] = (BITS)_mm_cvtsi128_si64(_mm_srli_si128(a, 8)); }
                memcpy(r, b, sizeof r); return r[0] * r[1]; }",
        ),
    ]
    .into_iter()
    .map(Formula::not_extended)
    .collect()
}
