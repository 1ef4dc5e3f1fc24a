/* A little of everything, in one thread: vector arithmetic, strings, calls, files, memory, a signal. */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static void note(int number) { signals += number; }

__attribute__((noinline)) unsigned marked(void) { return 0x5eed; }

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static unsigned long long counter(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (unsigned long long)high << 32 | low;
}

/* Two views of the same memory. */
static int two_views(void) {
    int file = memfd_create("views", 0);
    if (file < 0 || ftruncate(file, 4096) != 0) return -1;
    char *one = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *two = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    strcpy(one, "seen");
    return strcmp(two, "seen");
}

int main(int count, char **arguments) {
    double numbers[50];
    char text[200], copy[200];
    FILE *self = fopen(arguments[0], "rb");
    size_t bytes = fread(copy, 1, 100, self);
    int i;

    fclose(self);
    for (i = 0; i < 50; i++) numbers[i] = sin(i * count);
    qsort(numbers, 50, sizeof numbers[0], ascending);
    __m128d sum = _mm_setzero_pd();
    for (i = 0; i < 50; i += 2) sum = _mm_add_pd(sum, _mm_sqrt_pd(_mm_add_pd(_mm_set1_pd(1), _mm_loadu_pd(numbers + i))));
    _mm_storeu_pd(numbers, sum);
    printf("%.17g %zu %x\n", numbers[0] + numbers[1], bytes, marked());

    memset(text, 'x', 199);
    text[199] = 0;
    __asm__ volatile("rep movsb" : : "D"(copy), "S"(text), "c"(200) : "memory");
    printf("%d %zu %d\n", strcmp(text, copy), strlen(copy), two_views());

    char *block = malloc(1 << 20);
    block = realloc(block, 3 << 20);
    printf("%d\n", block[(3 << 20) - 1] + (counter() > 1) + (time(0) > 1));
    free(block);

    signal(SIGUSR1, note);
    raise(SIGUSR1);
    printf("%d\n", (int)signals);
    long double wide = 1;
    for (i = 1; i < 20; i++) wide *= i;
    printf("%Lg %d\n", wide, getpid() > 1);
    return 3;
}
