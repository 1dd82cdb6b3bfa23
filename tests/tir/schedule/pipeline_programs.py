"""Random loops of loads, computations and stores, as text: what software pipelines and double buffers are tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

DTYPES = ("float32", "int32", "int16")


def _block(name: str, kinds: str, store: str, columns: int, tile: int, init: str = "") -> list[str]:
    """A block over the rows of the loop `i` and its own loop `j`, perhaps in imperfect tiles."""
    tiled = tile > 1
    head = f"for j_0, j_1 in T.grid({-(-columns // tile)}, {tile}):" if tiled else f"for j in range({columns}):"
    column = f"j_0 * {tile} + j_1" if tiled else "j"
    lines = [
        f"        {head}",
        f'            with T.block("{name}"):',
        f"                vi = T.axis.{'reduce' if kinds[0] == 'R' else 'spatial'}(rows, i)",
        f"                vj = T.axis.spatial({columns}, {column})",
    ]
    if tiled and columns % tile:
        lines.append(f"                T.where({column} < {columns})")
    if init:
        lines += ["                with T.init():", f"                    {init}"]
    return [*lines, f"                {store}"]


@st.composite
def staged_loops(draw: Any) -> PrimFunc:
    """A loop that loads a row of A, perhaps twice and through another buffer, and stores, sums up or passes on.

    What is loaded lies in a buffer of one row, or in one of all rows; in the first every iteration overwrites the last.
    """
    dtype = draw(st.sampled_from(DTYPES))
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    tile = draw(st.sampled_from([1, 1, 2, 3]))
    turned = draw(st.booleans())
    constant = draw(st.integers(-2, 2))
    local = {"S": draw(st.booleans()), "R": draw(st.booleans())}

    def at(name: str, column: str = "vj") -> str:
        return f"{name}[{column}]" if local[name] else f"{name}[vi, {column}]"

    column = f"{columns - 1} - vj" if turned else "vj"
    parts = [_block("load", "SS", f"{at('S')} = A[vi, vj] + T.{dtype}({constant})", columns, tile)]
    last = "S"
    if draw(st.booleans()):
        parts.append(_block("compute", "SS", f"{at('R')} = {at('S', column)} * T.{dtype}(2)", columns, tile))
        last = "R"
    ends = draw(st.lists(st.sampled_from(["store", "sum", "history"]), min_size=1, max_size=2, unique=True))
    before: list[str] = []
    if "sum" in ends:
        parts.append(_block("sum", "RS", f"D[vj] = D[vj] + {at(last)}", columns, tile, f"D[vj] = T.{dtype}(0)"))
    if "history" in ends:
        before = ["    for j in range(columns):", '        with T.block("first"):',
                  "            vj = T.axis.spatial(columns, j)", f"            H[0, vj] = T.{dtype}(1)"]  # fmt: skip
        parts.append(_block("history", "SS", f"H[vi + 1, vj] = H[vi, vj] + {at(last)}", columns, tile))
    if "store" in ends:
        parts.append(_block("store", "SS", f"C[vi, vj] = {at(last, column)} + {at('S')}", columns, tile))
    params = [f'A: T.Buffer((rows, columns), "{dtype}")']
    shapes = {"store": ("C", "(rows, columns)"), "sum": ("D", "(columns,)"), "history": ("H", "(rows + 1, columns)")}
    params += [f'{shapes[e][0]}: T.Buffer({shapes[e][1]}, "{dtype}")' for e in sorted(ends)]
    lines = ["@T.prim_func", f"def main({', '.join(params)}):"]
    lines += [
        f'    {name} = T.alloc_buffer({"(columns,)" if local[name] else "(rows, columns)"}, "{dtype}")'
        for name in ("S", "R")[: 1 + (last == "R")]
    ]
    lines += [*before, "    for i in range(rows):", *(line for part in parts for line in part)]
    return from_source("\n".join(lines), {"rows": rows, "columns": columns})
