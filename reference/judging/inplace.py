"""Functions that update arrays of the caller: which parameters are in and out, and how a program is marked.

A parameter that is written counts as uninitialised at the start of a run, so that reading a result too early is an
error. A parameter that is in and out has a value at the start, as in `A[i] = max(A[i], 0)`.
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
    """Return the same program with the parameters at these positions marked as in and out."""
    if not positions or not isinstance(program, t.PrimFunc | t.IRModule):
        return program
    func = entry(program)
    with_inout = func.with_attr(INOUT, tuple(positions))
    if isinstance(program, t.PrimFunc):
        return with_inout
    return program.with_function(next(name for name, f in program.items() if f is func), with_inout)


def positions_of(program: Program, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of parameters in calling order; raises `InputError` for one that the program does not
    write.
    """
    written = {p.name: k for k, p in enumerate(parameters(program)) if p.written}
    unknown = [name for name in names if name not in written]
    if unknown:
        listed = ", ".join(written) or "nothing"
        raise InputError(f"inout names {', '.join(unknown)}, which the program does not write; it writes {listed}")
    return tuple(sorted(written[name] for name in names))


def read_first(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None,
               inputs: Sequence[Any] | None = None, first_places: Sequence[int] = ()) -> tuple[int, ...]:  # fmt: skip
    """Return the positions of the parameters that a program reads before it writes them, including `first_places`.

    Other undefined behaviour ends the search; a later run reports it.
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
    """Return whether a program loads a buffer that it writes, other than in a reduction with an init; then a run is
    needed.
    """
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return False
    func = entry(program)
    written = {p for p, parameter in zip(func.params, parameters(program), strict=True) if parameter.written}
    if any(isinstance(n, t.KernelCall | t.MatchBufferRegion) for n in x.walk(func)):
        return True
    # A reduction block may read the elements that it initialised. There may be thousands of statements: no recursion.
    rest: list[tuple[x.Node, frozenset[t.Buffer]]] = [(func.body, frozenset())]
    while rest:
        node, updated = rest.pop()
        if isinstance(node, t.Block) and node.init is not None:
            updated = updated | {n.buffer for n in x.walk(node.init) if isinstance(n, t.BufferStore)}
        if isinstance(node, t.BufferLoad) and node.buffer in written and node.buffer not in updated:
            return True
        rest += [(child, updated) for child in x.children(node)]
    return False
