/* Signals that numeric programs and profilers use: trapped floating-point exceptions, profiling at 1 kHz, timers and queued signals with values, a
 * fault repaired in the middle of a copy, calls that are interrupted or restarted, signalfd and ppoll. */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "timer.h"

enum { PAGE = 4096 };

static sigjmp_buf back;
static volatile sig_atomic_t count;
static volatile int codes[8], values[8];
static char *pages;

static void set(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(number, &action, 0);
}

static void jump_out(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    codes[count++ % 8] = information->si_code;
    siglongjmp(back, 1);
}

static void keep(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    values[count % 8] = information->si_value.sival_int;
    codes[count++ % 8] = information->si_code;
}

static void repair(int number, siginfo_t *information, void *context) {
    size_t at = (size_t)((char *)information->si_addr - pages) / PAGE;
    (void)number, (void)context;
    count++;
    mprotect(pages + at * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static volatile double zero = 0, one = 1, huge = 1e300, result;

static void exceptions(void) {
    static const int kinds[] = {FE_DIVBYZERO, FE_INVALID, FE_OVERFLOW};
    static const char *const names[] = {"division by zero", "invalid", "overflow"};
    static volatile int k;
    set(SIGFPE, jump_out, 0);
    for (k = 0; k < 3; k++) {
        count = 0;
        if (sigsetjmp(back, 1) == 0) {
            feclearexcept(FE_ALL_EXCEPT);
            feenableexcept(kinds[k]);
            result = k == 0 ? one / zero : k == 1 ? zero / zero : huge * huge;
            printf("%s: not trapped\n", names[k]);
        } else {
            fedisableexcept(FE_ALL_EXCEPT);
            feclearexcept(FE_ALL_EXCEPT);
            printf("%s: si_code %d\n", names[k], codes[0]);
        }
    }
    result = one / zero;
    printf("not trapped any more: %g\n", result);
    feclearexcept(FE_ALL_EXCEPT);
}

static void profiling(void) {
    struct itimerval every = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    double sum = 0;
    long k = 0;
    set(SIGPROF, keep, SA_RESTART);
    count = 0;
    setitimer(ITIMER_PROF, &every, 0);
    while (count < 50) sum += sin((double)(k++ % 100));
    setitimer(ITIMER_PROF, &none, 0);
    printf("profiled: %d\n", isfinite(sum));
}

static void timer_with_value(void) {
    struct itimerspec none = {{0, 0}, {0, 0}};
    timer_t timer;
    set(SIGRTMIN + 2, keep, 0);
    count = 0;
    timer = start_timer(SIGRTMIN + 2, 99);
    while (count < 20) pause();
    timer_settime(timer, 0, &none, 0);
    timer_delete(timer);
    printf("timer: value %d, si_code %d\n", values[0], codes[0]);
}

static void queued(void) {
    sigset_t set_of_one;
    union sigval value;
    sigemptyset(&set_of_one);
    sigaddset(&set_of_one, SIGRTMIN + 3);
    set(SIGRTMIN + 3, keep, 0);
    sigprocmask(SIG_BLOCK, &set_of_one, 0);
    count = 0;
    for (int k = 0; k < 5; k++) {
        value.sival_int = 10 + k;
        sigqueue(getpid(), SIGRTMIN + 3, value);
    }
    sigprocmask(SIG_UNBLOCK, &set_of_one, 0);
    printf("queued: %d, %d %d %d %d %d\n", (int)count, values[0], values[1], values[2], values[3], values[4]);
}

static void repaired_copy(void) {
    char *from = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int equal;
    pages = mmap(0, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int k = 0; k < 4 * PAGE; k++) from[k] = (char)(k * 7 % 251);
    set(SIGSEGV, repair, 0);
    count = 0;
    memcpy(pages + 100, from, 4 * PAGE - 100);
    equal = memcmp(pages + 100, from, 4 * PAGE - 100) == 0;
    printf("copied over %d repaired pages: %d\n", (int)count, equal);
}

static void interrupted(int flags) {
    struct itimerval once = {{0, 0}, {0, 20000}};
    struct timespec second = {0, 100000000};
    struct pollfd none;
    int pipes[2], answer;
    char byte = 0;
    sigset_t empty;
    sigemptyset(&empty);
    set(SIGALRM, keep, flags);
    if (pipe(pipes) != 0) return;
    count = 0;
    if (!(flags & SA_RESTART)) {
        setitimer(ITIMER_REAL, &once, 0);
        answer = (int)read(pipes[0], &byte, 1);
        printf("read: %d, %s, %d signals\n", answer, strerror(errno), (int)count);
    }
    /* Never restarted, whatever the handler's flags. */
    count = 0;
    setitimer(ITIMER_REAL, &once, 0);
    answer = poll(&none, 0, -1);
    printf("poll: %d, %s, %d signals\n", answer, strerror(errno), (int)count);
    count = 0;
    setitimer(ITIMER_REAL, &once, 0);
    answer = ppoll(&none, 0, &second, &empty);
    printf("ppoll: %d, %d signals\n", answer, (int)count);
    close(pipes[0]);
    close(pipes[1]);
}

static void by_descriptor(void) {
    struct signalfd_siginfo information;
    union sigval value;
    sigset_t two;
    int descriptor;
    sigemptyset(&two);
    sigaddset(&two, SIGUSR1);
    sigaddset(&two, SIGRTMIN + 4);
    sigprocmask(SIG_BLOCK, &two, 0);
    descriptor = signalfd(-1, &two, 0);
    raise(SIGUSR1);
    value.sival_int = 1234;
    sigqueue(getpid(), SIGRTMIN + 4, value);
    for (int k = 0; k < 2; k++) {
        if (read(descriptor, &information, sizeof information) != sizeof information) return;
        printf("by descriptor: %s, %d\n", information.ssi_signo == SIGUSR1 ? "SIGUSR1" : "real-time", information.ssi_int);
    }
    close(descriptor);
}

int main(void) {
    exceptions();
    profiling();
    timer_with_value();
    queued();
    repaired_copy();
    interrupted(0);
    interrupted(SA_RESTART);
    by_descriptor();
    return 0;
}
