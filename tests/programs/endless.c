/* Says that it has started, then adds to an active sum until it is killed. */
#include <derivgrind.h>
#include <stdio.h>

int main(void) {
    double x = 1.5, sum = 0;
    DG_INPUTF(x);
    puts("started");
    fflush(stdout);
    for (;;) sum += x;
}
