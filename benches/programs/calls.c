/* The trivial function of `cargo xtask bench calls`. */
double sum_of_squares(const double* x, int n) {
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) sum += x[i] * x[i];
  return sum;
}
