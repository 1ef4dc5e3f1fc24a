"""TensorFlow: gradients in eager mode and in graphs, dtypes, shapes, batches."""

import numpy as np
import tensorflow as tf
from common import raises

import derivgrind_tensorflow

layer = derivgrind_tensorflow.derivgrind("libfunctions.so", "layer")
params = bytes([2])


def reference(x, p, n_outputs):
    x = tf.reshape(x, [-1])
    n = int(x.shape[0])
    return tf.stack([tf.exp(-p * x[i % n]) * x[(i + 1) % n] for i in range(n_outputs)])


def gradients(function, x, n_outputs):
    weights = tf.cast(tf.range(1, n_outputs + 1), x.dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = function(x)
        z = tf.reduce_sum(y * weights)
    return y.numpy(), tape.gradient(z, x).numpy(), tape.gradient(y, x).numpy()


x = tf.Variable([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]], dtype=tf.float64)
for n_outputs in (1, 5):
    ours = gradients(lambda x: layer.apply(params, x, n_outputs), x, n_outputs)
    theirs = gradients(lambda x: reference(x, 2.0, n_outputs), x, n_outputs)
    graph = gradients(tf.function(lambda x: layer.apply(params, x, n_outputs)), x, n_outputs)
    for a, b, c in zip(ours, theirs, graph):
        assert a.shape == b.shape and np.allclose(a, b, rtol=1e-13) and np.allclose(c, b, rtol=1e-13)

single = derivgrind_tensorflow.derivgrind("libfunctions.so", "layer_single")
x32 = tf.constant(x.numpy(), tf.float32)
ours = gradients(lambda x: single.apply(params, x, 6), x32, 6)
theirs = gradients(lambda x: reference(x, 2.0, 6), x32, 6)
assert all(a.dtype == np.float32 and np.allclose(a, b, rtol=1e-4) for a, b in zip(ours, theirs))

with tf.GradientTape() as tape:
    batch = layer.apply_batch(params, x, 2)
    total = tf.reduce_sum(batch)
assert batch.shape == (2, 2) and np.allclose(batch[1], reference(x[1], 2.0, 2))
gradient = tape.gradient(total, x)
with tf.GradientTape() as tape:
    total = tf.reduce_sum(reference(x[0], 2.0, 2)) + tf.reduce_sum(reference(x[1], 2.0, 2))
assert np.allclose(gradient, tape.gradient(total, x), rtol=1e-13)

with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        y = layer.apply(params, x, 1)
    gradient = inner.gradient(y, x)
with raises(RuntimeError, "differentiates the function once"):
    outer.gradient(gradient, x)
print("passed")
