"""TVM's language as its tutorials and documentation write it: it is read, verified, printed, scheduled, and run or
refused by name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import tir
from minitvm.errors import ParseError, ScheduleError, Unsupported
from minitvm.expr import Call, StringImm, Var, const, first_difference, rewrite, structural_equal, walk
from minitvm.expr.foreign import FOREIGN, first_foreign, result_dtype
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.reference.meaning.scalar import evaluate
from minitvm.reference.strategies import prim_funcs, steps
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.analysis.accesses import addresses
from minitvm.tir.nodes import Block, BlockRealize, BufferData, Evaluate, PrimFunc, Seq
from minitvm.tir.script.printer import script
from minitvm.tir.script.refused import REFUSED
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.verifier import verify

from .tvm_programs import CARRIED, RUNNABLE

TEXTS = {**RUNNABLE, **{name: text for name, (_, text) in CARRIED.items()}}


def read(text: str) -> PrimFunc:
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("name", TEXTS)
def test_program_is_read_verified_printed_and_scheduled(name: str) -> None:
    func = read(TEXTS[name])
    verify(func)
    plain = any(type(v) is Var for b in func.buffers for v in (*b.shape, *b.strides))  # v0.27 has sizes only
    for dialect in ("tvm-0.23",) if plain else ("tvm-0.23", "tvm-0.27"):
        again = from_source(script(func, dialect=dialect))
        assert structural_equal(func, again), f"{first_difference(func, again)}\n{script(func, dialect=dialect)}"
    tir.Schedule(func)


# The length of a kernel's flat buffer is not bound where it depends on strides that are variables.
LOWERED = [name for name in RUNNABLE if name != "attributes of buffers"]


@pytest.mark.parametrize("name", LOWERED)
def test_program_means_the_same_when_it_is_lowered(name: str) -> None:
    func = read(RUNNABLE[name])
    verdict = check(func, lower(func))
    assert verdict, verdict


@pytest.mark.parametrize("name", CARRIED)
def test_foreign_call_is_refused_by_its_name_when_it_would_run(name: str) -> None:
    operation, text = CARRIED[name]
    func = read(text)
    assert operation in {node.op for node in walk(func) if isinstance(node, Call)}
    first = first_foreign(func)
    assert first is not None
    message = re.escape(f"T.{first.op}") + ".* cannot run here: " + re.escape(FOREIGN[first.op].reason)
    with pytest.raises(Unsupported, match=message):
        lower(func)
    a = np.zeros((16, 16), "float32")
    with pytest.raises(Unsupported, match=message):
        interpreter.run(func, a, a.copy())
    with pytest.raises(Unsupported, match=message):
        check(func, func)


@pytest.mark.parametrize("name", FOREIGN)
def test_every_foreign_operation_reads_back(name: str) -> None:
    """The dtype of a call is in its text where it does not follow from the operation."""
    values = "T.uint32(3), T.int64(4)"
    dtype = "float32" if FOREIGN[name].result == "given" else None
    given_dtype = f'"{dtype}", ' if dtype else ""
    text = f'@T.prim_func\ndef main(A: T.Buffer((4,), "float32")):\n    T.{name}({given_dtype}{values})\n'
    func = read(text)
    assert structural_equal(from_source(script(func)), func)
    call = next(node for node in walk(func) if isinstance(node, Call))
    assert call.op == name
    assert call.dtype == (result_dtype(FOREIGN[name], call.args) or dtype)


@pytest.mark.parametrize("name", REFUSED)
def test_name_without_a_meaning_is_refused_with_the_reason(name: str) -> None:
    row = REFUSED[name]
    text = f'@T.prim_func\ndef main(A: T.Buffer((4,), "float32")):\n    A[0] = T.{name}(A[1])\n'
    with pytest.raises(ParseError) as refused:
        from_source(text)
    headline, *rest = str(refused.value).split("\n")
    assert headline == f"<text>:3:12: T.{name} is not supported: {row.reason}"
    assert [line.removeprefix("  try:").strip() for line in rest[2:]] == list(row.instead)
    with pytest.raises(AttributeError, match=f"T.{name} is not supported"):
        getattr(T, name)


# ---- foreign calls in random programs ------------------------------------------------------------------------------


@st.composite
def with_foreign_calls(draw: st.DrawFn) -> PrimFunc:
    """A random program in which one block hands the addresses of buffers that it declares to foreign code."""
    func = draw(prim_funcs(min_blocks=2))
    blocks = [node for node in walk(func) if isinstance(node, Block) and node.iter_vars]
    block = draw(st.sampled_from(blocks))
    declared = list(dict.fromkeys(r.buffer for r in (*block.reads, *block.writes)))
    buffers = draw(st.lists(st.sampled_from(declared), min_size=1, max_size=2))
    pointers = [b.access_ptr(draw(st.sampled_from(["r", "w", "rw"]))) if draw(st.booleans()) else BufferData(b)
                for b in buffers]  # fmt: skip
    arguments = (StringImm("foreign"), *pointers, *(it.var for it in block.iter_vars))
    call = Evaluate(Call("int32", "call_extern", arguments))
    changed = tir.Block(
        block.iter_vars, block.reads, block.writes, block.name, Seq.of(block.body, call), block.init,
        block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip
    return with_block(func, block, changed)


def with_block(func: PrimFunc, old: Block, new: Block) -> PrimFunc:
    def change(node: object) -> object:
        if isinstance(node, BlockRealize) and node.block.id is old.id:
            return BlockRealize(node.iter_values, node.predicate, new)
        return None

    return func.with_body(rewrite(func.body, change))  # type: ignore[arg-type]


@settings(max_examples=30)
@given(with_foreign_calls(), st.data())
def test_addresses_stay_with_the_buffers_that_a_block_declares(func: PrimFunc, data: st.DataObject) -> None:
    """Whatever steps are legal, foreign code finds the data where the block says that it reads and writes."""
    verify(func)
    assert structural_equal(from_source(script(func)), func)
    sch = tir.Schedule(func, seed=0)
    for _ in range(3):
        data.draw(steps(sch))
        verify(sch.mod)
        again = from_source(script(sch.mod))
        assert structural_equal(again, sch.mod)
    calls = [n for n in walk(sch.mod[func.name]) if isinstance(n, Call) and n.op == "call_extern"]
    assert calls


COPY = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i in range(16):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            T.reads(B[vi, 0:16])
            T.writes(C[vi, 0:16])
            T.call_extern("int32", "row", B.access_ptr("r", offset=vi * 16), C.access_ptr("w", offset=vi * 16))
"""


def pointed(func: PrimFunc) -> list[str]:
    block = next(n for n in walk(func) if isinstance(n, Block) and n.name == "C")
    return [address.buffer.name for address in addresses(block.body)]


def test_a_copy_takes_the_address_with_it() -> None:
    sch = tir.Schedule(read(COPY))
    sch.cache_read("C", 0, "shared")
    sch.cache_write("C", 0, "local")
    assert pointed(sch.mod["main"]) == ["B_shared", "C_local"]


@pytest.mark.parametrize("step", [
    lambda sch: sch.compute_inline("B"),
    lambda sch: sch.transform_layout("C", ("read", 0), lambda i, j: (j, i)),
    lambda sch: sch.reindex("C", ("read", 0)),
])  # fmt: skip
def test_a_step_that_would_move_data_away_from_an_address_is_refused(step) -> None:
    sch = tir.Schedule(read(COPY))
    before = sch.mod
    with pytest.raises(ScheduleError):
        step(sch)
    assert sch.mod is before


def test_undeclared_regions_of_pointers_are_whole_buffers() -> None:
    text = COPY.replace("            T.reads(B[vi, 0:16])\n            T.writes(C[vi, 0:16])\n", "")
    block = next(n for n in walk(read(text)) if isinstance(n, Block) and n.name == "C")
    assert [script(r) for r in (*block.reads, *block.writes)] == ["B[0:16, 0:16]", "C[0:16, 0:16]"]


def test_a_pointer_has_the_offset_of_its_view() -> None:
    text = CARRIED["a view and its pointer"][1]
    assert "X.data, X_elem_offset, s * 16, 1)" in script(read(text))


# ---- constants -----------------------------------------------------------------------------------------------------


def test_a_constant_is_a_block_that_fills_its_buffer() -> None:
    func = read(RUNNABLE["constants allocated"])
    a, b = np.arange(8, dtype="float32"), np.empty(8, "float32")
    interpreter.run(func, a, b)
    np.testing.assert_array_equal(b, a * 2)
    sch = tir.Schedule(func)
    sch.cache_read("B", 1, "shared")
    assert check(func, sch.mod)


@pytest.mark.parametrize(("arguments", "problem"), [
    ('[1, 2, 3], "float32", [4]', "3 values for the extents [4]"),
    ('[0] * 5000, "int32", [5000]', "T.allocate_const of 5000 values: at most 4096"),
    ('[1.5], "int32", [1]', "1.5 is not a value of dtype int32"),
])  # fmt: skip
def test_constants_that_do_not_fit_are_refused(arguments: str, problem: str) -> None:
    with pytest.raises(ParseError, match=re.escape(problem)):
        from_source(f'@T.prim_func\ndef main(A: T.Buffer((4,), "float32")):\n    B = T.allocate_const({arguments})\n')


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(1, 31), st.integers(-20, 8))
def test_a_fixed_point_product_is_the_rounded_number(x: int, y: int, q: int, s: int) -> None:
    """Against exact integers; compiled code is held to the interpreter by `integer functions` above."""
    wide = 1 << 63
    places = q + max(-s, 0)
    product = ((x << max(s, 0)) * y + (1 << (places - 1)) + wide) % (2 * wide) - wide
    expected = ((product >> places) + (1 << 31)) % (1 << 32) - (1 << 31)
    call = tir.op.NAMED["q_multiply_shift"](*(const(v) for v in (x, y, q, s)))
    assert evaluate(call) == expected
