"""Functions of compiled libraries as PyTorch operations.

    y = derivgrind_torch.derivgrind("mylib.so", "myfun").apply(b"", x, 1)

calls ``void myfun(int param_size, char* param_buf, int input_count, T* input_buf, int output_count, T* output_buf)``, T = double or float by
the tensor's dtype.
"""

import torch

from derivgrind._external import NO_SECOND_DERIVATIVES, ExternalFunction

__all__ = ["derivgrind"]


def _array(x):
    """The elements of a tensor."""
    return x.detach().cpu().contiguous().numpy()


class _Backward(torch.autograd.Function):
    """The gradient, as an operation of its own that says that it has no derivative."""

    @staticmethod
    def forward(context, bars, x, pullback):
        gradient = torch.from_numpy(pullback(bars.detach().cpu().numpy()))
        return gradient.to(device=x.device, dtype=x.dtype).reshape(x.shape)

    @staticmethod
    def backward(context, *_):
        raise RuntimeError(NO_SECOND_DERIVATIVES)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(context, x, external, params, n_outputs):
        y, context.pullback = external.record(params, _array(x), n_outputs)
        context.save_for_backward(x)
        return torch.from_numpy(y).to(device=x.device)

    @staticmethod
    def backward(context, bars):
        (x,) = context.saved_tensors
        return _Backward.apply(bars, x, context.pullback), None, None, None


class derivgrind:
    """The function of a library as a PyTorch operation.

    ``arch`` is the library's architecture, ``timeout`` the longest duration of a call in seconds.
    """

    def __init__(self, library, function, arch="amd64", timeout=None):
        self._external = ExternalFunction(library, function, arch, timeout)

    def apply(self, params, x, n_outputs):
        """The ``n_outputs`` outputs of a call with the parameters ``params`` (bytes) and the elements of the tensor ``x``.

        ``x`` may have any shape; the result has one dimension, and the gradient the shape of ``x``. If no gradient is needed, the function runs
        natively.
        """
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"the input has to be a tensor, not {type(x).__name__}")
        if x.requires_grad and torch.is_grad_enabled():
            return _Function.apply(x, self._external, params, n_outputs)
        return torch.from_numpy(self._external.evaluate(params, _array(x), n_outputs)).to(device=x.device)

    def apply_batch(self, params, x, n_outputs):
        """The same for each ``x[i]`` by itself: the result has the shape ``(len(x), n_outputs)``."""
        return torch.stack([self.apply(params, row, n_outputs) for row in x])
