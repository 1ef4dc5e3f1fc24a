! Forward mode: y = x^3 with x = 2 and dot value 1, and the same in single precision.
program dot_values
  use, intrinsic :: iso_c_binding, only: c_loc
  use derivgrind_clientrequests
  implicit none
  real(8), target :: x, y, d
  real(4), target :: s, t, e
  x = 2; d = 1; s = 2; e = 1
  call dg_set_dotvalue(c_loc(x), c_loc(d), 8)
  call dg_set_dotvalue(c_loc(s), c_loc(e), 4)
  y = x**3
  t = s**3
  d = 0; e = 0
  call dg_get_dotvalue(c_loc(y), c_loc(d), 8)
  call dg_get_dotvalue(c_loc(t), c_loc(e), 4)
  print '(4f8.2)', y, d, t, e
end program
