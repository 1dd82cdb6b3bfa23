"""Faults in the graph's passes."""

import numpy as np

from minitvm.compat.tvm.convert_layout import ConvertLayout
from minitvm.graph import Graph
from minitvm.graph.passes.common_subexpressions import common_subexpressions
from minitvm.graph.passes.constant_folding import constant_folding
from minitvm.graph.passes.dead_code import dead_code
from minitvm.graph.passes.fold_batch_norm import fold_batch_norm
from minitvm.graph.passes.fuse import fuse
from minitvm.graph.passes.half_products import half_products
from minitvm.graph.passes.integer_products import integer_products
from minitvm.graph.passes.shifted_scales import shifted_scales
from minitvm.graph.passes.simplify import simplify
from minitvm.graph.passes.split_conv_transpose import split_conv_transpose
from minitvm.graph.passes.split_resize import split_resize
from minitvm.graph.passes.stored_weights import stored_weights
from minitvm.machines.scratchpad.element_layout import element_layout
from minitvm.machines.simd.graph.blocked_layout import blocked_layout
from minitvm.reference import graph as graph_reference
from minitvm.target import Target
from tests.graph import test_partition, test_pattern, test_rewrite
from tests.graph.passes import (
    test_byte_tables,
    test_divided_scales,
    test_group_norms,
    test_integer_products,
    test_moved_bytes,
    test_pointwise_rows,
    test_split_einsum,
    test_split_pool,
)
from tests.graph.passes.quantised_networks import networks as networks_of_bytes
from tests.graph.passes.shifted_networks import chain
from tests.graph.test_passes import slices_of_what_was_joined, test_a_third_power_is_two_products
from tests.machines.cpu import test_large_attention
from tests.machines.scratchpad.element_networks import SMALL, network
from tests.machines.simd.graph.test_blocked_layout import (
    choices_keep_their_meaning,
    fillings_are_not_read,
    groups_keep_their_meaning,
    norms_keep_their_meaning,
    parts_keep_their_meaning,
    phases_keep_their_meaning,
    reductions_keep_their_meaning,
    rows_keep_their_meaning,
)
from tests.machines.simd.graph.test_channel_use import uses_are_counted
from tests.machines.simd.strategy.test_rows import all_cases_are_recognised

from ..oracle import Noticed, Trial, drawn
from ..patch import Faults
from ..siblings import converted, unchanged
from ..streams import by_hand, holds
from ..workloads import Draw, graphs, networks

PASSES = "minitvm.graph.passes."


# A CPU that multiplies pairs of bfloat16, in vectors of four.
OF_PAIRS = Target("cpu -vector_bits=128 -features=avx512_bf16")


def in_blocks(graph: Graph) -> Graph:
    """Blocked for vectors of four."""
    return blocked_layout(graph, Target("cpu -vector_bits=128"))


SIMPLIFY = Faults("graph simplify", PASSES + "simplify", [
    graphs(simplify, "simplify shapes", ("transpose", "transpose", "reshape", "new_axis", "pad", "repeat", "cast")),
    graphs(simplify, "simplify (all)"),
])  # fmt: skip
SIMPLIFY.edit(
    "two transposes in the wrong order",
    "one_transpose",
    "tuple(first[a] for a in _order(match.root))",
    "tuple(_order(match.root)[a] for a in first)",
)
SIMPLIFY.edit(
    "a slice with a step is none",
    "_keeps_form",
    "any(step != 1 for step",
    "False and any(step != 1 for step",
    by=[graphs(simplify, "simplify", ("slice", "slice", "reshape"))],
)
SIMPLIFY.edit(
    "a third power is a second one", "third_power", "square, x", "x, x",
    by=[by_hand("a third power", test_a_third_power_is_two_products)],
)  # fmt: skip
JOINED = by_hand("slices of what was joined", slices_of_what_was_joined)
SIMPLIFY.edit("a slice may end behind its part", "part_of_joined", "places[-1] < offset + extent", "True", by=[JOINED])
SIMPLIFY.edit(
    "a slice of a part begins as that of all", "part_of_joined", "places[0] - offset, ", "places[0], ", by=[JOINED]
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
    "return all(reader in group.members",
    "return any(reader in group.members",
)
FUSE.edit("what the graph returns may disappear", "_Fusion.candidates", " or value in self.returned", "")
NORM = Faults(
    "graph fold_batch_norm",
    PASSES + "fold_batch_norm",
    [graphs(fold_batch_norm, "fold_batch_norm", ("conv2d", "normalisation", "normalisation"))],
)
NORM.edit(
    "only the last value in front has no other reader",
    "RULES",
    "_BIASED |",
    'op("nn.bias_add", op(tuple(_OUT_CHANNELS), value("data"), constant("weight"), name="product"), constant("bias"), '
    'name="biased", alone=True) |',
    by=[graphs(fold_batch_norm, "fold_batch_norm", ("convolution_chain",))],
)
COMMON = Faults(
    "graph common_subexpressions",
    PASSES + "common_subexpressions",
    [
        graphs(
            common_subexpressions,
            "common_subexpressions",
            ("arithmetic", "unary", "transpose", "clip", "reduction", "alike_but_one"),
        )
    ],
)
NORM.edit(
    "the shift is lost",
    "_scaled",
    "factor, offset = scale, beta - mean * scale",
    "factor, offset = scale, beta",
)
NORM.edit("multiplied by the deviation", "_statistics", "gamma / np.sqrt(", "gamma * np.sqrt(")
COMMON.edit(
    "attributes do not count",
    "common_subexpressions",
    "tuple(map(id, inputs)), _key(item.attrs))",
    "tuple(map(id, inputs)))",
)
COMMON.edit(
    "only the first input counts",
    "common_subexpressions",
    "tuple(map(id, inputs)), _key",
    "tuple(map(id, inputs[:1])), _key",
)
FOLD = Faults("graph constant_folding", PASSES + "constant_folding", [graphs(constant_folding, "constant_folding")])
FOLD.edit(
    "operands in the wrong order",
    "_folded",
    "operator.fold(*operands, **item.attrs)",
    "operator.fold(*operands[::-1], **item.attrs)",
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
    "minitvm.machines.simd.graph.blocked_layout",
    [
        graphs(
            in_blocks,
            "blocked_layout",
            ("conv2d", "convolution_chain", "pool", "arithmetic", "concatenate", "dense"),
        )
    ],
)
BLOCKED.edit(
    "depthwise weights in another order",
    "_pack_depthwise",
    "full.reshape(-1, block, *full.shape[2:]), 1, -1",
    "full.reshape(block, -1, *full.shape[2:]).swapaxes(0, 1), 1, -1",
)
BLOCKED.edit("channels of a constant in another order", "Blocking.split_channels", "np.moveaxis(split, 2, -1)",
             "np.moveaxis(split[:, ::-1], 2, -1)")  # fmt: skip

FILLED = Faults("graph blocked_layout (filled blocks)", "minitvm.machines.simd.graph.blocked_layout",
                [by_hand("blocks that are not full", lambda: fillings_are_not_read(13, 3))])  # fmt: skip
FILLED.edit(
    "what fills a block is summed", "Blocking.filling", "if block and channels % block else {}", "if False else {}"
)
FILLED.edit("weights fill the first block", "_pack_depthwise", "(0, -weight.shape[0] % block)",
            "(-weight.shape[0] % block, 0)")  # fmt: skip

PHASES = Faults("graph blocked_layout (phases)", "minitvm.machines.simd.graph.blocked_moves",
                [by_hand("phases that interleave", phases_keep_their_meaning)])  # fmt: skip
PHASES.edit("filters stay phase after phase", "interleave", ".swapaxes(0, 1)", "")
PHASES.edit("lanes interleave", "interleave", "strides=(*strides, 1)", "strides=(1, *strides)")

GROUPS = Faults("graph blocked_layout (groups)", "minitvm.machines.simd.graph.blocked_layout",
                [by_hand("groups on blocks", groups_keep_their_meaning)])  # fmt: skip
GROUPS.edit("groups together read the first one", "_of_groups_together", "whole[:, place, :, place]",
            "whole[:, place, :, 0]")  # fmt: skip
GROUPS.edit("groups together in another order", "_of_groups_together", "parts[:, place]", "parts[:, -1 - place]")

TOGETHER = Faults("groups_together", "minitvm.strategy.algorithms",
                  [by_hand("groups on blocks", groups_keep_their_meaning)])  # fmt: skip
TOGETHER.edit("one group is enough", "groups_together", "range(1, groups + 1)", "range(groups, 0, -1)")

NORMS = Faults("graph blocked_layout (norms)", "minitvm.machines.simd.graph.blocked_sums",
               [by_hand("norms on blocks", norms_keep_their_meaning)])  # fmt: skip
NORMS.edit("weights of channels in another order", "channel_norm", "blocking.arrays[v].reshape(-1, width)",
           "blocking.arrays[v].reshape(width, -1).T")  # fmt: skip
POOLS = Faults("graph blocked_layout (pools)", "minitvm.machines.simd.graph.blocked_sums",
               [graphs(in_blocks, "blocked_layout", ("conv2d", "pool"))])  # fmt: skip
POOLS.edit("pools without their padding", "pool2d", "(*before, 0, *after, 0)", "(0, 0, 0, 0, 0, 0)")
ROWS = Faults("graph blocked_layout (rows)", "minitvm.machines.simd.graph.plain_rows",
              [by_hand("windows on rows", rows_keep_their_meaning)])  # fmt: skip
ROWS.edit("padding counts as zeros", "pool", "dict(item.attrs)",
          "{k: v or k == 'count_include_pad' for k, v in item.attrs.items()}")  # fmt: skip
ROWS.edit("windows without their padding", "depthwise", '("strides", "padding", "dilation")', '("strides", "dilation")')
SUMS = Faults("graph blocked_layout (sums)", "minitvm.machines.simd.graph.blocked_sums",
              [by_hand("sums of channels", reductions_keep_their_meaning)])  # fmt: skip
SUMS.edit("what fills a block is summed", "reduction", "int(data.shape[1]) % width or", "")
CHOICES = Faults("graph blocked_layout (choices)", "minitvm.machines.simd.graph.blocked_layout",
                 [by_hand("choices", choices_keep_their_meaning)])  # fmt: skip
CHOICES.edit(
    "slopes are those of positive numbers", "Blocking.prelu", "positive, blocked, scaled", "positive, scaled, blocked"
)
PARTS = Faults("graph blocked_layout (parts)", "minitvm.machines.simd.graph.blocked_moves",
               [by_hand("parts of channels", parts_keep_their_meaning)])  # fmt: skip
PARTS.edit("a part begins with any channel", "whole_blocks", "None if first % width else ", "")
PARTS.edit("a part has the blocks in front of it", "whole_blocks", "(first // width, -(-last", "(0, -(-last")
PARTS.edit("all parts are the first", "split", "[0, *ends]", "[0] * len(ends)")
NORMALIZED = Faults("what is normalised", "minitvm.strategy.rows",
                    [by_hand("norms of channels", all_cases_are_recognised)])  # fmt: skip
NORMALIZED.edit("blocks do not share groups", "_together", "part.b.value // gcd(step, part.b.value)", "part.b.value")
NORMALIZED.edit("lanes are outside", "normalized", "outside = len(axes) - lanes", "outside = len(axes)")


def _chains(_: Trial, draw: Draw) -> None:
    chain = draw(test_group_norms.chains())
    holds(lambda: test_group_norms.means_the_same(*chain))


ROWS_OF_GROUPS = [
    drawn("rows of groups", _chains, 150),
    by_hand("rows with other readers", test_group_norms.rows_that_others_read_stay),
]
GROUP_NORMS = Faults("graph group_norms", PASSES + "group_norms", ROWS_OF_GROUPS)
GROUP_NORMS.edit("the shift is not scaled", "_of_scale", "(gamma * values, beta * values)", "(gamma * values, beta)")
GROUP_NORMS.edit("rows of any batch are groups", "_of_rows", "if not same_shape((batch,), x.shape[:1])", "if False")
GROUP_NORMS.edit("weights of groups in another order", "_of_rows", "np.repeat(", "np.tile(")
READERS = Faults("graph pattern (rows of groups)", "minitvm.graph.pattern", ROWS_OF_GROUPS)
READERS.edit("what is returned is computed twice", "GraphFacts.only_reader", " and value not in self.returned", "")
READERS.edit("what others read disappears", "GraphFacts.only_reader", "len(readers) == 1", "len(readers) >= 1")


def _patterns(_: Trial, draw: Draw) -> None:
    graph, spec = draw(test_pattern.graphs()), draw(test_pattern.specs(root=True).filter(test_pattern.small))
    holds(lambda: test_pattern.patterns_match_what_they_mean(graph, spec))


PATTERN = Faults("graph pattern", "minitvm.graph.pattern", [
    by_hand("patterns", test_pattern.test_a_name_that_occurs_twice_is_one_value,
            test_pattern.test_what_is_read_twice_or_returned_is_not_read_once),
    drawn("patterns", _patterns, 300),
])  # fmt: skip
PATTERN.edit("what one operator reads twice is read once", "GraphFacts.only_reader",
             " and readers[0].inputs.count(value) == 1", "")  # fmt: skip
PATTERN.edit("a name holds the value that comes last", "ValuePattern._named",
             "elif match.values.get(self.name, value) is value:", "else:")  # fmt: skip
PATTERN.edit("the first alternative is the only one", "_Either.matches",
             "yield from self.second.matches(value, match)", "")  # fmt: skip
PATTERN.edit("operands have one order", "OpPattern.matches", "if self.any_order and len(inputs) > 1:", "if False:")
PATTERN.edit("further inputs do not matter", "OpPattern.matches", "or (more and self.others is None)", "")
PATTERN.edit("only the last operand may match in several ways", "_all_match",
             "yield from _all_match(patterns[1:], values[1:], more)",
             "yield from _all_match(patterns[1:], values[1:], more)\n        return")  # fmt: skip
REWRITE = Faults("graph rewrite", "minitvm.graph.rewrite", [by_hand(
    "rules",
    test_rewrite.test_a_graph_without_matches_is_returned_and_what_is_kept_stays_the_same,
    test_rewrite.test_an_output_is_not_replaced_by_a_value_and_keeps_its_name,
    test_rewrite.test_types_behind_a_value_of_another_type_are_inferred_anew,
    test_rewrite.test_new_operators_stand_where_the_root_was_and_belong_to_its_node_of_the_model,
    test_rewrite.test_rules_are_repeated_until_none_applies,
)])  # fmt: skip
REWRITE.edit("an output may be another value", "RewriteRule.applied", "item.output in facts.returned", "False")
REWRITE.edit("types stay what they were", "Rewriter.keep", "if all(", "if True or all(")
REWRITE.edit("new operators belong to the node before", "_visited", "b.where = item.where", "pass")
REWRITE.edit("one visit is enough", "rewrite", "or not repeat", "or repeat or not repeat")

PARTITION = Faults("graph partition", "minitvm.graph.passes.partition", [by_hand(
    "regions",
    test_partition.test_two_convex_regions_that_wait_for_each_other_are_refused,
    test_partition.test_a_region_grows_over_a_fork_but_not_around_an_operator_between,
    test_partition.test_a_match_ends_at_a_value_that_others_read,
    test_partition.test_sizes_views_and_control_flow_are_no_regions,
)])  # fmt: skip
PARTITION.edit("a region does not grow over forks", "Condensed.grow", " or self._across_forks(engine)", "")
PARTITION.edit("views alone are a region", "survey", "if all(registry.get(item.op).view for item in nodes):",
               "if False:")  # fmt: skip
PARTITION.edit("a cycle is not noticed", "acyclic", "len(condensed.order()) == len(condensed.members)", "True")
PARTITION.edit("inner values may have other readers", "_matches",
               "if not any(v in facts.returned or set(facts.consumers[v]) - set(nodes) for v in inner):",
               "if True:")  # fmt: skip

USES = Faults("channel_use", "minitvm.machines.simd.graph.channel_use", [by_hand("uses of channels", uses_are_counted)])
USES.edit(
    "what a convolution reads is what it writes",
    "_convolution",
    "uses[int(item.inputs[0].shape[1])].read",
    "uses[count].read",
)
USES.edit("nothing joins channels", "_joins", "item.output.ndim == 1", "item.output.ndim == 0")

LAYOUTS = ConvertLayout({"nn.conv2d": ["NHWC", "default"], "nn.max_pool2d": ["NHWC"], "nn.avg_pool2d": ["NHWC"]})
CONVERTED = converted()
CONVERT = Faults("graph convert_layout", "minitvm.compat.tvm.convert_layout", [
    graphs(LAYOUTS, "convert_layout", ("conv2d", "conv2d", "pool", "arithmetic", "concatenate", "pad")),
])  # fmt: skip
CONVERT.edit("a reshape for a transpose", "_Conversion.added",
             "if _in_order(value.shape, source) == _in_order(value.shape, layout):",
             "if sorted(source) == sorted(layout):")  # fmt: skip
CONVERT.edit(
    "the tensor that a pad is filled with is lost",
    "_Conversion.pad",
    "len(item.inputs) != 1 or not Layout",
    "not Layout",
    by=[CONVERTED],
)
CONVERT.edit(
    "a global pool over blocks",
    "_whole_axes",
    "any(layout.block(letter) > 1 for letter in letters)",
    "False",
    by=[CONVERTED],
)
CONVERT.edit(
    "filters are cut anew, not turned",
    "_Conversion.kernel",
    "self.b.constant(transformed(self.arrays[weight], own, layout), weight.name)",
    "self.b.constant(self.arrays[weight].reshape(transformed(self.arrays[weight], own, layout).shape), weight.name)",
)

SPLIT = Faults("graph split_conv_transpose", PASSES + "split_conv_transpose", [
    graphs(split_conv_transpose, "split_conv_transpose", ("transposed",)),
])  # fmt: skip
SPLIT.edit("taps are not turned around", "_Split.filters", "axis=axis)", "axis=2)")
SPLIT.edit("a phase begins at the first tap", "axis_phases", "AxisPhase(reaching[0], step,", "AxisPhase(0, step,")
SPLIT.edit("phases of as many taps are one convolution", "AxisPhase.window", "self.taps, self.before", "self.taps, 0")


def _pointwise(_: Trial, draw: Draw) -> None:
    case = draw(test_pointwise_rows.convolutions())
    holds(lambda: test_pointwise_rows.means_the_same(case, 4))


ROWS = Faults("graph pointwise_rows", PASSES + "pointwise_rows", [drawn("convolutions", _pointwise, 300)])
ROWS.edit("any stride", "_is_pointwise", "== (1,) and", "!= (0,) and")
ROWS.edit("padding is left out", "_is_pointwise", "and not padded and", "and")
ROWS.edit("a bias is left out", "_Rows.product", "if last is not conv:", "if False:")


def _pools(_: Trial, draw: Draw) -> None:
    graph = draw(test_split_pool.pools())
    holds(lambda: test_split_pool.mean_the_same(graph))


POOLS = Faults("graph split_pool", PASSES + "split_pool", [drawn("pools along the axes", _pools, 200)])
POOLS.edit("axes without windows keep their steps", "_along_the_axes", "value if a == axis else 1", "value")
POOLS.edit(
    "padding behind is that in front", "_along_the_axes", "for side in (before, after)", "for side in (before, before)"
)


def _summations(_: Trial, draw: Draw) -> None:
    graph = draw(test_split_einsum.summations())
    holds(lambda: test_split_einsum.mean_the_same(graph))


EINSUM = Faults("graph split_einsum", PASSES + "split_einsum", [drawn("Einstein summations", _summations, 300)])
EINSUM.edit("what other operands need is summed", "_in_pairs", 'needed + "".join(others)', "needed")
EINSUM.edit("labels of the result in another order", "_in_pairs", "labels = needed if name else", "labels =")

RESIZE = Faults("graph split_resize", PASSES + "split_resize", [
    graphs(split_resize, "split_resize", ("resized",)),
])  # fmt: skip
TABLES = Faults("topi resize_tables", "minitvm.topi.resize_tables", [
    graphs(split_resize, "split_resize", ("resized",)),
])  # fmt: skip
TABLES.edit(
    "the nearer element has the smaller share", "tables", "np.maximum(1 - distance, 0)", "np.minimum(distance, 1)"
)
TABLES.edit("taps outside keep their share", "tables", "(places >= 0) & (places < extent)", "places >= 0")
RESIZE.edit("scales that are given are not used", "_along_the_axes", "if fixed is None", "if fixed is None or True")
RESIZE.edit("axes that keep their size are forgotten to be scaled", "_along_the_axes",
            "size != extent or scales[a] != 1.0", "size != extent")  # fmt: skip

CONVOLUTION = Faults("graph conv2d", "minitvm.topi.conv", [networks(("conv2d",), largest=1)])
CONVOLUTION.edit(
    "taps not dilated", "_conv", "times(t.var, l) if not is_one(k) else 0", "t.var if not is_one(k) else 0"
)
CONVOLUTION.edit(
    "all groups read the first's channels", "_conv", "ff // filters_a_group * group_channels + rc.var", "rc.var"
)
POOL = Faults("graph pool", "minitvm.topi.pool", [networks(("pool", "pool", "unary"), largest=2)])
POOL.edit("padding may win", "_max_pool", "lowest(data.dtype)", "const(0, data.dtype)")
POOL.edit("the mean over one element more", "Windows._counted", "return last - first + 1", "return last - first + 2")
REDUCTION = Faults("graph reductions", "minitvm.tir.op", [networks(("reduction", "arg", "unary"), largest=2)])
REDUCTION.edit(
    "a maximum starts at zero",
    "lowest",
    "infinity(dtype, negative=True) if ex.DType(dtype).is_float else min_value(dtype)",
    "ex.const(0, dtype)",
)
REDUCTION.edit(
    "a minimum starts at zero",
    "highest",
    "infinity(dtype) if ex.DType(dtype).is_float else max_value(dtype)",
    "ex.const(0, dtype)",
)
GRAPH_LOWER = Faults("graph lowering", "minitvm.graph.lower", [
    networks(("arg", "arg", "cumsum", "reduction", "transpose"), largest=5),
    networks(("arithmetic", "arithmetic", "unary", "transpose"), largest=6),
])  # fmt: skip
SHAPES = Faults("topi shapes", "minitvm.topi.shapes", [unchanged()])
SHAPES.edit(
    "what is not decided is not more",
    "may_exceed",
    "not isinstance(more, int) or bool(more)",
    "isinstance(more, int) and bool(more)",
)
SHAPES.edit("more is not more", "may_exceed", "simple(ex.GT(", "simple(ex.EQ(")
HASH = Faults("structural hash", "minitvm.expr.structural", [
    networks(("arg", "arg", "cumsum", "reduction", "transpose"), largest=5),
    networks(("arithmetic", "arithmetic", "unary", "transpose"), largest=6),
])  # fmt: skip
GRAPH_LOWER.edit(
    "a result that is an input is passed as the input",
    "_of_their_own",
    "(*taken, *own)",
    "own",
    by=[unchanged()],
)
GRAPH_LOWER.edit(
    "two results that are one tensor have one place",
    "_of_their_own",
    "(*taken, *own)",
    "taken",
    by=[unchanged()],
)
HASH.edit("attributes do not tell functions apart", "_Hash.add", "self.add(item[key])", "pass")
HASH.edit(
    "operands in any order are one function",
    "_Hash.named",
    'self.note("use", self.numbers[item])',
    'self.note("use")',
    by=[networks(("alike_but_one",), largest=2)],
)
HASH.edit(
    "shapes do not tell functions apart",
    "_Hash.named",
    'self.fields(item, skip="name")',
    "self.value(item.dtype)",
    by=[networks(("unary", "reduction", "concatenate", "alike_but_one"), largest=5)],
)


def _product_of_bytes(_: Trial, draw: Draw) -> None:
    graph = test_integer_products.product(draw)
    holds(lambda: test_integer_products.mean_the_same(graph))
    holds(lambda: test_integer_products.mean_the_same(graph, lambda g: in_blocks(integer_products(g))))


def _scales_of_square_weights() -> None:
    test_integer_products.test_scales_along_the_sum_are_not_those_of_the_results("nn.dense", 1)


PRODUCTS = drawn("products of bytes of any zero point", _product_of_bytes, 150)
INTEGERS = Faults(
    "integer_products",
    PASSES + "integer_products",
    [graphs(integer_products, "integer_products", ("byte_product",), examples=300), PRODUCTS],
)
INTEGERS.edit("the offset of the weights is forgotten", "_in_integers", "product.offset.any()", "False")
WINDOWS = Faults("byte_windows", "minitvm.graph.byte_windows", [PRODUCTS])
WINDOWS.edit("one zero point is subtracted of many", "_sums", "zero_point * depth", "zero_point")
WINDOWS.edit(
    "pixels on the diagonal of a window count", "sums_of_windows", "np.ones((1, 1, *kernel), np.int32)",
    "np.eye(*kernel, dtype=np.int32)[None, None]",
)  # fmt: skip
INTEGERS.edit(
    "the zero point of the data is forgotten", "_in_integers", "zero_point=product.zero_point", "zero_point=0"
)
INTEGERS.edit(
    "the scale of the weights is forgotten", "bytes_product", "columns.astype(np.float64) *", "np.ones_like(columns) *"
)
INTEGERS.edit(
    "scales of the inner axis are taken for the columns'",
    "_along",
    'weight.attrs["axis"] % weight.inputs[0].ndim == axis',
    "True",
    by=[by_hand("square weights", _scales_of_square_weights)],
)
INTEGERS.edit(
    "weights keep their zero point",
    "_weight",
    "stored.astype(np.int32) - points",
    "stored.astype(np.int32) - 0 * points",
)


def _quantised(_: Trial, draw: Draw) -> None:
    graph = draw(networks_of_bytes())
    holds(lambda: test_moved_bytes.stays_the_same(graph))
    holds(lambda: test_divided_scales.one_step_apart(graph))


def _chain(_: Trial, draw: Draw) -> None:
    graph = draw(test_divided_scales.chains())
    holds(lambda: test_divided_scales.chain_is_a_step_apart(graph))


MOVES = Faults("moved_bytes", PASSES + "moved_bytes", [
    drawn("quantised networks", _quantised, 200),
    by_hand("padding alone", test_moved_bytes.test_windows_of_padding_alone_stay_pools_of_floats),
])  # fmt: skip
MOVES.edit("bytes of any scale are bytes of this one", "_Moving.quantized", "self.stored[value][1] == step", "True")
MOVES.edit(
    "parts have the scale of the first", "_Moving.moved", "if len(steps) != 1 or None in steps", "if None in steps"
)
MOVES.edit("a window may be of padding alone", "_Moving.max_pool", "max(b, a) >= k", "False")


def _divided(_: Trial, draw: Draw) -> None:
    graph = draw(test_divided_scales.chains())
    holds(lambda: test_divided_scales.chain_is_a_step_apart(graph))


DIVIDED = Faults("divided_scales", PASSES + "divided_scales", [drawn("linear operators", _divided, 150)])
DIVIDED.edit(
    "what others read is divided", "_Divisions.division", "item is None or self.only_reader(value) is not reader or",
    "item is None or",
)  # fmt: skip
DIVIDED.edit("the lower bound stays", "divided_scales", '("a_min", "a_max")', '("a_max",)')
DIVIDED.edit("a constant is multiplied", "_Divisions.leaf", "self.arrays[old] / scale", "self.arrays[old] * scale")


def _of_one_byte(_: Trial, draw: Draw) -> None:
    graph, of_one = draw(networks_of_bytes()), draw(test_byte_tables.chains())
    holds(lambda: test_byte_tables.is_looked_up_alike(graph))
    holds(lambda: test_byte_tables.chain_is_looked_up_alike(of_one))


TABLES = Faults("byte_tables", PASSES + "byte_tables", [
    drawn("functions of bytes", _of_one_byte, 150),
    by_hand(
        "what is looked up", test_byte_tables.test_a_value_that_others_read_ends_a_table,
        test_byte_tables.test_an_activation_of_several_operators_is_one_table,
        lambda: test_byte_tables.test_few_instructions_stay("nn.relu"),
    ),
])  # fmt: skip
TABLES.edit("a table goes by values, not by bits", "byte_tables", "b.constant(every", "b.constant(np.sort(every)")
TABLES.edit("a result is no value of its own", "_Chains._is_read_by", "value not in self.returned", "True")
TABLES.edit("a table has the shape of its bytes", "_Chains._chain",
            " or any(v.shape != item.output.shape for v in read)", "")  # fmt: skip
TABLES.edit("few instructions are many", "_Chain.is_costly", "not all(map(is_cheap", "any(map(is_cheap")


def _attended(_: Trial, draw: Draw) -> None:
    graph = draw(test_large_attention.networks())
    holds(lambda: test_large_attention.keeps_its_meaning(graph))


ATTENTION = Faults("attention", "minitvm.machines.cpu.large_attention", [
    drawn("attention", _attended, 60),
    by_hand(
        "what is no attention", test_large_attention.test_other_norms_stay,
        *(lambda sizes=sizes: test_large_attention.test_other_attention_stays_three_functions(sizes)
          for sizes in ({"readers": ("scores",)}, {"batch": (1,), "rows": 20, "columns": 20})),
    ),
])  # fmt: skip
ATTENTION.edit("a softmax of columns is one of rows", "_Attentions.chain", 'softmax.attrs["axis"] not in', "None in")
ATTENTION.edit("scores are read by others", "_Attentions.private", "self.only_reader(value) is not None", "True")
ATTENTION.edit("any scores are too many", "_Attentions.pays", "return keeps_scores", "return True or keeps_scores")
DIVISIONS = Faults("divided_scales", PASSES + "divided_scales", [
    drawn("quantised networks", _quantised, 200),
    drawn("chains of scales", _chain, 100),
    by_hand(
        "values with other readers", test_divided_scales.test_a_scale_that_others_read_stays,
        test_divided_scales.test_what_is_dequantised_for_others_stays_as_it_is,
    ),
])  # fmt: skip
DIVISIONS.edit("a constant keeps its scale", "_Divisions.leaf", "self.arrays[old] / scale", "self.arrays[old] / 1")
DIVISIONS.edit("bytes keep their scale", "_Divisions.leaf", "self.arrays[step] / scale", "self.arrays[step] / 1")
DIVISIONS.edit("limits keep their scale", "divided_scales", "float(attrs[name] / scale)", "attrs[name]")
DIVISIONS.edit("one addend is enough", "_Divisions._parts", "if division is None", "if division is None and place == 0")
DIVISIONS.edit(
    "a scale is divided out of a value that others read", "_Divisions.division",
    "self.only_reader(value) is not reader", "value in self.returned",
)  # fmt: skip

STORED = Faults(
    "stored_weights", PASSES + "stored_weights",
    [graphs(stored_weights, "stored_weights", ("byte_product",), examples=300)],
)  # fmt: skip
STORED.edit("the scale is forgotten", "_of_bytes", "b.constant(scale,", "b.constant(np.ones_like(scale),")
STORED.edit(
    "columns have the scale of others", "_of_bytes", "scale.astype(np.float32)", "scale[::-1].astype(np.float32)"
)

BYTES = Faults("blocked_bytes", "minitvm.machines.simd.graph.blocked_bytes", [graphs(
    lambda graph: in_blocks(integer_products(graph)), "blocked integer_products", ("byte_product",), examples=300
), PRODUCTS])  # fmt: skip
BYTES.edit("a channel alone keeps its zero point", "_depthwise", '("zero_point", "strides"', '("strides"')
BYTES.edit("what the zero point adds stays in the sum", "conv2d", "if shift.any()", "if False")
BYTES.edit("what the zero point adds stays in the product", "dense", "if shift.any()", "if False")
BYTES.edit("signed bytes are taken for unsigned ones", "_unsigned", "np.int16(_SIGN)", "np.int16(0)")
BYTES.edit("the image is padded with zero", "conv2d", "pad_value=zero_point", "pad_value=0")
WORDS = Faults("blocked_words", "minitvm.machines.simd.graph.blocked_words", [graphs(
    lambda graph: in_blocks(integer_products(graph)), "blocked words of bytes", ("byte_product",), examples=300
)])  # fmt: skip
WORDS.edit(
    "words hold every fourth byte", "_words", "np.ascontiguousarray(array)", "np.ascontiguousarray(array[..., ::-1])"
)
WORDS.edit(
    "the filling stands in front",
    "_padded",
    "(0, -extent % multiple if a == axis else 0)",
    "(-extent % multiple if a == axis else 0, 0)",
)

HALF = Faults("half_products", PASSES + "half_products", [graphs(
    lambda graph: half_products(graph, OF_PAIRS), "half_products", ("half_product",), examples=300
)])  # fmt: skip
HALF.edit("the result stays float32", "_of_halves", "if result == half else total", "if False else total")
HALF.edit("constants with more bits are narrowed", "_narrow", "if np.array_equal(", "if True or np.array_equal(")

PAIRS = Faults("blocked_brain", "minitvm.machines.simd.graph.blocked_brain", [graphs(
    lambda graph: blocked_layout(half_products(graph, OF_PAIRS), OF_PAIRS), "products of pairs", ("half_product",),
    examples=300,
)])  # fmt: skip
PAIRS.edit(
    "columns are rows", "dense", "columns = array if turned else array.T", "columns = array.T if turned else array"
)
PAIRS.edit("the convolution has no padding", "conv2d", '("strides", "padding", "dilation")', '("strides", "dilation")')


def _shifted_chain(trial: Trial, draw: Draw) -> None:
    """A chain of int8 is what exact numbers say, halves rounded up."""
    case = chain(draw)
    trial.compared += 1
    found = graph_reference.run(shifted_scales(case.graph), list(case.inputs))[0]
    if not np.array_equal(found, case.result):
        raise Noticed("graph", f"{found} instead of {case.result}")


SHIFTS = Faults("shifted_scales", "minitvm.graph.passes.shifted_scales", [drawn("chains of int8", _shifted_chain, 100)])
SHIFTS.edit("a shift rounds down", "_narrowed", "1 << (places - 1) if places > 0 else 0", "0")
SHIFTS.edit("limits are forgotten", "_narrowed", "a_min=low, a_max=high", "a_min=-128, a_max=127")
SHIFTS.edit("a shift to smaller units goes the other way", "_narrowed", '"left_shift"', '"right_shift"')
SHIFTS.edit("sums of two tensors ignore their units", "_Integers._both", "one.shifted(finest - one.exponent)", "one")
SHIFTS.edit("a bias keeps the units of floats", "_Integers._added", "np.ldexp(offset, total.exponent)", "offset")
SHIFTS.edit("a limit keeps the units of floats", "_units", "float(limit), exponent", "float(limit), 0")
SHIFTS.edit("the upper limit is lost", "_Integers._quantized", "min(high, _units(most, exponent))", "high")


def _elements(trial: Trial, draw: Draw) -> None:
    """Layers on elements compute what they did."""
    graph, inputs = network(draw)
    trial.compared += 1
    wanted = graph_reference.run(graph, inputs)
    found = graph_reference.run(element_layout(graph, SMALL), inputs)
    if not all(map(np.array_equal, found, wanted)):
        raise Noticed("graph", f"{found} instead of {wanted}")


ELEMENTS = Faults(
    "element_layout", "minitvm.machines.scratchpad.element_layout", [drawn("layers of int8", _elements, 60)]
)
ELEMENTS.edit("filters are turned in their blocks", "_Packing._filters", "(0, 2, 4, 5, 1, 3)", "(0, 2, 4, 5, 3, 1)")
ELEMENTS.edit("offsets are forgotten", "_Packing.layer", "if offset.any() and not alike:", "if False:")
ELEMENTS.edit("sums are not shifted", "_Packing.layer", "shift=layer.shift", "shift=0")
ELEMENTS.edit("the lower limit is forgotten", "_Packing.layer", '"least": layer.least', '"least": -128')
ELEMENTS.edit("channels are filled up in front", "_Packing.pack", "pads[3] = missing", "pads[2] = missing")
ELEMENTS.edit(
    "elements of a batch are taken for channels", "_Packing.unpack", "(0, 4, 1, 5, 2, 3)", "(0, 5, 1, 4, 2, 3)"
)
