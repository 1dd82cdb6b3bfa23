"""Runs random programs on the learner's machine, and on one that is defined here in whole numbers without limits."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

SIZE = 4  # numbers of each list
LISTS = ("dram", "inp", "wgt", "acc")
ENDS = (2**31 - 1, -(2**31), -(2**31) + 1)
NUMBERS = (0, 1, 2, 3, -1, -2, -7, 127, 128, 200, 255, 300, -128, -129, *ENDS)
Program = list[tuple[Any, ...]]
Memory = dict[str, list[int]]


def expected(program: Program, memory: Memory) -> Memory:
    """The contents of the lists at the end."""
    after = {name: list(numbers) for name, numbers in memory.items()}
    acc = after["acc"]
    for name, *rest in program:
        if name == "finish":
            break
        if name in ("load", "store"):
            pad = rest.pop(0) if name == "load" else "acc"
            at, place, rows, columns, stride = rest
            for n in range(rows * columns):
                here, there = at + n, place + n // columns * stride + n % columns
                if name == "load":
                    after[pad][here] = after["dram"][there]
                else:
                    after["dram"][there] = low(acc[here], 8)
        elif name == "gemm":
            count, (d, s, w), (dd, ds, dw) = rest
            for i in range(count):
                product = after["inp"][s + i * ds] * after["wgt"][w + i * dw]
                acc[d + i * dd] = low(acc[d + i * dd] + product, 32)
        else:
            count, d, dd, number = rest
            for i in range(count):
                acc[d + i * dd] = low(OPERATIONS[name](acc[d + i * dd], number), 32)
    return after


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "add": lambda value, number: value + number,
    "shr": lambda value, number: value // 2**number if number >= 0 else value * 2**-number,
}


def low(value: int, bits: int) -> int:
    """The low bits, as a number with a sign."""
    rest = value % 2**bits
    return rest - 2**bits if rest >= 2 ** (bits - 1) else rest


@st.composite
def programs(draw: Callable[..., Any]) -> Program:
    """One to four instructions, small numbers first. A program may end without `finish`, or before its last one."""

    def range_of() -> tuple[int, int]:
        """(first, step) of three numbers at most."""
        first, step = draw(st.integers(0, SIZE - 1)), draw(st.integers(0, 2))
        return first, step if first + 2 * step < SIZE else 0

    program: Program = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(["gemm", "load", "store", *OPERATIONS, "finish"]))
        if name in ("load", "store"):
            rows, columns = draw(st.integers(1, 2)), draw(st.integers(1, 2))
            at, stride = draw(st.integers(0, SIZE - rows * columns)), draw(st.integers(0, 3))
            place = draw(st.integers(0, SIZE - (rows - 1) * stride - columns))
            pad = [draw(st.sampled_from(LISTS[1:]))] if name == "load" else []
            program.append((name, *pad, at, place, rows, columns, stride))
        elif name == "gemm":
            (d, dd), (s, ds), (w, dw) = range_of(), range_of(), range_of()
            program.append((name, draw(st.integers(1, 3)), (d, s, w), (dd, ds, dw)))
        elif name == "finish":
            program.append((name,))
        else:
            number = draw(st.integers(-40, 40) if name == "shr" else st.sampled_from([*NUMBERS, 2**31]))
            program.append((name, draw(st.integers(1, 3)), *range_of(), number))
    return program


# Random programs seldom add to the largest number.
WRAPS: Program = [("gemm", 1, (0, 0, 0), (0, 0, 0))]


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program that leaves other numbers."""

    def runs_like_the_machine(program: Program, memory: Memory) -> None:
        told = "\n".join(f"    memory[{name!r}] = {memory[name]}" for name in LISTS)
        what = f"for these numbers\n{told}\nand this program\n" + "".join(f"    {one}\n" for one in program)
        wanted, lists = expected(program, memory), dict(memory)
        attempt(what, module.run, program, memory, may_change=(1,))
        for name in LISTS:
            is_the_list = memory.get(name) is lists[name]
            require(is_the_list, f"{what}memory[{name!r}] is another list afterwards: change the lists in place")
            message = f"{what}memory[{name!r}] is {lists[name]} afterwards; the machine has {wanted[name]} there"
            require(lists[name] == wanted[name], message)

    runs_like_the_machine(WRAPS, {"dram": [0], "inp": [1], "wgt": [1], "acc": [2**31 - 1]})
    numbers = st.lists(st.sampled_from(NUMBERS), min_size=SIZE, max_size=SIZE)
    cases(300, program=programs(), memory=st.fixed_dictionaries(dict.fromkeys(LISTS, numbers)))(runs_like_the_machine)
