"""Latency of calls of a library function from Python: `cargo xtask bench calls`. The argument is the library.

Times are medians. Ratios are to a call by ctypes in the same process, which is as native as Python gets.
"""

import ctypes
import statistics
import sys
import time

import numpy as np

import derivgrind

library = sys.argv[1]
direct = ctypes.CDLL(library).sum_of_squares
direct.restype = ctypes.c_double
direct.argtypes = [ctypes.c_void_p, ctypes.c_int]


def median(act, repetitions):
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def first_call(x):
    """A new library: the processes start, the library is loaded and translated."""
    fresh = derivgrind.load(library)
    try:
        return median(lambda: fresh.function("sum_of_squares", PROTOTYPE).grad(x, x.size), 1)
    finally:
        fresh.close()


PROTOTYPE = "double sum_of_squares(const double *x, int n)"
function = derivgrind.load(library).function("sum_of_squares", PROTOTYPE)
print(f"{'inputs':>9}  {'':<30}{'time':>13}{'ratio':>10}")
for n, repetitions in [(3, 500), (1_000, 500), (1_000_000, 15)]:
    x = np.linspace(-1, 1, n)
    assert np.array_equal(function.grad(x, n), 2 * x)
    native = median(lambda: direct(x.ctypes.data, n), repetitions)
    _, pullback = function.vjp(x, n)
    for what, seconds in [
        ("native call by ctypes", native),
        ("call in the library's process", median(lambda: function(x, n), repetitions)),
        ("first call with gradient", statistics.median(first_call(x) for _ in range(5))),
        ("warm call with gradient", median(lambda: function.grad(x, n), repetitions)),
        ("gradient from the recording", median(lambda: pullback(1.0), repetitions)),
    ]:
        print(f"{n:>9}  {what:<30}{1e3 * seconds:>10.3f} ms{seconds / native:>10.1f}")
