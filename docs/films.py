"""The films of the documentation: what the loop primitives change, and a product in tiles for the README.

`make docs` writes films/*.svg and film.svg. Each primitive acts on the same program, so that its film can be compared
with films/before.svg.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import te, tir
from minitvm.film import Film

ROWS, COLUMNS = 4, 6


def doubled() -> Any:
    """Y = X * 2, for a small matrix."""
    X = te.placeholder((ROWS, COLUMNS), name="X")
    return te.create_prim_func([X, te.compute((ROWS, COLUMNS), lambda i, j: X[i, j] * 2.0, name="Y")])


def _loops(sch: Any) -> list[Any]:
    return list(sch.get_loops("Y"))


# Each loop primitive: the call as it is written, and the call.
STEPS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "split": ("split(j, factors=[None, 3])", lambda sch: sch.split(_loops(sch)[1], factors=[None, 3])),
    "fuse": ("fuse(i, j)", lambda sch: sch.fuse(*_loops(sch))),
    "reorder": ("reorder(j, i)", lambda sch: sch.reorder(*_loops(sch)[::-1])),
    "loop_partition": ("loop_partition(j, factors=[2])", lambda sch: sch.loop_partition(_loops(sch)[1], factors=[2])),
    "parallel": ("parallel(i)", lambda sch: sch.parallel(_loops(sch)[0])),
    "vectorize": ("vectorize(j)", lambda sch: sch.vectorize(_loops(sch)[1])),
    "unroll": ("unroll(j)", lambda sch: sch.unroll(_loops(sch)[1])),
    "bind": ("bind(i, \"threadIdx.x\")", lambda sch: sch.bind(_loops(sch)[0], "threadIdx.x")),
}  # fmt: skip


def film(name: str) -> str:
    """The film of the program after a primitive, or of the program itself by the name "before"."""
    sch = tir.Schedule(doubled())
    if name == "before":
        return Film.of(sch, title="before").svg()
    text, step = STEPS[name]
    step(sch)
    return Film.of(sch, title=f"after {text}").svg()


def shown(name: str) -> str:
    """The pictures of a primitive in its entry on the page of primitives; "" if it has none."""
    if name not in STEPS:
        return ""
    return f"\n![the loops before {name}](films/before.svg) ![the loops after {name}](films/{name}.svg)\n"


def tiles() -> str:
    """A product of matrices in tiles, with a cache of 8 lines."""
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    product = te.compute((4, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = tir.Schedule(te.create_prim_func([A, B, product]))
    i, j, r = sch.get_loops("C")
    j_0, j_1 = sch.split(j, factors=[None, 4])
    r_0, r_1 = sch.split(r, factors=[None, 4])
    sch.reorder(j_0, r_0, i, r_1, j_1)
    sch.decompose_reduction("C", r_0)
    sch.vectorize(j_1)
    return Film.of(sch, title="A product of matrices in tiles", cache_lines=8).svg()


def current() -> dict[str, str]:
    """Each film by its path in docs."""
    films = {f"films/{name}.svg": film(name) for name in ("before", *STEPS)}
    return {"film.svg": tiles(), **films}
