/* Descriptors and the files that describe the process. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int global;

static void print_file(const char *path) {
    char bytes[4096];
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, bytes, sizeof bytes);
    close(file);
    for (ssize_t i = 0; i < length; i++)
        if (!bytes[i]) bytes[i] = ' ';
    printf("%s: %.*s\n", path, (int)length, bytes);
}

int main(int count, char **arguments) {
    (void)count;
    char path[4096], own[64];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    printf("program: %.*s\n", (int)length, path);
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    printf("cut: %zd\n", readlink(own, path, 5));
    struct stat link, file, link_itself;
    stat("/proc/self/exe", &link);
    stat(arguments[0], &file);
    lstat("/proc/thread-self/exe", &link_itself);
    printf("same file: %d, link: %d\n", link.st_ino == file.st_ino, S_ISLNK(link_itself.st_mode));
    char magic[4];
    int program = open("/proc/self/exe", O_RDONLY);
    if (read(program, magic, 4) != 4) return 1;
    printf("magic: %d\n", memcmp(magic, "\177ELF", 4));
    print_file("/proc/self/cmdline");
    print_file("/proc/self/comm");
    printf("aux: %s %lx %d\n", (char *)getauxval(AT_PLATFORM), getauxval(AT_PHENT),
           strcmp((char *)getauxval(AT_EXECFN), arguments[0]));
    unsigned long pair[2];
    int vector = open("/proc/self/auxv", O_RDONLY), phdr = 0;
    while (read(vector, pair, 16) == 16) phdr |= pair[0] == AT_PHDR && pair[1] == getauxval(AT_PHDR);
    printf("auxv: %d\n", phdr);

    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int mine = 0, stack = 0, foreign = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        sscanf(line, "%lx-%lx", &start, &end);
        mine |= start <= (unsigned long)&global && (unsigned long)&global < end && strstr(line, "rw-p");
        stack |= start <= (unsigned long)&start && (unsigned long)&start < end && strstr(line, "[stack]");
        foreign |= strstr(line, "derivgrind") != 0;
    }
    fclose(maps);
    printf("maps: %d %d %d\n", mine, stack, foreign);
    long (*vsyscall_time)(long *) = (long (*)(long *))0xffffffffff600400;
    long now = time(0), then = vsyscall_time(0);
    printf("vsyscall: %d\n", then - now >= 0 && then - now < 5);
    prctl(PR_SET_NAME, "renamed");
    print_file("/proc/self/comm");
    for (int i = 3; i < 2000; i++) close(i);
    close_range(3, ~0u, 0);
    printf("next descriptor: %d\n", open("/dev/null", O_RDONLY));
    return 0;
}
