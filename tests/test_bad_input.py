"""What a built module makes of any input: it works, or is refused with a clear error before anything is written."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.errors import InputError, MinitvmError, TypeMismatch
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.runtime import GraphModule
from minitvm.runtime.dlpack import shared

SHAPE = (2, 8, 5, 6)
WEIGHTS = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape or SHAPE).astype("float32")


@cache
def network() -> Graph:
    """Blocked inside; its outputs are a computed value, one made from that, a constant, and its input."""
    b = GraphBuilder()
    x = b.input("x", SHAPE)
    y = b.op("nn.relu", b.op("nn.conv2d", x, WEIGHTS, padding=1), name="y")
    return b.build([y, b.op("sum", y, axis=(2, 3), name="total"), b.constant(np.float32([1, 2, 3]), "known"), x])


@cache
def module() -> Any:
    return minitvm.build(network(), threads=2, accuracy="strict")


def right(results: Any, x: np.ndarray) -> None:
    for found, wanted in zip(results, interpreter.run(network(), [np.ascontiguousarray(x)]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def misaligned(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytearray(1) + bytearray(x.tobytes()), np.uint8)[1:].view(x.dtype).reshape(x.shape)


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


TAKEN: dict[str, Callable[[np.ndarray], Any]] = {
    "as it is": lambda x: x,
    "backwards": lambda x: x[::-1, ::-1],
    "column order": np.asfortranarray,
    "a transposed view": lambda x: np.ascontiguousarray(x.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0),
    "every other element": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "one element everywhere": lambda x: np.broadcast_to(x[:1, :1, :1, :1], SHAPE),
    "misaligned": misaligned,
    "read-only": read_only,
    "a list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_any_array_of_the_right_type_is_taken(kind: str) -> None:
    given = TAKEN[kind](array())
    before = np.array(given, copy=True)
    for _ in range(2):  # the second call takes the short way
        right(module()(given), np.asarray(given, "float32"))
    np.testing.assert_array_equal(given, before)


REFUSED: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "a smaller batch": (lambda x: x[:1], r"dimension 0 is 1, wanted 2"),
    "a larger batch": (lambda x: np.concatenate([x, x]), r"dimension 0 is 4, wanted 2"),
    "no batch": (lambda x: x[:0], r"dimension 0 is 0, wanted 2"),
    "a missing axis": (lambda x: x[0], r"4 dimensions, found 3"),
    "another image": (lambda x: x[..., :5], r"dimension 3 is 5, wanted 6"),
    "a scalar": (lambda x: np.float32(1), r"4 dimensions, found 0"),
    "float64": (lambda x: x.astype("float64"), r"wanted: x: float32\(2, 8, 5, 6\)\n  found:  an array of float64"),
    "float16": (lambda x: x.astype("float16"), r"found:  an array of float16"),
    "the same bits as integers": (lambda x: x.view("int32"), r"found:  an array of int32"),
    "the other byte order": (lambda x: x.astype(">f4"), r"found:  an array of >f4"),
    "objects": (lambda x: x.astype(object), r"found:  an array of object"),
    "nothing": (lambda x: None, r"x is a NoneType"),
    "text": (lambda x: "x", r"x is a str"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_written(kind: str) -> None:
    change, text = REFUSED[kind]
    out = [np.full(shape, 7, "float32") for shape in (SHAPE, (2, 8), (3,), SHAPE)]
    for keywords in ({}, {"out": out}):
        with pytest.raises(MinitvmError, match=text):
            module()(change(array()), **keywords)
    assert all((o == 7).all() for o in out)
    right(module()(array()), array())


def test_destinations_that_do_not_fit_are_refused_before_the_first_is_written() -> None:
    x = array()
    good = [np.full(shape, 7, "float32") for shape in (SHAPE, (2, 8), (3,), SHAPE)]
    frozen, wide = read_only(good[3]), np.full((2, 8, 5, 12), 7, "float32")
    bad: list[tuple[int, Any, str]] = [
        (1, good[1][:1], "total has shape"), (3, frozen, "read-only"), (3, wide[..., ::2], "must be C-contiguous"),
        (3, misaligned(good[3]), "aligned"), (3, good[0], "shares memory"), (0, x, "shares memory with x"),
        (2, good[1].ravel()[:3], "shares memory"), (2, np.zeros(3, "float64"), "dtype of known"),
        (0, None, "wanted an array"),
    ]  # fmt: skip
    for place, array_, text in bad:
        out = [array_ if k == place else o for k, o in enumerate(good)]
        with pytest.raises(MinitvmError, match=text):
            module()(x, out=out)
        assert all((o == 7).all() for o in good), text
    results = module()(x, out=good)
    assert all(a is b for a, b in zip(results, good, strict=True))
    right(good, x)


def test_outputs_are_the_callers_own() -> None:
    """No output shares memory with the input, another output, a constant, or anything of a later call."""
    x = array()
    first = module()(x)
    kept = [o.copy() for o in first]
    second = module()(array(seed=1))
    everything = [x, *first, *second]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(everything) for b in everything[:k])
    for found, wanted in zip(first, kept, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for o in first:
        o.fill(np.nan)
    right(module()(x), x)


def test_outputs_of_run_stay_after_the_next_run() -> None:
    m = GraphModule(module().executable, threads=1)
    m.run(x=array())
    held = [m.get_output(k) for k in range(4)]
    kept = [o.copy() for o in held]
    m.run(x=array(seed=1))
    for found, wanted in zip(held, kept, strict=True):
        np.testing.assert_array_equal(found, wanted)


def any_batch(op: str, *shape: Any, **attrs: Any) -> tuple[Graph, tuple[int, ...]]:
    b = GraphBuilder()
    x = b.input("x", (te.size_var("n"), *shape))
    more = [WEIGHTS[:, :, :1, :1]] if op == "nn.conv2d" else [array(3, int(shape[-1]))] if op == "nn.dense" else []
    return b.build(b.op(op, x, *more, **attrs)), shape


SYMBOLIC: dict[str, tuple[Graph, tuple[int, ...]]] = {
    "conv2d": any_batch("nn.conv2d", 8, 3, 4), "dense": any_batch("nn.dense", 7), "softmax": any_batch("nn.softmax", 5),
    "max_pool": any_batch("nn.max_pool2d", 2, 4, 4, pool_size=2), "sum": any_batch("sum", 6, axis=0),
    "mean": any_batch("mean", 6, axis=1), "transpose": any_batch("transpose", 9), "exp": any_batch("exp", 17),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_any_batch_runs_where_the_model_leaves_it_open(name: str) -> None:
    graph, shape = SYMBOLIC[name]
    m = minitvm.build(graph, threads=2)
    for batch in (0, 1, 33, 2, 0):
        x = array(batch, *shape)
        wanted = interpreter.run(graph, [x])[0]
        np.testing.assert_allclose(m(x), wanted, rtol=1e-4, atol=1e-5)
        assert m(x).shape == wanted.shape
    with pytest.raises(InputError, match="does not fit"):
        m(array(2, *(d + 1 for d in shape)))


def test_an_open_image_that_is_smaller_than_the_kernel_is_refused() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 8, te.size_var("h"), te.size_var("w")))
    m = minitvm.build(b.build(b.op("nn.conv2d", x, WEIGHTS)), threads=1)
    assert m(array(1, 8, 3, 4)).shape == (1, 8, 1, 2) and m(array(1, 8, 2, 4)).shape == (1, 8, 0, 2)
    with pytest.raises(InputError, match="conv2d does not take these sizes: h - 2 >= 0 must hold"):
        m(array(1, 8, 1, 4))


EMPTY: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("nn.conv2d", (0, 8, 3, 3), {}), ("nn.max_pool2d", (0, 2, 4, 4), {"pool_size": 2}), ("nn.softmax", (3, 0), {}),
    ("sum", (3, 0), {"axis": 1}), ("transpose", (0, 4), {}), ("nn.relu", (2, 0, 3), {}), ("nn.dense", (0, 4), {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "attrs"), EMPTY, ids=[row[0] for row in EMPTY])
def test_empty_tensors(op: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    b = GraphBuilder()
    more = [WEIGHTS] if op == "nn.conv2d" else [array(3, 4)] if op == "nn.dense" else []
    graph = b.build(b.op(op, b.input("x", shape), *more, **attrs))
    x = np.zeros(shape, "float32")
    np.testing.assert_array_equal(minitvm.build(graph, threads=2)(x), interpreter.run(graph, [x])[0])


def poisoned() -> np.ndarray:
    x = array(1, 32, 24, 24)
    x[0, 3, 5, 5], x[0, 2, 0, 0], x[0, 1, 23, 2] = np.nan, np.inf, -np.inf
    return x


def convolution() -> Graph:
    b = GraphBuilder()
    w = np.abs(array(32, 32, 3, 3)) + np.float32(0.1)
    return b.build(b.op("nn.conv2d", b.input("x", (1, 32, 24, 24)), w, padding=1))


def test_nan_and_infinity_go_where_arithmetic_takes_them() -> None:
    graph, x = convolution(), poisoned()
    found, wanted = minitvm.build(graph, threads=2, accuracy="strict")(x), interpreter.run(graph, [x])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert np.isnan(wanted).any() and np.isinf(wanted).any() and np.isfinite(wanted).any()


def test_in_fast_convolutions_they_stay_within_their_tile() -> None:
    """Winograd's algorithm computes 4 x 4 results from one patch: what is not finite in it may reach all of those."""
    graph, x = convolution(), poisoned()
    fused = minitvm.lower(graph, stop_at="fused")
    assert 4 in [n.attrs.get("tile") for group in fused.nodes for n in group.graph.nodes], "not by Winograd's algorithm"
    found, wanted = minitvm.build(graph, threads=2)(x), interpreter.run(graph, [x])[0]
    bad = ~np.isfinite(wanted)
    assert not np.isfinite(found[bad]).any()
    tiles = bad.reshape(1, 32, 6, 4, 6, 4).any(axis=(3, 5), keepdims=True)
    untouched = ~np.broadcast_to(tiles, (1, 32, 6, 4, 6, 4)).reshape(wanted.shape)
    np.testing.assert_allclose(found[untouched], wanted[untouched], rtol=1e-3, atol=1e-3)
    assert untouched.any()


def test_functions_refuse_before_they_write() -> None:
    a = te.placeholder((te.size_var("n"), 4), name="A")
    f = minitvm.build(te.create_prim_func([a, te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")]), threads=2)
    x, y = array(6, 4), np.full((6, 4), 7, "float32")
    bad: list[tuple[Any, Any, type[MinitvmError]]] = [
        (x[:5], y, InputError), (x[:, :3], y, InputError), (x.astype("float64"), y, TypeMismatch), (y, y, InputError),
        (x, y[::-1], InputError), (x, read_only(y), InputError), (x, y.tolist(), TypeMismatch), (x, y[:5], InputError),
    ]  # fmt: skip
    for source, target, kind in bad:
        with pytest.raises(kind):
            f(source, target)
        assert (y == 7).all()
    f(x[::-1], y)
    np.testing.assert_array_equal(y, x[::-1] + 1)
    f(np.zeros((0, 4), "float32"), np.zeros((0, 4), "float32"))


class Foreign:
    """A tensor of another library: it gives its memory by DLPack and nothing else."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        if self.device != 1:
            raise BufferError("the memory is not the CPU's")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_tensors_of_other_libraries_are_taken_and_written_through_dlpack() -> None:
    x = array()
    out = [np.full(shape, 7, "float32") for shape in (SHAPE, (2, 8), (3,), SHAPE)]
    module()(Foreign(x), out=[Foreign(o) for o in out])
    right(out, x)


def test_a_tensor_of_another_device_is_refused() -> None:
    on_gpu = Foreign(array(), device=2)
    with pytest.raises(InputError, match="x is on CUDA device 0, and the program runs on the CPU"):
        module()(on_gpu)
    out = [Foreign(np.full(shape, 7, "float32"), device=2) for shape in (SHAPE, (2, 8), (3,), SHAPE)]
    with pytest.raises(InputError, match="is on CUDA device 0, and the program runs on the CPU"):
        module()(array(), out=out)


class Brain(Foreign):
    """One whose memory holds bfloat16. NumPy does not export that: the header of its bits is changed."""

    def __dlpack__(self, **options: Any) -> Any:
        capsule = super().__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        kind_of_number = ctypes.c_uint8.from_address((pointer(capsule, b"dltensor") or 0) + 20)
        assert kind_of_number.value == 1, "the code of unsigned integers"
        kind_of_number.value = 4
        return capsule


def test_bfloat16_of_other_libraries_is_taken_and_written() -> None:
    b = GraphBuilder()
    x = b.input("x", (3, 4), "bfloat16")
    double = minitvm.build(b.build(b.op("add", x, x)), threads=1)
    brain = x.dtype.numpy
    data, out = np.arange(24).reshape(4, 6).astype(brain)[:, ::2].T, np.zeros((3, 4), brain)
    wanted = (data + data).astype(np.float32)
    np.testing.assert_array_equal(double(Brain(data.view(np.uint16))).astype(np.float32), wanted)
    double(data, out=Brain(out.view(np.uint16)))
    np.testing.assert_array_equal(out.astype(np.float32), wanted)
    with pytest.raises(TypeMismatch, match="the dtype of x does not fit"):
        double(Foreign(data.astype(np.float16)))
    with pytest.raises(InputError, match="x is on CUDA device 0, and the program runs on the CPU"):
        double(Brain(data.view(np.uint16), device=2))


def test_shared_memory_lives_as_long_as_its_array(collect: Callable[[], int]) -> None:
    class Memory(np.ndarray):
        """An array that can be watched."""

    memory = np.arange(4, dtype=np.uint16).view(Memory)
    alive = weakref.ref(memory)
    found = shared(Brain(memory))
    del memory
    collect()
    assert alive() is not None and found.dtype.name == "bfloat16"
    del found
    collect()
    assert alive() is None
