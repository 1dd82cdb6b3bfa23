"""Replace a transposed convolution by plain convolutions of its input, whose results are interleaved.

With stride s, padding b before the data and dilation d, tap k of the kernel adds data[i] to out[o] where i*s + k*d = o
+ b. For the outputs o = q*s + p of one phase p this needs k*d = p + b (mod s): every m-th tap from some k0 on, where m
is s / gcd(s, d). With k = k0 + j*m the input is

    i = q + (p + b - k0*d) / s - j * (d / gcd(s, d))

so the phase is a plain convolution of stride 1 with the phase's taps in reverse order. No zeros are multiplied, and no
zeros are stored between the elements of the data. Phases with the same number of taps and the same start are computed
by one convolution with more filters. (The sub-pixel form: Shi et al., "Is the deconvolution layer the same as a
convolutional layer?", 2016.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...topi.shapes import paddings, per_axis, simple
from ..builder import GraphBuilder
from ..nodes import Dim, Graph, OpNode, Value
from ..pattern import op, value
from ..rewrite import RewriteRule, rewrite

# Each phase adds operators to the graph.
_MOST_PHASES = 256


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """The taps of one phase along one axis: `taps` of them, at `first`, `first + step`, and so on.

    The data are padded with `before` zeros at the start; a negative number removes data. `dilation` is the distance
    between the inputs of two neighbouring taps.
    """

    first: int
    step: int
    taps: int
    before: int
    dilation: int

    @property
    def window(self) -> tuple[int, int]:
        """The key that phases must share so that a single convolution can compute them."""
        return self.taps, self.before


def axis_phases(kernel: int, stride: int, padding: int, dilation: int) -> list[AxisPhase]:
    """Return the phases of an axis, in the order of the outputs. A phase may have no taps."""
    common = math.gcd(stride, dilation)
    step, apart = stride // common, dilation // common
    phases = []
    for phase in range(stride):
        reaching = [k for k in range(kernel) if (k * dilation - phase - padding) % stride == 0]
        if not reaching:
            phases.append(AxisPhase(0, step, 0, 0, apart))
            continue
        nearest = (phase + padding - reaching[0] * dilation) // stride
        phases.append(AxisPhase(reaching[0], step, len(reaching), (len(reaching) - 1) * apart - nearest, apart))
    return phases


def split_conv_transpose(graph: Graph) -> Graph:
    """Replace transposed convolutions with plain ones.

    before:
        x = b.input("x", (1, 3, 8, 8))
        w = b.constant(np.ones((3, 4, 2, 2), "float32"))
        return b.op("nn.conv2d_transpose", x, w, strides=(2, 2))
    after:
        def main(x: float32[1, 3, 8, 8]):
            concatenate = constant(float32[16, 3, 1, 1])
            conv2d: float32[1, 16, 8, 8] = nn.conv2d(x, concatenate, padding=(0, 0, 0, 0), dilation=(1, 1))
            conv2d_transpose: float32[1, 4, 16, 16] = nn.interleave(conv2d, strides=(2, 2), size=(16, 16))
            return conv2d_transpose
    """
    return rewrite(graph, RULES)


def _splits(item: OpNode) -> bool:
    """Return whether an operator is a transposed convolution of floats with few phases.

    A transposed convolution of integers is excluded, because it sums in the dtype of the data. The weights must be
    static: otherwise it is unknown which taps belong to a phase, and whether the phases divide the number of filters.
    Along an axis of unknown extent no phase may remove data: only a run knows whether a row is left, and so how long
    the phase is.
    """
    if not item.output.dtype.is_float or 0 in item.output.shape:
        return False
    if math.prod(per_axis(item.attrs["strides"], item.inputs[0].ndim - 2, "strides")) > _MOST_PHASES:
        return False
    return item.inputs[1].is_static and all(
        isinstance(pad, int) and pad >= 0
        for axis in _axes(item)
        if not isinstance(axis.extent, int)
        for phase in axis.phases
        if phase.taps
        for pad in (phase.before, axis.after(phase))
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a transposed convolution: the extent of the data, its phases, and the length of each phase."""

    extent: Dim
    phases: list[AxisPhase]
    count: Dim

    def after(self, phase: AxisPhase) -> Dim:
        """Return the number of zeros to add after the data for a phase. A negative number removes data there."""
        return simple(self.count - self.extent + (phase.taps - 1) * phase.dilation - phase.before)


def _axes(item: OpNode) -> list[_Axis]:
    """Return the spatial axes. Every phase has the length of the longest one; the surplus is removed at the end."""
    data, weight = item.inputs
    rank = data.ndim - 2
    strides = per_axis(item.attrs["strides"], rank, "strides")
    dilation = per_axis(item.attrs["dilation"], rank, "dilation")
    before, _ = paddings(item.attrs["padding"], rank)
    kernel: Any = weight.shape[2:]
    phases = itertools.starmap(axis_phases, zip(kernel, strides, before, dilation, strict=True))
    counts = [simple(-(-n // s)) for n, s in zip(item.output.shape[2:], strides, strict=True)]
    return [_Axis(*each) for each in zip(data.shape[2:], phases, counts, strict=True)]


class _Split:
    """The conversion of one transposed convolution to plain convolutions."""

    def __init__(self, b: GraphBuilder, item: OpNode, data: Value, weight: Value) -> None:
        self.b, self.item, self.data, self.weight = b, item, data, weight
        self.rank = data.ndim - 2
        self.groups: int = item.attrs["groups"]
        self.strides = per_axis(item.attrs["strides"], self.rank, "strides")
        self.axes = _axes(item)

    def result(self) -> Value:
        parts = [self.convolution(run) for run in self.runs()]
        name, phases = self.item.output.name, math.prod(self.strides)
        if phases == 1:
            return parts[0]
        joined = parts[0] if len(parts) == 1 else self.b.op("concatenate", *parts, axis=1)
        return self.b.op("nn.interleave", joined, strides=self.strides, size=self.item.output.shape[2:], name=name)

    def runs(self) -> Iterator[list[tuple[AxisPhase, ...]]]:
        """Yield the phases in order, in groups that a single convolution can compute."""
        phases = list(itertools.product(*(axis.phases for axis in self.axes)))
        if self.groups != 1:  # the filters of a phase would be spread over the groups
            yield from ([phase] for phase in phases)
            return
        for _, run in itertools.groupby(phases, lambda phase: tuple(axis.window for axis in phase)):
            yield list(run)

    def convolution(self, run: list[tuple[AxisPhase, ...]]) -> Value:
        """Add the convolution that computes a group of phases. Its channels are ordered by phase.

        If the phases have no taps, or no row of the data is left, zeros are added instead.
        """
        first = run[0]
        if any(axis.taps == 0 for axis in first):
            return self.zeros(len(run))
        before: list[int] = [phase.before for phase in first]
        after: list[Any] = [axis.after(phase) for axis, phase in zip(self.axes, first, strict=True)]
        if any(
            isinstance(n, int) and n <= max(-b, -a) for n, b, a in zip(self.data.shape[2:], before, after, strict=True)
        ):
            return self.zeros(len(run))  # no row of the data is left
        filters = [self.filters(phase) for phase in run]
        weight = filters[0] if len(filters) == 1 else self.b.op("concatenate", *filters, axis=0)
        return self.b.op(
            f"nn.conv{self.rank}d",
            self.cut(before, after),
            weight,
            groups=self.groups,
            padding=[max(p, 0) for p in (*before, *after)],
            dilation=[axis.dilation for axis in first],
        )

    def filters(self, phase: tuple[AxisPhase, ...]) -> Value:
        """Return the taps of a phase, in reverse order, as the filters of a plain convolution.

        Taps are [i, o / groups, taps...], and filters are [o, i / groups, taps...].
        """
        spatial = tuple(range(2, 2 + self.rank))
        taps_of_phase = self.b.op(
            "strided_slice",
            self.weight,
            begin=[a.first for a in phase],
            axes=spatial,
            end=[a.first + (a.taps - 1) * a.step + 1 for a in phase],
            strides=[a.step for a in phase],
        )
        for axis in spatial:
            taps_of_phase = self.b.op("reverse", taps_of_phase, axis=axis)
        channels, filters, *taps = taps_of_phase.shape
        grouped = self.b.op("reshape", taps_of_phase, newshape=(self.groups, channels // self.groups, filters, *taps))
        turned = self.b.op("transpose", grouped, axes=(0, 2, 1, *(a + 1 for a in spatial)))
        return self.b.op("reshape", turned, newshape=(self.groups * filters, channels // self.groups, *taps))

    def cut(self, before: list[int], after: list[int]) -> Value:
        """Return the data without the rows at their ends that no tap reads: negative numbers in `before` and `after`
        count them.
        """
        if min(*before, *after) >= 0:
            return self.data
        begin = [max(-p, 0) for p in before]
        end = [simple(n - max(-p, 0)) for n, p in zip(self.data.shape[2:], after, strict=True)]
        return self.b.op("strided_slice", self.data, begin=begin, end=end, axes=tuple(range(2, 2 + self.rank)))

    def zeros(self, phases: int) -> Value:
        batch, channels = self.item.output.shape[:2]
        shape = (batch, simple(channels * phases), *(axis.count for axis in self.axes))
        return self.b.op("full", shape=shape, fill_value=0.0, dtype=str(self.data.dtype))


RULES = [
    RewriteRule(
        op(tuple(f"nn.conv{rank}d_transpose" for rank in (1, 2, 3)), value("data"), value("weight"), when=_splits),
        lambda b, match: _Split(b, match.root, match["data"], match["weight"]).result(),
    )
]
