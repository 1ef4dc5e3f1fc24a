/* Stacks that overflow: the handler runs on an alternate stack and the program goes on. The main stack grows up to the limit of the moment; without one,
 * a wild pointer far below is a fault all the same. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static __thread sigjmp_buf back;
static __thread char *start;
static __thread volatile int code, on_alternate;
static __thread volatile long depth;

static void leave(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    stack_t current;
    sigaltstack(NULL, &current);
    on_alternate = current.ss_flags == SS_ONSTACK;
    code = information->si_code;
    /* Near the end of what has been used. */
    depth = start - (char *)information->si_addr;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static double descend(double x) {
    volatile double room[64];
    room[(int)x & 63] = x;
    return descend(x + 1) + room[(int)x & 63];
}

static void *overflow(void *size) {
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&alternate, NULL);
    char here;
    start = &here;
    for (int round = 0; round < 3; round++) {
        if (sigsetjmp(back, 1) == 0)
            printf("%g\n", descend(0));
        else
            printf("overflow, code %d, on the alternate stack: %d, about %ld of it used\n", code, on_alternate,
                   (depth + (long)size / 8) / ((long)size / 4));
    }
    sigaltstack(&none, NULL);
    free(alternate.ss_sp);
    return NULL;
}

static void *harmless(void *argument) {
    return argument;
}

/* Writes far below the main stack while it has no limit. */
static void wild(void) {
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&alternate, NULL);
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    const struct rlimit none_at_all = {limit.rlim_max, limit.rlim_max};
    printf("no limit: %d\n", setrlimit(RLIMIT_STACK, &none_at_all));
    char here;
    start = &here;
    for (int power = 38; power <= 42; power++) {
        if (sigsetjmp(back, 1) == 0) {
            *(volatile char *)(start - (1L << power)) = 1;
            printf("2^%d below: no fault\n", power);
        } else {
            printf("2^%d below: a fault, code %d, at 2^%d: %d\n", power, code, power, depth == 1L << power);
        }
    }
    setrlimit(RLIMIT_STACK, &limit);
    sigaltstack(&none, NULL);
    free(alternate.ss_sp);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    struct rlimit limit;
    for (long size = 8L << 20; size <= 32L << 20; size *= 2) {
        getrlimit(RLIMIT_STACK, &limit);
        if (limit.rlim_cur > (rlim_t)size) continue;
        limit.rlim_cur = (rlim_t)size;
        printf("%ld MiB: %d\n", size >> 20, setrlimit(RLIMIT_STACK, &limit));
        overflow((void *)size);
    }

    wild();

    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 18);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], &small, overflow, (void *)(1L << 18));
        pthread_join(threads[i], NULL);
    }
    pthread_create(&threads[0], &small, harmless, NULL);
    pthread_join(threads[0], NULL);

    /* Without an alternate stack there is nothing to run the handler on. */
    fflush(stdout);
    char here;
    start = &here;
    printf("%g\n", descend(0));
    return 0;
}
