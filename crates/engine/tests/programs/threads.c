/* Threads: synchronisation, cancellation, signals to threads, robust mutexes, the main thread's early end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, robust;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int ready, total;
static volatile int expirations;
static _Thread_local int own = 5;

static void *adder(void *argument) {
    long id = (long)argument;
    double sum = 0;
    for (int i = 1; i <= 5000; i++) {
        pthread_mutex_lock(&mutex);
        total += id;
        own++;
        pthread_mutex_unlock(&mutex);
        sum += 1.0 / i;
    }
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&mutex);
    ready++;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return (void *)(long)(own + id + (sum > 9 && sum < 10));
}

static void *identity(void *argument) { return argument; }

static void *sleeper(void *argument) {
    for (;;) pause();
    return argument;
}

static void *spinner(void *argument) {
    volatile long x = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(argument);
    for (;;) x++;
    return 0;
}

static void *waiter(void *argument) {
    int signal;
    sigwait(argument, &signal);
    return (void *)(long)signal;
}

static void *owner(void *argument) {
    pthread_mutex_lock(&robust);
    return argument;
}

static void *forker(void *argument) {
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (!child) {
            for (int k = 0; k < 20; k++) free(malloc(1000 * k));
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        if (WEXITSTATUS(status) != i) printf("child: %x\n", status);
    }
    return argument;
}

static void expired(union sigval value) {
    (void)value;
    __atomic_fetch_add(&expirations, 1, __ATOMIC_SEQ_CST);
}

static void *last(void *argument) {
    usleep(50000);
    printf("last thread\n");
    return argument;
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    pthread_t threads[8], thread;
    void *result;
    for (int round = 0; round < 10; round++) {
        ready = 0;
        pthread_barrier_init(&barrier, 0, 8);
        for (long i = 0; i < 8; i++)
            if (pthread_create(&threads[i], 0, adder, (void *)i)) return 1;
        pthread_mutex_lock(&mutex);
        while (ready < 8) pthread_cond_wait(&condition, &mutex);
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < 8; i++) {
            pthread_join(threads[i], &result);
            if ((long)result != 5006 + i) printf("result: %ld\n", (long)result);
        }
        pthread_barrier_destroy(&barrier);
    }
    printf("total: %d, own: %d\n", total, own);
    for (int i = 0; i < 300; i++) {
        pthread_create(&thread, 0, identity, &threads[i % 8]);
        pthread_join(thread, &result);
        if (result != &threads[i % 8]) printf("wrong result\n");
    }

    pthread_create(&thread, 0, sleeper, 0);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    sem_t started;
    sem_init(&started, 0, 0);
    pthread_create(&thread, 0, spinner, &started);
    sem_wait(&started);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_create(&thread, 0, waiter, &set);
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, &result);
    printf("sigwait: %ld\n", (long)result);

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_create(&thread, 0, owner, 0);
    pthread_join(thread, 0);
    printf("robust: %d\n", pthread_mutex_lock(&robust) == EOWNERDEAD);

    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, forker, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("forked\n");

    /* The library's timer thread never ends, so this takes place in another process. */
    if (!fork()) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        struct itimerspec every = {{0, 5000000}, {0, 5000000}};
        timer_settime(timer, 0, &every, 0);
        while (expirations < 5) usleep(1000);
        timer_delete(timer);
        exit(5);
    }
    int status;
    wait(&status);
    printf("timer: %x\n", status);

    pthread_attr_t stack;
    void *start;
    size_t size;
    pthread_getattr_np(pthread_self(), &stack);
    pthread_attr_getstack(&stack, &start, &size);
    printf("main stack: %d\n", (char *)&stack > (char *)start && (char *)&stack < (char *)start + size);

    pthread_create(&thread, 0, last, 0);
    pthread_detach(thread);
    pthread_exit(0);
}
