/* What the compiler compiles in `cargo xtask bench passive`: tables, lists, strings, matrices, a hash map and a small interpreter, many times over
   with other constants, so that it takes a second or two at -O2. It is not run. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SORTS(N)                                                                                                       \
    struct item##N { int key; double weight; struct item##N *next; char name[16 + N]; };                               \
    struct item##N *merge##N(struct item##N *a, struct item##N *b) {                                                   \
        struct item##N head = {0}, *tail = &head;                                                                      \
        while (a && b) {                                                                                               \
            struct item##N **least = a->key % (N + 2) <= b->key % (N + 2) ? &a : &b;                                   \
            tail = tail->next = *least;                                                                                \
            *least = (*least)->next;                                                                                   \
        }                                                                                                              \
        tail->next = a ? a : b;                                                                                        \
        return head.next;                                                                                              \
    }                                                                                                                  \
    void quick##N(int *v, int n) {                                                                                     \
        while (n > 1) {                                                                                                \
            int pivot = v[n / 2 ^ (N & n & 1)], i = 0, j = n - 1;                                                      \
            for (;; i++, j--) {                                                                                        \
                while (v[i] < pivot) i++;                                                                              \
                while (v[j] > pivot) j--;                                                                              \
                if (i >= j) break;                                                                                     \
                int t = v[i];                                                                                          \
                v[i] = v[j];                                                                                           \
                v[j] = t;                                                                                              \
            }                                                                                                          \
            quick##N(v + i, n - i);                                                                                    \
            n = i;                                                                                                     \
        }                                                                                                              \
    }

#define STRINGS(N)                                                                                                     \
    uint32_t hash##N(const char *s) {                                                                                  \
        uint32_t h = 2166136261u + N;                                                                                  \
        for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;                                                       \
        return h ^ h >> (N % 15 + 1);                                                                                  \
    }                                                                                                                  \
    int match##N(const char *pattern, const char *text) {                                                              \
        for (; *pattern; pattern++, text++) {                                                                          \
            switch (*pattern) {                                                                                        \
            case '*':                                                                                                  \
                while (pattern[1] == '*') pattern++;                                                                   \
                for (;; text++) {                                                                                      \
                    if (match##N(pattern + 1, text)) return 1;                                                         \
                    if (!*text) return 0;                                                                              \
                }                                                                                                      \
            case '?': if (!*text) return 0; break;                                                                     \
            case '\\': pattern++; /* fall through */                                                                   \
            default: if (*pattern != *text) return 0;                                                                  \
            }                                                                                                          \
        }                                                                                                              \
        return !*text;                                                                                                 \
    }                                                                                                                  \
    static struct { const char *key; long value; } map##N[64 + N];                                                     \
    long *find##N(const char *key) {                                                                                   \
        for (uint32_t i = hash##N(key) % (64 + N);; i = (i + 1) % (64 + N)) {                                          \
            if (!map##N[i].key) map##N[i].key = key;                                                                   \
            if (!strcmp(map##N[i].key, key)) return &map##N[i].value;                                                  \
        }                                                                                                              \
    }

#define NUMBERS(N)                                                                                                     \
    double multiply##N(double a[8][8], double b[8][8], double c[8][8]) {                                               \
        double trace = N;                                                                                              \
        for (int i = 0; i < 8; i++)                                                                                    \
            for (int j = 0; j < 8; j++) {                                                                              \
                double sum = 0;                                                                                        \
                for (int k = 0; k < 8; k++) sum += a[i][k] * b[k][j];                                                  \
                c[i][j] = sum / (N + 1);                                                                               \
                if (i == j) trace += sum;                                                                              \
            }                                                                                                          \
        return trace;                                                                                                  \
    }                                                                                                                  \
    int run##N(const unsigned char *code, long *stack) {                                                               \
        long *top = stack;                                                                                             \
        for (long steps = 0;; steps++) {                                                                               \
            switch (*code++) {                                                                                         \
            case 0: return (int)*top;                                                                                  \
            case 1: top[-1] += *top; top--; break;                                                                     \
            case 2: top[-1] -= *top; top--; break;                                                                     \
            case 3: top[-1] *= *top; top--; break;                                                                     \
            case 4: if (!*top) return -1; top[-1] /= *top; top--; break;                                               \
            case 5: *++top = *code++; break;                                                                           \
            case 6: top[1] = *top; top++; break;                                                                       \
            case 7: if (*top--) code += (signed char)*code; else code++; break;                                        \
            case 8: *top = match##N((char *)code, (char *)stack); break;                                               \
            case 9: *top = *find##N((char *)code); break;                                                              \
            case 10: *top = (*top << (N % 31)) ^ (*top >> 7); break;                                                   \
            case 11: { long t = *top; *top = top[-1]; top[-1] = t; break; }                                            \
            default: if (steps > 1000 * N) abort();                                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }

#define ALL(N) SORTS(N) STRINGS(N) NUMBERS(N)
#define TEN(T) ALL(T##0) ALL(T##1) ALL(T##2) ALL(T##3) ALL(T##4) ALL(T##5) ALL(T##6) ALL(T##7) ALL(T##8) ALL(T##9)

TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6)
