"""Find inputs on which a `while` ends; on most integers it may be endless, like n / 2 or 3 n + 1 below 1.

If a program takes too many steps on the first inputs, others are tried: numbers of one sign, the same number
everywhere, and mixtures of the numbers on which it ended. Each try has a limited number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir import nodes as t

from ...meaning.steps import limited
from ..flow import Flow
from ..programs import Program, execute, parameters
from .signs import nodes

TRY = 10_000  # steps that a run on inputs to choose from may take
RUN = 3 * TRY  # steps of any run of a program with a `while`, on whatever inputs
NUMBERS = (1, 2, 3, 5, 8, 0, -1, -2, -5)
MIXTURES = 3


def deciding(program: Program) -> frozenset[int]:
    """Return the positions of the parameters that reach the condition of a `while`."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return frozenset()
    if program not in _DECIDING:
        conditions = [n.condition for n in nodes(program) if isinstance(n, t.While)]
        flow = Flow(program) if conditions else None
        places = [flow.into_values([one]).parameters for one in conditions] if flow is not None else []
        _DECIDING[program] = frozenset().union(*places)
    return _DECIDING[program]


_DECIDING: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()


def ending(program: Program, args: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """Return the arguments, or, if the program takes too long on them, others on which it ends (if any are found)."""
    every = parameters(program)
    places = [k for k in deciding(program) if every[k].is_input and every[k].name not in sizes]
    if not places or _ends(program, args, sizes):
        return list(args)

    def replaced(make: Any) -> list[Any]:
        return [_like(a, make(np.asarray(a))) if k in places else a for k, a in enumerate(args)]

    for sign in (1, -1):
        signed = replaced(lambda a, sign=sign: sign * np.where(a == 0, 1, np.abs(a.astype(np.float64))))
        if _ends(program, signed, sizes):
            return signed
    uniform = [(n, replaced(lambda a, n=n: np.full(a.shape, n))) for n in NUMBERS]
    good = [(n, one) for n, one in uniform if _ends(program, one, sizes)]
    if not good:
        return list(args)
    rng = np.random.default_rng(0)
    for _ in range(MIXTURES):
        mixed = replaced(lambda a: rng.choice([n for n, _ in good], a.shape))
        if _ends(program, mixed, sizes):
            return mixed
    return good[0][1]


def _like(old: Any, new: np.ndarray) -> Any:
    """Return numbers in the dtype of an argument; for an unsigned dtype, their absolute values."""
    dtype = np.asarray(old).dtype
    if dtype.kind in "ub":
        new = np.abs(new)
    converted = new.astype(dtype)
    return converted if isinstance(old, np.ndarray) else converted[()]


def _ends(program: Program, args: Sequence[Any], sizes: Mapping[str, int]) -> bool:
    try:
        with limited(TRY):
            execute(program, [np.array(a) if isinstance(a, np.ndarray) else a for a in args], False, sizes)
    except (ExecutionError, Unsupported):
        return False
    return True
