/* A timer of real time at 1 kHz. */
#include <signal.h>
#include <string.h>
#include <time.h>

/* Starts one that sends a signal with a value. */
static timer_t start_timer(int signal, int value) {
    struct itimerspec every = {{0, 1000000}, {0, 1000000}};
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    event.sigev_value.sival_int = value;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 0;
    timer_settime(timer, 0, &every, 0);
    return timer;
}
