"""Without the tool values pass through; wrong types are refused."""

import numpy as np
from common import raises

import derivgrind

assert derivgrind.mode() == "native"
assert derivgrind.inputf(1.5) == 1.5 and derivgrind.outputf(-0.0) == 0.0
a = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2]
b = derivgrind.inputf(a)
assert np.array_equal(a, b) and b.dtype == a.dtype and b is not a
assert derivgrind.outputf(a) is a
assert derivgrind.set_dotvalue(2.0, 1.0) == 2.0 and derivgrind.get_dotvalue(2.0) == 0.0
assert derivgrind.get_dotvalue(a).tolist() == [[0, 0], [0, 0]]
for wrong in (1, "x", np.arange(3), np.ones(2, complex), np.ones(2, np.float16)):
    with raises(TypeError, "inputf"):
        derivgrind.inputf(wrong)
with raises(ValueError):
    derivgrind.set_dotvalue(np.ones(3), np.ones(2))
print("passed")
