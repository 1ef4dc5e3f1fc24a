"""A warm call with gradient of a trivial function takes milliseconds at most, the first one a fraction of a second, also on a busy machine."""

import time

import numpy as np

import derivgrind


def seconds(act, repetitions):
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return min(times)


lib = derivgrind.load("libfunctions.so")
f = lib.function("f", "double f(double x, const double *a, int n)")
a = np.ones(3)
first = seconds(lambda: f.grad(1.5, a, 3), 1)
warm = seconds(lambda: f.grad(1.5, a, 3), 200)
native = seconds(lambda: f(1.5, a, 3), 200)
print(f"first {1e3 * first:.1f} ms, warm with gradient {1e6 * warm:.0f} us, native {1e6 * native:.0f} us")
assert first < 2 and warm < 5e-3
print("passed")
