/* Numbers of which bytes are replaced in memory and in registers, in forward mode. Prints what has a wrong dot value. */
#include <derivgrind.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static uint64_t state = 88172645463325252u;

static uint64_t drawn(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* Often one with few bits: most bytes of a dot value are zeros then. */
static double number(void) {
  static const double few[] = {1, 2, 3, 1.5, -2, 0.5, 4, -0.75, 1024, 0.1, 0.3, -7.7};
  uint64_t r = drawn();
  return r % 3 ? few[(r >> 8) % 12] : (double)(int64_t)drawn() / (double)(1ull << (40 + r % 20));
}

/* In which order the pieces of a number are copied: from the lowest one up, from the highest one down, or any. */
enum order { UP, DOWN, ANY, ORDERS };

static void draw_order(enum order order, int count, int *places) {
  for (int i = 0; i < count; i++) places[i] = order == DOWN ? count - 1 - i : i;
  for (int i = count - 1; order == ANY && i > 0; i--) {
    int j = (int)(drawn() % (unsigned)(i + 1)), place = places[i];
    places[i] = places[j];
    places[j] = place;
  }
}

static int wrong;

static void expect(const char *what, long double value, int same, long double dot, long double expected) {
  if (!same && wrong++ < 10) printf("%s: %La has the dot value %La, expected %La\n", what, value, dot, expected);
}

/* Copies a number, active or not, over another one in pieces of one or two bytes. */
#define COPIES(NAME, REAL, BYTES)                                                                                       \
  static NOINLINE void NAME(enum order order, int piece) {                                                              \
    static union { REAL r; unsigned char c[sizeof(REAL)]; } target, source;                                             \
    REAL dot, old_dot, came = 0;                                                                                          \
    int places[BYTES];                                                                                                  \
    memset(&dot, 0, sizeof dot);                                                                                        \
    memset(&old_dot, 0, sizeof old_dot);                                                                                \
    dot = drawn() % 3 ? (REAL)number() : 0;                                                                             \
    old_dot = drawn() % 4 ? (REAL)number() : 0;                                                                         \
    target.r = (REAL)number() / 3;                                                                                      \
    source.r = drawn() % 2 ? target.r : (REAL)number();                                                                 \
    DG_SET_DOTVALUE(&target, &old_dot, sizeof(REAL));                                                                   \
    DG_SET_DOTVALUE(&source, &dot, sizeof(REAL));                                                                       \
    draw_order(order, BYTES / piece, places);                                                                           \
    for (int i = 0; i < BYTES / piece; i++) {                                                                           \
      volatile unsigned char *to = target.c + piece * places[i];                                                        \
      const volatile unsigned char *from = source.c + piece * places[i];                                                \
      if (piece == 1) *to = *from;                                                                                      \
      else *(volatile uint16_t *)to = *(const volatile uint16_t *)from;                                                 \
    }                                                                                                                   \
    DG_GET_DOTVALUE(&target, &came, sizeof(REAL));                                                                      \
    expect(#NAME, source.r, memcmp(&came, &dot, BYTES) == 0, came, dot);                                                \
    /* What has been copied is a number like others. */                                                                 \
    ((volatile unsigned char *)target.c)[BYTES - 1] = source.r < 0 ? 0x40 : 0xc0;                                       \
    DG_GET_DOTVALUE(&target, &came, sizeof(REAL));                                                                      \
    expect(#NAME ", changed", target.r, came == dot * (target.r / source.r), came, dot * (target.r / source.r));         \
  }

COPIES(copies_of_float, float, 4)
COPIES(copies_of_double, double, 8)
COPIES(copies_of_long_double, long double, 10)

/* Puts constants in place of sign and exponent of 3.1 with a drawn dot value. */
#define CONSTANTS(NAME, REAL, BYTES, LOWER, UPPER, FACTOR, VOLATILE)                                                    \
  static NOINLINE REAL NAME##_changed(REAL a) {                                                                         \
    VOLATILE union { REAL r; unsigned char c[sizeof(REAL)]; } u = {a};                                                  \
    if (LOWER >= 0) u.c[BYTES - 2] = (unsigned char)(LOWER);                                                              \
    u.c[BYTES - 1] = UPPER;                                                                                             \
    return u.r;                                                                                                         \
  }                                                                                                                     \
  static void NAME(void) {                                                                                              \
    REAL value = (REAL)3.1, dot = (REAL)number(), result, came = 0;                                                       \
    DG_SET_DOTVALUE(&value, &dot, sizeof value);                                                                        \
    result = NAME##_changed(value);                                                                                     \
    DG_GET_DOTVALUE(&result, &came, sizeof result);                                                                     \
    expect(#NAME, result, came == (REAL)(FACTOR) * dot, came, (FACTOR) * dot);                                          \
  }

CONSTANTS(in_memory_float, float, 4, -1, 0xc0, -1, volatile)
CONSTANTS(in_memory_float_twice, float, 4, 0x46, 0x41, 4, volatile)
CONSTANTS(in_memory_double, double, 8, -1, 0xc0, -1, volatile)
CONSTANTS(in_memory_double_twice, double, 8, 0x28, 0xc0, -4, volatile)
CONSTANTS(in_memory_long_double, long double, 10, -1, 0xc0, -1, volatile)
CONSTANTS(in_memory_long_double_twice, long double, 10, 0x03, 0x40, 8, volatile)
/* Compilers do this in registers. */
CONSTANTS(as_compiled_float, float, 4, -1, 0xc0, -1, )
CONSTANTS(as_compiled_double, double, 8, -1, 0xc0, -1, )
CONSTANTS(as_compiled_double_twice, double, 8, 0x28, 0xc0, -4, )

int main(void) {
  for (int i = 0; i < 1000; i++) {
    for (int order = UP; order < ORDERS; order++) {
      for (int piece = 1; piece <= 2; piece++) {
        copies_of_float(order, piece);
        copies_of_double(order, piece);
        copies_of_long_double(order, piece);
      }
    }
    in_memory_float(), in_memory_float_twice();
    in_memory_double(), in_memory_double_twice();
    in_memory_long_double(), in_memory_long_double_twice();
    as_compiled_float(), as_compiled_double(), as_compiled_double_twice();
  }
  printf("%d wrong\n", wrong);
  return 0;
}
