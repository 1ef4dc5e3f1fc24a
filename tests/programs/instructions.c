/* Instructions that an instrumentation engine gets wrong: flags, string instructions, red zone, jump tables, odd control flow. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t add_with_carry(const uint64_t *a, const uint64_t *b, uint64_t *sum, long n) {
    uint64_t carry = 0;
    long i = 0;
    __asm__ volatile("clc\n"
                     "1: mov (%[a],%[i],8), %%rax\n"
                     "adc (%[b],%[i],8), %%rax\n"
                     "mov %%rax, (%[s],%[i],8)\n"
                     "inc %[i]\n"
                     "dec %[n]\n"
                     "jnz 1b\n"
                     "setc %b[c]\n"
                     : [i] "+r"(i), [n] "+r"(n), [c] "+q"(carry)
                     : [a] "r"(a), [b] "r"(b), [s] "r"(sum)
                     : "rax", "memory", "cc");
    return carry;
}

static void flags(void) {
    uint64_t pushed, loaded = 0, two = 0;
    __asm__ volatile("mov $5, %%eax\ncmp $7, %%eax\npushf\npop %0\nlahf\nmovzbl %%ah, %%ecx\nmov %%rcx, %1" : "=&r"(pushed), "=r"(loaded) : : "rax", "rcx", "cc", "memory");
    printf("%llx %llx\n", (unsigned long long)(pushed & 0x8d5), (unsigned long long)loaded);
    __asm__ volatile("stc\nmov $1, %%ecx\nshl $0, %%ecx\nadc $0, %0\nmov $0, %%cl\nstc\nshl %%cl, %%edx\nadc $0, %0" : "+r"(two) : : "rcx", "rdx", "cc");
    printf("%llu\n", (unsigned long long)two);
    __asm__ volatile("mov $0x7f, %%al\nadd $1, %%al\nseto %b0\ncmc\nsbb %1, %1" : "+q"(loaded), "+r"(pushed) : : "rax", "cc");
    printf("%u %llx\n", (unsigned)(loaded & 0xff), (unsigned long long)pushed);
}

static void strings(void) {
    char from[64], to[64];
    uint64_t count = 20, left, zero = 0;
    const char *source = from;
    char *target = to;
    int i;
    for (i = 0; i < 64; i++) from[i] = (char)('A' + i % 26);
    memset(to, '.', sizeof to);
    __asm__ volatile("rep movsb" : "+c"(count), "+S"(source), "+D"(target) : : "memory");
    __asm__ volatile("rep movsq" : "+c"(zero), "+S"(source), "+D"(target) : : "memory");
    printf("%.64s %d %d\n", to, (int)(source - from), (int)(target - to));
    count = 7;
    source = from + 29;
    target = to + 63;
    __asm__ volatile("std\nrep movsb\ncld" : "+c"(count), "+S"(source), "+D"(target) : : "memory", "cc");
    printf("%.64s\n", to);
    count = 64;
    target = to;
    __asm__ volatile("repne scasb" : "+c"(count), "+D"(target) : "a"('F') : "memory", "cc");
    left = 3;
    source = from;
    __asm__ volatile("lodsb\nstosb\nrep stosb" : "+c"(left), "+S"(source), "+D"(target) : : "rax", "memory");
    printf("%d %.64s\n", (int)count, to);
}

static int table(int n) {
    switch (n) {
    case 0: return 11;
    case 1: return 7;
    case 2: return 5;
    case 3: return 3;
    case 4: return 2;
    case 5: return n * table(n - 1);
    case 6: return n + table(n - 2);
    case 7: return -table(n - 1);
    default: return n;
    }
}

static uint64_t red_zone(uint64_t a) {
    uint64_t result;
    __asm__ volatile("mov %1, -8(%%rsp)\nmov %1, -120(%%rsp)\naddq $3, -120(%%rsp)\nmov -8(%%rsp), %0\nimul -120(%%rsp), %0" : "=&r"(result) : "r"(a) : "memory", "cc");
    return result;
}

static int odd_calls(void) {
    int result = 0;
    /* A call whose return address is popped, a return that acts as a jump, and a jump into an instruction behind its prefix. */
    __asm__ volatile("call 1f\n1: pop %%rax\nlea 2f(%%rip), %%rax\npush %%rax\nret\nadd $100, %0\n2: add $1, %0\n"
                     "cmp $1, %0\nje 3f+1\n3: lock addl $10, (%1)\n"
                     : "+r"(result)
                     : "r"(&(int){5})
                     : "rax", "memory", "cc");
    return result;
}

static int computed_goto(const unsigned char *program) {
    static const void *const labels[] = {&&stop, &&increment, &&twice, &&back};
    int value = 0, loops = 0;
    const unsigned char *next = program;
    goto *labels[*next++];
increment:
    value++;
    goto *labels[*next++];
twice:
    value *= 2;
    goto *labels[*next++];
back:
    if (++loops < 10) next = program;
    goto *labels[*next++];
stop:
    return value;
}

int main(void) {
    static const uint64_t a[] = {~0ULL, ~0ULL, 5, 1ULL << 63}, b[] = {1, 0, 7, 1ULL << 63};
    uint64_t sum[4], loops = 0, high, low;
    int i;
    printf("%llu", (unsigned long long)add_with_carry(a, b, sum, 4));
    for (i = 0; i < 4; i++) printf(" %llx", (unsigned long long)sum[i]);
    putchar('\n');
    flags();
    strings();
    for (i = -1; i < 10; i++) printf("%d ", table(i));
    printf("%llu %d %d\n", (unsigned long long)red_zone(17), odd_calls(), computed_goto((const unsigned char *)"\1\2\1\3\0"));
    __asm__ volatile("mov $1000, %%ecx\n1: inc %0\nloop 1b\njrcxz 2f\nadd $1000, %0\n2:" : "+r"(loops) : : "rcx", "cc");
    __asm__ volatile("mulq %3" : "=a"(low), "=d"(high) : "0"(~0ULL), "r"(~0ULL) : "cc");
    printf("%llu %llx %llx\n", (unsigned long long)loops, (unsigned long long)low, (unsigned long long)high);
    __asm__ volatile("xor %%eax, %%eax\ncpuid\nmov %%rbx, %0" : "=r"(low) : : "rax", "rbx", "rcx", "rdx");
    printf("%d %d\n", low != 0, __builtin_popcountll(0xf0f0f0f0f0f0f0f0) + __builtin_clzll(1) + __builtin_ctzll(1ULL << 40));
    __asm__ volatile("push $-2\npop %0\nenter $32, $0\nmovq $7, -8(%%rbp)\nleave\nbswap %0\nxchg %0, %1" : "=&r"(low), "+r"(high) : : "memory");
    printf("%llx %llx\n", (unsigned long long)low, (unsigned long long)high);
    return 0;
}
