/* Faults of the instructions that end a basic block: the handler finds the instruction's own address and the registers as they were before it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096 };

static sigjmp_buf back;
static volatile long registers[4], flags, distance;
char *nowhere;

static void leave(int number, siginfo_t *information, void *context) {
    (void)number;
    const greg_t *found = ((ucontext_t *)context)->uc_mcontext.gregs;
    const int names[] = {REG_RIP, REG_RSP, REG_RAX, REG_RCX};
    for (int i = 0; i < 4; i++) registers[i] = found[names[i]];
    flags = found[REG_EFL];
    distance = (char *)information->si_addr - nowhere;
    siglongjmp(back, 1);
}

/* RDX has the address of a page without access between others, RBX that of readable memory. Each piece of code may change what it likes. */
#define FAULT(name, code)                                                                                                         \
    static void name(char *readable) {                                                                                            \
        register char *memory __asm__("rbx") = readable;                                                                          \
        register char *page __asm__("rdx") = nowhere;                                                                             \
        __asm__ volatile("lea 1f(%%rip), %%rax\n mov %%rax, start(%%rip)\n 1: mov $11, %%eax\n mov $12, %%ecx\n cmp $5, %%eax\n" code \
                         "\n 2: ud2"                                                                                              \
                         : "+r"(memory), "+r"(page)                                                                               \
                         :                                                                                                        \
                         : "rax", "rcx", "rsi", "rdi", "r8", "memory", "cc");                                                     \
    }

char *start;
FAULT(jump_through_nowhere, "jmp *8(%%rdx)")
FAULT(jump_through_nowhere_indexed, "mov $2, %%esi\n jmp *(%%rdx, %%rsi, 8)")
FAULT(call_through_nowhere, "call *8(%%rdx)")
FAULT(call_on_no_stack, "mov %%rdx, %%rsp\n call 2f")
FAULT(call_near_the_end_of_no_stack, "lea 4096(%%rdx), %%rsp\n call 2f")
FAULT(call_register_on_no_stack, "lea 2f(%%rip), %%rsi\n lea 64(%%rdx), %%rsp\n call *%%rsi")
FAULT(call_memory_on_no_stack, "lea 64(%%rdx), %%rsp\n call *(%%rbx)")
FAULT(return_from_no_stack, "lea 64(%%rdx), %%rsp\n ret")
FAULT(return_and_release_from_no_stack, "lea 64(%%rdx), %%rsp\n ret $16")
FAULT(jump_to_nowhere, "lea 16(%%rdx), %%rsi\n jmp *%%rsi")
FAULT(call_to_nowhere, "lea 16(%%rdx), %%rsi\n call *%%rsi\n")
FAULT(return_to_nowhere, "lea 16(%%rdx), %%rsi\n push %%rsi\n ret")
FAULT(push_on_no_stack, "lea 64(%%rdx), %%rsp\n push %%rax\n jmp 2f")
FAULT(load_before_a_jump, "mov 24(%%rdx), %%rax\n jmp 2f")
FAULT(load_before_a_call, "mov 24(%%rdx), %%rax\n call 2f")
FAULT(load_before_a_return, "mov 24(%%rdx), %%rax\n ret")
FAULT(store_before_a_condition, "mov %%rcx, 24(%%rdx)\n je 2f")
FAULT(loop_of_faults, "3: mov 24(%%rdx), %%rax\n loop 3b")

int main(void) {
    static char alternate[65536];
    static void *targets[4];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    nowhere = (char *)mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
    targets[0] = (void *)main;
    const struct {
        const char *name;
        void (*run)(char *);
    } cases[] = {
#define CASE(name) {#name, name}
        CASE(jump_through_nowhere),         CASE(jump_through_nowhere_indexed),     CASE(call_through_nowhere),
        CASE(call_on_no_stack),             CASE(call_near_the_end_of_no_stack),    CASE(call_register_on_no_stack),
        CASE(call_memory_on_no_stack),      CASE(return_from_no_stack),             CASE(return_and_release_from_no_stack),
        CASE(jump_to_nowhere),              CASE(call_to_nowhere),                  CASE(return_to_nowhere),
        CASE(push_on_no_stack),             CASE(load_before_a_jump),               CASE(load_before_a_call),
        CASE(load_before_a_return),         CASE(store_before_a_condition),         CASE(loop_of_faults),
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* Twice: the second time its code is known. */
        for (volatile int round = 0; round < 2; round++) {
            if (sigsetjmp(back, 1) == 0) cases[i].run((char *)targets);
            long place = (char *)registers[0] - nowhere, stack_place = (char *)registers[1] - nowhere;
            int there = place >= 0 && place < PAGE, stack_there = stack_place >= 0 && stack_place <= PAGE;
            printf("%s: at %s+%ld, RSP %s%ld, RAX %ld, RCX %ld, flags %lx, address %ld\n", cases[i].name, there ? "nowhere" : "",
                   there ? place : (long)((char *)registers[0] - start), stack_there ? "nowhere+" : "",
                   stack_there ? stack_place : 0, registers[2], registers[3], flags & 0x8d5, distance);
        }
    }
    return 0;
}
