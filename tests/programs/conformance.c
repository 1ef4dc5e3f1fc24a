/* Executes machine instructions on given registers and memory, and says what became of data and shadow: the client of the instruction
 * conformance suite (tests/suites/instructions).
 *
 *     conformance CODE CASES RESULTS
 *
 * CODE is mapped at an address that CASES names. It loads a machine state (registers, 1 KiB of memory) from a fixed place, executes one
 * instruction, and stores the state there. CASES and RESULTS consist of 8-byte words:
 *
 *     CASES    address of the state, its bytes, address of the code, number of states, of inputs, of cases;
 *              the states;
 *              for each case: state | patches << 16 | marks << 32 | reads << 48, address to call, then
 *                patches  offset, word           a word of the state is replaced
 *                marks    offset | kind << 32, word
 *                                                kind 0: 4 bytes of shadow; 1: the index of an input, binary32; 2: binary64;
 *                                                in forward mode the word is the dot value
 *                reads    offset                 4 bytes of shadow are asked for afterwards
 *     RESULTS  the inputs' indices; for each case: number of words that changed, offset and word of each; the words read
 */
#define _GNU_SOURCE
#include <derivgrind.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RAW, SINGLE, DOUBLE };

static void *map(const char *path, uint64_t address, int protection) {
  struct stat status;
  int file = open(path, O_RDONLY);
  int fixed = address ? MAP_FIXED_NOREPLACE : 0;
  void *mapped;
  if (file < 0 || fstat(file, &status) != 0) {
    perror(path);
    exit(1);
  }
  mapped = mmap((void *)address, status.st_size, protection, MAP_PRIVATE | fixed, file, 0);
  if (mapped == MAP_FAILED) {
    perror(path);
    exit(1);
  }
  close(file);
  return mapped;
}

static void mark(char *place, uint64_t kind, uint64_t word, const uint64_t *inputs, int forward) {
  if (forward) {
    float narrow;
    memcpy(&narrow, &word, 4);
    if (kind == DOUBLE)
      DG_SET_DOTVALUE((double *)place, &word, 8);
    else
      DG_SET_DOTVALUE((float *)place, &narrow, 4);
  } else {
    derivgrind_index index = kind == RAW ? word : inputs[word];
    if (kind == DOUBLE)
      DG_SET_INDEX((double *)place, &index);
    else
      DG_SET_INDEX((float *)place, &index);
  }
}

static uint64_t read_shadow(char *place, int forward) {
  float dot = 0;
  uint32_t bits = 0;
  if (forward) {
    DG_GET_DOTVALUE((float *)place, &dot, 4);
    memcpy(&bits, &dot, 4);
    return bits;
  }
  derivgrind_request_(0, DERIVGRIND_REQUEST_GET_SHADOW, (uintptr_t)place, (uintptr_t)&bits, 0, 0);
  return bits;
}

int main(int argc, char **argv) {
  uint64_t *next, *states, *inputs, *before;
  uint64_t bytes, count_states, count_inputs, count_cases, n, k;
  int forward = DG_GET_MODE == 'd';
  char *state;
  FILE *results;
  if (argc != 4) {
    fprintf(stderr, "usage: conformance CODE CASES RESULTS\n");
    return 2;
  }
  next = map(argv[2], 0, PROT_READ);
  bytes = next[1];
  count_states = next[3], count_inputs = next[4], count_cases = next[5];
  state = mmap((void *)next[0], bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (state != (char *)next[0]) {
    perror("state");
    return 1;
  }
  map(argv[1], next[2], PROT_READ | PROT_EXEC);
  results = fopen(argv[3], "w");
  inputs = calloc(count_inputs + 1, 8);
  before = malloc(bytes);
  if (!results || !inputs || !before) {
    perror(argv[3]);
    return 1;
  }
  for (n = 0; n < count_inputs; n++) {
    derivgrind_index none = 0;
    double zero = 0;
    DG_NEW_INDEX_NOACTIVITYANALYSIS(&none, &none, &zero, &zero, &inputs[n], &zero);
    fwrite(&inputs[n], 8, 1, results);
  }
  states = next + 6;
  next = states + count_states * bytes / 8;
  for (n = 0; n < count_cases; n++) {
    uint64_t header = next[0], entry = next[1], changed = 0;
    uint64_t patches = header >> 16 & 0xffff, marks = header >> 32 & 0xffff, reads = header >> 48;
    next += 2;
    memcpy(state, states + (header & 0xffff) * bytes / 8, bytes);
    for (k = 0; k < patches; k++, next += 2)
      memcpy(state + next[0], &next[1], 8);
    memcpy(before, state, bytes);
    for (k = 0; k < marks; k++, next += 2)
      mark(state + (next[0] & 0xffffffff), next[0] >> 32, next[1], inputs, forward);
    ((void (*)(void))entry)();
    for (k = 0; k < bytes / 8; k++)
      changed += memcmp(before + k, state + 8 * k, 8) != 0;
    fwrite(&changed, 8, 1, results);
    for (k = 0; k < bytes / 8; k++) {
      uint64_t word, offset = 8 * k;
      memcpy(&word, state + offset, 8);
      if (word != before[k]) {
        fwrite(&offset, 8, 1, results);
        fwrite(&word, 8, 1, results);
      }
    }
    for (k = 0; k < reads; k++, next++) {
      uint64_t shadow = read_shadow(state + next[0], forward);
      fwrite(&shadow, 8, 1, results);
    }
  }
  return fclose(results) != 0;
}
