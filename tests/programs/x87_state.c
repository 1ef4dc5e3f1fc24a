/* x87 state that a program sees: in signal handlers, after saving and restoring, beside MMX. Prints what it finds. */
#include <fenv.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define X87_REGISTERS "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "memory"

struct environment {
  uint16_t control, a, status, b, tags, c;
  uint32_t pointers[4];
};

static volatile struct environment in_handler;
static volatile unsigned mxcsr_in_handler;
static volatile double in_handler_product;

static void handler(int number) {
  struct environment environment;
  unsigned mxcsr;
  volatile long double a = number, b = a * a;
  __asm__ volatile("fnstenv %0\n\tfldenv %0" : "=m"(environment));
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  in_handler.control = environment.control;
  in_handler.status = environment.status;
  in_handler.tags = environment.tags;
  mxcsr_in_handler = mxcsr;
  in_handler_product = (double)b;
}

/* A handler starts with an initialised unit, and what was interrupted goes on with its own. */
static void signals(void) {
  const uint16_t control = 0x27f;
  const unsigned mxcsr = 0x3f80;
  uint16_t control_after;
  unsigned mxcsr_after;
  long double result;
  signal(SIGUSR1, handler);
  __asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(control), "m"(mxcsr));
  __asm__ volatile("fldpi\n\tfld1\n\tfldpi\n\tfldl2e\n\tfldpi\n\tfldln2\n\tfldpi\n\tfld1\n\t"
                   "mov $39, %%eax\n\tsyscall\n\tmov %%eax, %%edi\n\tmov %1, %%esi\n\tmov $62, %%eax\n\tsyscall\n\t"
                   "faddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfstpt %0"
                   : "=m"(result) : "i"(SIGUSR1) : "rax", "rcx", "r11", "rdi", "rsi", X87_REGISTERS);
  __asm__ volatile("fnstcw %0\n\tstmxcsr %1" : "=m"(control_after), "=m"(mxcsr_after));
  fesetenv(FE_DFL_ENV);
  printf("handler: control %#x status %#x tags %#x mxcsr %#x product %g\n", in_handler.control, in_handler.status & ~0x4700u,
         in_handler.tags, mxcsr_in_handler, in_handler_product);
  printf("after: control %#x mxcsr %#x sum %.20Lg\n", control_after, mxcsr_after, result);
}

static void saving(void) {
  unsigned char state[108];
  struct environment environment;
  long double first, second;
  __asm__ volatile("fldpi\n\tfld1\n\tfldz\n\tfdivrp\n\tfnsave %1\n\tfnstenv %2\n\tfrstor %1\n\tfstpt %0"
                   : "=m"(first), "=m"(state), "=m"(environment) : : X87_REGISTERS);
  __asm__ volatile("fstpt %0\n\tfninit" : "=m"(second) : : X87_REGISTERS);
  memcpy(&environment.control, state, 2);
  printf("saved: control %#x tags of the new one %#x first %Lg second %Lg\n", environment.control, environment.tags, first, second);
}

static void mmx(void) {
  struct environment before, after;
  uint64_t sum, numbers[2] = {UINT64_C(0x0102030405060708), UINT64_C(0x1010101010101010)};
  unsigned char bytes[10];
  __asm__ volatile("fldpi\n\tfld1\n\tmovq %3, %%mm2\n\tpaddb %4, %%mm2\n\tfnstenv %0\n\tmovq %%mm2, %2\n\temms\n\tfnstenv %1"
                   : "=m"(before), "=m"(after), "=m"(sum) : "m"(numbers[0]), "m"(numbers[1]) : X87_REGISTERS);
  __asm__ volatile("movq %1, %%mm0\n\tfstpt %0\n\temms" : "=m"(bytes) : "m"(numbers[0]) : X87_REGISTERS);
  printf("mmx: top %d tags %#x, then %#x, sum %#llx, high bytes %02x%02x\n", before.status >> 11 & 7, before.tags, after.tags,
         (unsigned long long)sum, bytes[9], bytes[8]);
}

int main(void) {
  signals();
  saving();
  mmx();
  return 0;
}
