"""Holds the learner's formulas against loops over tiles, bands and panels, which count one after the other."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from lessons.pipeline import Core

Tile = tuple[int, int]


def cycles_of(m: int, n: int, k: int, tile: Tile, lanes: int, core: Core) -> Fraction:
    """Tile by tile and step by step."""
    rows, vectors = tile
    total = Fraction(0)
    for _ in range(0, m, rows):
        for _ in range(0, n, vectors * lanes):
            for _ in range(k):
                work, loads = Fraction(rows * vectors, core.ports), Fraction(rows + vectors, core.loads)
                total += max(work, loads, Fraction(core.latency))
    return total


def fetched_of(m: int, n: int, k: int, tile: Tile, lanes: int, cache: int) -> int:
    """Panel by panel, and in each band by band."""
    rows, width = tile[0], tile[1] * lanes
    total = 0
    for panel in range(0, n, width):
        columns = min(width, n - panel)
        for number, band in enumerate(range(0, m, rows)):
            total += k * min(rows, m - band)
            if number == 0 or k * width > cache:
                total += k * columns
    return total


LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CALLS_OF_EACH = {"map", "vectorize", "frompyfunc", "fromiter", "fromfunction", "nditer", "apply_along_axis",
                 "apply_over_axes"}  # fmt: skip


def loop_in(source: str) -> str | None:
    """The first line of an answer that goes through the tiles one by one."""
    for node in ast.walk(ast.parse(source)):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, LOOPS) or name in CALLS_OF_EACH:
            return f"line {node.lineno}: {source.splitlines()[node.lineno - 1].strip()}"
    return None


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small product for which a number is wrong."""
    size, few = st.integers(1, 9), st.integers(1, 3)
    cores = st.builds(Core, registers=st.just(16), latency=st.integers(1, 6), ports=few, loads=few)
    tiles = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=4)

    def numbers(case: str, function: Any, *args: Any) -> list[float]:
        found = attempt(case, function, *args)
        require(isinstance(found, np.ndarray) and found.ndim == 1, f"{case} returned {found!r}, wanted an array")
        require(len(found) == len(args[3]), f"{case} has {len(found)} numbers, wanted one for each tile")
        return [float(one) for one in found]

    @cases(150, m=size, n=size, k=st.integers(1, 4), tile=tiles, lanes=st.sampled_from([1, 2, 4]), core=cores)
    def counts_the_cycles(m: int, n: int, k: int, tile: list[Tile], lanes: int, core: Core) -> None:
        rows, vectors = (np.array(axis) for axis in zip(*tile, strict=True))
        case = f"cycles({m}, {n}, {k}, {rows!r}, {vectors!r}, {lanes}, {core})"
        for one, found in zip(tile, numbers(case, module.cycles, m, n, k, rows, vectors, lanes, core), strict=True):
            wanted = cycles_of(m, n, k, one, lanes, core)
            require(abs(found - float(wanted)) < 1e-6 * float(wanted),
                    f"{case}: {found:g} for the tile of {one[0]} rows and {one[1]} vectors\n"
                    f"if you add up its steps one by one, they take {float(wanted):g} cycles")  # fmt: skip

    @cases(
        150, m=size, n=size, k=st.integers(1, 4), tile=tiles, lanes=st.sampled_from([1, 2, 4]), cache=st.integers(1, 40)
    )
    def counts_what_is_fetched(m: int, n: int, k: int, tile: list[Tile], lanes: int, cache: int) -> None:
        rows, vectors = (np.array(axis) for axis in zip(*tile, strict=True))
        case = f"fetched({m}, {n}, {k}, {rows!r}, {vectors!r}, {lanes}, {cache})"
        for one, found in zip(tile, numbers(case, module.fetched, m, n, k, rows, vectors, lanes, cache), strict=True):
            wanted = fetched_of(m, n, k, one, lanes, cache)
            require(found == wanted, f"{case}: {found:g} for the tile of {one[0]} rows and {one[1]} vectors\n"
                    f"counted band by band, {wanted} elements are fetched")  # fmt: skip

    @cases(1, path=st.just(str(module.__file__)))
    def there_are_no_loops(path: str) -> None:
        line = loop_in(Path(path).read_text(encoding="utf-8"))
        require(line is None, f"the numbers are right, but there is a loop in the answer\n    {line}\n"
                "wanted operations on whole arrays, which NumPy does for all tiles at once")  # fmt: skip
