"""What the strategies promise: legal programs, in bounds, that keep integers integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from minitvm.expr import And, BinaryOp, Cast, DType, Expr, IntImm, Or, Var, walk
from minitvm.reference import tir as interpreter
from minitvm.reference.strategies import KINDS, arguments, exprs, prim_funcs
from minitvm.reference.strategies.value_blocks import INDEX_DTYPES
from minitvm.tir.conditions import reads_memory
from minitvm.tir.nodes import Block, BufferLoad, BufferStore, If, PrimFunc, Seq, While, root_block
from minitvm.tir.verifier import verify
from tests.fewer import examples


def blocks(func: PrimFunc) -> list[Block]:
    return [item for item in walk(func) if isinstance(item, Block) and item.name != "root"]


@pytest.mark.parametrize("kind", KINDS)
@examples(7, 20)
@given(data=st.data())
def test_each_kind_runs_without_a_fault(kind: str, data: st.DataObject) -> None:
    """The interpreter's shadow refuses uninitialised reads, accesses out of bounds and outputs that are not written."""
    func = data.draw(prim_funcs(kinds=(kind,)))
    arrays = data.draw(arguments(func))
    verify(func)
    interpreter.run(func, *arrays, mode="slow", shadow=True)
    for array in arrays:
        assert np.all(array == np.trunc(array))
        assert np.all(np.abs(array.astype("float64")) < 2**24)


@given(prim_funcs(symbolic=True).flatmap(lambda func: st.tuples(st.just(func), arguments(func, size=3))))
def test_symbolic_programs_run_at_any_size(drawn: tuple[PrimFunc, list[np.ndarray]]) -> None:
    func, arrays = drawn
    assert any(isinstance(d, Var) for d in func.buffers[0].shape)
    assert arrays[0].shape[0] == 3
    interpreter.run(func, *arrays)


@given(prim_funcs(min_blocks=2, max_blocks=3))
def test_number_of_blocks(func: PrimFunc) -> None:
    body = root_block(func).body
    nests = body.stmts if isinstance(body, Seq) else (body,)
    scans = sum(any(v.kind == "O" for v in b.iter_vars) for b in blocks(func))  # of two nests
    indices = sum(b.dtype.is_int and f"{b.name}" in written_first(func) for b in func.body.block.alloc_buffers)
    assert 2 <= len(nests) - scans - indices <= 3


def written_first(func: PrimFunc) -> set[str]:
    """The blocks that write an index for the one after them."""
    return {b.name for b in blocks(func) if not b.reads and isinstance(getattr(b.body, "value", None), Cast)}


@given(prim_funcs())
def test_every_result_is_read_or_an_output(func: PrimFunc) -> None:
    read = {r.buffer for b in blocks(func) for r in b.reads if r.buffer not in {w.buffer for w in b.writes}}
    written = {r.buffer for b in blocks(func) for r in b.writes}
    assert written - read == set(func.buffers) & written


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32", "bool"])
@given(data=st.data())
def test_expressions_have_the_dtype_asked_for(dtype: str, data: st.DataObject) -> None:
    variables = [Var("i"), Var("x", DType("float32")), Var("l", DType("int64"))]
    e: Expr = data.draw(exprs(variables, dtype, 4))
    assert e.dtype == dtype
    for item in walk(e):
        divisor = getattr(item, "b", None) if type(item).__name__ in ("FloorDiv", "FloorMod", "Div", "Mod") else None
        assert divisor is None or (isinstance(divisor, IntImm) and divisor.value != 0)


def changed_condition(func: PrimFunc) -> bool:
    """Whether a branch of several statements stores first to what its condition reads."""
    for branch in (node for node in walk(func) if isinstance(node, If)):
        first, *rest = branch.then_case.stmts if isinstance(branch.then_case, Seq) else (branch.then_case,)
        read = {n.buffer for n in walk(branch.condition) if isinstance(n, BufferLoad)}
        if rest and isinstance(first, BufferStore) and first.buffer in read:
            return True
    return False


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ("a reduction", lambda f: any(b.init is not None for b in blocks(f))),
        ("a predicate", lambda f: "T.where" in f.script()),
        ("a buffer with two readers", lambda f: any(
            sum(r.buffer is w.buffer for b in blocks(f) for r in b.reads) > 1 for p in blocks(f) for w in p.writes
        )),
        ("a guarded load", lambda f: "T.if_then_else" in f.script()),
        ("a sequential loop", lambda f: any(v.kind == "O" for b in blocks(f) for v in b.iter_vars)),
        ("an update in place", lambda f: any(
            b.init is None and b.iter_vars[0].kind == "S" and {r.buffer for r in b.reads} & {w.buffer for w in b.writes}
            for b in blocks(f)
        )),
        ("a block in a block", lambda f: any(isinstance(n, Block) for b in blocks(f) for n in walk(b.body))),
        ("another dtype", lambda f: any(isinstance(n, Cast) and n.value.dtype != n.dtype for n in walk(f))),
        ("a condition that the statement before another changes", changed_condition),
        ("`and` over loads", lambda f: any(isinstance(n, And) and reads_memory(n) for n in walk(f))),
        ("`or` over loads", lambda f: any(isinstance(n, Or) and reads_memory(n) for n in walk(f))),
        ("an index that is written before", lambda f: any(
            isinstance(n, BufferLoad) and n.buffer in f.body.block.alloc_buffers
            for load in walk(f) if isinstance(load, BufferLoad) for index in load.indices for n in walk(index)
        )),
        ("a store under a condition beside one under none", lambda f: any(
            isinstance(n, Seq) and {type(s) for s in n.stmts} == {If, BufferStore} for n in walk(f)
        )),
        ("an index narrower than its axis", lambda f: any(
            isinstance(n, BufferLoad) and any(
                i.dtype.bits < 32 and getattr(d, "value", 0) > i.dtype.max for i, d in zip(n.indices, n.buffer.shape)
            ) for n in walk(f)
        )),
        ("a cast that wraps", lambda f: any(
            isinstance(n, Cast) and n.dtype.bits < n.value.dtype.bits and isinstance(n.value, BinaryOp) for n in walk(f)
        )),
        ("a while", lambda f: any(isinstance(n, While) for n in walk(f))),
        ("a view", lambda f: any(b.match_buffers for b in blocks(f))),
        ("a gather", lambda f: any(b.dtype == "int32" for b in f.buffers) and "T.max(T.min(" in f.script()),
    ],
)  # fmt: skip
def test_every_pattern_is_drawn(wanted: str, holds) -> None:
    quick = settings(max_examples=2000, phases=[Phase.generate], database=None)
    assert isinstance(find(prim_funcs(), holds, settings=quick), PrimFunc), wanted  # raises NoSuchExample otherwise


def test_a_failure_shrinks_to_the_one_block_that_matters() -> None:
    quick = settings(max_examples=500, database=None)
    smallest = find(prim_funcs(), lambda f: any(b.init is not None for b in blocks(f)), settings=quick)
    assert len(blocks(smallest)) == 1


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64"])
@settings(max_examples=15)
@given(data=st.data())
def test_other_dtypes(dtype: str, data: st.DataObject) -> None:
    func = data.draw(prim_funcs(dtypes=(dtype,)))
    verify(func)
    interpreter.run(func, *data.draw(arguments(func)))
    assert {str(b.dtype) for b in func.buffers} <= {dtype, *INDEX_DTYPES}
