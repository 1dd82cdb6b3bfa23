"""The stages of one function from a loop program to the sources of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import TypeVar

from ..backend import get as get_backend
from ..errors import InternalError, TooMuchCode, VerificationError, report
from ..expr import Expr, Node, Var, format_expr, structural_equal, walk
from ..expr.conditions import is_const
from ..expr.node import kept_with_node
from ..expr.printer import identifier
from ..garbage import collected_seldom
from ..strategy.candidate import Decision
from ..target import Target
from ..tir import nodes as tir
from ..tir.analysis.in_bounds import Unshown, accesses, sizes_of
from ..tir.analysis.size_conditions import condition_of, example_of, needs_no_size, value_at
from ..tir.script.printer import script
from ..tir.transform.pipeline import PassCallback
from .lowered import LoweredFunc, lowered

# --- No kernel is built whose accesses are not shown to be inside their buffers.
#
# `size_conditions(func)` shows it for each load and store, or raises. An access that is inside only for some sizes
# gives a condition on sizes, which becomes a guard of the executable. If all sizes are numbers and nothing depends on
# data, all iterations are listed, so that the answer is certain.


_SIZES = (1, 2, 3, 5, 8, 13)  # tried for sizes at which an access reaches outside


@kept_with_node
def size_conditions(func: tir.PrimFunc) -> tuple[Expr, ...]:
    """Return the conditions on sizes under which every access of a function stays inside its buffer.

    Raises `VerificationError` for an access that is outside, or that cannot be proved to be inside.
    """
    shown = accesses(func)
    sizes = sizes_of(func)
    conditions: list[Expr] = [*shown.assumed, *func.attrs.get("facts", ())]
    for access in shown.unshown:
        if needs_no_size(access) and example_of(access, {}) == (True, None):
            continue
        condition = condition_of(access, sizes)
        if condition is not None and condition.idle and is_const(access.buffer.shape[access.axis], 0):
            conditions.append(condition.whole)  # it has no elements: the loops around the access do not run either
        elif condition is None or is_const(condition.inside, 0):
            decided, example = _example(access, sizes)
            if not decided or example is not None:
                raise _refused(func, access, example if decided else None)
            if sizes:
                raise _refused(func, access, None)
        elif not is_const(condition.inside, 1):
            conditions.append(condition.whole)
    return tuple({str(c): c for c in conditions}.values())


def _example(access: Unshown, sizes: list[Var]) -> tuple[bool, dict[Var, int] | None]:
    """Search for values of sizes and loop variables at which an access is outside its buffer.

    Returns (whether the search was conclusive, an example or None), as `example_of` does.
    """
    if not sizes:
        return example_of(access, {})
    few = product(_SIZES, repeat=len(sizes)) if len(sizes) < 3 else ((n,) * len(sizes) for n in _SIZES)
    for values in few:
        env = dict(zip(sizes, values, strict=True))
        decided, example = example_of(access, env)
        if decided and example is not None:
            return True, {**env, **example}
    return False, None


def _refused(func: tir.PrimFunc, access: Unshown, example: Mapping[Var, int] | None) -> VerificationError:
    """Return the error for an access that is not proved to be inside its buffer. It shows the access, the range in
    which the index must stay, and what the index is.

    `example` gives values for which the access is outside; None if there are none to show.
    """
    buffer, axis = access.buffer, access.axis
    node = access.node
    index = node.indices[axis] if isinstance(node, tir.BufferLoad | tir.BufferStore) else access.index
    name = (
        f"{buffer.name}[{', '.join(map(str, node.indices))}]"
        if isinstance(node, tir.BufferLoad | tir.BufferStore)
        else buffer.name
    )
    verb = "writes" if isinstance(node, tir.BufferStore) else "reads"
    dim = buffer.shape[axis]
    values = _values(access, example or {})
    by_data = access.by_data
    if example is not None:
        headline = f"{func.name}: {name} {verb} outside of {buffer.name}"
        found = f"{_text(index)} is {values}"
    elif by_data:
        headline = f"{func.name}: nothing keeps {name} inside of {buffer.name}"
        found = f"{', '.join(dict.fromkeys(str(e) for e in by_data))}, which may be any {by_data[0].dtype}"
    else:
        headline = f"{func.name}: {name} is not shown to be inside of {buffer.name}"
        found = f"{_text(access.index)}"
    text = script(func, mark={node: f"axis {axis} of {buffer.name} has {dim} elements"}, context=3)
    return VerificationError(
        report(
            headline,
            program=text,
            wanted=f"0 <= {_text(index)} < {_text(dim)} for axis {axis}",
            found=found,
            tries=[
                f"a condition around the access: if_then_else({_text(index)} < {_text(dim)}, ..., 0)",
                f"an index that is moved inside: max(min({_text(index)}, {_text(dim)} - 1), 0)",
                "T.assume(condition) before it, if you know that it holds: the interpreters check it, kernels do not",
            ],
        )
    )


def _values(access: Unshown, example: Mapping[Var, int]) -> str:
    at = ", ".join(f"{v.name} = {n}" for v, n in example.items())
    value = value_at(access.index, example)
    return f"{value}{f' where {at}' if at else ''}"


def _text(e: Expr) -> str:
    return format_expr(e)


# --- Rewrites a function that changes a copy of its input into one that changes the input itself.
#
#     f(.., p, .., r):  A; r[i] = p[i] for all i; S          becomes          f(.., r):  A; S
#
# **Theorem.** If A touches neither p nor r, and S does not touch p, then both functions leave the same values in r, if
# r is equal to p when the second one begins. *Reason*: A does the same in both, since it does not touch p and r. After
# the copy in the first function, and after A in the second, r has the values of p, and S runs on equal memory.


def updating(func: tir.PrimFunc, number: int) -> tir.PrimFunc:
    """Return `func` without input `number`. The result, its last parameter, takes over the memory of this input.

    Raises `InternalError` if the function does not begin with a copy of that input, or reads it elsewhere.
    """
    source, result, root = func.params[number], func.params[-1], tir.root_block(func)
    body = root.body.stmts if isinstance(root.body, tir.Seq) else (root.body,)
    first = next((k for k, stmt in enumerate(body) if _touches(stmt, result)), 0)
    rest = tir.Seq.of(*body[:first], *body[first + 1 :])
    if not _is_copy(body[first], source, result) or _touches(rest, source):
        raise InternalError(
            f"{func.name} does not begin by copying {source} to {result}, or reads it elsewhere\n{func}"
        )
    params = tuple(p for p in func.params if p is not source)
    return tir.with_root(params, rest, dict(func.attrs), alloc_buffers=root.alloc_buffers)


def _is_copy(stmt: tir.Stmt, source: object, result: object) -> bool:
    """Return whether a statement does nothing but `result[i] = source[i]` for every i."""
    extents = []
    while isinstance(stmt, tir.For):
        extents.append((stmt.var, stmt.start, stmt.extent))
        stmt = stmt.body
    if (
        not isinstance(stmt, tir.BlockRealize)
        or not isinstance(result, tir.Buffer)
        or not isinstance(source, tir.Buffer)
    ):
        return False
    block: tir.Block = stmt.block
    store = block.body
    iterators = tuple(it.var for it in block.iter_vars)
    shapes = [source.shape, result.shape, tuple(extent for _, _, extent in extents)]
    return (
        is_const(stmt.predicate, 1)
        and all(is_const(start, 0) for _, start, _ in extents)
        and len({len(shape) for shape in (*shapes, iterators, stmt.iter_values)}) == 1
        and all(a is var for a, (var, _, _) in zip(stmt.iter_values, extents, strict=True))
        and all(structural_equal(a, b) and structural_equal(a, c) for a, b, c in zip(*shapes, strict=True))
        and isinstance(store, tir.BufferStore)
        and isinstance(store.value, tir.BufferLoad)
        and (store.buffer, store.value.buffer) == (result, source)
        and store.predicate is None
        and store.value.predicate is None
        and all(a is b for a, b in zip(store.indices, iterators, strict=True))
        and all(a is b for a, b in zip(store.value.indices, iterators, strict=True))
    )


def _touches(stmt: Node, buffer: object) -> bool:
    return any(isinstance(n, tir.BufferLoad | tir.BufferStore) and n.buffer is buffer for n in walk(stmt))


T = TypeVar("T")


@collected_seldom()
def schedule_function(func: tir.PrimFunc, target: Target, decision: Decision | None = None) -> tir.PrimFunc:
    """Schedule a function with the target's strategy, or with a measured `decision` if it still applies.

    The result's attribute "schedule_trace" holds the steps, and "schedule_choice" the chosen and the rejected
    candidates.
    """
    from .. import strategy

    return strategy.scheduled(func, target, decision=decision)


@collected_seldom()
def to_kernels(func: tir.PrimFunc, target: Target, callback: PassCallback | None = None) -> tir.IRModule:
    """Split a scheduled loop program into a host function and its kernels."""
    from ..strategy.candidate import choice_of
    from ..strategy.registry import has_fallback
    from ..tir.transform.pipeline import lower

    # A function that the strategy scheduled can get a simpler schedule, if the target has one. A function that you
    # scheduled is lowered whatever its size, and so is a program of an accelerator, whose rules respect its memories.
    limited = bool(choice_of(func).rule) and has_fallback(target)
    return lower(func, target, identifier(func.name), callback=callback, limited=limited)


@collected_seldom()
def lower_function(
    func: tir.PrimFunc, target: Target, callback: PassCallback | None = None, before: tir.PrimFunc | None = None
) -> LoweredFunc:
    """Lower a scheduled loop program to a host function and its kernels, and generate kernel source.

    `before` is the function before it was scheduled (default: `func`). All of its accesses must be inside their
    buffers; otherwise `VerificationError` is raised. This check is enough, because schedules and passes do not change
    which elements a function accesses.
    """
    generate = get_backend(target).part("generate")
    conditions = size_conditions(func if before is None else before)
    module = to_kernels(func, target, callback)
    sources = {name: generate(kernel, target) for name, kernel in module.items() if not kernel.attrs.get("host")}
    return lowered(func, module, sources, target, conditions)


def with_a_schedule(
    func: tir.PrimFunc, target: Target, lower: Callable[[tir.PrimFunc], T], decision: Decision | None = None
) -> T:
    """Call `lower(scheduled)` with the schedule of `schedule_function`, and return its result.

    If this schedule generates too much code, a simpler one is lowered: first the schedule of the fallback rule, and
    then the loops as written. The record of the choice contains the reason.
    """
    from .. import strategy

    scheduled = schedule_function(func, target, decision)
    refused: tuple[strategy.Weighed, ...] = ()
    while True:
        try:
            return lower(scheduled)
        except TooMuchCode as error:
            taken = strategy.choice_of(scheduled).taken
            if taken is None:
                raise
            refused = (*refused, replace(taken, refused=strategy.reason(error)))
            scheduled = strategy.simpler(func, target, refused)
