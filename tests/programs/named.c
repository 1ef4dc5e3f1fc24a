/* What a program is told of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096] = "";
    char *name, *where = getenv("WHERE");
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) perror("readlink");
    name = strrchr(path, '/');
    printf("%s with %d arguments, executed as %s, file %s, %s\n", argv[0], argc - 1,
           (char *)getauxval(AT_EXECFN), name ? name : path, where ? where : "nowhere");
    return argc;
}
