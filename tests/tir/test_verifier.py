# ruff: noqa: E501 - error texts stand as they are printed
"""One bad program for each rule of the verifier, its error pinned; and good programs, which pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent, indent

import pytest
from hypothesis import given

from minitvm.errors import VerificationError
from minitvm.expr import IterVar, Range, Var, const
from minitvm.reference.strategies import prim_funcs
from minitvm.script import from_source
from minitvm.tir.nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Instruction,
    IRModule,
    KernelCall,
    MatchBufferRegion,
    PrimFunc,
    Seq,
    Stmt,
    Tile,
    with_root,
)
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.verifier import MODULE_RULES, SHARED_RULES, TIR_RULES, verify, verify_if_asked
from minitvm.tir.verifier.kernel_rules import STATEMENTS

ATTRS = {"global_symbol": "main"}
A, B = Buffer("A", (8,)), Buffer("B", (8,))
ONE = BufferStore(A, const(1.0), (const(0),))


def body(text: str) -> PrimFunc:
    """A function of A, B and n with that body."""
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):\n'
    func = from_source(head + indent(dedent(text), "    "))
    assert isinstance(func, PrimFunc)
    return func


def around(stmt: Stmt, *params: Buffer | Var) -> PrimFunc:
    return with_root(params or (A, B), stmt, ATTRS)


def loop(stmt: Stmt, var: Var | None = None, kind: ForKind = ForKind.SERIAL, thread: str | None = None) -> For:
    return For(Var("i") if var is None else var, const(0), const(8), kind, stmt, thread)


def block(
    stmt: Stmt, *axes: IterVar, values: tuple = (), reads: tuple = (), writes: tuple = (), **more
) -> BlockRealize:
    return BlockRealize(values, const(True), Block(axes, reads, writes, "b", stmt, **more))


def twice() -> PrimFunc:
    i = Var("i")
    return around(loop(loop(BufferStore(A, const(1.0), (i,)), i), i))


def one_iterator_two_values() -> PrimFunc:
    axis = IterVar(Var("v"), Range.of(8))
    return around(loop(block(ONE, axis, values=(i := Var("i"), const(0)), writes=(A.full_region(),)), i))


def view_of_another_dtype() -> PrimFunc:
    view = Buffer("V", (8,), "int32")
    match = MatchBufferRegion(view, A.full_region())
    return around(block(BufferStore(view, const(1), (const(0),)), writes=(A.full_region(),), match_buffers=(match,)))


def module(argument: Buffer | Var, kernel: str = "k", parallel: bool = False) -> IRModule:
    host = PrimFunc((argument,), KernelCall(kernel, (argument,), parallel), {**ATTRS, "host": True})
    return IRModule({"main": host, "k": PrimFunc((A,), ONE, {"global_symbol": "k"})})


# rule: (a program that breaks it, level, the error)
BAD: dict[str, tuple[Callable[[], PrimFunc | IRModule], str, str]] = {
    "variables_are_defined": (lambda: around(BufferStore(A, const(1.0), (Var("i"),))), "tir", """
        main: variables_are_defined
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                A[i] = T.float32(1.0)
                  ^ i is not defined here
          wanted: a variable is a parameter, a symbolic dimension, or defined by a loop, block or let around its use
          found:  i is not defined here
        """),
    "strides_are_injective": (lambda: around(ONE, A, Buffer("S", (4, 4), strides=(const(1), const(1)))), "tir", """
        main: strides_are_injective
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), S: T.Buffer((4, 4), "float32", strides=(1, 1))):
                                                   ^ S: two elements share the place 1 with strides (1, 1)
                A[0] = T.float32(1.0)
          wanted: explicit strides have one entry for each dimension, and give each element a different location
          found:  S: two elements share the place 1 with strides (1, 1)
        """),
    "variables_are_defined_once": (twice, "tir", """
        main: variables_are_defined_once
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                for i, i in T.grid(8, 8):
                       ^ i is defined a second time
                    A[i] = T.float32(1.0)
          wanted: each loop, iterator and let defines a different variable
          found:  i is defined a second time
        """),
    "buffers_are_defined": (lambda: around(loop(ONE), B), "tir", """
        main: buffers_are_defined
            @T.prim_func
            def main(B: T.Buffer((8,), "float32")):
                for i in range(8):
                    A[0] = T.float32(1.0)
                    ^^^^^^^^^^^^^^^^^^^^^ A is not defined here
          wanted: a buffer is a parameter, or allocated or matched by a block or statement around its use
          found:  A is not defined here
        """),
    "buffers_are_defined_once": (lambda: PrimFunc((A,), Allocate(A, ONE), ATTRS), "kernel", """
        main: buffers_are_defined_once
            @T.prim_func(lowered=True)
            def main(A: T.Buffer((8,), "float32")):
                A = T.decl_buffer((8,))
                ^^^^^^^^^^^^^^^^^^^^^^^ A is defined a second time
                A[0] = T.float32(1.0)
          wanted: each parameter, allocation and view defines a different buffer
          found:  A is defined a second time
        """),
    "dimensions_can_be_bound": (
        lambda: around(ONE, A, Buffer("C", (Var("n") * 2,))), "tir", """
        main: dimensions_can_be_bound
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), var_C: T.handle):
                n = T.int32()
                C = T.match_buffer(var_C, (n * 2,))
                ^ n stands only inside n * 2: no argument tells its value
                A[0] = T.float32(1.0)
          wanted: a symbolic dimension is a parameter, or an entry of a parameter's shape, strides or offset by itself
          found:  n stands only inside n * 2: no argument tells its value
        """,
    ),
    "indices_are_integers": (
        lambda: around(BufferStore(A, const(1.0), (B[0],))), "tir", """
        main: indices_are_integers
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                A[B[0]] = T.float32(1.0)
                ^^^^^^^^^^^^^^^^^^^^^^^^ the index B[0] has dtype float32
          wanted: loads, stores and regions have one integer index for each dimension
          found:  the index B[0] has dtype float32
        """,
    ),
    "loops_are_over_integers": (
        lambda: around(For(Var("i", "int64"), const(0), const(8), ForKind.SERIAL, ONE)), "tir",
        """
        main: loops_are_over_integers
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                for i in range(8):
                ^^^^^^^^^^^^^^^^^^ int64 runs from int32 over int32
                    A[0] = T.float32(1.0)
          wanted: the start, extent and variable of a loop have the same integer dtype
          found:  int64 runs from int32 over int32
        """,
    ),
    "conditions_are_bool": (
        lambda: around(BlockRealize((), const(1), Block((), (), (A.full_region(),), "b", ONE))), "tir",
        """
        main: conditions_are_bool
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                with T.block("b"):
                ^^^^^^^^^^^^^^^^^^ 1 has dtype int32
                    T.where(1)
                    T.reads()
                    T.writes(A[0:8])
                    A[0] = T.float32(1.0)
          wanted: conditions and predicates are bool; those of statements and blocks have one lane
          found:  1 has dtype int32
        """,
    ),
    "thread_loops_name_their_axis": (
        lambda: body(
            '''
            for i in T.thread_binding(4, thread="threadIdx.x"):
                for j in T.thread_binding(2, thread="threadIdx.x"):
                    A[0] = 1.0
            '''
        ), "tir", """
        main: thread_loops_name_their_axis
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i in T.thread_binding(4, thread="threadIdx.x"):
                    for j in T.thread_binding(2, thread="threadIdx.x"):
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ threadIdx.x is bound by the loop over i already; j has extent 2, i has 4
                        A[0] = T.float32(1.0)
          wanted: thread loops, and no others, name an axis; an inner loop over the same axis divides its work among the threads
          found:  threadIdx.x is bound by the loop over i already; j has extent 2, i has 4
        """,
    ),
    "instructions_touch_their_operands": (lambda: around(Instruction("fill", (Tile((A[0], A[1])),), Seq.of(
        ONE, BufferStore(B, const(1.0), (const(0),)))), A, B), "tir", """
        main: instructions_touch_their_operands
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                with T.instruction("fill", T.tile(A[0], A[1])):
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ B is no operand of fill
                    A[0] = T.float32(1.0)
                    B[0] = T.float32(1.0)
          wanted: an instruction touches only the buffers of its tiles, and buffers that it allocates itself
          found:  B is no operand of fill
        """),
    "there_is_a_root_block": (lambda: PrimFunc((A,), ONE, ATTRS), "tir", """
        main: there_is_a_root_block
            @T.prim_func(lowered=True)
            def main(A: T.Buffer((8,), "float32")):
                A[0] = T.float32(1.0)
                ^^^^^^^^^^^^^^^^^^^^^ a BufferStore
          wanted: the body is the root block, which has no iterators
          found:  a BufferStore
        """),
    "nothing_is_lowered_yet": (lambda: around(Allocate(Buffer("t", (4,)), ONE)), "tir", """
        main: nothing_is_lowered_yet
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                t = T.decl_buffer((4,))
                ^^^^^^^^^^^^^^^^^^^^^^^ Allocate in a loop program
                A[0] = T.float32(1.0)
          wanted: a loop program has no Allocate (blocks allocate buffers) and no KernelCall (only host functions call kernels)
          found:  Allocate in a loop program
        """),
    "iterators_are_bound": (one_iterator_two_values, "tir", """
        main: iterators_are_bound
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                for i in range(8):
                    with T.block("b"):
                    ^^^^^^^^^^^^^^^^^^ 1 iterators, 2 values
                        v = T.axis.spatial(8)
                        # bound to i, 0
                        T.reads()
                        T.writes(A[0:8])
                        A[0] = T.float32(1.0)
          wanted: each iterator of a block has one value, with the dtype of the iterator, and is spatial, reduction or opaque
          found:  1 iterators, 2 values
        """),
    "blocks_use_their_iterators": (
        lambda: body(
            '''
            for i, j in T.grid(8, 4):
                with T.block("b"):
                    vi = T.axis.S(8, i)
                    T.reads(B[0:8])
                    T.writes(A[vi])
                    A[vi] = B[j]
            '''
        ), "tir", """
        main: blocks_use_their_iterators
            ...
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i, j in T.grid(8, 4):
                    with T.block("b"):
                        vi = T.axis.remap("S", [i])
                        T.reads(B[0:8])
                        T.writes(A[vi])
                        A[vi] = B[j]
                                ^^^^ the loop variable j inside the block b
          wanted: a block uses the loops around it only through its iterators, except to name threads that combine values
          found:  the loop variable j inside the block b
        """,
    ),
    "iterators_stay_in_their_domains": (
        lambda: body(
            '''
            for i, j in T.grid(3, 4):
                with T.block("b"):
                    vi = T.axis.S(8, i * 4 + j)
                    A[vi] = B[vi]
            '''
        ), "tir", """
        main: iterators_stay_in_their_domains
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i, j in T.grid(3, 4):
                    with T.block("b"):
                        vi = T.axis.spatial(8, i * 4 + j)
                        ^^ vi = i * 4 + j runs from 0 to 11
                        T.reads(B[vi])
                        T.writes(A[vi])
                        A[vi] = B[vi]
          wanted: if a block has no predicate, the values of its iterators are in their domains
          found:  vi = i * 4 + j runs from 0 to 11
        """,
    ),
    "reads_are_declared": (
        lambda: body(
            '''
            for i in range(6):
                with T.block("b"):
                    vi = T.axis.S(6, i)
                    T.reads(B[vi:vi + 2])
                    T.writes(A[vi])
                    A[vi] = B[vi] + B[vi + 2]
            '''
        ), "tir", """
        main: reads_are_declared
            ...
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i in range(6):
                    with T.block("b"):
                        vi = T.axis.remap("S", [i])
                        T.reads(B[vi:vi + 2])
                        T.writes(A[vi])
                        A[vi] = B[vi] + B[vi + 2]
                                        ^^^^^^^^^ dimension 0 of B is read outside of the declared region
          wanted: the body of a block reads only elements that the block declares as read
          found:  dimension 0 of B is read outside of the declared region
        """,
    ),
    "writes_are_declared": (
        lambda: body(
            '''
            for i in range(8):
                with T.block("b"):
                    vi = T.axis.S(8, i)
                    T.reads(B[vi])
                    T.writes(A[vi])
                    A[vi] = B[vi]
                    B[vi] = 0.0
            '''
        ), "tir", """
        main: writes_are_declared
            ...
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i in range(8):
                    with T.block("b"):
                        vi = T.axis.remap("S", [i])
                        T.reads(B[vi])
                        T.writes(A[vi])
                        A[vi] = B[vi]
                        B[vi] = T.float32(0.0)
                        ^^^^^^^^^^^^^^^^^^^^^^ the block b declares no writes of B
          wanted: the body of a block writes only elements that the block declares as written
          found:  the block b declares no writes of B
        """,
    ),
    "addresses_are_declared": (
        lambda: body(
            '''
            with T.block("b"):
                T.reads()
                T.writes(A[0:8])
                T.call_extern("int32", "copy", A.access_ptr("w"), B.data)
            '''
        ), "tir", """
        main: addresses_are_declared
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                with T.block("b"):
                    T.reads()
                    T.writes(A[0:8])
                    T.call_extern("int32", "copy", T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 8, 2), B.data)
                                                                                                                    ^^^^^^ the block b declares no access of B, whose address it hands out
          wanted: a block that passes on the address of a buffer declares an access to the buffer, or allocates or matches it
          found:  the block b declares no access of B, whose address it hands out
        """),
    "views_fit_their_source": (view_of_another_dtype, "tir", """
        main: views_fit_their_source
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                with T.block("b"):
                    T.reads()
                    T.writes(A[0:8])
                    V = T.match_buffer(A[0:8], (8,), "int32")
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ int32 in global, a view of float32 in global
                    V[0] = 1
          wanted: a matched buffer has the dtype and scope of its source, and the dimensions and strides of the matched region
          found:  int32 in global, a view of float32 in global
        """),
    "concurrent_loops_bind_no_reductions": (
        lambda: body(
            '''
            for i in T.parallel(8):
                with T.block("sum"):
                    v = T.axis.R(8, i)
                    with T.init():
                        A[0] = 0.0
                    A[0] = A[0] + B[v]
            '''
        ), "tir", """
        main: concurrent_loops_bind_no_reductions
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
                for i in T.parallel(8):
                ^^^^^^^^^^^^^^^^^^^^^^^ i is parallel and drives the reduction v
                    with T.block("sum"):
                        v = T.axis.remap("R", [i])
                        T.reads(B[v])
                        T.writes(A[0])
                        with T.init():
                            A[0] = T.float32(0.0)
                        ...
          wanted: parallel and vectorised loops and block indices drive only spatial iterators, thread indices also reductions
          found:  i is parallel and drives the reduction v
        """,
    ),
    "calls_fit_their_kernels": (lambda: module(Buffer("A", (8,), "int32")), "kernel", """
        the module: calls_fit_their_kernels
            @I.ir_module
            class Module:
                @T.prim_func(lowered=True)
                def main(A: T.Buffer((8,), "int32")):
                    T.func_attr({"host": True})
                    T.call_kernel("k", A)
                    ^^^^^^^^^^^^^^^^^^^^^ the int32 buffer A is handed over as the float32 buffer A

                @T.prim_func(lowered=True)
                def k(A: T.Buffer((8,), "float32")):
                    A[0] = T.float32(1.0)
          wanted: a call names a function of the module and hands over what its parameters are
          found:  the int32 buffer A is handed over as the float32 buffer A
        """),
}  # fmt: skip


@pytest.mark.parametrize("rule", BAD)
def test_rule_refuses_a_bad_program(rule: str) -> None:
    make, level, expected = BAD[rule]
    with pytest.raises(VerificationError) as refused:
        verify(make(), level=level)
    assert str(refused.value) == dedent(expected).strip()
    assert rule in expected.splitlines()[1]


def test_every_rule_has_its_bad_program() -> None:
    assert set(BAD) == {r.name for r in (*TIR_RULES, *SHARED_RULES)} | set(MODULE_RULES)
    assert all(r.meaning for r in TIR_RULES)


@given(prim_funcs(), prim_funcs(symbolic=True))
def test_legal_programs_pass(func: PrimFunc, symbolic: PrimFunc) -> None:
    verify(IRModule({"main": func, "symbolic": symbolic}))


@given(prim_funcs(max_blocks=2))
def test_lowered_programs_pass(func: PrimFunc) -> None:
    verify(lower(func), level="kernel")


@pytest.mark.parametrize(
    "text",
    [
        # a read that a condition keeps inside of what is declared
        "for i in range(8):\n    with T.block('b'):\n        vi = T.axis.S(8, i)\n        T.reads(B[vi])\n        T.writes(A[vi])\n"
        "        for k in range(4):\n            if k < 1:\n                A[vi] = B[vi + k]",
        # a thread index may drive a reduction
        "for i in T.thread_binding(8, thread='threadIdx.x'):\n    with T.block('b'):\n        v = T.axis.R(8, i)\n"
        "        with T.init():\n            A[0] = 0.0\n        A[0] = A[0] + B[v]",
        # a predicate keeps the iterator in its domain
        "for i, j in T.grid(3, 4):\n    with T.block('b'):\n        vi = T.axis.S(8, i * 4 + j)\n        T.where(i * 4 + j < 8)\n"
        "        A[vi] = B[vi]",
        # one axis in two nests beside each other
        "for i in T.thread_binding(8, thread='threadIdx.x'):\n    A[i] = 1.0\n"
        "for i in T.thread_binding(8, thread='threadIdx.x'):\n    B[i] = 1.0",
    ],
)
def test_what_is_close_to_wrong_and_right_passes(text: str) -> None:
    verify(body(text))


SQUARE = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid({rows}, {columns}):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j]){where}
            T.reads(B[{reads}])
            T.writes(A[{writes}])
            A[vi, vj] = B[{value}]
"""


def square(reads: str = "vi, vj", writes: str = "vi, vj", value: str = "vi, vj", rows: int = 8, columns: int = 8,
           where: str = "") -> PrimFunc:  # fmt: skip
    text = SQUARE.format(
        reads=reads, writes=writes, value=value, rows=rows, columns=columns, where=where and f"\n            {where}"
    )
    return from_source(text)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (square(reads="vj, vj"), "dimension 0 of B is read outside of the declared region, where vi = 0, vj = 7"),
        (square(writes="vi, 0:4"), "dimension 1 of A is written outside of the declared region, where vj = 7"),
        (square(writes="vi, 1:8"), "dimension 1 of A is written outside of the declared region, where vj = 0"),
        (square(reads="7 - vi, vj"), "dimension 0 of B is read outside of the declared region, where vi = 0"),
        (square(reads="0, vj", rows=2), "dimension 0 of B is read outside of the declared region, where vi = 1"),
    ],
)
def test_a_claim_that_starts_elsewhere(program: PrimFunc, found: str) -> None:
    """A region whose start is another one than that of what is read or written."""
    with pytest.raises(VerificationError, match=re.escape(f"found:  {found}") + "$"):
        verify(program)


@pytest.mark.parametrize(
    "program",
    [
        square(reads="0:8, vj"),
        square(reads="0, vj", rows=1),
        square(reads="vj:vj + 1, vj", rows=1, columns=1),
        square(writes="vi, 0:4", where="T.where(j < 4)"),  # which elements are written is not asked of intervals
        square(reads="vi, vj:vj + 4", value="vi, vj + 3", columns=5),
    ],
)
def test_a_claim_that_starts_elsewhere_and_holds(program: PrimFunc) -> None:
    verify(program)


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (module(A, kernel="other"), "the module has no function other"),
        (module(A, parallel=True), "parallel, but the outermost loop of k is not"),
        (module(Var("x", "float32")), "the float32 scalar x is handed over as the float32 buffer A"),
    ],
)
def test_calls_that_do_not_fit(program: IRModule, found: str) -> None:
    with pytest.raises(VerificationError, match=f"found:  {found}$"):
        verify(program, level="kernel")


def test_kernel_level_rules_are_checked() -> None:
    with pytest.raises(VerificationError, match="main: no_blocks"):
        verify(around(ONE), level="kernel")


def test_the_budget_is_of_statements_for_which_code_is_generated() -> None:
    """An instruction is one of them, however much it does."""
    much = Seq.of(*[ONE] * (STATEMENTS - 2))  # the sequence counts, too
    nothing = Seq.of(*[Evaluate(const(0))] * STATEMENTS)
    verify(PrimFunc((A,), Seq.of(much, Instruction("much", (), nothing)), ATTRS), level="kernel")
    with pytest.raises(VerificationError, match=f"budget(.|\n)*found: *{STATEMENTS + 1} statements"):
        verify(PrimFunc((A,), Seq.of(much, Instruction("much", (), nothing), ONE), ATTRS), level="kernel")


def test_hook_verifies_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINITVM_VERIFY", raising=False)
    verify_if_asked("split", PrimFunc((A,), ONE, ATTRS))
    monkeypatch.setenv("MINITVM_VERIFY", "1")
    verify_if_asked("split", around(ONE))
    with pytest.raises(VerificationError, match="^after split: main: there_is_a_root_block"):
        verify_if_asked("split", PrimFunc((A,), ONE, ATTRS))


def test_regions_of_a_block_know_nothing_of_what_it_allocates() -> None:
    own = Buffer("own", (const(8),), "int32", "local")
    part = BufferRegion(A, (Range(BufferLoad(own, (const(0),)), const(1)),))
    made = block(ONE, reads=(), writes=(part,), alloc_buffers=(own,))
    with pytest.raises(VerificationError, match="buffers_are_defined(.|\n)*own is not defined here"):
        verify(around(made))


@pytest.mark.parametrize("extent", [-2, 0, 1])
def test_a_loop_that_never_runs_reads_nothing(extent: int) -> None:
    verify(from_source(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            S = T.alloc_buffer((1,))
            S[0] = T.float32(0)
            for j in range({extent}):
                S[0] = S[0] + A[j]
            B[vi] = S[0]
"""))  # fmt: skip
