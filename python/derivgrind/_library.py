"""Functions of compiled libraries, with derivatives."""

import atexit
import os
import warnings
import weakref

import numpy as np

from . import _native
from ._places import command_directories

_OPEN = weakref.WeakSet()


@atexit.register
def _close_all():
    for library in list(_OPEN):
        library.close()


class out:
    """Stands for an array that a function writes: ``out(n)`` or ``out((n, m))``, of zeros before the call.

    The elements are outputs. Calls return the array.
    """

    def __init__(self, shape):
        self.shape = tuple(np.atleast_1d(np.asarray(shape, dtype=np.intp)).tolist())
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"out: an array cannot have the shape {self.shape}")

    def __repr__(self):
        return f"out({self.shape})"


def load(path, timeout=None):
    """Loads a shared library; its functions are called in processes of their own.

    ``timeout`` is the longest duration of a call in seconds.
    """
    return Library(path, timeout)


class Library:
    """A shared library, as returned by :func:`load`."""

    def __init__(self, path, timeout=None):
        self.path = os.fspath(path)
        self.timeout = timeout
        local = os.path.abspath(self.path)
        if os.sep in self.path or os.path.isfile(local):
            if not os.path.isfile(local):
                raise _native.LoadError(f"there is no library {self.path} (looked for {local})")
            self.path = local
        directories = command_directories()
        self._native = _native.Session(self.path, False, directories)
        self._recording = _native.Session(self.path, True, directories)
        self._native.start()
        _OPEN.add(self)

    def __repr__(self):
        return f"derivgrind.load({self.path!r})"

    def function(self, symbol, prototype, timeout=None):
        """The function with this symbol, called as the C prototype says: ``lib.function("f", "double f(double x, const double *a, int n)")``.

        Raises :class:`LoadError` if the library cannot be loaded or does not have it, :class:`PrototypeError` if the prototype cannot be used.
        """
        return Function(self, symbol, prototype, self.timeout if timeout is None else timeout)

    def close(self):
        """Ends the library's processes. Another call starts them anew."""
        self._native.close()
        self._recording.close()


class _Parameter:
    def __init__(self, name, is_pointer, dtype, constant):
        self.name = name
        self.is_pointer = is_pointer
        self.dtype = np.dtype(dtype)
        self.is_real = self.dtype.kind == "f"
        self.constant = constant

    def array(self, value):
        """value as a contiguous array of the parameter's type."""
        if isinstance(value, (bytes, bytearray, memoryview)) and self.dtype.itemsize == 1:
            return np.frombuffer(value, self.dtype)
        if isinstance(value, (np.ndarray, np.generic)):
            if value.dtype != self.dtype:
                raise TypeError(f"{self.name}: expected an array of {self.dtype}, not of {value.dtype}; convert it with .astype('{self.dtype}')")
            array = value
        else:
            array = np.asarray(value)
            if array.dtype.kind not in ("biuf" if self.is_real else "biu") and array.size:
                raise TypeError(f"{self.name}: expected an array of {self.dtype}, not {type(value).__name__}")
            array = array.astype(self.dtype)
        return array if array.flags.c_contiguous else np.array(array, order="C")

    def scalar(self, value):
        """value as a number of the parameter's type."""
        if isinstance(value, np.ndarray) and value.ndim > 0 or isinstance(value, (str, bytes)) or value is None:
            raise TypeError(f"{self.name}: expected a number, not {type(value).__name__}; the prototype has no * there")
        if self.is_real:
            return float(value)
        number = int(value)
        if number != value:
            raise TypeError(f"{self.name}: expected a whole number, not {value}")
        limits = np.iinfo(self.dtype)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"{self.name}: {number} does not fit into {self.dtype}")
        return number


class _Call:
    """The arguments of a call, as the native part takes them."""

    def __init__(self, function, arguments):
        parameters = function._parameters
        if len(arguments) != len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            raise TypeError(f"{function.symbol} takes {len(parameters)} arguments ({names}), not {len(arguments)}")
        self.native = []
        # Shapes and dtypes of inputs and outputs in the order of the recording.
        self.inputs = []
        self.outputs = []
        # Arrays that calls return, and arrays to be copied back.
        self.results = []
        self.written = []
        if function._result is not None and function._result.kind == "f":
            self.outputs.append(((), function._result))
        for parameter, value in zip(parameters, arguments):
            self._add(parameter, value)

    def _add(self, parameter, value):
        name, dtype, real = parameter.name, parameter.dtype, parameter.is_real
        if isinstance(value, out):
            if not parameter.is_pointer or parameter.constant:
                raise TypeError(f"{name}: out() stands for an array that the function writes, and the prototype says that it does not")
            target = np.zeros(value.shape, dtype)
            self.native.append((name, None, target, False, real))
            self.results.append(target)
            if real:
                self.outputs.append((target.shape, dtype))
        elif not parameter.is_pointer:
            self.native.append((str(dtype), parameter.scalar(value)))
            if real:
                self.inputs.append(((), dtype))
        elif value is None:
            self.native.append(None)
        else:
            source = parameter.array(value)
            target = None
            if not parameter.constant:
                if isinstance(value, np.ndarray) and not value.flags.writeable:
                    raise ValueError(f"{name}: the function writes to this array, which is read-only; pass a copy, or out(n)")
                target = np.empty_like(source)
                self.written.append((value, target))
            self.native.append((name, source, target, real, real and target is not None))
            if real:
                self.inputs.append((source.shape, dtype))
                if target is not None:
                    self.outputs.append((source.shape, dtype))

    def finish(self, result, has_result):
        """Writes arrays back, as C does, and returns what the call returns."""
        for value, target in self.written:
            if isinstance(value, np.ndarray):
                value[...] = target
        return _one_or_all(([result] if has_result else []) + self.results, empty=None)


def _one_or_all(values, empty=()):
    if not values:
        return empty
    return values[0] if len(values) == 1 else tuple(values)


def _split(flat, forms):
    """A row of numbers as arrays of these shapes and dtypes."""
    arrays, start = [], 0
    for shape, dtype in forms:
        size = int(np.prod(shape, dtype=np.intp))
        arrays.append(flat[start : start + size].reshape(shape).astype(dtype, copy=False))
        start += size
    return arrays


def _join(values, forms, what):
    """The reverse of _split."""
    values = list(values)
    if len(values) != len(forms):
        raise ValueError(f"expected {len(forms)} {what}, not {len(values)}")
    flat = []
    for value, (shape, _) in zip(values, forms):
        array = np.asarray(value, dtype=np.float64)
        if array.shape != shape:
            raise ValueError(f"{what}: expected an array of shape {shape}, not {array.shape}")
        flat.append(array.reshape(-1))
    return np.concatenate(flat) if flat else np.zeros(0)


class Function:
    """A function of a library, as returned by :meth:`Library.function`.

    Arguments are numbers for scalars and NumPy arrays (or sequences) for pointers; ``None`` is a null pointer. Real scalars and arrays
    are inputs. The real result, arrays behind pointers that are not ``const``, and :class:`out` are outputs. As in C, a function changes
    the arrays that it writes to in place.

    Each call runs in a process of the library: natively, unless derivatives are asked for.
    """

    def __init__(self, library, symbol, prototype, timeout=None):
        _, result, parameters = _native.parse_prototype(prototype)
        self.library = library
        self.symbol = symbol
        self.prototype = prototype
        self.timeout = timeout
        self._result = None if result is None else np.dtype(result)
        self._parameters = [_Parameter(*parameter) for parameter in parameters]
        library._native.find(symbol)
        # A gradient is likely to be wanted: the process for it starts while the script goes on.
        library._recording.start()

    def __repr__(self):
        return f"{self.library!r}.function({self.symbol!r}, {self.prototype!r})"

    def _run(self, arguments, record):
        call = _Call(self, arguments)
        session = self.library._recording if record else self.library._native
        result = None if self._result is None else str(self._result)
        value, tape, notes = session.call(self.symbol, result, call.native, record, self.timeout)
        if notes:
            warnings.warn(f"{self.symbol}: {notes}", RuntimeWarning, stacklevel=3)
        return call.finish(value, self._result is not None), call, tape

    def __call__(self, *arguments):
        """Calls the function natively. Returns its result; arrays for :class:`out` follow it in a tuple."""
        return self._run(arguments, False)[0]

    def vjp(self, *arguments):
        """Calls and records the function. Returns what the call returns, and a function from bar values of the outputs to those of the inputs.

        That function takes an array for each output and returns one for each input (alone if there is only one). It can be used any number of
        times.
        """
        value, call, tape = self._run(arguments, True)

        def pullback(*bars):
            row = _join(bars, call.outputs, "bar values of outputs")
            return _one_or_all(_split(tape.reverse(row[np.newaxis])[0], call.inputs))

        return value, pullback

    def jvp(self, arguments, dots):
        """Calls the function with a sequence of arguments and dot values of its inputs. Returns what the call returns, and the outputs' dot values
        (alone if there is only one output)."""
        value, call, tape = self._run(tuple(arguments), True)
        row = _join(dots, call.inputs, "dot values of inputs")
        return value, _one_or_all(_split(tape.forward(row[np.newaxis])[0], call.outputs))

    def grad(self, *arguments):
        """The gradient of a function with one number as output: an array for each input (alone if there is only one)."""
        _, call, tape = self._run(arguments, True)
        count = sum(int(np.prod(shape, dtype=np.intp)) for shape, _ in call.outputs)
        if count != 1:
            raise ValueError(f"{self.symbol} has {count} real outputs; a gradient is of one. Use jacobian or vjp")
        return _one_or_all(_split(tape.reverse(np.ones((1, 1)))[0], call.inputs))

    def jacobian(self, *arguments):
        """All derivatives: for each output (alone if there is only one) an array for each input (alone if there is only one), whose shape is
        the output's followed by the input's."""
        _, call, tape = self._run(arguments, True)
        n_inputs, n_outputs = tape.n_inputs, tape.n_outputs
        if n_inputs < n_outputs:
            rows = np.ascontiguousarray(tape.forward(np.eye(n_inputs)).T)
        else:
            rows = tape.reverse(np.eye(n_outputs))
        jacobian, start = [], 0
        for shape, dtype in call.outputs:
            size = int(np.prod(shape, dtype=np.intp))
            part, row, position = rows[start : start + size], [], 0
            for input_shape, _ in call.inputs:
                width = int(np.prod(input_shape, dtype=np.intp))
                row.append(part[:, position : position + width].reshape(shape + input_shape).astype(dtype, copy=False))
                position += width
            jacobian.append(_one_or_all(row))
            start += size
        return _one_or_all(jacobian)
