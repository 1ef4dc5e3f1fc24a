/* Two outputs: one depends on the input, the other does not. */
#include <derivgrind.h>
#include <stdio.h>

int main(void) {
    double x = 1.5, square, constant = 2.5;
    DG_INPUTF(x);
    square = x * x;
    DG_OUTPUTF(square);
    DG_OUTPUTF(constant);
    printf("%g %g\n", square, constant);
    return 0;
}
