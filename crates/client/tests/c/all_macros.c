/* Uses each macro once, in all three types, and prints what they return. Valid as C89 and as C++98. */
#include <derivgrind.h>
#include <stdio.h>

double other_unit(double x);

static void print(const char* what, derivgrind_index value) {
  printf("%s %lu\n", what, (unsigned long)value);
}

int main(void) {
  float f = 1.5f;
  double d = -2.0;
  long double l = 0.25L;
  double array[3];
  double* walker = array;
  void* untyped = &d;
  const double constant = 4.0;
  volatile double changing = 5.0;
  derivgrind_index i = 7, j = 8, created = 9;
  double diff = 1.0, dot = 10.0;
  float dotf = 11.0f;
  unsigned char active[8] = {0}, discrete[8] = {0};
  array[0] = 1.0;
  array[1] = 2.0;
  array[2] = 3.0;

  print("inputf", DG_INPUTF(f) + DG_INPUTF(d) + DG_INPUTF(l) + DG_INPUTF(changing));
  /* The argument is evaluated once. */
  DG_INPUTF(*walker++);
  DG_INPUTF(*walker++);
  print("walked", (derivgrind_index)(walker - array));
  print("arrays", DG_INPUT_ARRAY(array, 3) + DG_INPUT_ARRAY(&l, 1) + DG_OUTPUT_ARRAY(&constant, 1));
  print("input", DERIVGRIND_INPUT(d));
  print("get_index", DG_GET_INDEX(&f, &i) + DERIVGRIND_GET_INDEX(untyped, &i) + DG_GET_INDEX(array, &i));
  print("i", i);
  print("set_index", DG_SET_INDEX(&l, &i) + DERIVGRIND_SET_INDEX(untyped, &i));
  print("new_index", DG_NEW_INDEX(&i, &j, &diff, &diff, &created, &d));
  print("new_index_noactivityanalysis", DG_NEW_INDEX_NOACTIVITYANALYSIS(&i, &j, &diff, &diff, &created, &d));
  print("created", created);
  print("index_to_file", DG_INDEX_TO_FILE(DG_INDEXFILE_INPUT, &i) + DG_INDEX_TO_FILE(DG_INDEXFILE_OUTPUT, &j));
  print("set_dotvalue", DG_SET_DOTVALUE(&d, &dot, sizeof d) + DG_SET_DOTVALUE(&f, &dotf, 4));
  print("get_dotvalue", DG_GET_DOTVALUE(&d, &dot, sizeof d) + DERIVGRIND_GET_DOTVALUE(&f, &dotf, 4));
  print("direction", DG_SET_DOTVALUE_DIRECTION(2, &d, &dot, sizeof d) + DG_GET_DOTVALUE_DIRECTION(1u, &f, &dotf, 4) +
                       DERIVGRIND_GET_DOTVALUE_DIRECTION(0, &d, &dot, 8) + DG_GET_DIRECTIONS);
  print("disable", DG_DISABLE(1, 0) + DG_DISABLE(0, 1));
  print("mode", DG_GET_MODE);
  print("flags", DG_GET_FLAGS(&d, active, discrete, 8) + DG_SET_FLAGS(&d, active, discrete, 8) + DG_MARK_FLOAT(l));
  d = other_unit(d) + constant;
  print("output", DG_OUTPUT(d) + DERIVGRIND_OUTPUT(constant));
  print("outputf", DG_OUTPUTF(f) + DG_OUTPUTF(d) + DG_OUTPUTF(l) + DERIVGRIND_OUTPUTF(constant));
  printf("%.9g %.17g %.17Lg %.17g %.17g %.9g\n", (double)f, d, l, array[0] + array[1], dot, (double)dotf);
  return 0;
}
