"""Do two programs mean the same? `check` looks at both in several modes, each a file of `reference.modes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minitvm.errors import InputError, Unsupported

from .arguments import chosen_sizes, random_inputs
from .modes import known_modes
from .modes.case import Case, Undefined
from .modes.exact import exact_arguments
from .programs import Program, execute, same_signature
from .tolerance import close
from .verdict import Verdict

DEFAULT = ("exact", "field", "shadow")
LAST_RESORT = "floats"

__all__ = ["Verdict", "check", "close", "exact_arguments", "execute", "random_inputs"]


def check(
    before: Program,
    after: Program,
    *,
    modes: Sequence[str] = DEFAULT,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
) -> Verdict:
    """Whether two programs with the same parameters write the same values.

    A program is a `PrimFunc`, an `IRModule` or a list of te tensors, in calling order; the two may be of different
    levels. `modes` names those to try. One that cannot judge these programs is left out, and the verdict says why; when
    all that compare values are, random floats are compared instead, up to rounding. `inputs` are arguments in calling
    order to use instead of random ones. An undefined action of `before` raises its `ExecutionError`: there is nothing
    to compare with; one of `after` is a difference.
    """
    known = known_modes()
    unknown = set(modes) - set(known)
    if unknown:
        raise InputError(f"modes {', '.join(sorted(unknown))} are unknown; known: {', '.join(known)}")
    same_signature(before, after)
    case = Case(before, after, seed, chosen_sizes(before, seed, sizes), inputs, "shadow" in modes)
    ran: dict[str, Verdict] = {}
    refused: dict[str, str] = {}
    # The last resort comes after those that compare and before those that look for faults of another kind.
    for name in (name for name in known if name in modes or name == LAST_RESORT):
        if name == LAST_RESORT and name not in modes and any(known[n].compares for n in ran):
            continue
        try:
            verdict = known[name].run(case)
        except Unsupported as reason:
            refused[name] = str(reason)
            continue
        except Undefined as found:
            verdict = Verdict(False, "shadow" if case.shadow else name, str(found), inputs=found.inputs)
        ran[name] = verdict
        if not verdict:
            break
    if not ran:
        reasons = "".join(f"\n  {name}: {why}" for name, why in refused.items())
        raise Unsupported(f"the programs cannot be compared: every mode refuses{reasons}")
    told = next((v for v in ran.values() if not v), next(iter(ran.values())))
    return replace(told, ran=tuple(ran), refused=refused)
