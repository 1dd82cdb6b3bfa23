"""Let modules wait for each other by tokens, if instructions of two modules access an element and one of them writes
it.

    load A; gemm A   ->   load A; push(load, compute); pop(load, compute); gemm A

Load, compute and store run at the same time; instructions of one module run in order. The tiles determine which
instructions must wait, element by element, so tokens are added only between instructions that conflict. A wait that
follows from other waits is left out: the pass tracks which instructions of each module have ended before an instruction
begins (vector clocks; Lamport 1978, Mattern 1989). In each queue, successive waits are for later and later
instructions, so the k-th pop gets the token of the k-th push.

Machines whose hardware tracks hazards do not use this pass. VTA's compiler does the same on loops ("InjectCoProcSync",
Moreau et al.); here loops are already unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....errors import Unsupported
from ....target import Target
from ....tir.analysis.scratchpads import Array, extents_of, is_scratchpad, planned, read_and_written, strided
from ....tir.nodes import Allocate, Buffer, Instruction, PrimFunc, Seq, Stmt
from ..instruction_set import FINISH, module_of, token

MODULES = ("load", "compute", "store")
NEIGHBOURS = {("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")}
Places = list[tuple[str, Array, bool]]  # scratchpads, elements, whether they are written
Clock = dict[str, int]  # for each module, the last instruction that has ended


def insert_tokens(func: PrimFunc, target: Target) -> PrimFunc:
    """Return the program with pushes and pops. Runs after `fetch_order`. A function without instructions stays as it
    is.

    `target.config` gives the number of elements of the scratchpads. Raises `InputError` if they are too small.
    """
    storage: list[Allocate] = []
    body: Stmt = func.body
    while isinstance(body, Allocate):
        storage.append(body)
        body = body.body
    if not isinstance(body, Seq) or not any(isinstance(s, Instruction) and s.name == FINISH for s in body.stmts):
        return func
    elements, depths = target.config.elements(), target.config.depths()
    ordered = _ordered(list(body.stmts), _LastTouches(planned(func.body, depths, elements), depths, elements))
    body = Seq(tuple(ordered))
    for allocation in reversed(storage):
        body = Allocate(allocation.buffer, body, allocation.annotations)
    return func.with_body(body)


class _LastTouches:
    """Records which instruction last accessed each element of each scratchpad."""

    def __init__(
        self, first: Mapping[Buffer, int], depths: Mapping[str, int], elements: Mapping[str, Sequence[int]]
    ) -> None:
        self.first, self.elements = first, elements
        self.wrote = {(s, m): np.full(n, -1, np.int64) for s, n in depths.items() for m in MODULES}
        self.touched = {(s, m): np.full(n, -1, np.int64) for s, n in depths.items() for m in MODULES}

    def places(self, stmt: Instruction) -> Places:
        """Return (scratchpad, elements, whether they are written) for each tile of an instruction."""
        _, written = read_and_written(stmt)
        extents, found = extents_of(stmt), []
        for tile in stmt.tiles:
            scope = tile.buffer.scope
            if is_scratchpad(scope):
                at = strided(stmt, tile, self.elements[scope]).indices(extents) + self.first[tile.buffer]
                found.append((scope, np.unique(at), tile.buffer in written))
        return found

    def before(self, places: Places) -> Clock:
        """Return, for each module, the last instruction that must end before one that accesses these places begins."""
        latest: Clock = dict.fromkeys(MODULES, -1)
        for scope, at, writes in places:
            for module in MODULES:
                earlier = (self.touched if writes else self.wrote)[scope, module][at]
                latest[module] = max(latest[module], int(earlier.max(initial=-1)))
        return latest

    def touch(self, places: Places, module: str, number: int) -> None:
        for scope, at, writes in places:
            self.touched[scope, module][at] = number
            if writes:
                self.wrote[scope, module][at] = number


def _ordered(stmts: list[Stmt], memory: _LastTouches) -> list[Stmt]:
    pops: list[list[str]] = []
    pushes: list[list[str]] = []
    now: dict[str, Clock] = {m: dict.fromkeys(MODULES, -1) for m in MODULES}
    ended: list[Clock] = []
    stored = -1
    for number, stmt in enumerate(stmts):
        if not isinstance(stmt, Instruction):
            raise Unsupported(f"{type(stmt).__name__} in a program of the accelerator")
        module = module_of(stmt.name)
        places = memory.places(stmt)
        wanted = memory.before(places)
        if stmt.name == FINISH:
            wanted["store"] = stored
        waits = {m: at for m, at in wanted.items() if m != module and at > now[module][m]}
        pops.append([])
        pushes.append([])
        for other, at in waits.items():
            if (other, module) not in NEIGHBOURS:
                raise Unsupported(f"instruction {number}, {stmt.name}, has to wait for {other}, which is no neighbour")
            pushes[at].append(token("push", other, module))
            pops[number].append(token("pop", other, module))
            for m in MODULES:
                now[module][m] = max(now[module][m], ended[at][m])
        now[module][module] = number
        ended.append(dict(now[module]))
        stored = number if module == "store" else stored
        memory.touch(places, module, number)
    ordered: list[Stmt] = []
    for stmt, before, after in zip(stmts, pops, pushes, strict=True):
        ordered += [*map(_token, before), stmt, *map(_token, after)]
    return ordered


def _token(name: str) -> Instruction:
    return Instruction(name, (), Seq(()))
