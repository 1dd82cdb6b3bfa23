"""Faults in the tensor expressions of operators: windows, groups, ties, halves, the dtype of a sum."""

from ..patch import Faults
from ..siblings import called, imported

TE_POOL = Faults("topi pool", "minitvm.topi.pool", [imported("pool")])
TE_POOL.edit(
    "with ceil_mode a window may begin right behind the input",
    "Windows._count",
    "(self.before[axis] + s - 1)) // s)",
    "(self.before[axis] + s)) // s)",
)
TE_POOL.edit(
    "dilated windows count a tap in the padding",
    "Windows._counted",
    "te.maximum((low - start + (l - 1)) // l, 0)",
    "te.maximum((low - start) // l, 0)",
)

TE_SHAPES = Faults("topi shapes", "minitvm.topi.shapes", [])
TE_SHAPES.edit(
    "paddings are read as pairs",
    "paddings",
    "return amounts[:count], amounts[count:]",
    "return amounts[::2], amounts[1::2]",
    by=[imported("conv")],
)
TE_SHAPES.edit(
    "axes are reduced in the order given",
    "axes_of",
    "return tuple(sorted(axes))",
    "return tuple(axes)",
    by=[imported("reduce", "arg")],
)

TE_CONV = Faults("topi conv", "minitvm.topi.conv", [imported("conv", "conv_integer")])
TE_CONV.edit(
    "products of a convolution wrap before they are summed",
    "_conv",
    "factor(x, dtype) * factor(w, dtype)",
    "(x * w).astype(dtype)",
)
TE_CONV.edit(
    "filters go round the groups",
    "_conv",
    "ff // filters_a_group * group_channels + rc.var",
    "ff % groups * group_channels + rc.var",
)

TE_CONV_TRANSPOSE = Faults("topi conv_transpose", "minitvm.topi.conv_transpose", [imported("conv_transpose")])
TE_CONV_TRANSPOSE.edit(
    "a transposed convolution is cut alike on both sides",
    "_conv_transpose",
    "simple((d - 1) * s + r + 1 + e - b - a)",
    "simple((d - 1) * s + r + 1 + e - 2 * b)",
)

TE_CUMULATIVE = Faults("topi cumulative", "minitvm.topi.cumulative", [imported("cumulative")])
TE_CUMULATIVE.edit(
    "an exclusive running sum from the end includes its element",
    "cumsum",
    "axis, exclusive, reverse)",
    "axis, exclusive and not reverse, reverse)",
)

TE_RECURRENT = Faults("topi recurrent", "minitvm.topi.recurrent", [imported("recurrent")])
TE_RECURRENT.edit(
    "the output gate sees the old memory",
    "lstm",
    "gate(1, b, j, new) * act(new[b, j])",
    "gate(1, b, j, c) * act(new[b, j])",
)
TE_RECURRENT.edit(
    "the reset gate multiplies what was multiplied already",
    "gru",
    "if late:",
    "if not late:",
)
TE_RECURRENT.edit(
    "what goes into the output's function is limited as the gates are",
    "_functions",
    "clip if n < gates else 0.0",
    "clip",
)
TE_OVER_TIME = Faults("topi over_time", "minitvm.topi.over_time", [called("recurrent")])
TE_OVER_TIME.edit(
    "both directions begin at the first step",
    "_RowGroup._time",
    "self.way == const(0, self.way.dtype)",
    "self.way >= const(0, self.way.dtype)",
)
TE_OVER_TIME.edit(
    "a row goes on with what comes behind its end",
    "TimeStep.next_state",
    "self.unless_over(b, value(b, j), old[b, j])",
    "value(b, j)",
)
TE_OVER_TIME.edit(
    "a row without steps ends as it began",
    "_RowGroup.unless_empty",
    'length > const(0, "int64")',
    'length >= const(0, "int64")',
)
TE_OVER_TIME.edit(
    "the last rows of an open batch are those of the first groups",
    "_groups",
    "yield batch - batch % before, batch",
    "yield 0, batch",
)

TE_REDUCE = Faults("topi reduce", "minitvm.topi.reduce", [imported("reduce", "arg")])
TE_REDUCE.edit(
    "the mean of negative integers rounds down",
    "mean",
    "te.truncdiv(v, count)",
    "v // count",
)

TE_GATHER = Faults("topi gather", "minitvm.topi.gather", [])
TE_GATHER.edit(
    "points behind batch axes are held against the batch's extents",
    "gather_nd",
    "dims(data)[batch_dims + k])",
    "dims(data)[k])",
    by=[imported("gather_nd")],
)

TE_SORT = Faults("topi sort", "minitvm.topi.sort", [called("sort")])
TE_SORT.edit(
    "in a heap, the last of equals comes first",
    "_heap",
    "te.all(~strictly(b, a), i < j)",
    "te.all(~strictly(b, a), i > j)",
)
TE_SORT.edit("sorted upwards as downwards", "strictly_before", "if ascending else greater", "if False else greater")

TE_SORT.edit("digits of keys lack a bit", "_by_digits", "(shifted & (buckets - 1))", "(shifted & (buckets - 2))")

TE_KEYS = Faults("topi sort_keys", "minitvm.topi.sort_keys", [called("sort")])
TE_KEYS.edit("negative floats upside down", "_key_of_float", "-magnitude, bits)", "bits, bits)")
TE_KEYS.edit("not a number is less than infinity", "_key_of_float", "tir.max_value(kind), key)", "const(0, kind), key)")
TE_KEYS.edit("places are forgotten", "placed_key", "as_expr(place)", "as_expr(0 * place)")

TE_LANES = Faults("topi sort_lanes", "minitvm.topi.sort_lanes", [called("sort")])
TE_LANES.edit("a round too few", "merge_exchange", "max(extent - 1, 1).bit", "(max(extent - 1, 1) // 2).bit")
TE_LANES.edit(
    "the wrong elements are exchanged",
    "merge_exchange",
    "as_expr(0), as_expr(0), step(a)",
    "as_expr(0), step(a), step(a)",
)

TE_SCATTER = Faults("topi scatter", "minitvm.topi.scatter", [])
TE_SCATTER.edit(
    "rows of updates out of range are written",
    "_by_rows",
    "If(inside, BufferStore(y, combined(y[target], news[point]), target))",
    "BufferStore(y, combined(y[target], news[point]), target)",
    by=[called("index")],
)
TE_SCATTER.edit(
    "updates of slices out of range are written at the end",
    "scatter_nd",
    "If(te.all(*tests), body) if tests else body",
    "body",
    by=[called("index")],
)

TE_QUANTIZE = Faults("topi quantize", "minitvm.topi.quantize", [imported("quantize")])
TE_QUANTIZE.edit(
    "halves are quantized away from zero",
    "quantize",
    "rounded = te.nearbyint(",
    "rounded = te.round(",
)

TE_RESIZE = Faults("topi resize", "minitvm.topi.resize", [imported("resize")])
TE_RESIZE.edit("a picture ends an element later", "_guarded", "at <= _f64(extent) - 1.0", "at < _f64(extent)")
TE_RESIZE.edit(
    "nearest neighbours repeat in every coordinate mode",
    "_nearest",
    'mode in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")',
    'rounding.startswith("round")',
)

TE_ELEMENTWISE = Faults("topi elementwise", "minitvm.topi.elementwise", [imported("elementwise")])
TE_ELEMENTWISE.edit(
    "shrink takes its limit in",
    "shrink",
    "te.select(v > limit, v - b, zero)",
    "te.select(v >= limit, v - b, zero)",
)
