/* Synchronous signals: addresses, codes, repaired registers, overflown stacks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int count;

static void report(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    int page_fault = signal == SIGSEGV || signal == SIGBUS;
    printf("signal %d code %d address %p error %llx trap %lld\n", signal, info->si_code,
           page_fault ? info->si_addr : 0, (unsigned long long)u->uc_mcontext.gregs[REG_ERR],
           (long long)u->uc_mcontext.gregs[REG_TRAPNO]);
    siglongjmp(back, 1);
}

static void repair(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    static int replacement[4] = {41, 42, 43, 44};
    (void)signal;
    printf("repair %p, rcx %lld\n", info->si_addr, (long long)u->uc_mcontext.gregs[REG_RCX]);
    u->uc_mcontext.gregs[REG_RAX] = (long long)(intptr_t)replacement;
    /* The second element of xmm3. */
    u->uc_mcontext.fpregs->_xmm[3].element[2] = 77;
}

static void leave(int signal) {
    (void)signal;
    count++;
    siglongjmp(back, 1);
}

static int deep(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return deep(n + 1) + room[0];
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(signal, &action, 0);
}

static int status_of(void (*body)(void)) {
    pid_t child = fork();
    if (!child) {
        body();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status & 0x7f;
}

static void crash(void) { *(volatile int *)8 = 1; }
static void crash_blocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, 0);
    install(SIGSEGV, report, 0);
    crash();
}
static void crash_ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    crash();
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    install(SIGSEGV, report, 0);
    install(SIGBUS, report, 0);
    install(SIGFPE, report, 0);
    install(SIGILL, report, 0);
    install(SIGTRAP, report, 0);
    for (intptr_t k = 0; k < 3; k++)
        if (!sigsetjmp(back, 1)) *(volatile char *)(0x1234 + k) = 1;
    if (!sigsetjmp(back, 1)) printf("%d", *(volatile char *)0x2345);
    if (!sigsetjmp(back, 1)) ((void (*)(void))0x77)();
    if (!sigsetjmp(back, 1)) __asm__ volatile("ud2");
    if (!sigsetjmp(back, 1)) __asm__ volatile("int3");
    if (!sigsetjmp(back, 1)) __asm__ volatile("hlt");
    if (!sigsetjmp(back, 1)) __asm__ volatile("xor %%eax, %%eax; cltd; idiv %%eax" ::: "rax", "rdx");
    if (!sigsetjmp(back, 1)) __asm__ volatile("movaps 1(%%rsp), %%xmm0" ::: "xmm0", "memory");
    char *page = mmap((void *)0x500000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (!sigsetjmp(back, 1)) page[5] = 1;
    if (!sigsetjmp(back, 1)) ((void (*)(void))page)();

    install(SIGSEGV, repair, 0);
    long value;
    int element;
    __asm__ volatile("mov $0x10, %%eax\n mov $123, %%ecx\n pxor %%xmm3, %%xmm3\n movslq 4(%%rax), %0\n"
                     "psrldq $8, %%xmm3\n movd %%xmm3, %1"
                     : "=&r"(value), "=r"(element)::"rax", "rcx", "xmm3", "memory");
    printf("repaired: %ld, %d\n", value, element);

    stack_t stack = {malloc(65536), 0, 65536};
    sigaltstack(&stack, 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = leave;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1)) deep(0);
    printf("overflows: %d\n", count);
    stack_t state;
    sigaltstack(0, &state);
    printf("alternate stack: %d %zu\n", state.ss_flags, state.ss_size);

    signal(SIGSEGV, SIG_DFL);
    printf("killed: %d %d %d\n", status_of(crash), status_of(crash_blocked), status_of(crash_ignored));
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    crash();
    return 0;
}
