"""Programs of parallel loops in a row, over parts of two buffers that overlap now and then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

ROOM = 24  # elements of each buffer
EXTENTS = {"n // 4": lambda n: n // 4, "n % 4": lambda n: n % 4, "n": lambda n: n, "n - 3": lambda n: n - 3}
STARTS = {"": lambda n: 0, " + n // 4 * 4": lambda n: n // 4 * 4, " + n": lambda n: n}


@dataclass(frozen=True)
class Loop:
    """`for i in parallel(extent): target[stride * i + offset + start] = source[...]`, an element that it may own."""

    extent: int | str
    target: str
    stride: int
    offset: int
    start: str
    source: str  # is read at the same element

    def text(self, name: str) -> str:
        at = f"{self.stride} * {name} + {self.offset}{self.start}"
        return (
            f"    for {name} in T.parallel({self.extent}):\n"
            f"        {self.target}[{at}] = {self.source}[{at}] + T.float32({self.offset + 1})\n"
        )

    def elements(self, n: int) -> set[int]:
        extent = self.extent if isinstance(self.extent, int) else EXTENTS[self.extent](n)
        return {self.stride * i + self.offset + STARTS[self.start](n) for i in range(extent)}


def program(loops: list[Loop]) -> PrimFunc:
    lines = f"    for k in range({ROOM}):\n        Y[k] = X[k]\n        Z[k] = -X[k]\n"
    lines += "".join(loop.text(f"i{number}") for number, loop in enumerate(loops))
    buffers = ", ".join(f'{name}: T.Buffer(({ROOM},), "float32")' for name in "XYZ")
    if not any(isinstance(loop.extent, str) or loop.start for loop in loops):
        made: Any = from_source(f"@T.prim_func\ndef f({buffers}):\n{lines}")
        return made  # type: ignore[no-any-return]
    sized = '    N = T.match_buffer(sized, (n,), "float32")\n    N[0] = N[0]\n'
    header = f"@T.prim_func\ndef f({buffers}, sized: T.handle):\n    n = T.int32(is_size_var=True)\n"
    made = from_source(header + sized + lines)
    return made  # type: ignore[no-any-return]


def loops(open_sizes: bool) -> st.SearchStrategy[list[Loop]]:
    one = st.builds(
        Loop,
        extent=st.sampled_from(sorted(EXTENTS)) if open_sizes else st.integers(2, 4),
        target=st.sampled_from("YYZ"),
        stride=st.integers(1, 3) if not open_sizes else st.just(1),
        offset=st.integers(0, 6) if not open_sizes else st.integers(0, 1),
        start=st.sampled_from(sorted(STARTS)) if open_sizes else st.just(""),
        source=st.just("X"),
    )
    return st.lists(
        st.tuples(one, st.sampled_from(["XXX", "XYZ", "XZY"])).map(  # of X, itself, the other one
            lambda pair: replace(pair[0], source=pair[1]["XYZ".index(pair[0].target)])
        ),
        min_size=2, max_size=4,
    )  # fmt: skip
