/* setjmp and longjmp over many frames, and switching between contexts. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static jmp_buf back;
static ucontext_t main_context, worker_context;

__attribute__((noinline)) static void deep(int depth) {
    volatile char pad[100];
    pad[0] = (char)depth;
    if (depth == 0) longjmp(back, 17);
    deep(depth - 1);
    printf("never %d\n", pad[0]);
}

static void worker(int start) {
    int i;
    for (i = start; i < start + 5; i++) {
        printf("worker %d\n", i);
        swapcontext(&worker_context, &main_context);
    }
}

int main(void) {
    volatile int round = 0;
    static char stack[65536];
    int i, value = setjmp(back);
    printf("setjmp returned %d in round %d\n", value, round);
    if (round++ < 3) deep(10 * round);
    getcontext(&worker_context);
    worker_context.uc_stack.ss_sp = stack;
    worker_context.uc_stack.ss_size = sizeof stack;
    worker_context.uc_link = &main_context;
    makecontext(&worker_context, (void (*)(void))worker, 1, 100);
    for (i = 0; i < 6; i++) {
        swapcontext(&main_context, &worker_context);
        printf("back in main, %d\n", i);
    }
    return 0;
}
