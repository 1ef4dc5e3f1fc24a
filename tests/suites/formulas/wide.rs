//! Instructions that only AVX-512 has: masks, compressed and scattered elements, selections from two registers, and numbers taken apart.
//!
//! Compiled without AVX-512 the formulas compute the same in loops. Each works on the eight lanes `t[i] = (i + 1) x[i % 2]` and returns the sum of
//! `(i + 1) r[i]` over its results: binary64 lanes fill a ZMM register, binary32 lanes a YMM register.

use derivgrind_tests::formula::{Formula, formula};

/// Where the gradients are taken: no lane is near a step of the functions here that have some.
const INPUTS: &[f64] = &[1.3125, -0.71875];

/// Body of a formula that has a function of `t` and `r`.
macro_rules! lanes {
    ($name:literal, $vector:literal, $scalar:literal, $gradient:expr) => {
        formula(
            $name,
            INPUTS,
            concat!(
                "REAL t[8], r[8], y = 0; int i; for (i = 0; i < 8; i++) t[i] = x[i & 1] * (REAL)(i + 1); lanes_of_",
                $name,
                "(t, r); for (i = 0; i < 8; i++) y += (REAL)(i + 1) * r[i]; return y;"
            ),
            $gradient,
        )
        .with(concat!(
            "static NOINLINE void lanes_of_",
            $name,
            "(const REAL *t, REAL *r) {\n#ifdef __AVX512F__\n{ WIDE a = W(loadu)(t); ",
            $vector,
            " }\n#else\n{ int i; ",
            $scalar,
            " }\n#endif\n}"
        ))
    };
}

/// From derivatives of each result with respect to each lane to the gradient: `(result, lane, derivative)`.
fn chain(terms: &[(usize, usize, f64)]) -> Vec<f64> {
    let mut gradient = vec![0.0; 2];
    for &(result, lane, derivative) in terms {
        gradient[lane % 2] += (result + 1) as f64 * derivative * (lane + 1) as f64;
    }
    gradient
}

/// The same for results that depend on their own lane only.
fn each(derivative: impl Fn(usize) -> f64) -> Vec<f64> {
    chain(&(0..8).map(|lane| (lane, lane, derivative(lane))).collect::<Vec<_>>())
}

/// A lane.
fn t(x: &[f64], lane: usize) -> f64 {
    x[lane % 2] * (lane + 1) as f64
}

fn bit(mask: u32, lane: usize) -> bool {
    mask >> lane & 1 != 0
}

/// Values in a register that only AVX-512 has, and in a mask register, while a signal handler uses both.
fn across_a_signal() -> Formula {
    formula(
        "wide_across_a_signal",
        INPUTS,
        "REAL t[16], r[16], y = 0; int i; for (i = 0; i < 16; i++) t[i] = x[i & 1] * x[i & 1]; interrupted(t, r); for (i = 0; i < 8; i++) y += (REAL)(i + 1) * r[i]; return y;",
        |x| vec![2.0 * 16.0 * x[0], 2.0 * 20.0 * x[1]],
    )
    .with(
        r#"
#ifdef __AVX512F__
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
static void disturb(int number) { __asm__ volatile("vpxorq %%zmm21, %%zmm21, %%zmm21\n\tkxorq %%k5, %%k5, %%k5" : : "r"(number) : "xmm21", "k5"); }
static NOINLINE void interrupted(const REAL *t, REAL *r) {
    uint64_t first, number = SYS_kill, process = (uint64_t)getpid(), what = SIGUSR1;
    memcpy(&first, t, 8);
    signal(SIGUSR1, disturb);
    __asm__ volatile("vmovups (%[t]), %%zmm21\n\tkmovq %[first], %%k5\n\tmov %[number], %%rax\n\tmov %[process], %%rdi\n\tmov %[what], %%rsi\n\tsyscall\n\t"
                     "vmovups %%zmm21, (%[r])\n\tkmovq %%k5, (%[r])"
                     : : [t] "r"(t), [r] "r"(r), [first] "r"(first), [number] "r"(number), [process] "r"(process), [what] "r"(what)
                     : "rax", "rdi", "rsi", "rcx", "r11", "xmm21", "k5", "memory");
}
#else
static NOINLINE void interrupted(const REAL *t, REAL *r) { memcpy(r, t, 16 * sizeof *t); }
#endif
"#,
    )
}

pub fn formulas() -> Vec<Formula> {
    vec![
        across_a_signal(),
        lanes!(
            "wide_merge",
            "W(storeu)(r, W(mask_div)(a, 0x2d, W(mul)(a, a), W(set1)(4)));",
            "for (i = 0; i < 8; i++) r[i] = 0x2d >> i & 1 ? t[i] * t[i] / 4 : t[i];",
            |x| each(|i| if bit(0x2d, i) { t(x, i) / 2.0 } else { 1.0 })
        ),
        lanes!(
            "wide_zero",
            "W(storeu)(r, W(maskz_sub)(0xa5, W(set1)(1), a));",
            "for (i = 0; i < 8; i++) r[i] = 0xa5 >> i & 1 ? 1 - t[i] : 0;",
            |_| each(|i| if bit(0xa5, i) { -1.0 } else { 0.0 })
        ),
        lanes!(
            "wide_fused",
            "WIDE b = W(mask_fmadd)(a, 0x0f, a, W(set1)(3)); b = W(mask3_fnmadd)(a, W(set1)(2), b, 0x3c); W(storeu)(r, W(maskz_fmsub)(0x7e, b, W(set1)(2), a));",
            "for (i = 0; i < 8; i++) { REAL b = 0x0f >> i & 1 ? t[i] * t[i] + 3 : t[i]; if (0x3c >> i & 1) b -= 2 * t[i]; r[i] = 0x7e >> i & 1 ? 2 * b - t[i] : 0; }",
            |x| {
                each(|i| {
                    let first = if bit(0x0f, i) { 2.0 * t(x, i) } else { 1.0 };
                    let second = if bit(0x3c, i) { first - 2.0 } else { first };
                    if bit(0x7e, i) { 2.0 * second - 1.0 } else { 0.0 }
                })
            }
        ),
        lanes!(
            "wide_comparison",
            "MASK k = COMPARE(a, W(setzero)(), _CMP_GT_OQ); W(storeu)(r, W(mask_sqrt)(W(sub)(W(setzero)(), a), k, a));",
            "for (i = 0; i < 8; i++) r[i] = t[i] > 0 ? M(sqrt)(t[i]) : -t[i];",
            |x| each(|i| if t(x, i) > 0.0 { 0.5 / t(x, i).sqrt() } else { -1.0 })
        ),
        lanes!(
            "wide_selection",
            "WIDE b = W(mask_min)(a, 0x33, a, W(set1)(2)); W(storeu)(r, W(mask_max)(b, 0x5a, W(set1)(-2), b));",
            "for (i = 0; i < 8; i++) { REAL b = t[i]; if (0x33 >> i & 1 && b > 2) b = 2; if (0x5a >> i & 1 && b < -2) b = -2; r[i] = b; }",
            |x| {
                each(|i| {
                    let cut = bit(0x33, i) && t(x, i) > 2.0 || bit(0x5a, i) && t(x, i) < -2.0;
                    if cut { 0.0 } else { 1.0 }
                })
            }
        ),
        lanes!(
            "wide_memory",
            "REAL s[10]; int i; for (i = 0; i < 10; i++) s[i] = 1; W(mask_storeu)(s + 1, 0x6d, a); W(storeu)(r, W(add)(W(maskz_loadu)(0x1e, s + 2), W(mask_loadu)(a, 0xe0, s)));",
            "REAL s[10]; for (i = 0; i < 10; i++) s[i] = 1; for (i = 0; i < 8; i++) if (0x6d >> i & 1) s[i + 1] = t[i]; for (i = 0; i < 8; i++) r[i] = (0x1e >> i & 1 ? s[i + 2] : 0) + (0xe0 >> i & 1 ? s[i] : t[i]);",
            |_| {
                let mut terms = Vec::new();
                for i in 0..8 {
                    if bit(0x1e, i) && i + 1 < 8 && bit(0x6d, i + 1) {
                        terms.push((i, i + 1, 1.0));
                    }
                    match bit(0xe0, i) {
                        true if i >= 1 && bit(0x6d, i - 1) => terms.push((i, i - 1, 1.0)),
                        true => {}
                        false => terms.push((i, i, 1.0)),
                    }
                }
                chain(&terms)
            }
        ),
        lanes!(
            "wide_compress",
            "WIDE b = W(maskz_compress)(0xb2, a); REAL s[8] = {9, 9, 9, 9, 9, 9, 9, 9}; W(mask_compressstoreu)(s, 0x59, a); W(storeu)(r, W(add)(W(mask_expand)(a, 0xd4, b), W(maskz_expandloadu)(0x3a, s)));",
            "REAL b[8], s[8]; int n = 0, m = 0, j = 0, k = 0; for (i = 0; i < 8; i++) { b[i] = 0; s[i] = 9; } for (i = 0; i < 8; i++) { if (0xb2 >> i & 1) b[n++] = t[i]; if (0x59 >> i & 1) s[m++] = t[i]; }
             for (i = 0; i < 8; i++) { r[i] = 0xd4 >> i & 1 ? b[j++] : t[i]; if (0x3a >> i & 1) r[i] += s[k++]; }",
            |_| {
                let compressed: Vec<usize> = (0..8).filter(|&i| bit(0xb2, i)).collect();
                let stored: Vec<usize> = (0..8).filter(|&i| bit(0x59, i)).collect();
                let (mut terms, mut j, mut k) = (Vec::new(), 0, 0);
                for i in 0..8 {
                    let lane = if bit(0xd4, i) { compressed.get({ j += 1; j - 1 }).copied() } else { Some(i) };
                    terms.extend(lane.map(|lane| (i, lane, 1.0)));
                    if bit(0x3a, i) {
                        terms.extend(stored.get(k).map(|&lane| (i, lane, 1.0)));
                        k += 1;
                    }
                }
                chain(&terms)
            }
        ),
        lanes!(
            "wide_two_tables",
            "INTEGERS n = INDICES(9, 2, 15, 4, 0, 11, 6, 13); WIDE b = W(mul)(a, W(set1)(2)); WIDE c = W(permutex2var)(a, n, b); c = W(mask_permutex2var)(c, 0x66, n, a); W(storeu)(r, W(mask2_permutex2var)(c, n, 0xb9, b));",
            "static const int n[8] = {9, 2, 15, 4, 0, 11, 6, 13}; REAL c[8], d[8]; for (i = 0; i < 8; i++) c[i] = n[i] < 8 ? t[n[i]] : 2 * t[n[i] - 8];
             for (i = 0; i < 8; i++) d[i] = 0x66 >> i & 1 ? (n[i] < 8 ? c[n[i]] : t[n[i] - 8]) : c[i];
             for (i = 0; i < 8; i++) r[i] = 0xb9 >> i & 1 ? (n[i] < 8 ? d[n[i]] : 2 * t[n[i] - 8]) : 0;",
            |_| {
                let n = [9, 2, 15, 4, 0, 11, 6, 13];
                let first = |i: usize| if n[i] < 8 { (n[i], 1.0) } else { (n[i] - 8, 2.0) };
                let second = |i: usize| match bit(0x66, i) {
                    true if n[i] < 8 => first(n[i]),
                    true => (n[i] - 8, 1.0),
                    false => first(i),
                };
                // Where the mask is clear the bits of the indices stay, which are tiny numbers.
                let third = |i: usize| if n[i] < 8 { second(n[i]) } else { (n[i] - 8, 2.0) };
                let selected = (0..8).filter(|&i| bit(0xb9, i));
                chain(&selected.map(|i| (i, third(i).0, third(i).1)).collect::<Vec<_>>())
            }
        ),
        lanes!(
            "wide_shuffles",
            "WIDE b = W(mask_permutexvar)(a, 0x9c, INDICES(3, 3, 1, 0, 7, 2, 5, 4), a) ; W(storeu)(r, W(mask_blend)(0x71, b, W(mask_mov)(b, 0x1f, a)));",
            "static const int n[8] = {3, 3, 1, 0, 7, 2, 5, 4}; for (i = 0; i < 8; i++) { REAL b = 0x9c >> i & 1 ? t[n[i]] : t[i]; r[i] = 0x71 >> i & 1 && 0x1f >> i & 1 ? t[i] : b; }",
            |_| {
                let n = [3, 3, 1, 0, 7, 2, 5, 4];
                let lane = |i: usize| if bit(0x71 & 0x1f, i) || !bit(0x9c, i) { i } else { n[i] };
                chain(&(0..8).map(|i| (i, lane(i), 1.0)).collect::<Vec<_>>())
            }
        ),
        lanes!(
            "wide_scale",
            "W(storeu)(r, W(mask_scalef)(a, 0xe7, a, W(set1)((REAL)-1.5)));",
            "for (i = 0; i < 8; i++) r[i] = 0xe7 >> i & 1 ? t[i] / 4 : t[i];",
            |_| each(|i| if bit(0xe7, i) { 0.25 } else { 1.0 })
        ),
        lanes!(
            "wide_parts",
            "WIDE m = W(getmant)(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), e = W(getexp)(a), f = W(mask_reduce)(a, 0x3f, a, 0x10), g = W(roundscale)(a, 0); W(storeu)(r, W(add)(W(mul)(m, e), W(add)(f, g)));",
            "for (i = 0; i < 8; i++) { REAL m = t[i], e = 0; while (m >= 2 || m <= -2) { m /= 2; e++; } while (m < 1 && m > -1) { m *= 2; e--; } { REAL f = t[i] * 2, g; f = M(rint)(f) / 2; g = M(rint)(t[i]); r[i] = m * e + (0x3f >> i & 1 ? t[i] - f : t[i]) + g; } }",
            |x| {
                each(|i| {
                    let exponent = t(x, i).abs().log2().floor();
                    exponent * 0.5f64.powf(exponent) + 1.0
                })
            }
        ),
        lanes!(
            "wide_range",
            "W(storeu)(r, W(range)(a, W(set1)(3), 6));",
            "for (i = 0; i < 8; i++) r[i] = t[i] < 3 && t[i] > -3 ? t[i] : 3;",
            |x| each(|i| if t(x, i).abs() < 3.0 { 1.0 } else { 0.0 })
        ),
        lanes!(
            "wide_reciprocals",
            "W(storeu)(r, W(mask_rcp14)(W(rsqrt14)(W(mul)(a, a)), 0x55, a));",
            "for (i = 0; i < 8; i++) r[i] = 0x55 >> i & 1 ? 1 / t[i] : 1 / M(sqrt)(t[i] * t[i]);",
            |x| each(|i| if bit(0x55, i) { -1.0 / (t(x, i) * t(x, i)) } else { -t(x, i).signum() / (t(x, i) * t(x, i)) })
        ),
        lanes!(
            "wide_gather",
            "REAL s[16]; int i; for (i = 0; i < 16; i++) s[i] = 1; SCATTER(s, 0xd7, HALF_INDICES(3, 15, 2, 7, 0, 9, 12, 5), a); W(storeu)(r, GATHER(a, 0x7b, HALF_INDICES(0, 1, 3, 15, 9, 2, 5, 12), s));",
            "static const int p[8] = {3, 15, 2, 7, 0, 9, 12, 5}, q[8] = {0, 1, 3, 15, 9, 2, 5, 12}; REAL s[16]; for (i = 0; i < 16; i++) s[i] = 1; for (i = 0; i < 8; i++) if (0xd7 >> i & 1) s[p[i]] = t[i]; for (i = 0; i < 8; i++) r[i] = 0x7b >> i & 1 ? s[q[i]] : t[i];",
            |_| {
                let (p, q) = ([3, 15, 2, 7, 0, 9, 12, 5], [0, 1, 3, 15, 9, 2, 5, 12]);
                let mut terms = Vec::new();
                for (i, gathered) in q.into_iter().enumerate() {
                    if !bit(0x7b, i) {
                        terms.push((i, i, 1.0));
                    } else if let Some(lane) = (0..8).find(|&lane| p[lane] == gathered && bit(0xd7, lane)) {
                        terms.push((i, lane, 1.0));
                    }
                }
                chain(&terms)
            }
        ),
        lanes!(
            "wide_bits",
            "W(storeu)(r, FROM_BITS(BITWISE(mask_ternarylogic)(TO_BITS(a), 0xb5, TO_BITS(W(mul)(a, W(set1)(3))), TO_BITS(W(set1)((REAL)-0.0)), 0x78)));",
            "for (i = 0; i < 8; i++) r[i] = 0xb5 >> i & 1 ? M(fabs)(t[i]) : t[i];",
            |x| each(|i| if bit(0xb5, i) { t(x, i).signum() } else { 1.0 })
        ),
        lanes!(
            "wide_conversion",
            "THROUGH_OTHER_FORMAT(r, a, 0x4e);",
            "for (i = 0; i < 8; i++) r[i] = 0x4e >> i & 1 ? t[i] : 0;",
            |_| each(|i| if bit(0x4e, i) { 1.0 } else { 0.0 })
        ),
        lanes!(
            "wide_scalars",
            "int i; for (i = 0; i < 8; i++) { S_TYPE u = S_LOAD(t + i), v = S(mask_mul)(u, i & 1, u, u); r[i] = S_VALUE(S(maskz_add)(i >> 1 & 1, v, u)) + S_VALUE(S(mask_fmadd)(u, 1, u, v)); } (void)a;",
            "for (i = 0; i < 8; i++) { REAL v = i & 1 ? t[i] * t[i] : t[i]; r[i] = (i >> 1 & 1 ? v + t[i] : 0) + t[i] * t[i] + v; }",
            |x| {
                each(|i| {
                    let v = if i % 2 == 1 { 2.0 * t(x, i) } else { 1.0 };
                    if i >> 1 & 1 == 1 { 2.0 * v + 1.0 + 2.0 * t(x, i) } else { v + 2.0 * t(x, i) }
                })
            }
        ),
        lanes!(
            "wide_through_mask",
            "int i; for (i = 0; i < 8; i++) { BITS b; REAL v = t[i]; memcpy(&b, &v, sizeof b); THROUGH_MASK(b); memcpy(&v, &b, sizeof b); r[i] = v; } (void)a;",
            "for (i = 0; i < 8; i++) r[i] = t[i];",
            |_| each(|_| 1.0)
        ),
    ]
}
