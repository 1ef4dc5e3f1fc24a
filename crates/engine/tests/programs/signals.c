/* Asynchronous signals: interrupted computation and calls, masks, nesting, information. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int count, depth, deepest, left;
static volatile double noise;

static void tick(int signal) {
    (void)signal;
    count++;
    noise = noise * 0.5 + count;
}

static void nested(int signal) {
    depth++;
    if (depth > deepest) deepest = depth;
    if (left-- > 0) raise(signal);
    depth--;
}

static void show(int signal, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d code %d from %d value %d\n", signal, info->si_code, info->si_pid == getpid(), info->si_value.sival_int);
}

static void install(int signal, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, 0);
}

static void alarm_in(int microseconds, int interval) {
    struct itimerval timer = {{0, interval}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

static double work(void) {
    double sum = 0;
    float single = 0;
    for (long i = 1; i < 30000; i++) {
        sum += 1.0 / i;
        single = single * 0.99f + (float)i;
    }
    return sum + single;
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    double quiet = work();
    install(SIGALRM, tick, SA_RESTART);
    alarm_in(1000, 1000);
    int same = 1;
    while (count < 100) same &= work() == quiet;
    alarm_in(0, 0);
    printf("undisturbed: %d\n", same);

    int pipes[2];
    char byte;
    if (pipe(pipes)) return 1;
    install(SIGALRM, tick, 0);
    alarm_in(30000, 0);
    ssize_t got = read(pipes[0], &byte, 1);
    printf("interrupted read: %zd %d\n", got, errno == EINTR);
    install(SIGALRM, tick, SA_RESTART);
    alarm_in(30000, 0);
    pid_t child = fork();
    if (!child) {
        usleep(120000);
        got = write(pipes[1], "z", 1);
        _exit(4);
    }
    got = read(pipes[0], &byte, 1);
    printf("restarted read: %zd %c\n", got, byte);
    int status;
    waitpid(child, &status, 0);
    printf("status: %x\n", status);
    alarm_in(30000, 0);
    struct timespec second = {1, 0}, rest;
    int result = nanosleep(&second, &rest);
    printf("sleep is not restarted: %d %d %d\n", result, errno == EINTR, rest.tv_nsec > 0);
    alarm_in(30000, 0);
    result = select(0, 0, 0, 0, &(struct timeval){1, 0});
    printf("select is not restarted: %d %d\n", result, errno == EINTR);

    sigset_t set, old, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    install(SIGUSR1, tick, 0);
    count = 0;
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&pending);
    printf("blocked: %d pending %d\n", count, sigismember(&pending, SIGUSR1));
    sigsuspend(&old);
    printf("suspended: %d %d\n", count, errno == EINTR);
    raise(SIGUSR1);
    siginfo_t info;
    printf("waited for: %d %d\n", sigtimedwait(&set, &info, &second), info.si_code == SI_TKILL);
    raise(SIGUSR1);
    struct pollfd descriptor = {pipes[0], POLLIN, 0};
    result = ppoll(&descriptor, 1, &second, &old);
    printf("ppoll: %d %d %d\n", result, errno == EINTR, count);
    raise(SIGUSR1);
    result = pselect(0, 0, 0, 0, &second, &old);
    printf("pselect: %d %d %d\n", result, errno == EINTR, count);
    int file = signalfd(-1, &set, 0);
    raise(SIGUSR1);
    struct signalfd_siginfo record;
    got = read(file, &record, sizeof record);
    printf("signalfd: %d\n", record.ssi_signo);
    sigprocmask(SIG_SETMASK, &old, 0);
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    printf("delivered at once: %d\n", count);

    left = 3;
    install(SIGUSR2, nested, SA_NODEFER);
    raise(SIGUSR2);
    printf("nested: %d\n", deepest);
    deepest = 0;
    left = 3;
    install(SIGUSR2, nested, 0);
    raise(SIGUSR2);
    printf("deferred: %d\n", deepest);
    install(SIGUSR2, nested, SA_RESETHAND);
    deepest = 0;
    raise(SIGUSR2);
    struct sigaction now;
    sigaction(SIGUSR2, 0, &now);
    printf("reset: %d %d\n", deepest, now.sa_handler == SIG_DFL);

    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = show;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN + 1, &action, 0);
    sigset_t real_time;
    sigemptyset(&real_time);
    sigaddset(&real_time, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &real_time, 0);
    for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN + 1, (union sigval){i});
    sigprocmask(SIG_UNBLOCK, &real_time, 0);
    sigaction(SIGSEGV, &action, 0);
    kill(getpid(), SIGSEGV);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, 0);
    kill(getpid(), SIGSEGV);
    sigpending(&pending);
    printf("pending fault signal: %d\n", sigismember(&pending, SIGSEGV));
    sigprocmask(SIG_SETMASK, &old, 0);
    signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    pause();
    return 0;
}
