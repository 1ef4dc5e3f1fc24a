"""A script of the usual kind: classes, generators, text, numbers, standard library modules."""

import base64
import bisect
import collections
import contextlib
import csv
import dataclasses
import datetime
import decimal
import fractions
import functools
import hashlib
import heapq
import io
import itertools
import json
import math
import operator
import os
import random
import re
import statistics
import string
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import unicodedata
import zlib


@dataclasses.dataclass(order=True)
class Item:
    weight: float
    name: str = dataclasses.field(compare=False)
    tags: list = dataclasses.field(default_factory=list, compare=False)


class Matrix:
    def __init__(self, rows):
        self.rows = [list(row) for row in rows]

    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows])

    def __pow__(self, exponent):
        result = Matrix([[float(i == j) for j in range(len(self.rows))] for i in range(len(self.rows))])
        for _ in range(exponent):
            result = result @ self
        return result

    def __repr__(self):
        return "; ".join(", ".join(f"{value:.6g}" for value in row) for row in self.rows)


def primes():
    composite = {}
    for number in itertools.count(2):
        if number not in composite:
            yield number
            composite[number * number] = [number]
        else:
            for prime in composite.pop(number):
                composite.setdefault(number + prime, []).append(prime)


def integrate(function, lower, upper, steps=200):
    width = (upper - lower) / steps
    inner = math.fsum(function(lower + index * width) for index in range(1, steps))
    return width * (inner + (function(lower) + function(upper)) / 2)


@functools.lru_cache(maxsize=None)
def partitions(number, largest):
    if number == 0:
        return 1
    return sum(partitions(number - part, part) for part in range(1, min(number, largest) + 1))


def section(title):
    print(f"--- {title} ---")


section("numbers")
print(list(itertools.islice(primes(), 25)))
print(integrate(math.sin, 0.0, math.pi), integrate(lambda x: math.exp(-x * x), -3, 3))
print(Matrix([[1, 1], [1, 0]]) ** 20)
print(partitions(60, 60), math.factorial(50), math.comb(60, 30), pow(3, 1000, 10**9 + 7))
print(fractions.Fraction(355, 113) - fractions.Fraction(22, 7), math.gcd(2**40, 6**20), math.isqrt(2 * 10**40))
decimal.getcontext().prec = 60
print(decimal.Decimal(2).sqrt(), decimal.Decimal(1) / 7)
print(statistics.mean(range(100)), statistics.stdev(range(100)), statistics.median([3, 1, 2]))
print([f"{value:.17g}" for value in (0.1, 1 / 3, 1e22, 5e-324, 1.7976931348623157e308)])
print(float.fromhex("0x1.8p3"), (0.1).hex(), round(2.675, 2), divmod(-7, 3), -7 % 3.5, complex(1, 2) ** 2)
random.seed(12345)
print([random.random() for _ in range(3)], random.sample(range(1000), 5), random.gauss(0, 1))

section("text")
text = "The quick brown fox jumps over the lazy dog. " * 20
print(collections.Counter(re.findall(r"\w+", text.lower())).most_common(4))
print(re.sub(r"(\w+) (\w+)", r"\2 \1", text)[:60])
print(textwrap.fill(text, 40).splitlines()[:3])
print(unicodedata.normalize("NFD", "éü").encode("utf-8"), "straße".upper(), "ß".casefold())
print(string.Template("$who likes $what").substitute(who="tim", what="kung pao"))
print("{:>10}|{:^10}|{:<10}|{:+.3e}".format("right", "middle", "left", 12345.678))
print(ascii("日本語"), "日本語".encode("utf-16"))

section("data")
items = [Item(random.random(), name) for name in "abcdefghij"]
heapq.heapify(items)
print([heapq.heappop(items).name for _ in range(len(items))])
print(json.dumps({"pi": math.pi, "list": [1, None, True, "x"], "nested": {"a": {}}}, sort_keys=True))
print(json.loads('{"a": [1.5e3, -0, "\\u00e9"]}'))
rows = list(csv.reader(io.StringIO('a,"b ""quoted""",c\n1,2,3\n')))
print(rows, bisect.bisect([1, 3, 5, 7], 4))
print(struct.unpack("<dfiH", struct.pack("<dfiH", math.e, 1.5, -7, 65535)))
print(hashlib.sha256(text.encode()).hexdigest(), zlib.crc32(text.encode()))
print(len(zlib.compress(text.encode(), 9)), zlib.decompress(zlib.compress(text.encode())) == text.encode())
print(base64.b64encode(bytes(range(30))).decode())
grouped = itertools.groupby(sorted("mississippi"))
print({letter: len(list(group)) for letter, group in grouped})
print(functools.reduce(operator.xor, range(1000)), sorted([5, 2, 9, 1], key=lambda value: -value))
deque = collections.deque(range(10), maxlen=5)
deque.rotate(2)
print(deque, collections.OrderedDict(a=1, b=2), collections.ChainMap({"a": 1}, {"b": 2})["b"])
print(datetime.date(2024, 2, 29) + datetime.timedelta(days=366), datetime.datetime(2000, 1, 1).isocalendar())

section("control")


def generator():
    received = 0
    while True:
        try:
            received = yield received * 2
        except ValueError as error:
            print("generator caught", error)


machine = generator()
print(next(machine), machine.send(21), machine.throw(ValueError("thrown in")))
machine.close()
try:
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("chained") from error
except RuntimeError:
    print(traceback.format_exc().count("Traceback"))
try:
    sys.setrecursionlimit(3000)
    (lambda f: f(f))(lambda f: f(f))
except RecursionError:
    print("recursion stopped")


@contextlib.contextmanager
def announced(name):
    print("enter", name)
    yield name
    print("leave", name)


with announced("outer"), announced("inner"):
    pass

section("system")
with tempfile.TemporaryDirectory(dir=".") as directory:
    path = os.path.join(directory, "file")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{index}\n" for index in range(1000))
    print(os.path.getsize(path), sum(int(line) for line in open(path, encoding="utf-8")))
print(subprocess.run(["sh", "-c", "cat; exit 3"], input=b"piped\n", capture_output=True, check=False))
results = []
lock = threading.Lock()


def worker(number):
    for value in range(100):
        with lock:
            results.append(number * value)


threads = [threading.Thread(target=worker, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(results), sum(results))
start = time.monotonic()
time.sleep(0.01)
print(time.monotonic() - start >= 0.01, time.strftime("%Y", time.gmtime(0)))
with open("written.txt", "w", encoding="utf-8") as file:
    file.write(text)
print("to standard error", file=sys.stderr)
sys.exit(3)
