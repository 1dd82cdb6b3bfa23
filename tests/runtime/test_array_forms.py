"""Arrays in any form NumPy has: every call gives the first one's answer, or says what it wants, and keeps nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import build, te
from minitvm.errors import MinitvmError
from minitvm.graph import GraphBuilder
from minitvm.runtime import GraphModule
from minitvm.te import create_prim_func

N = 6  # square: a transposed array has the same shape


def unaligned(a: np.ndarray) -> np.ndarray:
    room = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    room[...] = a
    return room


def padded(a: np.ndarray) -> np.ndarray:
    room = np.zeros((N, N + 3), a.dtype)
    room[:, :N] = a
    return room[:, :N]


def constant(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


FORMS: dict[str, Any] = {
    "plain": np.ascontiguousarray,
    "columns first": np.asfortranarray,
    "turned": lambda a: np.ascontiguousarray(a.T).T,
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "rows apart": padded,
    "every second": lambda a: np.repeat(a, 2, axis=0)[::2],
    "one row again and again": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": unaligned,
    "read-only": constant,
    "the other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "a view of another class": lambda a: a.copy().view(np.matrix),
}


def numbers(random: Random) -> np.ndarray:
    return np.random.default_rng(random.randrange(99)).integers(-9, 9, (N, N)).astype("float32")


@pytest.fixture(scope="module")
def function() -> Any:
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    return build(create_prim_func([a, b, te.compute((N, N), lambda i, j: a[i, j] * 2.0 + b[j, i], name="C")]))


@pytest.fixture(scope="module")
def module() -> GraphModule:
    b = GraphBuilder()
    x, y = b.input("x", (N, N)), b.input("y", (N, N))
    graph = b.build(b.op("add", b.op("multiply", x, b.constant(np.full((), 2, "float32"), "two")), y))
    return GraphModule(tvm.lower(graph, stop_at="executable"), threads=1)


def drawn(random: Random) -> tuple[list[np.ndarray], str]:
    """Two inputs, each in a form of its own; sometimes the second is the first one turned, or itself."""
    names = [random.choice([*["plain"] * 5, *FORMS]) for _ in range(2)]
    a, b = (FORMS[name](numbers(random)) for name in names)
    if random.random() < 0.2:
        b = random.choice([a, a.T])
    return [a, b], ", ".join(names)


def test_a_function_takes_any_form_alike_in_every_call(function: Any) -> None:
    for seed in range(120):
        random = Random(seed)
        inputs, names = drawn(random)
        form = random.choice([*["plain"] * 3, *FORMS])
        out = FORMS[form](np.full((N, N), 77, "float32"))
        a, b = (np.array(x, "float32") for x in inputs)
        try:
            function(*inputs, out)
        except MinitvmError:
            continue
        np.testing.assert_array_equal(np.asarray(out), a * 2 + b.T, err_msg=f"{names} into {form}")
        assert all(np.array_equal(x, y) for x, y in zip(inputs, (a, b), strict=True)), f"{names} into {form}"


def test_a_module_takes_any_form_alike_in_every_call(module: GraphModule) -> None:
    for seed in range(120):
        random = Random(seed)
        inputs, names = drawn(random)
        form = random.choice(["none", "none", "an input", *FORMS])
        out = None if form == "none" else inputs[0] if form == "an input" else FORMS[form](np.zeros((N, N), "float32"))
        x, y = (np.array(a, "float32") for a in inputs)
        try:
            result = module(*inputs, **({} if out is None else {"out": out}))
        except MinitvmError:
            assert all(np.array_equal(a, b) for a, b in zip(inputs, (x, y), strict=True)), f"{names} into {form}"
            continue
        np.testing.assert_array_equal(np.asarray(result), x * 2 + y, err_msg=f"{names} into {form}")
        assert all(np.array_equal(a, b) for a, b in zip(inputs, (x, y), strict=True)), f"{names} into {form}"


def test_what_was_set_is_kept_whatever_becomes_of_the_callers_array(module: GraphModule) -> None:
    for seed in range(60):
        random = Random(seed)
        inputs, names = drawn(random)
        x, y = (np.array(a, "float32") for a in inputs)
        try:
            module.set_input(x=inputs[0], y=inputs[1])
        except MinitvmError:
            continue
        for a in inputs:
            if a.flags.writeable:
                a[...] = 55
        module.run()
        np.testing.assert_array_equal(module.get_output(0), x * 2 + y, err_msg=names)


@pytest.mark.parametrize("shape", [[3, N], (3, [N]), {}, None, 5, (3, N)])
def test_an_object_with_an_odd_shape_is_an_array(shape: Any) -> None:
    """Other libraries' arrays may have shapes of any kind: only the array in the object counts."""

    class Held:
        def __init__(self, array: np.ndarray) -> None:
            self.array, self.shape = array, shape

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.array

    b = GraphBuilder("open")
    x = b.input("x", (te.var("n"), N))
    module = build(b.build(b.op("nn.relu", x)))
    array = np.arange(3 * N, dtype=np.float32).reshape(3, N) - N
    for _ in range(3):
        np.testing.assert_array_equal(module(Held(array)), np.maximum(array, 0))
        np.testing.assert_array_equal(module(array), np.maximum(array, 0))
