"""Printing and reading back: `parse(script(p))` is structurally equal to `p`, in every dialect, for every node."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import (
    Add,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    IntImm,
    IterVar,
    Let,
    Node,
    Ramp,
    Range,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
    call,
    const,
    first_difference,
    rewrite_statements,
    structural_equal,
)
from minitvm.reference.strategies import exprs, prim_funcs, steps
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import (
    Allocate,
    Assert,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    If,
    IRModule,
    KernelCall,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    PrimFunc,
    Seq,
    Stmt,
    While,
    with_root,
)
from minitvm.tir.schedule import Schedule
from minitvm.tir.script.printer import script
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.verifier import verify

VARIABLES = [Var("i"), Var("j"), Var("x", "float32"), Var("h", "float16"), Var("l", "int64"), Var("u", "uint8")]
ATTRS = {"global_symbol": "main"}


def assert_reads_back(program: PrimFunc | IRModule, dialect: str = "tvm-0.23") -> None:
    text = script(program, dialect=dialect)
    again = from_source(text)
    if dialect == "tvm-0.27":
        program = lets_to_the_end(program)
    assert structural_equal(program, again), f"{first_difference(program, again)}\n{text}\n{script(again)}"


def lets_to_the_end(program: Node) -> Node:
    """A let holds for the statements behind it, too: TVM 0.27 has no other."""

    def longer(new: Node) -> Node | None:
        if not isinstance(new, Seq):
            return None
        stmts: list[Stmt] = []
        for stmt in reversed(new.stmts):
            if isinstance(stmt, LetStmt) and stmts:
                stmts = [LetStmt(stmt.var, stmt.value, longer(made := Seq.of(stmt.body, *stmts)) or made)]
            else:
                stmts.insert(0, stmt)
        return Seq.of(*stmts)

    return rewrite_statements(program, longer)


@given(prim_funcs(), st.sampled_from(["tvm-0.23", "tvm-0.27"]))
def test_programs_read_back(func: PrimFunc, dialect: str) -> None:
    assert_reads_back(func, dialect)


@given(prim_funcs(symbolic=True))
def test_symbolic_programs_read_back(func: PrimFunc) -> None:
    assert_reads_back(func)


@given(prim_funcs(), prim_funcs())
def test_modules_read_back(first: PrimFunc, second: PrimFunc) -> None:
    assert_reads_back(IRModule({"main": first, "second": second}, {"version": 3}))


@given(st.sampled_from(["int32", "int64", "uint8", "float32", "float16", "bfloat16", "bool"]).flatmap(
    lambda dtype: exprs(VARIABLES, dtype, max_depth=5)
))  # fmt: skip
def test_expressions_read_back(value: Expr) -> None:
    out = Buffer("out", (1,), value.dtype)
    assert_reads_back(with_root((out, *VARIABLES), BufferStore(out, value, (const(0),)), ATTRS))


@given(prim_funcs(min_blocks=2), prim_funcs(min_blocks=2))
def test_different_programs_print_differently(first: PrimFunc, second: PrimFunc) -> None:
    """Text is faithful: two programs have the same text only if they are the same up to names."""
    if not structural_equal(first, second):
        assert script(first) != script(second) or structural_equal(from_source(script(first)), second)


def loop(body, var="i", extent=8, kind=ForKind.SERIAL, start=0, **more):
    return For(Var(var), const(start), const(extent), kind, body, **more)


def store_of(value: Expr) -> BufferStore:
    lanes = value.dtype.lanes
    out = Buffer("out", (64,), value.dtype.scalar)
    return BufferStore(out, value, (Ramp(const(0), const(1), lanes) if lanes > 1 else const(0),))


X = Buffer("X", (64,))
EXPRESSIONS = {
    "addition of two constants stays an addition": Add(const(2), const(3)),
    "shared operand": Add(*[const(2)] * 2),
    "negative constants": Add(const(-2), const(-3)),
    "nested parentheses": (const(1) + X[0].astype("int32")) - (const(2) - (const(3) - X[1].astype("int32"))),
    "cast to the same dtype": Cast(X.dtype, X[0]),
    "infinity": FloatImm(float("inf")) + X[0],
    "nan": FloatImm(float("nan"), "float16"),
    "negative zero": FloatImm(-0.0),
    "rational": FloatImm(Fraction(1, 6)),
    "large int64": IntImm(2**40, "int64"),
    "intrinsic": call("exp", X[0]) + call("pow", X[1], X[2]),
    "guarded load": call("if_then_else", X[0] > 0.0, X[1], const(0.0)),
    "reinterpret": Call("int32", "reinterpret", (X[0],)),
    "unknown intrinsic": Call("float32", "my_intrinsic", (X[0], const(3))),
    "a string with quotes": Call("int32", "print", (StringImm('say "it\'s"\n'),)),
    "shifts of constants": Call("int32", "shift_left", (const(1), const(4))),
    "vector load": BufferLoad(X, (Ramp(const(0), const(1), 8),)),
    "masked load": BufferLoad(X, (Ramp(const(0), const(1), 8),), Broadcast(const(True), 8)),
    "broadcast": BufferLoad(X, (Ramp(const(0), const(2), 4),)) * Broadcast(X[0], 4),
    "shuffle": Shuffle((BufferLoad(X, (Ramp(const(0), const(1), 4),)),), (3, 2, 1, 0)),
    "sum of lanes": Call("float32", "vector_reduce_add", (BufferLoad(X, (Ramp(const(0), const(1), 8),)),)),
    "gather": BufferLoad(X, (Ramp(const(0), const(1), 4) * Broadcast(const(3), 4),)),
    "division by a negative constant": FloorDiv(X[0].astype("int32"), const(-3)),
    "let": Let(y := Var("y", "float32"), X[0], y * y),
    "let in let": Let(z := Var("y", "float32"), X[0], Let(y, z + z, y * z)),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression_reads_back(name: str) -> None:
    store = store_of(EXPRESSIONS[name])
    assert_reads_back(PrimFunc((X, store.buffer), store, ATTRS))


I0, T0, COPY = Var("i"), Buffer("t", (8,), scope="local"), Buffer("Y", (64,))
SET = BufferStore(X, const(1.0), (const(0),))
LOOPED = BufferStore(X, const(1.0), (I0,))
LANES = Ramp(const(0), const(1), 4)
STATEMENTS = {
    "kinds of loops": Seq.of(
        loop(SET, kind=ForKind.PARALLEL), loop(SET, kind=ForKind.VECTORIZED), loop(SET, kind=ForKind.UNROLLED),
        loop(SET, kind=ForKind.THREAD, thread="threadIdx.x"),
        loop(SET, annotations={"pragma": 1, "names": ["a", 'quote"'], "nested": {"f": 0.5, "none": None, "on": True}}),
    ),
    "bounds of loops": Seq.of(
        loop(SET, start=2, extent=5), For(I0, const(3), X[0].astype("int32"), ForKind.SERIAL, SET),
        For(Var("i"), X[0].astype("int32"), const(3), ForKind.PARALLEL, SET),
        For(Var("w", "int64"), const(0, "int64"), const(9, "int64"), ForKind.SERIAL, SET),
    ),
    "a triangle is no grid": For(
        I0, const(0), const(8), ForKind.SERIAL, For(Var("j"), const(0), I0 + 1, ForKind.SERIAL, LOOPED)
    ),
    "a loop in a loop of its name": loop(loop(SET)),
    "if, else if, else": If(X[0] > 0.0, SET, If(X[1] > 0.0, SET, Seq.of(SET, SET))),
    "while": While(X[0] < 3.0, BufferStore(X, X[0] + 1.0, (const(0),))),
    "let to the end": LetStmt(I0, const(3), LOOPED),
    "let with more after it": Seq((LetStmt(I0, const(3), LOOPED), SET)),
    "allocation to the end": Allocate(T0, Seq.of(BufferStore(T0, const(0.0), (const(0),)), SET)),
    "allocation with more after it": Seq((Allocate(T0, BufferStore(T0, const(0.0), (const(0),)), {"a": 1}), SET)),
    "assert": Assert(X[0] > 0.0, 'says "no"\nand why'),
    "evaluate": Seq.of(Evaluate(const(0)), Evaluate(call("tvm_storage_sync", "shared")), Evaluate(X[0] + 1.0)),
    "prefetch": loop(Seq.of(Prefetch(X, const(100)), SET)),
    "nothing": loop(Seq(())),
    "kernel calls": Seq.of(KernelCall("k0", (X, const(3)), True), KernelCall("k1", (X,))),
    "masked store": BufferStore(
        X, Broadcast(const(0.0), 4), (LANES,), Broadcast(const(3), 4) > LANES
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_reads_back(name: str) -> None:
    assert_reads_back(PrimFunc((X,), STATEMENTS[name], ATTRS))
    assert_reads_back(with_root((X,), STATEMENTS[name], ATTRS))


def test_every_part_of_a_block_reads_back() -> None:
    n = SizeVar("n")
    source = Buffer("A", (n, 16), "float16", strides=(n * 0 + 32, 1), elem_offset=Var("offset"), align=128)
    inner, view = Buffer("inner", (4,), "int8", scope="shared"), Buffer("view", (1, 4), "float16", axis_separators=(1,))
    i, vi, vj, vo = Var("i"), Var("vi"), Var("vj"), Var("vo")
    region = BufferRegion(source, (Range(vi, const(1)), Range(vj * 4, const(4))))
    block = Block(
        (IterVar(vi, Range.of(n), "S"), IterVar(vj, Range(const(1), const(3)), "R"), IterVar(vo, Range.of(1), "O")),
        (region,), (BufferRegion(source, (Range(const(0), n), Range(vj, vj + 1))),), "update",
        BufferStore(view, const(1.0, "float16"), (const(0), const(0))), SET, (inner,),
        (MatchBufferRegion(view, region),), {"key": [1, 2], "value": const(3, "int64")},
    )  # fmt: skip
    realize = BlockRealize((i, const(2), const(0)), i < n - 1, block)
    body = For(i, const(0), n, ForKind.SERIAL, realize)
    assert_reads_back(with_root((source, X, Var("s", "float32"), SizeVar("m")), body, ATTRS, (Buffer("tmp", ()),)))


def test_private_function_and_root_with_regions_read_back() -> None:
    assert_reads_back(with_root((X,), SET, {}))
    root = Block((), (X.full_region(),), (), "root", SET, annotations={"a": 1})
    assert_reads_back(PrimFunc((X,), BlockRealize((), const(True), root), {**ATTRS, "tir.noalias": True}))


@pytest.mark.parametrize("target", [Target("cpu"), Target("cuda", host="cpu")])
def test_target_of_a_function_reads_back(target: Target) -> None:
    assert_reads_back(with_root((X,), SET, {**ATTRS, "target": target}))


def test_lowered_and_blockless_functions_are_told_apart() -> None:
    lowered, with_its_root = PrimFunc((X,), SET, ATTRS), with_root((X,), SET, ATTRS)
    assert "lowered=True" in script(lowered)
    assert "lowered" not in script(with_its_root)
    assert not structural_equal(lowered, with_its_root)


def test_same_names_become_different() -> None:
    a, b, k1, k2 = Buffer("A", (4,)), Buffer("A", (4,)), Var("A"), Var("for")
    inner = For(k2, const(0), const(4), ForKind.PARALLEL, BufferStore(a, b[k1], (k2,)))
    body = For(k1, const(0), const(4), ForKind.SERIAL, inner)
    func = with_root((a, b), body, ATTRS)
    assert "for A_2 in range(4):" in script(func)
    assert "A[for_] = A_1[A_2]" in script(func)
    assert_reads_back(func)


def test_unknown_dialect() -> None:
    with pytest.raises(Exception, match=r"unknown dialect 'tvm-0.1' of TVMScript\n  wanted: tvm-0.23 or tvm-0.27"):
        script(SET, dialect="tvm-0.1")


@given(prim_funcs())
def test_lowered_programs_read_back(func: PrimFunc) -> None:
    assert_reads_back(lower(func))


@given(prim_funcs(), st.data())
def test_scheduled_programs_read_back_and_pass_the_verifier(func: PrimFunc, data: st.DataObject) -> None:
    sch = Schedule(func, seed=0)
    for _ in range(data.draw(st.integers(1, 4))):
        data.draw(steps(sch))
        verify(sch.mod)
        assert_reads_back(sch.mod)


def test_a_region_around_an_index_that_is_narrower_than_its_axis_reads_back() -> None:
    """Start and extent of a hull have one dtype: int8 indices and the whole of an int32 axis meet in int32."""
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((130,), "int32"), I: T.Buffer((4,), "int8"), C: T.Buffer((4,), "int32")):
            B = T.alloc_buffer((4,), "int32")
            for i in range(4):
                with T.block("B"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[I[vi]]
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.remap("S", [i])
                    C[vi] = B[vi]
                    for k in range(2):
                        C[vi] = B[vi] + 0
        """)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    sch.compute_inline("B")
    assert_reads_back(sch.mod)


def test_thousands_of_lets_read_back() -> None:
    body = SET
    for number in range(3000):
        body = LetStmt(Var(f"x{number}"), const(number), body)
    text = script(PrimFunc((X,), body, ATTRS))
    again = from_source(text)
    assert isinstance(again, PrimFunc)
    assert script(again) == text
    assert text.count("T.int32 = ") == 3000
