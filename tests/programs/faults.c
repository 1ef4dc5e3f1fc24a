/* Ends by a fault of the kind that the argument names. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    volatile int zero = 0;
    printf("before %s\n", kind);
    fflush(stdout);
    if (!strcmp(kind, "read")) return *(volatile int *)8;
    if (!strcmp(kind, "write")) *(volatile int *)8 = 1;
    if (!strcmp(kind, "read-only")) {
        volatile char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        page[5] = 1;
    }
    if (!strcmp(kind, "jump")) ((void (*)(void))(size_t)0x12345678)();
    if (!strcmp(kind, "jump-to-data")) {
        static char data[16];
        ((void (*)(void))(void *)data)();
    }
    if (!strcmp(kind, "non-canonical")) return *(volatile int *)(size_t)0x8000000000000000;
    if (!strcmp(kind, "division")) return 1 / zero;
    if (!strcmp(kind, "illegal")) __asm__ volatile("ud2");
    if (!strcmp(kind, "trap")) __asm__ volatile("int3");
    if (!strcmp(kind, "abort")) abort();
    if (!strcmp(kind, "kill")) kill(getpid(), SIGTERM);
    if (!strcmp(kind, "exit")) _exit(7);
    if (!strcmp(kind, "high-exit")) exit(300);
    return 0;
}
