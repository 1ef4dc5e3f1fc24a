/* Loaded and unloaded over and over, in two editions that the loader puts at the same address. */
#ifndef EDITION
#define EDITION 0
#endif

static int calls;

/* EDITION, then what depends on the library's own data being new. */
int edition(void) { return 10 * EDITION + calls++; }

double scaled(double x) { return x * (EDITION + 1); }
