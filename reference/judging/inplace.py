"""Functions that update what the caller passes in: which parameters are in and out, and how a program says so.

A parameter that is written counts as uninitialised at the start of a run, so that a result that is read too early is
noticed. One that is in and out holds a value: `A[i] = max(A[i], 0)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.tir import nodes as t

from ..meaning.findings import UndefinedBehaviour
from .inputs.arguments import copies, random_inputs
from .programs import INOUT, Program, entry, execute, parameters

_MAGNITUDE = 8  # of the numbers on which a program is tried


def marked(program: Program, positions: Sequence[int]) -> Program:
    """The same program with the parameters at these positions in and out; for `parameters` and `execute`."""
    if not positions or not isinstance(program, t.PrimFunc | t.IRModule):
        return program
    func = entry(program)
    with_inout = func.with_attr(INOUT, tuple(positions))
    if isinstance(program, t.PrimFunc):
        return with_inout
    return program.with_function(next(name for name, f in program.items() if f is func), with_inout)


def positions_of(program: Program, names: Sequence[str]) -> tuple[int, ...]:
    """The places of parameters in calling order; InputError for a name that is none of what the program writes."""
    written = {p.name: k for k, p in enumerate(parameters(program)) if p.written}
    unknown = [name for name in names if name not in written]
    if unknown:
        listed = ", ".join(written) or "nothing"
        raise InputError(f"inout names {', '.join(unknown)}, which the program does not write; it writes {listed}")
    return tuple(sorted(written[name] for name in names))


def read_first(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None,
               inputs: Sequence[Any] | None = None, first_places: Sequence[int] = ()) -> tuple[int, ...]:  # fmt: skip
    """The places of the parameters that a program reads before it writes them; `first_places` are some of them.

    What else is undefined in it ends the search; whoever runs it for good says so.
    """
    names = {p.name: k for k, p in enumerate(parameters(program)) if p.written and p.shape is not None}
    places = list(first_places)
    if not names or not _may_read_first(program):
        return tuple(places)
    while len(places) < len(names):
        trial = marked(program, places)
        args = random_inputs(trial, seed, sizes, _MAGNITUDE) if inputs is None else copies(inputs)
        try:
            execute(trial, args, True, sizes)
        except UndefinedBehaviour as error:
            place = names.get(error.finding.buffer)
            if error.finding.kind != "uninitialised read" or place is None or place in places:
                break
            places.append(place)
        except (ExecutionError, Unsupported):
            break
        else:
            break
    return tuple(sorted(places))


def _may_read_first(program: Program) -> bool:
    """Whether a program loads what it writes anywhere but in a reduction, whose init comes first: worth a run."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return False
    func = entry(program)
    written = {p for p, parameter in zip(func.params, parameters(program), strict=True) if parameter.written}
    if any(isinstance(n, t.KernelCall | t.MatchBufferRegion) for n in x.walk(func)):
        return True
    # What a reduction block has initialised it may read. There may be thousands of statements: no recursion.
    rest: list[tuple[x.Node, frozenset[t.Buffer]]] = [(func.body, frozenset())]
    while rest:
        node, updated = rest.pop()
        if isinstance(node, t.Block) and node.init is not None:
            updated = updated | {n.buffer for n in x.walk(node.init) if isinstance(n, t.BufferStore)}
        if isinstance(node, t.BufferLoad) and node.buffer in written and node.buffer not in updated:
            return True
        rest += [(child, updated) for child in x.children(node)]
    return False
