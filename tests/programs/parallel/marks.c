// Client requests for programs in other languages.
#include <derivgrind.h>

void mark_input(double *variable) { DG_INPUTF(*variable); }
void mark_output(double *variable) { DG_OUTPUTF(*variable); }
