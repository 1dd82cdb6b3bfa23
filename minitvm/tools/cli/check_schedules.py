"""`minitvm check-schedules MODEL`: list the operators that have no specific schedule rule, without compiling them.

An operator that computes sums should have a specific rule; an operator that only moves or maps elements need not have
one. The command lists the sums without a specific rule, and the operators whose rule failed. The exit status is 1 if
there are any.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...expr import REDUCE, walk
from . import options as opt
from .progress import progress

if TYPE_CHECKING:
    from ...strategy.candidate import Choice, Knob, Weighed
    from ...target import Target
    from ...tir.nodes import PrimFunc


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "check-schedules",
        help="list the operators without a specific schedule rule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    opt.add_model(parser)
    parser.set_defaults(function=check_schedules)


@dataclass(frozen=True)
class Fallen:
    """A function that no specific rule schedules: its operators, their types, the choice, and the rules for others."""

    operators: tuple[str, ...]
    types: str
    choice: Choice
    others: tuple[str, ...]

    def __str__(self) -> str:
        times = f" ({len(self.operators)} times)" if len(self.operators) > 1 else ""
        lines = [f"{self.operators[0]}{times}: {self.types}", f"  scheduled by: {self.choice.rule or 'no rule'}"]
        lines += [f"  {_named(one.rule, one.knobs)} refused: {one.refused}" for one in _once(self.choice.refused)]
        lines += [f"  takes other computations: {', '.join(self.others)}"] if self.others else []
        return "\n".join(lines)


def check_schedules(options: argparse.Namespace) -> int:
    """Print the operators without a specific rule, and the number of the others."""
    from ...build import optimize_graph
    from ...lowering import to_units

    target = opt.target(options.target)
    graph = opt.read_graph(options.model, options.shape)
    with progress() as report:
        units = to_units(optimize_graph(graph, target))
        fallen = list(fallen_through(units, target, report))
    for one in fallen:
        print(one)
    count = sum(len(one.operators) for one in fallen)
    print(
        f"{count} of {len(units)} operators have no schedule of their own"
        if count
        else f"each of the {len(units)} operators has a schedule of its own, or needs none"
    )
    return 1 if count else 0


def fallen_through(units: Iterable[Any], target: Target, report: Any) -> Iterator[Fallen]:
    """The functions of fused operators without a specific schedule, in the order of the operators."""
    from ...strategy.registry import chosen, rules

    fallbacks = {"", *(row.name for row in rules(target) if row.fallback)}
    sharing: dict[Any, list[Any]] = {}
    for unit in units:
        sharing.setdefault(unit.function, []).append(unit)
    for number, (function, users) in enumerate(sharing.items(), 1):
        choice = chosen(function.func, target).choice
        report("scheduling", number, len(sharing))
        if choice.rule in fallbacks and (choice.refused or sums(function.func)):
            node = users[0].node
            types = f"{', '.join(v.type for v in node.inputs)} -> {', '.join(v.type for v in node.outputs)}"
            others = (row.name for row in rules(target) if not row.matches(function.func))
            yield Fallen(tuple(unit.name for unit in users), types, choice, tuple(others))


def sums(func: PrimFunc) -> bool:
    """Whether a block of a function reduces."""
    from ...tir.nodes import Block

    return any(it.kind == REDUCE for n in walk(func.body) if isinstance(n, Block) for it in n.iter_vars)


def _named(rule: str, knobs: dict[str, Knob] | Any) -> str:
    from ...strategy.registry import with_values

    return f"{rule} with {with_values(knobs)}" if knobs else rule


def _once(refused: Iterable[Weighed]) -> list[Weighed]:
    """The first refusal of each reason."""
    return list({(one.rule, one.refused): one for one in reversed(list(refused))}.values())[::-1]
