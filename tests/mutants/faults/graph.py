"""Faults in the graph's passes."""

from minitvm.graph.passes.blocked_layout import blocked_layout
from minitvm.graph.passes.common_subexpressions import common_subexpressions
from minitvm.graph.passes.constant_folding import constant_folding
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.fold_batch_norm import fold_batch_norm
from minitvm.graph.passes.fuse import fuse
from minitvm.graph.passes.simplify import simplify

from ..patch import Faults
from ..workloads import graphs

PASSES = "minitvm.graph.passes."

SIMPLIFY = Faults("graph simplify", PASSES + "simplify", [
    graphs(simplify, "simplify shapes", ("transpose", "transpose", "reshape", "new_axis", "pad", "repeat", "cast")),
    graphs(simplify, "simplify (all)"),
])  # fmt: skip
SIMPLIFY.edit(
    "two transposes in the wrong order",
    "double_transpose",
    "tuple(first[a] for a in _order(item))",
    "tuple(_order(item)[a] for a in first)",
)
SIMPLIFY.edit(
    "a slice with a step is none",
    "same_form",
    "any(step != 1 for step",
    "False and any(step != 1 for step",
    by=[graphs(simplify, "simplify", ("slice", "slice", "reshape"))],
)
FUSE = Faults(
    "graph fuse",
    PASSES + "fuse",
    [
        graphs(fuse, "fuse", ("arithmetic", "arithmetic", "unary", "conv2d", "reduction", "transpose")),
        graphs(fuse, "fuse (all)"),
    ],
)
FUSE.edit(
    "readers outside of the group",
    "_Fusion.may_join",
    "all(reader in group.members and",
    "any(reader in group.members and",
)
FUSE.edit("what the graph returns may disappear", "_Fusion.candidates", " or value in self.returned", "")
NORM = Faults(
    "graph fold_batch_norm",
    PASSES + "fold_batch_norm",
    [graphs(fold_batch_norm, "fold_batch_norm", ("conv2d", "normalisation", "normalisation"))],
)
COMMON = Faults(
    "graph common_subexpressions",
    PASSES + "common_subexpressions",
    [
        graphs(
            common_subexpressions,
            "common_subexpressions",
            ("arithmetic", "unary", "unary", "transpose", "clip", "reduction"),
        )
    ],
)
NORM.edit(
    "the shift is lost",
    "fold_batch_norm",
    "factor, offset = scale, beta - mean * scale",
    "factor, offset = scale, beta",
)
NORM.edit("multiplied by the deviation", "fold_batch_norm", "gamma / np.sqrt(", "gamma * np.sqrt(")
COMMON.edit(
    "attributes do not count",
    "common_subexpressions",
    "tuple(map(id, inputs)), canonical.key(item.attrs))",
    "tuple(map(id, inputs)))",
)
COMMON.edit(
    "only the first input counts",
    "common_subexpressions",
    "tuple(map(id, inputs)), canonical",
    "tuple(map(id, inputs[:1])), canonical",
)
FOLD = Faults("graph constant_folding", PASSES + "constant_folding", [graphs(constant_folding, "constant_folding")])
FOLD.edit(
    "operands in the wrong order",
    "_folded",
    "operator.fold(*given, **item.attrs)",
    "operator.fold(*given[::-1], **item.attrs)",
    by=[
        graphs(
            constant_folding, "constant_folding of arithmetic", ("arithmetic", "arithmetic", "reduction", "transpose")
        )
    ],
)
FOLD.edit(
    "what was folded is computed again from its inputs",
    "constant_folding",
    "arrays[value] = data",
    "arrays[value] = data * 2",
)
DEAD = Faults("graph dead_code", PASSES + "dead_code", [graphs(dead_code, "dead_code")])
DEAD.edit("only the last output counts", "dead_code", "set(graph.outputs)", "set(graph.outputs[-1:])")
DEAD.edit(
    "what a node reads is not needed", "dead_code", "needed.update(item.inputs)", "needed.update(item.inputs[:1])"
)
BLOCKED = Faults(
    "graph blocked_layout",
    PASSES + "blocked_layout",
    [
        graphs(
            lambda g: blocked_layout(g, 8),
            "blocked_layout",
            ("conv2d", "conv2d", "pool", "arithmetic", "concatenate", "dense"),
        )
    ],
)
BLOCKED.edit(
    "depthwise weights in another order",
    "_pack_depthwise",
    "weight.reshape(channels // block, block, kh, kw), 1, -1",
    "weight.reshape(block, channels // block, kh, kw).swapaxes(0, 1), 1, -1",
)
