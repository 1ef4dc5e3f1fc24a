/* Root mean square of a damped oscillation A exp(-a t) sin(b t + c), sampled at equidistant times. */
#include <derivgrind.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 100 };

static double root_mean_square(double amplitude, double damping, double frequency, double phase) {
  double sum = 0.0;
  int i;
  for (i = 0; i < SAMPLES; i++) {
    double t = 0.05 * i;
    double deflection = amplitude * exp(-damping * t) * sin(frequency * t + phase);
    sum += deflection * deflection;
  }
  return sqrt(sum / SAMPLES);
}

int main(void) {
  double parameter[4] = {1.5, 0.3, 2.0, 0.5};
  double result;
  int i;
  for (i = 0; i < 4; i++) {
    DG_INPUTF(parameter[i]);
  }
  result = root_mean_square(parameter[0], parameter[1], parameter[2], parameter[3]);
  DG_OUTPUTF(result);
  printf("root mean square: %.15f\n", result);
  return 0;
}
