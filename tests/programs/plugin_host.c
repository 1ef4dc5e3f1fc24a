/* Loads, calls and unloads a shared library several times; a library that does not exist is an error, not a crash. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int round;
    if (argc < 2) return 2;
    for (round = 0; round < 5; round++) {
        void *library = dlopen(argv[1], round % 2 ? RTLD_NOW : RTLD_LAZY);
        double (*evaluate)(double);
        if (!library) {
            printf("%s\n", dlerror());
            return 1;
        }
        evaluate = (double (*)(double))dlsym(library, "evaluate");
        printf("%.17g\n", evaluate(round));
        printf("%.17g\n", evaluate(round + 0.5));
        dlclose(library);
    }
    printf("%d\n", dlopen("./missing.so", RTLD_NOW) == NULL);
    printf("%d\n", dlsym(RTLD_DEFAULT, "printf") != NULL);
    return 0;
}
