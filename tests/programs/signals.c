/* Handlers: raise, kill, alarm, fault repaired by siglongjmp, fault repaired by mprotect, alternate stack, masks, EINTR. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t count, last;
static sigjmp_buf back;
static volatile char *page;
static char alternate[65536];

static void note(int number) {
    count++;
    last = number;
}

static void jump_out(int number) { siglongjmp(back, number); }

static void repair(int number, siginfo_t *info, void *context) {
    (void)context;
    note(number);
    if ((char *)info->si_addr >= page && (char *)info->si_addr < page + 4096) mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

static void on_alternate(int number) {
    char here;
    note(number);
    printf("on the alternate stack: %d\n", &here >= alternate && &here < alternate + sizeof alternate);
}

static void set(int number, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, 0);
}

int main(void) {
    struct sigaction action;
    struct itimerval timer;
    sigset_t set_of_one, old;
    stack_t stack;
    char byte;
    int pipes[2];
    double sum = 0;
    volatile int number;

    set(SIGUSR1, note, 0);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    printf("%d signals, last %d\n", (int)count, (int)last);

    sigemptyset(&set_of_one);
    sigaddset(&set_of_one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set_of_one, &old);
    raise(SIGUSR1);
    printf("blocked: %d\n", (int)count);
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("unblocked: %d\n", (int)count);

    set(SIGALRM, note, 0);
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_usec = 20000;
    setitimer(ITIMER_REAL, &timer, 0);
    count = 0;
    while (!count) sum += 1.0;
    printf("timer in a computation: last %d, sum positive %d\n", (int)last, sum > 0);

    if (pipe(pipes) != 0) return 1;
    setitimer(ITIMER_REAL, &timer, 0);
    errno = 0;
    printf("read: %d", (int)read(pipes[0], &byte, 1));
    printf(", %s\n", strerror(errno));
    set(SIGALRM, SIG_IGN, 0);
    raise(SIGALRM);

    set(SIGSEGV, jump_out, 0);
    for (number = 0; number < 3; number++) {
        int value = sigsetjmp(back, 1);
        if (value == 0) *(volatile int *)(size_t)(16 * number) = 1;
        printf("round %d: siglongjmp with %d\n", (int)number, value);
    }

    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = repair;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    count = 0;
    page[100] = 'x';
    printf("repaired: %c after %d\n", page[100], (int)count);

    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    stack.ss_flags = 0;
    sigaltstack(&stack, 0);
    set(SIGUSR2, on_alternate, SA_ONSTACK);
    raise(SIGUSR2);

    set(SIGFPE, jump_out, 0);
    number = 0;
    if (sigsetjmp(back, 1) == 0) number = 1 / number;
    printf("after a division by zero\n");
    set(SIGUSR1, SIG_DFL, SA_RESETHAND);
    fflush(stdout);
    raise(SIGUSR1);
    return 0;
}
