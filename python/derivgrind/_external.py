"""What the modules for PyTorch, TensorFlow and JAX share: functions of the signature

    void f(int param_size, char* param_buf, int input_count, T* input_buf, int output_count, T* output_buf)

with T = double or float.
"""

import threading

import numpy as np

from ._library import Library, out

_PROTOTYPE = "void {symbol}(int param_size, char *param_buf, int input_count, const {real} *input_buf, int output_count, {real} *output_buf)"
_REALS = {"float64": "double", "float32": "float"}

_libraries = {}
_lock = threading.Lock()


def _library(path, timeout):
    """The library, one for all functions."""
    with _lock:
        key = (path, timeout)
        if key not in _libraries:
            _libraries[key] = Library(path, timeout)
        return _libraries[key]


class ExternalFunction:
    """A function of this signature for both types."""

    def __init__(self, library, function, arch="amd64", timeout=None):
        if arch not in ("amd64", "x86_64"):
            raise ValueError(f"arch={arch!r}: libraries for amd64 can be called, no others")
        self._symbol = function
        library = _library(library, timeout)
        self._functions = {
            dtype: library.function(function, _PROTOTYPE.format(symbol=function, real=real)) for dtype, real in _REALS.items()
        }

    def _arguments(self, params, x, n_outputs):
        params = bytes(params)
        return (len(params), np.frombuffer(bytearray(params), np.int8), x.size, x.reshape(-1), int(n_outputs), out(int(n_outputs)))

    def _function(self, x, n_outputs):
        if str(x.dtype) not in _REALS:
            raise TypeError(f"{self._symbol}: the input has to be float64 or float32, not {x.dtype}; convert it")
        if int(n_outputs) != n_outputs or n_outputs < 0:
            raise ValueError(f"{self._symbol}: the number of outputs has to be a whole number, not {n_outputs!r}")
        return self._functions[str(x.dtype)]

    def evaluate(self, params, x, n_outputs):
        """The outputs for the elements of the array x, natively."""
        return self._function(x, n_outputs)(*self._arguments(params, x, n_outputs))

    def record(self, params, x, n_outputs):
        """The outputs, and a function from their bar values to those of the elements of x, in the shape of x."""
        y, pullback = self._function(x, n_outputs).vjp(*self._arguments(params, x, n_outputs))
        return y, lambda bars: pullback(np.asarray(bars, np.float64).reshape(y.shape)).reshape(x.shape)


NO_SECOND_DERIVATIVES = (
    "derivgrind differentiates the function once: its gradient cannot be differentiated again. "
    "Use difference quotients of the gradient for second derivatives"
)
