"""Compiles the learner's declaration for small random plans: the compiler says where each member is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from types import ModuleType

from hypothesis import strategies as st

from lessons.arenas import C_SIZES, Placed
from lessons.grading import attempt, cases, require
from minitvm.errors import InputError

FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c", "-")
TOP = "#include <stddef.h>\n#include <stdint.h>\n"
NAMES = ("x", "y", "pad", "pad0", "pad_0", "pad1", "_0", "size", "all", "bytes", "offset", "arena")


def compiler() -> str:
    """The C compiler. Raises `InputError` if there is none."""
    path = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if path is None:
        raise InputError("lesson 36: wanted a C compiler, found none\n  try:    apt install gcc")
    return path


def complaint(text: str) -> str:
    """Return the first message of the compiler about a C file, in one line, or "" if there is none."""
    run = subprocess.run([compiler(), *FLAGS], input=text, capture_output=True, text=True, check=False)
    lines = [line for line in run.stderr.splitlines() if "error:" in line]
    return lines[0].split("error:")[1].strip() if lines else "" if run.returncode == 0 else run.stderr[:200]


def tests(values: Sequence[Placed], size: int) -> list[str]:
    """C statements that do not compile unless the members are where they should be."""
    lines = []
    for value in values:
        member = f"((arena_t *)0)->{value.name}"
        name = f"{value.name} is at its offset, {value.offset}"
        lines.append(f'_Static_assert(offsetof(arena_t, {value.name}) == {value.offset}, "{name}");')
        name = f"{value.name} is an array of {value.ctype}"
        lines.append(f'_Static_assert(_Generic(&{member}[0], {value.ctype} *: 1, default: 0), "{name}");')
        name = f"{value.name} has {value.count} elements"
        whole = value.count * C_SIZES[value.ctype]
        lines.append(f'_Static_assert(sizeof({member}) == {whole}, "{name}");')
    return [*lines, f'_Static_assert(sizeof(arena_t) == {size}, "sizeof(arena_t) is {size}");']


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Placed], int]:
    """Up to four values that may share bytes, and the size of their arena."""
    values = []
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True)):
        ctype = draw(st.sampled_from(sorted(C_SIZES)))
        offset = C_SIZES[ctype] * draw(st.integers(0, 6))
        values.append(Placed(name, ctype, draw(st.integers(1, 5)), offset))
    end = max((value.end for value in values), default=1)
    return values, 8 * (-(-end // 8) + draw(st.sampled_from([0, 0, 1, 3])))


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small plan whose declaration does not compile, or puts a value elsewhere."""

    @cases(60, plan=plans())
    def members_are_where_the_plan_puts_them(plan: tuple[list[Placed], int]) -> None:
        values, size = plan
        call = f"declaration({values}, {size})"
        text = attempt(call, module.declaration, list(values), size)
        require(isinstance(text, str), f"{call} returned {text!r}, wanted C text")
        require("#" not in text, f"{call} has a preprocessor line:\n{text}")
        said = complaint("\n".join([TOP, text, "typedef arena_t it_is_a_type;", *tests(values, size), ""]))
        broken = re.search(r'static assertion failed.*"(.*)"', said)
        story = f"the compiler does not find that {broken[1]}" if broken else f"which does not compile: {said}"
        require(not said, f"{call} is\n{text}\n{story}")
