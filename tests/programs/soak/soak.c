/* Everything that makes a code cache and its threads uneasy, at the same time: signals of several kinds, timers at 1 kHz, threads that are joined,
 * detached and cancelled, libraries loaded and unloaded, code written and overwritten, pages protected, unmapped and repaired in a handler,
 * children by fork, vfork and posix_spawn; and derivatives computed meanwhile.
 *
 * Usage: soak SEED ROUNDS MEMORY-FILE. What is printed depends on the seed only. The resident memory after each round goes to the file, in KiB. */
#define _GNU_SOURCE
#include <derivgrind.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../resident.h"
#include "../timer.h"

enum { ACTORS = 5, PAGE = 4096 };

static atomic_long wrong;
static double input = 0.75;

/* --- random numbers: SplitMix64, a stream for each actor --- */

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(uint64_t *state, unsigned bound) { return (unsigned)(next(state) % bound); }

static void expect(int holds, const char *what) {
    if (!holds) {
        wrong++;
        fprintf(stderr, "wrong: %s (%s)\n", what, strerror(errno));
    }
}

/* --- signals --- */

static _Thread_local double own = 1;
static _Thread_local volatile char *volatile broken_page;
static _Thread_local sigjmp_buf way_out;
static _Thread_local volatile sig_atomic_t jumps_out;

static void note(int number) {
    int kept = errno;
    double roots[8];
    (void)number;
    own = own * 1.5 - own * 0.5;
    for (int k = 0; k < 8; k++) roots[k] = sqrt(k + 2 * own);
    if (roots[7] != 3) wrong++;
    errno = kept;
}

static void with_value(int number, siginfo_t *information, void *context) {
    (void)context;
    if (information->si_value.sival_int != 4711) wrong++;
    note(number);
}

static void repair(int number, siginfo_t *information, void *context) {
    volatile char *page = broken_page;
    (void)context;
    if (jumps_out) siglongjmp(way_out, number);
    if (!page || (char *)information->si_addr < page || (char *)information->si_addr >= page + PAGE) {
        static const char message[] = "a fault elsewhere\n";
        if (write(2, message, sizeof message - 1)) _exit(3);
        _exit(3);
    }
    mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
}

static void set(int number, void (*handler)(int, siginfo_t *, void *), void (*simple)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (simple) action.sa_handler = simple;
    else action.sa_sigaction = handler;
    action.sa_flags = SA_RESTART | (simple ? 0 : SA_SIGINFO);
    sigaction(number, &action, 0);
}

/* A timer of the process's time and one of real time, both at 1 kHz; the second one sends a value. */
static timer_t start_timers(void) {
    struct itimerval profiling = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &profiling, 0);
    return start_timer(SIGRTMIN + 1, 4711);
}

static void stop_timers(timer_t timer) {
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &none, 0);
    timer_delete(timer);
}

/* --- actors --- */

static pthread_mutex_t derivative_mutex = PTHREAD_MUTEX_INITIALIZER;
static double together;       /* under the mutex */
static _Atomic double atomically;
static pthread_t actors[ACTORS];
static atomic_int here;       /* actors that have not ended */

typedef struct {
    uint64_t random;
    int number;
} Actor;

/* Powers of the input by several ways; sums of terms that are exact numbers of few bits times powers of 0.75. */
static long compute(Actor *actor) {
    long terms = 0;
    for (int k = 0; k < 60; k++) {
        double factor = (double)(1 + below(&actor->random, 4)), square = input * input, old;
        double term = factor * square * square;
        if (k % 3 == 0) {
            pthread_mutex_lock(&derivative_mutex);
            together = together + term;
            pthread_mutex_unlock(&derivative_mutex);
        } else {
            old = atomic_load(&atomically);
            while (!atomic_compare_exchange_weak(&atomically, &old, old + term)) {}
        }
        terms += (long)factor;
        if (k % 20 == 0) sched_yield();
    }
    return terms;
}

static void *double_it(void *argument) { return (char *)argument + (size_t)argument; }

static void *wait_for_ever(void *reached) {
    sem_post(reached);
    for (;;) pause();
    return 0;
}

static void *work_for_ever(void *reached) {
    volatile double x = 1;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(reached);
    for (;;) x = x * 1.0000001;
    return 0;
}

static void *tell(void *done) {
    sem_post(done);
    return 0;
}

static void wait_on(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0 && errno == EINTR) {}
}

static long start_threads(Actor *actor) {
    long sum = 0;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    for (size_t k = 0; k < 6; k++) {
        pthread_attr_t attributes;
        pthread_t thread;
        void *result = 0;
        unsigned kind = below(&actor->random, 4);
        pthread_attr_init(&attributes);
        /* The unwinder of a cancelled thread needs more than the smallest stack. */
        if (below(&actor->random, 2)) pthread_attr_setstacksize(&attributes, kind < 2 ? 16384 : 65536);
        if (kind == 0) {
            expect(pthread_create(&thread, &attributes, double_it, (void *)k) == 0, "pthread_create");
            pthread_join(thread, &result);
            sum += (long)(size_t)result;
        } else if (kind == 1) {
            pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
            expect(pthread_create(&thread, &attributes, tell, &semaphore) == 0, "pthread_create, detached");
            wait_on(&semaphore);
        } else {
            expect(pthread_create(&thread, &attributes, kind == 2 ? wait_for_ever : work_for_ever, &semaphore) == 0, "pthread_create");
            wait_on(&semaphore);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            expect(result == PTHREAD_CANCELED, "a cancelled thread");
            sum += 100;
        }
        pthread_attr_destroy(&attributes);
    }
    sem_destroy(&semaphore);
    return sum;
}

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* One at a time: then each edition comes to where the one before has been. */
static long load_plugins(Actor *actor) {
    long sum = 0;
    for (int k = 0; k < 4; k++) {
        int which = (int)below(&actor->random, 2);
        pthread_mutex_lock(&loading);
        void *library = dlopen(which ? "./plugin1.so" : "./plugin0.so", RTLD_NOW | RTLD_LOCAL);
        expect(library != 0, "dlopen");
        if (library) {
            int (*edition)(void) = (int (*)(void))dlsym(library, "edition");
            double (*scaled)(double) = (double (*)(double))dlsym(library, "scaled");
            int first = edition(), second = edition();
            expect(first == 10 * which && second == first + 1, "the edition of a library");
            expect(scaled(3) == 3 * (which + 1), "a library's function");
            sum += first + second;
            dlclose(library);
        }
        pthread_mutex_unlock(&loading);
    }
    return sum;
}

static unsigned char *shared_code;
static pthread_rwlock_t code_lock = PTHREAD_RWLOCK_INITIALIZER;
static int shared_value;

/* mov $value, %eax; ret */
static void write_code(unsigned char *code, int value) {
    code[0] = 0xb8;
    memcpy(code + 1, &value, 4);
    code[5] = 0xc3;
}

static int call_code(unsigned char *code) { return ((int (*)(void))(void *)code)(); }

/* Code of its own, mapped, protected and unmapped, and code that all threads write and call. */
static long generate_code(Actor *actor) {
    long sum = 0;
    for (int k = 0; k < 6; k++) {
        int value = (int)below(&actor->random, 1000);
        unsigned char *code = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect(code != MAP_FAILED, "mmap");
        write_code(code, value);
        mprotect(code, PAGE, PROT_READ | PROT_EXEC);
        expect(call_code(code) == value, "generated code");
        mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
        write_code(code, value + 1);
        expect(call_code(code) == value + 1, "code that was written over");
        munmap(code, PAGE);
        if (k % 2) {
            pthread_rwlock_wrlock(&code_lock);
            shared_value = value;
            write_code(shared_code, value);
            pthread_rwlock_unlock(&code_lock);
        }
        pthread_rwlock_rdlock(&code_lock);
        expect(call_code(shared_code) == shared_value, "code shared by threads");
        pthread_rwlock_unlock(&code_lock);
        sum += value;
    }
    return sum;
}

/* Faults that a handler repairs or jumps out of. */
static long repair_pages(Actor *actor) {
    volatile char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int round;
    volatile long sum = 0;
    expect(page != MAP_FAILED, "mmap");
    for (round = 0; round < 4; round++) {
        unsigned at = below(&actor->random, PAGE);
        mprotect((void *)page, PAGE, PROT_NONE);
        broken_page = page;
        page[at] = (char)round;
        broken_page = 0;
        sum += page[at];
        mprotect((void *)page, PAGE, PROT_NONE);
        jumps_out = 1;
        if (sigsetjmp(way_out, 1) == 0) {
            page[at] = 1;
            expect(0, "a fault");
        }
        jumps_out = 0;
        sum += 10;
    }
    munmap((void *)page, PAGE);
    return sum;
}

/* A child of this kind has to end with this code. */
static void ends_with(pid_t child, unsigned code, const char *kind) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && (unsigned)WEXITSTATUS(status) == code) return;
    wrong++;
    fprintf(stderr, "wrong: a child by %s ends with status %#x instead of %u\n", kind, status, code);
}

static long start_children(Actor *actor) {
    static const char *const kinds[] = {"fork", "posix_spawn", "vfork"};
    char *words[] = {(char *)"sh", (char *)"-c", (char *)"exit 7", 0}, *environment[] = {0};
    unsigned code = below(&actor->random, 100), kind = below(&actor->random, 3);
    pid_t child = -1;
    if (kind == 0) {
        child = fork();
        if (child == 0) _exit((int)code);
    } else if (kind == 1) {
        code = 7;
        expect(posix_spawn(&child, "/bin/sh", 0, 0, words, environment) == 0, "posix_spawn");
    } else {
        child = vfork();
        if (child == 0) _exit(5);
        code = 5;
    }
    expect(child > 0, "a child");
    if (child > 0) ends_with(child, code, kinds[kind]);
    return code;
}

/* Signals for all other actors. (One that has ended is still there to be joined.) */
static long disturb(Actor *actor) {
    for (int k = 0; k < 20; k++) {
        int other = (int)below(&actor->random, ACTORS);
        struct timespec pause = {0, 100000};
        if (atomic_load(&here) > 1) pthread_kill(actors[other], SIGUSR1);
        nanosleep(&pause, 0);
    }
    return 1;
}

typedef long (*Act)(Actor *);
static const Act ACTS[] = {compute, start_threads, load_plugins, generate_code, repair_pages, start_children, disturb, compute};
enum { KINDS = sizeof ACTS / sizeof *ACTS };

static pthread_barrier_t all_here, all_done;

static void *act(void *argument) {
    Actor *actor = argument;
    long sum = 0;
    pthread_barrier_wait(&all_here);
    for (int k = 0; k < 3; k++) {
        unsigned kind = below(&actor->random, KINDS);
        sum = sum * 31 + (long)kind;
        sum += ACTS[kind](actor);
    }
    pthread_barrier_wait(&all_done);
    return (void *)sum;
}

/* --- */

int main(int argc, char **argv) {
    uint64_t random = argc > 3 ? strtoull(argv[1], 0, 10) : 0;
    int rounds = argc > 3 ? atoi(argv[2]) : 0;
    FILE *memory = argc > 3 ? fopen(argv[3], "w") : 0;
    timer_t timer;
    if (!memory) return 2;
    setvbuf(stdout, 0, _IOLBF, 0);
    set(SIGUSR1, 0, note);
    set(SIGPROF, 0, note);
    set(SIGRTMIN + 1, with_value, 0);
    set(SIGSEGV, repair, 0);
    shared_code = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code(shared_code, shared_value);
    pthread_barrier_init(&all_here, 0, ACTORS);
    pthread_barrier_init(&all_done, 0, ACTORS);
    DG_INPUTF(input);
    timer = start_timers();
    for (int round = 0; round < rounds; round++) {
        Actor each[ACTORS];
        unsigned long sum = 0;
        atomic_store(&here, ACTORS);
        for (int k = 0; k < ACTORS; k++) {
            each[k].random = next(&random);
            each[k].number = k;
        }
        /* A signal of the first actor may come before the last one has been started: not before all are at the barrier. */
        for (int k = 0; k < ACTORS; k++)
            if (pthread_create(&actors[k], 0, act, &each[k]) != 0) return 1;
        for (int k = 0; k < ACTORS; k++) {
            void *result;
            pthread_join(actors[k], &result);
            sum = sum * 37 + (unsigned long)result;
        }
        printf("round %d: %lu\n", round, sum);
        fprintf(memory, "%ld\n", resident_kib());
        fflush(memory);
    }
    stop_timers(timer);
    fclose(memory);
    {
        double output = together + atomic_load(&atomically), value = output, derivative;
        DG_OUTPUTF(output);
        /* The output is a number of terms times the fourth power of the input. */
        derivative = 4 * value / input;
        printf("%.12g\nderivative %.12g\n", value, derivative);
    }
    printf("%ld wrong\n", (long)wrong);
    return wrong != 0;
}
