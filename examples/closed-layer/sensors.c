/* Stands for a library of which only the binary is there: four sensors with a saturating response and cross-talk. For each group of four inputs there
 * are four outputs. */
#include <math.h>

static double saturated(double x) { return x / sqrt(1 + x * x); }

void sensors(int n_params, char* params, int n, float* x, int n_outputs, float* y) {
  int group, k;
  (void)n_params, (void)params, (void)n;
  for (group = 0; group + 4 <= n_outputs; group += 4) {
    for (k = 0; k < 4; k++) {
      const double own = x[group + k], neighbour = x[group + (k + 1) % 4];
      y[group + k] = (float)(saturated(own) + 0.3 * sin(own * neighbour) - 0.1 * exp(-neighbour * neighbour));
    }
  }
}
