//! Values on their way through memory: copies, structures, unions, the heap, argument lists.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("memcpy", &[1.5, -0.75, 2.5], "REAL t[3]; memcpy(t, x, sizeof t); return t[0] * t[1] + t[2];", |x| vec![x[1], x[0], 1.0]),
        formula(
            "memcpy_large",
            &[1.5, -0.75],
            "REAL s[1000], t[1000]; int i; REAL y = 0; for (i = 0; i < 1000; i++) s[i] = x[i % 2];
             COPY(t, s, sizeof t); for (i = 0; i < 1000; i++) y += t[i] * (i < 10 ? 1 : 0); return y;",
            |_| vec![5.0, 5.0],
        )
        .with("static void *(*volatile COPY)(void *, const void *, size_t) = memcpy;"),
        formula(
            "memcpy_each_size",
            &[1.5, -0.75],
            "REAL s[40], t[40], y = 0; int n, i; for (n = 1; n <= 40; n++) { for (i = 0; i < 40; i++) { s[i] = x[i % 2]; t[i] = 0; }
             COPY_EACH(t, s, n * sizeof *t); y += t[n - 1] + (n < 40 ? t[n] : 0); } return y;",
            |_| vec![20.0, 20.0],
        )
        .with("static void *(*volatile COPY_EACH)(void *, const void *, size_t) = memcpy;"),
        formula(
            "bytes_through_static_memory",
            &[1.5, -0.75],
            "return through_static(x[0], 0) * through_static(x[1], 0) * x[0];",
            |x| vec![2.0 * x[0] * x[1], x[0] * x[0]],
        )
        .with(
            "static volatile unsigned char STATIC_BYTES[16]; static __thread volatile unsigned char THREAD_BYTES[16];
             static NOINLINE REAL through_static(REAL a, int i) {
                volatile union { REAL r; unsigned char c[16]; } u; u.r = a;
                #define THERE(k) STATIC_BYTES[k] = u.c[k]; THREAD_BYTES[k] = STATIC_BYTES[k];
                #define BACK(k) u.c[k] = THREAD_BYTES[k];
                THERE(0) THERE(1) THERE(2) THERE(3) BACK(0) BACK(1) BACK(2) BACK(3)
                #if REAL_BYTES > 4
                THERE(4) THERE(5) THERE(6) THERE(7) BACK(4) BACK(5) BACK(6) BACK(7)
                #endif
                #if REAL_BYTES > 8
                THERE(8) THERE(9) BACK(8) BACK(9)
                #endif
                return u.r; }",
        ),
        formula(
            "memcpy_unaligned",
            &[1.5, -0.75],
            "char buffer[64]; REAL y[2]; int i, k; REAL s = 0; for (k = 1; k < 32; k += 5) { volatile char *p = buffer + k;
             memcpy((char *)p, x, 2 * sizeof(REAL)); for (i = 0; i < 2; i++) memcpy(&y[i], (char *)p + i * sizeof(REAL), sizeof(REAL)); s += y[0] * y[1]; }
             return s;",
            |x| vec![7.0 * x[1], 7.0 * x[0]],
        ),
        formula("memmove_up", &[1.5, -0.75, 2.5], "REAL t[5]; memcpy(t, x, 3 * sizeof *t); MOVE_UP(t + 1, t, 3 * sizeof *t); return t[1] * t[2] * t[3];", |x| {
            vec![x[1] * x[2], x[0] * x[2], x[0] * x[1]]
        })
        .with("static void *(*volatile MOVE_UP)(void *, const void *, size_t) = memmove;"),
        formula("memmove_down", &[1.5, -0.75, 2.5], "REAL t[5]; memcpy(t + 1, x, 3 * sizeof *t); MOVE_DOWN(t, t + 1, 3 * sizeof *t); return t[0] * t[1] * t[2];", |x| {
            vec![x[1] * x[2], x[0] * x[2], x[0] * x[1]]
        })
        .with("static void *(*volatile MOVE_DOWN)(void *, const void *, size_t) = memmove;"),
        formula(
            "fault_between_operations",
            &[1.5, -0.75],
            "struct sigaction opening, before; REAL y; memset(&opening, 0, sizeof opening); opening.sa_handler = open_page;
             CLOSED = (char *)mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); sigaction(SIGSEGV, &opening, &before);
             y = through_fault(x[0], x[1], (volatile REAL *)CLOSED); sigaction(SIGSEGV, &before, 0); munmap(CLOSED, 4096); return y;",
            |x| vec![2.0 * x[0] * x[1] * (x[1] + 1.0) - 1.0, x[0] * x[0] * (2.0 * x[1] + 1.0)],
        )
        .with(
            "#include <signal.h>
             #include <sys/mman.h>
             static char *CLOSED;
             static void open_page(int signal) { (void)signal; mprotect(CLOSED, 4096, PROT_READ | PROT_WRITE); }
             static NOINLINE REAL through_fault(REAL u, REAL v, volatile REAL *p) {
                 REAL a = u * v, b = a + u; p[0] = b * a; return p[0] + (a - b); }",
        ),
        formula("memset_clears", &[1.5, -0.75], "REAL t[20]; int i; for (i = 0; i < 20; i++) t[i] = x[0] * i; SET(t, 0, sizeof t); return t[0] + t[19] + x[0] * x[1];", |x| {
            vec![x[1], x[0]]
        })
        .with("static void *(*volatile SET)(void *, int, size_t) = memset;"),
        formula("bytewise_copy", &[1.5, -0.75], "REAL y; bytes(&y, &x[0], sizeof y); return y * x[1];", |x| vec![x[1], x[0]]).with(
            "static void bytes(void *to, const void *from, size_t n) { volatile unsigned char *t = to; const volatile unsigned char *f = from;
                while (n--) *t++ = *f++; }",
        ),
        formula("bytewise_copy_in_memory", &[1.5, -0.75], "REAL y; each_byte(&y, &x[0], sizeof y); return y * x[1];", |x| {
            vec![x[1], x[0]]
        })
        .with(
            "static NOINLINE void each_byte(void *to, const void *from, size_t n) { volatile unsigned char *t = to; const volatile unsigned char *f = from;
                while (n--) *t++ = *f++; }",
        ),
        formula("union_through_integer", &[1.5, -0.75], "union { REAL r; BITS b; } u, v; volatile BITS carried; u.r = x[0]; carried = u.b; v.b = carried; return v.r * x[1];", |x| {
            vec![x[1], x[0]]
        }),
        formula("integer_array_copy", &[1.5, -0.75], "volatile BITS b[2]; BITS c; REAL r[2]; int i; for (i = 0; i < 2; i++) { memcpy(&c, &x[i], sizeof c); b[1 - i] = c; }
             for (i = 0; i < 2; i++) { c = b[i]; memcpy(&r[i], &c, sizeof c); } return r[0] * r[0] + r[1];", |x| vec![1.0, 2.0 * x[1]]),
        formula("struct_of_two", &[1.5, -0.75], "struct two s; s.a = x[0]; s.b = x[1]; s = swap_two(s); return s.a * s.a + s.b;", |x| vec![1.0, 2.0 * x[1]])
            .with("struct two { REAL a, b; }; static NOINLINE struct two swap_two(struct two s) { struct two r; r.a = s.b; r.b = s.a; return r; }"),
        formula(
            "struct_of_six",
            &[1.5, -0.75, 2.5, 0.5, 3.0, -1.0],
            "struct six s; memcpy(s.v, x, sizeof s.v); return weigh(reverse(s));",
            |_| vec![6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
        )
        .with(
            "struct six { REAL v[6]; };
             static NOINLINE struct six reverse(struct six s) { struct six r; int i; for (i = 0; i < 6; i++) r.v[i] = s.v[5 - i]; return r; }
             static NOINLINE REAL weigh(struct six s) { REAL y = 0; int i; for (i = 0; i < 6; i++) y += (i + 1) * s.v[i]; return y; }",
        ),
        formula("struct_mixed", &[1.5, -0.75], "struct mixed s; s.i = 3; s.r = x[0]; s.c = 'c'; s.q = x[1]; return use_mixed(s);", |x| vec![3.0 * x[1], 3.0 * x[0]])
            .with("struct mixed { int i; REAL r; char c; REAL q; }; static NOINLINE REAL use_mixed(struct mixed s) { return s.i * s.r * s.q; }"),
        formula("varargs", &[1.5, -0.75, 2.5], "return (REAL)weighted(3, (double)x[0], (double)x[1], (double)x[2]);", |_| vec![1.0, 2.0, 3.0])
            .with("static NOINLINE double weighted(int n, ...) { va_list l; double y = 0; int i; va_start(l, n); for (i = 1; i <= n; i++) y += i * va_arg(l, double); va_end(l); return y; }"),
        formula(
            "varargs_on_stack",
            &[1.5, -0.75],
            "return (REAL)many(12, (double)x[0], 1., 2., 3., 4., 5., 6., 7., 8., 9., (double)x[1], (double)x[0]);",
            |_| vec![13.0, 11.0],
        )
        .with("static NOINLINE double many(int n, ...) { va_list l; double y = 0; int i; va_start(l, n); for (i = 1; i <= n; i++) y += i * va_arg(l, double); va_end(l); return y; }"),
        formula("ten_arguments", &[1.5, -0.75], "return ten(x[0], 1, 2, 3, 4, 5, 6, 7, x[1], x[0]);", |x| vec![x[1] + 1.0, x[0]])
            .with("static NOINLINE REAL ten(REAL a, REAL b, REAL c, REAL d, REAL e, REAL f, REAL g, REAL h, REAL i, REAL j) { return a * i + j + 0 * (b + c + d + e + f + g + h); }"),
        formula("qsort", &[1.5, -0.75, 2.5, 0.5], "REAL t[4]; memcpy(t, x, sizeof t); qsort(t, 4, sizeof *t, by_value); return t[0] + 10 * t[1] + 100 * t[2] + 1000 * t[3];", |_| {
            vec![100.0, 1.0, 1000.0, 10.0]
        })
        .with("static int by_value(const void *a, const void *b) { REAL p = *(const REAL *)a, q = *(const REAL *)b; return (p > q) - (p < q); }"),
        formula(
            "qsort_of_structs",
            &[1.5, -0.75, 2.5],
            "struct item t[3]; int i; for (i = 0; i < 3; i++) { t[i].key = (7 * (i + 1)) % 5; t[i].value = x[i]; } qsort(t, 3, sizeof *t, by_key);
             return t[0].value + 10 * t[1].value + 100 * t[2].value;",
            |_| vec![10.0, 100.0, 1.0],
        )
        .with("struct item { int key; REAL value; char pad[20]; }; static int by_key(const void *a, const void *b) { return ((const struct item *)a)->key - ((const struct item *)b)->key; }"),
        formula("static_array", &[1.5, -0.75], "static REAL kept[4]; kept[1] = x[0]; kept[3] = x[1]; return kept[1] * kept[3] + kept[0];", |x| vec![x[1], x[0]]),
        formula("global", &[1.5, -0.75], "set_global(x[0]); return global_value * x[1];", |x| vec![x[1], x[0]])
            .with("REAL global_value; static NOINLINE void set_global(REAL a) { global_value = a; }"),
        formula("heap", &[1.5, -0.75], "REAL *p = malloc(2 * sizeof *p), y; p[0] = x[0]; p[1] = x[1]; y = p[0] * p[1]; free(p); return y;", |x| vec![x[1], x[0]]),
        formula("calloc_is_passive", &[1.5, -0.75], "REAL *p = malloc(64 * sizeof *p), *q, y; int i; for (i = 0; i < 64; i++) p[i] = x[0]; free(p); q = calloc(64, sizeof *q);
             y = x[0] * x[1]; for (i = 0; i < 64; i++) y += q[i]; free(q); return y;", |x| vec![x[1], x[0]]),
        formula(
            "realloc_growth",
            &[1.5, -0.75],
            "REAL *p = 0, y = 0; int i; for (i = 0; i < 100000; i++) { if ((i & (i - 1)) == 0) p = realloc(p, 2 * (i + 1) * sizeof *p); p[i] = x[i & 1]; }
             y = p[0] * p[99999] + p[65536] + p[5]; free(p); return y;",
            |x| vec![x[1] + 1.0, x[0] + 1.0],
        ),
        formula("linked_list", &[1.5, -0.75, 2.5], "struct node n[3]; struct node *p; REAL y = 1; int i; for (i = 0; i < 3; i++) { n[i].value = x[i]; n[i].next = i < 2 ? &n[i + 1] : 0; }
             for (p = n; p; p = p->next) y *= p->value; return y;", |x| vec![x[1] * x[2], x[0] * x[2], x[0] * x[1]])
            .with("struct node { struct node *next; REAL value; };"),
        formula("swap_by_pointers", &[1.5, -0.75], "exchange(&x[0], &x[1]); return x[0] * x[0] + x[1];", |x| vec![1.0, 2.0 * x[1]])
            .with("static NOINLINE void exchange(REAL *a, REAL *b) { REAL t = *a; *a = *b; *b = t; }"),
        formula("variable_length_array", &[1.5, -0.75], "return in_vla(x, 37);", |x| vec![37.0 * x[1], 37.0 * x[0]])
            .with("static NOINLINE REAL in_vla(const REAL *x, int n) { REAL t[n], y = 0; int i; for (i = 0; i < n; i++) t[i] = x[0] * x[1]; for (i = 0; i < n; i++) y += t[i]; return y; }"),
    ]
}
