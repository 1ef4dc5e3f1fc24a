"""Whatever is wrong with a call is an exception that says what to do, and the next call works."""

import os
import signal
import threading
import time

import numpy as np
from common import raises

import derivgrind

with raises(derivgrind.LoadError, "missing.so"):
    derivgrind.load("./missing.so")
with open("no_library.so", "w") as file:
    file.write("no library")
with raises(derivgrind.LoadError, "no_library.so"):
    derivgrind.load("no_library.so").function("f", "void f(void)")
lib = derivgrind.load("libfunctions.so")
with raises(derivgrind.LoadError, "no_such_function", "nm -D"):
    lib.function("no_such_function", "void f(void)")
for prototype, part in [
    ("double f(double x, const double *a, int n", "does not end"),
    ("double f(long double x)", "long double"),
    ("double f(struct s x)", "structures"),
    ("double f(real x)", "real is not known"),
]:
    with raises(derivgrind.PrototypeError, part):
        lib.function("f", prototype)

f = lib.function("f", "double f(double x, const double *a, int n)")
a = np.ones(3)
with raises(TypeError, "3 arguments (x, a, n), not 2"):
    f(1.0, a)
with raises(TypeError, "float64", "float32", "astype"):
    f(1.0, a.astype(np.float32), 3)
with raises(TypeError, "int64"):
    f(1.0, np.arange(3), 3)
with raises(TypeError, "a number"):
    f(a, a, 3)
with raises(TypeError, "whole number"):
    f(1.0, a, 2.5)
with raises(OverflowError, "int32"):
    f(1.0, a, 2**40)
with raises(TypeError, "out()"):
    f(1.0, derivgrind.out(3), 3)
matrix = lib.function("matrix", "void matrix(const double *x, int n, double *y)")
frozen = np.zeros(3)
frozen.flags.writeable = False
with raises(ValueError, "read-only"):
    matrix(a, 3, frozen)
# Too few outputs: the function writes behind the end.
with raises(derivgrind.CallError, "behind the end of y", "2 elements"):
    matrix(a, 3, derivgrind.out(2))
_, pullback = matrix.vjp(a, 3, derivgrind.out(3))
with raises(ValueError, "shape (3,)"):
    pullback(np.ones(2))

for call in [lambda g, *arguments: g(*arguments), lambda g, *arguments: g.vjp(*arguments)]:
    with raises(derivgrind.CallError, "SIGSEGV", "0x10"):
        call(lib.function("crash", "void crash(void)"))
    with raises(derivgrind.CallError, "SIGABRT"):
        call(lib.function("fail", "void fail(void)"))
    with raises(derivgrind.CallError, "exit(5)"):
        call(lib.function("stop", "void stop(int code)"), 5)
    with raises(derivgrind.CallTimeout, "0.3 s"):
        call(lib.function("loop", "void loop(void)", timeout=0.3))
    with raises(derivgrind.CallError, "behind the end of y"):
        call(lib.function("overrun", "void overrun(double *y, int n)"), np.zeros(3), 3)
    assert f(2.0, a, 3) == 7.0 and f.grad(2.0, a, 3)[0] == 5.0

# Ctrl-C ends a call. (A shell has what it runs in the background ignore it, and Python leaves that as it is.)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    lib.function("loop", "void loop(void)")()
except KeyboardInterrupt:
    assert time.monotonic() - started < 10
else:
    raise AssertionError("not interrupted")

# A forked process has workers of its own.
child = os.fork()
if child == 0:
    os._exit(0 if f.grad(2.0, a, 3)[0] == 5.0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert f.grad(2.0, a, 3)[0] == 5.0

lib.close()
assert f(2.0, a, 3) == 7.0
lib.close()
assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"derivgrind-session-{os.getpid()}-")]
print("passed")
