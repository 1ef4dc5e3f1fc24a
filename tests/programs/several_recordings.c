/* Makes a recording of each of several calls, in the directories first, second, ... below the argument. The function keeps a value from call to call, which
 * counts as a constant in the next one. */
#include <derivgrind.h>
#include <stdio.h>
#include <string.h>

static double kept = 1.0;

static double function(const double* x) {
  const double y = kept * x[0] * x[1];
  kept = x[0];
  return y;
}

int main(int argc, char** argv) {
  static const char* const names[] = {"first", "second", "third"};
  char path[4096], text[200];
  double x[2] = {2.0, 3.0}, y;
  unsigned i;
  if (argc < 2) return 1;
  for (i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", argv[1], names[i]);
    strcpy(text, "?");
    printf("%u ", (unsigned)derivgrind_request_(0, DERIVGRIND_REQUEST_START_RECORDING, DERIVGRIND_ADDRESS_(path), 0, 0, 0));
    x[0] += 1.0;
    DG_INPUT_ARRAY(x, 2);
    y = function(x);
    DG_OUTPUT_ARRAY(&y, 1);
    printf("%u ", (unsigned)derivgrind_request_(0, DERIVGRIND_REQUEST_FINISH_RECORDING, DERIVGRIND_ADDRESS_(text), sizeof text, 0, 0));
    printf("%g %s\n", y, text);
  }
  return 0;
}
