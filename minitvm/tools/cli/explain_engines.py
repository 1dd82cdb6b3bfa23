"""`minitvm explain MODEL --engine NAME`: the regions that engines get, their seconds, and the reasons for the rest."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from ...durations import duration
from ...engines import Choice, Choices, choose
from ...errors import InputError
from ...graph.nodes import OpNode
from . import options as opt
from .wrapping import columns, filled

_MOST_NAMES = 4


def explain_engines(options: argparse.Namespace) -> int:
    """Print which engine computes which part of a model, and why."""
    if options.primitive is None:
        raise InputError("--engine goes with a model: minitvm explain MODEL --engine NAME")
    graph = opt.read_graph(options.primitive, options.shape)
    choices = choose(graph, opt.engines(options), opt.target("cpu"), options.threads)
    print(filled(text(choices, len(graph.nodes)), columns()))
    return 0


def text(choices: Choices, total: int) -> str:
    """The report of the choices for a graph of `total` operators."""
    taken = [choice for choice in choices.regions if not choice.reason]
    count = sum(len(choice.operators) for choice in taken)
    regions = f"{len(taken)} region{'' if len(taken) == 1 else 's'}"
    lines = [f"engines compute {count} of {total} operators, in {regions}"]
    for choice in choices.regions:
        lines.append(f"  {choice.name}: {_operators(choice.operators)}{_seconds(choice)}")
        if choice.reason:
            lines.append(f"    minitvm computes it: {choice.reason}")
    for engine, refused in choices.refused.items():
        reasons: dict[str, list[OpNode]] = {}
        for item, reason in refused.items():
            reasons.setdefault(reason, []).append(item)
        if reasons:
            lines.append(f"operators that {engine} does not get")
        lines += [f"  {_operators(items)}: {reason}" for reason, items in reasons.items()]
    return "\n".join(lines)


def _operators(items: Iterable[OpNode]) -> str:
    counts = Counter(item.op for item in items)
    parts = [f"{count} {name}" for name, count in counts.most_common(_MOST_NAMES)]
    return ", ".join(parts) + (", ..." if len(counts) > _MOST_NAMES else "")


def _seconds(choice: Choice) -> str:
    if choice.seconds is None:
        return ""
    theirs, ours = choice.seconds
    return f"; {choice.engine} {duration(theirs)}, minitvm {duration(ours)}"
