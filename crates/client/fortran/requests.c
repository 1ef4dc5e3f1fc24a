/* What the procedures of the Fortran module derivgrind_clientrequests do.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <ISO_Fortran_binding.h>

#include "derivgrind.h"

/* Declares the elements of an array in array element order. What lies side by side is one request. */
static void declare(derivgrind_word file, const CFI_cdesc_t* array) {
  CFI_index_t position[CFI_MAX_RANK] = {0};
  const char* address = (const char*)array->base_addr;
  const size_t size = array->elem_len;
  derivgrind_word run = 1;
  int first = 0, k;
  if (!address) {
    return;
  }
  for (k = 0; k < array->rank; k++) {
    if (array->dim[k].extent == 0) {
      return;
    }
  }
  /* The leading dimensions that are contiguous together. The last extent of an assumed-size array is -1: its size is not known. */
  while (first < array->rank && array->dim[first].sm == (CFI_index_t)(run * size) && array->dim[first].extent > 0) {
    run *= (derivgrind_word)array->dim[first++].extent;
  }
  for (;;) {
    derivgrind_declare_array_(file, address, run, size);
    for (k = first; k < array->rank; k++) {
      address += array->dim[k].sm;
      if (++position[k] < array->dim[k].extent) {
        break;
      }
      address -= array->dim[k].sm * position[k];
      position[k] = 0;
    }
    if (k == array->rank) {
      return;
    }
  }
}

void derivgrind_fortran_input_4(CFI_cdesc_t* x) { declare(DG_INDEXFILE_INPUT, x); }
void derivgrind_fortran_input_8(CFI_cdesc_t* x) { declare(DG_INDEXFILE_INPUT, x); }
void derivgrind_fortran_input_10(CFI_cdesc_t* x) { declare(DG_INDEXFILE_INPUT, x); }
void derivgrind_fortran_output_4(CFI_cdesc_t* y) { declare(DG_INDEXFILE_OUTPUT, y); }
void derivgrind_fortran_output_8(CFI_cdesc_t* y) { declare(DG_INDEXFILE_OUTPUT, y); }
void derivgrind_fortran_output_10(CFI_cdesc_t* y) { declare(DG_INDEXFILE_OUTPUT, y); }

void derivgrind_fortran_inputf(double* x) { DG_INPUTF(*x); }
void derivgrind_fortran_outputf(const double* y) { DG_OUTPUTF(*y); }
void derivgrind_fortran_set_dotvalue(void* x, const void* d, int bytes) { DG_SET_DOTVALUE(x, d, bytes); }
void derivgrind_fortran_get_dotvalue(const void* x, void* d, int bytes) { DG_GET_DOTVALUE(x, d, bytes); }
void derivgrind_fortran_disable(int plus, int minus) { DG_DISABLE(plus, minus); }
int derivgrind_fortran_mode(void) { return DG_GET_MODE; }
