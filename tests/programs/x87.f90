! Formulas of real(10), which gfortran computes on x87. As x87.c: all are declared and evaluated; `--reference` prints difference quotients, too.
! Linked with x87_fortran.c.

module formulas
  use, intrinsic :: iso_c_binding, only: c_long_double
  implicit none
  integer, parameter :: r = c_long_double, count = 5
  character(len=16), parameter :: names(count) = &
    [character(len=16) :: 'matrices', 'complexes', 'intrinsics', 'arrays', 'recursions']

  interface
    subroutine declare_input(x) bind(c)
      import :: r
      real(r), intent(inout) :: x
    end subroutine
    subroutine declare_output(x) bind(c)
      import :: r
      real(r), intent(in) :: x
    end subroutine
  end interface

contains

  function formula(k, x) result(y)
    integer, intent(in) :: k
    real(r), intent(in) :: x(2)
    real(r) :: y
    select case (k)
    case (1); y = matrices(x)
    case (2); y = complexes(x)
    case (3); y = intrinsics(x)
    case (4); y = arrays(x)
    case default; y = recursions(x, 5)
    end select
  end function

  function matrices(x) result(y)
    real(r), intent(in) :: x(2)
    real(r) :: y, m(3, 3), v(3)
    integer :: i, j
    do j = 1, 3
      do i = 1, 3
        m(i, j) = x(1) * i - x(2) / j
      end do
    end do
    v = [x(1), x(2), x(1) * x(2)]
    m = matmul(m, transpose(m)) / 8
    y = dot_product(matmul(m, v), v) + sum(m(:, 2)) - product(v)
  end function

  function complexes(x) result(y)
    real(r), intent(in) :: x(2)
    real(r) :: y
    complex(r) :: z, w
    z = cmplx(x(1), x(2), r)
    w = z * z / (z + 2) - conjg(z)
    y = real(w, r) * aimag(z) + real(z * conjg(w), r) + abs(real(w, r))
  end function

  function intrinsics(x) result(y)
    real(r), intent(in) :: x(2)
    real(r) :: y
    y = sqrt(x(1)) * abs(x(2)) + sign(x(1), x(2)) * max(x(1), x(2))
    y = y + min(x(1), x(2), 0.5_r) + mod(7 * x(1), x(2) - 0.2_r)
    y = y * merge(x(1), x(2), x(1) > 1) + dim(x(1), x(2)) + aint(1.1_r * x(1)) * x(2)
    y = y + x(1)**3 / x(2)**2 + nint(1.1_r * x(1)) * x(2) + modulo(x(2), 2 * x(1))
  end function

  function arrays(x) result(y)
    real(r), intent(in) :: x(2)
    real(r) :: y
    real(r), allocatable :: a(:), b(:)
    integer :: i
    allocate (a(10))
    a = [(x(1) * i + x(2), i = 1, 10)]
    b = a(10:1:-1) * cshift(a, 3)
    where (b > 20)
      b = b / 4
    elsewhere
      b = -b * x(2)
    end where
    b = [b(1:5), pack(a, a > 5), x]
    y = sum(b) / maxval(a) + minval(b)
    y = y + real(real(x(1), 8) * real(x(2), 4), r)
  end function

  recursive function recursions(x, n) result(y)
    real(r), intent(in) :: x(2)
    integer, intent(in) :: n
    real(r) :: y
    if (n == 0) then
      y = x(1)
    else
      y = recursions([x(2), x(1)], n - 1) * x(1) + n / x(2)
    end if
  end function

end module

program x87
  use formulas
  implicit none
  real(r), parameter :: step = 2.0_r**(-20)
  real(r) :: x(2), y, gradient(2), moved(2)
  character(len=16) :: argument
  logical :: is_reference
  integer :: k, i
  call get_command_argument(1, argument)
  is_reference = argument == '--reference'
  do k = 1, count
    x = [1.5_r, -0.75_r]
    call declare_input(x(1))
    call declare_input(x(2))
    y = formula(k, x)
    call declare_output(y)
    if (is_reference) then
      do i = 1, 2
        moved = x
        moved(i) = x(i) + step
        gradient(i) = formula(k, moved)
        moved(i) = x(i) - step
        gradient(i) = (gradient(i) - formula(k, moved)) / (2 * step)
      end do
      print '(a, 3(1x, es27.19e3))', trim(names(k)), y, gradient
    else
      print '(a, 1x, es27.19e3)', trim(names(k)), y
    end if
  end do
end program
