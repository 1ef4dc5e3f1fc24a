! Inputs of each kind, in a section with strides, an allocatable array and scalars, and two outputs at once.
program kinds_and_strides
  use, intrinsic :: iso_c_binding, only: c_loc
  use derivgrind_clientrequests
  implicit none
  real(8) :: section(4, 3), y(2)
  real(8), target :: named
  real(8), allocatable :: whole(:, :, :)
  real(4) :: short, shorts(2)
  real(10) :: long
  integer :: i, j
  do j = 1, 3
    do i = 1, 4
      section(i, j) = i + 10*j
    end do
  end do
  allocate(whole(2, 1, 2))
  whole = reshape([1d0, 2d0, 3d0, 4d0], shape(whole))
  short = 2
  shorts = [0.5, 0.25]
  long = 3
  named = 5
  call dg_input(section(1::2, 1:3:2))
  call dg_input(whole)
  call dg_input(short)
  call dg_input(shorts(2:1:-1))
  call dg_input(long)
  call dg_inputf(c_loc(named))
  y(1) = sum(section*section) + short*short + real(long*long, 8) + named*named
  y(2) = whole(1, 1, 1)*whole(2, 1, 2) + shorts(1)*shorts(2) + section(3, 3)
  call dg_output(y)
  print *, y
end program
