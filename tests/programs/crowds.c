/* Thousands of threads one after the other, and two hundred at once on the smallest stacks: joined, detached, cancelled, ended by pthread_exit. What
 * remains of them in memory has to be nothing. Argument: how many. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "resident.h"

enum { CROWD = 200, SMALLEST_STACK = 16384, GROWTH_KIB = 6 * 1024 };

static _Thread_local double own = 1;
static pthread_barrier_t all_here;
static sem_t ended;
static int cleaned;

static void *joined(void *argument) {
    own += (double)(long)argument;
    return (void *)(long)own;
}

static void *detached(void *unused) {
    own *= 2;
    sem_post(&ended);
    return unused;
}

static void *left(void *argument) {
    pthread_exit(argument);
    return 0;
}

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void *cancelled(void *unused) {
    pthread_cleanup_push(clean, 0);
    sem_post(&ended);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void *in_the_crowd(void *argument) {
    pthread_barrier_wait(&all_here);
    own += (double)(long)argument;
    pthread_barrier_wait(&all_here);
    return (void *)(long)own;
}

static void start(pthread_t *thread, void *(*routine)(void *), long argument, int kind) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (kind % 2) pthread_attr_setstacksize(&attributes, SMALLEST_STACK);
    if (routine == detached) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(thread, &attributes, routine, (void *)argument) != 0) {
        printf("no thread\n");
        exit(1);
    }
    pthread_attr_destroy(&attributes);
}

/* Four threads of different kinds. */
static long four(long number) {
    pthread_t thread;
    void *result;
    long sum = 0;
    start(&thread, joined, number, 1);
    pthread_join(thread, &result);
    sum += (long)result;
    start(&thread, detached, 0, 1);
    sem_wait(&ended);
    start(&thread, left, number, 1);
    pthread_join(thread, &result);
    sum += (long)result;
    start(&thread, cancelled, 0, 0);
    sem_wait(&ended);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    return sum + (result == PTHREAD_CANCELED);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 400, sum = 0, before = 0, after;
    pthread_t crowd[CROWD];
    sem_init(&ended, 0, 0);
    for (long k = 0; k < count / 4; k++) {
        sum += four(k);
        if (k == count / 16) before = resident_kib();
    }
    after = resident_kib();
    printf("%ld threads: %ld, %d cleaned up\n", count, sum, cleaned);
    if (after > before + GROWTH_KIB) printf("memory has grown from %ld to %ld KiB\n", before, after);

    pthread_barrier_init(&all_here, 0, CROWD);
    for (long k = 0; k < CROWD; k++) start(&crowd[k], in_the_crowd, k, 1);
    sum = 0;
    for (long k = 0; k < CROWD; k++) {
        void *result;
        pthread_join(crowd[k], &result);
        sum += (long)result;
    }
    printf("%d at once: %ld\n", CROWD, sum);
    return 0;
}
