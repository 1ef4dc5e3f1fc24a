/* Client requests of Derivgrind: how a C or C++ program names its inputs and outputs.
 *
 *     #include <derivgrind.h>
 *
 *     double x = 3.0, y;
 *     DG_INPUTF(x);        declares x as an input
 *     y = f(x);
 *     DG_OUTPUTF(y);       declares y as an output
 *
 * A request is a short sequence of instructions that does nothing at all on a processor and that Derivgrind
 * recognises; so the same executable runs with and without the tool, with the same results. Nothing has to be
 * linked. The sequence and the request numbers are those of the Valgrind tool of the same name.
 *
 * C89 to C23, C++98 to C++23; gcc, clang and compatible compilers; any number of translation units and threads.
 * On processors other than amd64 and x86 requests compile to their default results.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef DERIVGRIND_H
#define DERIVGRIND_H

/* Which index file an index is appended to. */
enum derivgrind_index_file {
  DG_INDEXFILE_INPUT = 0,
  DG_INDEXFILE_OUTPUT = 1
};

/* Request numbers: 'D', 'G', and a count. */
enum derivgrind_request_number {
  DERIVGRIND_REQUEST_GET_DOTVALUE = 0x44470000,
  DERIVGRIND_REQUEST_SET_DOTVALUE,
  DERIVGRIND_REQUEST_DISABLE,
  DERIVGRIND_REQUEST_GET_INDEX,
  DERIVGRIND_REQUEST_SET_INDEX,
  DERIVGRIND_REQUEST_NEW_INDEX,
  DERIVGRIND_REQUEST_NEW_INDEX_NOACTIVITYANALYSIS,
  DERIVGRIND_REQUEST_INDEX_TO_FILE,
  DERIVGRIND_REQUEST_GET_MODE,
  DERIVGRIND_REQUEST_GET_FLAGS,
  DERIVGRIND_REQUEST_SET_FLAGS,
  DERIVGRIND_REQUEST_GET_DOTVALUE_DIRECTION = 0x44470010,
  DERIVGRIND_REQUEST_SET_DOTVALUE_DIRECTION,
  DERIVGRIND_REQUEST_GET_DIRECTIONS,
  DERIVGRIND_REQUEST_DECLARE_ARRAY = 0x44470020,
  DERIVGRIND_REQUEST_START_RECORDING,
  DERIVGRIND_REQUEST_FINISH_RECORDING,
  DERIVGRIND_REQUEST_GET_SHADOW
};

/* ---- Language differences -------------------------------------------------------------------------------- */

#ifdef __cplusplus
#define DERIVGRIND_CAST_(type, value) static_cast<type>(value)
#define DERIVGRIND_ADDRESS_(pointer) static_cast<derivgrind_word>(reinterpret_cast<__UINTPTR_TYPE__>(pointer))
#define DERIVGRIND_FUNCTION_ inline __attribute__((__always_inline__))
#else
#define DERIVGRIND_CAST_(type, value) ((type)(value))
#define DERIVGRIND_ADDRESS_(pointer) ((derivgrind_word)(__UINTPTR_TYPE__)(pointer))
#define DERIVGRIND_FUNCTION_ static __inline__ __attribute__((__always_inline__, __unused__))
#endif

/* g++ warns about long long in C++98 in spite of __extension__. */
#if defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif

/* An index: 0 for a passive value, otherwise the number of a block of the tape. */
__extension__ typedef unsigned long long derivgrind_index;

/* A word of a request. */
#ifdef __i386__
typedef unsigned int derivgrind_word;
#else
__extension__ typedef unsigned long long derivgrind_word;
#endif

#if defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
extern "C++" {
#endif

/* ---- The request ----------------------------------------------------------------------------------------- */

/* Performs a request with up to four arguments (the sequence has room for a fifth, which no request uses) and returns
 * its result, or `otherwise` if the program does not run under the tool.
 *
 * The rotations add up to a multiple of the register's width, and the exchange is of a register with itself. The
 * "memory" clobber keeps variables whose address is an argument up to date on both sides. The braces give the
 * instructions in AT&T and in Intel syntax, for -masm=intel. */
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_request_(derivgrind_word otherwise, derivgrind_word number,
                                                         derivgrind_word argument1, derivgrind_word argument2,
                                                         derivgrind_word argument3, derivgrind_word argument4) {
#if defined(__x86_64__) || defined(__i386__)
  volatile derivgrind_word words[6];
  derivgrind_word result = otherwise;
  words[0] = number;
  words[1] = argument1;
  words[2] = argument2;
  words[3] = argument3;
  words[4] = argument4;
  words[5] = 0;
#ifdef __x86_64__
  __asm__ __volatile__("rol{q} {$3, %%rdi|rdi, 3}\n\t"
                       "rol{q} {$13, %%rdi|rdi, 13}\n\t"
                       "rol{q} {$61, %%rdi|rdi, 61}\n\t"
                       "rol{q} {$51, %%rdi|rdi, 51}\n\t"
                       "xchg{q} {%%rbx, %%rbx|rbx, rbx}"
                       : "+d"(result)
                       : "a"(&words[0])
                       : "cc", "memory");
#else
  __asm__ __volatile__("rol{l} {$3, %%edi|edi, 3}\n\t"
                       "rol{l} {$13, %%edi|edi, 13}\n\t"
                       "rol{l} {$29, %%edi|edi, 29}\n\t"
                       "rol{l} {$19, %%edi|edi, 19}\n\t"
                       "xchg{l} {%%ebx, %%ebx|ebx, ebx}"
                       : "+d"(result)
                       : "a"(&words[0])
                       : "cc", "memory");
#endif
  return result;
#else
  (void)number, (void)argument1, (void)argument2, (void)argument3, (void)argument4;
  return otherwise;
#endif
}

/* ---- Sizes and values of variables ----------------------------------------------------------------------- */

/* The size of a real variable, or 0 (unknown) for what cannot be one. */
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_real_size_(__SIZE_TYPE__ size) {
  return size == 4 || size == 8 || size == 10 || size == 12 || size == 16 ? DERIVGRIND_CAST_(derivgrind_word, size) : 0;
}

/* DERIVGRIND_SIZE_AT_(address): the size of the variable that a pointer points to, 0 if its type does not tell. */
#ifdef __cplusplus
template <class Variable>
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_size_at_(const volatile Variable*) {
  return derivgrind_real_size_(sizeof(Variable));
}
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_size_at_(const volatile void*) { return 0; }
#define DERIVGRIND_SIZE_AT_(address) derivgrind_size_at_(address)
#else
#define DERIVGRIND_SIZE_AT_(address) (__extension__ derivgrind_real_size_(sizeof(__typeof__(*(address)))))
#endif

/* ---- Requests as functions ------------------------------------------------------------------------------- */

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_dotvalue_(derivgrind_word number, const volatile void* variable,
                                                          const volatile void* dotvalue, derivgrind_word size) {
  return derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(variable), DERIVGRIND_ADDRESS_(dotvalue), size, 0);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_dotvalue_direction_(derivgrind_word number,
                                                                    const volatile void* variable,
                                                                    const volatile void* dotvalue,
                                                                    derivgrind_word size,
                                                                    derivgrind_word direction) {
  return derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(variable), DERIVGRIND_ADDRESS_(dotvalue), size, direction);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_index_(derivgrind_word number, const volatile void* variable,
                                                       const volatile void* index, derivgrind_word size) {
  return derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(variable), DERIVGRIND_ADDRESS_(index), size, 0);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_new_index_(derivgrind_word number, const volatile void* index1,
                                                           const volatile void* index2, const volatile void* diff1,
                                                           const volatile void* diff2, volatile void* newindex,
                                                           const volatile void* value) {
  derivgrind_word addresses[6];
  addresses[0] = DERIVGRIND_ADDRESS_(index1);
  addresses[1] = DERIVGRIND_ADDRESS_(index2);
  addresses[2] = DERIVGRIND_ADDRESS_(diff1);
  addresses[3] = DERIVGRIND_ADDRESS_(diff2);
  addresses[4] = DERIVGRIND_ADDRESS_(newindex);
  addresses[5] = DERIVGRIND_ADDRESS_(value);
  return derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(&addresses[0]), 0, 0, 0);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_disable_(derivgrind_word plus, derivgrind_word minus) {
  return derivgrind_request_(0, DERIVGRIND_REQUEST_DISABLE, plus, minus, 0, 0);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_index_to_file_(derivgrind_word file, const volatile void* index) {
  return derivgrind_request_(0, DERIVGRIND_REQUEST_INDEX_TO_FILE, file, DERIVGRIND_ADDRESS_(index), 0, 0);
}

DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_flags_(derivgrind_word number, const volatile void* variable,
                                                       const volatile void* active, const volatile void* discrete,
                                                       derivgrind_word size) {
  return derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(variable), DERIVGRIND_ADDRESS_(active),
                             DERIVGRIND_ADDRESS_(discrete), size);
}

/* The value of a real variable, by its size, as a double. The conversion is an operation that must not show on the tape:
 * it is for the user's eyes only. */
DERIVGRIND_FUNCTION_ double derivgrind_value_(const volatile void* variable, __SIZE_TYPE__ size) {
  double value = 0.0;
  if (size == sizeof(double)) {
    value = *DERIVGRIND_CAST_(const volatile double*, variable);
  } else if (size == sizeof(float)) {
    derivgrind_disable_(1, 0);
    value = DERIVGRIND_CAST_(double, *DERIVGRIND_CAST_(const volatile float*, variable));
    derivgrind_disable_(0, 1);
  } else if (size == sizeof(long double)) {
    derivgrind_disable_(1, 0);
    value = DERIVGRIND_CAST_(double, *DERIVGRIND_CAST_(const volatile long double*, variable));
    derivgrind_disable_(0, 1);
  }
  return value;
}

/* Gives a variable a new index that depends on nothing, as an input's, and returns it. */
DERIVGRIND_FUNCTION_ derivgrind_index derivgrind_input_(volatile void* variable, __SIZE_TYPE__ size) {
  const derivgrind_index passive = 0;
  const double zero = 0.0;
  const double value = derivgrind_value_(variable, size);
  derivgrind_index created = 0;
  derivgrind_new_index_(DERIVGRIND_REQUEST_NEW_INDEX_NOACTIVITYANALYSIS, &passive, &passive, &zero, &zero, &created, &value);
  derivgrind_index_(DERIVGRIND_REQUEST_SET_INDEX, variable, &created, derivgrind_real_size_(size));
  return created;
}

/* Records copy = 1.0 * variable and returns the copy's index. With an index of its own, each output is told from another
 * that happens to hold the same value; the variable keeps its index. */
DERIVGRIND_FUNCTION_ derivgrind_index derivgrind_output_(const volatile void* variable, __SIZE_TYPE__ size) {
  const derivgrind_index passive = 0;
  const double zero = 0.0;
  const double one = 1.0;
  const double value = derivgrind_value_(variable, size);
  derivgrind_index original = 0;
  derivgrind_index copy = 0;
  derivgrind_index_(DERIVGRIND_REQUEST_GET_INDEX, variable, &original, derivgrind_real_size_(size));
  derivgrind_new_index_(DERIVGRIND_REQUEST_NEW_INDEX_NOACTIVITYANALYSIS, &original, &passive, &one, &zero, &copy, &value);
  return copy;
}

/* Appends an index to an index file and returns it. */
DERIVGRIND_FUNCTION_ derivgrind_index derivgrind_declare_(derivgrind_word file, derivgrind_index index) {
  derivgrind_index_to_file_(file, &index);
  return index;
}

/* Declares the elements of an array, in order, and returns their number; 0 if nothing is recorded. */
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_declare_array_(derivgrind_word file, const volatile void* array,
                                                               derivgrind_word count, __SIZE_TYPE__ size) {
  return derivgrind_request_(0, DERIVGRIND_REQUEST_DECLARE_ARRAY, file, DERIVGRIND_ADDRESS_(array), count,
                             derivgrind_real_size_(size));
}

/* Bit-trick finder: each bit of the variable holds part of a real number, none is discrete data. */
DERIVGRIND_FUNCTION_ derivgrind_word derivgrind_mark_float_(const volatile void* variable, __SIZE_TYPE__ size) {
  unsigned char active[16];
  unsigned char discrete[16];
  unsigned i;
  if (size > sizeof active) {
    return 0;
  }
  for (i = 0; i < sizeof active; ++i) {
    active[i] = 0xff;
    discrete[i] = 0;
  }
  return derivgrind_flags_(DERIVGRIND_REQUEST_SET_FLAGS, variable, &active[0], &discrete[0], size);
}

#ifdef __cplusplus
} /* extern "C++" */
#endif

/* ---- Recording mode -------------------------------------------------------------------------------------- */

/* Declares a variable (an lvalue of type float, double or long double) as an input, or as an output, in the order of
 * the index files. Each returns the index; 0 if nothing is recorded. */
#define DERIVGRIND_INPUTF(var) derivgrind_declare_(DG_INDEXFILE_INPUT, DERIVGRIND_INPUT(var))
#define DERIVGRIND_OUTPUTF(var) derivgrind_declare_(DG_INDEXFILE_OUTPUT, DERIVGRIND_OUTPUT(var))

/* Declares the `count` elements from `array` on (a pointer to float, double or long double), in order, by a single
 * request. Returns their number; 0 if nothing is recorded. */
#define DERIVGRIND_INPUT_ARRAY(array, count)                                                                \
  derivgrind_declare_array_(DG_INDEXFILE_INPUT, (array), DERIVGRIND_CAST_(derivgrind_word, count), \
                            sizeof(*(array)))
#define DERIVGRIND_OUTPUT_ARRAY(array, count)                                                                \
  derivgrind_declare_array_(DG_INDEXFILE_OUTPUT, (array), DERIVGRIND_CAST_(derivgrind_word, count), \
                            sizeof(*(array)))

/* The same without an entry in the index file: the caller keeps the index. */
#define DERIVGRIND_INPUT(var) derivgrind_input_(&(var), sizeof(var))
#define DERIVGRIND_OUTPUT(var) derivgrind_output_(&(var), sizeof(var))

/* Reads a variable's index into *index, or sets it from there; `index` points to eight bytes. */
#define DERIVGRIND_GET_INDEX(address, index) \
  derivgrind_index_(DERIVGRIND_REQUEST_GET_INDEX, (address), (index), DERIVGRIND_SIZE_AT_(address))
#define DERIVGRIND_SET_INDEX(address, index) \
  derivgrind_index_(DERIVGRIND_REQUEST_SET_INDEX, (address), (index), DERIVGRIND_SIZE_AT_(address))

/* Records an operation by hand. All six are addresses: of two operands' indices (eight bytes each) and the partial
 * derivatives with respect to them (double), of the new index, and of the result's value (double). The new index is 0
 * if both operands' are 0; with NOACTIVITYANALYSIS it never is. */
#define DERIVGRIND_NEW_INDEX(index1, index2, diff1, diff2, newindex, value) \
  derivgrind_new_index_(DERIVGRIND_REQUEST_NEW_INDEX, (index1), (index2), (diff1), (diff2), (newindex), (value))
#define DERIVGRIND_NEW_INDEX_NOACTIVITYANALYSIS(index1, index2, diff1, diff2, newindex, value)                      \
  derivgrind_new_index_(DERIVGRIND_REQUEST_NEW_INDEX_NOACTIVITYANALYSIS, (index1), (index2), (diff1), (diff2), \
                        (newindex), (value))

/* Appends the index at the address `index` to the file DG_INDEXFILE_INPUT or DG_INDEXFILE_OUTPUT. */
#define DERIVGRIND_INDEX_TO_FILE(file, index) \
  derivgrind_index_to_file_(DERIVGRIND_CAST_(derivgrind_word, file), (index))

/* ---- Forward mode ---------------------------------------------------------------------------------------- */

/* Reads or sets a variable's dot value; both variables have the same type, of `size` bytes. */
#define DERIVGRIND_GET_DOTVALUE(address, dotaddress, size)                        \
  derivgrind_dotvalue_(DERIVGRIND_REQUEST_GET_DOTVALUE, (address), (dotaddress), \
                       DERIVGRIND_CAST_(derivgrind_word, size))
#define DERIVGRIND_SET_DOTVALUE(address, dotaddress, size)                        \
  derivgrind_dotvalue_(DERIVGRIND_REQUEST_SET_DOTVALUE, (address), (dotaddress), \
                       DERIVGRIND_CAST_(derivgrind_word, size))

/* The same in direction k of those that the program is run with (derivgrind --directions=N), counted from 0. The
 * requests above mean direction 0. */
#define DERIVGRIND_GET_DOTVALUE_DIRECTION(k, address, dotaddress, size)                              \
  derivgrind_dotvalue_direction_(DERIVGRIND_REQUEST_GET_DOTVALUE_DIRECTION, (address), (dotaddress), \
                                 DERIVGRIND_CAST_(derivgrind_word, size), DERIVGRIND_CAST_(derivgrind_word, k))
#define DERIVGRIND_SET_DOTVALUE_DIRECTION(k, address, dotaddress, size)                              \
  derivgrind_dotvalue_direction_(DERIVGRIND_REQUEST_SET_DOTVALUE_DIRECTION, (address), (dotaddress), \
                                 DERIVGRIND_CAST_(derivgrind_word, size), DERIVGRIND_CAST_(derivgrind_word, k))

/* How many directions there are: 0 outside forward mode. */
#define DERIVGRIND_GET_DIRECTIONS \
  DERIVGRIND_CAST_(unsigned, derivgrind_request_(0, DERIVGRIND_REQUEST_GET_DIRECTIONS, 0, 0, 0, 0))

/* ---- Either mode ----------------------------------------------------------------------------------------- */

/* Adds `plus` to, and subtracts `minus` from, a counter of the calling thread, and returns its previous value. While it
 * is not zero nothing is differentiated in this thread, and results are passive. */
#define DERIVGRIND_DISABLE(plus, minus) \
  derivgrind_disable_(DERIVGRIND_CAST_(derivgrind_word, plus), DERIVGRIND_CAST_(derivgrind_word, minus))

/* 'd' in forward mode, 'b' while recording, 't' in the bit-trick finder, 0 without the tool. */
#define DERIVGRIND_GET_MODE \
  DERIVGRIND_CAST_(unsigned char, derivgrind_request_(0, DERIVGRIND_REQUEST_GET_MODE, 0, 0, 0, 0))

/* ---- Bit-trick finder ------------------------------------------------------------------------------------ */

/* Reads or sets two masks of `size` bytes for the variable: which bits are active, which hold discrete data. */
#define DERIVGRIND_GET_FLAGS(address, active, discrete, size)                               \
  derivgrind_flags_(DERIVGRIND_REQUEST_GET_FLAGS, (address), (active), (discrete), \
                    DERIVGRIND_CAST_(derivgrind_word, size))
#define DERIVGRIND_SET_FLAGS(address, active, discrete, size)                               \
  derivgrind_flags_(DERIVGRIND_REQUEST_SET_FLAGS, (address), (active), (discrete), \
                    DERIVGRIND_CAST_(derivgrind_word, size))
/* Marks a variable as a real number. */
#define DERIVGRIND_MARK_FLOAT(var) derivgrind_mark_float_(&(var), sizeof(var))

/* ---- Short spellings ------------------------------------------------------------------------------------- */

#define DG_INPUTF(var) DERIVGRIND_INPUTF(var)
#define DG_OUTPUTF(var) DERIVGRIND_OUTPUTF(var)
#define DG_INPUT_ARRAY(array, count) DERIVGRIND_INPUT_ARRAY(array, count)
#define DG_OUTPUT_ARRAY(array, count) DERIVGRIND_OUTPUT_ARRAY(array, count)
#define DG_INPUT(var) DERIVGRIND_INPUT(var)
#define DG_OUTPUT(var) DERIVGRIND_OUTPUT(var)
#define DG_GET_INDEX(address, index) DERIVGRIND_GET_INDEX(address, index)
#define DG_SET_INDEX(address, index) DERIVGRIND_SET_INDEX(address, index)
#define DG_NEW_INDEX(index1, index2, diff1, diff2, newindex, value) \
  DERIVGRIND_NEW_INDEX(index1, index2, diff1, diff2, newindex, value)
#define DG_NEW_INDEX_NOACTIVITYANALYSIS(index1, index2, diff1, diff2, newindex, value) \
  DERIVGRIND_NEW_INDEX_NOACTIVITYANALYSIS(index1, index2, diff1, diff2, newindex, value)
#define DG_INDEX_TO_FILE(file, index) DERIVGRIND_INDEX_TO_FILE(file, index)
#define DG_GET_DOTVALUE(address, dotaddress, size) DERIVGRIND_GET_DOTVALUE(address, dotaddress, size)
#define DG_SET_DOTVALUE(address, dotaddress, size) DERIVGRIND_SET_DOTVALUE(address, dotaddress, size)
#define DG_GET_DOTVALUE_DIRECTION(k, address, dotaddress, size) \
  DERIVGRIND_GET_DOTVALUE_DIRECTION(k, address, dotaddress, size)
#define DG_SET_DOTVALUE_DIRECTION(k, address, dotaddress, size) \
  DERIVGRIND_SET_DOTVALUE_DIRECTION(k, address, dotaddress, size)
#define DG_GET_DIRECTIONS DERIVGRIND_GET_DIRECTIONS
#define DG_DISABLE(plus, minus) DERIVGRIND_DISABLE(plus, minus)
#define DG_GET_MODE DERIVGRIND_GET_MODE
#define DG_GET_FLAGS(address, active, discrete, size) DERIVGRIND_GET_FLAGS(address, active, discrete, size)
#define DG_SET_FLAGS(address, active, discrete, size) DERIVGRIND_SET_FLAGS(address, active, discrete, size)
#define DG_MARK_FLOAT(var) DERIVGRIND_MARK_FLOAT(var)

#endif /* DERIVGRIND_H */
