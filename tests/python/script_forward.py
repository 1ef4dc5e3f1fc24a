"""Run in forward mode: dot values of floats, NumPy scalars and arrays."""

import numpy as np

import derivgrind

x = derivgrind.set_dotvalue(1.5, 1.0)
a = derivgrind.set_dotvalue(np.array([[1.0, 2.0]]), [[10.0, 20.0]])
s = derivgrind.set_dotvalue(np.float32(3.0), 2.0)
assert type(s) is np.float32 and a.shape == (1, 2)
print(derivgrind.get_dotvalue(x * x), derivgrind.get_dotvalue(a * a).tolist(), derivgrind.get_dotvalue(s * s), derivgrind.get_dotvalue(2.0))
