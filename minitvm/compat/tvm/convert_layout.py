"""Layouts that the user chooses: convolutions and pools are converted, and the operators between them follow.

    ConvertLayout({"nn.conv2d": ["NHWC", "default"], "nn.max_pool2d": ["NHWC"]})(graph)

Each value has forms: the layout of the original graph, and others that operators produced or needed. A converted
operator reads its data in the chosen layout and produces its result only in that one; an operator on elements, or on
axes that can be renamed, works in the form of its operand; every other operator reads the original. A
`layout_transform` is inserted only where an operator needs a form that does not exist, so only where layouts meet.
TVM's pass of the same name does the same to Relay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InputError, nearest
from ...graph.forms import Forms
from ...graph.nodes import Graph, OpNode, Value
from ...topi.layouts import Layout, transformed
from ...topi.registry import get
from ...topi.shapes import is_one, paddings, per_axis

# Forms are written in these letters: one for each axis of the value as the graph has it, first to last.
ORIGINAL = "NCHW"

# The tensors of an operator that have a layout.
_LAYOUTS = {"nn.conv2d": ("data", "kernel"), "nn.max_pool2d": ("data",), "nn.avg_pool2d": ("data",)}
_AXES_OF = {"data": "NCHW", "kernel": "OIHW"}


@dataclass(frozen=True, slots=True)
class ConvertLayout:
    """A pass from graph to graph: the operators of `desired_layouts` in the layouts given there.

    `nn.conv2d` takes the layouts of data and kernel, a pool that of its data. A plain layout is any order of NCHW (and
    OIHW); `NCHW8c` puts blocks of 8 channels innermost. "default" for the kernel is the one that fits the data: OIHW,
    HWIO for NHWC (HWOI if each channel has its own filters), packed blocks; "default" for the data leaves the
    operator as it is. A convolution whose channels do not divide into the blocks, or with groups that are neither one
    nor all channels, is not converted. Raises `InputError` for an unknown operator or layout.
    """

    desired_layouts: Mapping[str, Sequence[str]]
    name: str = field(default="ConvertLayout", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.desired_layouts, Mapping):
            raise InputError(
                "ConvertLayout takes a dictionary from operators to layouts\n"
                f"  found:  {self.desired_layouts!r}\n  try:    {{'nn.conv2d': ['NHWC', 'default']}}"
            )
        checked = {op: _checked(op, layouts) for op, layouts in self.desired_layouts.items()}
        object.__setattr__(self, "desired_layouts", checked)

    def __call__(self, graph: Graph) -> Graph:
        if not isinstance(graph, Graph):
            raise InputError(f"ConvertLayout takes a graph\n  found:  {type(graph).__name__}")
        return _Conversion(graph, self.desired_layouts).result()


def _checked(op: str, layouts: Sequence[str]) -> tuple[str, ...]:
    if op not in _LAYOUTS:
        raise InputError(
            f"ConvertLayout: {op} has no layouts to choose; {nearest(op, list(_LAYOUTS))}"
            f"\n  wanted: one of {', '.join(_LAYOUTS)}"
        )
    kinds = _LAYOUTS[op]
    if isinstance(layouts, str) or not 1 <= len(layouts) <= len(kinds):
        raise InputError(
            f"ConvertLayout: {op} has the layouts of {' and '.join(kinds)}\n  wanted: a list of {len(kinds)}, such as "
            f"{['NHWC', 'default'][: len(kinds)]}\n  found:  {layouts!r}"
        )
    complete = (*layouts, *("default",) * (len(kinds) - len(layouts)))
    for kind, layout in zip(kinds, complete, strict=True):
        if layout != "default":
            _check_axes(op, kind, layout)
    if complete[0] == "default" and complete[1:] not in ((), ("default",)):
        raise InputError(f"ConvertLayout: {op}: a layout of the kernel goes with one of the data, found {layouts!r}")
    _check_blocks(op, complete)
    return complete


def _check_axes(op: str, kind: str, layout: str) -> None:
    try:
        parsed = Layout.parse(layout)
    except InputError as error:
        raise InputError(f"ConvertLayout: {op}: {error}") from None
    axes = _AXES_OF[kind]
    if sorted(parsed.plain) != sorted(axes):
        raise InputError(
            f"ConvertLayout: {op}: {layout!r} is no layout of its {kind}\n  wanted: the axes {', '.join(axes)}, each "
            "once, in any order"
        )


def _check_blocks(op: str, layouts: tuple[str, ...]) -> None:
    data, *kernels = (None if text == "default" else Layout.parse(text) for text in layouts)
    kernel = kernels[0] if kernels else None
    if data is None:
        return
    if data.is_plain and (kernel is None or kernel.is_plain):
        return
    block = data.block("C")
    if data.is_plain or str(data) != f"NCHW{block}c":
        raise InputError(f"ConvertLayout: {op}: {layouts} has blocks that there are no operators for\n  wanted: NCHW8c")
    if kernel is not None and str(kernel) != f"OIHW{block}i{block}o":
        raise InputError(
            f"ConvertLayout: {op}: the kernel {kernel} does not go with data in {data}"
            f"\n  wanted: OIHW{block}i{block}o, or default"
        )


def default_kernel(data_layout: str, depthwise: bool) -> str:
    """The layout of filters that goes with data in a plain layout: channels outermost, or innermost."""
    if not data_layout.endswith("C"):
        return "OIHW"
    return "HWOI" if depthwise else "HWIO"


class _Conversion(Forms):
    def __init__(self, graph: Graph, desired: Mapping[str, Sequence[str]]) -> None:
        super().__init__(graph)
        self.desired = desired
        self.forms: dict[Value, dict[str, Value]] = {}  # those in other layouts than the original, which is plain
        self.produced: dict[Value, str] = {}  # the layout in which an operator produced a value, if it is another
        self.latest: dict[Value, str] = {}  # the layout of the form that was added last
        self.letters: dict[Value, str] = {}  # an operator's letters for the axes of a value, as printed
        self.kernels: dict[tuple[Value, str, str], Value] = {}

    def rewrite(self, item: OpNode) -> bool:
        return self.converted(item) or self.followed(item)

    # -- forms

    def made_plain(self, value: Value) -> Value:
        return self.added(value, ORIGINAL)

    def form(self, value: Value, layout: str) -> Value:
        """The value in a layout."""
        if layout == ORIGINAL:
            return self.as_plain(value)
        forms = self.forms.setdefault(value, {})
        if layout not in forms:
            forms[layout] = self.added(value, layout)
        return forms[layout]

    def added(self, value: Value, layout: str) -> Value:
        """Add a form of a value: a reshape if no data move, or a `layout_transform`."""
        source, name = self.latest.get(value, ORIGINAL), value.name
        at = self.plain[value] if source == ORIGINAL else self.forms[value][source]
        self.latest[value] = layout
        result: Value
        if _in_order(value.shape, source) == _in_order(value.shape, layout):
            result = self.b.op("reshape", at, newshape=layout_shape(value.shape, layout), allowzero=True, name=name)
            return result
        letters = self.letters.get(value, ORIGINAL)
        src, dst = (_renamed(text, ORIGINAL, letters) for text in (source, layout))
        result = self.b.op("layout_transform", at, src_layout=src, dst_layout=dst, name=name)
        return result

    def layout_of(self, values: Sequence[Value]) -> str | None:
        """The layout in which one of the values was produced, if it is not the original."""
        return next((self.produced[v] for v in values if v in self.produced and v.ndim == len(ORIGINAL)), None)

    def fits(self, value: Value, layout: str) -> bool:
        return value.ndim == len(ORIGINAL) and all(
            isinstance(extent, int) and extent % Layout.parse(layout).block(letter) == 0
            for letter, extent in zip(ORIGINAL, value.shape, strict=True)
            if Layout.parse(layout).block(letter) > 1
        )

    def give(self, item: OpNode, layout: str, result: Value) -> bool:
        if layout == ORIGINAL:
            self.plain[item.output] = result
        else:
            self.forms[item.output] = {layout: result}
            self.produced[item.output] = self.latest[item.output] = layout
        return True

    # -- operators whose layout the user chose

    def converted(self, item: OpNode) -> bool:
        layouts = self.desired.get(item.op, ("default",))
        if layouts[0] == "default":
            return False
        own = item.attrs["data_layout" if item.op == "nn.conv2d" else "layout"]
        form = _renamed(layouts[0], own, ORIGINAL)
        if not self.fits(item.inputs[0], form) or not self.fits(item.output, form):
            return False
        self.letters.setdefault(item.inputs[0], own)
        self.letters[item.output] = own
        return self.conv2d(item, form, *layouts) if item.op == "nn.conv2d" else self.pool2d(item, form)

    def conv2d(self, item: OpNode, form: str, data_layout: str, kernel_layout: str) -> bool:
        data, weight = item.inputs
        attrs = dict(item.attrs)
        own = attrs["kernel_layout"]
        groups, channels = attrs["groups"], data.shape[attrs["data_layout"].index("C")]
        filters = item.output.shape[attrs["data_layout"].index("C")]
        depthwise = groups != 1 and groups == channels == filters
        layout = Layout.parse(data_layout)
        if layout.is_plain:
            if kernel_layout == "default":
                kernel_layout = default_kernel(data_layout, groups != 1 and weight.shape[own.index("I")] == 1)
            attrs |= {"data_layout": data_layout, "kernel_layout": kernel_layout}
            kernel = self.kernel(weight, own, kernel_layout)
            return self.give(item, form, self.b.op(item.op, self.form(data, form), kernel, **attrs))
        if groups != 1 and not depthwise:
            return False
        attrs = {key: attrs[key] for key in ("strides", "padding", "dilation", "out_dtype")}
        block = layout.block("C")
        if depthwise:
            split = self.kernel(weight, own, f"OIHW{block}o")
            kernel, op = self.b.op("squeeze", split, axis=1), "nn.contrib_depthwise_conv2d_NCHWc"
        else:
            kernel, op = self.kernel(weight, own, f"OIHW{block}i{block}o"), "nn.contrib_conv2d_NCHWc"
        return self.give(item, form, self.b.op(op, self.form(data, form), kernel, **attrs))

    def kernel(self, weight: Value, own: str, layout: str) -> Value:
        """Filters in a layout, converted once even if several operators read them; constants are converted at once."""
        if own == layout:
            return self.as_plain(weight)
        if (weight, own, layout) not in self.kernels:
            if weight in self.arrays:
                kernel = self.b.constant(transformed(self.arrays[weight], own, layout), weight.name)
            else:
                kernel = self.b.op("layout_transform", self.as_plain(weight), src_layout=own, dst_layout=layout)
            self.kernels[weight, own, layout] = kernel
        return self.kernels[weight, own, layout]

    def pool2d(self, item: OpNode, form: str) -> bool:
        own = item.attrs["layout"]
        layout = Layout.parse(_renamed(form, ORIGINAL, own))
        data, attrs = self.form(item.inputs[0], form), {**item.attrs, "layout": str(layout)}
        if layout.is_plain:
            return self.give(item, form, self.b.op(item.op, data, **attrs))
        if str(layout) != f"NCHW{layout.block('C')}c":
            return False
        # On blocks it is a pool over three dimensions whose window is 1 along the last.
        before, after = paddings(attrs["padding"], 2)
        del attrs["layout"]
        attrs["padding"] = (*before, 0, *after, 0)
        for name in ("pool_size", "strides", "dilation"):
            attrs[name] = (*per_axis(attrs[name], 2, name), 1)
        return self.give(item, form, self.b.op(item.op.replace("2d", "3d"), data, **attrs))

    # -- operators that follow their operands

    def followed(self, item: OpNode) -> bool:
        form = self.layout_of(item.inputs)
        if form is None or len(item.outputs) != 1:
            return False
        letters = next((self.letters[v] for v in item.inputs if v in self.letters), ORIGINAL)
        if item.op in _FOLLOWERS:
            done = _FOLLOWERS[item.op](self, item, form)
        else:
            operator = get(item.op)
            done = operator.is_map and self.elementwise(item, form)
        if done:
            self.letters[item.output] = letters
        return done

    def elementwise(self, item: OpNode, form: str) -> bool:
        if not self.fits(item.output, form):
            return False
        if not all(self.broadcasts(value, item.output, form) for value in item.inputs):
            return False
        inputs = [self.operand(value, item.output, form) for value in item.inputs]
        return self.give(item, form, self.b.op(item.op, *inputs, **item.attrs))

    def broadcasts(self, value: Value, output: Value, form: str) -> bool:
        """Whether an operand has a form that broadcasts to `output` in that layout."""
        if value.ndim == 0 or all(map(is_one, value.shape)):
            return True
        if value.ndim > len(ORIGINAL):
            return False
        return value in self.arrays or Layout.parse(form).is_plain or value.shape == output.shape

    def operand(self, value: Value, output: Value, form: str) -> Value:
        if value.ndim == 0:
            return self.as_plain(value)
        if value.ndim == len(ORIGINAL) and value.shape == output.shape:
            return self.form(value, form)
        whole = (1,) * (len(ORIGINAL) - value.ndim) + tuple(value.shape)
        if value in self.arrays:
            array = self.arrays[value]
            return self.b.constant(_spread(array.reshape((1,) * (len(ORIGINAL) - array.ndim) + array.shape), form))
        if value.ndim == len(ORIGINAL) and Layout.parse(form).is_plain:
            return self.form(value, form)
        full = self.b.op("reshape", self.as_plain(value), newshape=whole, allowzero=True)
        if all(map(is_one, value.shape)):
            return self.b.op("reshape", full, newshape=())
        moved: Value = self.b.op("layout_transform", full, src_layout=ORIGINAL, dst_layout=form)
        return moved

    def along_axis(self, item: OpNode, form: str) -> bool:
        """Operators with one axis of their data by number, and parameters along it."""
        layout, data = Layout.parse(form), item.inputs[0]
        if not layout.is_plain or data.ndim != len(ORIGINAL) or item.output.ndim != data.ndim:
            return False
        if len(item.inputs) > 1 and any(v.ndim > 1 for v in item.inputs[1:]):
            return False
        attrs = {**item.attrs, "axis": form.index(ORIGINAL[item.attrs["axis"] % data.ndim])}
        inputs = [self.form(data, form), *map(self.as_plain, item.inputs[1:])]
        return self.give(item, form, self.b.op(item.op, *inputs, **attrs))

    def bias_add(self, item: OpNode, form: str) -> bool:
        data, bias = item.inputs
        if bias not in self.arrays or Layout.parse(form).is_plain:
            return self.along_axis(item, form)
        shape = [1] * data.ndim
        shape[item.attrs["axis"] % data.ndim] = -1
        spread = self.b.constant(_spread(self.arrays[bias].reshape(shape), form))
        return self.give(item, form, self.b.op("add", self.form(data, form), spread))

    def concatenate(self, item: OpNode, form: str) -> bool:
        letter = ORIGINAL[item.attrs["axis"] % len(ORIGINAL)]
        if item.output.ndim != len(ORIGINAL) or not all(self.fits(v, form) for v in item.inputs):
            return False
        axis = Layout.parse(form).axes.index((letter, 0))
        return self.give(item, form, self.b.op(item.op, *(self.form(v, form) for v in item.inputs), axis=axis))

    def reduce(self, item: OpNode, form: str) -> bool:
        """A reduction over axes that are not split into blocks. If axes are dropped, the remaining order must fit."""
        data, attrs = item.inputs[0], dict(item.attrs)
        axis = attrs["axis"]
        axes = range(data.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        gone = {ORIGINAL[a % data.ndim] for a in axes}
        layout = Layout.parse(form)
        attrs["axis"] = _whole_axes(layout, sorted(gone, key=ORIGINAL.index))
        if attrs.get("exclude") or attrs["axis"] is None:
            return False
        if attrs["keepdims"]:
            return self.give(item, form, self.b.op(item.op, self.form(data, form), **attrs))
        left = [letter for letter in ORIGINAL if letter not in gone]
        if not layout.is_plain or [letter for letter in form if letter not in gone] != left:
            return False
        return self.give(item, ORIGINAL, self.b.op(item.op, self.form(data, form), name=item.output.name, **attrs))

    def global_pool(self, item: OpNode, form: str) -> bool:
        axes = _whole_axes(Layout.parse(form), ORIGINAL[2:])
        if item.inputs[0].ndim != len(ORIGINAL) or axes is None:
            return False
        op = {"nn.global_avg_pool": "mean", "nn.global_max_pool": "max"}[item.op]
        return self.give(item, form, self.b.op(op, self.form(item.inputs[0], form), axis=axes, keepdims=True))

    def pad(self, item: OpNode, form: str) -> bool:
        if len(item.inputs) != 1 or not Layout.parse(form).is_plain:
            return False
        width = tuple(item.attrs["pad_width"][ORIGINAL.index(letter)] for letter in form)
        attrs = {**item.attrs, "pad_width": width}
        return self.give(item, form, self.b.op(item.op, self.form(item.inputs[0], form), **attrs))

    def quantize(self, item: OpNode, form: str) -> bool:
        if any(v.shape not in ((), (1,)) for v in item.inputs[1:]):
            return self.along_axis(item, form)
        return self.of_data(item, form)

    def of_data(self, item: OpNode, form: str) -> bool:
        """An operator whose result is element by element that of its first input; the others have no axis of it."""
        inputs = [self.form(item.inputs[0], form), *map(self.as_plain, item.inputs[1:])]
        return self.give(item, form, self.b.op(item.op, *inputs, **item.attrs))


Follow = Callable[[_Conversion, OpNode, str], bool]
_FOLLOWERS: Mapping[str, Follow] = {
    "nn.max_pool2d": _Conversion.pool2d, "nn.avg_pool2d": _Conversion.pool2d,
    "nn.global_avg_pool": _Conversion.global_pool, "nn.global_max_pool": _Conversion.global_pool,
    "nn.bias_add": _Conversion.bias_add, "concatenate": _Conversion.concatenate, "nn.pad": _Conversion.pad,
    "qnn.quantize": _Conversion.quantize, "qnn.dequantize": _Conversion.quantize,
    "qnn.lookup": _Conversion.of_data,
    **dict.fromkeys(("nn.batch_norm", "nn.prelu", "nn.softmax", "nn.log_softmax"), _Conversion.along_axis),
    **dict.fromkeys(("sum", "mean", "max", "min"), _Conversion.reduce),
}  # fmt: skip


def layout_shape(shape: Sequence[Any], layout: str) -> tuple[Any, ...]:
    """The shape in a layout of a value of the original `shape`."""
    parsed = Layout.parse(layout)
    extent = dict(zip(ORIGINAL, shape, strict=True))
    return tuple(block or _quotient(extent[letter], parsed.block(letter)) for letter, block in parsed.axes)


def _whole_axes(layout: Layout, letters: Sequence[str]) -> tuple[int, ...] | None:
    """Where the axes of these letters stand in a layout; None where one of them is split into blocks."""
    if any(layout.block(letter) > 1 for letter in letters):
        return None
    return tuple(layout.axes.index((letter, 0)) for letter in letters)


def _quotient(extent: Any, block: int) -> Any:
    return extent if block == 1 else extent // block


def _in_order(shape: Sequence[Any], layout: str) -> str:
    """The axes that are longer than 1 in their order in memory; a block right behind its axis is one with it."""
    letters = [
        letter
        for (letter, _), n in zip(Layout.parse(layout).axes, layout_shape(shape, layout), strict=True)
        if not is_one(n)
    ]
    return "".join(letter for k, letter in enumerate(letters) if k == 0 or letters[k - 1] != letter)


def _renamed(layout: str, letters: str, to: str) -> str:
    """The layout with its axes called by other letters."""
    return layout.translate(str.maketrans(letters + letters.lower(), to + to.lower()))


def _spread(array: np.ndarray, layout: str) -> np.ndarray:
    """An array of four axes, each whole or 1, so that it broadcasts to that layout."""
    parsed = Layout.parse(layout)
    short = {letter for letter, n in zip(ORIGINAL, array.shape, strict=True) if n == 1}
    target = "".join(
        letter if not block else f"{block}{letter.lower()}"
        for letter, block in parsed.axes
        if not (block and letter in short)
    )
    spread = transformed(array, ORIGINAL, target)
    ones = [k for k, (letter, block) in enumerate(parsed.axes) if block and letter in short]
    return np.expand_dims(spread, ones) if ones else spread
