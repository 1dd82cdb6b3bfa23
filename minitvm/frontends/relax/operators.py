"""Relax's operators and those of minitvm: one table, read in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...graph.nodes import OpNode
from ...topi import registry

VARIADIC = "*"


@dataclass(frozen=True, slots=True)
class Row:
    """An operator of Relax that has an equivalent.

    `tensors` are the names of its tensor parameters ("*": one tuple of tensors), and `attrs` maps its other parameters
    to our attributes. `fixed` are our attributes for which Relax has no parameter, with their only value. `without` are
    parameters of Relax that we do not have, with the values that are accepted. Parameters in `lists` are lists of
    numbers, and those in `shapes` are shapes.
    """

    relax: str
    ours: str
    tensors: tuple[str, ...] = ("x",)
    attrs: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    floats: bool = False

    @property
    def parameters(self) -> list[str]:
        """Relax's parameters, in order."""
        return [*self.tensors, *self.attrs, *self.without]

    def fits(self, item: OpNode) -> bool:
        """Return whether a node of our operator can be written as this operator."""
        if any(item.attrs[name] != value for name, value in self.fixed.items()):
            return False
        if self.floats and not item.inputs[0].dtype.is_float:
            return False
        return self.tensors == (VARIADIC,) or len(item.inputs) == len(self.tensors)


_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "exp",
    "floor", "isfinite", "isinf", "isnan", "log", "logical_not", "negative", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_BINARY = (
    "add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "greater", "greater_equal", "left_shift",
    "less", "less_equal", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal",
    "power", "right_shift", "subtract",
)  # fmt: skip
_REDUCTIONS = ("max", "mean", "min", "prod", "sum")
_PAIR = {"strides": "strides", "padding": "padding", "dilation": "dilation"}
_NO_DTYPE = (None, "", "void")
_WINDOW = ("strides", "padding", "dilation", "pool_size")

ROWS = [
    *(Row(name, name) for name in _UNARY),
    *(Row(name, name, ("a", "b")) for name in _BINARY),
    Row("divide", "divide", ("a", "b"), floats=True),
    Row("floor_divide", "floor_divide", ("a", "b")),
    Row("floor_mod", "floor_mod", ("a", "b")),
    *(Row(name, name, attrs={"axis": "axis", "keepdims": "keepdims"}, lists=("axis",)) for name in _REDUCTIONS),
    Row("variance", "variance", attrs={"axis": "axis", "keepdims": "keepdims"}, fixed={"unbiased": False},
        lists=("axis",)),
    *(Row(name, name, attrs={"axis": "axis", "keepdims": "keepdims"},
          fixed={"select_last_index": False, "dtype": "int64"}) for name in ("argmax", "argmin")),
    Row("nn.relu", "nn.relu"),
    Row("nn.silu", "nn.silu"),
    Row("nn.gelu", "nn.gelu", fixed={"approximate": "none"}),
    Row("nn.gelu_tanh", "nn.gelu", fixed={"approximate": "tanh"}),
    Row("nn.leakyrelu", "nn.leaky_relu", attrs={"alpha": "alpha"}),
    Row("nn.softmax", "nn.softmax", attrs={"axis": "axis"}),
    Row("nn.log_softmax", "nn.log_softmax", attrs={"axis": "axis"}),
    Row("nn.batch_flatten", "nn.batch_flatten"),
    Row("matmul", "nn.matmul", ("a", "b"), fixed={"transpose_a": False, "transpose_b": False, "out_dtype": ""},
        without={"out_dtype": _NO_DTYPE}),
    Row("nn.conv2d", "nn.conv2d", ("data", "weight"),
        {**_PAIR, "groups": "groups", "data_layout": "data_layout", "kernel_layout": "kernel_layout"},
        {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_dtype": ""},
        {"out_layout": (None, "NCHW"), "out_dtype": _NO_DTYPE}, lists=_WINDOW),
    Row("nn.conv1d", "nn.conv1d", ("data", "weight"), {**_PAIR, "groups": "groups"}, {"out_dtype": ""},
        {"data_layout": ("NCW",), "kernel_layout": ("OIW",), "out_layout": (None, "NCW"), "out_dtype": _NO_DTYPE},
        lists=_WINDOW),
    Row("nn.max_pool2d", "nn.max_pool2d", ("data",), {"pool_size": "pool_size", **_PAIR, "ceil_mode": "ceil_mode"},
        {"layout": "NCHW"}, {"count_include_pad": (False,), "layout": ("NCHW",), "out_layout": (None, "NCHW")},
        lists=_WINDOW),
    Row("nn.avg_pool2d", "nn.avg_pool2d", ("data",),
        {"pool_size": "pool_size", **_PAIR, "ceil_mode": "ceil_mode", "count_include_pad": "count_include_pad"},
        {"layout": "NCHW"}, {"layout": ("NCHW",), "out_layout": (None, "NCHW")}, lists=_WINDOW),
    Row("nn.layer_norm", "nn.layer_norm", ("data", "gamma", "beta"), {"axes": "axis", "epsilon": "epsilon"},
        {"axis": -1}, {"center": (True,), "scale": (True,)}, lists=("axes",)),
    Row("concat", "concatenate", (VARIADIC,), {"axis": "axis"}),
    Row("stack", "stack", (VARIADIC,), {"axis": "axis"}),
    Row("split", "split", attrs={"indices_or_sections": "indices_or_sections", "axis": "axis"}),
    Row("permute_dims", "transpose", attrs={"axes": "axes"}, lists=("axes",)),
    Row("reshape", "reshape", attrs={"shape": "newshape"}, shapes=("shape",)),
    Row("broadcast_to", "broadcast_to", attrs={"shape": "shape"}, shapes=("shape",)),
    Row("expand_dims", "expand_dims", attrs={"axis": "axis"}, fixed={"num_newaxis": 1}, lists=("axis",)),
    Row("squeeze", "squeeze", attrs={"axis": "axis"}, lists=("axis",)),
    Row("astype", "cast", attrs={"dtype": "dtype"}),
    Row("clip", "clip", attrs={"min": "a_min", "max": "a_max"}),
    Row("where", "where", ("condition", "x", "y")),
    Row("take", "take", ("x", "indices"), {"axis": "axis"}, without={"mode": ("fast", "clip")}),
    Row("strided_slice", "strided_slice",
        attrs={"axes": "axes", "begin": "begin", "end": "end", "strides": "strides"},
        without={"assume_inbound": (False,)}, lists=("axes", "begin", "end", "strides")),
    Row("tile", "tile", attrs={"repeats": "reps"}, lists=("repeats",)),
    Row("triu", "trilu", attrs={"k": "k"}, fixed={"upper": True}),
    Row("tril", "trilu", attrs={"k": "k"}, fixed={"upper": False}),
]  # fmt: skip

READ = {row.relax: row for row in ROWS}
_WRITE: dict[str, list[Row]] = {}
for _row in ROWS:
    _WRITE.setdefault(_row.ours, []).append(_row)

# Operators that are written with several of ours, or with a special form: see `parser`.
SPECIAL = (
    "call_tir", "call_dps_packed", "const", "func_attr", "match_cast", "output", "dataflow", "shape", "tuple",
    "prim_value", "flatten", "zeros", "ones", "full", "square", "nn.relu6", "nn.adaptive_avg_pool2d", "nn.batch_norm",
    "nn.dropout", "dtype",
)  # fmt: skip


def names() -> list[str]:
    """Return the names of all operators and forms that the parser reads."""
    return sorted({*READ, *SPECIAL})


def row_of(item: OpNode) -> Row | None:
    """Return the operator of Relax that a node can be written as, or None."""
    return next((row for row in _WRITE.get(item.op, ()) if row.fits(item)), None)


def our_attrs(row: Row, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return our attributes for the arguments of a call. Raises `ValueError` for a value that we do not have."""
    attrs = dict(row.fixed)
    for name, value in arguments.items():
        if name in row.without and name not in row.attrs:
            if value not in row.without[name]:
                raise ValueError(f"{name}={value!r}; wanted {' or '.join(map(repr, row.without[name]))}")
            continue
        ours = row.attrs[name]
        converted = _ours(row, name, value)
        if ours in row.fixed and converted != row.fixed[ours]:
            raise ValueError(f"{name}={value!r}; wanted {row.fixed[ours]!r}")
        attrs[ours] = converted
    declared = registry.get(row.ours).attrs
    return {name: value for name, value in attrs.items() if name in declared}


def _ours(row: Row, name: str, value: Any) -> Any:
    """Return an argument in the form of our attribute."""
    single = isinstance(value, tuple | list) and len(value) == 1
    if name in row.lists and single and row.ours in ("nn.layer_norm", "expand_dims"):
        return value[0]
    return value
