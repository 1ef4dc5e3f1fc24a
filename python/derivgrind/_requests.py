"""Inputs, outputs and dot values in scripts that run under the tool. Without it, values pass through unchanged."""

import numpy as np

from . import _native
from ._native import mode

_REAL = (np.float32, np.float64, np.longdouble)


def _real_array(x, what):
    """x as an array of real numbers, and a function that brings the result into the form of x."""
    array = np.asarray(x)
    if array.dtype.type not in _REAL:
        raise TypeError(
            f"{what}: expected float, a NumPy scalar or array of float32 or float64, not {type(x).__name__}"
            + (f" of {array.dtype}" if isinstance(x, (np.ndarray, np.generic)) else "")
        )
    if isinstance(x, np.generic):
        return array, lambda result: result[()]
    return array, lambda result: result


def _copy(array):
    """A contiguous copy in native byte order, which is ours to change."""
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)


def inputf(x):
    """Returns ``x`` declared as an input of the recording: a float, a NumPy scalar, or an array, whose elements become inputs in C order.

    ``x`` itself is not changed, so use it as ``x = inputf(x)``. Type, dtype and shape are kept.
    """
    if type(x) is float:
        return _native.input_float(x)
    array, back = _real_array(x, "inputf")
    array = _copy(array)
    _native.input_array(array)
    return back(array)


def outputf(x):
    """Declares ``x``, a float, a NumPy scalar or the elements of an array, as outputs of the recording, and returns it."""
    if type(x) is float:
        return _native.output_float(x)
    array, _ = _real_array(x, "outputf")
    _native.output_array(_copy(array))
    return x


def set_dotvalue(x, dot):
    """Returns ``x`` with a dot value, for forward mode. For an array, ``dot`` is a number for all elements or an array of the same shape."""
    if type(x) is float:
        return _native.set_dot_float(x, float(dot))
    array, back = _real_array(x, "set_dotvalue")
    array = _copy(array)
    dots = np.ascontiguousarray(np.broadcast_to(np.asarray(dot, dtype=array.dtype), array.shape))
    _native.set_dot_array(array, dots.reshape(array.shape))
    return back(array)


def get_dotvalue(x):
    """The dot value of ``x``, in its type, dtype and shape; zero if ``x`` is passive or the script does not run in forward mode."""
    if type(x) is float:
        return _native.get_dot_float(x)
    array, back = _real_array(x, "get_dotvalue")
    dots = np.zeros(array.shape, array.dtype.newbyteorder("="))
    _native.get_dot_array(_copy(array), dots)
    return back(dots)


__all__ = ["get_dotvalue", "inputf", "mode", "outputf", "set_dotvalue"]
