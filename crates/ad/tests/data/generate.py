#!/usr/bin/env python3
"""Makes the reference data of `math_reference.rs` and the coefficients of `src/math/digamma.rs`.

    pip install mpmath==1.3.0
    python3 generate.py > math_reference.txt
    python3 generate.py --digamma

A line has the function's name, its integer argument (or `-`), its real arguments, its value and its partial derivatives, each number
rounded once to binary64 and printed so that it is read back exactly. Derivatives are differences of the function itself, computed with
60 digits more than needed, not evaluated formulas: so a wrong formula on the tested side shows.
Points are pseudo-random with a fixed seed. Every second point has arguments that are binary32 numbers, for the binary32 functions.
"""
import random
import struct
import sys
from fractions import Fraction

import mpmath as mp

POINTS = 64
mp.mp.dps = 60


def single(x):
    """x rounded to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def rounded(value):
    """value rounded to binary64, also where the result is subnormal."""
    if value == 0:
        return 0.0
    exponent = max(int(mp.floor(mp.log(abs(value), 2))), -1022) - 52
    return float(mp.ldexp(mp.nint(mp.ldexp(value, -exponent)), exponent))


def uniform(low, high):
    return lambda rng: rng.uniform(low, high)


def magnitudes(low, high, signed=False):
    """Numbers of all orders of magnitude between 10^low and 10^high."""
    return lambda rng: 10 ** rng.uniform(low, high) * (rng.choice([-1, 1]) if signed else 1)


def around(centre, low=-12, high=-0.5):
    """Numbers that are close to the centre, on both sides."""
    return lambda rng: centre + 10 ** rng.uniform(low, high) * rng.choice([-1, 1])


def one_of(*samplers):
    return lambda rng: rng.choice(samplers)(rng)


def derivative(f, x, digits=260):
    """f′(x) as a central difference, extrapolated; the digits have to outweigh the cancellation in it."""
    with mp.workdps(digits):
        x = mp.mpf(x)
        h = mp.mpf(10) ** -60 * abs(x)
        central = lambda h: (f(x + h) - f(x - h)) / (2 * h)
        return (4 * central(h / 2) - central(h)) / 3


def quotient(x, y, rounding):
    """The integer n of x − n·y, for the partial derivatives 1 and −n."""
    return rounding(Fraction(x) / Fraction(y))


def half_even(q):
    return round(q)


def truncated(q):
    return int(q)


SMOOTH1 = {
    "acos": (mp.acos, one_of(uniform(-1, 1), magnitudes(-300, -1, True), lambda r: 1 - 10 ** r.uniform(-12, -1))),
    "acosh": (mp.acosh, one_of(magnitudes(0, 300), lambda r: 1 + 10 ** r.uniform(-12, 0))),
    "asin": (mp.asin, one_of(uniform(-1, 1), magnitudes(-300, -1, True), lambda r: 1 - 10 ** r.uniform(-12, -1))),
    "asinh": (mp.asinh, one_of(magnitudes(-30, 30, True), uniform(-3, 3))),
    "atan": (mp.atan, one_of(magnitudes(-30, 150, True), uniform(-3, 3))),
    "atanh": (mp.atanh, one_of(uniform(-1, 1), magnitudes(-30, -1, True), lambda r: 1 - 10 ** r.uniform(-12, -1))),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), magnitudes(-150, 150, True)),
    "cos": (mp.cos, one_of(uniform(-10, 10), magnitudes(-20, 15, True))),
    "cosh": (mp.cosh, one_of(uniform(-20, 20), uniform(-700, 700), magnitudes(-20, 0, True))),
    "erf": (mp.erf, one_of(uniform(-6, 6), uniform(-26, 26), magnitudes(-20, 0, True))),
    "erfc": (mp.erfc, one_of(uniform(-6, 6), uniform(-26, 26), magnitudes(-20, 0, True))),
    "exp": (mp.exp, one_of(uniform(-5, 5), uniform(-700, 700), magnitudes(-20, 0, True))),
    "exp10": (lambda x: mp.power(10, x), one_of(uniform(-5, 5), uniform(-300, 300), magnitudes(-20, 0, True))),
    "exp2": (lambda x: mp.power(2, x), one_of(uniform(-5, 5), uniform(-1000, 1000), magnitudes(-20, 0, True))),
    "expm1": (mp.expm1, one_of(uniform(-5, 5), uniform(-700, 700), magnitudes(-20, 0, True))),
    "j0": (mp.j0, one_of(uniform(-10, 10), uniform(10, 300), magnitudes(-10, 0))),
    "j1": (mp.j1, one_of(uniform(-10, 10), uniform(10, 300), magnitudes(-10, 0))),
    "lgamma": (lambda x: mp.log(abs(mp.gamma(x))), one_of(magnitudes(-20, 20), uniform(0.1, 14), around(1.4616321449683622), uniform(-20, 0))),
    "log": (mp.log, one_of(magnitudes(-300, 300), around(1))),
    "log10": (mp.log10, one_of(magnitudes(-300, 300), around(1))),
    "log1p": (mp.log1p, one_of(magnitudes(-300, 300), around(-0.5), lambda r: -1 + 10 ** r.uniform(-12, 0))),
    "log2": (lambda x: mp.log(x, 2), one_of(magnitudes(-300, 300), around(1))),
    "sin": (mp.sin, one_of(uniform(-10, 10), magnitudes(-20, 15, True))),
    "sinh": (mp.sinh, one_of(uniform(-20, 20), uniform(-700, 700), magnitudes(-20, 0, True))),
    "sqrt": (mp.sqrt, one_of(magnitudes(-300, 300), uniform(0, 4))),
    "tan": (mp.tan, one_of(uniform(-10, 10), magnitudes(-20, 15, True), around(1.5707963267948966, -8))),
    "tanh": (mp.tanh, one_of(uniform(-20, 20), uniform(-340, 340), magnitudes(-20, 0, True))),
    "tgamma": (mp.gamma, one_of(uniform(0.1, 14), uniform(14, 170), magnitudes(-20, 0, True), around(1.4616321449683622), uniform(-8, 0))),
    "y0": (lambda x: mp.bessely(0, x), one_of(uniform(0.1, 10), uniform(10, 300), magnitudes(-10, 0))),
    "y1": (lambda x: mp.bessely(1, x), one_of(uniform(0.1, 10), uniform(10, 300), magnitudes(-10, 0))),
}

SMOOTH2 = {
    "atan2": (mp.atan2, one_of(magnitudes(-140, 140, True), uniform(-2, 2))),
    "hypot": (mp.hypot, one_of(magnitudes(-300, 300, True), uniform(-2, 2))),
}

INTEGER_REAL = {
    "jn": (mp.besselj, one_of(uniform(0, 10), uniform(10, 60))),
    "yn": (mp.bessely, one_of(uniform(0.1, 10), uniform(10, 60))),
}

# Expensive in high precision, and with derivatives that are not small against the function.
SLOW = {"j0", "j1", "lgamma", "tgamma", "y0", "y1"}

REMAINDERS = {"fmod": truncated, "remainder": half_even, "remquo": half_even}


def row(name, integer, arguments, value, partials):
    numbers = [*arguments, value, *partials]
    print(name, integer, *(repr(float(number)) for number in numbers))


def in_range(*numbers):
    """All are zero or normal numbers of binary64, so that units in the last place mean something."""
    return all(n == 0 or 1e-306 < abs(n) < 1e306 for n in numbers)


def tabulate(rng, name, draw):
    done = 0
    while done < POINTS:
        narrow = done % 2 == 0
        shrink = single if narrow else float
        try:
            result = draw(shrink)
        except OverflowError:
            continue
        if result is None:
            continue
        integer, arguments, value, partials = result
        # A binary32 function's own value must be a number as well.
        if narrow and any(0 < abs(a) < 1.2e-38 for a in arguments):
            continue
        if not in_range(*arguments, value, *partials):
            continue
        row(name, integer, arguments, value, partials)
        done += 1


def main():
    rng = random.Random(20240607)
    for name, (f, sample) in SMOOTH1.items():
        def draw(shrink):
            x = shrink(sample(rng))
            try:
                return "-", [x], rounded(f(mp.mpf(x))), [rounded(derivative(f, x, 260 if name in SLOW else 1000))]
            except (ValueError, TypeError, AttributeError, ZeroDivisionError):
                return None
        tabulate(rng, name, draw)
    for name, (f, sample) in SMOOTH2.items():
        def draw(shrink):
            x = shrink(sample(rng))
            y = shrink(sample(rng) if rng.random() < 0.5 else x * rng.uniform(-2, 2))
            if x == 0 or y == 0:
                return None
            by_x = derivative(lambda t: f(t, mp.mpf(y)), x, 2000)
            by_y = derivative(lambda t: f(mp.mpf(x), t), y, 2000)
            return "-", [x, y], rounded(f(mp.mpf(x), mp.mpf(y))), [rounded(by_x), rounded(by_y)]
        tabulate(rng, name, draw)

    def draw_pow(shrink):
        kind = rng.randrange(4)
        if kind == 0:
            x, y = rng.uniform(0, 10), rng.uniform(-10, 10)
        elif kind == 1:
            x, y = 10 ** rng.uniform(-200, 200), rng.uniform(-1.4, 1.4)
        elif kind == 2:
            x, y = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-9, -3), 10 ** rng.uniform(-3, 5) * rng.choice([-1, 1])
        else:
            x, y = 10 ** rng.uniform(-280, 280), 10 ** rng.uniform(-20, -1) * rng.choice([-1, 1])
        x, y = shrink(x), shrink(y)
        f = lambda x, y: mp.exp(y * mp.log(x))
        value = f(mp.mpf(x), mp.mpf(y))
        if x <= 0 or not in_range(rounded(value)):
            return None
        by_x = derivative(lambda t: f(t, mp.mpf(y)), x)
        by_y = derivative(lambda t: f(mp.mpf(x), t), y)
        return "-", [x, y], rounded(value), [rounded(by_x), rounded(by_y)]
    tabulate(rng, "pow", draw_pow)

    for name, (f, sample) in INTEGER_REAL.items():
        def draw(shrink):
            n, x = rng.randint(-12, 12), shrink(sample(rng))
            return n, [x], rounded(f(n, mp.mpf(x))), [rounded(derivative(lambda t: f(n, t), x))]
        tabulate(rng, name, draw)

    for name, rounding in REMAINDERS.items():
        def draw(shrink):
            x, y = (shrink(rng.uniform(-1, 1) * 10 ** rng.uniform(-5, 5)) for _ in range(2))
            if y == 0:
                return None
            n = quotient(x, y, rounding)
            return "-", [x, y], float(Fraction(x) - n * Fraction(y)), [1.0, float(-n)]
        tabulate(rng, name, draw)

    def draw_frexp(shrink):
        x = shrink(10 ** rng.uniform(-37, 37) * rng.choice([-1, 1]))
        mantissa, exponent = mp.frexp(mp.mpf(x))
        return "-", [x], float(mantissa), [float(mp.ldexp(1, -exponent))]
    tabulate(rng, "frexp", draw_frexp)


def digamma_coefficients():
    zero = mp.findroot(lambda x: mp.psi(0, x), 1.46)
    quotient = lambda t: mp.psi(0, t + 1.5) / (t + 1.5 - zero)
    coefficients, error = mp.chebyfit(quotient, [-0.5, 0.5], 23, error=True)
    print("zero", repr(float(zero)), repr(float(zero - float(zero))))
    print("relative error", mp.nstr(error / quotient(mp.mpf("0.5")), 2))
    for coefficient in reversed(coefficients):
        print(repr(float(coefficient)))


if __name__ == "__main__":
    digamma_coefficients() if "--digamma" in sys.argv else main()
