/* A second translation unit with the same header, by its other name, within extern "C" and twice. */
#ifdef __cplusplus
extern "C" {
#endif
#include <valgrind/derivgrind.h>
#ifdef __cplusplus
}
#endif
#include <derivgrind.h>
#include <valgrind/derivgrind.h>

double other_unit(double x);

double other_unit(double x) {
  double y;
  DG_INPUTF(x);
  y = x * x + (double)RUNNING_ON_VALGRIND;
  DG_OUTPUTF(y);
  return y;
}
