"""Convert branches, loops, calls, and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....expr import Not
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from ..variables import VariableHandle, assigned_in, handle_of


@converter("IF", bytes="own")
def if_(n: NodeContext) -> Any:
    """Convert the selected branch if the condition is known. Otherwise compute both, and select their results."""
    number = {True: n.option("ThenSubgraphIndex"), False: n.option("ElseSubgraphIndex")}
    arguments, condition = [n.laid(k) for k in range(1, len(n.inputs))], n[0]
    if condition.data is not None and not condition.is_symbolic:
        return n.importer.subgraph(number[bool(n.scalar(condition, "the condition"))], arguments)
    flag = n.reshape(condition, ())
    holds = n.holds(flag)
    before, results, after = dict(n.importer.variables.current), {}, {}
    for taken, on in ((True, holds), (False, Not(holds))):
        n.importer.variables.current = dict(before)
        with n.builder.branch(on):
            results[taken] = n.importer.subgraph(number[taken], arguments)
        after[taken] = n.importer.variables.current

    def selected(a: Laid, b: Laid) -> Laid:
        x, y = n.last(a), n.last(b)
        if x.dtype != y.dtype or x.ndim != y.ndim:
            n.refuse(f"the branches have results of different types, {x} and {y}")
        return Laid(n.builder.selected(flag, holds, x, y, n.name_hint, n.where))

    # A variable that only one branch reads is the same in both.
    merged = {**after[False], **after[True]}
    for name in after[True].keys() & after[False].keys():
        a, b = after[True][name], after[False][name]
        merged[name] = a if a is b else selected(a, b)
    n.importer.variables.current = merged
    return [selected(a, b) for a, b in zip(results[True], results[False], strict=True)]


@converter("WHILE", bytes="own")
def while_(n: NodeContext) -> Any:
    """Write a loop of the graph: the condition is computed before it, and at the end of each iteration.

    Variables that the body assigns are carried from iteration to iteration, too.
    """
    going, body = n.option("CondSubgraphIndex"), n.option("BodySubgraphIndex")
    variables = n.importer.variables
    names = [name for name in assigned_in(n.importer.model, body) if name in variables.current]
    own = [n[k] for k in range(len(n.inputs))]
    before = dict(variables.current)

    def goes_on(state: Sequence[Operand]) -> Operand:
        (condition,) = n.importer.subgraph(going, [Laid(x) for x in state])
        return n.reshape(n.last(condition), ())

    def iteration(_: Operand, *state: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        variables.current = {**before, **{name: Laid(x) for name, x in zip(names, state[len(own) :], strict=True)}}
        new = [n.last(x) for x in n.importer.subgraph(body, [Laid(x) for x in state[: len(own)]])]
        left = [n.last(variables.current[name]) for name in names]
        return goes_on(new), [*new, *left], []

    carried = [*own, *(n.last(before[name]) for name in names)]
    _, *results = n.builder.loop(iteration, carried, None, goes_on(own), None, n.where)
    variables.current = {**before, **{name: Laid(x) for name, x in zip(names, results[len(own) :], strict=True)}}
    return results[: len(own)]


@converter("CALL_ONCE", bytes="own")
def call_once(n: NodeContext) -> Any:
    """Run a subgraph for the first values of the variables that it assigns."""
    n.importer.variables.starting = True
    try:
        n.importer.subgraph(n.option("InitSubgraphIndex"), [])
    finally:
        n.importer.variables.starting = False
    return []


@converter("VAR_HANDLE", bytes="own")
def var_handle(n: NodeContext) -> Any:
    return handle_of(n.node)


@converter("READ_VARIABLE", bytes="own")
def read_variable(n: NodeContext) -> Any:
    return n.importer.variables.read(_handle(n).name, n.result(), n.where)


@converter("ASSIGN_VARIABLE", bytes="own")
def assign_variable(n: NodeContext) -> Any:
    value = n.laid(1)
    n.importer.variables.assign(_handle(n).name, value, n.last(value), n.where)
    return []


def _handle(n: NodeContext) -> VariableHandle:
    handle = n.inputs[0]
    if not isinstance(handle, VariableHandle):
        n.refuse("its first input is not a variable")
    return handle
