"""Blocked layouts: the same meaning for every network, no layout change where none is needed, weights packed once."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, Value, verify_graph
from minitvm.graph.passes.constant_folding import constant_folding
from minitvm.graph.passes.dead_code import dead_code
from minitvm.machines.simd.graph.blocked_layout import blocked_layout
from minitvm.machines.simd.strategy import algorithms
from minitvm.reference import graph as interpreter
from minitvm.strategy.algorithms import whole_block
from minitvm.target import Target
from tests.fewer import examples
from tests.graph.graphs import by_te

# 3 and 4 are blocks of their own; 5, 6 and 7 have none; 8, 12 and 16 have whole vectors of 8, 4 and 8.
CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 18, 18, 18)  # 18: many, of which the last block of 4 is not full


class Network:
    """A network drawn operator by operator. Values are small integers, so every order of summation agrees exactly."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.b = GraphBuilder()
        size = draw(st.integers(3, 6))
        batch = draw(st.integers(1, 2))
        self.values = [self.b.input(f"x{k}", (batch, draw(st.sampled_from(CHANNELS)), size, size)) for k in range(2)]

    def pick(self) -> Value:
        return self.draw(st.sampled_from(self.values))

    def weights(self, *shape: Any) -> np.ndarray:
        return self.rng.integers(-1, 2, shape).astype("float32")

    def conv(self) -> Value:
        x = self.pick()
        k = self.draw(st.sampled_from([1, 3]))
        out = self.draw(st.sampled_from(CHANNELS))
        weight = self.weights(out, x.shape[1], k, k)
        return self.b.op("nn.conv2d", x, weight, padding=k // 2, strides=self.stride(x))

    def stride(self, x: Value) -> tuple[int, int]:
        return self.draw(st.sampled_from([(1, 1), (2, 1), (2, 2)]))

    def depthwise(self) -> Value:
        x = self.pick()
        padding = self.draw(st.sampled_from([(1, 1), (0, 1, 2, 1)]))
        groups = int(x.shape[1])  # type: ignore[arg-type]
        return self.b.op("nn.conv2d", x, self.weights(groups, 1, 3, 3), groups=groups, padding=padding)

    def grouped(self) -> Value:
        x = self.pick()
        groups = next(g for g in (4, 3, 2, 1) if int(x.shape[1]) % g == 0)  # type: ignore[arg-type]
        return self.b.op("nn.conv2d", x, self.weights(8 * groups, int(x.shape[1]) // groups, 1, 1), groups=groups)  # type: ignore[arg-type]

    def phases(self) -> Value:
        x, strides = self.pick(), self.stride(self.values[0])
        out = self.draw(st.sampled_from(CHANNELS)) * math.prod(strides)
        convolved = self.b.op("nn.conv2d", x, self.weights(out, x.shape[1], 1, 1))
        size = tuple(int(n) * s for n, s in zip(x.shape[2:], strides, strict=True))  # type: ignore[arg-type]
        return self.b.op("nn.interleave", convolved, strides=strides, size=size)

    def pool(self) -> Value:
        op = self.draw(st.sampled_from(["nn.max_pool2d", "nn.avg_pool2d"]))
        extra = {"count_include_pad": self.draw(st.booleans())} if "avg" in op else {}
        ceil = self.draw(st.booleans())
        strides = self.draw(st.sampled_from([1, (1, 2)]))
        return self.b.op(
            op, self.pick(), pool_size=(2, 3), strides=strides, padding=(1, 1), ceil_mode=ceil, **extra
        )  # fmt: skip

    def global_pool(self) -> Value:
        return self.b.op(self.draw(st.sampled_from(["nn.global_avg_pool", "nn.global_max_pool"])), self.pick())

    def concatenate(self) -> Value:
        x = self.pick()
        fitting = [v for v in self.values if (v.shape[0], *v.shape[2:]) == (x.shape[0], *x.shape[2:])]
        parts = [x, *self.draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2))]
        return self.b.op("concatenate", *parts, axis=self.draw(st.sampled_from([1, -3])))

    def concatenate_rows(self) -> Value:
        x = self.pick()
        return self.b.op("concatenate", x, x, axis=self.draw(st.sampled_from([0, 2, -1])))

    def arithmetic(self) -> Value:
        x = self.pick()
        fitting = [v for v in self.values if _broadcast(v, x)]
        op = self.draw(st.sampled_from(["add", "multiply", "maximum", "subtract"]))
        operands = [x, self.draw(st.sampled_from(fitting))]
        return self.b.op(op, *self.draw(st.permutations(operands)))

    def constant_operand(self) -> Value:
        x = self.pick()
        n, c, h, w = x.shape
        shapes = [
            (),
            (1,),
            (w,),
            (h, 1),
            (c, 1, 1),
            (1, c, 1, 1),
            (1, 1, h, w),
            (n, 1, 1, 1),
            (1, 1, 1, 1),
            (n, c, h, w),
        ]
        return self.b.op(
            self.draw(st.sampled_from(["add", "multiply"])), x, self.weights(*self.draw(st.sampled_from(shapes)))
        )

    def bias(self) -> Value:
        x = self.pick()
        axis = self.draw(st.sampled_from([1, 3]))
        return self.b.op("nn.bias_add", x, self.weights(x.shape[axis]), axis=axis)

    def element(self) -> Value:
        return self.b.op(self.draw(st.sampled_from(["nn.relu", "negative", "copy", "abs"])), self.pick())

    def clip(self) -> Value:
        return self.b.op("clip", self.pick(), a_min=-3.0, a_max=4.0)

    def slope(self) -> Value:
        x = self.pick()
        return self.b.op("nn.prelu", x, self.weights(x.shape[1]), axis=1)

    def choice(self) -> Value:
        x = self.pick()
        return self.b.op("where", self.b.op("greater", x, self.b.op("negative", x)), x, np.float32(0))

    def stretch(self) -> Value:
        pooled = self.global_pool()
        n, c = pooled.shape[:2]
        return self.b.op("broadcast_to", pooled, shape=(n, c, 3, 2))

    def part(self) -> Value:
        """Some of the channels, from a block's first one or not, and perhaps some of the rows."""
        x = self.pick()
        channels, rows = int(x.shape[1]), int(x.shape[2])  # type: ignore[arg-type]
        begin, end = sorted(self.draw(st.lists(st.integers(0, channels), min_size=2, max_size=2, unique=True)))
        begin -= begin % self.draw(st.sampled_from([1, 4, 8]))
        if self.draw(st.booleans()):
            return self.b.op("strided_slice", x, begin=(begin, -rows), end=(end, rows), strides=(1, 2), axes=(1, -2))
        cut = self.draw(st.sampled_from([begin, end]))
        parts = self.b.op("split", x, indices_or_sections=(cut,), axis=1) if 0 < cut < channels else (x,)
        return self.draw(st.sampled_from(parts))

    def softmax(self) -> Value:
        return self.b.op("max", self.pick(), axis=1, keepdims=True)

    def reduction(self) -> Value:
        """Over pixels or channels, or both; what loses axes gets them back."""
        x, axis = self.pick(), self.draw(st.sampled_from([1, -3, 3, (2, 3), (1, 2), (1, 2, 3)]))
        op, kept = self.draw(st.sampled_from(["max", "sum", "min"])), self.draw(st.booleans())
        y = self.b.op(op, x, axis=axis, keepdims=kept)
        gone = {a % 4 for a in ((axis,) if isinstance(axis, int) else axis)}
        return self.b.op("reshape", y, newshape=tuple(1 if a in gone else d for a, d in enumerate(x.shape)))


def _broadcast(a: Value, b: Value) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a.shape, b.shape, strict=True))


MOVES = [
    Network.conv, Network.conv, Network.conv, Network.depthwise, Network.grouped, Network.pool, Network.global_pool,
    Network.concatenate, Network.concatenate, Network.concatenate_rows, Network.arithmetic, Network.constant_operand,
    Network.bias, Network.element, Network.clip, Network.slope, Network.choice, Network.stretch, Network.softmax,
    Network.phases, Network.part, Network.part, Network.reduction,
]  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Convolutions over any number of channels, and all that may stand between two of them."""
    network = Network(draw)
    network.values.append(network.conv())
    for _ in range(draw(st.integers(1, 8))):
        network.values.append(draw(st.sampled_from(MOVES))(network))
    outputs = draw(st.lists(st.sampled_from(network.values), min_size=1, max_size=2))
    return network.b.build([network.values[-1], *outputs])


def feed(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {v.name: rng.integers(-2, 3, [int(d) for d in v.shape]).astype("float32") for v in graph.inputs}  # type: ignore[arg-type]


def machine(lanes: int) -> Target:
    return Target(f"cpu -vector_bits={32 * lanes}")


@given(
    graph=networks(), lanes=st.sampled_from([4, 8, 16]), seed=st.integers(0, 99),
    accuracy=st.sampled_from(["fast", "strict"]),
)  # fmt: skip
@examples(50, 150)
def test_every_network_means_the_same(graph: Graph, lanes: int, seed: int, accuracy: str) -> None:
    after = blocked_layout(graph, machine(lanes), accuracy)
    verify_graph(after)
    assert [v.type for v in after.outputs] == [v.type for v in graph.outputs]
    inputs = feed(graph, seed)
    for found, wanted in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(wanted).max(initial=0))))


def interleaved(channels: int, *, between: bool) -> Graph:
    """Phases of a transposed convolution, alone or with convolutions before and behind."""
    b = GraphBuilder()
    x = b.input("x", (1, channels, 3, 4))
    if between:
        x = b.op("nn.conv2d", x, weights(channels, channels, 1, 1))
    x = b.op("nn.conv2d", x, weights(4 * channels, channels, 1, 1))
    x = b.op("nn.bias_add", b.op("nn.interleave", x, strides=(2, 2), size=(6, 8)), weights(channels))
    return b.build(
        b.op("nn.conv2d", b.op("concatenate", x, x, axis=1), weights(8, 2 * channels, 1, 1)) if between else x
    )


def phases_keep_their_meaning() -> None:
    for channels, between, rank in ((8, False, 4), (6, True, 4), (12, True, 4), (8, True, 5)):
        graph = interleaved(channels, between=between)
        after = dead_code(blocked_layout(graph, machine(8)))
        assert [n.output.ndim for n in after.nodes if n.op == "nn.interleave"] == [rank]
        inputs = feed(graph, 0)
        for found, right in zip(interpreter.run(after, inputs), interpreter.run(graph, inputs), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_phases_interleave_on_blocks_between_convolutions() -> None:
    phases_keep_their_meaning()


def groups_keep_their_meaning() -> None:
    """Groups that have whole blocks, alone or several together, where the plain layout would cost more."""
    for channels, groups, lanes, together, strides in (
        ((32, 16), 2, 8, 1, (2, 1)), ((16, 48), 8, 8, 4, (1, 1)),
        ((12, 12), 6, 4, 2, (1, 2)),
    ):  # fmt: skip
        for rank in (2, 3):
            graph = between_convolutions((5, 4, 3)[:rank], channels, groups, (*strides, 1)[:rank])
            with patch.object(algorithms, "_plain_groups", lambda *_: math.inf):
                after = constant_folding(blocked_layout(graph, machine(lanes)))
            found = [n.attrs["groups"] for n in after.nodes if n.op == f"nn.contrib_conv{rank}d_NCHWc"]
            assert found == [1, groups // together, 1], (channels, lanes, rank)
            (right,), (result,) = (interpreter.run(g, feed(graph, 0)) for g in (graph, after))
            np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-4)


def between_convolutions(
    image: tuple[int, ...], channels: tuple[int, int], groups: int, strides: tuple[int, ...]
) -> Graph:
    b, rank = GraphBuilder(), len(image)
    op, ones, threes = f"nn.conv{rank}d", (1,) * rank, (3,) * rank
    x = b.op(op, b.input("x", (1, 16, *image)), weights(channels[0], 16, *ones))
    filters = weights(channels[1], channels[0] // groups, *threes)
    x = b.op("nn.relu", b.op(op, x, filters, groups=groups, strides=strides, padding=1))
    return b.build(b.op(op, x, weights(16, channels[1], *ones)))


def test_groups_with_whole_blocks_stay_on_blocks() -> None:
    groups_keep_their_meaning()


def test_groups_go_where_they_cost_less() -> None:
    """Few channels in a group and many pixels: zeros between groups in a block would cost more than plain lines."""

    def on_blocks(channels: int, groups: int, side: int, accuracy: str = "fast") -> bool:
        graph = between_convolutions((side, side), (channels, channels), groups, (1, 1))
        blocked = blocked_layout(graph, Target("cpu -vector_bits=512 -vector_registers=32"), accuracy)
        return sum(n.op == "nn.contrib_conv2d_NCHWc" for n in blocked.nodes) == 3

    assert on_blocks(512, 32, 6) and on_blocks(1024, 32, 3)
    assert on_blocks(96, 4, 6) and not on_blocks(96, 4, 6, accuracy="strict")  # 24 channels: two groups are one
    assert not on_blocks(64, 16, 56)


def test_groups_alone_go_where_they_cost_less() -> None:
    """Between plain values two changes of layout count: they are worth it if sums are long, or lines short."""

    def on_blocks(channels: tuple[int, int], groups: int, side: int, kernel: int) -> bool:
        b = GraphBuilder()
        filters = weights(channels[1], channels[0] // groups, kernel, kernel)
        x = b.input("x", (1, channels[0], side, side))
        graph = b.build(b.op("nn.conv2d", x, filters, groups=groups, padding=kernel // 2))
        blocked = blocked_layout(graph, Target("cpu -vector_bits=512 -vector_registers=32"))
        return any(n.op == "nn.contrib_conv2d_NCHWc" for n in blocked.nodes)

    assert on_blocks((96, 256), 2, 27, 5) and on_blocks((1024, 1024), 32, 7, 3)
    assert not on_blocks((64, 64), 2, 64, 1) and not on_blocks((64, 64), 16, 56, 3)


def parts_keep_their_meaning() -> None:
    """Parts of whole blocks stay in blocks; others do not."""
    for begin, end, stay in ((16, 32, True), (0, 8, True), (8, -16, True), (4, 20, False)):
        b = GraphBuilder()
        x = b.op("nn.conv2d", b.input("x", (1, 8, 3, 3)), weights(32, 8, 1, 1))
        whole = b.op("split", x, indices_or_sections=(begin,), axis=1)[1] if end == 32 else x
        if end != 32:
            whole = b.op("strided_slice", x, begin=(0, begin), end=(3, end), axes=(-1, 1))
        graph = b.build(b.op("nn.conv2d", whole, weights(8, whole.shape[1], 1, 1)))
        try:
            after = dead_code(constant_folding(blocked_layout(graph, machine(8))))
        except InputError as error:
            raise AssertionError(f"channels {begin} to {end}: {error}") from error
        changes = Counter(n.op for n in after.nodes if n.op.startswith("layout."))
        assert (changes == {"layout.block_axis": 1, "layout.unblock_axis": 1}) == stay, (begin, end, changes)
        (right,), (result,) = (interpreter.run(g, feed(graph, 0)) for g in (graph, after))
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-4)


def test_parts_of_channels_stay_on_blocks() -> None:
    parts_keep_their_meaning()


def choices_keep_their_meaning() -> None:
    """What is compared stays in blocks, and so does a slope for each channel."""
    for kind in ("where", "nn.prelu"):
        b = GraphBuilder()
        x = b.op("nn.conv2d", b.input("x", (1, 8, 3, 4)), weights(16, 8, 1, 1))
        if kind == "where":
            y = b.op("where", b.op("greater", x, b.op("nn.relu", b.op("negative", x))), x, np.float32(-1))
        else:
            y = b.op("nn.prelu", x, np.arange(16, dtype="float32"), axis=1)
        graph = b.build(b.op("nn.conv2d", y, weights(8, 16, 1, 1)))
        after = dead_code(constant_folding(blocked_layout(graph, machine(8))))
        changes = Counter(n.op for n in after.nodes if n.op.startswith("layout."))
        assert changes == {"layout.block_axis": 1, "layout.unblock_axis": 1}, (kind, changes)
        (right,), (result,) = (interpreter.run(g, feed(graph, 0)) for g in (graph, after))
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-4)


def test_choices_stay_on_blocks() -> None:
    choices_keep_their_meaning()


def reductions_keep_their_meaning() -> None:
    """Sums over channels read blocks that these fill, and no others; sums over pixels keep the blocks."""
    for channels, axis, kept in (
        (16, 1, True),
        (16, (1, 2, 3), False),
        (16, (2, 3), True),
        (13, 1, True),
        (13, 2, True),
    ):
        b = GraphBuilder()
        x = b.op("nn.conv2d", b.input("x", (1, 8, 8, 8)), weights(channels, 8, 3, 3), padding=1)
        x = b.op("add", x, np.float32(1))  # also to what fills a block
        y = b.op("sum", x, axis=axis, keepdims=kept)
        y = y if kept else b.op("reshape", y, newshape=(1, 1, 1, 1))
        graph = b.build(b.op("nn.conv2d", b.op("multiply", x, y), weights(24, channels, 3, 3), padding=1))
        after = dead_code(constant_folding(blocked_layout(graph, machine(8))))
        changed = [n for n in after.nodes if n.op == "layout.unblock_axis"]
        assert len(changed) == (2 if (channels, axis) == (13, 1) else 1), (channels, axis, changed)
        (right,), (result,) = (interpreter.run(g, feed(graph, 0)) for g in (graph, after))
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-1)


def test_reductions_read_blocks() -> None:
    reductions_keep_their_meaning()


def norms_keep_their_meaning() -> None:
    """Between convolutions channels stay in blocks where they are normalised, alone and in groups of any size."""
    for channels, groups, lanes in ((8, None, 4), (12, 3, 4), (16, 2, 8), (16, 8, 8), (24, 4, 8), (24, 3, 8)):
        for rank in (2, 3):
            b = GraphBuilder()
            op, ones = f"nn.conv{rank}d", (1,) * rank
            x = b.op(op, b.input("x", (2, 8, *(3, 2, 4)[:rank])), weights(channels, 8, *ones))
            kind, attrs = ("nn.instance_norm", {}) if groups is None else ("nn.group_norm", {"num_groups": groups})
            scale, shift = np.arange(1, channels + 1, dtype="float32"), np.arange(channels, dtype="float32")
            x = b.op("nn.relu", b.op(kind, x, scale, shift, epsilon=0.5, **attrs))
            graph = b.build(b.op(op, x, weights(8, channels, *ones)))
            after = constant_folding(blocked_layout(graph, machine(lanes)))
            changes = Counter(n.op for n in after.nodes if n.op.startswith("layout."))
            assert changes == {"layout.block_axis": 1, "layout.unblock_axis": 1}, (channels, groups, lanes, changes)
            (right,), (result,) = (interpreter.run(g, feed(graph, 0)) for g in (graph, after))
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-2)


def test_norms_stay_on_blocks() -> None:
    norms_keep_their_meaning()


def fillings_are_not_read(channels: int, kernel: int) -> None:
    """What fills a block may be no number: a sum over channels leaves it out."""
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 8, 8, 8)), weights(channels, 8, kernel, kernel), padding=kernel // 2)
    x = b.op("nn.relu", b.op("nn.bias_add", x, weights(channels)))
    x = b.op("multiply", b.op("add", x, weights(channels, 1, 1)), b.input("scale", (1, channels, 1, 1)))
    x = b.op("divide", x, b.op("add", b.op("abs", x), np.abs(weights(channels, 1, 1)) + 1))  # 0 / 0 in what is filled
    y = b.op("nn.conv2d", x, weights(24, channels, kernel, kernel), padding=kernel // 2)
    y = b.op("nn.conv2d", y, weights(channels, 24, kernel, kernel), padding=kernel // 2)
    z = b.op("nn.conv2d", b.op("add", x, y), weights(channels, 1, 3, 3), groups=channels)
    graph = b.build([b.op("nn.global_avg_pool", z), x, y])
    after = blocked_layout(graph, machine(8))
    blocked = {v.shape[1:2] + v.shape[-1:] for n in after.nodes for v in n.outputs if v.ndim == 5}
    assert (-(-channels // 8), 8) in blocked
    inputs = feed(graph, 0)
    right = interpreter.run(graph, inputs)
    assert all(np.isfinite(array).all() for array in right)
    with np.errstate(all="ignore"):
        for found, wanted in zip(interpreter.run(after, inputs), right, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [36, 13, 7])
def test_what_fills_a_block_is_not_read(channels: int, kernel: int) -> None:
    fillings_are_not_read(channels, kernel)


def kernels_are_right(channels: tuple[int, int, int], kernel: int, lanes: int, stride: int, dilation: int) -> None:
    """Compiled: registers, tails of channels and of pixels, and copies between layouts."""
    first, second, third = channels
    b = GraphBuilder()
    attrs = {"padding": dilation * (kernel // 2), "dilation": dilation}
    x = b.op("nn.conv2d", b.input("x", (1, first, 9, 13)), weights(second, first, kernel, kernel), **attrs)
    x = b.op("nn.relu", b.op("nn.bias_add", x, weights(second)))
    y = b.op("nn.conv2d", x, weights(third, second, kernel, kernel), strides=stride, **attrs)
    graph = b.build([x, y])
    inputs = feed(graph, 0)
    found = minitvm.build(graph, machine(lanes), threads=1)(**inputs)
    for result, wanted in zip(found, interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)


def test_kernels_of_channels_that_no_vector_divides() -> None:
    """One network, as it is compiled, which takes seconds."""
    kernels_are_right((7, 26, 21), kernel=3, lanes=16, stride=2, dilation=1)


@pytest.mark.full
@given(
    channels=st.tuples(*[st.integers(1, 40)] * 3), kernel=st.sampled_from([1, 3]), lanes=st.sampled_from([4, 8, 16]),
    stride=st.integers(1, 2), dilation=st.integers(1, 2),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_kernels_of_any_number_of_channels(
    channels: tuple[int, int, int], kernel: int, lanes: int, stride: int, dilation: int
) -> None:
    kernels_are_right(channels, kernel, lanes, stride, dilation)


def test_where_nobody_chooses_channels_that_a_convolution_reads_are_whole_blocks() -> None:
    b = GraphBuilder()
    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 8, 6, 6)), weights(36, 8, 1, 1)))
    graph = b.build([b.op("nn.conv2d", x, weights(8, 36, 1, 1)), b.op("nn.conv2d", x, weights(68, 36, 1, 1))])
    after = blocked_layout(graph, Target("opencl -vector_bits=256"))
    assert {v.shape[-1] for n in after.nodes for v in n.outputs if v.ndim == 5} == {4, 8}
    filled = {int(n.output.shape[1]) * 8 for n in after.nodes if n.output.ndim == 5 and n.output.shape[-1] == 8}
    assert 72 in filled, "68 channels fill their last block: nothing sums over them"


def operators(graph: Graph) -> Counter[str]:
    return Counter(n.op for n in graph.nodes)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_what_stands_between_convolutions_stays_blocked() -> None:
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 3, 12, 12)), weights(16, 3, 3, 3), padding=1)
    x = b.op("nn.max_pool2d", b.op("nn.relu", b.op("nn.bias_add", x, weights(16))), pool_size=2, strides=2)
    y = b.op("nn.conv2d", x, weights(16, 1, 3, 3), padding=1, groups=16)
    z = b.op("nn.conv2d", b.op("concatenate", x, b.op("add", x, y), axis=1), weights(8, 32, 1, 1))
    found = operators(constant_folding(blocked_layout(b.build(b.op("nn.global_avg_pool", z)), machine(8))))
    assert found["nn.conv2d"] == found["layout.pack_weights"] == 0
    assert (found["nn.contrib_conv2d_NCHWc"], found["nn.contrib_depthwise_conv2d_NCHWc"]) == (2, 1)
    assert (found["layout.block_axis"], found["layout.unblock_axis"]) == (1, 1), "one at each border of the network"


@pytest.mark.parametrize("kind", ["conv2d", "depthwise", "dense"])
def test_weights_that_several_operators_read_are_packed_once_and_not_kept_plain(kind: str) -> None:
    b = GraphBuilder()
    if kind == "dense":
        x, w = b.input("x", (2, 16)), b.constant(weights(16, 16), "w")
        graph = b.build(b.op("nn.dense", b.op("nn.relu", b.op("nn.dense", x, w)), w))
    else:
        groups = {"conv2d": 1, "depthwise": 16}[kind]
        x, w = b.input("x", (1, 16, 5, 5)), b.constant(weights(16, 16 // groups, 3, 3), "w")
        y = b.op("nn.conv2d", x, w, padding=1, groups=groups)
        graph = b.build(b.op("nn.conv2d", b.op("nn.relu", y), w, padding=1, groups=groups))
    after = dead_code(constant_folding(blocked_layout(graph, machine(8))))
    assert len(after.constants) == 1, "one packed copy, and nothing plain"
    inputs = feed(graph, 1)
    np.testing.assert_allclose(
        interpreter.run(after, inputs)[0], interpreter.run(graph, inputs)[0], rtol=1e-4, atol=1e-3
    )


def test_a_depthwise_convolution_between_plain_values_changes_no_layout() -> None:
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.op("sigmoid", b.input("x", (1, 16, 9, 11))), weights(16, 1, 3, 3), padding=1, groups=16)
    graph = b.build(b.op("nn.relu", x))
    after = blocked_layout(graph, machine(8))
    assert operators(after) == {"sigmoid": 1, "nn.contrib_depthwise_conv2d_rows": 1, "nn.relu": 1}
    inputs = feed(graph, 0)
    np.testing.assert_allclose(
        interpreter.run(after, inputs)[0], interpreter.run(graph, inputs)[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("height", "tile"), [(29, 6), (7, 7), (40, 8), (3, 3), (14, 7), (SizeVar("h"), 8)])
def test_rows_of_a_depthwise_convolution_are_computed_several_at_a_time(height: Any, tile: int) -> None:
    """One row's multiply-adds wait for each other. A height without divisors is rounded up to some."""
    b = GraphBuilder()
    graph = b.build(b.op("nn.conv2d", b.input("x", (1, 3, height, 11)), weights(3, 1, 3, 3), padding=1, groups=3))
    (rows,) = blocked_layout(graph, machine(8)).nodes
    assert rows.attrs["tile"] == tile


@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)), strides=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4), dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    image=st.tuples(st.integers(8, 12), st.integers(8, 40)), is_open=st.sampled_from(["h", "w", "hw"]),
)  # fmt: skip
@settings(max_examples=25)
def test_depthwise_convolutions_of_open_images_on_rows(
    kernel: Any, strides: Any, padding: Any, dilation: Any, image: tuple[int, int], is_open: str
) -> None:
    """Whether a row of whole vectors ends behind the image depends on the size, and is decided when it runs."""
    b = GraphBuilder()
    shape = [SizeVar(name) if name in is_open else extent for name, extent in zip("hw", image, strict=True)]
    x = b.input("x", (1, 3, *shape))
    weight = np.random.default_rng(0).integers(-2, 3, (3, 1, *kernel)).astype("float32")
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "groups": 3}
    graph = b.build(b.op("nn.conv2d", x, weight, **attrs))
    after = blocked_layout(graph, machine(8))
    assert operators(after) == {"nn.contrib_depthwise_conv2d_rows": 1}
    inputs = {"x": np.random.default_rng(1).integers(-3, 4, (1, 3, *image)).astype("float32")}
    expected = interpreter.run(graph, inputs)
    np.testing.assert_array_equal(interpreter.run(after, inputs), expected)
    np.testing.assert_array_equal(by_te(after, inputs), expected)


def test_operators_that_name_axes_see_the_plain_layout() -> None:
    b = GraphBuilder()
    x = b.op("nn.conv2d", b.input("x", (1, 16, 1, 1)), weights(16, 16, 1, 1))
    graph = b.build(b.op("broadcast_to", x, shape=(1, 16, 4, 3)))
    after = blocked_layout(graph, machine(8))
    assert operators(after)["layout.unblock_axis"] == 1
    inputs = feed(graph, 0)
    np.testing.assert_allclose(interpreter.run(after, inputs)[0], interpreter.run(graph, inputs)[0], rtol=1e-5)


def test_what_cannot_be_blocked_is_left_alone() -> None:
    b = GraphBuilder()
    x, w = b.input("x", (1, 8, 5, 5)), b.input("w", (8, 8, 1, 1))
    computed = b.op("nn.conv2d", x, w)
    grouped = b.op("nn.conv2d", computed, weights(8, 4, 1, 1), groups=2)
    after = blocked_layout(b.build(b.op("nn.conv2d", grouped, weights(1, 8, 1, 1))), machine(8))
    assert operators(after) == {"nn.conv2d": 3}


@pytest.mark.parametrize(
    ("channels", "lanes", "block"),
    [
        (64, 16, 16),
        (24, 16, 8),
        (12, 16, 4),
        (12, 8, 4),
        (16, 4, 4),
        (3, 8, 3),
        (1, 8, 1),
        (6, 8, None),
        (7, 16, None),
        (8, 2, None),
    ],
)
def test_blocks(channels: int, lanes: int, block: int | None) -> None:
    assert whole_block(channels, lanes) == block


@given(
    channels=st.lists(st.sampled_from([1, 3, 4, 7, 8, 16, 18]), min_size=3, max_size=3),
    lanes=st.sampled_from([4, 8]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_networks_of_volumes_mean_the_same(channels: list[int], lanes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second, third = channels

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-1, 2, shape).astype("float32")

    b = GraphBuilder()
    x = b.input("x", (1, first, 3, 4, 5))
    y = b.op("nn.conv3d", x, weights(second, first, 3, 2, 3), padding=(1, 1, 1, 1, 0, 1), strides=(1, 1, 2))
    y = b.op("nn.relu", b.op("add", b.op("nn.bias_add", y, weights(second)), weights(second, 1, 1, 1)))
    z = b.op("multiply", b.op("nn.conv3d", y, weights(second, second, 1, 1, 1)), b.op("nn.global_avg_pool", y))
    both = b.op("concatenate", y, z, axis=1)
    last = b.op("nn.conv3d", both, weights(third, 2 * second, 3, 3, 3), dilation=(1, 2, 1), padding=(1, 2, 1))
    graph = b.build([b.op("nn.max_pool3d", last, pool_size=2), z])
    after = blocked_layout(graph, machine(lanes))
    verify_graph(after)
    unblocked = {1, 7, 18} & {*channels} or second == 3  # six channels behind the concatenation
    assert not any(item.op == "nn.conv3d" for item in after.nodes) or unblocked
    arrays = feed(graph, seed)
    for found, wanted in zip(interpreter.run(after, arrays), interpreter.run(graph, arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_channels_are_joined_wherever_the_axis_is_counted_from() -> None:
    b = GraphBuilder("volumes")
    volume = b.op("nn.conv3d", b.input("x", (1, 3, 2, 4, 4)), np.ones((8, 3, 1, 1, 1), "float32"))
    graph = b.build(b.op("concatenate", volume, volume, axis=-3))
    found = interpreter.run(
        blocked_layout(graph, Target("cpu -vector_bits=256")), [x := np.ones((1, 3, 2, 4, 4), "f4")]
    )
    np.testing.assert_array_equal(found[0], interpreter.run(graph, [x])[0])


def rows_keep_their_meaning() -> None:
    """A depthwise convolution and both pools, with steps and margins."""
    for op in ("nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d"):
        b = GraphBuilder()
        x, attrs = b.input("x", (1, 3, 7, 18)), {"strides": 2, "padding": 1}
        conv = op == "nn.conv2d"
        made = b.op(op, x, weights(3, 1, 3, 3), groups=3, **attrs) if conv else b.op(op, x, pool_size=3, **attrs)
        graph = b.build(made)
        after = blocked_layout(graph, machine(8))
        assert all(item.op.endswith("_rows") for item in after.nodes)
        inputs = feed(graph, 0)
        np.testing.assert_allclose(
            interpreter.run(after, inputs)[0], interpreter.run(graph, inputs)[0], rtol=1e-4, atol=1e-5
        )


def test_windows_on_rows_keep_their_steps_and_margins() -> None:
    rows_keep_their_meaning()


@given(
    op=st.sampled_from(["max", "avg"]), rank=st.integers(1, 3), size=st.integers(1, 3), stride=st.integers(1, 4),
    padding=st.integers(0, 1), ceil=st.booleans(), height=st.integers(4, 10), width=st.integers(14, 40),
    is_open=st.sampled_from(["", "h", "w", "hw"]), dtype=st.sampled_from(["float32", "float64", "int32"]),
)  # fmt: skip
@settings(max_examples=25)
def test_pools_of_plain_values_are_computed_in_rows(
    op: str, rank: int, size: int, stride: int, padding: int, ceil: bool, height: int, width: int, is_open: str,
    dtype: str,
) -> None:  # fmt: skip
    """Whatever the window is, and whether its image is open; means of integers, which round, stay as they are."""
    sides = {"z": 3, "h": height, "w": width}
    names = "zhw"[-rank:]
    b = GraphBuilder()
    shape = [SizeVar(name) if name in is_open else sides[name] for name in names]
    x = b.input("x", (2, 3, *shape), dtype)
    attrs = {"pool_size": max(size, 1 + padding), "strides": stride, "padding": padding, "ceil_mode": ceil}
    graph = b.build(b.op(f"nn.{op}_pool{rank}d", x, **attrs))
    after = blocked_layout(graph, machine(8))
    as_rows = op == "max" or dtype != "int32"
    assert operators(after) == {f"nn.contrib_{op}_pool_rows" if as_rows else f"nn.{op}_pool{rank}d": 1}
    data = np.random.default_rng(1).integers(-9, 9, (2, 3, *(sides[name] for name in names)))
    inputs = {"x": data.astype(dtype)}
    expected = interpreter.run(graph, inputs)
    np.testing.assert_array_equal(interpreter.run(after, inputs), expected)
    np.testing.assert_allclose(by_te(after, inputs), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((1, 4, 7, 7), {"pool_size": 7}),  # one window in a row
        ((1, 4, 40, 40), {"pool_size": 5, "strides": 5}),  # few of the elements of a vector are used
        ((1, 4, 40, 40), {"pool_size": 2, "layout": "NHWC"}),
    ],
)
def test_pools_that_rows_do_not_help_stay_as_they_are(shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    b = GraphBuilder()
    graph = b.build(b.op("nn.max_pool2d", b.input("x", shape), **attrs))
    assert operators(blocked_layout(graph, machine(8))) == {"nn.max_pool2d": 1}
