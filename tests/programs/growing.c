/* Mappings that grow downwards (MAP_GROWSDOWN): by accesses of the program, of the kernel on its behalf and of signal frames; where they stop, and
 * what else can be done with them. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, LIMIT = 400 * PAGE, GROWS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN };

static sigjmp_buf back;
static volatile int code;
static char *volatile fault;

static void leave(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    code = information->si_code;
    fault = information->si_addr;
    siglongjmp(back, 1);
}

/* A page in a part of the address space of its own. */
static char *grown_from(int place, int flags) {
    void *at = (void *)(0x50000000000 + place * 0x10000000L);
    char *page = mmap(at, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (page != at) printf("not mapped: %s\n", strerror(errno));
    return page;
}

static void touch(char *start, long distance) {
    volatile char *at = start - distance;
    if (sigsetjmp(back, 1) == 0) {
        *at = (char)distance;
        printf("%ld below: %d\n", distance, *at == (char)distance);
    } else {
        printf("%ld below: a fault, code %d, %ld below\n", distance, code, (long)(start - fault));
    }
}

/* In how many pages below the program can write, one after the other. */
static int pages_below(char *start) {
    volatile int page = 0;
    if (sigsetjmp(back, 1) == 0)
        for (;; page++) start[-(page + 1) * (long)PAGE] = 1;
    return page;
}

static void neighbours(void) {
    char *start = grown_from(2, GROWS), *below = start - 300 * PAGE;
    mmap(below, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("above something: %d", pages_below(start));
    mprotect(below, PAGE, PROT_NONE);
    printf(", above a guard page: %d, code %d\n", pages_below(start), code);
}

static void by_the_kernel(void) {
    char *start = grown_from(3, GROWS), text[8] = "";
    struct timespec *when = (struct timespec *)(start - 9 * PAGE);
    int pipes[2];
    ssize_t got;
    if (pipe(pipes) != 0 || write(pipes[1], "content", 8) != 8) return;
    got = read(pipes[0], start - 3 * PAGE, 8);
    printf("read: %zd %s\n", got, start - 3 * PAGE);
    got = write(pipes[1], start - 5 * PAGE, 8);
    printf("write: %zd", got);
    got = read(pipes[0], text, 8);
    printf(" %zd %d\n", got, text[0]);
    got = clock_gettime(CLOCK_MONOTONIC, when);
    printf("clock_gettime: %zd %d\n", got, when->tv_sec > 0);
    errno = 0;
    got = write(pipes[1], start - LIMIT, 8);
    printf("beyond the limit: %zd %d\n", got, errno == EFAULT);
}

static void protected(void) {
    char *start = grown_from(4, GROWS);
    start[-5 * PAGE] = 7;
    printf("protected: %d", mprotect(start - 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN));
    printf(" %d\n", start[-5 * PAGE]);
    touch(start, 5 * PAGE);
    touch(start, PAGE);
    touch(start, 7 * PAGE);
    printf("read only: %d\n", start[-9 * PAGE]);
    start = grown_from(5, MAP_PRIVATE | MAP_ANONYMOUS);
    printf("what does not grow: %d\n", mprotect(start, PAGE, PROT_READ | PROT_GROWSDOWN));
    touch(start, 1);
}

static void moved(void) {
    char *start = grown_from(6, GROWS), *target = start + 0x8000000;
    start[-3 * PAGE] = 5;
    munmap(start - 2 * PAGE, PAGE);
    printf("unmapped in the middle: %d %d\n", start[-3 * PAGE], msync(start - 2 * PAGE, PAGE, MS_ASYNC));
    start[-2 * PAGE] = 6;
    touch(start, 2 * PAGE);
    target = mremap(start - PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    printf("moved: %d\n", target != MAP_FAILED);
    touch(target, 4 * PAGE);
    madvise(target - 4 * PAGE, PAGE, MADV_DONTNEED);
    printf("discarded: %d\n", target[-4 * PAGE]);
}

static void refused(void) {
    FILE *file = tmpfile();
    errno = 0;
    printf("a file: %d", mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, fileno(file), 0) == MAP_FAILED);
    printf(" %s\n", strerror(errno));
    errno = 0;
    printf("shared: %d", mmap(0, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0) == MAP_FAILED);
    printf(" %s\n", strerror(errno));
    fclose(file);
}

/* --- stacks --- */

static volatile sig_atomic_t handled;

static void handle(int number) {
    (void)number;
    handled++;
}

static double deep(int depth) {
    volatile double terms[100];
    for (int k = 0; k < 100; k++) terms[k] = 1.0 / (depth + k + 1);
    if (depth % 8 == 0) raise(SIGUSR1);
    return depth == 0 ? terms[99] : deep(depth - 1) + terms[depth % 100];
}

static double sum;
static ucontext_t here, there;

static void on_growing_stack(void) { sum = deep(1000); }

static void a_stack(void) {
    char *stack = grown_from(7, GROWS);
    double expected = deep(1000);
    handled = 0;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = PAGE;
    there.uc_link = &here;
    makecontext(&there, on_growing_stack, 0);
    swapcontext(&here, &there);
    printf("on a growing stack: %d, %d signals\n", sum == expected, (int)handled);
}

static void *fill(void *argument) {
    char *start = argument;
    for (long k = 1; k < 200 * 512; k++) *(double *)(start - 8 * k) = (double)k;
    return 0;
}

/* Several threads reach the same new pages. */
static void with_threads(void) {
    pthread_t threads[4];
    double *start = (double *)grown_from(8, GROWS);
    int wrong = 0;
    for (int k = 0; k < 4; k++)
        if (pthread_create(&threads[k], 0, fill, start) != 0) printf("no thread\n");
    for (int k = 0; k < 4; k++) pthread_join(threads[k], 0);
    for (long k = 1; k < 200 * 512; k++) wrong += start[-k] != (double)k;
    printf("with threads: %d wrong\n", wrong);
}

static void in_a_child(void) {
    char *start = grown_from(9, GROWS);
    int status;
    pid_t child = fork();
    if (child == 0) {
        start[-2 * PAGE] = 3;
        _exit(start[-2 * PAGE]);
    }
    waitpid(child, &status, 0);
    printf("in a child: %d", WEXITSTATUS(status));
    printf(", its parent: %d\n", msync(start - 2 * PAGE, PAGE, MS_ASYNC));
}

int main(void) {
    struct sigaction action;
    struct rlimit limit;
    char *start;
    setvbuf(stdout, 0, _IONBF, 0);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = leave;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    signal(SIGUSR1, handle);
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = LIMIT;
    setrlimit(RLIMIT_STACK, &limit);

    start = grown_from(1, GROWS);
    touch(start, 1);
    touch(start, PAGE + 1);
    touch(start, 100 * PAGE);
    touch(start, LIMIT);
    touch(start, LIMIT - PAGE + 1);
    touch(start, LIMIT - PAGE);
    neighbours();
    by_the_kernel();
    protected();
    moved();
    refused();
    a_stack();
    with_threads();
    in_a_child();
    return 0;
}
