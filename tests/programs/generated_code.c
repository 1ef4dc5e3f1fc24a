/* Code that a program makes at run time, changes, and maps over: each call has to see the newest. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*Function)(void);

/* mov $value, %eax; ret */
static void write_constant(unsigned char *code, int value) {
    code[0] = 0xb8;
    memcpy(code + 1, &value, 4);
    code[5] = 0xc3;
}

/* Code on a page that this very code writes: lock incl 1(%rip); ret; a counter. */
static int own_page(void) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int i;
    alarm(5);
    memcpy(code, "\xf0\xff\x05\x01\x00\x00\x00\xc3\x00\x00\x00\x00", 12);
    for (i = 0; i < 1000; i++) ((void (*)(void))(void *)code)();
    memcpy(&i, code + 8, 4);
    return i;
}

int main(int argc, char **argv) {
    const size_t page = 4096;
    unsigned char *code = mmap(0, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Function function = (Function)(void *)code;
    int i, sum = 0, memory, unchanged = 0;
    unsigned char *views[2];

    if (argc > 1 && !strcmp(argv[1], "own-page")) {
        printf("%d\n", own_page());
        return 0;
    }

    /* Writable and executable at once. */
    for (i = 0; i < 200; i++) {
        write_constant(code, i);
        sum += function();
    }
    printf("%d\n", sum);

    /* Only the immediate of an instruction that has been executed changes. */
    for (i = 0; i < 200; i++) {
        code[1] = (unsigned char)i;
        unchanged += function() != i;
    }
    printf("%d\n", unchanged);

    /* Written while it is not executable. */
    for (i = 0; i < 20; i++) {
        mprotect(code, page, PROT_READ | PROT_WRITE);
        write_constant(code, 1000 + i);
        mprotect(code, page, PROT_READ | PROT_EXEC);
        sum += function();
    }
    printf("%d\n", sum);

    /* Another mapping at the same address. */
    for (i = 0; i < 20; i++) {
        if (mmap(code, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != code) return 1;
        write_constant(code, 2000 + i);
        mprotect(code, page, PROT_READ | PROT_EXEC);
        sum += function();
    }
    printf("%d\n", sum);

    /* Written through a second view of the same memory. */
    memory = memfd_create("code", 0);
    if (memory < 0 || write(memory, code, page) != (ssize_t)page) return 1;
    views[0] = mmap(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    views[1] = mmap(0, page, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    write_constant(views[0], 31);
    printf("%d\n", ((Function)(void *)views[1])());

    return 0;
}
