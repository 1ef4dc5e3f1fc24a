"""Functions of compiled libraries as JAX functions.

    f = derivgrind_jax.derivgrind("mylib.so", "myfun").function(b"", 1)
    jax.grad(lambda x: f(x)[0])(x)

calls ``void myfun(int param_size, char* param_buf, int input_count, T* input_buf, int output_count, T* output_buf)``, T = double or float by
the array's dtype. It works under ``jit``, ``vmap`` and ``grad``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from derivgrind._external import NO_SECOND_DERIVATIVES, ExternalFunction

__all__ = ["derivgrind"]


class derivgrind:
    """The function of a library as a JAX function.

    ``arch`` is the library's architecture, ``timeout`` the longest duration of a call in seconds.
    """

    def __init__(self, library, function, arch="amd64", timeout=None):
        self._external = ExternalFunction(library, function, arch, timeout)

    def function(self, params, n_outputs):
        """A function from an array of any shape to the ``n_outputs`` outputs, with the parameters ``params`` (bytes)."""
        external = self._external

        def evaluate(x):
            return external.evaluate(params, np.array(x), n_outputs)

        def gradient(x, bars):
            _, pullback = external.record(params, np.array(x), n_outputs)
            return pullback(np.asarray(bars)).astype(x.dtype, copy=False)

        @jax.custom_vjp
        def f(x):
            shape = jax.ShapeDtypeStruct((n_outputs,), x.dtype)
            return jax.pure_callback(evaluate, shape, x, vmap_method="sequential")

        @jax.custom_vjp
        def backward(x, bars):
            return jax.pure_callback(gradient, jax.ShapeDtypeStruct(x.shape, x.dtype), x, bars, vmap_method="sequential")

        def refuse(*_):
            raise RuntimeError(NO_SECOND_DERIVATIVES)

        backward.defvjp(refuse, refuse)
        f.defvjp(lambda x: (f(x), x), lambda x, bars: (backward(x, bars),))
        return lambda x: f(jnp.asarray(x))

    def apply(self, params, x, n_outputs):
        """The outputs of a call with the parameters ``params`` and the elements of the array ``x``."""
        return self.function(params, n_outputs)(x)
