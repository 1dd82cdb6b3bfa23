"""create_prim_func: the function has TVM's form, and means what the tensors mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import te
from minitvm.errors import InputError
from minitvm.expr import IntImm, walk
from minitvm.reference import te as interpreter
from minitvm.reference import tir as loops
from minitvm.reference.judging.equivalence import check
from minitvm.tir.nodes import Block, PrimFunc, root_block

MATMUL = """
@T.prim_func
def main(A: T.Buffer((4, 5), "float32"), B: T.Buffer((5, 6), "float32"), D: T.Buffer((4, 6), "float32")):
    T.func_attr({"tir.noalias": True})
    C = T.alloc_buffer((4, 6))
    for i, j, k in T.grid(4, 6, 5):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(A[v_i, v_k], B[v_k, v_j])
            T.writes(C[v_i, v_j])
            T.block_attr({"op": "nn.matmul"})
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
    for i0, i1 in T.grid(4, 6):
        with T.block("D"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1])
            T.writes(D[v_i0, v_i1])
            D[v_i0, v_i1] = T.max(C[v_i0, v_i1], T.float32(0.0))
"""


def blocks(func: PrimFunc) -> dict[str, Block]:
    return {item.name: item for item in walk(func) if isinstance(item, Block) and item.name != "root"}


def test_matmul_and_relu_have_tvms_form() -> None:
    A, B = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    k = te.reduce_axis((0, 5), name="k")
    C = te.compute((4, 6), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C", attrs={"op": "nn.matmul"})
    D = te.compute((4, 6), lambda *i: te.maximum(C[i], 0.0), name="D")
    assert te.create_prim_func([A, B, D]).script().split("\n", 1)[1].strip() == MATMUL.strip()


def argmax() -> Any:
    def combine(x: Any, y: Any) -> Any:
        first = te.any(x[1] > y[1], te.all(x[1] >= y[1], x[0] < y[0]))
        return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])

    return te.comm_reducer(combine, lambda i, v: (te.max_value(i), te.infinity(v, negative=True)), "argmax")


def test_reducer_of_tuples_gives_one_block_that_writes_both(rng: np.random.Generator) -> None:
    A = te.placeholder((3, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    index, value = te.compute((3,), lambda i: argmax()((k.var, A[i, k]), axis=k), name="best")
    func = te.create_prim_func([A, index, value])
    assert [w.buffer.name for w in blocks(func)["best"].writes] == ["best_v0", "best_v1"]
    data = rng.integers(-3, 3, (3, 7)).astype("float32")
    out = [np.zeros(3, "int32"), np.zeros(3, "float32")]
    loops.run(func, data, *out)
    np.testing.assert_array_equal(out[0], data.argmax(1))
    np.testing.assert_array_equal(out[1], data.max(1))


def test_one_output_of_several_allocates_the_others(rng: np.random.Generator) -> None:
    A = te.placeholder((3, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    index, _ = te.compute((3,), lambda i: argmax()((k.var, A[i, k]), axis=k), name="best")
    func = te.create_prim_func([A, index])
    assert [b.name for b in root_block(func).alloc_buffers] == ["best_v1"]
    data = rng.integers(-9, 9, (3, 7)).astype("float32")
    out = np.zeros(3, "int32")
    loops.run(func, data, out)
    np.testing.assert_array_equal(out, data.argmax(1))


def test_several_plain_outputs_are_blocks_of_their_own() -> None:
    A = te.placeholder((5,), name="A")
    up, down = te.compute((5,), lambda i: (A[i] + 1.0, A[i] - 1.0), name="both")
    func = te.create_prim_func([A, up, down])
    assert list(blocks(func)) == ["both_v0", "both_v1"]
    assert check([A, up, down], func)


def test_reads_are_the_hull_of_the_loads_and_whole_where_the_index_is_data() -> None:
    A, index = te.placeholder((10,), name="A"), te.placeholder((8,), "int32", name="index")
    near = te.compute((8,), lambda i: A[i] + A[i + 2], name="near")
    far = te.compute((8,), lambda i: A[index[i]], name="far")
    mixed = te.compute((4,), lambda i: A[i] + A[2 * i], name="mixed")
    found = blocks(te.create_prim_func([A, index, near, far, mixed]))

    def region(name: str, number: int = 0) -> str:
        area = found[name].reads[number].region[0]
        return f"{area.start} + {area.extent}"

    assert region("near") == "v_i + 3"
    assert {region("far", 0), region("far", 1)} == {"0 + 10", "v_i + 1"}
    assert region("mixed") == "0 + 10"


def test_symbolic_dimensions_are_free_and_the_same_everywhere(rng: np.random.Generator) -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 1,), lambda i: A[i + 1] - A[i], name="B")
    C = te.compute((n - 1,), lambda i: B[i] * B[i], name="C")
    func = te.create_prim_func([A, C])
    assert check([A, C], func, sizes={"n": 9})
    data, out = rng.standard_normal(6).astype("float32"), np.zeros(5, "float32")
    loops.run(func, data, out)
    np.testing.assert_array_equal(out, np.diff(data) ** 2)


def test_scalar_parameters_stand_where_they_are_given() -> None:
    s = te.var("s", "float32")
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] * s, name="B")
    func = te.create_prim_func([A, s, B])
    assert [getattr(p, "name", None) for p in func.params] == ["A", "s", "B"]
    out = np.zeros(4, "float32")
    loops.run(func, np.arange(4, dtype="float32"), np.float32(2.5), out)
    np.testing.assert_array_equal(out, np.arange(4) * 2.5)


def test_index_dtype_override_reaches_loops_indices_and_shapes(rng: np.random.Generator) -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: te.sum(te.if_then_else(k.var > i, A[i, k], 0.0), axis=k), name="B")
    I = te.compute((4,), lambda i: i * 2, name="I")
    func = te.create_prim_func([A, B, I], index_dtype_override="int64")
    assert {str(v.var.dtype) for b in blocks(func).values() for v in b.iter_vars} == {"int64"}
    assert {str(d.dtype) for buffer in func.buffers for d in buffer.shape if isinstance(d, IntImm)} == {"int64"}
    data = rng.integers(-5, 5, (4, 6)).astype("float32")
    b, i = np.zeros(4, "float32"), np.zeros(4, "int32")
    loops.run(func, data, b, i)
    np.testing.assert_array_equal(b, [data[r, r + 1 :].sum() for r in range(4)])
    np.testing.assert_array_equal(i, [0, 2, 4, 6])


def test_reduction_where_and_init() -> None:
    A, start = te.placeholder((3, 5), name="A"), te.placeholder((3,), name="start")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, where=k.var <= i, init=start[i]), name="B")
    func = te.create_prim_func([A, start, B])
    assert {r.buffer.name for r in blocks(func)["B"].reads} == {"A", "start"}
    assert check([A, start, B], func)


def test_equal_names_are_told_apart() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="T_add")
    C = te.compute((4,), lambda i: B[i] + 2.0, name="T_add")
    func = te.create_prim_func([A, C])
    assert list(blocks(func)) == ["T_add", "T_add_1"]
    assert len({b.name for b in (*func.buffers, *root_block(func).alloc_buffers)}) == 3


def test_errors_name_what_is_missing() -> None:
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    C = te.compute((4,), lambda i: A[i] + B[i], name="C")
    with pytest.raises(InputError, match=r"placeholder B is needed[\s\S]*create_prim_func\(\[B, A, C\]\)"):
        te.create_prim_func([A, C])
    with pytest.raises(InputError, match="given twice"):
        te.create_prim_func([A, B, C, C])
    with pytest.raises(InputError, match="nothing to compute"):
        te.create_prim_func([A, B])
    stray = te.var("stray")
    D = te.compute((4,), lambda i: te.if_then_else(stray > i, A[i], 0.0), name="D")
    with pytest.raises(InputError, match="stray has no value"):
        te.create_prim_func([A, D])


@st.composite
def programs(draw: st.DrawFn) -> list[te.Tensor]:
    """A placeholder or two and a chain of computes over them, each from a different family."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    tensors = [te.placeholder((rows, columns), name="A"), te.placeholder((rows, columns), name="B")]
    made: list[te.Tensor] = []
    for number in range(draw(st.integers(1, 4))):
        a, b = draw(st.sampled_from([*tensors, *made])), draw(st.sampled_from([*tensors, *made]))
        kind = draw(st.sampled_from(["add", "scale", "transpose", "pad", "row_sum", "maximum", "matmul", "shift"]))
        m, n = (int(d) for d in a.shape)  # type: ignore[call-overload]
        name = f"{kind}_{number}"
        k = te.reduce_axis((0, n), name="k")
        if kind == "add" and [int(d) for d in b.shape] == [m, n]:  # type: ignore[call-overload]
            made.append(te.compute((m, n), lambda i, j, a=a, b=b: a[i, j] + b[i, j], name=name))
        elif kind == "transpose":
            made.append(te.compute((n, m), lambda i, j, a=a: a[j, i], name=name))
        elif kind == "pad":
            made.append(te.compute((m + 2, n), lambda i, j, a=a, m=m: te.if_then_else(
                te.all(i >= 1, i < m + 1), a[i - 1, j], 0.0), name=name))  # fmt: skip
        elif kind == "row_sum":
            made.append(te.compute((m, 1), lambda i, j, a=a, k=k: te.sum(a[i, k], axis=k), name=name))
        elif kind == "maximum":
            made.append(te.compute((m, 1), lambda i, j, a=a, k=k: te.max(a[i, k], axis=k), name=name))
        elif kind == "matmul":
            made.append(te.compute((m, m), lambda i, j, a=a, k=k: te.sum(a[i, k] * a[j, k], axis=k), name=name))
        elif kind == "shift":
            made.append(te.compute((m, n), lambda i, j, a=a, n=n: a[i, (j + 1) % n] - a[i, j], name=name))
        else:
            made.append(te.compute((m, n), lambda i, j, a=a: a[i, j] * 2.0, name=name))
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique_by=id))
    return [*tensors, *outputs]


@given(programs())
def test_function_means_what_the_tensors_mean(program: list[te.Tensor]) -> None:
    verdict = check(program, te.create_prim_func(program))
    assert verdict, verdict.message


def test_rational_constants_stay_exact() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] * te.rational(1, 6), name="B")
    assert "T.rational(1, 6" in te.create_prim_func([A, B]).script()
    data = np.array([6, 12, -3], "float32")
    np.testing.assert_allclose(interpreter.evaluate(B, {A: data})[0], [1, 2, -0.5], rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 0), (3, 4, 0)], ids=["flat", "nested"])
def test_empty_reduction_stores_what_it_starts_from(shape: tuple[int, ...]) -> None:
    A = te.placeholder(shape, name="A")
    axes = [te.reduce_axis((0, extent)) for extent in shape[1:]]
    results = [
        te.compute((3,), lambda i, r=reducer: r(A[(i, *axes)], axis=axes), name=name)
        for name, reducer in (("total", te.sum), ("product", te.prod), ("least", te.min))
    ]
    data = np.zeros(shape, "float32")
    wanted = interpreter.evaluate(results, {A: data})
    np.testing.assert_array_equal(wanted, [[0.0] * 3, [1.0] * 3, [np.inf] * 3])
    func = te.create_prim_func([A, *results])
    interpreted = [np.full(3, np.nan, "float32") for _ in results]
    loops.run(func, data, *interpreted)
    np.testing.assert_array_equal(interpreted, wanted)
    compiled = [np.full(3, np.nan, "float32") for _ in results]
    minitvm.build(func, "cpu")(data, *compiled)
    np.testing.assert_array_equal(compiled, wanted)


def test_empty_reduction_of_several_values_stores_the_identities() -> None:
    A = te.placeholder((2, 0), name="A")
    k = te.reduce_axis((0, 0), name="k")
    index, value = te.compute((2,), lambda i: argmax()((k.var, A[i, k]), axis=k), name="argmax")
    func = te.create_prim_func([A, index, value])
    at, out = np.full(2, 7, "int32"), np.full(2, np.nan, "float32")
    loops.run(func, np.zeros((2, 0), "float32"), at, out)
    np.testing.assert_array_equal(at, [np.iinfo("int32").max] * 2)
    np.testing.assert_array_equal(out, [-np.inf] * 2)
