"""Functions of libraries: values, derivatives, dtypes, shapes."""

import warnings

import numpy as np
from common import raises

import derivgrind

lib = derivgrind.load("libfunctions.so")

f = lib.function("f", "double f(double x, const double *a, int n)")
a = np.array([1.0, -2.0, 0.5, 3.0])
x = 1.5
assert f(x, a, 4) == sum(a * x ** np.arange(4))
dx, da = f.grad(x, a, 4)
assert np.allclose(dx, a[1] + 2 * a[2] * x + 3 * a[3] * x**2, rtol=1e-14) and dx.shape == ()
assert np.allclose(da, x ** np.arange(4), rtol=1e-14) and da.dtype == np.float64
assert f(x, [1, 2], 2) == 4.0

value, pullback = f.vjp(x, a.reshape(2, 2), 4)
assert value == f(x, a, 4)
for bar in (1.0, -2.5, 1.0):
    bar_x, bar_a = pullback(bar)
    assert np.allclose(bar_x, bar * dx, rtol=1e-14) and np.allclose(bar_a, bar * da.reshape(2, 2), rtol=1e-14)
value, dot = f.jvp((x, a, 4), (2.0, np.ones(4)))
assert np.allclose(dot, 2 * dx + da.sum(), rtol=1e-14)

single = lib.function("single", "float single(const float *a, long n)")
b = np.array([1, 2, 3], np.float32)
assert single(b, 3) == 36.0
gradient = single.grad(b, 3)
assert gradient.dtype == np.float32 and gradient.tolist() == [2, 8, 18]

matrix = lib.function("matrix", "void matrix(const double *x, int n, double *y)")
y = matrix(a, 4, derivgrind.out(4))
assert np.array_equal(y, a * a.sum())
jacobian = matrix.jacobian(a, 4, derivgrind.out(4))
assert np.allclose(jacobian, np.diag(np.full(4, a.sum())) + a[:, None], rtol=1e-14)
assert matrix.jacobian(a.reshape(2, 2), 4, derivgrind.out((4, 1))).shape == (4, 1, 2, 2)
target = np.zeros(4)
assert matrix(a, 4, target) is None and np.array_equal(target, y)

square = lib.function("square_in_place", "void square_in_place(double *x, int n)")
z = np.array([2.0, 3.0])
_, pullback = square.vjp(z, 2)
assert z.tolist() == [4, 9] and pullback([1, 1]).tolist() == [4, 6]
strided = np.arange(6.0)[::2]
square(strided, 3)
assert strided.tolist() == [0, 4, 16]

count = lib.function("count", "int count(const char *text, int n, unsigned char letter)")
assert count(b"derivgrind", 10, ord("d")) == 2

large = np.linspace(0, 1, 1_000_000)
gradient = f.grad(1.0, large, large.size)[1]
assert np.array_equal(gradient, np.ones_like(large))

# What is not differentiated is told, each time that it happens.
scramble = lib.function("scramble", "double scramble(double x)")
for _ in range(2):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert scramble.grad(1.5) == 1.0
    assert len(told) == 1 and "not differentiated" in str(told[0].message) and "scramble" in str(told[0].message), told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f.grad(x, a, 4)

with raises(ValueError, "4 real outputs"):
    matrix.grad(a, 4, derivgrind.out(4))
print("passed")
