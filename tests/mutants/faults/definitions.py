"""Faults in what oracle and compiler share: both sides of a comparison have them, so other definitions must tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.expr import brute_force

from ..oracle import Noticed, Trial, Workload, drawn
from ..patch import Faults

EXPR = "minitvm.expr."


def beside(name: str, examples: int = 400) -> Workload:
    """A definition beside a second one."""

    def body(trial: Trial, draw: Callable[[Any], Any]) -> None:
        trial.compared += 1
        try:
            brute_force.PROPERTIES[name](draw)
        except AssertionError as error:
            raise Noticed("definitions", str(error)) from error

    return drawn(f"two definitions: {name}", body, examples)


DTYPES = Faults("trusted: dtypes", EXPR + "dtypes", [beside("meeting")])
DTYPES.edit("the narrower one", "promote", "wider = x if x.bits > y.bits else y", "wider = y if x.bits > y.bits else x")
DTYPES.edit("int beats uint", "promote", "x if rank[x.kind] > rank[y.kind]", "y if rank[x.kind] > rank[y.kind]")
DTYPES.edit(
    "a float yields", "promote", 'wider = x if x.kind == "float" else y', 'wider = y if x.kind == "float" else x'
)
DTYPES.edit("lanes are lost", "promote", "return wider.with_lanes(lanes)", "return wider")
DTYPES.edit("any lanes meet", "promote", "if a.lanes != b.lanes and 1 not in (a.lanes, b.lanes):", "if False:")

INTRIN = Faults("trusted: intrinsics", EXPR + "intrin", [beside("intrinsics")])
INTRIN.edit("floats as bits", "call", 'if row.domain == "int" and not', 'if False and row.domain == "int" and not')
INTRIN.edit("integers as floats", "call", 'if row.domain == "float" and not', "if False and not")
INTRIN.edit("the first argument's dtype decides", "call", "common = promote(common, value.dtype)", "pass")
INTRIN.edit("arguments are counted from below", "call", "if len(args) != row.arity:", "if len(args) < row.arity:")

NODES = Faults("trusted: nodes", EXPR + "nodes", [beside("operands")])
NODES.edit("a comparison has its operands' dtype", "binary", "return kind(left, right)", "return kind(right, left)")
NODES.edit("a number's dtype wins", "_number_like", "return const(value, target)", "return const(value, own)")
NODES.edit(
    "integers stay beside a float",
    "_beside",
    "if own.is_float and not value.dtype.is_float else value",
    "if False else value",
)

VISITOR = Faults("trusted: visitor", EXPR + "visitor", [beside("substituting")])
VISITOR.edit(
    "a let hides nothing", "_Substitution.__call__", "isinstance(old, Let) and old.var in self.replaced", "False"
)
VISITOR.edit(
    "one after the other",
    "_Substitution.__call__",
    "return self.values.get(old, old)",
    "if old not in self.values:\n                return old\n"
    "            return substitute(self.values[old], {v: e for v, e in self.values.items() if v is not old})",
)
VISITOR.edit(
    "the last of several children",
    "_below",
    "below = reader(node)",
    "below = reader(node)[:1]",
    by=[beside("walking")],
)
VISITOR.edit("what is defined is free", "free_vars", "defined.add(entry)", "pass", by=[beside("free_variables")])
VISITOR.edit(
    "in the order of last use",
    "free_vars",
    "used.setdefault(item)",
    "used.pop(item, None), used.setdefault(item)",
    by=[beside("free_variables")],
)

EQUAL = Faults("trusted: equality", EXPR + "structural", [beside("equality")])
EQUAL.edit(
    "a name may stand for two",
    "_Comparison._equal_names",
    "return self.forward.get(a) is b and self.backward.get(b) is a",
    "return self.forward.get(a) is b or a not in self.forward",
)
EQUAL.edit("values of constants do not count", "_Comparison._equal_values", "return bool(a == b)", "return True")
EQUAL.edit("the first child only", "_Comparison.equal", "len(a) == len(b) and all(", "len(a) == len(b) and any(")
