/* AVX-512: all registers across system calls, signals, faults and threads; masks, broadcasts, segments, gathers and scatters. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define WIDE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"), noinline))

struct state {
    uint64_t z[32][8];
    uint64_t k[8];
};

static uint64_t mix(uint64_t seed) {
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
    return seed ^ (seed >> 29);
}

static void fill(struct state *s, uint64_t seed) {
    size_t n;
    uint64_t *word = (uint64_t *)s;
    for (n = 0; n < sizeof *s / 8; n++) word[n] = mix(seed += 0x9e3779b97f4a7c15);
}

static uint64_t sum(const void *data, size_t bytes) {
    uint64_t total = 0;
    size_t n;
    for (n = 0; n < bytes / 8; n++) total = mix(total ^ ((const uint64_t *)data)[n]);
    return total;
}

#define EACH16(f, first) f(0, first) f(1, first) f(2, first) f(3, first) f(4, first) f(5, first) f(6, first) f(7, first) \
    f(8, first) f(9, first) f(10, first) f(11, first) f(12, first) f(13, first) f(14, first) f(15, first)
#define LOAD_LOW(n, _) "vmovups " #n "*64(%[from]), %%zmm" #n "\n"
#define STORE_LOW(n, _) "vmovups %%zmm" #n ", " #n "*64(%[to])\n"
#define HIGH_LOAD(n, m) "vmovups " #m "*64(%[from]), %%zmm" #m "\n"
#define HIGH_STORE(n, m) "vmovups %%zmm" #m ", " #m "*64(%[to])\n"
#define EACH_HIGH(f) f(0, 16) f(0, 17) f(0, 18) f(0, 19) f(0, 20) f(0, 21) f(0, 22) f(0, 23) f(0, 24) f(0, 25) f(0, 26) f(0, 27) \
    f(0, 28) f(0, 29) f(0, 30) f(0, 31)
#define EACH8(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define LOAD_K(n) "kmovq 2048+" #n "*8(%[from]), %%k" #n "\n"
#define STORE_K(n) "kmovq %%k" #n ", 2048+" #n "*8(%[to])\n"
#define LOADS EACH16(LOAD_LOW, 0) EACH_HIGH(HIGH_LOAD) EACH8(LOAD_K)
#define STORES EACH16(STORE_LOW, 0) EACH_HIGH(HIGH_STORE) EACH8(STORE_K)
#define CLOBBERED "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
    "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", \
    "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "memory", "cc"

/* A system call of the given number with small arguments, and a `cpuid`, between loads and stores of everything. */
WIDE static void round_trip(const struct state *from, struct state *to, long number, long a, long b, long c) {
    register long rax __asm__("rax") = number;
    register long rdi __asm__("rdi") = a;
    register long rsi __asm__("rsi") = b;
    register long rdx __asm__("rdx") = c;
    register const struct state *r8 __asm__("r8") = from;
    register struct state *r9 __asm__("r9") = to;
    __asm__ volatile(LOADS "syscall\nxor %%eax, %%eax\ncpuid\n" STORES
                     : "+a"(rax), "+D"(rdi), "+S"(rsi), "+d"(rdx)
                     : [from] "r"(r8), [to] "r"(r9)
                     : "rbx", "rcx", "r11", CLOBBERED);
}

static void report(const char *name, const struct state *from, const struct state *to) {
    printf("%s: %s %016llx\n", name, memcmp(from, to, sizeof *from) ? "differs" : "same", (unsigned long long)sum(to, sizeof *to));
}

static struct state seen, replacement;
static int offsets[8];

/* Reads the registers of a frame and gives the program others. */
static void exchange(int signal, siginfo_t *info, void *context) {
    uint8_t *image = (uint8_t *)((ucontext_t *)context)->uc_mcontext.fpregs;
    int n;
    (void)signal, (void)info;
    for (n = 0; n < 16; n++) {
        memcpy(&seen.z[n][0], image + 160 + 16 * n, 16);
        memcpy(&seen.z[n][2], image + offsets[2] + 16 * n, 16);
        memcpy(&seen.z[n][4], image + offsets[6] + 32 * n, 32);
        memcpy(&seen.z[16 + n], image + offsets[7] + 64 * n, 64);
        memcpy(image + 160 + 16 * n, &replacement.z[n][0], 16);
        memcpy(image + offsets[2] + 16 * n, &replacement.z[n][2], 16);
        memcpy(image + offsets[6] + 32 * n, &replacement.z[n][4], 32);
        memcpy(image + offsets[7] + 64 * n, &replacement.z[16 + n], 64);
    }
    memcpy(seen.k, image + offsets[5], 64);
    memcpy(image + offsets[5], replacement.k, 64);
}

static void signals(void) {
    struct sigaction action;
    struct state from, to;
    int n;
    for (n = 2; n < 8; n++) {
        unsigned a, b, c, d;
        __cpuid_count(0xd, n, a, b, c, d);
        offsets[n] = (int)b;
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = exchange;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, 0);
    fill(&from, 5);
    fill(&replacement, 6);
    memset(&seen, 0, sizeof seen);
    round_trip(&from, &to, SYS_tgkill, getpid(), (long)syscall(SYS_gettid), SIGUSR1);
    report("frame", &from, &seen);
    report("after sigreturn", &replacement, &to);
}

static char *edge;

static void grant(int signal, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    (void)signal;
    printf("fault at the edge%+ld, rcx %lld\n", (long)((char *)info->si_addr - edge), (long long)u->uc_mcontext.gregs[REG_RCX]);
    mprotect(edge, 4096, PROT_READ | PROT_WRITE);
}

static void take_back(void) { mprotect(edge, 4096, PROT_NONE); }

WIDE static void faults(void) {
    struct sigaction action;
    double result[8], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t where[8] = {-8, -16, 0, 8, -24, 16, -32, 24};
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t mask, n;
    edge = pages + 4096;
    for (n = 0; n < 1024; n++) ((double *)pages)[n] = 1 + (double)n / 8;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = grant;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    /* Only elements before the edge are loaded, stored and used. */
    take_back();
    _mm512_storeu_pd(result, _mm512_maskz_loadu_pd(7, edge - 24));
    _mm512_mask_storeu_pd(edge - 16, 3, _mm512_set1_pd(-3));
    printf("masked: %016llx %g\n", (unsigned long long)sum(result, sizeof result), ((double *)edge)[-1]);
    __asm__ volatile("vmovups %[ones], %%zmm18\nmov $5, %%ecx\nkmovw %%ecx, %%k1\nvaddpd -24(%[edge]), %%zmm18, %%zmm18%{%%k1%}\n"
                     "vmovups %%zmm18, %[result]\n"
                     : [result] "=m"(result)
                     : [edge] "r"(edge), [ones] "m"(ones)
                     : "rcx", CLOBBERED);
    printf("masked addition: %016llx\n", (unsigned long long)sum(result, sizeof result));
    /* One element more. */
    __asm__ volatile("mov $15, %%ecx\nkmovw %%ecx, %%k1\nvmovupd -24(%[edge]), %%zmm18%{%%k1%}%{z%}\nvmovups %%zmm18, %[result]\n"
                     : [result] "=m"(result)
                     : [edge] "r"(edge)
                     : "rcx", CLOBBERED);
    printf("load: %016llx\n", (unsigned long long)sum(result, sizeof result));
    take_back();
    mask = 0xff;
    __asm__ volatile("kmovq %[mask], %%k3\nvmovups %[where], %%zmm17\nvmovups %[ones], %%zmm18\nmov $77, %%ecx\n"
                     "vgatherqpd (%[edge],%%zmm17,1), %%zmm18%{%%k3%}\nvmovups %%zmm18, %[result]\nkmovq %%k3, %[mask]\n"
                     : [mask] "+r"(mask), [result] "=m"(result)
                     : [edge] "r"(edge), [where] "m"(where), [ones] "m"(ones)
                     : "rcx", CLOBBERED);
    printf("gather: %016llx %llx\n", (unsigned long long)sum(result, sizeof result), (unsigned long long)mask);
    take_back();
    mask = 0xee;
    __asm__ volatile("kmovq %[mask], %%k3\nvmovups %[where], %%zmm17\nvmovups %[result], %%zmm18\nmov $78, %%ecx\n"
                     "vscatterqpd %%zmm18, (%[edge],%%zmm17,1)%{%%k3%}\nkmovq %%k3, %[mask]\n"
                     : [mask] "+r"(mask)
                     : [edge] "r"(edge), [where] "m"(where), [result] "m"(result)
                     : "rcx", CLOBBERED);
    printf("scatter: %016llx %llx\n", (unsigned long long)sum(pages, 8192), (unsigned long long)mask);
    signal(SIGSEGV, SIG_DFL);
}

static volatile sig_atomic_t arrived;

static void exchange_and_grant(int signal, siginfo_t *info, void *context) {
    exchange(signal, info, context);
    mprotect(edge, 4096, PROT_READ | PROT_WRITE);
    arrived = 1;
}

/* Blocks without any AVX-512 instruction, while the registers hold values: a fault there, a signal there, and flags across their borders. */
WIDE static void beside_older_code(void) {
    struct sigaction action;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    struct state from, to;
    uint64_t flags, sums[2] = {0, 0};
    memset(&action, 0, sizeof action);
    action.sa_sigaction = exchange_and_grant;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGALRM, &action, 0);
    fill(&from, 11);
    fill(&replacement, 12);
    take_back();
    __asm__ volatile(LOADS "jmp 1f\n1: addsd %%xmm1, %%xmm0\nmovl (%[edge]), %%eax\njmp 2f\n2: mulsd %%xmm0, %%xmm0\njmp 3f\n3:\n" STORES
                     :
                     : [from] "r"(&from), [to] "r"(&to), [edge] "r"(edge)
                     : "rax", CLOBBERED);
    printf("fault beside older code: %016llx %016llx\n", (unsigned long long)sum(seen.z[16], 1024), (unsigned long long)sum(seen.k, 64));
    printf("after it: %d %d\n", memcmp(to.z[16], replacement.z[16], 1024), memcmp(to.k, replacement.k, 64));
    arrived = 0;
    fill(&replacement, 13);
    setitimer(ITIMER_REAL, &soon, 0);
    __asm__ volatile(LOADS "1: addsd %%xmm1, %%xmm0\ncmpl $0, %[arrived]\nje 1b\njmp 2f\n2:\n" STORES
                     :
                     : [from] "r"(&from), [to] "r"(&to), [arrived] "m"(arrived)
                     : CLOBBERED);
    report("signal beside older code", &from, &seen);
    printf("after it: %d %d\n", memcmp(to.z[16], replacement.z[16], 1024), memcmp(to.k, replacement.k, 64));
    __asm__ volatile(LOADS "mov $7, %%ecx\ncmp $9, %%ecx\njmp 1f\n1: mulsd %%xmm1, %%xmm0\nsetc %b[sum]\nrcl $1, %[sum]\njmp 2f\n"
                     "2: vmovq %%xmm17, %[other]\nadc $0, %[other]\nmov $5, %%ecx\nsub $6, %%ecx\njmp 3f\n3: vmovq %%xmm30, %%rcx\nadc %%rcx, %[other]\n"
                     "pushfq\npop %[flags]\n"
                     : [sum] "+r"(sums[0]), [other] "+r"(sums[1]), [flags] "=r"(flags)
                     : [from] "r"(&from)
                     : "rcx", CLOBBERED);
    printf("flags: %llx %llx %llx\n", (unsigned long long)sums[0], (unsigned long long)sums[1], (unsigned long long)flags & 0x8d5);
    signal(SIGSEGV, SIG_DFL);
}

static jmp_buf back;

/* `longjmp` leaves these registers alone. */
WIDE static void jump_back(void) {
    struct state from, to;
    volatile int turns = 0;
    fill(&from, 14);
    if (setjmp(back) < 3) {
        turns++;
        __asm__ volatile(LOADS : : [from] "r"(&from) : CLOBBERED);
        longjmp(back, turns);
    }
    __asm__ volatile(STORES : : [to] "r"(&to) : CLOBBERED);
    printf("longjmp: %d %d\n", memcmp(from.z[17], to.z[17], 960), memcmp(from.k, to.k, 64));
}

static __thread double local[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static const double constants[16] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6};

WIDE static void operands(void) {
    double result[8], data[32];
    int n;
    for (n = 0; n < 32; n++) data[n] = 1 + n / 16.0;
    local[3] = getpid() > 0 ? 4.5 : 0;
    __asm__ volatile("vmovups %[local], %%zmm20\nvaddpd %[local]%{1to8%}, %%zmm20, %%zmm20\nvmulpd 8+%[constants]%{1to8%}, %%zmm20, %%zmm21\n"
                     "vaddpd 64+%[constants], %%zmm21, %%zmm21\nvfmadd231pd 64(%[data]), %%zmm20, %%zmm21\nmov $3, %%ecx\nkmovw %%ecx, %%k2\n"
                     "vdivpd 8(%[data],%%rcx,8), %%zmm21, %%zmm20%{%%k2%}\nvsubpd %{rz-sae%}, %%zmm20, %%zmm21, %%zmm5%{%%k2%}%{z%}\n"
                     "vaddpd %%zmm5, %%zmm20, %%zmm5\nvmovups %%zmm5, %[result]\n"
                     : [result] "=m"(result)
                     : [local] "m"(local), [constants] "m"(constants), [data] "r"(data)
                     : "rcx", CLOBBERED);
    printf("operands: %016llx\n", (unsigned long long)sum(result, sizeof result));
}

/* The upper part of a register after a write of a lower one. */
WIDE static void upper(void) {
    struct state from, to;
    fill(&from, 9);
    __asm__ volatile(LOADS "vaddpd %%ymm1, %%ymm2, %%ymm3\nvmovsd %%xmm4, %%xmm5, %%xmm6\nmovapd %%xmm7, %%xmm8\nvpxord %%xmm17, %%xmm18, %%xmm19\n"
                     "vmovupd %%ymm20, %%ymm21%{%%k3%}\n" STORES
                     :
                     : [from] "r"(&from), [to] "r"(&to)
                     : CLOBBERED);
    printf("upper: %016llx\n", (unsigned long long)sum(&to, sizeof to));
    __asm__ volatile(LOADS "vzeroupper\nmov $39, %%eax\nsyscall\n" STORES : : [from] "r"(&from), [to] "r"(&to) : "rax", "rcx", "r11", CLOBBERED);
    printf("vzeroupper: %016llx\n", (unsigned long long)sum(&to, sizeof to));
}

static void *worker(void *argument) {
    struct state from, to;
    uintptr_t bad = 0;
    int round;
    fill(&from, (uint64_t)(uintptr_t)argument);
    for (round = 0; round < 200; round++) {
        round_trip(&from, &to, SYS_sched_yield, 0, 0, 0);
        bad += memcmp(&from, &to, sizeof to) != 0;
    }
    return (void *)bad;
}

int main(void) {
    struct state from, to;
    pthread_t threads[4];
    uintptr_t n;
    fill(&from, 1);
    round_trip(&from, &to, SYS_getppid, 0, 0, 0);
    report("system call", &from, &to);
    operands();
    upper();
    signals();
    fflush(stdout);
    faults();
    beside_older_code();
    jump_back();
    fflush(stdout);
    for (n = 0; n < 4; n++) pthread_create(&threads[n], 0, worker, (void *)(n + 20));
    for (n = 0; n < 4; n++) {
        void *bad;
        pthread_join(threads[n], &bad);
        printf("thread: %d\n", (int)(uintptr_t)bad);
    }
    return 0;
}
