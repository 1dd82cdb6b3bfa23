"""Copies that read along one axis and write along another become shuffles, and stay copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import strategy, te, topi
from minitvm.machines.simd.topi.blocked import block_axis, conv2d_nchwc, unblock_axis
from minitvm.reference import check
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform.pipeline import lower


def transposed(shape: tuple[Any, ...], axes: tuple[int, ...], dtype: str = "float32") -> PrimFunc:
    a = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([a, topi.transpose(a, axes=axes)])


def blocked(shape: tuple[Any, ...], block: int) -> PrimFunc:
    a = te.placeholder(shape, name="A")
    return te.create_prim_func([a, block_axis(a, axis=1, block=block)])


def unblocked(shape: tuple[Any, ...], extent: int = 0) -> PrimFunc:
    a = te.placeholder(shape, name="A")
    return te.create_prim_func([a, unblock_axis(a, axis=1, extent=extent or shape[1] * shape[-1])])


CASES: dict[str, tuple[PrimFunc, bool]] = {
    "matrix": (transposed((32, 48), (1, 0)), True),
    "matrix with tails": (transposed((70, 67), (1, 0)), True),
    "small": (transposed((3, 5), (1, 0)), False),
    "halves": (transposed((32, 16), (1, 0), "float16"), True),
    "integers": (transposed((16, 32), (1, 0), "int32"), True),
    "doubles": (transposed((16, 24), (1, 0), "float64"), True),
    "NCHW to NHWC": (transposed((2, 16, 4, 8), (0, 2, 3, 1)), True),
    "NHWC to NCHW": (transposed((1, 7, 8, 16), (0, 3, 1, 2)), True),
    "inner axis stays": (transposed((6, 8, 16), (1, 0, 2)), False),
    "blocked by 16": (blocked((1, 32, 4, 8), 16), True),
    "blocked by 4": (blocked((2, 8, 3, 4), 4), True),
    "blocked, odd image": (blocked((1, 32, 7, 7), 16), True),
    "blocked, not full": (blocked((1, 29, 4, 8), 16), True),
    "blocked, one block, not full": (blocked((1, 14, 4, 8), 16), True),
    "unblocked, one block, not full": (unblocked((1, 1, 4, 8, 16), 14), True),
    "unblocked, not full": (unblocked((1, 2, 4, 8, 16), 29), True),
    "unblocked": (unblocked((1, 2, 4, 8, 16)), True),
    "unblocked by 8": (unblocked((2, 3, 4, 8, 8)), True),
    "unblocked, narrow image": (unblocked((2, 3, 4, 6, 8)), False),
    "open columns": (transposed((16, te.size_var("n")), (1, 0)), True),
    "open rows": (transposed((te.size_var("n"), 24), (1, 0)), True),
    "blocked, open image": (blocked((1, 16, te.size_var("h"), te.size_var("w")), 8), True),
    "unblocked, open image": (unblocked((1, 2, te.size_var("h"), te.size_var("w"), 8)), True),
}


def shuffles(func: PrimFunc, target: Target) -> bool:
    return "Shuffle" in str(lower(func, target))


@pytest.mark.alike("bits", "name")
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("name", CASES)
def test_turned_copies_are_copies(name: str, bits: int) -> None:
    func, turned = CASES[name]
    target = Target(f"cpu -vector_bits={bits}")
    scheduled = strategy.schedule(func, target).func
    assert shuffles(scheduled, target) or not turned
    for program in (scheduled, lower(scheduled, target)):
        assert check(func, program, modes=("exact", "shadow"))


@pytest.mark.parametrize(
    "name", ["matrix", "halves", "NCHW to NHWC", "blocked by 16", "unblocked", "matrix with tails"]
)
def test_compiled_they_move_every_element(name: str) -> None:
    func, _ = CASES[name]
    arrays: list[Any] = []
    for k, buffer in enumerate(func.params):
        shape = [int(d) for d in buffer.shape]  # type: ignore[union-attr, arg-type]
        count = int(np.prod(shape))
        values = np.arange(count) % 2048 if k == 0 else np.full(count, -1)
        arrays.append(values.reshape(shape).astype(str(buffer.dtype)))
    wanted = [np.array(a) for a in arrays]
    minitvm.build(func, threads=1)(*wanted)
    minitvm.build(strategy.schedule(func, Target("cpu")).func, threads=2)(*arrays)
    np.testing.assert_array_equal(arrays[1], wanted[1])
    assert not (arrays[1] == -1).any()


def test_a_copy_within_one_buffer_is_left_alone() -> None:
    """Loads that all come before the stores would read what earlier iterations have not written yet."""
    from minitvm.script import tir as T

    @T.prim_func
    def shifted(A: T.Buffer((1024,), "float32")):
        for i in T.unroll(8):
            for j in T.vectorized(8):
                with T.block("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[512 + vi * 8 + vj] = A[vj * 8 + vi]

    assert not shuffles(shifted, Target("cpu"))


def convolution(image: int, channels: int, last: int, stride: int = 1, lanes: int = 16) -> PrimFunc:
    """A blocked convolution of two channels, with bias and rectifier, put back into the plain layout, cut to `last`."""
    x = te.placeholder((1, 1, image, image, 2), name="x")
    w = te.placeholder((channels // lanes, 1, 3, 3, 2, lanes), name="w")
    bias = te.placeholder((1, channels // lanes, 1, 1, lanes), name="bias")
    y = topi.relu(topi.add(conv2d_nchwc(x, w, padding=1, strides=stride), bias))
    return te.create_prim_func([x, w, bias, unblock_axis(y, axis=1, extent=last)])


@pytest.mark.parametrize(
    ("func", "kernels"),
    [
        pytest.param(convolution(8, 32, 32), 2, id="in the cache"),
        pytest.param(convolution(8, 32, 32, stride=2), 2, id="stride"),
        pytest.param(convolution(6, 32, 32, lanes=8), 2, id="rows that are no tile"),
        pytest.param(convolution(8, 32, 30), 3, id="cut"),
        pytest.param(convolution(7, 32, 32), 3, id="odd image"),
        pytest.param(convolution(1, 32, 32), 2, id="one pixel"),
    ],
)
def test_a_convolutions_result_is_turned_around_in_the_cache(func: PrimFunc, kernels: int) -> None:
    """By the kernel that computes it, where tiles fit; by one of its own where they do not."""
    target = Target("cpu -vector_bits=512 -cores=2 -l1_rate=128")
    module = lower(strategy.schedule(func, target).func, target)
    assert len(list(module.items())) - 1 == kernels  # the first pads; beside them stands the host function
    assert check(func, module, modes=("exact", "shadow"))
