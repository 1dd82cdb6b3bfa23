"""The regions that a block touches are read off its text, whatever the block declares."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import find, replace, structural_equal
from minitvm.reference.strategies.programs import prim_funcs
from minitvm.script import from_source
from minitvm.tir import Schedule
from minitvm.tir.analysis.block_regions import Regions, regions_touched
from minitvm.tir.analysis.effects import effects
from minitvm.tir.nodes import Block, PrimFunc
from tests.fewer import examples


def function(body: str, *params: str) -> PrimFunc:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    func = from_source(f"@T.prim_func\ndef main({', '.join(params)}):\n{lines}\n")
    assert isinstance(func, PrimFunc)
    return func


def block_named(func: PrimFunc, name: str) -> Block:
    return next(block for block in find(func.body, Block) if block.name == name)


@examples(5, 15)
@given(st.data())
def test_a_declaration_that_says_more_changes_no_box(data: Any) -> None:
    func = data.draw(prim_funcs())
    for block in find(func.body, Block):
        touched = effects(block)
        if any(touch.opaque for touch in (*touched.reads, *touched.writes)):
            continue
        everything = tuple(buffer.full_region() for buffer in func.buffers)
        said = regions_touched(replace(block, reads=everything, writes=everything))
        silent = regions_touched(replace(block, reads=(), writes=()))
        accumulated = {touch.buffer for touch in touched.reads if touch.accumulated}
        for more, less in zip(said, silent, strict=True):
            boxes = {region.buffer: region for region in less}
            shown = {r.buffer for r in more}
            assert shown - accumulated <= boxes.keys() <= shown
            assert all(structural_equal(r, boxes[r.buffer]) for r in more if r.buffer in boxes)


_WIDE = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.reads(A[0:8], D[0:8])
        T.writes(B[0:8])
        B[vi] = A[vi] * T.float32(2)
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi])
        T.writes(D[vi])
        D[vi] = A[vi]
"""
_PARAMS = [f'{name}: T.Buffer((8,), "float32")' for name in "ABD"]


def test_a_block_depends_on_nothing_that_it_only_declares() -> None:
    sch = Schedule(function(_WIDE, *_PARAMS))
    assert sch.get_consumers("D") == []
    sch.parallel(sch.get_loops("B")[0])  # its iterations write one element each


def test_numbers_follow_the_declaration() -> None:
    body = """
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        T.reads(B[vi], A[vi])
        T.writes(D[vi])
        D[vi] = A[vi] + B[vi]
"""
    sch = Schedule(function(body, *_PARAMS))
    copy = sch.cache_read("D", 0, "local")
    assert [region.buffer.name for region in sch.get(copy).reads] == ["B"]


def sides(regions: Regions, name: str) -> str:
    (region,) = [r for r in regions if r.buffer.name == name]
    return ", ".join(f"{r.start}+{r.extent}" for r in region.region)


@pytest.mark.parametrize(("first", "box"), [("D[0] = T.float32(1)", "I[vi]+1"), ("I[vi] = 0", "0+8")])
def test_an_index_that_data_tells_is_believed_where_it_stands_still(first: str, box: str) -> None:
    body = f"""
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.reads(I[vi], A[I[vi]])
        T.writes(I[vi], B[vi], D[0])
        {first}
        B[vi] = A[I[vi]]
"""
    block = block_named(function(body, *_PARAMS, 'I: T.Buffer((8,), "int32")'), "B")
    reads, _ = regions_touched(block)
    assert sides(reads, "A") == box


def test_a_root_block_goes_on_to_declare_nothing() -> None:
    body = """
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
"""
    sch = Schedule(function(body, *(f'{name}: T.Buffer((8, 4), "float32")' for name in "AB")))
    sch.transform_layout("B", ("read", 0), lambda i, j: (j, i))
    root = block_named(sch.func, "root")
    assert (root.reads, root.writes) == ((), ())
