"""Faults in making functions of tensor expressions, and in the expressions that everything is made of."""

from tests.expr.test_visitor import test_names_below

from ..patch import Faults
from ..streams import by_hand
from ..workloads import families, lowered, primitive, schedules, tensors

TE = Faults("te.create_prim_func", "minitvm.te.primfunc", [tensors()])
TE.edit(
    "a condition of a reduction forgotten",
    "_FunctionBuilder.reduction",
    "if not (isinstance(condition, ex.IntImm) and condition.value):",
    "if False:",
)
TE.edit(
    "a start of its own forgotten",
    "_FunctionBuilder.reduction",
    "reduce.init or combiner.identity",
    "combiner.identity",
)
TE.edit(
    "results are stored before all are computed",
    "_FunctionBuilder.reduction",
    "(tir.BufferStore(b, v, point) for b, v in zip(buffers, names, strict=True))",
    "(tir.BufferStore(b, v, point) for b, v in zip(buffers[::-1], results[::-1], strict=True))",
)
TE.edit(
    "axes start at zero",
    "_FunctionBuilder.nest",
    "self.index(axis.dom.start), self",
    "self.index(axis.dom.start * 0), self",
)
TE.edit(
    "every output has the first one's body", "_FunctionBuilder.nest", "op.body[outputs[0].value_index]", "op.body[0]"
)

EXPR = Faults("expr", "minitvm.expr.visitor", [
    schedules("compute_inline", "split", "compute_at"),
    lowered(families("contraction", "chain")),
])  # fmt: skip
EXPR.edit("only the first variable is replaced", "substitute", "if not values:\n        return node",
          "values = dict(list(values.items())[:1])\n    if not values:\n        return node")  # fmt: skip
EXPR.edit("a change in the last child only is none", "map_children", "mapper(node, function)",
          "mapper(node, lambda child: child if child is _below(node)[0] else function(child))")  # fmt: skip
NAMES = Faults("expr: names", "minitvm.expr.visitor", [by_hand("names", test_names_below)])
NAMES.edit("variables of the last child alone", "_names", "used = used | in_child if used else in_child",
           "used = in_child")  # fmt: skip
NAMES.edit("buffers of the last child alone", "_names", "buffers = buffers | of_child if buffers else of_child",
           "buffers = of_child")  # fmt: skip
NAMES.edit("an address names no buffer", "_names", "handed = handed | {node.buffer}", "pass")

EQUAL = Faults("structural equality", "minitvm.expr.structural", [
    tensors(), primitive("reindex"), primitive("cache_index"),
    schedules("decompose_padding", "pad_einsum"), schedules("rfactor", of=families("contraction", "folds"), wild=True),
])  # fmt: skip
EQUAL.edit(
    "constants are all alike",
    "_Comparison._equal_values",
    "return bool(a == b)",
    "return type(a) is int or bool(a == b)",
)
