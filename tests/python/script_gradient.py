"""Run under `derivgrind grad`: floats, NumPy scalars and arrays as inputs and outputs."""

import math

import numpy as np

import derivgrind

x = derivgrind.inputf(1.5)
s = derivgrind.inputf(np.float64(2.0))
t = derivgrind.inputf(np.float32(0.5))
a = derivgrind.inputf(np.array([[1.0, 2.0], [3.0, 4.0]]))
b = derivgrind.inputf(np.array([1, 2], np.float32))
assert type(x) is float and type(s) is np.float64 and type(t) is np.float32
assert a.dtype == np.float64 and a.shape == (2, 2) and b.dtype == np.float32
y = x * s + math.exp(x) * float(a[0, 0])
assert derivgrind.outputf(y) is y
derivgrind.outputf(np.array([a[0, 1] * a[1, 0], s * s]))
derivgrind.outputf(b * t)
derivgrind.outputf(np.dot(a, a)[1, 1])
print(derivgrind.mode())
