"""One walk over kernel source beside Numba's own front end: the same values, from any source of the dialect."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cfunc, types

from minitvm.errors import InternalError
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.simd.vectors.source import defined
from tests.fewer import examples
from tests.runtime.conftest import compiled

HEADER = """
from minitvm.machines.simd.vectors.simd import (
    f32, fma, i32, i64, maximum, pointer_f32, pointer_i64, select,
)
LARGE = 1000
HALF = float("0.5")

def kernel(args, thread, threads):
    a = pointer_i64(args[0])
    f = pointer_f32(args[1])
"""


def by_numba(source: str) -> Callable[..., None]:
    """The kernel of a text, compiled by Numba from end to end."""
    signature = types.void(types.CPointer(types.int64), types.int64, types.int64)
    compiled = cfunc(signature, error_model="numpy", fastmath={"contract"})(defined(source, "kernel"))
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(compiled.address)

    def call(*args: Any) -> None:
        words = np.array([x.ctypes.data if isinstance(x, np.ndarray) else x for x in args], np.int64)
        native(words.ctypes.data, 0, 1)

    call.compiled = compiled  # type: ignore[attr-defined]
    return call


class Body:
    """Random statements of the dialect: whole numbers in `a`, floats in `f`, each of COUNT elements."""

    COUNT = 16

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.integers: list[str] = []  # variables in sight
        self.floats: list[str] = []

    def text(self) -> str:
        self.block(1, 4)
        return HEADER + "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def integer(self, depth: int = 2) -> str:
        pick, of = self.random, self.integer
        leaf = [lambda: str(pick.randrange(-3, 9)), lambda: "LARGE", lambda: f"a[{self.place()}]"]
        leaf += [lambda: pick.choice(self.integers)] * 3 if self.integers else []
        if depth == 0:
            return pick.choice(leaf)()
        d = depth - 1
        return pick.choice([
            *leaf,
            lambda: f"({of(d)} {pick.choice(['+', '-', '*', '&', '|', '^'])} {of(d)})",
            lambda: f"({of(d)} {pick.choice(['//', '%'])} {pick.choice([2, 3, 7])})",
            lambda: f"({of(d)} >> {pick.randrange(4)})",
            lambda: f"{pick.choice(['min', 'max'])}({of(d)}, {of(d)})",
            lambda: f"(-{pick.choice(self.integers or ['5'])})",
            lambda: f"({of(d)} if {self.test(d)} else {of(d)})",
            lambda: f"i64(i32({of(d)}))",
        ])()  # fmt: skip

    def place(self) -> str:
        within = [n for n in self.integers if n.startswith("i")]
        return self.random.choice([*within, *map(str, range(self.COUNT))])

    def number(self, depth: int = 2) -> str:
        pick, of = self.random, self.number
        leaf = [lambda: f"f32({pick.choice([0.5, -2.0, 3.25])})", lambda: f"f[{self.place()}]"]
        leaf += [lambda: pick.choice(self.floats)] * 3 if self.floats else []
        if depth == 0:
            return pick.choice(leaf)()
        d = depth - 1
        return pick.choice([
            *leaf,
            lambda: f"({of(d)} {pick.choice(['-', '*'])} {of(d)})",
            lambda: f"fma({of(d)}, {of(d)}, {of(d)})",
            lambda: f"select({of(d)} < {of(d)}, {of(d)}, {of(d)})",
            lambda: f"maximum({of(d)}, {of(d)})",
            lambda: f"({of(d)} if {self.test(d)} else {of(d)})",
            lambda: f"f32(({self.integer(d)}) & 255)",
        ])()  # fmt: skip

    def test(self, depth: int) -> str:
        pick = self.random
        if depth == 0 or pick.random() < 0.5:
            return f"({self.integer(0)} {pick.choice(['<', '<=', '>', '>=', '==', '!='])} {self.integer(0)})"
        inside = f" {pick.choice(['and', 'or'])} ".join(self.test(depth - 1) for _ in range(pick.choice([2, 3])))
        return pick.choice([f"({inside})", f"(not ({inside}))"])

    def block(self, depth: int, statements: int) -> None:
        seen = len(self.integers), len(self.floats)
        for _ in range(statements):
            self.statement(depth)
        del self.integers[seen[0] :], self.floats[seen[1] :]

    def statement(self, depth: int) -> None:
        pick = self.random
        kinds = [self.let, self.let, self.update, self.store, self.store]
        pick.choice(kinds if depth > 3 else [*kinds, self.loop, self.loop, self.condition, self.repeat])(depth)

    def let(self, depth: int) -> None:
        name = self.name()
        whole = self.random.random() < 0.5
        self.line(depth, f"{name} = {self.integer() if whole else self.number()}")
        if whole:
            self.line(depth, f"{name} = ({name} & 1023) + 0")
        (self.integers if whole else self.floats).append(name)

    def update(self, depth: int) -> None:
        name = self.name()
        self.line(depth, f"{name} = f32(0)")
        variable = f"i{self.name()}"
        self.line(depth, f"for {variable} in range({self.random.choice(['5', '2, 7', '1, 12, 3', '4, 1'])}):")
        self.integers.append(variable)
        self.floats.append(name)
        self.line(depth + 1, f"{name} = {self.number(1)}")
        self.integers.remove(variable)

    def store(self, depth: int) -> None:
        if self.random.random() < 0.5:
            self.line(depth, f"a[{self.place()}] = ({self.integer()}) & 1023")
            self.line(depth, f"a[{self.place()}] += {self.integer(0)}")
        else:
            self.line(depth, f"f[{self.place()}] = {self.number()}")

    def loop(self, depth: int) -> None:
        variable = f"i{self.name()}"
        bounds = self.random.choice(["3", "1, 5", "0, 16, 4", "(a[0] & 3)", "2, 2 + (a[1] & 3)", "i32(3)"])
        self.line(depth, f"for {variable} in range({bounds}):")
        self.integers.append(variable)
        self.block(depth + 1, 2)
        if self.random.random() < 0.3:
            self.line(depth + 1, f"if {self.test(1)}:")
            self.line(depth + 2, self.random.choice(["break", "continue"]))
            self.block(depth + 1, 1)
        self.integers.remove(variable)

    def condition(self, depth: int) -> None:
        self.line(depth, f"if {self.test(1)}:")
        self.block(depth + 1, 2)
        if self.random.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, 1)

    def repeat(self, depth: int) -> None:
        count = self.name()
        self.line(depth, f"{count} = {self.random.randrange(4)}")
        self.line(depth, f"while {count} > 0:")
        self.line(depth + 1, f"{count} -= 1")
        self.block(depth + 1, 1)


def arguments(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-50, 50, Body.COUNT), rng.integers(-8, 8, Body.COUNT).astype(np.float32)


@examples(5, 15)
@given(st.integers(0, 10**6))
def test_random_statements_compute_what_numba_makes_of_them(seed: int) -> None:
    source = Body(seed).text()
    found, wanted = arguments(seed), arguments(seed)
    with np.errstate(all="ignore"):
        compiled.__wrapped__(source)(*found)
        by_numba(source)(*wanted)
    assert np.array_equal(found[0], wanted[0]), source
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6, err_msg=source)


def test_a_name_of_another_type_is_another_variable(kernel: Callable[[str], Any]) -> None:
    source = HEADER + "    for i in range(3):\n        x = 3 - i\n        x = f[x]\n        f[i] = x + f32(1)\n"
    data = np.array([0, 1, 2, 10], np.float32)
    kernel(source)(np.zeros(1, np.int64), data)
    assert data.tolist() == [11, 3, 4, 10]


def test_several_names_are_given_values_at_once(kernel: Callable[[str], Any]) -> None:
    source = HEADER + "    x, y = a[0], a[1]\n    x, y = y, x\n    a[0], z = 5, 6\n"
    data = np.array([1, 2], np.int64)
    with pytest.raises(InternalError, match=r"line 13: an assignment to \(a\[0\], z\)"):
        compile_kernel(source, "kernel")
    kernel(source.replace("a[0], z = 5, 6", "a[0] = x * 10 + y"))(data, np.zeros(1, np.float32))
    assert data.tolist() == [21, 2]


def test_what_decides_is_evaluated_and_no_more(kernel: Callable[[str], Any]) -> None:
    """`and`, `or` and a choice read nothing behind what decides: the address would not be there."""
    source = HEADER + (
        "    far = 1 << 60\n"
        "    if (a[0] > 0 and a[far] > 0) or (a[0] <= 0 or a[far] > 0):\n"
        "        a[1] = (a[far] if a[0] > 0 else 7)\n"
    )
    data = np.zeros(2, np.int64)
    kernel(source)(data, np.zeros(1, np.float32))
    assert data.tolist() == [0, 7]


REFUSED = {
    "    for i in [1, 2]:\n        a[0] = i\n": "line 11: a loop over something other than a range",
    "    for i in range(9, 0, -1):\n        a[0] = i\n": "line 11: a loop whose step is not a number from 1",
    "    for i in range(3):\n        for i in range(2):\n            a[0] = i\n": "line 12: i, the variable of a loop",
    "    if a[0] > 0:\n        x = 1\n    a[0] = x\n": "line 13: x has no value here",
    "    x = 1\n    if a[0] > 0:\n        x = f[0]\n    a[0] = x\n": "line 13: x is int64, and here float32",
    "    a[0] = 1 < a[0] < 3\n": "line 11: the comparison 1 < a[0] < 3",
    "    a[0] = (2 if a[0] > 0 else f[0])\n": "line 11: a choice between float32 and int64",
    "    thread = 1\n": "a parameter is assigned",
    "    return a\n": "line 11: a kernel that returns a value",
    "    a.b = 1\n": "line 11: an assignment to a.b",
    "    with a:\n        pass\n": "line 11: a statement With",
    "    a[0] = [1]\n": "line 11: an expression List",
    "    a[0] = 'x'\n": "line 11: a literal 'x'",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_not_of_the_dialect_is_refused_with_its_line(body: str) -> None:
    with pytest.raises(InternalError) as error:
        compile_kernel(HEADER + body, "kernel")
    assert REFUSED[body] in str(error.value)
