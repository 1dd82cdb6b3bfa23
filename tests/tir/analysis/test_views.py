"""A matched buffer declares the layout of its region, or variables for it."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.errors import ExecutionError, VerificationError
from minitvm.reference import check
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.transform.dense_parameters import dense_parameters
from minitvm.tir.verifier import verify

REGION = "A[vi * 4:vi * 4 + 4, vj]"
VIEWS = {
    "one dimension for two": ("(4,), strides=[8]", "0"),
    "one row for four": ("(1,)", "0"),
    "another extent": ("(3, 1)", "0, 0"),
    "another stride": ("(4, 1), strides=[4, 1]", "0, 0"),
    "more dimensions": ("(1, 4, 1)", "0, 0, 0"),
    "two values": ("(4, 1), strides=[s, s]", "0, 0"),
}


def through(layout: str, first: str, size: str = "(8, 8)") -> PrimFunc:
    """The first row of each tile of 4 rows, read through a view with some layout."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer({size}), C: T.Buffer((2, 8))):
    for i, j in T.grid(2, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            s = T.int32()
            T.reads({REGION})
            T.writes(C[vi, vj])
            V = T.match_buffer({REGION}, {layout})
            C[vi, vj] = V[{first}]
""")
    return func  # type: ignore[return-value]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_does_not_fit_is_refused(view: str) -> None:
    func = through(*VIEWS[view])
    with pytest.raises(VerificationError, match="views_fit_their_source"):
        verify(func)
    with pytest.raises(VerificationError, match="views_fit_their_source"):
        dense_parameters(func)
    with pytest.raises(ExecutionError):
        reference.run(func, np.zeros((8, 8), "float32"), np.zeros((2, 8), "float32"))


@pytest.mark.parametrize("layout", ["(4, 1)", "(4, 1), strides=[s, 1]", "(4, 1), strides=[9, 1]"])
def test_a_view_that_fits_is_what_it_views(layout: str) -> None:
    func = through(layout, "0, 0", "(8, 8), strides=[9, 1]")
    verify(func)
    verdict = check(func, lower(func))
    assert verdict, verdict
