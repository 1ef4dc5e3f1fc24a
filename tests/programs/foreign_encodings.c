/* Instructions that few processors have (FMA4, XOP): each raises its signal, or does what it does. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static sigjmp_buf back;

static void raised(int signal, siginfo_t *information, void *context) {
    (void)context;
    printf("signal %d code %d\n", signal, information->si_code);
    siglongjmp(back, 1);
}

#define ATTEMPT(instruction)                                                                                           \
    do {                                                                                                               \
        double result[2] = {1, 2};                                                                                     \
        if (!sigsetjmp(back, 1)) {                                                                                     \
            __asm__ volatile("movupd %0, %%xmm0\n\tmovapd %%xmm0, %%xmm1\n\tmovapd %%xmm0, %%xmm2\n\t" instruction    \
                             "\n\tmovupd %%xmm0, %0"                                                                   \
                             : "+m"(result)                                                                            \
                             :                                                                                         \
                             : "xmm0", "xmm1", "xmm2");                                                                \
        }                                                                                                              \
        printf("%s: %g %g\n", instruction, result[0], result[1]);                                                      \
    } while (0)

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = raised;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, 0);
    ATTEMPT("vfmaddpd %%xmm2, %%xmm1, %%xmm0, %%xmm0");
    ATTEMPT("vfmaddsd %0, %%xmm1, %%xmm0, %%xmm0");
    ATTEMPT("vpcmov %%xmm2, %%xmm1, %%xmm0, %%xmm0");
    ATTEMPT("vfrczpd %%xmm1, %%xmm0");
    return 0;
}
