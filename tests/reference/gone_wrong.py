"""Programs with one thing wrong: both modes of the interpreters end alike, and what depends on an order is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, MinitvmError
from minitvm.expr import Range, const, replace, rewrite, walk
from minitvm.reference import kernel, tir
from minitvm.tir.nodes import (
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IRModule,
    MatchBufferRegion,
    PrimFunc,
    Seq,
)
from minitvm.tir.transform import lower
from tests.tir.transform.block_programs import Blocks, block_arguments, block_program, copies
from tests.tir.transform.grid_programs import grid_program


def changed(random: Random, func: PrimFunc) -> PrimFunc:
    """The function with something wrong, maybe: an index one further or lost, a store lost, a view moved, loops whose
    iterations claim to have no order."""
    kinds = (For, For, BufferLoad, BufferStore, BufferStore, MatchBufferRegion, MatchBufferRegion, MatchBufferRegion)
    nodes = list({id(n): n for n in walk(func.body) if isinstance(n, kinds)}.values())
    kind = random.choice([k for k in kinds if any(isinstance(n, k) for n in nodes)])
    place = random.choice([n for n in nodes if isinstance(n, kind)])
    by, how = random.choice((1, -1, 2)), random.choice(("moved", "moved", "lost", "fixed", "fixed", "fixed"))
    every, claim = random.random() < 0.5, random.choice((ForKind.PARALLEL, ForKind.VECTORIZED))

    def change(node: Any) -> Any:
        if isinstance(node, For) and kind is For and node.kind is ForKind.SERIAL:
            chosen = random.random() < 0.4 if every else node.var is place.var
            return replace(node, kind=claim, annotations={}) if chosen else None
        if node is not place or kind is For:
            return None
        if kind is MatchBufferRegion:
            region = list(node.source.region)
            axis = random.randrange(len(region))
            region[axis] = Range(region[axis].start + by, region[axis].extent)
            return replace(node, source=BufferRegion(node.source.buffer, tuple(region)))
        if kind is BufferStore and how == "lost":
            return Seq(())
        axis = random.randrange(len(node.indices)) if node.indices else 0
        moved = [const(0) if how == "fixed" else i + by for i in node.indices]
        return replace(node, indices=tuple(m if k == axis else i for k, (i, m) in enumerate(zip(node.indices, moved))))

    return func.with_body(rewrite(func.body, change))


def without_barrier(random: Random, module: IRModule) -> IRModule:
    """The module without one of its barriers."""
    barriers = [(name, n) for name, f in module.items() for n in walk(f.body) if isinstance(n, Evaluate)]
    if not barriers:
        return module
    name, gone = random.choice(barriers)
    body = rewrite(module[name].body, lambda n: Seq(()) if n is gone else None)
    return module.with_function(name, module[name].with_body(body))


def outcome(level: Any, program: Any, args: list[Any], **options: Any) -> tuple[str, list[Any]]:
    """How a run ends, and what it leaves."""
    after = copies(args)
    try:
        level.run(program, *after, **options)
    except ExecutionError as error:
        return str(error), []
    except IndexError as crash:
        raise AssertionError(f"the interpreter let an index pass: {crash}\n{program}") from crash
    return "", after


def alike(level: Any, program: Any, args: list[Any], inout: list[str]) -> None:
    """Both modes; and, where nothing was found wrong, other orders of what claims to have none."""
    slow, wanted = outcome(level, program, args, mode="slow", inout=inout)
    fast, found = outcome(level, program, args, mode="fast", inout=inout)
    assert bool(slow) == bool(fast), f"slow: {slow or 'no error'}\nfast: {fast or 'no error'}\n{program}"
    assert same(found, wanted), f"the modes differ on\n{program}"
    if slow:
        return
    for order in ("backward", "shuffled"):
        end, others = outcome(level, program, args, mode="slow", inout=inout, shadow=False, order=order)
        assert not end and same(others, wanted), f"{order}, another result of what was not refused:\n{program}"


def same(found: list[Any], wanted: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def goes_wrong_alike(seed: int) -> None:
    """A program of blocks or of threads, as loops and lowered."""
    random = Random(seed)
    if seed % 4 == 3:  # as it comes, before anybody has seen to it that it is right
        made: Any = Blocks(seed).func(), block_arguments(seed)
    else:
        made = (block_program if seed % 4 == 2 else grid_program)(seed)
    if made is None:
        return
    func, args = made[0], made[1]
    for _ in range(random.choice((1, 1, 2)) if seed % 8 != 3 else 0):
        func = changed(random, func)
    inout = [p.name for p in func.buffers if random.random() < 0.9]
    alike(tir, func, args, inout)
    try:
        module = lower(func, None, "main")
    except (MinitvmError, AssertionError):
        return
    if random.random() < 0.5:
        module = without_barrier(random, module)
    alike(kernel, module, args, [p.name for p in func.buffers])
