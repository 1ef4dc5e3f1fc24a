/* Formulas that exercise x87 and MMX: operations, deep stacks, saved and restored states, bits of numbers in memory, signals, jumps.
 *
 * Each formula has two inputs and one output of its own. `x87` declares and evaluates all of them, `x87 NAME` one, and prints value and
 * exception flags. `x87 --reference` prints
 * the value and the derivatives with respect to both inputs, as difference quotients in long double. `x87 --dot` gives each input the dot value 1
 * and prints those of the outputs.
 */
#define _GNU_SOURCE
#include <complex.h>
#include <derivgrind.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef REAL
#define REAL long double
#define IS_EXTENDED
#endif
#define NOINLINE __attribute__((noinline))

/* ---- What compilers make of arithmetic ---- */

static NOINLINE REAL arithmetic(const REAL *x) { return (x[0] * x[1] - x[0] / x[1]) * (1 / x[0] - 3) + x[1] / 2 - (2 - x[0]); }
static NOINLINE REAL integers(const REAL *x) {
  volatile int i = 3;
  volatile short s = 5;
  volatile int64_t l = 7;
  return (x[0] + i) * (x[1] - s) + i / x[0] - s * x[1] + (l - x[0]) * i + x[1] / s + (int)x[0];
}
static NOINLINE REAL precisions(const REAL *x) {
  volatile float f = (float)x[0];
  volatile double d = (double)x[1];
  REAL r = f * d + x[0] * f - d / x[1];
  f = (float)r;
  d = (double)(r * x[0]);
  return f + d * f - (f - x[1]) / d;
}
static NOINLINE REAL horner(const REAL *x) {
  REAL sum = 0;
  int i;
  for (i = 0; i < 12; i++) sum = sum * x[0] + x[1] / (i + 1);
  return sum;
}
static NOINLINE REAL deep(const REAL *x) {
  REAL a = x[0], b = x[1];
  return ((a + b) * (a - b)) / ((a * b + 3) * (a / b + 2)) + ((a + 1) * (b + 2) - (a + 3) * (b + 4)) * ((a * a + b) * (b * b + a)) /
         ((a + 5) * (b + 6) + (a * b - 7) * (b * a * a + 8));
}
static NOINLINE REAL recursion(const REAL *x, int n) { return n == 0 ? x[0] : recursion(x, n - 1) * x[1] + 1 / recursion(x, n / 2); }
static NOINLINE REAL recursive(const REAL *x) { return recursion(x, 6); }
static NOINLINE REAL signs(const REAL *x) {
  return (REAL)fabsl(-x[0]) * x[1] - (REAL)fabsl(x[1]) + (x[0] > 0 ? -x[1] : x[1]) * x[0];
}
static NOINLINE REAL selection(const REAL *x) {
  REAL a = x[0] < x[1] ? x[0] : x[1] * x[1], b = x[0] >= x[1] ? x[0] * 3 : x[1], c = x[0] != x[0] ? x[1] : x[0];
  return a * b + (a > b ? a : b) * c;
}
static NOINLINE REAL roots(const REAL *x) { return (REAL)sqrtl(x[0] * x[0] + x[1]) / (REAL)sqrtl(x[0]); }
static NOINLINE REAL copies(const REAL *x) {
  struct { char c; REAL a[3]; int i; } s, t;
  REAL buffer[4];
  unsigned char *from = (unsigned char *)x, bytes[sizeof(REAL)];
  size_t k;
  memset(&s, 0, sizeof s);
  s.a[0] = x[0];
  s.a[1] = x[1];
  t = s;
  memcpy(buffer, t.a, 2 * sizeof(REAL));
  memmove(buffer + 1, buffer, 2 * sizeof(REAL));
  for (k = 0; k < sizeof bytes; k++) bytes[k] = from[k];
  memcpy(buffer, bytes, sizeof bytes);
  return buffer[0] * buffer[1] * buffer[2];
}
/* Each of these has values that are active now and then. */
static __thread volatile REAL local[3];
static __thread volatile float local_float;
static __thread volatile double local_double;
static volatile REAL fixed[3];
static volatile double fixed_double;
static NOINLINE REAL variables(const REAL *x) {
  REAL sum = 0;
  int i;
  for (i = 0; i < 6; i++) {
    local[0] = i % 2 == 0 ? x[0] : 2;
    local[1] = i % 3 == 0 ? x[1] : 3;
    local_float = (float)(local[0] * local[1]);
    local_double = (double)(local[0] - local[1]);
    local[2] = local[0] * local_float + local[1] / local_double;
    fixed[i % 3] = local[2] + local_double;
    fixed_double = (double)(fixed[0] * local[1]);
    sum = sum / 2 + fixed[i % 3] * fixed_double - local[0] + local_double + local[1];
  }
  return sum;
}
static NOINLINE REAL complex_product(const REAL *x) {
  _Complex long double z = x[0] + x[1] * 1.0iL, w = z * z - 2 * z;
  w = w * z / (z + 1);
  return (REAL)(creall(w) + 2 * cimagl(w));
}
static NOINLINE REAL sum_of(int count, ...) {
  REAL sum = 0;
  va_list list;
  va_start(list, count);
  while (count-- > 0) sum = sum * 2 + (REAL)va_arg(list, long double);
  va_end(list);
  return sum;
}
static NOINLINE REAL variadic(const REAL *x) {
  return sum_of(5, (long double)x[0], (long double)(x[0] * x[1]), 3.0L, (long double)x[1], (long double)x[1]);
}
static jmp_buf target;
static NOINLINE void jumps(REAL *r, const REAL *x) {
  *r = x[0] * x[1];
  longjmp(target, 1);
}
static NOINLINE REAL jumping(const REAL *x) {
  volatile REAL a = x[0] * 2;
  REAL r = 0;
  REAL *volatile result = &r;
  if (setjmp(target) == 0) jumps(result, x);
  return *result + a;
}

#ifdef IS_EXTENDED

/* ---- Single instructions ---- */

/* `code` works on ST(0) = a, ST(1) = b. */
#define TWO_TO_ONE(a, b, code) \
  ({ long double result_; __asm__(code : "=t"(result_) : "0"(a), "u"(b) : "st(1)"); result_; })
#define ONE_TO_ONE(a, code) \
  ({ long double result_; __asm__(code : "=t"(result_) : "0"(a)); result_; })
#define TWO_TO_TOP(a, b, code) \
  ({ long double result_; __asm__(code : "=t"(result_) : "0"(a), "u"(b)); result_; })
#define ONE_TO_TWO(a, code, below) \
  ({ long double result_; __asm__(code : "=t"(result_), "=u"(below) : "0"(a)); result_; })

static NOINLINE long double exponentials(const long double *x) {
  long double whole = 5;
  return TWO_TO_TOP(ONE_TO_ONE(x[0] / 4, "f2xm1") + x[1], whole, "fscale") + TWO_TO_TOP(x[0], x[1], "fscale");
}
static NOINLINE long double logarithms(const long double *x) {
  return TWO_TO_ONE(x[0], x[1], "fyl2x") * x[0] + TWO_TO_ONE(x[1] / 8, x[0], "fyl2xp1");
}
static NOINLINE long double arc_tangents(const long double *x) {
  return TWO_TO_ONE(x[0], x[1], "fpatan") + x[0] * TWO_TO_ONE(-x[1], x[0], "fpatan") + TWO_TO_ONE(-x[0], -x[1], "fpatan");
}
static NOINLINE long double trigonometry(const long double *x) {
  long double sine, cosine, one, tangent;
  cosine = ONE_TO_TWO(x[0] * x[1], "fsincos", sine);
  one = ONE_TO_TWO(x[1], "fptan", tangent);
  return sine * x[0] + cosine + one * tangent + ONE_TO_ONE(x[0], "fsin") * ONE_TO_ONE(x[1], "fcos");
}
/* Out of range, the operand stays and nothing is pushed. */
static NOINLINE long double far_trigonometry(const long double *x) {
  long double result;
  __asm__("fsincos\n\tfptan\n\tfsin\n\tfcos" : "=t"(result) : "0"(x[0] * 0x1p70L));
  return result * 0x1p-70L * x[1];
}
static NOINLINE long double remainders(const long double *x) {
  return TWO_TO_TOP(x[0] * 7, x[1], "fprem") * x[0] + TWO_TO_TOP(x[0] * 9, x[1], "fprem1");
}
static NOINLINE long double extraction(const long double *x) {
  long double exponent, significand = ONE_TO_TWO(x[0] * x[0] * 9, "fxtract", exponent);
  return significand * x[1] + exponent * x[0] + ONE_TO_ONE(x[1] * 3, "frndint") * x[1];
}
static NOINLINE long double conditional_moves(const long double *x) {
  long double r = 0, t;
  int k;
  for (k = 0; k < 4; k++) {
    __asm__("cmp $2, %3\n\tfcmovb %2, %0" : "=t"(t) : "0"(x[0] * (k + 1)), "f"(x[1]), "r"(k) : "cc");
    r += t;
    __asm__("cmp $2, %3\n\tfcmovne %2, %0" : "=t"(t) : "0"(x[0] * x[1]), "f"(x[1] * (k + 3)), "r"(k) : "cc");
    r += t * x[0];
    __asm__("cmp $1, %3\n\tfcmovnbe %2, %0" : "=t"(t) : "0"(r), "f"(r * x[1]), "r"(k) : "cc");
    r = t;
  }
  return r;
}

/* ---- The stack as a whole ---- */

#define X87_REGISTERS "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "memory"

/* All eight registers in use, with exchanges and pops in between. */
static NOINLINE long double full_stack(const long double *x) {
  long double result;
  __asm__("fldt %1\n\tfldt %2\n\tfld %%st(1)\n\tfld %%st(1)\n\tfmul %%st(1), %%st\n\tfld %%st(3)\n\tfsub %%st(3), %%st\n\t"
          "fldt %1\n\tfldt %2\n\tfldl2e\n\tfxch %%st(6)\n\tfmulp %%st, %%st(1)\n\tfxch %%st(3)\n\tfmulp %%st, %%st(2)\n\t"
          "faddp %%st, %%st(3)\n\tfdivrp %%st, %%st(1)\n\tfsubp %%st, %%st(2)\n\tfmulp %%st, %%st(1)\n\tfaddp %%st, %%st(1)\n\tfstpt %0"
          : "=m"(result) : "m"(x[0]), "m"(x[1]) : X87_REGISTERS);
  return result;
}
/* The pointer moves without the registers: they are found again under other names. */
static NOINLINE long double moved_top(const long double *x) {
  long double result;
  __asm__("fldt %1\n\tfldt %2\n\tfincstp\n\tfadd %%st, %%st(0)\n\tfincstp\n\tfdecstp\n\tfdecstp\n\tfmulp %%st, %%st(1)\n\tfstpt %0"
          : "=m"(result) : "m"(x[0]), "m"(x[1]) : X87_REGISTERS);
  return result;
}
static NOINLINE long double saved_state(const long double *x) {
  static unsigned char state[108] __attribute__((aligned(16))), extended[512] __attribute__((aligned(64)));
  long double result;
  __asm__ volatile("fldt %1\n\tfldt %2\n\tfmul %%st(1), %%st\n\tfnsave %3\n\tfldt %1\n\tfchs\n\tfstpt %0\n\tfrstor %3\n\t"
                   "fxsave %4\n\tfninit\n\tfldz\n\tfxrstor %4\n\tfdivp %%st, %%st(1)\n\tfldt %0\n\tfsubrp %%st, %%st(1)\n\tfstpt %0"
                   : "=m"(result) : "m"(x[0]), "m"(x[1]), "m"(state), "m"(extended) : X87_REGISTERS);
  return result;
}
static NOINLINE long double environments(const long double *x) {
  static unsigned char environment[28];
  long double result;
  __asm__ volatile("fldt %1\n\tfldt %2\n\tfnstenv %3\n\tfldz\n\tfld1\n\tfldenv %3\n\tfmul %%st(1), %%st\n\tfmulp %%st, %%st(1)\n\tfstpt %0\n\tfninit"
                   : "=m"(result) : "m"(x[0]), "m"(x[1]), "m"(environment) : X87_REGISTERS);
  return result;
}
/* A double through MMX registers, and a long double's significand through the register that it is in. */
static NOINLINE long double through_mmx(const long double *x) {
  double d = (double)x[0], e, s;
  long double result = x[1];
  __asm__ volatile("movq %1, %%mm3\n\tmovq %%mm3, %%mm1\n\tmovq %%mm1, %0\n\temms" : "=m"(e) : "m"(d) : X87_REGISTERS);
  __asm__ volatile("movq %1, %%mm2\n\tmovq2dq %%mm2, %%xmm1\n\tmovsd %%xmm1, %0\n\temms" : "=m"(s) : "m"(d) : "xmm1", X87_REGISTERS);
  __asm__ volatile("fldt %1\n\tfldz\n\tfaddp %%st, %%st(1)\n\tmovq %%mm7, %0\n\temms" : "+m"(result) : "m"(x[1]) : X87_REGISTERS);
  return e * s * result;
}
static NOINLINE long double mmx_signs(const long double *x) {
  double d = (double)(x[0] * x[1]), e;
  static const uint64_t sign = UINT64_C(1) << 63;
  __asm__ volatile("movq %1, %%mm5\n\tpxor %2, %%mm5\n\tmovq %%mm5, %0\n\temms" : "=m"(e) : "m"(d), "m"(sign) : X87_REGISTERS);
  return e * x[1];
}
static volatile long double in_handler;
static const long double *handler_operands;
static void handler(int number) { in_handler = handler_operands[0] * handler_operands[1] * (number == SIGUSR1); }
static NOINLINE long double interrupted(const long double *x) {
  long double result;
  long out;
  handler_operands = x;
  signal(SIGUSR1, handler);
  /* kill(getpid(), SIGUSR1) with seven numbers on the stack. */
  __asm__ volatile("fldt %2\n\tfldt %3\n\tfld %%st(1)\n\tfld %%st(1)\n\tfmul %%st(1), %%st\n\tfld %%st(3)\n\tfldt %2\n\tfldt %3\n\t"
                   "mov $39, %%eax\n\tsyscall\n\tmov %%eax, %%edi\n\tmov %4, %%esi\n\tmov $62, %%eax\n\tsyscall\n\t"
                   "faddp\n\tfmulp\n\tfaddp\n\tfmulp\n\tfaddp\n\tfmulp\n\tfstpt %0"
                   : "=m"(result), "=&a"(out) : "m"(x[0]), "m"(x[1]), "i"(SIGUSR1) : "rcx", "r11", "rdi", "rsi", X87_REGISTERS);
  return result + in_handler;
}

/* ---- Bits in memory ---- */

union bits {
  long double value;
  struct { uint64_t significand; uint16_t high; } parts;
  unsigned char bytes[16];
};
static NOINLINE long double negated_in_memory(const long double *x) {
  union bits u;
  u.value = x[0] * x[1];
  u.parts.high ^= 0x8000;
  u.value *= x[0];
  u.bytes[9] &= 0x7f;
  return u.value;
}
static NOINLINE long double scaled_in_memory(const long double *x) {
  union bits u;
  u.value = x[0] * x[1];
  u.parts.high += 40;
  u.value *= 0x1p-38L;
  u.parts.high = (u.parts.high & 0x8000) | 16382;
  return u.value * x[0];
}
static NOINLINE long double rounded_by_constants(const long double *x) {
  volatile long double y = x[0] * 5, constant = 0x1.8p63L, plain = 0x1p63L;
  y = y + constant;
  y = y - constant;
  y = y * x[1];
  y = plain + y;
  y = y - plain;
  return y * x[1] + x[0];
}
#endif

static const struct {
  const char *name;
  REAL (*function)(const REAL *);
  double inputs[2];
} table[] = {
    {"arithmetic", arithmetic, {1.5, -0.75}},
    {"integers", integers, {1.5, -0.75}},
    {"precisions", precisions, {1.5, -0.75}},
    {"horner", horner, {0.875, -0.75}},
    {"deep", deep, {1.5, -0.625}},
    {"recursive", recursive, {1.5, -0.75}},
    {"signs", signs, {1.5, -0.75}},
    {"selection", selection, {1.5, -0.75}},
    {"roots", roots, {1.5, 0.75}},
    {"copies", copies, {1.5, -0.75}},
    {"variables", variables, {1.5, -0.75}},
    {"complex_product", complex_product, {1.5, -0.75}},
    {"variadic", variadic, {1.5, -0.75}},
    {"jumping", jumping, {1.5, -0.75}},
#ifdef IS_EXTENDED
    {"exponentials", exponentials, {1.5, -0.75}},
    {"logarithms", logarithms, {1.5, -0.75}},
    {"arc_tangents", arc_tangents, {1.5, -0.75}},
    {"trigonometry", trigonometry, {1.5, -0.75}},
    {"far_trigonometry", far_trigonometry, {1.5, -0.75}},
    {"remainders", remainders, {1.5, -0.8125}},
    {"extraction", extraction, {1.5, -0.75}},
    {"conditional_moves", conditional_moves, {1.5, -0.75}},
    {"full_stack", full_stack, {1.5, -0.75}},
    {"moved_top", moved_top, {1.5, -0.75}},
    {"saved_state", saved_state, {1.5, -0.75}},
    {"environments", environments, {1.5, -0.75}},
    {"through_mmx", through_mmx, {1.5, 0.75}},
    {"mmx_signs", mmx_signs, {1.5, -0.75}},
    {"interrupted", interrupted, {1.5, -0.75}},
    {"negated_in_memory", negated_in_memory, {1.5, -0.75}},
    {"scaled_in_memory", scaled_in_memory, {1.5, -0.75}},
    {"rounded_by_constants", rounded_by_constants, {1.4375, 0.75}},
#endif
};

static long double quotient(size_t k, int input) {
  const long double step = 0x1p-20L;
  long double values[2];
  int side;
  for (side = 0; side < 2; side++) {
    REAL x[2];
    x[0] = (REAL)table[k].inputs[0];
    x[1] = (REAL)table[k].inputs[1];
    x[input] += (REAL)(side == 0 ? step : -step);
    values[side] = table[k].function(x);
  }
  return (values[0] - values[1]) / (2 * step);
}

int main(int argc, char **argv) {
  const int reference = argc > 1 && strcmp(argv[1], "--reference") == 0, dots = argc > 1 && strcmp(argv[1], "--dot") == 0;
  uint16_t status;
  size_t k;
  for (k = 0; k < sizeof table / sizeof *table; k++) {
    REAL x[2], y, dot = 1;
    x[0] = (REAL)table[k].inputs[0];
    x[1] = (REAL)table[k].inputs[1];
    if (argc > 1 && !reference && !dots && strcmp(argv[1], table[k].name) != 0) continue;
    if (dots) {
      DG_SET_DOTVALUE(&x[0], &dot, sizeof dot);
      DG_SET_DOTVALUE(&x[1], &dot, sizeof dot);
    } else {
      DG_INPUTF(x[0]);
      DG_INPUTF(x[1]);
    }
    __asm__ volatile("fnclex");
    y = table[k].function(x);
    __asm__ volatile("fnstsw %0" : "=m"(status));
    if (dots) {
      dot = 0;
      DG_GET_DOTVALUE(&y, &dot, sizeof dot);
    } else {
      DG_OUTPUTF(y);
    }
    printf("%s %.17Lg", table[k].name, (long double)y);
    if (!reference && !dots) printf(" %d", status & 0x7f);
    if (reference) printf(" %.17Lg %.17Lg", quotient(k, 0), quotient(k, 1));
    if (dots) printf(" %.17Lg", (long double)dot);
    printf("\n");
  }
  return 0;
}
