/* The plugin that plugin_host loads. */
#include <math.h>
#include <stdio.h>

static int calls;
static __thread int calls_of_thread = 100;

__attribute__((constructor)) static void loaded(void) { puts("plugin loaded"); }
__attribute__((destructor)) static void unloaded(void) { puts("plugin unloaded"); }

double evaluate(double x) {
    calls++;
    calls_of_thread++;
    return sin(x) + calls + calls_of_thread;
}
