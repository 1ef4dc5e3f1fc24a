/* y = sum of i * x[i]^2 and y' = product of the first and the last element, with arrays declared by one request each. The argument is the number of
 * elements. REAL is the type. */
#include <derivgrind.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef REAL
#define REAL double
#endif

int main(int argc, char** argv) {
  const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 3;
  REAL* x = malloc(n * sizeof *x);
  REAL y[2] = {0, 0};
  size_t i;
  for (i = 0; i < n; i++) {
    x[i] = (REAL)(i % 7) - 2;
  }
  DG_INPUT_ARRAY(x, n);
  for (i = 0; i < n; i++) {
    y[0] += (REAL)(i % 5) * x[i] * x[i];
  }
  y[1] = x[0] * x[n - 1];
  DG_OUTPUT_ARRAY(y, 2);
  printf("%.9g %.9g\n", (double)y[0], (double)y[1]);
  free(x);
  return 0;
}
