/* Mappings of all kinds, code that changes, limits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static void leave(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

/* mov eax, value; ret */
static void write_function(unsigned char *code, int value) {
    unsigned char bytes[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(bytes + 1, &value, 4);
    memcpy(code, bytes, sizeof bytes);
}

static int call(void *code) { return ((int (*)(void))code)(); }

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    int all = PROT_READ | PROT_WRITE | PROT_EXEC, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *code = mmap(0, 8192, all, anonymous, -1, 0);
    int sum = 0;
    for (int i = 1; i <= 10; i++) {
        write_function(code, i);
        sum += call(code);
    }
    printf("rewritten code: %d\n", sum);
    sum = 0;
    for (int i = 1; i <= 10; i++) {
        mprotect(code, 4096, PROT_READ | PROT_WRITE);
        write_function(code, i);
        mprotect(code, 4096, PROT_READ | PROT_EXEC);
        sum += call(code);
    }
    printf("code behind mprotect: %d\n", sum);
    mprotect(code, 4096, all);
    int pipes[2];
    if (pipe(pipes)) return 1;
    unsigned char bytes[6];
    write_function(bytes, 33);
    ssize_t got = write(pipes[1], bytes, 6);
    got = read(pipes[0], code, 6);
    printf("code from a pipe: %zd %d\n", got, call(code));
    int file = memfd_create("code", 0);
    got = ftruncate(file, 4096);
    unsigned char *run = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    unsigned char *edit = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    sum = 0;
    for (int i = 1; i <= 10; i++) {
        write_function(edit, i);
        sum += call(run);
    }
    printf("code mapped twice: %d\n", sum);
    write_function(code + 4096, 8);
    printf("code before its page is replaced: %d\n", call(code + 4096));
    mmap(code + 4096, 4096, all, anonymous | MAP_FIXED, -1, 0);
    write_function(code + 4096, 9);
    printf("and after: %d\n", call(code + 4096));
    /* lock incl 1(%rip); ret; a counter: code that writes to its own page. */
    memcpy(code, "\xf0\xff\x05\x01\0\0\0\xc3\0\0\0\0", 12);
    for (int i = 0; i < 100; i++) call(code);
    int counter;
    memcpy(&counter, code + 8, 4);
    printf("counter beside its code: %d\n", counter);
    /* movb $7, 1(%rip); mov $0, %eax; ret: code that changes the instruction that comes next. */
    memcpy(code, "\xc6\x05\x01\0\0\0\x07\xb8\0\0\0\0\xc3", 13);
    printf("changed by the instruction before: %d\n", call(code));
    code[6] = 9;
    printf("and again: %d\n", call(code));
    munmap(code, 8192);
    signal(SIGSEGV, leave);
    if (!sigsetjmp(back, 1)) call(code);
    printf("unmapped code is gone\n");

    char *area = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    strcpy(area + 4096, "moved");
    mmap(area + 16 * 4096, 4096, PROT_NONE, anonymous | MAP_FIXED_NOREPLACE, -1, 0);
    char *moved = mremap(area, 16 * 4096, 64 * 4096, MREMAP_MAYMOVE);
    printf("mremap: %s %d\n", moved + 4096, moved[63 * 4096]);
    printf("outside: %d\n", mmap((void *)(1UL << 50), 4096, PROT_READ, anonymous | MAP_FIXED, -1, 0) == MAP_FAILED);
    printf("hint: %d\n", mmap((void *)0x600000000, 4096, PROT_READ, anonymous, -1, 0) == (void *)0x600000000);
    printf("low: %d\n", (unsigned long)mmap(0, 4096, PROT_READ, anonymous | MAP_32BIT, -1, 0) < 1UL << 31);
    madvise(moved, 64 * 4096, MADV_DONTNEED);
    printf("discarded: %d\n", moved[4096]);
    char *before = sbrk(0), *grown = sbrk(100000);
    memset(grown, 1, 100000);
    sbrk(-100000);
    printf("brk: %d %d\n", before == grown, sbrk(0) == before);

    struct rlimit limit, kept;
    getrlimit(RLIMIT_AS, &kept);
    limit = kept;
    limit.rlim_cur = 200 << 20;
    setrlimit(RLIMIT_AS, &limit);
    printf("beyond the limit: %d\n", malloc(300 << 20) == 0);
    getrlimit(RLIMIT_AS, &limit);
    printf("limit: %lu\n", (unsigned long)limit.rlim_cur);
    setrlimit(RLIMIT_AS, &kept);

    char from[10] = "abc", to[10];
    struct iovec local = {to, 4}, remote = {from, 4};
    got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    printf("process_vm_readv: %zd %s\n", got, to);
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    char *segment = shmat(id, 0, 0);
    segment[5000] = 7;
    if (!fork()) {
        segment[5000]++;
        _exit(0);
    }
    wait(0);
    printf("shared segment: %d\n", segment[5000]);
    printf("detached: %d\n", shmdt(segment));
    shmctl(id, IPC_RMID, 0);
    for (int i = 0; i < 5; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*function)(double) = (double (*)(double))dlsym(library, "cos");
        printf("%.3f\n", function(1.0));
        dlclose(library);
    }
    return 0;
}
