"""Exercise 26: a machine of eight instructions.

Write

    run(program, memory)

`memory` has four lists of numbers: memory["dram"] and the scratchpads memory["inp"], memory["wgt"] and memory["acc"].
Run the instructions of `program` in order, and change these lists in place. An instruction is a tuple:

    ("load", pad, at, place, rows, columns, stride)   copies rows of dram into a scratchpad. Row r begins at
                                                      dram[place + r * stride]; in the pad all numbers follow each
                                                      other from `at` on
    ("store", at, place, rows, columns, stride)       copies in the same way from acc to dram
    ("gemm", count, (d, s, w), (dd, ds, dw))          for i from 0 to count - 1, in order:
                                                      acc[d + i * dd] += inp[s + i * ds] * wgt[w + i * dw]
    ("min", count, d, dd, number)                     for each i: acc[d + i * dd] = min(acc[d + i * dd], number)
    ("max", ...), ("add", ...)                        the same with max and with +
    ("shr", ...)                                      shifts right by `number` bits and rounds down: -1 stays -1. A
                                                      negative number shifts left. The number may be 32 or more
    ("finish",)                                       ends the program, even if instructions follow; may be missing

All numbers fit into 32 bits. gemm, min, max, add and shr write 32 bits to acc, and wrap: 2147483647 + 1 is -2147483648.
A store writes only the low 8 bits, as a number from -128 to 127: for example, 200 is stored as -56. A load copies
numbers without changing them. Do not change `program`.

    memory = {"dram": [3, 5, 0], "inp": [0], "wgt": [0], "acc": [0]}
    run([("load", "inp", 0, 0, 1, 1, 1), ("load", "wgt", 0, 1, 1, 1, 1), ("gemm", 1, (0, 0, 0), (0, 0, 0)),
         ("store", 0, 2, 1, 1, 1), ("finish",)], memory)
    memory["dram"]   ->   [3, 5, 15]

Check it with: minitvm lesson 26 --check
"""

from __future__ import annotations

from typing import Any


def run(program: list[tuple[Any, ...]], memory: dict[str, list[int]]) -> None:
    """Run a program on the lists of numbers, in place."""
    raise NotImplementedError("run(program, memory): the text at the top describes the task")
