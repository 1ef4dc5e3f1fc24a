/* AVX2 and FMA intrinsics. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>

static void show(const char *name, __m256d value) {
    double lanes[4];
    _mm256_storeu_pd(lanes, value);
    printf("%s: %a %a %a %a\n", name, lanes[0], lanes[1], lanes[2], lanes[3]);
}

static void show_integers(const char *name, __m256i value) {
    uint32_t lanes[8];
    int i;
    _mm256_storeu_si256((__m256i *)lanes, value);
    printf("%s:", name);
    for (i = 0; i < 8; i++) printf(" %08x", lanes[i]);
    putchar('\n');
}

int main(void) {
    double data[64];
    int i;
    __m256d sum = _mm256_setzero_pd(), a, b;
    __m256i integers = _mm256_setr_epi32(1, -2, 3, -4, 5, -6, 7, -8);
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("no AVX2 here");
        return 77;
    }
    for (i = 0; i < 64; i++) data[i] = 1.0 / (i + 1);
    for (i = 0; i < 64; i += 4) sum = _mm256_fmadd_pd(_mm256_loadu_pd(data + i), _mm256_set1_pd(1.5), sum);
    show("fma", sum);
    a = _mm256_setr_pd(1, -2, 3, -4);
    b = _mm256_setr_pd(0.5, 0.25, -8, 1e300);
    show("hadd", _mm256_hadd_pd(a, b));
    show("blend", _mm256_blendv_pd(a, b, _mm256_cmp_pd(a, b, _CMP_LT_OQ)));
    show("permute", _mm256_permute4x64_pd(a, 0x1b));
    show("gather", _mm256_i64gather_pd(data, _mm256_setr_epi64x(3, 60, 7, 0), 8));
    show("maskload", _mm256_maskload_pd(data, _mm256_setr_epi64x(-1, 0, -1, 0)));
    show("sqrt", _mm256_sqrt_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), a)));
    show("broadcast", _mm256_broadcast_sd(data + 5));
    show_integers("shuffle", _mm256_shuffle_epi8(integers, _mm256_set1_epi32(0x00010203)));
    show_integers("multiply", _mm256_mullo_epi32(integers, integers));
    show_integers("variable shift", _mm256_sllv_epi32(integers, _mm256_setr_epi32(0, 1, 2, 3, 28, 29, 30, 31)));
    show_integers("abs", _mm256_abs_epi32(integers));
    printf("%d %d\n", _mm256_movemask_pd(a), _mm256_movemask_epi8(integers));
    printf("%llu %llu\n", (unsigned long long)_pdep_u64(0x5a5a, 0xff00ff00f0f0), (unsigned long long)_pext_u64(0x123456789abc, 0xff00ff00f0f0));
    _mm256_zeroupper();
    return 0;
}
