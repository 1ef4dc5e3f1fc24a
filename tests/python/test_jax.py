"""JAX: gradients under jit and vmap, dtypes, shapes."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from common import raises

import derivgrind_jax

layer = derivgrind_jax.derivgrind("libfunctions.so", "layer")
params = bytes([2])


def reference(x, p, n_outputs):
    x = x.reshape(-1)
    n = x.shape[0]
    return jnp.stack([jnp.exp(-p * x[i % n]) * x[(i + 1) % n] for i in range(n_outputs)])


x = jnp.array([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]])
f = layer.function(params, 4)
g = lambda x: reference(x, 2.0, 4)
weights = jnp.arange(1.0, 5.0)
for wrap in (lambda h: h, jax.jit):
    assert np.allclose(wrap(f)(x), g(x), rtol=1e-14)
    ours = wrap(jax.grad(lambda x: f(x) @ weights))(x)
    theirs = jax.grad(lambda x: g(x) @ weights)(x)
    assert ours.shape == x.shape and np.allclose(ours, theirs, rtol=1e-13)
    assert np.allclose(wrap(jax.vmap(f))(x), jax.vmap(g)(x), rtol=1e-14)
    ours = wrap(jax.vmap(jax.grad(lambda x: f(x) @ weights)))(x)
    theirs = jax.vmap(jax.grad(lambda x: g(x) @ weights))(x)
    assert np.allclose(ours, theirs, rtol=1e-13)
assert np.allclose(jax.jacrev(f)(x), jax.jacrev(g)(x), rtol=1e-13)

single = derivgrind_jax.derivgrind("libfunctions.so", "layer_single").function(params, 6)
x32 = x.astype(jnp.float32)
gradient = jax.grad(lambda x: single(x).sum())(x32)
assert gradient.dtype == jnp.float32
assert np.allclose(gradient, jax.grad(lambda x: reference(x, 2.0, 6).sum())(x32), rtol=1e-4)
assert np.allclose(layer.apply(params, x, 2), reference(x, 2.0, 2))

with raises(RuntimeError, "differentiates the function once"):
    jax.grad(lambda x: jax.grad(lambda x: f(x).sum())(x).sum())(x)
print("passed")
