"""Recordings from NumPy: the argument is a directory with the recording of script_gradient.py."""

import math
import sys
import threading

import numpy as np
from common import raises

import derivgrind_tape

tape = derivgrind_tape.load(sys.argv[1])
assert (tape.n_inputs, tape.n_outputs) == (9, 6), (tape.n_inputs, tape.n_outputs)
assert tape.n_records > 15 and len(tape.input_indices) == 9 and tape.output_indices.dtype == np.uint64
e = math.exp(1.5)
expected = np.array(
    [
        [2 + e, 1.5, 0, e, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 3, 2, 0, 0, 0],
        [0, 4, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0, 0.5, 0],
        [0, 0, 2, 0, 0, 0, 0, 0, 0.5],
        [0, 0, 0, 0, 3, 2, 8, 0, 0],
    ]
)
assert np.allclose(tape.jacobian(), expected, rtol=1e-14), tape.jacobian()
assert np.allclose(tape.forward(np.eye(9)), expected.T, rtol=1e-14)
assert np.allclose(tape.reverse(np.arange(6.0)), np.arange(6.0) @ expected, rtol=1e-14)
# Several threads at once.
results = [None] * 4
def sweep(number):
    results[number] = tape.reverse(np.eye(6))
threads = [threading.Thread(target=sweep, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(np.array_equal(result, results[0]) for result in results)
with raises(ValueError, "outputs"):
    tape.reverse(np.ones(7))
with raises(ValueError, "shape"):
    tape.reverse(np.ones((1, 2, 3)))
with raises(derivgrind_tape.TapeError, "/nowhere"):
    derivgrind_tape.load("/nowhere")
print("passed")
