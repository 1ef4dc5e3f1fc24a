! Client requests of Derivgrind: how a Fortran program names its inputs and outputs.
!
!     use derivgrind_clientrequests
!     call dg_input(x)       declares x as an input
!     y = f(x)
!     call dg_output(y)      declares y as an output
!
! x and y are real(4), real(8) or real(10), scalars or arrays of any rank and stride, elements in array element order. A program with these
! calls runs with and without the tool, with the same results.
!
! SPDX-License-Identifier: MIT OR Apache-2.0
module derivgrind_clientrequests
  use, intrinsic :: iso_c_binding, only: c_double, c_float, c_int, c_long_double, c_ptr
  implicit none
  private
  public :: dg_input, dg_output
  public :: dg_inputf, dg_outputf, dg_set_dotvalue, dg_get_dotvalue, dg_disable, dg_mode

  ! Declares a variable, or the elements of an array, as inputs.
  interface dg_input
    subroutine derivgrind_fortran_input_4(x) bind(c)
      import :: c_float
      real(c_float), intent(inout) :: x(..)
    end subroutine
    subroutine derivgrind_fortran_input_8(x) bind(c)
      import :: c_double
      real(c_double), intent(inout) :: x(..)
    end subroutine
    subroutine derivgrind_fortran_input_10(x) bind(c)
      import :: c_long_double
      real(c_long_double), intent(inout) :: x(..)
    end subroutine
  end interface

  ! Declares a variable, or the elements of an array, as outputs.
  interface dg_output
    subroutine derivgrind_fortran_output_4(y) bind(c)
      import :: c_float
      real(c_float), intent(in) :: y(..)
    end subroutine
    subroutine derivgrind_fortran_output_8(y) bind(c)
      import :: c_double
      real(c_double), intent(in) :: y(..)
    end subroutine
    subroutine derivgrind_fortran_output_10(y) bind(c)
      import :: c_long_double
      real(c_long_double), intent(in) :: y(..)
    end subroutine
  end interface

  interface
    ! Declares the real(8) variable at an address as an input: call dg_inputf(c_loc(x)).
    subroutine dg_inputf(x) bind(c, name="derivgrind_fortran_inputf")
      import :: c_ptr
      type(c_ptr), value :: x
    end subroutine

    ! Declares the real(8) variable at an address as an output.
    subroutine dg_outputf(y) bind(c, name="derivgrind_fortran_outputf")
      import :: c_ptr
      type(c_ptr), value :: y
    end subroutine

    ! Forward mode: sets the dot value of the variable at the address x from the one at the address d; both have `bytes` bytes.
    subroutine dg_set_dotvalue(x, d, bytes) bind(c, name="derivgrind_fortran_set_dotvalue")
      import :: c_int, c_ptr
      type(c_ptr), value :: x, d
      integer(c_int), value :: bytes
    end subroutine

    ! Forward mode: copies the dot value of the variable at the address x to the variable at the address d.
    subroutine dg_get_dotvalue(x, d, bytes) bind(c, name="derivgrind_fortran_get_dotvalue")
      import :: c_int, c_ptr
      type(c_ptr), value :: x, d
      integer(c_int), value :: bytes
    end subroutine

    ! Adds `plus` to a counter of the thread and subtracts `minus`; while it is not 0 nothing is differentiated.
    subroutine dg_disable(plus, minus) bind(c, name="derivgrind_fortran_disable")
      import :: c_int
      integer(c_int), value :: plus, minus
    end subroutine

    ! The character code of 'b' while recording, of 'd' in forward mode, 0 without the tool.
    integer(c_int) function dg_mode() bind(c, name="derivgrind_fortran_mode")
      import :: c_int
    end function
  end interface
end module derivgrind_clientrequests
