"""Fits the rates of a predator-prey model to data with torch.optim. The solver is a compiled Fortran library:

    gfortran -O2 -shared -fPIC predators.f90 -o libpredators.so
    PYTHONPATH=$(derivgrind config --pythondir) python3 fit.py

Prints how the loss falls, compares the gradient with difference quotients, and draws fit.png (if matplotlib is installed).
"""

import struct
import sys

import torch

import derivgrind_torch

TIMES, DURATION = 40, 15.0
solver = derivgrind_torch.derivgrind("./libpredators.so", "predators")
params = struct.pack("d", DURATION)


def solve(logarithms):
    """Populations at all times; logarithms keep rates and populations positive."""
    return solver.apply(params, logarithms.exp(), 2 * TIMES).reshape(TIMES, 2)


torch.manual_seed(1)
true = torch.tensor([1.1, 0.4, 0.1, 0.4, 10.0, 5.0], dtype=torch.float64)
data = solve(true.log()) * (1 + 0.002 * torch.randn(TIMES, 2, dtype=torch.float64))
x = (true * torch.tensor([0.8, 1.2, 1.1, 0.9, 0.9, 1.1], dtype=torch.float64)).log().requires_grad_()
start = solve(x).detach()


def loss_of(x):
    return ((solve(x) - data) ** 2).mean()


loss = loss_of(x)
loss.backward()
step = 1e-6
for position in range(len(x)):
    shift = step * torch.eye(len(x), dtype=torch.float64)[position]
    with torch.no_grad():
        quotient = (loss_of(x + shift) - loss_of(x - shift)) / (2 * step)
    assert abs(quotient - x.grad[position]) < 1e-5 * x.grad.abs().max(), (position, quotient, x.grad)
print("the gradient agrees with difference quotients")

optimizer = torch.optim.LBFGS([x], max_iter=100 if "--short" in sys.argv else 300, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = loss_of(x)
    loss.backward()
    return loss


optimizer.step(closure)
final = loss_of(x).item()
print(f"loss: {loss.item():.4g} before, {final:.4g} after, a factor of {loss.item() / final:.0f}")
print("rates:", *(f"{value:.3f}" for value in x.detach().exp()), "; the data's:", *(f"{value:.3f}" for value in true))
assert loss.item() > 1000 * final

try:
    import matplotlib
except ImportError:
    print("no plot: matplotlib is not installed")
else:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times = torch.linspace(DURATION / TIMES, DURATION, TIMES)
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for k, (name, colour) in enumerate([("prey", "tab:blue"), ("predators", "tab:red")]):
        axes.plot(times, data[:, k], "o", color=colour, markersize=4, label=f"{name}, data")
        axes.plot(times, start[:, k], ":", color=colour, label=f"{name}, before the fit")
        axes.plot(times, solve(x).detach()[:, k], "-", color=colour, label=f"{name}, fitted")
    axes.set_xlabel("time")
    axes.set_ylabel("population")
    axes.set_title("A Fortran solver fitted to data with torch.optim")
    axes.legend()
    figure.tight_layout()
    figure.savefig("fit.png", dpi=120)
    print("drawn: fit.png")
