"""PyTorch: gradient checks, dtypes, shapes, batches, several backward passes."""

import numpy as np
import torch
from common import raises

import derivgrind
import derivgrind_torch

layer = derivgrind_torch.derivgrind("libfunctions.so", "layer")
params = bytes([2])


def reference(x, p, n_outputs):
    x = x.reshape(-1)
    return torch.stack([torch.exp(-p * x[i % len(x)]) * x[(i + 1) % len(x)] for i in range(n_outputs)])


x = torch.tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]], dtype=torch.float64, requires_grad=True)
for n_outputs in (1, 4, 6, 9):
    y = layer.apply(params, x, n_outputs)
    assert y.shape == (n_outputs,) and y.dtype == torch.float64
    assert torch.allclose(y, reference(x, 2.0, n_outputs), rtol=1e-14)
    bars = torch.arange(1.0, n_outputs + 1, dtype=torch.float64)
    (ours,) = torch.autograd.grad(y, x, bars)
    (theirs,) = torch.autograd.grad(reference(x, 2.0, n_outputs), x, bars)
    assert ours.shape == x.shape and torch.allclose(ours, theirs, rtol=1e-13)
assert torch.autograd.gradcheck(lambda x: layer.apply(params, x, 5), (x,))

# Several passes over one recording.
y = layer.apply(params, x, 3)
rows = [torch.autograd.grad(y, x, bar, retain_graph=True)[0] for bar in torch.eye(3, dtype=torch.float64)]
assert torch.allclose(torch.stack(rows), torch.autograd.functional.jacobian(lambda x: reference(x, 2.0, 3), x), rtol=1e-13)

# In the middle of a model, and not contiguous.
w = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
def model(apply):
    return (apply((w @ w.T).T[:, 1:]) ** 2).sum()
(ours,) = torch.autograd.grad(model(lambda x: layer.apply(params, x, 4)), w)
(theirs,) = torch.autograd.grad(model(lambda x: reference(x, 2.0, 4)), w)
assert torch.allclose(ours, theirs, rtol=1e-12)

single = derivgrind_torch.derivgrind("libfunctions.so", "layer_single")
x32 = x.detach().float().requires_grad_()
y = single.apply(params, x32, 6)
assert y.dtype == torch.float32
y.sum().backward()
(theirs,) = torch.autograd.grad(reference(x32, 2.0, 6).sum(), x32)
assert x32.grad.dtype == torch.float32 and torch.allclose(x32.grad, theirs, rtol=1e-4)

batch = layer.apply_batch(params, x, 2)
assert batch.shape == (2, 2) and torch.allclose(batch[1], reference(x[1], 2.0, 2))
(gradient,) = torch.autograd.grad(batch.sum(), x)
(theirs,) = torch.autograd.grad(reference(x[0], 2.0, 2).sum() + reference(x[1], 2.0, 2).sum(), x)
assert torch.allclose(gradient, theirs, rtol=1e-13)

# Without a gradient nothing is recorded.
def record(*_):
    raise AssertionError("recorded")
native = derivgrind_torch.derivgrind("libfunctions.so", "layer")
native._external.record = record
with torch.no_grad():
    assert not native.apply(params, x, 2).requires_grad
assert torch.equal(native.apply(params, x.detach(), 2), layer.apply(params, x, 2))
y = layer.apply(params, x, 1)
(gradient,) = torch.autograd.grad(y, x, create_graph=True)
with raises(RuntimeError, "differentiates the function once"):
    gradient.sum().backward()
with raises(TypeError, "float64 or float32", "int64"):
    layer.apply(params, torch.arange(3), 1)
with raises(TypeError, "tensor"):
    layer.apply(params, np.ones(3), 1)
with raises(ValueError, "number of outputs"):
    layer.apply(params, x, -1)
with raises(derivgrind.CallError, "SIGABRT"):
    derivgrind_torch.derivgrind("libfunctions.so", "layer_crashes").apply(b"", x, 1)
with raises(derivgrind.LoadError, "no_layer"):
    derivgrind_torch.derivgrind("libfunctions.so", "no_layer")
with raises(ValueError, "arch"):
    derivgrind_torch.derivgrind("libfunctions.so", "layer", arch="arm64")
print("passed")
