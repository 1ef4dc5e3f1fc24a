"""Gradients through Python, NumPy and SciPy.

    gradients.py names GROUP                the cases of a group
    gradients.py run GROUP [FILE]           runs the cases; in forward mode the dot values of the outputs go to FILE
    gradients.py compare GROUP tape|dots PATH   compares with difference quotients, natively: a line for each case

Every case is a function from an array to an array. Its inputs are in the dtype of the case, the difference quotients (extrapolated) in binary64.
"""

import json
import math
import sys

import numpy as np
from numpy.core._multiarray_umath import __cpu_features__

# Sizes that are no multiples of the width of a vector, so that bodies and tails of loops both run.
N = 37
CASES = {}


def case(group, low=0.3, high=1.9, n=N, both=False, tolerance=1e-6):
    """Registers a function; `both` adds the same in binary32."""

    def register(function):
        add(group, function.__name__, function, low, high, n, both, tolerance)
        return function

    return register


def add(group, name, function, low=0.3, high=1.9, n=N, both=False, tolerance=1e-6):
    CASES.setdefault(group, {})[name] = (function, points(low, high, n), tolerance)
    if both:
        CASES[group][name + "/float32"] = (function, points(low, high, n).astype(np.float32), 2e-4)


def points(low, high, n):
    """Numbers in no order, no two the same."""
    steps = (np.arange(n) * 23 % 37 + 0.37 * np.arange(n) / n) / 37
    return low + (high - low) * steps


# Pure Python.


@case("python")
def loop(x):
    total = 0.0
    for i, v in enumerate(x.tolist()):
        total = total * 0.5 + v * v / (i + 1) - v
    return [total]


@case("python")
def functions(x):
    v = x.tolist()
    names = "sin cos tan exp log sqrt asin atan sinh cosh tanh asinh erf gamma lgamma expm1 log1p cbrt exp2 fabs log2 log10".split()
    return [getattr(math, name)(0.4 * v[i]) for i, name in enumerate(names) if hasattr(math, name)]


@case("python")
def two_arguments(x):
    a, b, c, d, *_ = x.tolist()
    return [math.atan2(a, b), math.hypot(a, b, c), math.pow(c, d), a**3, b**c, d**-2, 2**a, math.fmod(7 * a, 2.0), math.copysign(b, -1), a % 0.29, math.ldexp(c, 3)]


@case("python")
def sums(x):
    v = x.tolist()
    return [sum(v), math.fsum(v), sum(a * b for a, b in zip(v, v[1:])), math.prod(v), max(v), min(v)]


@case("python")
def classes(x):
    class Dual:
        __slots__ = ("value", "slope")

        def __init__(self, value, slope):
            self.value, self.slope = value, slope

        def __mul__(self, other):
            return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    product = Dual(1.0, 0.0)
    for v in x.tolist()[:8]:
        product = product * Dual(v, 1.0)
    return [product.value, product.slope]


@case("python")
def containers(x):
    v = sorted(x.tolist(), key=lambda a: -abs(a - 1))
    named = {str(i): a * a for i, a in enumerate(v)}
    named["sum"] = sum(named.values())
    first, *_, last = sorted(named.items(), key=lambda item: item[1])
    return [first[1], last[1], v[0], v[5], named["7"]]


@case("python")
def complex_numbers(x):
    a, b, c, d, *_ = x.tolist()
    z = complex(a, b) * complex(c, d) / complex(d, a)
    return [z.real, z.imag, abs(z)]


@case("python")
def packed(x):
    import array
    import struct

    data = array.array("d", x.tolist())
    (single,) = struct.unpack("<d", struct.pack("<d", data[3]))
    return [data[0] * data[1], single * data[2]]


@case("python", n=4)
def newton(x):
    a = x.tolist()[0]
    y = 1.0
    for _ in range(12):
        y -= (y**3 + y - a) / (3 * y * y + 1)
    return [y]


@case("python", n=4)
def runge_kutta(x):
    a, b, *_ = x.tolist()
    f = lambda q, p: (p, -a * math.sin(q))
    q, p, h = b, 0.0, 0.05
    for _ in range(20):
        k = f(q, p)
        m = f(q + h / 2 * k[0], p + h / 2 * k[1])
        q, p = q + h * m[0], p + h * m[1]
    return [q, p]


# Universal functions.

for name in "negative absolute sqrt square reciprocal exp exp2 expm1 log log2 log10 sin cos sinh cosh tanh arcsinh arctan cbrt".split():
    add("ufuncs", name, getattr(np, name), both=True)
    add("ufuncs", name + "/strided", lambda x, f=getattr(np, name): f(x[::2]), both=True)
# By arithmetic on bits in binary32, where there is AVX-512.
AVX512 = "/avx512" if __cpu_features__.get("AVX512_SKX") else ""
add("ufuncs", "log1p", np.log1p)
CASES["ufuncs"]["log1p/float32" + AVX512] = (np.log1p, points(0.3, 1.9, N).astype(np.float32), 2e-4)
for name in "absolute exp exp2 expm1 sin cos sinh tanh arcsinh arctan cbrt positive conjugate".split():
    add("ufuncs", name + "/signs", getattr(np, name), low=-4.1, high=5.3, both=True, tolerance=1e-5)
for name in "exp exp2 sin cos log sqrt log2".split():
    add("ufuncs", name + "/large", getattr(np, name), low=6.1, high=21.0, both=True, tolerance=1e-5)
for name in "arcsin arccos arctanh".split():
    add("ufuncs", name, getattr(np, name), low=-0.8, high=0.7, both=True)
add("ufuncs", "tan", np.tan, low=-1.1, high=1.2, both=True)
add("ufuncs", "arccosh", np.arccosh, low=1.2, high=3.0, both=True)
for name in "add subtract multiply divide power maximum minimum fmax fmin arctan2 hypot logaddexp float_power copysign".split():
    add("ufuncs", name, lambda x, f=getattr(np, name): f(x, x[::-1] + 0.21), both=name != "float_power")
for name in "remainder fmod".split():
    add("ufuncs", name, lambda x, f=getattr(np, name): f(x * 5, 0.7 + 0.1 * x), low=0.31, high=1.87)


@case("ufuncs", both=True)
def integer_powers(x):
    return np.concatenate([x**2, x**3, x**-1, x**0.5, x**7])


@case("ufuncs", both=True)
def scalars(x):
    return np.concatenate([2 * x, x / 3, 3 / x, x - 1, 1 - x, x[0] * x])


@case("ufuncs", both=True)
def in_place(x):
    y = x.copy()
    y *= x
    y += 1
    y /= x
    y -= x
    np.sin(y, out=y)
    return y


@case("ufuncs", low=-1.1, high=1.2, both=True)
def choice(x):
    return np.concatenate([np.where(x > 0, x * x, -x), np.clip(x, -0.5, 0.5), np.select([x < -0.3, x < 0.4], [x, 2 * x], 3 * x), np.sin(x, where=x > 0, out=np.zeros_like(x))])


# Arrays.

for name in "sum prod mean std var max min ptp median cumsum cumprod diff sort gradient trapz flip copy ravel".split():
    add("arrays", name, lambda x, f=getattr(np, name): np.atleast_1d(f(x)), both=True)
add("arrays", "sum/long", lambda x: np.array([np.sum(np.tile(x, 60)), np.mean(np.outer(x, x))]), both=True)
add("arrays", "cos/long", lambda x: np.cos(np.tile(x, 20))[::7], both=True)
add("arrays", "exp/long", lambda x: np.exp(np.tile(x, 20))[::7], both=True)


@case("arrays", n=36, both=True)
def products(x):
    a = x.reshape(6, 6)
    return np.concatenate([(a @ a).ravel(), a @ a[0], [np.dot(x, x), np.inner(a[0], a[1]), np.vdot(a[2], a[3])], np.outer(a[0], a[1]).ravel()])


@case("arrays", n=36, both=True)
def einsum(x):
    a = x.reshape(6, 6)
    return np.concatenate([np.einsum("ij,jk->ik", a, a).ravel(), np.einsum("ii->i", a), [np.einsum("ij,ij", a, a)], np.einsum("ij->j", a)])


@case("arrays", n=36, both=True)
def axes(x):
    a = x.reshape(6, 6)
    return np.concatenate([a.sum(0), a.sum(1), a.mean(0), a.std(1), a.max(0), a.min(1), a.cumsum(1).ravel(), a.T.ravel(), a.prod(0)])


@case("arrays", n=36, both=True)
def broadcasting(x):
    a = x.reshape(6, 6)
    return np.concatenate([(a * a[0]).ravel(), (a + a[:, :1]).ravel(), (a[:, None] - a[None]).sum(2).ravel()])


@case("arrays", both=True)
def indexing(x):
    order = np.argsort(x)
    y = np.zeros_like(x)
    np.add.at(y, order % 5, x)
    z = x.copy()
    z[3:20:4] = x[1:6] ** 2
    z[z > 1.5] *= 2
    return np.concatenate([x[order], x[[4, 4, 1]], x[x > 1], np.take(x, order[:4]), y[:5], z, np.roll(x, 3), np.repeat(x[:3], 2)])


@case("arrays")
def conversions(x):
    return np.concatenate([x.astype(np.longdouble).astype(float), x.astype(complex).real * 2, np.array(x.tolist()), np.frombuffer(x.tobytes()), np.hstack([x, x])])




@case("arrays", both=True)
def convolution(x):
    return np.concatenate([np.convolve(x, x[:5]), np.correlate(x, x[:4]), np.interp([0.3, 1.7, 4.2], np.arange(N), x), np.polyval(x[:4], x)])


@case("arrays")
def complex_ufuncs(x):
    z = np.exp(1j * x) * (x + 2j) / (1 + 1j * x)
    return np.concatenate([z.real, z.imag, abs(z), np.angle(z), np.sqrt(z).real])


@case("arrays")
def fft(x):
    z = np.fft.fft(x)
    r = np.fft.rfft(x[:32])
    return np.concatenate([z.real, z.imag, r.real, abs(np.fft.ifft(z * z)), np.fft.irfft(r * r)])


# Linear algebra.


def matrix(x):
    a = x.reshape(6, 6)
    return a + 6 * np.eye(6, dtype=x.dtype)


def symmetric(x):
    a = x.reshape(6, 6)
    return (a + a.T) / 2 + np.diag(np.arange(6)).astype(x.dtype)


for name, function in {
    "solve": lambda x: np.linalg.solve(matrix(x), x[:6]),
    "inv": lambda x: np.linalg.inv(matrix(x)).ravel(),
    "det": lambda x: np.array([np.linalg.det(matrix(x)) * 1e-4, np.linalg.slogdet(matrix(x))[1]]),
    "eigvalsh": lambda x: np.linalg.eigvalsh(symmetric(x)),
    "eigh": lambda x: np.concatenate([np.linalg.eigh(symmetric(x))[0], np.linalg.eigh(symmetric(x))[1].ravel() ** 2]),
    "svd": lambda x: np.linalg.svd(matrix(x), compute_uv=False),
    "singular_vectors": lambda x: np.linalg.svd(matrix(x))[0].ravel() ** 2,
    "qr": lambda x: abs(np.linalg.qr(matrix(x))[1]).ravel(),
    "cholesky": lambda x: np.linalg.cholesky(symmetric(x) @ symmetric(x) + np.eye(6, dtype=x.dtype)).ravel(),
    "lstsq": lambda x: np.linalg.lstsq(matrix(x)[:, :4], x[:6], rcond=None)[0],
    "norm": lambda x: np.array([np.linalg.norm(x), np.linalg.norm(matrix(x), 2)]),
    "pinv": lambda x: np.linalg.pinv(matrix(x)[:, :4]).ravel(),
    "eigvals": lambda x: np.sort(np.linalg.eigvals(matrix(x) @ np.diag(np.arange(1, 7)).astype(x.dtype)).real),
}.items():
    add("linalg", name, function, n=36, tolerance=1e-5)


# SciPy.


@case("scipy", n=4, tolerance=1e-5)
def solve_ivp(x):
    from scipy.integrate import solve_ivp

    out = []
    for method in ("RK45", "DOP853"):
        s = solve_ivp(lambda t, y: [y[1], x[0] * (1 - y[0] ** 2) * y[1] - x[1] * y[0]], (0, 1.0), x[2:4], method=method, rtol=1e-9, atol=1e-11)
        out.append(s.y[:, -1])
    return np.concatenate(out)


@case("scipy", n=4, tolerance=1e-4)
def stiff(x):
    from scipy.integrate import solve_ivp

    s = solve_ivp(lambda t, y: -x[0] * 5 * y + x[1] * np.cos(t), (0, 1.0), x[2:4], method="Radau", rtol=1e-8, atol=1e-10)
    return s.y[:, -1]


@case("scipy", n=4)
def quad(x):
    from scipy.integrate import quad

    return [quad(lambda t: math.exp(-x[0] * t) * math.sin(x[1] * t), 0, 2.0)[0]]


@case("scipy", n=4)
def roots(x):
    from scipy.optimize import brentq, newton

    f = lambda y: y**3 + x[0] * y - x[1] - 1
    return [brentq(f, 0.0, 4.0, xtol=1e-14), newton(f, 1.0, fprime=lambda y: 3 * y * y + x[0])]


@case("scipy")
def splines(x):
    from scipy.interpolate import CubicSpline, PchipInterpolator, interp1d

    at = np.array([0.3, 5.7, 20.2])
    nodes = np.arange(N)
    return np.concatenate([f(nodes, x)(at) for f in (CubicSpline, PchipInterpolator, interp1d)])


@case("scipy", n=8)
def special(x):
    from scipy import special as s

    return np.concatenate([f(x) for f in (s.gamma, s.gammaln, s.erf, s.erfc, s.j0, s.j1, s.digamma, s.expit, s.i0, s.ndtr, s.exp1)])


def weights(n):
    return np.cos(1.0 + 0.7 * np.arange(n))


def dots(x):
    return np.sin(0.3 + 1.1 * np.arange(x.size)).astype(x.dtype)


def difference_quotient(function, x, direction):
    """The derivative in a direction by extrapolated difference quotients, in binary64."""
    x = x.astype(np.float64)
    value = lambda h: np.asarray(function(x + h * direction), dtype=np.float64)
    central = lambda h: (value(h) - value(-h)) / (2 * h)
    return (4 * central(5e-5) - central(1e-4)) / 3


def run(group, path):
    import derivgrind

    results = {}
    for name, (function, x, _) in CASES[group].items():
        if derivgrind.mode() == "forward":
            y = np.asarray(function(derivgrind.set_dotvalue(x.copy(), dots(x))))
            results[name] = np.asarray(derivgrind.get_dotvalue(y)).tolist()
        else:
            derivgrind.outputf(np.asarray(function(derivgrind.inputf(x.copy()))))
    if path:
        with open(path, "w") as file:
            json.dump(results, file)


def worst(came, expected):
    with np.errstate(all="ignore"):
        error = np.abs(came - expected) / (1 + np.abs(expected))
    return np.inf if not np.all(np.isfinite(error)) else float(np.max(error, initial=0.0))


def compare(group, kind, path):
    """Forward mode: the dot values. A recording: the bar values of all inputs for weights of the outputs."""
    cases = CASES[group]
    outputs = {name: np.asarray(f(x)).size for name, (f, x, _) in cases.items()}
    if kind == "tape":
        import derivgrind_tape

        tape = derivgrind_tape.load(path)
        bars = tape.reverse(np.concatenate([weights(n) for n in outputs.values()]))
    else:
        with open(path) as file:
            results = json.load(file)
    at = 0
    for name, (function, x, tolerance) in cases.items():
        if kind == "tape":
            came = bars[at : at + x.size]
            at += x.size
            w = weights(outputs[name])
            directions = np.eye(x.size)
            expected = np.array([w @ difference_quotient(function, x, e) for e in directions])
        else:
            came = np.array(results[name])
            expected = difference_quotient(function, x, dots(x).astype(np.float64))
        error = worst(came, expected)
        print(f"{name}\t{'ok' if error <= tolerance else 'wrong'}\t{error:.1e}")


def main():
    command, group, *rest = sys.argv[1:]
    if command == "names":
        print(*CASES[group], sep="\n")
    elif command == "run":
        run(group, *(rest or [None]))
    else:
        compare(group, *rest)


if __name__ == "__main__":
    main()
