! Predators and prey (Lotka and Volterra), solved by the classical Runge-Kutta method.
!
! The signature is that of derivgrind's modules for PyTorch, TensorFlow and JAX. Inputs: the four rates and the initial populations.
! Outputs: both populations at equidistant times up to the time that is given as parameter.
subroutine predators(n_params, params, n_inputs, inputs, n_outputs, outputs) bind(c)
  use, intrinsic :: iso_c_binding, only: c_double, c_int
  implicit none
  integer(c_int), value :: n_params, n_inputs, n_outputs
  real(c_double), intent(in) :: params(*), inputs(n_inputs)
  real(c_double), intent(out) :: outputs(2, n_outputs/2)
  integer, parameter :: steps = 20
  real(c_double) :: state(2), k1(2), k2(2), k3(2), k4(2), h
  integer :: time, step
  state = inputs(5:6)
  h = params(1)/(size(outputs, 2)*steps)
  do time = 1, size(outputs, 2)
    do step = 1, steps
      k1 = change(state)
      k2 = change(state + 0.5d0*h*k1)
      k3 = change(state + 0.5d0*h*k2)
      k4 = change(state + h*k3)
      state = state + h/6*(k1 + 2*k2 + 2*k3 + k4)
    end do
    outputs(:, time) = state
  end do
contains
  function change(population)
    real(c_double), intent(in) :: population(2)
    real(c_double) :: change(2)
    change(1) = population(1)*(inputs(1) - inputs(2)*population(2))
    change(2) = population(2)*(inputs(3)*population(1) - inputs(4))
  end function
end subroutine
