"""Nothing is wired to one machine: kernels for vectors of 4, 8 and 16 lanes and 16 or 32 registers, interpreted.

Each strategy makes kernels for each target; the kernel interpreter runs them, and they must contain vectors of exactly
the target's width, and none that is wider where registers are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import strategy
from minitvm.expr import IntImm, walk
from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.lower import to_prim_func
from minitvm.graph.passes.fuse import fuse
from minitvm.reference import graph as interpreter
from minitvm.reference import kernel as kernel_interpreter
from minitvm.target import Target
from minitvm.tir.nodes import Allocate, BufferLoad, BufferStore, IRModule
from minitvm.tir.transform.pipeline import lower

TARGETS = [(128, 16), (128, 32), (256, 16), (256, 32), (512, 16), (512, 32)]
Build = Callable[[GraphBuilder, int], Value]


@dataclass(frozen=True)
class Case:
    """One operator, with an epilogue or alone; `build` makes it for blocks of so many lanes.

    `rule` is the strategy's rule for it. `counted` says that its tile has to fit the registers. `wider` allows for the
    vectors in which a long sum is kept. `bits` are the widths that are tried. The layout of one that is `as_written` is
    what a network's passes give it; they would take another one for it alone.
    """

    name: str
    build: Build
    rule: str = "generic"
    counted: bool = False
    wider: int = 1
    bits: tuple[int, ...] = (128, 256, 512)
    as_written: bool = False


def normal(x: Value, b: GraphBuilder, bias: Any) -> Value:
    return b.op("nn.relu", b.op("add", x, b.input("bias", bias)))


def direct(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 1, 5, 6, lanes)), b.input("w", (2, 1, 3, 3, lanes, lanes))
    y = b.op("nn.contrib_conv2d_NCHWc", x, w, padding=1, strides=(2, 1))
    return normal(y, b, (1, 2, 1, 1, lanes))


def dilated(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 1, 5, 7, lanes)), b.input("w", (1, 1, 2, 2, lanes, lanes))
    return b.op("nn.contrib_conv2d_NCHWc", x, w, dilation=2)


def few_channels(b: GraphBuilder, lanes: int) -> Value:
    """Three channels in: the block of the data is not the vector."""
    x, w = b.input("x", (1, 1, 5, 5, 3)), b.input("w", (2, 1, 3, 3, 3, lanes))
    return b.op("nn.contrib_conv2d_NCHWc", x, w)


def pointwise(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 1, 3, 7, lanes)), b.input("w", (4, 1, 1, 1, lanes, lanes))
    y = b.op("nn.contrib_conv2d_NCHWc", x, w)
    return b.op("nn.relu", b.op("add", y, b.input("residual", (1, 4, 3, 7, lanes))))


def int8(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 1, 4, 5, lanes), "uint8"), b.input("w", (2, 1, 3, 3, lanes, lanes), "int8")
    return b.op("nn.contrib_conv2d_NCHWc", x, w, padding=1, out_dtype="int32")


def depthwise(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 2, 5, 6, lanes)), b.input("w", (2, 3, 3, lanes))
    return normal(b.op("nn.contrib_depthwise_conv2d_NCHWc", x, w, padding=1), b, (1, 2, 1, 1, lanes))


def winograd(tile: int) -> Build:
    def build(b: GraphBuilder, lanes: int) -> Value:
        x, w = b.input("x", (1, 1, 5, 6, lanes)), b.input("w", (1, tile + 2, tile + 2, 1, lanes, 1, lanes))
        y = b.op("nn.contrib_winograd_conv2d_NCHWc", x, w, tile=tile, padding=1)
        return normal(y, b, (1, 1, 1, 1, lanes))

    return build


def dense(rows: int) -> Build:
    def build(b: GraphBuilder, lanes: int) -> Value:
        y = b.op("nn.contrib_dense_packed", b.input("x", (rows, 9)), b.input("w", (3, 9, lanes)))
        return normal(y, b, (3 * lanes,))

    return build


def matmul(b: GraphBuilder, lanes: int) -> Value:
    return normal(b.op("nn.matmul", b.input("x", (9, 7)), b.input("w", (7, 37))), b, (37,))


def batch_matmul(b: GraphBuilder, lanes: int) -> Value:
    return b.op("nn.batch_matmul", b.input("x", (2, 5, 7)), b.input("w", (2, 7, 33)), transpose_b=False)


def grouped(b: GraphBuilder, lanes: int) -> Value:
    return b.op("nn.conv2d", b.input("x", (1, 4, 5, 18)), b.input("w", (4, 2, 2, 2)), groups=2)


def nhwc(b: GraphBuilder, lanes: int) -> Value:
    x, w = b.input("x", (1, 4, 5, 3)), b.input("w", (3, 3, 3, 2 * lanes))
    return b.op("nn.conv2d", x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO")


def interpolate(b: GraphBuilder, lanes: int) -> Value:
    x, places, weights = b.input("x", (1, 2, 3, 32)), b.input("places", (2, 4), "int32"), b.input("weights", (2, 4))
    return b.op("image.interpolate", x, places, weights, axis=2)


def one(op: str, *shape: Any, dtype: str = "float32", **attrs: Any) -> Build:
    """One operator of one input; -1 in the shape stands for two vectors and a tail."""

    def build(b: GraphBuilder, lanes: int) -> Value:
        return b.op(op, b.input("x", [2 * lanes + 3 if d == -1 else d for d in shape], dtype), **attrs)

    return build


def blocked_pool(op: str) -> Build:
    def build(b: GraphBuilder, lanes: int) -> Value:
        x = b.input("x", (1, 1, 5, 5, lanes))
        return b.op(op, x, pool_size=(3, 3, 1), strides=(2, 2, 1), padding=(1, 1, 0, 1, 1, 0))

    return build


def blocked_mean(b: GraphBuilder, lanes: int) -> Value:
    return b.op("mean", b.input("x", (1, 2, 3, 3, lanes)), axis=(2, 3), keepdims=True)


def layer_norm(b: GraphBuilder, lanes: int) -> Value:
    n = 4 * lanes
    return b.op("nn.layer_norm", b.input("x", (3, n)), b.input("gamma", (n,)), b.input("beta", (n,)))


def group_norm(b: GraphBuilder, lanes: int) -> Value:
    x = b.input("x", (1, 4, 4, 2 * lanes))
    return b.op("nn.group_norm", x, b.input("gamma", (4,)), b.input("beta", (4,)), num_groups=2)


def blocked_norm(b: GraphBuilder, lanes: int) -> Value:
    x, weights = b.input("x", (1, 2, 2, 3, lanes)), [b.input(name, (2, lanes)) for name in ("gamma", "beta")]
    return b.op("nn.relu", b.op("nn.instance_norm", x, *weights, axis=(1, -1)))


def concat(b: GraphBuilder, lanes: int) -> Value:
    return b.op("concatenate", b.input("x", (3, lanes)), b.input("y", (3, 2 * lanes)), axis=1)


def chain(b: GraphBuilder, lanes: int) -> Value:
    x = b.input("x", (2, 2 * lanes + 1))
    return b.op("erf", b.op("multiply", b.op("sigmoid", x), b.op("tanh", b.op("exp", x))))


def quantize(b: GraphBuilder, lanes: int) -> Value:
    x = b.input("x", (2, 3 * lanes + 1))
    return b.op("qnn.quantize", x, np.array(0.25, "float32"), np.array(3, "int8"), axis=0, out_dtype="int8")


def to_half(b: GraphBuilder, lanes: int) -> Value:
    return b.op("cast", b.input("x", (2, 2 * lanes + 1)), dtype="float16")


CASES = [
    Case("direct", direct, "conv2d_nchwc", counted=True),
    Case("dilated", dilated, "conv2d_nchwc", counted=True),
    Case("few_channels", few_channels, "conv2d_nchwc", counted=True),
    Case("pointwise", pointwise, "conv2d_nchwc", counted=True),
    Case("int8", int8, "conv2d_nchwc", counted=True),
    Case("depthwise", depthwise, "depthwise_conv2d_nchwc", counted=True),
    Case("winograd2", winograd(2), "winograd_conv2d_nchwc", bits=(128, 256)),  # large: seconds to lower
    Case("winograd4", winograd(4), "winograd_conv2d_nchwc", bits=(512,)),
    Case("dense", dense(5), "contraction", counted=True),
    Case("dense_one_row", dense(1), "contraction", counted=True),
    Case("matmul", matmul, "contraction", counted=True),
    Case("batch_matmul", batch_matmul, "contraction", counted=True),
    Case("grouped", grouped, "contraction", counted=True),
    Case("nhwc", nhwc, "contraction", counted=True),
    Case("max_pool", blocked_pool("nn.max_pool3d"), "pool", as_written=True),
    Case("avg_pool", blocked_pool("nn.avg_pool3d"), "pool", as_written=True),
    Case("plain_pool", one("nn.max_pool2d", 1, 2, 4, -1, pool_size=(2, 1)), "window_rows"),
    Case("plain_mean_pool", one("nn.avg_pool2d", 1, 2, 7, -1, pool_size=(3, 3), strides=(2, 2)), "window_rows"),
    Case("global_pool", one("nn.global_avg_pool", 1, 2, 3, -1), wider=4),
    Case("blocked_global_pool", blocked_mean),
    Case("softmax", one("nn.softmax", 3, 64), "rows", wider=4),
    Case("softmax_rows", one("nn.softmax", 5, -1, axis=0)),
    Case("layer_norm", layer_norm, "rows", wider=4),
    Case("group_norm", group_norm, "rows", wider=4),
    Case("blocked_norm", blocked_norm, "rows"),
    Case("sum", one("sum", 3, 64, axis=1), wider=4),
    Case("sum_columns", one("sum", 5, -1, axis=0)),
    Case("transpose", one("transpose", 32, 35, axes=(1, 0))),
    Case("resize", interpolate),
    Case("concat", concat),
    Case("chain", chain),
    Case("quantize", quantize),
    Case("to_half", to_half),
]


# The number of registers decides about tiles alone; the others share their model.
EVERY_NUMBER_OF_REGISTERS = {"direct", "pointwise", "depthwise", "dense", "matmul", "batch_matmul", "grouped", "nhwc"}
RUNS = [
    (case, bits, registers)
    for case in CASES
    for bits, registers in TARGETS
    if bits in case.bits and (case.name in EVERY_NUMBER_OF_REGISTERS or (bits == 512) == (registers == 32))
]
RUN_NAMES = [f"{case.name}-{bits}-{registers}" for case, bits, registers in RUNS]


@cache
def graph_of(case: Case, lanes: int) -> Graph:
    b = GraphBuilder()
    return b.build(case.build(b, lanes))


def target(bits: int, registers: int) -> Target:
    return Target(f"cpu -vector_bits={bits} -vector_registers={registers} -cores=2")


@cache
def kernels(case: Case, bits: int, registers: int) -> IRModule:
    """By the case's own rule, from its best candidate: a refused step fails here."""
    machine = target(bits, registers)
    graph = graph_of(case, machine.vector_lanes("float32"))
    (fused,) = (fuse(graph) if case.as_written else minitvm.lower(graph, machine, "fused")).nodes
    func = to_prim_func(fused)
    best = strategy.candidates(func, machine)[0]
    assert best.rule == case.rule
    return lower(best.schedule(func).func, machine, case.name)


def small_integers(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [
        rng.integers(0 if v.dtype == "uint8" else -3, 4, [int(d) for d in v.shape]).astype(v.dtype.numpy)  # type: ignore[arg-type]
        for v in graph.inputs
    ]


@pytest.mark.alike("case", "bits", "registers", most=2)
@pytest.mark.parametrize(("case", "bits", "registers"), RUNS, ids=RUN_NAMES)
def test_kernels_are_right_and_vectors_of_the_targets_width(case: Case, bits: int, registers: int) -> None:
    lanes = bits // 32
    graph = graph_of(case, lanes)
    arrays = small_integers(graph)
    (wanted,) = interpreter.run(graph, arrays)
    found = np.zeros_like(wanted)
    kernel_interpreter.run(kernels(case, bits, registers), *arrays, found, threads=2)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    assert len(np.unique(wanted)) > 1
    check_vectors(case, bits, registers)


def accesses(module: IRModule) -> set[int]:
    return {
        n.indices[0].dtype.lanes
        for kernel in module.functions.values() for n in walk(kernel) if isinstance(n, BufferLoad | BufferStore)
    }  # fmt: skip


def tile_bytes(module: IRModule) -> int:
    """The most bytes of a local buffer in a kernel that holds accumulators: padded copies lie on the stack."""
    largest = 0
    for kernel in module.functions.values():
        local = [n.buffer for n in walk(kernel) if isinstance(n, Allocate) and n.buffer.scope == "local"]
        local = [b for b in local if not b.name.endswith("_pad")]
        sizes = {b: int(b.shape[0].value) * b.dtype.bytes for b in local if isinstance(b.shape[0], IntImm)}
        largest = max([largest, *sizes.values()])
    return largest


def check_vectors(case: Case, bits: int, registers: int) -> None:
    lanes, module = bits // 32, kernels(case, bits, registers)
    widths = accesses(module)
    assert {lanes, case.wider * lanes} & widths, f"no vector of {lanes} among {sorted(widths)}"
    assert max(widths) <= case.wider * lanes
    if case.counted:
        assert tile_bytes(module) <= registers * bits // 8, "the tile of results spills"
        assert tile_bytes(module) >= bits // 8


def test_more_registers_make_larger_tiles() -> None:
    """The description is read: with twice the registers more results are kept."""
    for name in ("dense", "matmul"):
        case = next(c for c in CASES if c.name == name)
        few, many = (tile_bytes(kernels(case, 256, registers)) for registers in (16, 32))
        assert few < many, name
