/* Every client request. Natively none of them has an effect; with -DNO_REQUESTS there are none. */
#ifdef NO_REQUESTS
#define DG_INPUTF(x) 0
#define DG_OUTPUTF(x) 0
#define DG_SET_DOTVALUE(a, b, n) 0
#define DG_GET_DOTVALUE(a, b, n) 0
#define DG_GET_INDEX(a, b) 0
#define DG_SET_INDEX(a, b) 0
#define DG_NEW_INDEX(a, b, c, d, e, f) 0
#define DG_INDEX_TO_FILE(a, b) 0
#define DG_DISABLE(a, b) 0
#define DG_GET_MODE 0
#define RUNNING_ON_VALGRIND 0
#else
#include <valgrind/derivgrind.h>
#endif
#include <stdio.h>

int main(void) {
    double x = 1.5, y, dot = 0.25, one = 1, zero = 0;
    float f = 0.5f;
    long double wide = 2.5L;
    unsigned long long index = 77, none = 0, created = 88;
    DG_INPUTF(x);
    DG_INPUTF(f);
    DG_INPUTF(wide);
    DG_SET_DOTVALUE(&x, &dot, sizeof x);
    DG_DISABLE(1, 0);
    y = x * x + f + (double)wide;
    DG_DISABLE(0, 1);
    DG_GET_DOTVALUE(&y, &dot, sizeof y);
    DG_GET_INDEX(&y, &index);
    DG_NEW_INDEX(&index, &none, &one, &zero, &created, &y);
    DG_SET_INDEX(&y, &index);
    DG_INDEX_TO_FILE(0, &index);
    DG_OUTPUTF(y);
    printf("%.17g %.17g %llu %llu\n", y, dot, index, created);
    printf("%d %d\n", (int)DG_GET_MODE, (int)RUNNING_ON_VALGRIND);
    return 0;
}
