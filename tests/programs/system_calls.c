/* Threads and processes by system calls of the program's own, without the C library: what it has to find in the calls' results and in memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 16384, THREADS = 20 };

static void tell(const char *what, long result) {
    if (result < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %ld\n", what, result);
}

static void addresses_and_lists(void) {
    int cleared = 0;
    printf("set_tid_address gives the thread: %d\n", syscall(SYS_set_tid_address, &cleared) == syscall(SYS_gettid));
    struct robust {
        void *next;
        long offset;
        void *pending;
    } own = {&own, 0, NULL}, *list = NULL, *before = NULL;
    size_t length = 0;
    tell("get_robust_list", syscall(SYS_get_robust_list, 0, &before, &length));
    printf("the C library has one: %d, %zu\n", before != NULL, length);
    tell("set_robust_list", syscall(SYS_set_robust_list, &own, sizeof own));
    tell("set_robust_list of another size", syscall(SYS_set_robust_list, &own, sizeof own - 1));
    tell("get_robust_list", syscall(SYS_get_robust_list, syscall(SYS_gettid), &list, &length));
    printf("it is the own one: %d, %zu\n", list == &own, length);
    tell("get_robust_list to nowhere", syscall(SYS_get_robust_list, 0, (void *)8, &length));
    tell("get_robust_list of nobody", syscall(SYS_get_robust_list, 0x3fffffff, &list, &length));
    syscall(SYS_set_robust_list, before, sizeof own);
}

static volatile double sums[THREADS];
static volatile uint32_t tids[THREADS], seen[THREADS];

/* Never returns: its stack has nowhere to return to. */
__attribute__((noreturn)) static void work(int number) {
    double sum = 0;
    for (int i = 1; i <= 1000 * (number + 1); i++) sum += 1.0 / i;
    sums[number] = sum;
    syscall(SYS_exit, 0);
    __builtin_unreachable();
}

/* clone3 with a function to call on the new stack. */
static long clone3_and_call(struct clone_args *arguments, size_t size, void (*function)(int), int number) {
    register long result __asm__("rax") = SYS_clone3;
    register void *first __asm__("rdi") = arguments;
    register size_t second __asm__("rsi") = size;
    register void (*called)(int) __asm__("r12") = function;
    register long argument __asm__("r13") = number;
    __asm__ volatile(
        "syscall\n test %%rax, %%rax\n jnz 1f\n xor %%ebp, %%ebp\n mov %%r13d, %%edi\n call *%%r12\n ud2\n 1:"
        : "+r"(result)
        : "r"(first), "r"(second), "r"(called), "r"(argument)
        : "rcx", "r11", "memory");
    return result;
}

static void threads(void) {
    char *stacks = mmap(NULL, THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int started = 0, told = 0, finished = 0;
    for (int i = 0; i < THREADS; i++) {
        struct clone_args arguments = {
            .flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |
                     CLONE_CHILD_CLEARTID,
            .child_tid = (uintptr_t)&tids[i],
            .parent_tid = (uintptr_t)&seen[i],
            .stack = (uintptr_t)stacks + i * STACK,
            .stack_size = STACK,
        };
        tids[i] = 1;
        long tid = clone3_and_call(&arguments, sizeof arguments, work, i);
        started += tid > 0;
        told += tid == seen[i];
    }
    for (int i = 0; i < THREADS; i++) {
        while (tids[i] != 0) syscall(SYS_futex, &tids[i], FUTEX_WAIT, 1, NULL, NULL, 0);
        finished += sums[i] != 0;
    }
    printf("%d threads started, %d told, %d finished\n", started, told, finished);
    printf("%.17g %.17g\n", sums[0], sums[THREADS - 1]);
}

static void processes(void) {
    uint32_t child_tid = 0;
    int descriptor = -1;
    struct clone_args arguments = {
        .flags = CLONE_CHILD_SETTID | CLONE_PIDFD,
        .child_tid = (uintptr_t)&child_tid,
        .pidfd = (uintptr_t)&descriptor,
        .exit_signal = SIGCHLD,
    };
    fflush(stdout);
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) {
        printf("the child's own number: %d\n", child_tid == (uint32_t)getpid());
        fflush(stdout);
        syscall(SYS_exit_group, 7);
    }
    int status = 0;
    printf("waited for it: %d", waitpid((pid_t)child, &status, 0) == child);
    printf(", exit code %d, a descriptor: %d, untouched here: %d\n", WEXITSTATUS(status), descriptor >= 0, child_tid == 0);
}

static void refusals(void) {
    struct {
        struct clone_args known;
        uint64_t more[4];
    } arguments = {.known = {.exit_signal = SIGCHLD}, .more = {0, 1}};
    tell("clone3 with too little", syscall(SYS_clone3, &arguments, 56));
    tell("clone3 with what nobody knows", syscall(SYS_clone3, &arguments, sizeof arguments));
    tell("clone3 with too much", syscall(SYS_clone3, &arguments, 8192));
    tell("clone3 from nowhere", syscall(SYS_clone3, 8, sizeof arguments.known));
    arguments.known.stack = 4096;
    tell("clone3 with a stack of no size", syscall(SYS_clone3, &arguments, sizeof arguments.known));
    arguments.known.stack = 0;
    arguments.known.flags = CLONE_SIGHAND;
    tell("clone3 with handlers and without memory", syscall(SYS_clone3, &arguments, sizeof arguments.known));
    arguments.known.flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    tell("clone3 of a thread with an exit signal", syscall(SYS_clone3, &arguments, sizeof arguments.known));
}

int main(void) {
    addresses_and_lists();
    threads();
    processes();
    refusals();
    return 0;
}
