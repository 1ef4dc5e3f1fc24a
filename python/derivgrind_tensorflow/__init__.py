"""Functions of compiled libraries as TensorFlow operations.

    y = derivgrind_tensorflow.derivgrind("mylib.so", "myfun").apply(b"", x, 1)

calls ``void myfun(int param_size, char* param_buf, int input_count, T* input_buf, int output_count, T* output_buf)``, T = double or float by
the tensor's dtype. It works in eager mode and inside ``tf.function``.
"""

import numpy as np
import tensorflow as tf

from derivgrind._external import NO_SECOND_DERIVATIVES, ExternalFunction

__all__ = ["derivgrind"]


class derivgrind:
    """The function of a library as a TensorFlow operation.

    ``arch`` is the library's architecture, ``timeout`` the longest duration of a call in seconds.
    """

    def __init__(self, library, function, arch="amd64", timeout=None):
        self._external = ExternalFunction(library, function, arch, timeout)

    def apply(self, params, x, n_outputs):
        """The ``n_outputs`` outputs of a call with the parameters ``params`` (bytes) and the elements of the tensor ``x``.

        ``x`` may have any shape; the result has one dimension, and the gradient the shape of ``x``.
        """
        x = tf.convert_to_tensor(x)
        external = self._external

        @tf.custom_gradient
        def operation(x):
            y = tf.numpy_function(lambda x: external.evaluate(params, np.asarray(x), n_outputs), [x], x.dtype, stateful=False)
            y.set_shape([n_outputs])

            def gradient(bars):
                @tf.custom_gradient
                def backward(x, bars):
                    result = tf.numpy_function(recorder.pull, [x, bars], x.dtype)
                    result.set_shape(x.shape)

                    def second(*_):
                        raise RuntimeError(NO_SECOND_DERIVATIVES)

                    return result, second

                return backward(x, bars)

            return y, gradient

        recorder = _Recorder(external, params, n_outputs)
        return operation(x)

    def apply_batch(self, params, x, n_outputs):
        """The same for each ``x[i]`` by itself: the result has the shape ``(len(x), n_outputs)``."""
        return tf.map_fn(lambda row: self.apply(params, row, n_outputs), x)


class _Recorder:
    """Records when a gradient is asked for first, and keeps the recording for further ones at the same place."""

    def __init__(self, external, params, n_outputs):
        self._external, self._params, self._n_outputs = external, params, n_outputs
        self._at, self._pullback = None, None

    def pull(self, x, bars):
        """The gradient at x."""
        x = np.asarray(x)
        if self._at is None or not (self._at.shape == x.shape and np.array_equal(self._at, x, equal_nan=True)):
            _, self._pullback = self._external.record(self._params, x, self._n_outputs)
            self._at = x.copy()
        return self._pullback(bars).astype(x.dtype, copy=False)
