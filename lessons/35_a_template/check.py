"""Draws schedules from the learner's template: each has the loops that are wanted, and all tiles are drawn."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference, tir
from minitvm.tir.nodes import For, ForKind

ROWS, COLUMNS = 4, 16  # a tile has at most so many
WANTED = ("parallel", "serial", "serial", "unroll", "vectorized")
SEEDS = 80
SPREAD = 1_000_003  # seeds that are far apart


def nest(sch: tir.Schedule) -> list[For]:
    """The loops around the block C, from the outside in."""
    loops = [sch.get(loop) for loop in sch.get_loops("C")]
    return [loop for loop in loops if isinstance(loop, For)]


def tile(sch: tir.Schedule, sizes: tuple[int, int, int], case: str) -> tuple[int, int]:
    """The rows and columns of a tile, after all loops were found to be as they should."""
    loops = nest(sch)
    shown = f"{case} the loops are\n" + "\n".join(
        f"    for {loop.var.name} in {loop.kind.value}({loop.extent})" for loop in loops
    )
    require(len(loops) == len(WANTED), f"{shown}\nwanted {len(WANTED)} loops: {', '.join(WANTED)}")
    extents = [int(loop.extent.value) for loop in loops]  # type: ignore[attr-defined]
    m, n, k = sizes
    for loop, kind in zip(loops, WANTED, strict=True):
        require(loop.kind is ForKind(kind), f"{shown}\n{loop.var.name} should be {kind}")
    require(extents[2] == k, f"{shown}\nthe third loop should be the sum, which has {k} terms")
    rows, columns = extents[3], extents[4]
    require(rows <= ROWS, f"{shown}\na tile has {rows} rows; wanted at most {ROWS}")
    require(columns <= COLUMNS, f"{shown}\na tile has {columns} columns; wanted at most {COLUMNS}")
    outer = (m // rows, n // columns)
    order = f"wanted {outer[0]} tiles of rows in the first loop, and {outer[1]} tiles of columns in the second"
    require((extents[0], extents[1]) == outer, f"{shown}\n{order}")
    require(m % rows == 0 and n % columns == 0, f"{shown}\ntiles of {rows} x {columns} do not make up {m} x {n}")
    return rows, columns


def divisors(number: int, most: int) -> list[int]:
    """Those up to `most`."""
    return [d for d in range(1, most + 1) if number % d == 0]


def check(module: ModuleType) -> None:
    """Raises AssertionError with the sizes and the seed of a schedule that is not as it should be."""

    @cases(25, m=st.integers(1, 12), n=st.integers(1, 24), k=st.integers(1, 4), seed=st.integers(0, 200))
    def draws_micro_kernels(m: int, n: int, k: int, seed: int) -> None:
        case = f"for m = {m}, n = {n}, k = {k} and seed {SPREAD * seed + 1}"
        func = example.blocks(m, n, k)
        sch = tir.Schedule(func, seed=SPREAD * seed + 1)
        attempt(case, module.template, sch)
        tile(sch, (m, n, k), case)
        a, b, bias, y = example.inputs(m, n, k)
        reference.tir.run(sch.func, a, b, bias, y)
        require(bool((y == example.expected(a, b, bias)).all()), f"{case} the result is another one")

    for sizes in ((12, 16, 2), (3, 12, 2)):
        draws_all_divisors(module, sizes)


def draws_all_divisors(module: ModuleType, sizes: tuple[int, int, int]) -> None:
    """Raises AssertionError unless some seed draws each divisor, up to the limits, for a tile's rows and columns."""
    drawn, func = [], example.blocks(*sizes)
    for seed in range(SEEDS):
        sch = tir.Schedule(func, seed=SPREAD * seed + 1)
        module.template(sch)
        drawn.append(tile(sch, sizes, f"for m, n, k = {sizes} and seed {SPREAD * seed + 1}"))
    for what, axis, size, most in (("rows", 0, sizes[0], ROWS), ("columns", 1, sizes[1], COLUMNS)):
        numbers = {one[axis] for one in drawn}
        for wanted in divisors(size, most):
            story = f"no seed of {SEEDS} draws a tile of {wanted} {what} for m, n, k = {sizes}"
            require(wanted in numbers, f"{story}; drawn were tiles of {', '.join(map(str, sorted(numbers)))} {what}")
