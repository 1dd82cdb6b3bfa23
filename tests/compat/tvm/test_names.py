# ruff: noqa: UP037, RUF059 - the program stands as it was published
"""A person who knows TVM feels at home: its names import, and a program published for it runs as it stands."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.compat.tvm import transform
from minitvm.reference import tir as interpreter
from minitvm.script import ir as I
from minitvm.script import tir as T

M = K = N = 256


@tvm.script.ir_module
class MyMatMulModule:
    @T.prim_func
    def main(A: T.Buffer[(M, K), "float32"], B: T.Buffer[(K, N), "float32"], C: T.Buffer[(M, N), "float32"]):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(M, N, K):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_program_published_in_2023_runs(capsys: pytest.CaptureFixture[str], rng: np.random.Generator) -> None:
    sch = tvm.tir.Schedule(MyMatMulModule)
    block_C = sch.get_block("C")
    i, j, k = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, 128])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    sch.mod.show()

    printed = capsys.readouterr().out
    assert 'in T.thread_binding(2, thread="blockIdx.x"):' in printed
    assert 'in T.thread_binding(128, thread="threadIdx.x"):' in printed
    assert tvm.ir.structural_equal(tvm.script.from_source(printed), sch.mod)

    a, b = (rng.integers(-4, 5, (256, 256)).astype("float32") for _ in range(2))
    c = np.full((256, 256), np.nan, "float32")
    interpreter.run(sch.mod, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_names_of_nodes() -> None:
    for name in (
        "PrimFunc", "Var", "SizeVar", "IterVar", "Buffer", "BufferLoad", "BufferStore", "BufferRegion", "Block",
        "BlockRealize", "For", "ForKind", "SeqStmt", "IfThenElse", "While", "LetStmt", "Evaluate", "Add", "FloorDiv",
        "FloorMod", "Select", "Cast", "Call", "IntImm", "FloatImm", "StringImm", "Ramp", "Broadcast", "PrimExpr",
        "CommReducer", "Reduce", "Let", "Min", "Max", "And", "Or", "Not", "EQ", "MatchBufferRegion", "AssertStmt",
    ):  # fmt: skip
        assert isinstance(getattr(tir, name), type), name
    assert tir.SeqStmt is tir.Seq
    assert tir.IfThenElse is tir.If
    assert tvm.IRModule is tvm.ir.IRModule is tir.IRModule
    assert issubclass(tir.ScheduleError, Exception)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x, i: tir.exp(x) + tir.sqrt(x), "exp(x) + sqrt(x)"),
        (lambda x, i: tir.if_then_else(i < 3, x, 0.0), "if_then_else(i < 3, x, float32(0.0))"),
        (lambda x, i: tir.all(i > 0, i < 3, i != 1), "i > 0 and i < 3 and i != 1"),
        (lambda x, i: tir.any(i > 0, i < 3), "i > 0 or i < 3"),
        (lambda x, i: tir.truncdiv(i, 4) + tir.truncmod(i, 4), "truncdiv(i, 4) + truncmod(i, 4)"),
        (lambda x, i: tir.floordiv(i, 4) + tir.floormod(i, 4), "i // 4 + i % 4"),
        (lambda x, i: tir.max(x, tir.min_value("float16").astype("float32")).dtype, "float32"),
        (lambda x, i: tir.Cast(tvm.tir.Var("y", "int8").dtype, i), 'Cast("int8", i)'),
        (lambda x, i: tir.ceildiv(i, 4), "(i + 4 - 1) // 4"),
        (lambda x, i: tir.abs(x) + tir.power(x, 2.0), "abs(x) + pow(x, float32(2.0))"),
        (lambda x, i: tir.cast(i, "int64"), 'Cast("int64", i)'),
    ],
)
def test_operators(make, text: str) -> None:
    assert str(make(tir.Var("x", "float32"), tir.Var("i", "int32"))) == text


def test_old_and_new_names_of_fields() -> None:
    func = MyMatMulModule["main"]
    loop = tir.root_block(func).body
    assert loop.loop_var is loop.var
    assert loop.min is loop.start
    assert func.script() == tvm.IRModule.from_expr(func)["main"].script()
    assert tir.decl_buffer((4, 4), "int8", name="W", scope="shared").scope == "shared"


def test_structural_equality_is_up_to_names() -> None:
    text = MyMatMulModule.script()
    renamed = text.replace("vi", "x").replace("A", "Input")
    assert renamed != text
    assert tvm.ir.structural_equal(tvm.script.from_source(renamed), MyMatMulModule)
    tvm.ir.assert_structural_equal(tvm.script.from_source(renamed), MyMatMulModule)


def test_unequal_programs_are_shown_where_they_differ() -> None:
    other = tvm.script.from_source(MyMatMulModule.script().replace("A[vi, vk] * B", "A[vi, vk] / B"))
    with pytest.raises(ValueError) as different:
        tvm.ir.assert_structural_equal(MyMatMulModule["main"], other["main"])
    path, *lines = str(different.value).split("\n")
    assert path == "the programs differ at .body.block.body.body.body.body.block.body.value.b"
    spots = [i for i, line in enumerate(lines) if "^" in line]
    assert [lines[i - 1].strip() for i in spots] == [
        "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]",
        "C[vi, vj] = C[vi, vj] + A[vi, vk] / B[vk, vj]",
    ]


def test_unequal_values_are_named() -> None:
    other = tvm.script.from_source(MyMatMulModule.script().replace("tir.noalias", "tir.alias"))
    with pytest.raises(ValueError, match=r"the programs differ at \.attrs"):
        tvm.ir.assert_structural_equal(MyMatMulModule["main"], other["main"])


def test_te_to_script() -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    again = tvm.script.from_source(func.script())
    tvm.ir.assert_structural_equal(func, again)


def test_passes_under_their_names() -> None:
    passes = [transform.LowerInitBlock(), transform.ConvertBlocksToOpaque(), transform.Simplify()]
    mod = transform.Sequential(passes)(MyMatMulModule)
    assert not [item for item in tvm.expr.walk(mod["main"]) if isinstance(item, tir.Block)]
    assert set(transform.names()) >= {"FlattenBuffer", "VectorizeLoop", "UnrollLoop"}
    with pytest.raises(AttributeError, match="no pass Simplfy: did you mean Simplify"):
        transform.Simplfy
    with pytest.raises(tvm.errors.InputError, match=r"tir.Simplify takes a module\n  found:  PrimFunc"):
        transform.Simplify()(MyMatMulModule["main"])


def test_passes_at_the_path_that_tvm_has_them_under() -> None:
    made = [getattr(tir.transform, name)() for name in transform.names()]
    assert [p.name for p in made] == [f"tir.{name}" for name in transform.names()]
    sch = tir.Schedule(MyMatMulModule)
    sch.bind(sch.split(sch.get_loops("C")[0], [None, 2])[1], "vthread.x")
    passes = ["InjectSoftwarePipeline", "LowerInitBlock", "ConvertBlocksToOpaque", "InjectVirtualThread"]
    mod = transform.Sequential([getattr(tir.transform, name)() for name in passes])(sch.mod)
    loops = [item for item in tvm.expr.walk(mod["main"]) if isinstance(item, tir.For)]
    assert loops and not [loop for loop in loops if loop.kind is tir.ForKind.THREAD]
    with pytest.raises(AttributeError, match="no pass Simplfy: did you mean Simplify"):
        tir.transform.Simplfy


def test_own_pass() -> None:
    @transform.prim_func_pass(opt_level=0)
    def tag(func: tir.PrimFunc, mod: tir.IRModule) -> tir.PrimFunc:
        return func.with_attr("functions", len(mod.functions))

    assert tag.name == "tag"
    assert tag(MyMatMulModule)["main"].attrs["functions"] == 1


def test_names_of_layouts_and_sampled_numbers() -> None:
    assert te.AXIS_SEPARATOR == tir.IndexMap.AXIS_SEPARATOR
    assert "AXIS_SEPARATOR" in dir(te)
    sch = tir.Schedule(MyMatMulModule)
    assert isinstance(sch.sample_categorical([1, 2], [0.5, 0.5]), tir.schedule.ExprRV)


def test_unknown_names_say_what_is_near() -> None:
    with pytest.raises(AttributeError, match="T has no name blok: did you mean block"):
        T.blok
    with pytest.raises(AttributeError, match="has no attribute"):
        tir.Shcedule
    assert {"block", "grid", "axis", "exp", "float32", "match_buffer", "if_then_else", "Select"} <= set(dir(T))
    assert I.ir_module is tvm.script.ir_module
