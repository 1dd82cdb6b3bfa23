"""Tensor expressions as text: the text runs, and what it builds has the same elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minitvm import te, topi
from minitvm.reference.te import evaluate
from minitvm.te.printer import script

x = te.placeholder((3, 5), name="x")
n = te.placeholder((3, 5), "int32", name="n")
image = te.placeholder((1, 2, 6, 7), name="image")
kernel = te.placeholder((3, 2, 3, 3), name="kernel")


def two_outputs() -> list[te.Tensor]:
    return te.compute((3, 5), lambda i, j: (x[i, j] + 1.0, x[i, j] * 2.0), name="two")  # type: ignore[no-any-return]


def with_names_that_clash() -> te.Tensor:
    a = te.compute((3, 5), lambda i, j: x[i, j] + 1.0, name="i")
    return te.compute((3, 5), lambda i, j: a[i, j] * 2.0, name="i")  # type: ignore[no-any-return]


def filtered_sum() -> te.Tensor:
    k = te.reduce_axis((1, 4), name="k")
    return te.compute((3,), lambda i: te.sum(x[i, k], axis=k, where=te.any(k > 2, ~(i < 1)), init=1.5), name="s")  # type: ignore[no-any-return]


CASES: dict[str, Callable[[], object]] = {
    "matmul": lambda: topi.matmul(x, topi.transpose(x, axes=(1, 0))),
    "conv2d": lambda: topi.conv2d(image, kernel, strides=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1)),
    "max_pool2d": lambda: topi.max_pool2d(image, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    "softmax": lambda: topi.softmax(x, axis=1),
    "argmax": lambda: topi.argmax(x, axis=1),
    "clip": lambda: topi.clip(x, a_min=-0.5, a_max=0.5),
    "isnan": lambda: topi.isnan(x),
    "cast": lambda: topi.cast(n, dtype="int8"),
    "bits": lambda: te.compute((3, 5), lambda i, j: ((n[i, j] & 3) << 1) | ~n[i, j], name="bits"),
    "divisions": lambda: te.compute(
        (3, 5), lambda i, j: te.truncdiv(n[i, j], 2) + te.truncmod(n[i, j], 3) + n[i, j] // 2 + n[i, j] % 3, name="d"
    ),
    "half": lambda: te.compute((3,), lambda i: te.const(0.5, "float16") * x[i, 0].astype("float16"), name="h"),
    "two outputs": two_outputs,
    "clashing names": with_names_that_clash,
    "where and init": filtered_sum,
    "no dimensions": lambda: te.compute((), lambda: x[0, 0], name="first"),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_the_text_builds_the_same_tensors(make: Callable[[], object], rng: np.random.Generator) -> None:
    made = make()
    outputs = [made] if isinstance(made, te.Tensor) else list(made)  # type: ignore[call-overload]
    names: dict[str, object] = {"te": te}
    text = script(outputs)
    exec(text, names)
    given = [t for t in te.post_order(outputs) if isinstance(t.op, te.PlaceholderOp)]
    arrays = [rng.integers(-4, 5, [int(str(d)) for d in t.shape]).astype(str(t.dtype)) for t in given]
    results = text.rsplit(" = te.compute(", 1)[0].rsplit("\n", 1)[-1].split(", ")
    again_outputs = [names[name] for name in results if name != "_"]  # an output that nobody asked for
    expected = evaluate(outputs, dict(zip(given, arrays, strict=True)))
    found = evaluate(again_outputs, {names[t.name]: a for t, a in zip(given, arrays, strict=True)})  # type: ignore[arg-type, misc]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_symbolic_dimensions_and_long_lines() -> None:
    m = te.size_var("m")
    a = te.placeholder((m, 4), name="a")
    b = te.compute((m, 4), lambda i, j: te.exp(a[i, j] + a[m - 1 - i, 3 - j]) * te.tanh(a[i, j]), name="b" * 60)
    assert script(b).split("\n") == [
        'm = te.size_var("m", "int32")',
        'a = te.placeholder((m, 4), "float32", name="a")',
        f"{'b' * 60} = te.compute(",
        "    (m, 4),",
        "    lambda i, j: te.exp(a[i, j] + a[m - 1 - i, 3 - j]) * te.tanh(a[i, j]),",
        f'    name="{"b" * 60}",',
        ")",
    ]
