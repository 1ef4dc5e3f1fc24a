"""A loop in the manner of the pystone benchmark: records, lists, strings and calls, in pure Python. Prints a number that depends on all of it."""

import sys


class Record:
    def __init__(self, link=None, kind=0, number=0, text=""):
        self.link, self.kind, self.number, self.text = link, kind, number, text

    def copy(self):
        return Record(self.link, self.kind, self.number, self.text)


def characters_differ(first, second):
    for position, (one, other) in enumerate(zip(first, second)):
        if one != other:
            return position
    return -1


def next_kind(kind, flag):
    if kind == 0:
        return 1 if flag else 2
    return (kind + 1) % 4 if kind != 3 else 0


def follow(record, number):
    successor = record.copy()
    record.number, successor.number = number, number + 5
    successor.link = None
    successor.kind = next_kind(record.kind, number % 3 == 0)
    if successor.kind == 1:
        successor.number += len(successor.text)
    else:
        successor.text = "record %d" % number
    return successor


def fill(array, matrix, row, value):
    array[row] = value
    array[row + 1] = array[row]
    for column in range(row, row + 2):
        matrix[row][column] = row
    matrix[row][row - 1] += 1
    matrix[row + 20 - row % 7][row] = array[row]


def main(loops):
    array = [0] * 51
    matrix = [[0] * 51 for _ in range(51)]
    record, total = Record(text="record zero"), 0
    for loop in range(loops):
        record = follow(record, loop)
        fill(array, matrix, 5 + loop % 20, loop)
        total += characters_differ(record.text, "record 1 and so on")
        quotient = (loop * 7 + 3) // (loop % 5 + 1)
        while quotient > 10:
            quotient //= 3
        total += quotient + {"a": 1, "b": 2, "c": 3}["abc"[loop % 3]]
    print(total, sum(map(sum, matrix)))


main(int(sys.argv[1]))
