"""What callers hand over: it works or is refused before anything is written, of a built module as of a loaded one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minitvm
from minitvm import runtime
from minitvm.errors import InputError, MinitvmError, TypeMismatch
from minitvm.graph import GraphBuilder
from minitvm.runtime import Function, GraphModule
from minitvm.script import tir as T


@pytest.fixture(autouse=True)
def own_cache() -> None:
    """The cache that stays between runs."""


def both_ways(folder: Path, built: Any) -> tuple[Any, Any]:
    """The module, and what comes back from a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITVM_CONFIG_DIR", str(folder / "config"))
        built.export(folder / "m.mtvm")
        return built, runtime.load(folder / "m.mtvm", threads=built.threads)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> tuple[GraphModule, GraphModule]:
    b = GraphBuilder("pair")
    x, i = b.input("x", (2, 3), "float32"), b.input("i", (2,), "int32")
    doubled = b.build([b.op("add", b.op("nn.relu", x), x), b.op("add", i, i)])
    return both_ways(tmp_path_factory.mktemp("pair"), minitvm.build(doubled, threads=2))


@pytest.fixture(params=["built", "loaded"])
def module(request: pytest.FixtureRequest, modules: tuple[GraphModule, GraphModule]) -> GraphModule:
    return modules[request.param == "loaded"]


def expected(x: Any) -> Any:
    return np.maximum(x, np.float32(0)) + x


X, I = np.arange(-3, 3, dtype=np.float32).reshape(2, 3), np.array([4, -5], np.int32)


class OnTheGpu:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("copy it to the host first")


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "another batch": (np.zeros((4, 3), "f"), InputError, "dimension 0 is 4, wanted 2"),
    "no batch": (np.zeros((0, 3), "f"), InputError, "dimension 0 is 0, wanted 2"),
    "rank": (np.zeros((2, 3, 1), "f"), InputError, "2 dimensions, found 3"),
    "a number": (3.0, InputError, "2 dimensions, found 0"),
    "dtype": (X.astype("f8"), TypeMismatch, r"found:  an array of float64\n  try:    x.astype\(\"float32\"\)"),
    "integers": (X.astype("i4"), TypeMismatch, "found:  an array of int32"),
    "byte order": (X.astype(">f4"), TypeMismatch, "found:  an array of >f4"),
    "objects": (X.astype(object), TypeMismatch, "found:  an array of object"),
    "records": (np.zeros((2, 3), [("a", "f4")]), TypeMismatch, "found:  an array of"),
    "a mask": (np.ma.masked_less(X, 0), TypeMismatch, r"mask would be lost; try .filled\(...\)"),
    "nothing": (None, TypeMismatch, "x is a NoneType; wanted an array"),
    "text": ("abc", TypeMismatch, "x is a str; wanted an array"),
    "ragged": ([[1, 2, 3], [1]], TypeMismatch, "x has rows of different lengths"),
    "words": ([["a", "b", "c"]] * 2, TypeMismatch, "x holds numbers of <U1"),
    "complex": ([[1j, 2, 3]] * 2, TypeMismatch, "x holds numbers of complex128"),
    "too large": ([[1e300, 2, np.inf]] * 2, InputError, "x holds a number that float32 does not"),
    "elsewhere": (OnTheGpu(), TypeMismatch, "x is a OnTheGpu that gives no array: copy it to the host first"),
}


@pytest.mark.parametrize(("bad", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    module: GraphModule, bad: Any, error: type[Exception], text: str
) -> None:
    module.set_input(x=X, i=I)
    module.run()
    out = (np.full((2, 3), 7, np.float32), np.full(2, 7, np.int32))
    calls: list[Callable[[], Any]] = [
        lambda: module(bad, I, out=out),
        lambda: module(x=bad, i=I, out=out),
        lambda: module.set_input("x", bad),
        lambda: module.set_input(i=I + 1, x=bad),
        lambda: module.run(x=bad, i=I + 1),
    ]
    for call in calls:
        with pytest.raises(error, match=text):
            call()
    assert (out[0] == 7).all() and (out[1] == 7).all()
    module.run()  # what was set before still is
    np.testing.assert_array_equal(module.get_output(0), expected(X))
    np.testing.assert_array_equal(module.get_output(1), 2 * I)


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [([1, 2], [2, 4]), ((True, False), [2, 0]), ([-(2**31), 5], [0, 10]), ([1.0, 2.5], None), ([2**31, 0], None)],
)
def test_python_numbers_are_taken_where_the_dtype_holds_them(module: GraphModule, numbers: Any, wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(MinitvmError, match="i holds"):
            module(X, numbers)
    else:
        np.testing.assert_array_equal(module([[1, 2, 3], [4.5, 5, np.inf]], numbers)[1], np.array(wanted))


def misaligned(array: Any) -> Any:
    room = np.zeros(array.nbytes + 1, np.uint8)[1:]
    moved = room.view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def spread(array: Any) -> Any:
    room = np.zeros([2 * n for n in array.shape], array.dtype)
    room[tuple(slice(None, None, 2) for _ in array.shape)] = array
    return room[tuple(slice(None, None, 2) for _ in array.shape)]


FORMS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda a: a,
    "misaligned": misaligned,
    "spread": spread,
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "by columns": np.asfortranarray,
    "one row for all": lambda a: np.broadcast_to(a[0], a.shape),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "a subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_arrays_of_any_form_are_read(module: GraphModule, form: Callable[[Any], Any]) -> None:
    x, i = form(X), form(I)
    for found in (module(x, i), module(x=x, i=i)):
        np.testing.assert_array_equal(found[0], expected(np.asarray(x)))
        np.testing.assert_array_equal(found[1], 2 * np.asarray(i))
    module.set_input(x=x, i=i)
    module.run()
    np.testing.assert_array_equal(module.get_output(0), expected(np.asarray(x)))


@given(hnp.arrays(np.float32, (2, 3), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
def test_not_a_number_and_infinity_go_through(modules: tuple[GraphModule, GraphModule], x: Any) -> None:
    built, loaded = (m(x, I)[0] for m in modules)
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(built, expected(x))
    np.testing.assert_array_equal(built.view(np.uint32), loaded.view(np.uint32))


def test_destinations_that_do_not_fit_are_refused(module: GraphModule) -> None:
    y, j = np.full((2, 3), 7, np.float32), np.full(2, 7, np.int32)
    frozen = y.copy()
    frozen.flags.writeable = False
    shared = np.full((2, 3), 7, np.float32)
    refusals: list[tuple[Any, Any, str]] = [
        (X, y, "out has 1 arrays; wanted"),
        (X, (y, j, j), "out has 3 arrays; wanted"),
        (X, 7, "out is a int; wanted arrays"),
        (X, (y, [0, 0]), "add_1 is written in place; wanted an array, found a list"),
        (X, (j, y), "the dtype of add does not fit"),
        (X, (np.zeros((3, 2), np.float32), j), r"add has shape \(3, 2\); wanted \(2, 3\)"),
        (X, (spread(y), j), "must be C-contiguous and aligned"),
        (X, (misaligned(y), j), "must be C-contiguous and aligned"),
        (X, (frozen, j), "the array is read-only"),
        (shared, (shared, j), "add is written, and shares memory with x"),
        (X, (y, y.view(np.int32).reshape(-1)[4:]), "add is written, and shares memory with add_1"),
    ]
    for x, out, text in refusals:
        with pytest.raises(MinitvmError, match=text):
            module(x, I, out=out)
    assert (y == 7).all() and (j == 7).all() and (frozen == 7).all() and (shared == 7).all()
    assert module(X, I, out=[y, j])[0] is y
    np.testing.assert_array_equal(y, expected(X))


def test_outputs_are_nobody_elses(module: GraphModule) -> None:
    """Neither a later call nor the caller's own writing reaches an array that was handed out."""
    x, i = X.copy(), I.copy()
    first = module(x, i)
    module.set_input(x=x, i=i)
    module.run()
    kept = module.get_output(0)
    x[...], i[...] = 100, 100
    module(x, i)
    module.run(x=x, i=i)
    for found in (first[0], kept):
        np.testing.assert_array_equal(found, expected(X))
        assert found.flags.writeable and found.flags.owndata
    assert not np.shares_memory(module.get_output(0), kept)
    first[0][...] = 0
    np.testing.assert_array_equal(module(X, I)[0], expected(X))


def test_names_and_numbers_that_are_not_there(module: GraphModule) -> None:
    for call, text in (
        (lambda: module.get_output(2), "output 2 of 2"),
        (lambda: module.get_output("add"), "output add of 2"),  # type: ignore[arg-type]
        (lambda: module.set_input(2, X), "input 2 of 2"),
        (lambda: module.set_input("y", X), "there is no input called y"),
        (lambda: module(X), "no value for i"),
        (lambda: module(X, I, I), "3 inputs given; wanted x: float32"),
        (lambda: module(X, x=X), "x is given twice"),
    ):
        with pytest.raises(InputError, match=text):
            call()


EMPTY = [
    ("nn.relu", [(0, 4)], {}, (0, 4)),
    ("add", [(0, 4), (4,)], {}, (0, 4)),
    ("nn.dense", [(0, 4), (3, 4)], {}, (0, 3)),
    ("nn.dense", [(2, 0), (3, 0)], {}, (2, 3)),
    ("nn.conv2d", [(0, 3, 6, 6), (4, 3, 3, 3)], {}, (0, 4, 4, 4)),
    ("sum", [(3, 0)], {"axis": 1}, (3,)),
    ("nn.softmax", [(0, 5)], {}, (0, 5)),
    ("transpose", [(0, 4)], {}, (4, 0)),
    ("concatenate", [(0, 4), (2, 4)], {"axis": 0}, (2, 4)),
]


@pytest.mark.parametrize(("op", "shapes", "attrs", "shape"), EMPTY, ids=[f"{op} {s}" for op, s, _, _ in EMPTY])
def test_dimensions_of_no_size(
    tmp_path: Path, op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """Nothing in gives nothing out; a sum of nothing is 0."""
    b = GraphBuilder("empty")
    inputs = [b.input(f"x{n}", s, "float32") for n, s in enumerate(shapes)]
    made = b.op(op, *inputs, **attrs)
    arrays = [np.ones(s, np.float32) for s in shapes]
    for module in both_ways(tmp_path, minitvm.build(b.build(made), threads=2)):
        found = module(*arrays)
        assert found.shape == shape and found.dtype == np.float32
        np.testing.assert_array_equal(found, np.ones(shape, "f") if op == "concatenate" else np.zeros(shape, "f"))


@T.prim_func
def difference(x: T.Buffer((2, 3), "float32"), y: T.Buffer((2, 3), "float32"), z: T.Buffer((2, 3), "float32")) -> None:  # type: ignore[valid-type]
    for i, j in T.grid(2, 3):
        with T.block("z"):
            v, w = T.axis.remap("SS", [i, j])
            z[v, w] = x[v, w] - y[v, w]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Function, Function]:
    return both_ways(tmp_path_factory.mktemp("difference"), minitvm.build(difference, threads=1))


@pytest.mark.parametrize("which", [0, 1], ids=["built", "loaded"])
def test_functions_check_likewise(functions: tuple[Function, Function], which: int) -> None:
    function, z = functions[which], np.full((2, 3), 7, np.float32)
    frozen = z.copy()
    frozen.flags.writeable = False
    bad: list[tuple[Any, ...]] = [
        (X, X),
        (X, X, z, z),
        (X.astype("f8"), X, z),
        (X[:, :2], X, z),
        (np.ma.masked_less(X, 0), X, z),
        (X, X, frozen),
        (X, X, misaligned(z)),
        (X, X, spread(z)),
        (X, z, z),
        (X, X, z.tolist()),
    ]
    for args in bad:
        with pytest.raises(MinitvmError):
            function(*args)
    assert (z == 7).all() and (frozen == 7).all()
    function(spread(X), misaligned(X), z)
    np.testing.assert_array_equal(z, 0 * X)
