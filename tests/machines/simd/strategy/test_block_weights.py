"""Products with weights in blocks: which tile is used for which number of rows."""

from __future__ import annotations

import pytest

from minitvm import strategy, te
from minitvm.expr import SizeVar
from minitvm.machines.simd.topi.byte_products import dense_of_blocks
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -arch=znver4")


def product(rows: int | SizeVar, columns: int = 1536, blocks: int = 18, lanes: int = 16) -> PrimFunc:
    data, weight = te.placeholder((rows, blocks, 8), "int32"), (columns // lanes, blocks, 4, lanes)
    scale = te.placeholder((rows, blocks), "float32")
    shift, words = te.placeholder((rows, blocks), "int32"), te.placeholder(weight, "int32")
    scales = te.placeholder((*weight[:2], lanes), "float16")
    result = dense_of_blocks(data, scale, shift, words, scales)
    return te.create_prim_func([data, scale, shift, words, scales, result])


@pytest.mark.parametrize("rows", [64, 256, 1024])
def test_many_rows_are_computed_like_an_open_number_of_rows(rows: int) -> None:
    # With many rows, the result is larger than the weights: its shape must not be taken for that of the weights.
    known, unknown = (strategy.candidates(product(n), CPU)[0] for n in (rows, SizeVar("n", "int64")))
    assert known.rule == "block_weights"
    assert known.knobs == unknown.knobs
    assert known.knobs["rows"] > 1
