/* Floating point to the last bit: x87, rounding modes, exception flags, subnormals, NaN payloads, conversions. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t bits(double value) {
    uint64_t b;
    memcpy(&b, &value, sizeof b);
    return b;
}

int main(void) {
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    volatile long double x = 1.0L, y = 3.0L, series = 0;
    volatile double a = 1, b = 3, tiny = DBL_MIN;
    volatile float f = 1.1f;
    int i;
    for (i = 1; i < 100; i++) series += x / (i * y) * (i % 2 ? 1 : -1);
    printf("%La %.21Lg %.21Lg\n", series, sqrtl(y), sinl(series) * expl(series) + powl(y, series));
    for (i = 0; i < 4; i++) {
        fesetround(modes[i]);
        printf("%016llx %016llx %La %ld\n", (unsigned long long)bits(a / b), (unsigned long long)bits(-a / b), x / y, lrint(2.5 * a));
    }
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    a = a / b;
    printf("inexact %d, division by zero %d\n", !!fetestexcept(FE_INEXACT), !!fetestexcept(FE_DIVBYZERO));
    a = b / (b - 3);
    printf("%g %d\n", a, !!fetestexcept(FE_DIVBYZERO));
    feclearexcept(FE_ALL_EXCEPT);
    a = 3 * (b - 3);
    printf("no exception: %d\n", fetestexcept(FE_ALL_EXCEPT));
    a = tiny / 3;
    printf("%a underflow %d\n", a, !!fetestexcept(FE_UNDERFLOW));
    a = NAN;
    printf("%d %d %d\n", a == a, a < 1, isnan(a * 0));
    printf("%.9g %.9g %d %ld\n", (double)(f * f), (double)f * f, (int)(f * 1e6f), (long)(b * 1e15));
    for (i = -3; i < 4; i++) printf("%g %g %g %g %g\n", rint(i + 0.5), floor(i + 0.5), trunc(i + 0.5), nearbyint(i * 0.75), fma(i, b, 0.1));
    printf("%a %a %a %a\n", sin(0.7 * b), exp(0.7 * b), pow(b, 0.7), atan2(b, -1));
    printf("%a %a %a %a\n", (double)sinf(0.7f * f), (double)expf(0.7f * f), (double)powf(f, 0.7f), (double)logf(f));
    return 0;
}
