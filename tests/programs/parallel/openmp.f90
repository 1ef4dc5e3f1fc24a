! OpenMP in Fortran: reductions, critical sections, atomics, sections, tasks, SIMD. Without -fopenmp it is the serial program.
!
! Argument: number of threads. Inputs: 48 numbers. Outputs: one for each construct. Client requests go through marks.c.
module marks
  use iso_c_binding
  implicit none
  interface
    subroutine mark_input(variable) bind(c)
      import :: c_double
      real(c_double) :: variable
    end subroutine
    subroutine mark_output(variable) bind(c)
      import :: c_double
      real(c_double) :: variable
    end subroutine
  end interface
end module

program openmp
  use iso_c_binding
  use marks
  !$ use omp_lib
  implicit none
  integer, parameter :: points = 48
  real(c_double) :: x(points), y(points), total, product, a, b, largest, shared
  integer :: i, threads
  character(len=8) :: argument

  threads = 4
  if (command_argument_count() > 0) then
    call get_command_argument(1, argument)
    read (argument, *) threads
  end if
  !$ call omp_set_num_threads(threads)
  do i = 1, points
    x(i) = 0.25d0 + (i - 1) / 64.0d0
    call mark_input(x(i))
  end do

  !$omp parallel do schedule(dynamic, 2)
  do i = 1, points
    y(i) = x(i)**2 + sin(x(i))
  end do
  total = sum(y * [(real(i, c_double), i = 1, points)])
  call mark_output(total)

  total = 0; product = 1; largest = -1
  !$omp parallel do reduction(+:total) reduction(*:product) reduction(max:largest)
  do i = 1, points
    total = total + x(i)**3
    product = product * (1 + x(i) / points)
    largest = max(largest, x(i))
  end do
  total = total * product + largest
  call mark_output(total)

  total = 0
  !$omp parallel do private(a)
  do i = 1, points
    a = exp(-x(i))
    !$omp critical
    total = total + a * x(i)
    !$omp end critical
  end do
  call mark_output(total)

  total = 0; product = 1; largest = -1
  !$omp parallel do private(a) schedule(static, 1)
  do i = 1, points
    a = sqrt(x(i))
    !$omp atomic
    total = total + a
    !$omp atomic
    product = product * (1 + a / points)
    !$omp atomic
    largest = max(largest, a)
  end do
  total = total * product + largest
  call mark_output(total)

  a = 0; b = 0
  !$omp parallel sections
  !$omp section
  a = dot_product(x, x)
  !$omp section
  b = maxval(x) * x(1)
  !$omp end parallel sections
  total = a * b
  call mark_output(total)

  shared = 0; a = 0; b = 0
  !$omp parallel
  !$omp single
  !$omp task shared(a)
  a = tree(1, 16)
  !$omp end task
  !$omp task shared(b)
  b = tree(17, 32)
  !$omp end task
  !$omp taskwait
  shared = a * b
  !$omp end single
  !$omp end parallel
  call mark_output(shared)

  total = 0
  !$omp parallel do simd reduction(+:total)
  do i = 1, points
    total = total + x(i) / (1 + x(i)**2)
  end do
  call mark_output(total)

  ! An array as a reduction variable.
  y = 0
  !$omp parallel do reduction(+:y)
  do i = 1, points
    y(mod(i, 5) + 1) = y(mod(i, 5) + 1) + x(i) * i
  end do
  total = y(1) * y(2) + y(3) * y(4) + y(5)
  call mark_output(total)
  print '(a)', 'done'
contains
  recursive function tree(from, to) result(value)
    integer, intent(in) :: from, to
    real(c_double) :: value, left, right
    if (from == to) then
      value = x(from)**2
      return
    end if
    !$omp task shared(left)
    left = tree(from, (from + to) / 2)
    !$omp end task
    right = tree((from + to) / 2 + 1, to)
    !$omp taskwait
    value = left + right + left * right / 50
  end function
end program
