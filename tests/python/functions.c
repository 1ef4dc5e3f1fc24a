/* Functions for the tests of the Python package. */
#include <math.h>
#include <stdlib.h>

double f(double x, const double *a, int n) {
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) sum += a[i] * pow(x, i);
  return sum;
}
float single(const float *a, long n) {
  float sum = 0;
  long i;
  for (i = 0; i < n; i++) sum += a[i] * a[i] * (float)(i + 1);
  return sum;
}
void matrix(const double *x, int n, double *y) { /* y[i] = x[i] * sum of x */
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) sum += x[i];
  for (i = 0; i < n; i++) y[i] = x[i] * sum;
}
void square_in_place(double *x, int n) {
  int i;
  for (i = 0; i < n; i++) x[i] *= x[i];
}
int count(const char *text, int n, unsigned char letter) {
  int i, found = 0;
  for (i = 0; i < n; i++) found += text[i] == (char)letter;
  return found;
}
double scramble(double x) { /* takes the bits apart */
  union {
    double real;
    unsigned long bits;
  } u;
  u.real = x;
  u.bits = (u.bits * 3) ^ 0x5555;
  return u.real + x;
}
void crash(void) {
  volatile unsigned long nowhere = 16;
  *(volatile int *)nowhere = 1;
}
void stop(int code) { exit(code); }
void fail(void) { abort(); }
void loop(void) {
  volatile int forever = 1;
  while (forever) {
  }
}
void overrun(double *y, int n) { y[n] = 1; }

/* The fixed signature: y[i] = exp(-p[0] * x[i]) * x[(i + 1) % n], with one parameter byte. */
void layer(int n_params, char *params, int n, double *x, int n_outputs, double *y) {
  const double p = n_params > 0 ? params[0] : 1;
  int i;
  for (i = 0; i < n_outputs; i++) y[i] = exp(-p * x[i % n]) * x[(i + 1) % n];
}
void layer_single(int n_params, char *params, int n, float *x, int n_outputs, float *y) {
  const float p = n_params > 0 ? params[0] : 1;
  int i;
  for (i = 0; i < n_outputs; i++) y[i] = expf(-p * x[i % n]) * x[(i + 1) % n];
}
void layer_crashes(int n_params, char *params, int n, double *x, int n_outputs, double *y) {
  (void)n_params, (void)params, (void)n, (void)x, (void)n_outputs, (void)y;
  abort();
}
