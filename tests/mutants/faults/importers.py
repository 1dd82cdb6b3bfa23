"""Faults in the importer of ONNX: attributes that are overlooked, axes and ends that are mistaken."""

from tests.frontends.onnx.open_cases import difference
from tests.frontends.onnx.test_attribute_defaults import all_plain_defaults

from ..patch import Faults
from ..siblings import at_many_sizes, bounded, branches, by_data, imported
from ..streams import by_hand

WINDOWS = Faults("padding of windows", "minitvm.frontends.common.windows", [])
WINDOWS.edit(
    "auto_pad ignores the dilation",
    "same_padding",
    "((k - 1) * d + 1) - extent",
    "k - extent",
    by=[imported("conv")],
)

ONNX_CONVOLUTION = Faults("onnx convolution", "minitvm.frontends.onnx.ops.convolution", [])
ONNX_CONVOLUTION.edit(
    "output_shape ignores output_padding",
    "_transposed_padding",
    "(extent - 1) * s + e + (k - 1) * d + 1 - size",
    "(extent - 1) * s + (k - 1) * d + 1 - size",
    by=[imported("conv_transpose")],
)

ONNX_CONVOLUTION.edit(
    "an odd cut is larger behind",
    "_transposed_padding",
    'upper = mode == "SAME_UPPER"',
    'upper = mode != "SAME_LOWER"',
    by=[imported("conv_transpose", examples=400)],
)

DEFAULTS = Faults(
    "onnx defaults", "minitvm.frontends.onnx.ops.normalization", [by_hand("defaults of attributes", all_plain_defaults)]
)
DEFAULTS.edit("another default of LRN", "lrn", 'n.attr("beta", 0.75)', 'n.attr("beta", 0.5)')
DEFAULTS.edit("another axis of LpNormalization", "lp_normalization", 'n.attr("axis", -1)', 'n.attr("axis", 1)')

DECLARED = Faults("onnx declared", "minitvm.frontends.onnx.registry", [imported("elementwise")])
DECLARED.edit(
    "an attribute of a declared operator is taken for its default",
    "_attribute",
    "n.attr(name, default)",
    "[n.attr(name), default][1]",
)
DECLARED.edit(
    "a declaration does not replace the converter of earlier opsets",
    "find",
    "written[0] >= operator.onnx.since",
    "written[0] >= 0",
    by=[by_hand("defaults of attributes", all_plain_defaults)],
)

ONNX_ARITHMETIC = Faults("onnx arithmetic", "minitvm.frontends.onnx.ops.arithmetic", [imported("elementwise")])
ONNX_ARITHMETIC.edit(
    "a float exponent of an integer is cut off",
    "power",
    "if exponent.dtype.is_float:",
    "if False:",
)

ONNX_CREATION = Faults("onnx creation", "minitvm.frontends.onnx.ops.creation", [imported("one_hot")])
ONNX_CREATION.edit(
    "a negative axis of OneHot is counted without the new one",
    "one_hot",
    "axis = axis + indices.ndim + 1 if axis < 0 else axis",
    "axis = axis + indices.ndim if axis < -1 else axis",
)

ONNX_ELEMENTWISE = Faults("onnx elementwise", "minitvm.frontends.onnx.ops.elementwise", [imported("elementwise")])
ONNX_ELEMENTWISE.edit(
    "IsInf takes the other sign",
    "is_inf",
    '"greater" if up else "less"',
    '"less" if up else "greater"',
)

ONNX_INDEXING = Faults("onnx indexing", "minitvm.frontends.onnx.ops.indexing", [])
ONNX_INDEXING.edit(
    "pads of some axes are looked up by the axis",
    "_pad",
    "widths[a] = (pads[k], pads[len(axes) + k])",
    "widths[a] = (pads[a], pads[len(axes) + a])",
    by=[imported("pad")],
)
ONNX_INDEXING.edit(
    "an odd pad is larger in front",
    "center_crop_pad",
    "simple((size - kept) // 2)",
    "simple((size - kept + 1) // 2)",
    by=[imported("center")],
)

ONNX_NORMALIZATION = Faults("onnx normalization", "minitvm.frontends.onnx.ops.normalization", [imported("norm")])
ONNX_NORMALIZATION.edit(
    "running statistics keep 1 - momentum of the old",
    "_batch_norm_of_batch",
    'kept = n.op("multiply", old, momentum)',
    'kept = n.op("multiply", old, 1 - momentum)',
)
ONNX_NORMALIZATION.edit(
    "scales of groups are tiled over the channels",
    "group_norm_by_group",
    'n.op("repeat", n[k], repeats=channels // groups, axis=0)',
    'n.op("tile", n[k], reps=(channels // groups,))',
)

ONNX_QUANTIZATION = Faults("onnx quantization", "minitvm.frontends.onnx.ops.quantization", [])
ONNX_QUANTIZATION.edit(
    "scales of rows run along columns",
    "qlinear_matmul",
    "if by_row.ndim == 1 and product.ndim > 1:",
    "if False:",
    by=[imported("qlinear_matmul", examples=400)],
)
ONNX_QUANTIZATION.edit(
    "the range of a dynamic scale need not hold 0",
    "dynamically_quantized",
    'low = n.op("minimum", n.op("min", x), 0.0)',
    'low = n.op("min", x)',
    by=[imported("dynamic")],
)
BYTE_PRODUCTS = Faults("products of bytes", "minitvm.frontends.common.byte_products", [])
BYTE_PRODUCTS.edit(
    "bytes less their zero point stay bytes",
    "_shifted",
    'dtype = "int16" if x.dtype.bits == 8 else "int32"',
    'dtype = "int8" if x.dtype.bits == 8 else "int32"',
    by=[imported("matmul_integer")],
)

ONNX_RECURRENT = Faults("onnx recurrent", "minitvm.frontends.onnx.ops.recurrent", [imported("recurrent")])
ONNX_RECURRENT.edit(
    "both directions have the activations of the first",
    "functions_of",
    "functions[d * count : (d + 1) * count]",
    "functions[:count]",
)
ONNX_RECURRENT.edit(
    "alpha is given to functions without parameters too",
    "functions_of",
    "if k < len(own) else 0.0",
    "if k < len(own) else (given[k].pop(0) if given[k] else 0.0)",
)
ONNX_RECURRENT.edit(
    "the bias of the candidate is added in front of the reset gate too",
    "biases",
    "n.part(both, 1, columns, 2 * columns - apart), zeros",
    "n.part(both, 1, columns, 2 * columns - apart), n.part(both, 1, 2 * columns - apart, 2 * columns)",
)
ONNX_RECURRENT.edit(
    "with layout 1 initial states are taken as with layout 0",
    "initial",
    "if layout else states",
    "if False else states",
)

ONNX_RESIZING = Faults("onnx resizing", "minitvm.frontends.onnx.ops.resizing", [imported("resize")])
ONNX_RESIZING.edit(
    "sizes from scales are rounded",
    "_scaled",
    "return math.floor(np.float32(dim) * np.float32(scale))",
    "return round(dim * scale)",
)
OPEN_RESIZING = Faults(
    "open resizing", "minitvm.frontends.onnx.ops.open_resizing", [at_many_sizes("antialias", "ratio")]
)
OPEN_RESIZING.edit(
    "the nearest of two at the same distance is the second",
    "nearest_places",
    'n.op("greater", share, 0.5 + _TIE) if floor',
    'n.op("greater_equal", share, 0.5) if floor',
    by=[imported("resize")],
)
OPEN_RESIZING.edit(
    "a wide filter has as many taps as a narrow one",
    "interpolated",
    "simple(2 * widest + 2)",
    "2 * reach + 2",
)
OPEN_RESIZING.edit(
    "of a ratio kept, the filter is as wide as the other axis asks",
    "Ratio.reach",
    "larger if self.least else smaller",
    "smaller if self.least else larger",
)

ONNX_SAMPLING = Faults("onnx sampling", "minitvm.frontends.onnx.ops.sampling", [])
ONNX_SAMPLING.edit(
    "an ellipsis of fewer axes is aligned left",
    "einsum",
    "letters[longest - (x.ndim - len(t) + 3) :]",
    "letters[: x.ndim - len(t) + 3]",
    by=[imported("products")],
)

ONNX_SPECTRAL = Faults("onnx spectral", "minitvm.frontends.onnx.ops.spectral", [imported("stft")])
ONNX_SPECTRAL.edit(
    "the middle frequency of an even length counts twice",
    "_transformed",
    "simple((length + 1) // 2)",
    "simple(length // 2 + 1)",
    by=[imported("inverse_dft")],
)
ONNX_SPECTRAL.edit(
    "the last frame is lost",
    "stft",
    "stop=simple(samples - length + 1)",
    "stop=simple(samples - length)",
)

ONNX_REGIONS = Faults("onnx regions", "minitvm.frontends.onnx.ops.regions", [])
ONNX_REGIONS.edit(
    "samples lie at the edges of their part of a bin",
    "_of_samples",
    "(np.arange(count * samples) + 0.5) / (count * samples)",
    "np.arange(count * samples) / (count * samples)",
    by=[imported("roi_align")],
)
ONNX_REGIONS.edit(
    "a region with fewer samples than another counts the others'",
    "_of_each_its_samples",
    'n.op("less", position, count)',
    'n.op("less", position, n.op("maximum", count, 1e9))',
    by=[at_many_sizes("RoiAlign")],
)
ONNX_REGIONS.edit(
    "samples of a bin are numbered by columns",
    "_of_each_its_samples",
    'n.op("floor_divide", number, n.op("maximum", most[1], 1))',
    'n.op("floor_divide", number, n.op("maximum", most[0], 1))',
    by=[at_many_sizes("RoiAlign")],
)
ONNX_REGIONS.edit(
    "what lies far outside weighs",
    "_two_taps",
    "weighs = n.cast(inside, places.dtype)",
    "weighs = n.cast(n.op('logical_or', inside, True), places.dtype)",
    by=[imported("roi_align")],
)
ONNX_REGIONS.edit(
    "taps of a kernel count along the wrong axis",
    "deform_conv",
    "np.arange(taps) // kernel[1] if axis == 0 else np.arange(taps) % kernel[1]",
    "np.arange(taps) // kernel[0] if axis == 0 else np.arange(taps) % kernel[0]",
    by=[imported("deform_conv")],
)

ONNX_LINEAR_ALGEBRA = Faults("onnx linear algebra", "minitvm.frontends.onnx.ops.linear_algebra", [imported("det")])
ONNX_LINEAR_ALGEBRA.edit(
    "two rows that change places do not change the sign", "_pivoted", "n.op(\"where\", kept, one, -one)",
    "n.op(\"where\", kept, one, one)",
)  # fmt: skip

ONNX_POOLING = Faults("onnx pooling", "minitvm.frontends.onnx.ops.pooling", [imported("max_pool_with_places")])
ONNX_POOLING.edit(
    "the place in the picture, not in the tensor", "_places", "[size, *strides]", "[0, *strides]",
)  # fmt: skip
ONNX_POOLING.edit(
    "a tap outside is the first or the last element", "_PooledAxis.places",
    "n.op(\"minimum\", tap, most), least", "tap, -99",
)  # fmt: skip
ONNX_POOLING.edit(
    "what is larger than asked begins with zeros", "max_unpool", "(0, simple(size - own)) for size",
    "(simple(size - own), 0) for size", by=[imported("max_unpool")],
)  # fmt: skip

ONNX_CONTROL = Faults("onnx control", "minitvm.frontends.onnx.ops.control", [imported("scan")])
ONNX_CONTROL.edit(
    "what an iteration appends is turned around",
    "_extended",
    'n.op("stack", *rows, axis=1)',
    'n.op("stack", *rows[::-1], axis=1)',
    by=[at_many_sizes("loop that appends")],
)

ONNX_SEQUENCES = Faults(
    "onnx sequences", "minitvm.frontends.onnx.ops.sequences", [at_many_sizes("place", "entries", "parts")]
)
ONNX_SEQUENCES.edit("a place from the end is one", "_from_front", 'n.op("less", index, 0)', 'n.op("less", index, -99)')
ONNX_SEQUENCES.edit(
    "an inserted element takes the place of another",
    "sequence_insert",
    'n.op("subtract", number, 1))',
    "number)",
)
ONNX_SEQUENCES.edit(
    "the last part is as long as the others",
    "_entry_of",
    'n.op("minimum", left, n.number(size, ()))',
    "n.number(size, ())",
)
ONNX_SEQUENCES.edit(
    "the element behind a place that is cut is lost",
    "_divided",
    "smaller(larger(simple(place - begin), 0), length)",
    "smaller(larger(simple(place - begin), 1), length)",
)


def _shapes_with_a_0() -> None:
    for axis in (0, 1):
        assert difference(f"a shape with 0 where there are three rows, at {axis}") == ""


ONNX_SHAPING = Faults("onnx shaping", "minitvm.frontends.onnx.ops.shaping", [imported("split")])
ONNX_SHAPING.edit(
    "a 0 that sizes decide is an extent", "decided", "shape[k] = _instead(dim, 0, own[k])", "shape[k] = dim",
    by=[by_hand("shapes with a 0", _shapes_with_a_0)],
)  # fmt: skip
ONNX_SHAPING.edit(
    "a split that does not divide loses its rest",
    "_split",
    "simple((extent + (count - 1)) // count)",
    "simple(extent // count)",
)

ONNX_BRANCHES = Faults("branches", "minitvm.frontends.common.operand_builder", [branches()])
ONNX_BRANCHES.edit(
    "the sizes of the branch that is not taken",
    "_one_of",
    "match(as_expr(left), as_expr(right))",
    "match(as_expr(right), as_expr(left))",
)
ONNX_BRANCHES.edit(
    "a branch that is not taken checks its sizes",
    "OperandBuilder.branch",
    "self._under = condition if around is None else And(around, condition)",
    "self._under = around",
)
BRANCH_CASTS = Faults("casts in branches", "minitvm.frontends.common.matching", [branches()])
BRANCH_CASTS.edit(
    "a branch that is taken checks nothing",
    "match_cast",
    "Or(Not(under), condition_of(a, b))",
    "Or(under, condition_of(a, b))",
)

BOUNDS = Faults("bounds of numbers", "minitvm.frontends.common.bounds", [bounded()])
BOUNDS.edit(
    "a sum counts one number less", "_added_up", "product([_whole(high), count])", "product([_whole(high), count - 1])"
)
BOUNDS.edit("a minimum is bounded by either", "_largest", "total = max(total, end)", "total = min(total, end)")
BOUNDS.edit(
    "negative factors are as others",
    "_multiply",
    "if a is None or c is None or a < 0 or c < 0:",
    "if a is None or c is None:",
)
BOUNDS.edit("a difference is no more than the first", "_subtract", "None if c is None else -c", "0")
BOUNDS.edit("a quotient is that by the largest divisor", "_divide", "low, max(b / c, 0)", "low, max(b / (c + 1), 0)")
BOUNDS.edit("the other side of a choice does not count", "Computed._interval", "_ALL[item.op] :", "_ALL[item.op] : -1")

GROWING = Faults("carried values that grow", "minitvm.frontends.common.growing", [by_data("grown")])
GROWING.edit("one iteration may grow", "_after_many", "grows * iterations()", "grows")
GROWING.edit(
    "what grows begins empty", "_after_many", "total = begin if each.least is None", "total = 0 if each.least is None"
)

DATA_AXES = Faults("axes that are data", "minitvm.frontends.onnx.ops.data_axes", [])
DATA_AXES.edit("the last axis is not meant", "along_one", "reversed(range(last))", "reversed(range(1, last))",
               by=[by_data("moved", 200)])  # fmt: skip
DATA_AXES.edit("negative axes count from the front", "counted_from_front", 'n.op("add", whole, rank)',
               'n.op("negative", whole)', by=[by_data("reduced")])  # fmt: skip
