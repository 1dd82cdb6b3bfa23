"""Loop programs and tensor expressions inside a graph: `call_tir` and `call_te`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minitvm
from minitvm import te, tir
from minitvm.errors import InputError, UnsupportedOperator, VerificationError
from minitvm.expr import SizeVar, find, structural_equal
from minitvm.expr.as_json import from_json, to_json
from minitvm.graph import Graph, GraphBuilder, register, verify_graph
from minitvm.lowering.function import size_conditions
from minitvm.reference import graph as interpreter
from minitvm.reference import tir as loops
from minitvm.reference.formulas import without_numpy
from minitvm.reference.judging.conditioning import in_float64
from minitvm.reference.strategies import arguments, prim_funcs, schedules
from minitvm.script import tir as T
from minitvm.tir.analysis.by_hand import SCHEDULED, is_scheduled
from minitvm.tir.nodes import For, ForKind, PrimFunc
from minitvm.tir.schedule import PRIMITIVES
from minitvm.topi import registry
from minitvm.topi.called import _results
from tests.fewer import examples


@T.prim_func
def matmul(a: T.handle, W: T.Buffer((16, 8), "float32"), c: T.handle) -> None:
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (n, 8), "float32")
    for i, j, k in T.grid(n, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]


def by_hand() -> tir.Schedule:
    """The product with rows in pairs, columns as vectors, and pairs on threads."""
    sch = tir.Schedule(matmul)
    i, j, k = sch.get_loops(sch.get_block("C"))
    pairs, row = sch.split(i, [None, 2])
    sch.reorder(pairs, k, row, j)
    sch.vectorize(j)
    sch.parallel(pairs)
    return sch


X = np.random.default_rng(0).standard_normal((6, 16)).astype("float32")
W = np.random.default_rng(1).standard_normal((16, 8)).astype("float32")


def product_of(func: Any, rows: Any = 6) -> Graph:
    """relu(x) times W by `func`, and its negative."""
    b = GraphBuilder()
    y = b.call_tir(func, [b.op("nn.relu", b.input("x", (rows, 16))), W])
    return b.build([y, b.op("negative", y)])


@pytest.mark.parametrize("rows", [6, SizeVar("n")], ids=str)
@pytest.mark.parametrize("func", [matmul, by_hand(), by_hand().mod], ids=["plain", "scheduled", "module"])
def test_a_loop_program_is_an_operator(func: Any, rows: Any) -> None:
    graph = product_of(func, rows)
    verify_graph(graph)
    expected = np.maximum(X, 0) @ W
    for results in (minitvm.build(graph)(X), interpreter.run(graph, [X])):
        np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(results[1], -results[0])


def test_a_schedule_by_hand_is_kept_and_a_plain_program_gets_one() -> None:
    kept = minitvm.lower(product_of(by_hand()), stop_at="schedule")["matmul"]
    chosen = minitvm.lower(product_of(matmul), stop_at="schedule")["matmul"]
    expected = [loop.kind for loop in find(by_hand().func.body, For)]
    assert [loop.kind for loop in find(kept.body, For)] == expected and expected[0] == ForKind.PARALLEL
    assert kept.attrs["schedule_choice"]["rule"] == "" and chosen.attrs["schedule_choice"]["rule"] == "contraction"


def test_what_counts_as_scheduled() -> None:
    sch = tir.Schedule(matmul)
    i, j, _ = sch.get_loops(sch.get_block("C"))
    assert not is_scheduled(matmul) and not is_scheduled(sch.func)
    sch.reorder(j, i)
    assert is_scheduled(sch.func)
    assert is_scheduled(matmul.with_attr(SCHEDULED, True)) and not is_scheduled(sch.func.with_attr(SCHEDULED, False))
    sch = tir.Schedule(matmul)
    sch.unroll(sch.get_loops(sch.get_block("C"))[2])
    assert is_scheduled(sch.func)
    sch = tir.Schedule(matmul)
    sch.split(sch.get_loops(sch.get_block("C"))[2], [4, 4])
    assert is_scheduled(sch.func)


def test_several_results_and_scalars() -> None:
    @T.prim_func
    def ends(A: T.Buffer((8,), "int32"), n: T.int32, first: T.Buffer((4,), "int32"), last: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("ends"):
                vi = T.axis.spatial(4, i)
                first[vi] = A[vi] * n
                last[vi] = A[vi + 4] * n

    b = GraphBuilder()
    first, last = b.call_tir(ends, b.input("x", (8,), "int32"), tir_vars=[3])
    graph = b.build([first, last])
    x = np.arange(8, dtype="int32")
    for results in (minitvm.build(graph)(x), interpreter.run(graph, [x])):
        np.testing.assert_array_equal(np.concatenate(results), x * 3)


def test_both_inputs_may_be_one_value() -> None:
    def gram(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 16), "k")
        return te.compute((6, 6), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), name="gram")

    b = GraphBuilder()
    x = b.input("x", (6, 16))
    graph = b.build(b.call_te(gram, x, x))
    np.testing.assert_allclose(minitvm.build(graph)(X), X @ X.T, rtol=1e-4)


def test_a_size_that_no_input_has_comes_from_the_shapes() -> None:
    @T.prim_func
    def fill(A: T.Buffer((1,), "float32"), c: T.handle):
        m = T.int32()
        C = T.match_buffer(c, (m, 2), "float32")
        for i, j in T.grid(m, 2):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[0]

    n = SizeVar("n")
    b = GraphBuilder()
    x, rows = b.input("x", (1,)), b.input("rows", (n,))
    graph = b.build([b.call_tir(fill, [x], shapes=[(n + 1, 2)]), b.op("nn.relu", rows)])
    verify_graph(graph)
    one = np.ones(1, "float32")
    for results in (
        minitvm.build(graph)(one, np.ones(3, "float32")),
        interpreter.run(graph, [one, np.ones(3, "float32")]),
    ):
        np.testing.assert_array_equal(results[0], np.ones((4, 2)))
    with pytest.raises(InputError, match=r"no input has the size m, which C needs\n  try:    shapes="):
        b.call_tir(fill, [x])


@pytest.mark.parametrize("rows", [6, SizeVar("n"), SizeVar("n") * 2], ids=str)
def test_tensor_expressions_are_an_operator(rows: Any) -> None:
    def ends(x: te.Tensor, scale: float) -> list[te.Tensor]:
        k = te.reduce_axis((0, x.shape[0]), "k")
        columns = te.compute((16,), lambda j: te.sum(x[k, j], axis=k), name="columns")
        return [columns, te.compute(x.shape, lambda i, j: x[i, j] * scale, name="scaled")]

    b = GraphBuilder()
    graph = b.build(b.call_te(ends, b.op("abs", b.input("x", (rows, 16))), scale=2.0))
    verify_graph(graph)
    for results in (minitvm.build(graph)(X), interpreter.run(graph, [X])):
        np.testing.assert_allclose(results[0], np.abs(X).sum(0), rtol=1e-5)
        np.testing.assert_array_equal(results[1], np.abs(X) * 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda b, x: b.call_tir(matmul, [x]),
            "call_tir(float32[6, 16]): a call of matmul(A: float32[n, 16], W: float32[16, 8], C: float32[n, 8])\n"
            "  wanted: 2 inputs (A, W), as it writes C\n  found:  1",
        ),
        (
            lambda b, x: b.call_tir(matmul, [x, W[:, :7]]),
            "call_tir(float32[6, 16], float32[16, 7]): a call of "
            "matmul(A: float32[n, 16], W: float32[16, 8], C: float32[n, 8])\n"
            "  wanted: W: float32[16, 8]\n  found:  float32[16, 7]",
        ),
        (
            lambda b, x: b.call_tir(matmul, [x, W.astype("float64")]),
            "call_tir(float32[6, 16], float64[16, 8]): a call of "
            "matmul(A: float32[n, 16], W: float32[16, 8], C: float32[n, 8])\n"
            "  wanted: W: float32[16, 8]\n  found:  float64[16, 8]",
        ),
        (
            lambda b, x: b.call_tir(matmul, [x, W], shapes=(7, 8)),
            "call_tir(float32[6, 16], float32[16, 8]): a call of "
            "matmul(A: float32[n, 16], W: float32[16, 8], C: float32[n, 8])\n"
            "  wanted: C: float32[6, 8]\n  found:  float32[7, 8]",
        ),
        (
            lambda b, x: b.call_tir(np.dot, [x]),
            "call_tir calls a loop program\n  wanted: a tir.PrimFunc\n  found:  _ArrayFunctionDispatcher\n"
            "  try:    te.create_prim_func(tensors), for tensor expressions\n          b.call_te(fcompute, *values)",
        ),
        (
            lambda b, x: b.call_te(lambda x: 3, x),
            "call_te is no tensor expression\n  wanted: a te.Tensor, a list of them, or a PrimFunc\n  found:  3",
        ),
    ],
    ids=["count", "shape", "dtype", "result", "callable", "te"],
)
def test_a_call_that_does_not_fit_is_refused(call: Callable[[GraphBuilder, Any], Any], text: str) -> None:
    b = GraphBuilder()
    with pytest.raises(InputError) as refused:
        call(b, b.input("x", (6, 16)))
    assert str(refused.value) == text


def test_a_function_without_inputs_names_its_results() -> None:
    @T.prim_func
    def ones(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = T.float32(1)

    b = GraphBuilder("g")
    with pytest.raises(InputError, match="wanted: no inputs, as it writes A\n  found:  1"):
        b.call_tir(ones, [b.input("x", (4,))])


def test_a_function_that_writes_an_input_is_refused() -> None:
    @T.prim_func
    def swapped(C: T.Buffer((4,), "float32"), A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi]

    b = GraphBuilder()
    with pytest.raises(InputError, match="wanted: a last parameter that the function writes: its result"):
        b.call_tir(swapped, [b.input("x", (4,))])


def test_the_text_names_functions_and_can_show_them() -> None:
    b = GraphBuilder()
    x = b.input("x", (6, 16))
    graph = b.build([b.call_tir(matmul, [x, W]), b.call_tir(by_hand(), [x, W])])
    assert graph.script() == (
        "def main(x: float32[6, 16]):\n"
        "    const = constant(float32[16, 8])\n"
        "    const_1 = constant(float32[16, 8])\n"
        "    matmul: float32[6, 8] = call_tir(x, const, func=matmul)\n"
        "    matmul_1: float32[6, 8] = call_tir(x, const_1, func=matmul_1)\n"
        "    return matmul, matmul_1"
    )
    text = graph.script(functions=True)
    assert text.index("@T.prim_func\ndef matmul(") < text.index("@T.prim_func\ndef matmul_1(") < text.index("def main(")


def test_such_a_graph_is_written_as_json_and_exported(tmp_path: Any) -> None:
    from minitvm.frontends.onnx.export.to_onnx import to_onnx

    graph = product_of(by_hand())
    assert structural_equal(from_json(to_json(graph)), graph)
    minitvm.build(graph).export_library(tmp_path / "product.mtvm")
    loaded = minitvm.runtime.load(tmp_path / "product.mtvm")
    np.testing.assert_array_equal(loaded(X)[0], minitvm.build(graph)(X)[0])
    with pytest.raises(UnsupportedOperator, match="no ONNX operator is known for call_tir"):
        to_onnx(graph)


def test_an_operator_without_numpy_is_computed_from_its_formula_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @register("example.halved")
    def halved(x: te.Tensor) -> te.Tensor:
        """x / 2."""
        return te.compute(x.shape, lambda *i: x[i] * 0.5)

    monkeypatch.setitem(registry.OPERATORS, "example.halved", registry.OPERATORS.pop("example.halved"))
    b = GraphBuilder()
    x = b.input("x", (6, 16))
    y = b.call_tir(matmul, [b.op("example.halved", x), W])
    graph = b.build(b.op("nn.softmax", y))
    (result,) = interpreter.run(graph, [X])
    wide = interpreter.run(in_float64(graph), [X.astype("float64")])[0]
    assert result.dtype == np.float32 and wide.dtype == np.float64
    np.testing.assert_allclose(minitvm.build(graph)(X), result, rtol=1e-5)
    np.testing.assert_allclose(wide, result, rtol=1e-5)
    assert without_numpy(graph) == [
        "example.halved has no meaning in NumPy: the te interpreter computed its formula",
        "call_tir matmul has only its loops: the tir interpreter ran them",
    ]


# `cache_index` moves an index into memory, where no proof keeps it inside of its buffer: such a program is refused. A
# CPU refuses loops that `bind` gives to the threads of a GPU.
STEPS = [name for name in PRIMITIVES if name not in ("bind", "cache_index")]


def _refused(func: PrimFunc) -> bool:
    """Whether no proof keeps an access inside of its buffer, for example one at an index that was stored as uint8."""
    try:
        size_conditions(func)
    except VerificationError:
        return True
    return False


@st.composite
def calls(draw: st.DrawFn) -> tuple[Graph, PrimFunc, list[np.ndarray]]:
    """A graph that calls a drawn program, sometimes scheduled, on its inputs; and arrays for the program."""
    func = draw(prim_funcs(symbolic=draw(st.booleans())))
    assume(not _refused(func))
    called = draw(schedules(func, *STEPS, max_steps=3)) if draw(st.booleans()) else func
    arrays = draw(arguments(func))
    b = GraphBuilder()
    n = SizeVar("n")
    count = len(arrays) - len(_results(func))
    inputs = [
        b.input(f"x{k}", [getattr(d, "value", n) for d in buffer.shape], str(buffer.dtype))
        for k, buffer in enumerate(func.buffers[:count])
    ]
    results = b.call_tir(called, [b.op("abs", x) for x in inputs])
    outputs = results if isinstance(results, tuple) else (results,)
    return b.build([b.op("add", y, y) for y in outputs]), func, arrays


@examples(8, 100)
@given(calls())
def test_interpreter_build_and_oracle_agree_on_drawn_programs(drawn: tuple[Graph, PrimFunc, list[np.ndarray]]) -> None:
    graph, func, arrays = drawn
    verify_graph(graph)
    inputs = arrays[: len(graph.inputs)]
    outputs = [np.zeros_like(a) for a in arrays[len(inputs) :]]
    loops.run(func, *map(np.abs, inputs), *outputs)
    compiled = minitvm.build(graph)(*inputs)
    compiled = compiled if isinstance(compiled, tuple | list) else (compiled,)
    with np.errstate(all="ignore"):
        expected = [a + a for a in outputs]
    for results in (interpreter.run(graph, inputs), compiled):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-5, atol=1e-5)


def test_a_python_function_is_an_operator(tmp_path: Any) -> None:
    def sorted_rows(x: Any, out: Any) -> None:
        out[...] = np.sort(x, axis=-1)

    n = SizeVar("n")
    b = GraphBuilder()
    x = b.input("x", (n, 16))
    y = b.call_packed(sorted_rows, [b.op("nn.relu", x)], ((n, 16), "float32"))
    low, high = b.call_packed(
        lambda a, first, last: (np.copyto(first, a[:, :8]), np.copyto(last, a[:, 8:])), y,
        [((n, 8), "float32"), ((n, 8), "float32")],
    )  # fmt: skip
    graph = b.build([b.op("add", low, high), y])
    verify_graph(graph)
    expected = np.sort(np.maximum(X, 0), axis=-1)
    module = minitvm.build(graph)
    for results in (module(X), interpreter.run(graph, [X])):
        np.testing.assert_array_equal(results[1], expected)
        np.testing.assert_array_equal(results[0], expected[:, :8] + expected[:, 8:])
    assert "is a Python function: it ran itself" in without_numpy(graph)[0]
    module.export_library(tmp_path / "sorted.mtvm")
    np.testing.assert_array_equal(minitvm.runtime.load(tmp_path / "sorted.mtvm")(X)[1], expected)


@pytest.mark.parametrize(
    "types", [((2, 3), np.float32), ([2, 3], np.dtype("float32")), [[(2, 3), "float32"]], [((2, 3), np.float32)]]
)
def test_types_of_a_python_function(types: Any) -> None:
    b = GraphBuilder("g")
    y = b.call_packed(np.copyto, [b.input("x", (2, 3))], types)
    assert y.type == "float32[2, 3]"


@pytest.mark.parametrize(
    ("func", "types", "text"),
    [
        (3, ((2,), "float32"), "call_packed calls a Python function, found 3"),
        (
            print,
            "float32",
            "types\n  wanted: \\(\\(2, 3\\), \"float32\"\\), or a list of such pairs\n  found:  'float32'",
        ),
        (print, ((2,), "floaty"), "'floaty' is not a dtype"),
        (print, (2, "float32"), "'int' object is not iterable"),
    ],
)
def test_calls_of_python_that_do_not_fit_are_refused(func: Any, types: Any, text: str) -> None:
    b = GraphBuilder("g")
    with pytest.raises(InputError, match=text):
        b.call_packed(func, [b.input("x", (2,))], types)


def test_one_tensor_may_be_several_results() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,))

    def twice(x: te.Tensor) -> list[te.Tensor]:
        y = te.compute((3,), lambda i: x[i] + 1.0)
        return [y, x, y]

    data = np.arange(3, dtype="float32")
    for result, expected in zip(
        minitvm.build(b.build(b.call_te(twice, x)))(data), (data + 1, data, data + 1), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_a_python_function_that_is_not_registered_is_named() -> None:
    b = GraphBuilder()
    module = minitvm.build(b.build(b.call_packed("no.such", [b.input("x", (2,))], ((2,), "float32"))))
    with pytest.raises(
        InputError, match=r"no Python function no.such is registered; .*\n  try:    @minitvm.register_func"
    ):
        module(np.zeros(2, "float32"))


def test_a_result_that_is_read_first_is_refused() -> None:
    """The memory of a result holds arbitrary values: a sum without an initial value is a mistake."""

    @T.prim_func
    def total(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]

    b = GraphBuilder()
    with pytest.raises(InputError) as caught:
        b.call_tir(total, b.input("x", (4, 4)))
    text = str(caught.value)
    assert text.startswith("a call of total(A: float32[4, 4], C: float32[4])\n")
    assert "C[vi] = C[vi] + A[vi, vk]\n" in text and "^ reads C\n" in text
    assert text.endswith(
        "  wanted: results that the function writes before it reads them\n"
        "  found:  it reads C, whose memory holds arbitrary values before the call\n"
        "  try:    with T.init(): C[...] = 0.0, in the block of a sum\n"
        "          an input with the old values, from which the function computes C"
    )
