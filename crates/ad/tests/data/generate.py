#!/usr/bin/env python3
"""Makes the reference data of `math_reference` and the coefficients of `src/math/digamma.rs`.

    pip install mpmath==1.3.0            # or Debian's python3-mpmath
    python3 generate.py > math_reference.txt
    python3 generate.py --points 1000 > many.txt
    python3 generate.py --digamma

A line has the function's name, its integer argument (or `-`), its real arguments, its value and its partial derivatives, each number
rounded once to binary64 and printed so that it is read back exactly. A complex number is two real ones; the derivative of a complex function is a complex
number for each argument. Derivatives are differences of the function itself, computed with
so many digits that twice as many give the same, not evaluated formulas: so a wrong formula on the tested side shows.
Points are pseudo-random with a fixed seed for each function. Every second point has arguments that are binary32 numbers, for the binary32 functions.
"""
import argparse
import multiprocessing
import random
import struct
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


def difference(f, x, digits):
    """f′(x) as a central difference, with an error of its step squared. The digits have to outweigh the cancellation."""
    with mp.workdps(digits):
        x = mp.mpmathify(x)
        h = mp.mpf(10) ** -40 * (abs(x) if x != 0 else 1)
        return (f(x + h) - f(x - h)) / (2 * h)


def derivative(f, x):
    """f′(x) to more than 20 digits."""
    digits = 100
    previous = difference(f, x, digits)
    while digits < 4000:
        digits *= 2
        current = difference(f, x, digits)
        if current != 0 and abs(current - previous) < mp.mpf(10) ** -25 * abs(current):
            return current
        previous = current
    raise ValueError("does not converge")


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
    "_gfortran_erfc_scaled_r8": (lambda x: mp.exp(x * x) * mp.erfc(x), one_of(uniform(-5, 30), magnitudes(-20, 3))),
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

C23 = {
    "acospi": (lambda x: mp.acos(x) / mp.pi, SMOOTH1["acos"][1]),
    "asinpi": (lambda x: mp.asin(x) / mp.pi, SMOOTH1["asin"][1]),
    "atanpi": (lambda x: mp.atan(x) / mp.pi, SMOOTH1["atan"][1]),
    "cospi": (mp.cospi, one_of(uniform(-3, 3), magnitudes(-20, 15, True), around(0.5))),
    "exp10m1": (lambda x: mp.power(10, x) - 1, SMOOTH1["exp10"][1]),
    "exp2m1": (lambda x: mp.power(2, x) - 1, SMOOTH1["exp2"][1]),
    "log10p1": (lambda x: mp.log(1 + x, 10), SMOOTH1["log1p"][1]),
    "log2p1": (lambda x: mp.log(1 + x, 2), SMOOTH1["log1p"][1]),
    "logp1": (lambda x: mp.log(1 + x), SMOOTH1["log1p"][1]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), SMOOTH1["sqrt"][1]),
    "sinpi": (mp.sinpi, one_of(uniform(-3, 3), magnitudes(-20, 15, True), around(0.5))),
    "tanpi": (lambda x: mp.sinpi(x) / mp.cospi(x), one_of(uniform(-3, 3), magnitudes(-20, 5, True))),
}

SMOOTH2 = {
    "atan2": (mp.atan2, one_of(magnitudes(-140, 140, True), uniform(-2, 2))),
    "atan2pi": (lambda x, y: mp.atan2(x, y) / mp.pi, one_of(magnitudes(-140, 140, True), uniform(-2, 2))),
    "cabs": (mp.hypot, one_of(magnitudes(-300, 300, True), uniform(-2, 2))),
    "carg": (lambda x, y: mp.atan2(y, x), one_of(magnitudes(-140, 140, True), uniform(-2, 2))),
    "hypot": (mp.hypot, one_of(magnitudes(-300, 300, True), uniform(-2, 2))),
}

ORDER = {
    "jn": (mp.besselj, one_of(uniform(0, 10), uniform(10, 60))),
    "yn": (mp.bessely, one_of(uniform(0.1, 10), uniform(10, 60))),
}

INTEGER = {
    "compoundn": (lambda x, n: (1 + x) ** n, one_of(uniform(-0.9, 3), around(0))),
    "pown": (lambda x, n: x**n, uniform(-5, 5)),
    "rootn": (lambda x, n: mp.sign(x) * abs(x) ** (mp.mpf(1) / n), magnitudes(-30, 30)),
}

# Parts of the argument of a complex function.
PART = one_of(uniform(-3, 3), magnitudes(-12, 2, True), lambda r: r.choice([-1, 1]) * (1 + r.choice([-1, 1]) * 10 ** r.uniform(-9, -1)))
SMALL_PART = one_of(uniform(-3, 3), magnitudes(-12, 1, True), uniform(-40, 40))

COMPLEX = {
    "cacos": (mp.acos, PART),
    "cacosh": (mp.acosh, PART),
    "casin": (mp.asin, PART),
    "casinh": (mp.asinh, PART),
    "catan": (mp.atan, PART),
    "catanh": (mp.atanh, PART),
    "ccos": (mp.cos, SMALL_PART),
    "ccosh": (mp.cosh, SMALL_PART),
    "cexp": (mp.exp, one_of(SMALL_PART, uniform(-300, 300))),
    "clog": (mp.log, one_of(PART, magnitudes(-150, 150, True))),
    "clog10": (mp.log10, one_of(PART, magnitudes(-150, 150, True))),
    "csin": (mp.sin, SMALL_PART),
    "csinh": (mp.sinh, SMALL_PART),
    "csqrt": (mp.sqrt, one_of(PART, magnitudes(-150, 150, True))),
    "ctan": (mp.tan, SMALL_PART),
    "ctanh": (mp.tanh, SMALL_PART),
}

REMAINDERS = {"fmod": truncated, "remainder": half_even, "remquo": half_even}


def row(name, integer, arguments, value, partials):
    numbers = [*arguments, value, *partials]
    print(name, integer, *(repr(float(number)) for number in numbers))


def in_range(*numbers):
    """All are zero or normal numbers of binary64, so that units in the last place mean something."""
    return all(n == 0 or 1e-306 < abs(n) < 1e306 for n in numbers)


def tabulate(name, points):
    """Lines of a function. Its points do not depend on those of other functions."""
    rng = random.Random(f"{name} 20240607")
    draw = DRAW[name]
    lines = []
    while len(lines) < points:
        narrow = len(lines) % 2 == 0
        try:
            result = draw(rng, single if narrow else float)
        except (OverflowError, ValueError, TypeError, AttributeError, ZeroDivisionError):
            continue
        if result is None:
            continue
        integer, arguments, value, partials = result
        # A binary32 function's own value must be a number as well.
        if narrow and any(0 < abs(a) < 1.2e-38 for a in arguments):
            continue
        if not in_range(*arguments, *value, *partials):
            continue
        numbers = [*arguments, *value, *partials]
        lines.append(" ".join([name, str(integer), *(repr(float(number)) for number in numbers)]))
    return lines


def draw_smooth(f, sample):
    def draw(rng, shrink):
        x = shrink(sample(rng))
        if x == 0:
            return None
        return "-", [x], [rounded(f(mp.mpf(x)))], [rounded(derivative(f, x))]
    return draw


def draw_smooth2(f, sample):
    def draw(rng, shrink):
        x = shrink(sample(rng))
        y = shrink(sample(rng) if rng.random() < 0.5 else x * rng.uniform(-2, 2))
        if x == 0 or y == 0:
            return None
        by_x = derivative(lambda t: f(t, mp.mpf(y)), x)
        by_y = derivative(lambda t: f(mp.mpf(x), t), y)
        return "-", [x, y], [rounded(f(mp.mpf(x), mp.mpf(y)))], [rounded(by_x), rounded(by_y)]
    return draw


def draw_pow(rng, shrink):
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
    if x <= 0 or x == 1 or y == 0 or not in_range(rounded(value)):
        return None
    by_x = derivative(lambda t: f(t, mp.mpf(y)), x)
    by_y = derivative(lambda t: f(mp.mpf(x), t), y)
    return "-", [x, y], [rounded(value)], [rounded(by_x), rounded(by_y)]


def draw_order(f, sample):
    def draw(rng, shrink):
        n, x = rng.randint(-12, 12), shrink(sample(rng))
        return n, [x], [rounded(f(n, mp.mpf(x)))], [rounded(derivative(lambda t: f(n, t), x))]
    return draw


def draw_integer(f, sample):
    def draw(rng, shrink):
        n, x = rng.choice([-1, 1]) * rng.randint(1, 30), shrink(sample(rng))
        return n, [x], [rounded(f(mp.mpf(x), n))], [rounded(derivative(lambda t: f(t, n), x))]
    return draw


def draw_remainder(rounding):
    def draw(rng, shrink):
        x, y = (shrink(rng.uniform(-1, 1) * 10 ** rng.uniform(-5, 5)) for _ in range(2))
        if y == 0:
            return None
        n = quotient(x, y, rounding)
        return "-", [x, y], [float(Fraction(x) - n * Fraction(y))], [1.0, float(-n)]
    return draw


def draw_frexp(rng, shrink):
    x = shrink(10 ** rng.uniform(-37, 37) * rng.choice([-1, 1]))
    mantissa, exponent = mp.frexp(mp.mpf(x))
    return "-", [x], [float(mantissa)], [float(mp.ldexp(1, -exponent))]


def parts(z):
    return [rounded(mp.re(z)), rounded(mp.im(z))]


def draw_complex(f, sample):
    def draw(rng, shrink):
        z = [shrink(sample(rng)), shrink(sample(rng))]
        if 0 in z:
            return None
        slope = parts(derivative(f, mp.mpc(*z)))
        return "-", z, parts(f(mp.mpc(*z))), slope
    return draw


def draw_complex_pow(rng, shrink):
    z, w = ([shrink(rng.uniform(-4, 4)), shrink(rng.uniform(-4, 4))] for _ in range(2))
    f = lambda z, w: mp.exp(w * mp.log(z))
    by_z = parts(derivative(lambda t: f(t, mp.mpc(*w)), mp.mpc(*z)))
    by_w = parts(derivative(lambda t: f(mp.mpc(*z), t), mp.mpc(*w)))
    return "-", [*z, *w], parts(f(mp.mpc(*z), mp.mpc(*w))), [*by_z, *by_w]


DRAW = {name: draw_smooth(*entry) for name, entry in {**SMOOTH1, **C23}.items()}
DRAW |= {name: draw_smooth2(*entry) for name, entry in SMOOTH2.items()}
DRAW |= {name: draw_order(*entry) for name, entry in ORDER.items()}
DRAW |= {name: draw_integer(*entry) for name, entry in INTEGER.items()}
DRAW |= {name: draw_remainder(rounding) for name, rounding in REMAINDERS.items()}
DRAW |= {name: draw_complex(*entry) for name, entry in COMPLEX.items()}
DRAW |= {"pow": draw_pow, "powr": draw_pow, "frexp": draw_frexp, "cpow": draw_complex_pow}


def main():
    arguments = argparse.ArgumentParser(description="Reference data of the math functions.")
    arguments.add_argument("--points", type=int, default=POINTS, help="for each function")
    arguments.add_argument("--digamma", action="store_true", help="the coefficients of digamma instead")
    arguments = arguments.parse_args()
    if arguments.digamma:
        digamma_coefficients()
        return
    with multiprocessing.Pool() as pool:
        work = [pool.apply_async(tabulate, (name, arguments.points)) for name in DRAW]
        for lines in work:
            print("\n".join(lines.get()))


def digamma_coefficients():
    zero = mp.findroot(lambda x: mp.psi(0, x), 1.46)
    quotient = lambda t: mp.psi(0, t + 1.5) / (t + 1.5 - zero)
    coefficients, error = mp.chebyfit(quotient, [-0.5, 0.5], 23, error=True)
    print("zero", repr(float(zero)), repr(float(zero - float(zero))))
    print("relative error", mp.nstr(error / quotient(mp.mpf("0.5")), 2))
    for coefficient in reversed(coefficients):
        print(repr(float(coefficient)))


if __name__ == "__main__":
    main()
