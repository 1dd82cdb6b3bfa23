"""The modes of `reference.check`, one file each, found by their files: `modes/NAME.py` defines `mode`.

A mode compares two programs in one way: on inputs without rounding (exact), over a finite field (field), at special
values (special), with error bounds (bound), by checking accesses (shadow), in other orders (order), or, if nothing else
can judge, on random floats (floats). It returns `Evidence`, and gets the evidence of earlier modes; modes know nothing
else of each other. A mode that cannot judge these programs raises `Unsupported` with the reason, and the check goes on
without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

from ..case import Case
from ..evidence import Evidence
from ..verdict import Verdict


class Mode(Protocol):
    """One way to compare two programs.

    `compares` tells whether an equal verdict means that the values agree; shadow and order only look for other faults.
    Modes run in the order of `rank`, strong and cheap ones first: exact 10, field 20, bound 50, special 60, floats 70,
    shadow 80, order 90. `on(case, inputs, like)` compares on chosen inputs, as for the verdict `like`; if a mode has no
    `on`, its counterexamples are not made smaller.
    """

    name: str
    compares: bool
    rank: int
    on: Callable[[Case, Sequence[Any], Verdict], Verdict] | None

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        """Compare `case.before` and `case.after`. Facts that `evidence` already shows need not be shown again.

        Raises `Unsupported` to refuse.
        """
        ...


@cache
def known_modes() -> dict[str, Mode]:
    """Return all modes by name, in the order in which they run."""
    modules = [m.name for m in pkgutil.iter_modules(__path__)]
    modes: list[Mode] = [importlib.import_module(f".{name}", __name__).mode for name in modules]
    return {mode.name: mode for mode in sorted(modes, key=lambda mode: mode.rank)}
