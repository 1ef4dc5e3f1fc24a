/* Arguments, environment, standard streams, exit handlers, exit code: what each kind of executable has to get right. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void goodbye(void) { puts("exit handler"); }

__attribute__((constructor)) static void early(void) { puts("constructor"); }

int main(int argc, char **argv, char **envp) {
    int i, variables = 0;
    char line[100];
    atexit(goodbye);
    for (i = 0; i < argc; i++) printf("argument %d: %s\n", i, argv[i]);
    while (envp[variables]) variables++;
    printf("%d variables, HOME is %s\n", variables, getenv("HOME") ? getenv("HOME") : "not set");
    while (fgets(line, sizeof line, stdin)) printf("line: %s", line);
    if (close(123) != 0) printf("close: %s\n", strerror(errno));
    printf("%.17g %a %Lg\n", 1.0 / 3, 2.5, 1.0L / 7);
    fprintf(stderr, "to standard error\n");
    return 42;
}
