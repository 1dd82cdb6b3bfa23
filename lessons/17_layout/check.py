"""Asks `transform_layout` and the interpreter where the elements go, and compares."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference, te, tir

FILLING = -1
Shape = tuple[int, int, int]


@lru_cache(maxsize=256)
def memory(shape: Shape, block: int) -> np.ndarray:
    """What stands in each place when element (c, h, w) holds its own number: the output of a copy, laid out anew."""
    x = te.placeholder(shape, "int32", name="X")
    y = te.compute(shape, lambda c, h, w: x[c, h, w], name="Y")
    sch = tir.Schedule(te.create_prim_func([x, y]), error_render_level="fast")
    # The blocks of the copy's loops stay; only Y is another buffer afterwards, filled up with FILLING.
    sch.transform_layout("Y", ("write", 0), lambda c, h, w: (c // block, h, w, c % block), pad_value=FILLING)
    channels, rows, columns = shape
    found = np.zeros((-(-channels // block), rows, columns, block), "int32")
    reference.tir.run(sch.func, np.arange(channels * rows * columns, dtype="int32").reshape(shape), found)
    return found.ravel()


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small shape for which a place or an element is wrong."""
    shapes = st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 4))

    @cases(150, shape=shapes, block=st.integers(1, 5))
    def agrees_with_the_layout(shape: Shape, block: int) -> None:
        block = min(block, shape[0])
        wanted = memory(shape, block)
        for number, (c, h, w) in enumerate(np.ndindex(*shape)):
            place = int(np.flatnonzero(wanted == number)[0])
            case = f"offset({shape}, {block}, {c}, {h}, {w})"
            found = attempt(case, module.offset, shape, block, c, h, w)
            require(found == place, f"{case} is {found!r}\ntransform_layout puts that element in place {place}")
        for place, number in enumerate(wanted.tolist()):
            there = None if number == FILLING else tuple(int(i) for i in np.unravel_index(number, shape))
            case = f"element({shape}, {block}, {place})"
            wish = "padding: wanted None" if there is None else f"the element {there}"
            found = attempt(f"{case}: what transform_layout puts there is {wish}", module.element, shape, block, place)
            also = ", a tuple" if isinstance(found, list) else ""
            require(found == there, f"{case} is {found!r}\nwhat transform_layout puts there is {wish}{also}")
