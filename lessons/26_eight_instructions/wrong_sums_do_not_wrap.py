"""Wrong: sums are as large as Python's integers."""

from __future__ import annotations

from typing import Any


def wrap(value: int, bits: int) -> int:
    """The low bits as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def run(program: list[tuple[Any, ...]], memory: dict[str, list[int]]) -> None:
    """Run a program on the lists of numbers, in place."""
    dram, acc = memory["dram"], memory["acc"]
    for name, *rest in program:
        if name == "finish":
            return
        if name == "load":
            pad, at, place, rows, columns, stride = rest
            for row in range(rows):
                for column in range(columns):
                    memory[pad][at + row * columns + column] = dram[place + row * stride + column]
        elif name == "store":
            at, place, rows, columns, stride = rest
            for row in range(rows):
                for column in range(columns):
                    dram[place + row * stride + column] = wrap(acc[at + row * columns + column], 8)
        elif name == "gemm":
            count, (d, s, w), (dd, ds, dw) = rest
            for i in range(count):
                product = memory["inp"][s + i * ds] * memory["wgt"][w + i * dw]
                acc[d + i * dd] = wrap(acc[d + i * dd] + product, 32)
        else:
            count, first, step, number = rest
            for i in range(count):
                value = acc[first + i * step]
                if name == "min":
                    value = min(value, number)
                elif name == "max":
                    value = max(value, number)
                elif name == "add":
                    value += number
                else:
                    value = value >> number if number >= 0 else value << -number
                acc[first + i * step] = value
