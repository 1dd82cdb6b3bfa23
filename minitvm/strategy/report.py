"""Print a choice as text: the rule, the algorithms and candidates that were compared, and those that were refused."""

from __future__ import annotations

from collections.abc import Callable

from .candidate import Choice, Cost, Knob, Weighed
from .registry import with_values

_SHOWN_REFUSALS = 4


def named_by_rule(option: Weighed) -> str:
    """Return the name of the rule that an option belongs to."""
    return option.rule


def lines(
    choice: Choice, ghz: float | None = None, algorithm_name: Callable[[Weighed], str] = named_by_rule
) -> list[str]:
    """Return the lines of the report. If the clock rate `ghz` is known, costs are also printed as times."""
    shown = [f"rule        {choice.rule or 'none: the loops as written'}"]
    for number, algorithm in enumerate(choice.algorithms):
        label = "algorithm" if number == 0 else "instead of"
        shown.append(f"{label:<11} {algorithm_name(algorithm)}: {cost_text(algorithm.cost, ghz)}")
    for number, option in enumerate(choice.weighed):
        label = "taken" if number == 0 else "instead of"
        knobs = with_values(option.knobs if number == 0 else _other_values(option, choice.weighed[0]))
        shown.append(f"{label:<11} {knobs or 'no knobs'}: {cost_text(option.cost, ghz)}")
    others = choice.count - len(choice.weighed)
    if others > 0:
        shown.append(f"{'':<11} and {others} more")
    for option in choice.refused[:_SHOWN_REFUSALS]:
        values = f" {with_values(option.knobs)}" if option.knobs else ""
        shown.append(f"refused     {option.rule}{values}: {option.refused}")
    if len(choice.refused) > _SHOWN_REFUSALS:
        shown.append(f"{'':<11} and {len(choice.refused) - _SHOWN_REFUSALS} more")
    return shown


def _other_values(option: Weighed, taken: Weighed) -> dict[str, Knob]:
    """Return the knobs of an option whose values differ from those of the selected option."""
    return {name: value for name, value in option.knobs.items() if taken.knobs.get(name) != value}


def cost_text(cost: Cost, ghz: float | None = None) -> str:
    """Return a cost as text: `0.121 ms (0.482 million cycles, 0.035 of them for memory)`."""
    cycles = f"{cost.cycles / 1e6:.3g} million cycles, {cost.memory / 1e6:.3g} of them for memory"
    return f"{cost.cycles / ghz / 1e6:.3g} ms ({cycles})" if ghz else cycles
