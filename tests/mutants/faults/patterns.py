"""Faults in passes over graphs where a pattern only looks like the one that is rewritten."""

from minitvm.graph.passes.common_subexpressions import common_subexpressions
from minitvm.graph.passes.fold_batch_norm import fold_batch_norm
from minitvm.graph.passes.simplify import simplify
from tests.graph.test_passes import batch_norm_stays

from .. import moves  # noqa: F401  (its moves are named below)
from ..patch import Faults
from ..streams import by_hand
from ..workloads import graphs
from .graph import in_blocks

TWINS = graphs(common_subexpressions, "common_subexpressions", ("twin_constants", "twin_constants"))
NORMS = graphs(fold_batch_norm, "fold_batch_norm", ("scaled_product", "scaled_product", "unary"))
SHAPES = graphs(simplify, "simplify", ("ones", "moved_pad", "reshape"))
BLOCKS = graphs(in_blocks, "blocked_layout", ("scaled_product", "pool", "concatenate"))

SIMPLIFY = Faults("pattern: simplify", "minitvm.graph.passes.simplify", [SHAPES])
SIMPLIFY.edit(
    "a pad that crops as much as it adds is dropped",
    "_keeps_form",
    'if item.op == "nn.pad" and any(not is_zero(amount) for pair in item.attrs["pad_width"] for amount in pair):',
    "if False:",
)
SIMPLIFY.edit(
    "times one is dropped where the one broadcasts",
    "RULES",
    "_all(1), when=_keeps_shape)",
    "_all(1))",
)

REWRITE = Faults("pattern: rewrite", "minitvm.graph.rewrite", [SHAPES])
REWRITE.edit(
    "a new value in the place of a new value is not followed",
    "Rewriter.now",
    "while value in self.instead:",
    "if value in self.instead:",
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
    "a bias along another axis is folded",
    "_folded",
    'if biased.attrs["axis"] % biased.output.ndim != axis:',
    "if False:",
    by=[by_hand("biases of columns", lambda: batch_norm_stays(axis=-1))],
)
FOLD_BATCH_NORM.edit(
    "a bias in front of the batch norm is lost",
    "_folded",
    'bias = match.array("bias").astype(np.float64)',
    "bias = 0 * bias",
    by=[graphs(fold_batch_norm, "fold_batch_norm", ("convolution_chain",))],
)
READERS = Faults("pattern: readers", "minitvm.graph.pattern", [NORMS])
READERS.edit(
    "a convolution with a second reader is scaled with the batch norm behind it",
    "GraphFacts.only_reader",
    "len(readers) == 1",
    "len(readers) >= 1",
)
FOLD_BATCH_NORM.edit(
    "grouped transposed convolutions are scaled by the wrong channels",
    "_foldable",
    'if "transpose" in product.op and product.attrs["groups"] != 1:',
    "if False:",
    by=[by_hand("transposed groups", lambda: batch_norm_stays(groups=2))],
)

BLOCKED_LAYOUT = Faults("pattern: blocked_layout", "minitvm.machines.simd.graph.blocked_layout", [BLOCKS])
BLOCKED_LAYOUT.edit(
    "a bias along another axis is added to the channels",
    "Blocking.bias_add",
    'or item.attrs["axis"] != 1 or not',
    "or not",
)
