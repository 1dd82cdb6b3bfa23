"""Faults in passes over graphs where a pattern only looks like the one that is rewritten."""

from minitvm.graph.passes.common_subexpressions import common_subexpressions
from minitvm.graph.passes.fold_batch_norm import fold_batch_norm
from minitvm.graph.passes.simplify import simplify

from .. import moves  # noqa: F401  (its moves are named below)
from ..patch import Faults
from ..workloads import graphs
from .graph import in_blocks

TWINS = graphs(common_subexpressions, "common_subexpressions", ("twin_constants", "twin_constants"))
NORMS = graphs(fold_batch_norm, "fold_batch_norm", ("scaled_product", "scaled_product", "unary"))
SHAPES = graphs(simplify, "simplify", ("ones", "moved_pad", "reshape"))
BLOCKS = graphs(in_blocks, "blocked_layout", ("scaled_product", "pool", "concatenate"))

SIMPLIFY = Faults("pattern: simplify", "minitvm.graph.passes.simplify", [SHAPES])
SIMPLIFY.edit(
    "a pad that crops as much as it adds is dropped",
    "same_form",
    'if item.op == "nn.pad" and any(not is_zero(amount) for pair in item.attrs["pad_width"] for amount in pair):',
    "if False:",
)
SIMPLIFY.edit(
    "times one is dropped where the one broadcasts",
    "times_one",
    "return item.inputs[0] if same_shape(item.inputs[0].shape, item.output.shape) else None",
    "return item.inputs[0]",
)

REBUILD = Faults("pattern: rebuild", "minitvm.graph.passes.rebuild", [])
REBUILD.edit(
    "a stand-in of a stand-in is not followed",
    "rebuild",
    "while value in stand_in:",
    "if value in stand_in:",
    by=[SHAPES],
)

KEYS = Faults("pattern: common subexpressions", "minitvm.graph.passes.common_subexpressions", [])
KEYS.edit(
    "constants of two dtypes with equal bytes are one",
    "_key",
    "return (value.dtype.name, value.shape, value.tobytes())",
    "return (value.shape, value.tobytes())",
    by=[TWINS],
)
KEYS.edit(
    "constants of two shapes with equal bytes are one",
    "_key",
    "return (value.dtype.name, value.shape, value.tobytes())",
    "return (value.dtype.name, value.tobytes())",
    by=[TWINS],
)

FOLD_BATCH_NORM = Faults("pattern: fold_batch_norm", "minitvm.graph.passes.fold_batch_norm", [NORMS])
FOLD_BATCH_NORM.edit(
    "a convolution that the graph returns is scaled with the batch norm behind it",
    "fold_batch_norm",
    "return len(consumers.get(value, [])) == 1 and value not in outputs",
    "return len(consumers.get(value, [])) == 1",
)
FOLD_BATCH_NORM.edit(
    "a convolution with a second reader is scaled with the batch norm behind it",
    "fold_batch_norm",
    "return len(consumers.get(value, [])) == 1 and value not in outputs",
    "return value not in outputs",
)
FOLD_BATCH_NORM.edit(
    "a bias along another axis is folded",
    "fold_batch_norm",
    'if product.attrs["axis"] % data.ndim == axis:',
    "if True:",
)
FOLD_BATCH_NORM.edit(
    "grouped transposed convolutions are scaled by the wrong channels",
    "_foldable",
    'if "transpose" in product.op and product.attrs["groups"] != 1:',
    "if False:",
)

BLOCKED_LAYOUT = Faults("pattern: blocked_layout", "minitvm.machines.simd.graph.blocked_layout", [BLOCKS])
BLOCKED_LAYOUT.edit(
    "a bias along another axis is added to the channels",
    "Blocking.bias_add",
    'or item.attrs["axis"] != 1 or not',
    "or not",
)
