//! Turns the table into a client program.

use std::fmt::Write as _;

use super::{Formula, Language};

/// Everything before the formulas.
const PROLOGUE: &str = r#"
#include <alloca.h>
#include <complex.h>
#include <immintrin.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <derivgrind.h>

#if REAL_BYTES == 4
typedef float REAL;
#define COMPLEX _Complex float
typedef uint32_t BITS;
#define M(name) name##f
typedef uint16_t HALF;
#define MANTISSA 23
#define EXPONENT 8
#define SIGN ((BITS)1 << 31)
#define ROUNDING ((REAL)12582912.0)
#elif REAL_BYTES == 8
typedef double REAL;
#define COMPLEX _Complex double
typedef uint64_t BITS;
#define M(name) name
typedef uint32_t HALF;
#define MANTISSA 52
#define EXPONENT 11
#define SIGN ((BITS)1 << 63)
#define ROUNDING ((REAL)6755399441055744.0)
#else
typedef long double REAL;
#define COMPLEX _Complex long double
typedef unsigned __int128 BITS;
#define M(name) name##l
#define MANTISSA 64
#define EXPONENT 15
#define SIGN ((BITS)1 << 79)
#define ROUNDING ((REAL)13835058055282163712.0L)
#endif
#define NOINLINE __attribute__((noinline))

/* Eight lanes of either precision. */
#ifdef __AVX512F__
#include <immintrin.h>
typedef __mmask8 MASK;
#define HALF_INDICES(a, b, c, d, e, f, g, h) _mm256_setr_epi32(a, b, c, d, e, f, g, h)
#if REAL_BYTES == 4
typedef __m256 WIDE;
typedef __m256i INTEGERS;
typedef __m128 S_TYPE;
#define W(name) _mm256_##name##_ps
#define S(name) _mm_##name##_ss
#define S_LOAD(p) _mm_load_ss(p)
#define S_VALUE(v) _mm_cvtss_f32(v)
#define COMPARE(a, b, how) _mm256_cmp_ps_mask(a, b, how)
#define INDICES HALF_INDICES
#define SCATTER(to, mask, indices, v) _mm256_mask_i32scatter_ps(to, mask, indices, v, 4)
#define GATHER(v, mask, indices, from) _mm256_mmask_i32gather_ps(v, mask, indices, from, 4)
#define TO_BITS(v) _mm256_castps_si256(v)
#define FROM_BITS(v) _mm256_castsi256_ps(v)
#define BITWISE(name) _mm256_##name##_epi32
#define THROUGH_OTHER_FORMAT(r, a, k) _mm256_storeu_ps(r, _mm512_mask_cvtpd_ps(_mm256_setzero_ps(), k, _mm512_maskz_cvtps_pd(k, a)))
#define THROUGH_MASK(bits) __asm__ volatile("kmovd %0, %%k3\n\tkmovd %%k3, %0" : "+r"(bits) : : "k3")
#else
typedef __m512d WIDE;
typedef __m512i INTEGERS;
typedef __m128d S_TYPE;
#define W(name) _mm512_##name##_pd
#define S(name) _mm_##name##_sd
#define S_LOAD(p) _mm_load_sd(p)
#define S_VALUE(v) _mm_cvtsd_f64(v)
#define COMPARE(a, b, how) _mm512_cmp_pd_mask(a, b, how)
#define INDICES(a, b, c, d, e, f, g, h) _mm512_setr_epi64(a, b, c, d, e, f, g, h)
#define SCATTER(to, mask, indices, v) _mm512_mask_i32scatter_pd(to, mask, indices, v, 8)
#define GATHER(v, mask, indices, from) _mm512_mask_i32gather_pd(v, mask, indices, from, 8)
#define TO_BITS(v) _mm512_castpd_si512(v)
#define FROM_BITS(v) _mm512_castsi512_pd(v)
#define BITWISE(name) _mm512_##name##_epi64
#define THROUGH_OTHER_FORMAT(r, a, k) _mm512_storeu_pd(r, _mm512_mask_cvtps_pd(_mm512_setzero_pd(), k, _mm512_maskz_cvtpd_ps(k, a)))
#define THROUGH_MASK(bits) __asm__ volatile("kmovq %0, %%k3\n\tkmovq %%k3, %0" : "+r"(bits) : : "k3")
#endif
#endif
"#;

/// Further headers of the C++ formulas.
const CPP_HEADERS: &str = "
#include <algorithm>
#include <array>
#include <complex>
#include <functional>
#include <future>
#include <iomanip>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <valarray>
#include <vector>
";

/// Everything after them.
///
/// `PROGRAM` evaluates each formula where the table says; `PROGRAM NAME [INPUT...]` evaluates one, elsewhere if inputs are given.
const EPILOGUE: &str = r#"
int main(int argc, char **argv) {
    size_t k;
    for (k = 0; k < sizeof table / sizeof *table; k++) {
        REAL x[8], y;
        int i;
        if (argc > 1 && strcmp(argv[1], table[k].name) != 0) continue;
        for (i = 0; i < table[k].inputs; i++) {
            x[i] = (REAL)(argc > 2 + i ? strtod(argv[2 + i], 0) : table[k].x[i]);
            DG_INPUTF(x[i]);
        }
        y = table[k].function(x);
        DG_OUTPUTF(y);
        printf("%s %.17g\n", table[k].name, (double)y);
    }
    return 0;
}
"#;

/// Source text of the program that holds all `formulas`, without the driver if that is in a language of its own.
pub fn source(formulas: &[Formula], language: Language) -> String {
    if language == Language::Fortran {
        return formulas.iter().map(fortran).collect();
    }
    let mut text = String::from(PROLOGUE);
    if language == Language::Cpp {
        // The C header would undefine `complex`.
        text = text.replace("#include <complex.h>\n", "");
        text.push_str(CPP_HEADERS);
    }
    for Formula { name, helpers, body, .. } in formulas {
        let _ = write!(text, "\n{helpers}\nstatic NOINLINE REAL f_{name}(REAL *x) {{\n    {body}\n}}\n");
    }
    text + &table(formulas)
}

/// The C program that calls the formulas of another language.
pub fn driver(formulas: &[Formula]) -> String {
    let mut text = String::from(PROLOGUE);
    for Formula { name, .. } in formulas {
        let _ = writeln!(text, "REAL f_{name}(REAL *x);");
    }
    text + &table(formulas)
}

/// A Fortran formula: a module with its helpers and its function.
fn fortran(Formula { name, helpers, body, .. }: &Formula) -> String {
    format!(
        "module m_{name}
use, intrinsic :: iso_c_binding
implicit none
integer, parameter :: rk = REAL_BYTES
contains
{helpers}
function f_{name}(x) result(y) bind(c)
real(rk), intent(inout) :: x(*)
real(rk) :: y
{body}
end function
end module
"
    )
}

/// The table of the program, and what runs it.
fn table(formulas: &[Formula]) -> String {
    let mut text = String::from(
        "\nstatic const struct { const char *name; REAL (*function)(REAL *); int inputs; double x[8]; } table[] = {\n",
    );
    for Formula { name, inputs, .. } in formulas {
        let values: Vec<String> = inputs.iter().map(|value| format!("{value:?}")).collect();
        let _ = writeln!(text, "    {{\"{name}\", f_{name}, {}, {{{}}}}},", inputs.len(), values.join(", "));
    }
    text.push_str("};\n");
    text.push_str(EPILOGUE);
    text
}
