/* Client requests for x87.f90. */
#include <derivgrind.h>

void declare_input(long double *x);
void declare_output(const long double *x);

void declare_input(long double *x) { DG_INPUTF(*x); }
void declare_output(const long double *x) { DG_OUTPUTF(*x); }
