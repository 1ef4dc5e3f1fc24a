/* Signals from all sides into threads that compute, call libraries and make system calls: results stay what they are. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 40 };

static volatile long hits;
static int wrong, done;
static _Thread_local double own = 1;
static double expected[THREADS];

static void handler(int signal) {
    (void)signal;
    __atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
    own = own * 1.5 - own * 0.5;
    double roots[16];
    for (int k = 0; k < 16; k++) roots[k] = sqrt(k + own);
    if (!(roots[15] == 4)) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static double work(long seed) {
    double sum = 0;
    float single = 1;
    long double extended = 1;
    char text[64];
    for (int i = 1; i < 3000; i++) {
        sum += sin(i * 0.001 * seed) / i;
        single = single * 0.999f + i;
        extended = extended * 0.9999L + i;
        if (i % 100 == 0) {
            snprintf(text, sizeof text, "%g", sum);
            sum += strtod(text, 0) * 1e-9;
            char *memory = malloc(i);
            memset(memory, i, i);
            sum += memory[i - 1];
            free(memory);
        }
        if (i % 500 == 0 && write(2, "", 0)) return 0;
    }
    return sum + single + (double)extended;
}

static void *run(void *argument) {
    long id = (long)argument;
    for (int round = 0; round < ROUNDS; round++)
        if (work(id + 1) != expected[id]) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < THREADS) usleep(1000);
    return 0;
}

int main(void) {
    for (int i = 0; i < THREADS; i++) expected[i] = work(i + 1);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, 0);
    setitimer(ITIMER_PROF, &timer, 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, (void *)i);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < THREADS - 1) {
        /* The last one to end is still there for sure. */
        for (int i = 0; i < THREADS; i++)
            if (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < THREADS - 1) pthread_kill(threads[i], SIGUSR1);
        usleep(200);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("wrong: %d, interrupted: %d\n", wrong, hits > 10);
    return 0;
}
