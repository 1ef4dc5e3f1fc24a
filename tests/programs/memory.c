/* The stack in depth, alloca, brk, mmap in its variants, mremap, mprotect, large and many allocations. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static long deep(int depth) {
    char pad[4000];
    memset(pad, depth & 127, sizeof pad);
    return depth == 0 ? pad[17] : deep(depth - 1) + pad[depth % 4000];
}

static long on_stack(size_t bytes) {
    unsigned char *block = alloca(bytes);
    size_t i;
    long sum = 0;
    for (i = 0; i < bytes; i += 100) block[i] = (unsigned char)i;
    for (i = 0; i < bytes; i += 100) sum += block[i];
    return sum;
}

int main(void) {
    const size_t page = 4096;
    char *start, *block, *moved, *fixed;
    long sum = 0;
    int i;
    char **many = malloc(10000 * sizeof *many);

    printf("%ld %ld\n", deep(1500), on_stack(6000000));
    /* The heap of malloc lies below: what is added from here on is ours. */
    start = sbrk(0);
    printf("%d", sbrk(100000) == start);
    memset(start, 7, 100000);
    printf(" %d", (int)((char *)sbrk(0) - start));
    sbrk(-50000);
    printf(" %d %d\n", (int)((char *)sbrk(0) - start), start[49999]);

    block = mmap(0, 10 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 'b', 10 * page);
    moved = mremap(block, 10 * page, 5000 * page, MREMAP_MAYMOVE);
    printf("%c %d\n", moved[10 * page - 1], moved[10 * page]);
    moved = mremap(moved, 5000 * page, 2 * page, 0);
    printf("%c\n", moved[2 * page - 1]);
    munmap(moved, 2 * page);

    block = mmap(0, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fixed = mmap(block + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("%d %d\n", fixed == block + page, fixed[0]);
    errno = 0;
    printf("%d", mmap(block + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    printf(" %s\n", strerror(errno));
    printf("%d", mprotect((void *)1, page, PROT_READ));
    printf(" %s\n", strerror(errno));
    printf("%d\n", mmap(0, (size_t)1 << 60, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    block = mmap(0, (size_t)1 << 34, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block[(size_t)1 << 33] = 1;
    madvise(block, (size_t)1 << 34, MADV_DONTNEED);
    printf("%d\n", block[(size_t)1 << 33]);
    munmap(block, (size_t)1 << 34);

    for (i = 0; i < 10000; i++) {
        many[i] = malloc((size_t)(i % 300) * (i % 7 == 0 ? 1000 : 1) + 1);
        many[i][0] = (char)i;
    }
    for (i = 0; i < 10000; i += 2) free(many[i]);
    for (i = 0; i < 10000; i += 2) many[i] = calloc(1, (size_t)(i % 500) + 1);
    for (i = 0; i < 10000; i++) sum += many[i][0];
    printf("%ld\n", sum);
    return 0;
}
