/* What a program can find out about itself. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

static void show_file(const char *path) {
    char buffer[4096];
    size_t i, length;
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return;
    }
    length = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    printf("%s: ", path);
    for (i = 0; i < length; i++) putchar(buffer[i] ? buffer[i] : '|');
    putchar('\n');
}

int main(int argc, char **argv) {
    char path[PATH_MAX], name[16], pid_path[64];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    FILE *self;
    if (length < 0) return 1;
    path[length] = 0;
    printf("%s\n%s\n%s\n%s\n", path, argv[0], program_invocation_name, program_invocation_short_name);
    snprintf(pid_path, sizeof pid_path, "/proc/%d/exe", (int)getpid());
    length = readlink(pid_path, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    printf("%s\n", path);
    printf("%d %s\n", argc, (const char *)getauxval(AT_EXECFN));
    printf("%lu %lu %lu %s\n", getauxval(AT_PAGESZ), getauxval(AT_PHNUM), getauxval(AT_SECURE), (const char *)getauxval(AT_PLATFORM));
    printf("entry in the program: %d\n", getauxval(AT_ENTRY) != 0);
    prctl(PR_GET_NAME, name);
    printf("%s\n", name);
    show_file("/proc/self/cmdline");
    show_file("/proc/self/comm");
    self = fopen("/proc/self/exe", "r");
    if (!self || fread(path, 1, 4, self) != 4) return 1;
    printf("%.3s\n", path + 1);
    return 0;
}
