"""Generated programs of every shape: the interpreters of all levels agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minitvm.reference import check, kernel, tir
from minitvm.reference.strategies import arguments, prim_funcs
from minitvm.tir import nodes as t
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples


@given(st.data())
def test_slow_fast_and_order_agree(data: st.DataObject) -> None:
    func = data.draw(prim_funcs())
    arrays = data.draw(arguments(func))
    results: list[list[bytes]] = []
    options: list[dict[str, Any]] = [{"mode": "slow"}, {"mode": "fast"}, {"mode": "slow", "order": "shuffled"}]
    for chosen in options:
        copies = [np.array(a) for a in arrays]
        tir.run(func, *copies, **chosen)
        results.append([a.tobytes() for a in copies])
    assert results[0] == results[1] == results[2]


@examples(8)
@given(prim_funcs(), st.integers(0, 3))
def test_lowering_keeps_the_meaning(func: t.PrimFunc, seed: int) -> None:
    verdict = check(func, lower(func, None, "f"), seed=seed)
    assert verdict, verdict


@examples(15)
@given(st.data())
def test_kernels_slow_and_fast_agree(data: st.DataObject) -> None:
    func = data.draw(prim_funcs())
    arrays = data.draw(arguments(func))
    sizes = {d.name: n for p, a in zip(func.buffers, arrays) for d, n in zip(p.shape, a.shape) if hasattr(d, "name")}
    module = lower(func, None, "f")
    results = []
    for chosen in ({"mode": "slow", "threads": 3, "order": "backward"}, {"mode": "fast"}):
        copies = [np.array(a) for a in arrays]
        kernel.run(module, *copies, sizes=sizes, **chosen)
        results.append([a.tobytes() for a in copies])
    assert results[0] == results[1]
