"""No kernel is built whose accesses are not shown to be inside their buffers.

`size_conditions(func)` shows it for each load and store, or raises. An access that is inside for some sizes only gives
a condition on sizes, which becomes a guard of the executable. Where all sizes are numbers and no data decide, all
iterations are listed, so that the answer is certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from ..errors import VerificationError, report
from ..expr import Expr, Var, format_expr
from ..expr.conditions import is_const
from ..expr.kept import kept_with_node
from ..tir.analysis.in_bounds import Unshown, accesses, sizes_of
from ..tir.analysis.size_conditions import condition_of, example_of, needs_no_size, value_at
from ..tir.nodes import BufferLoad, BufferStore, PrimFunc
from ..tir.script.printer import script

_SIZES = (1, 2, 3, 5, 8, 13)  # tried for sizes at which an access reaches outside


@kept_with_node
def size_conditions(func: PrimFunc) -> tuple[Expr, ...]:
    """Conditions on sizes under which all accesses of a function are inside their buffers.

    Raises `VerificationError` for an access that is outside, or that nothing shows to be inside.
    """
    shown = accesses(func)
    sizes = sizes_of(func)
    conditions: list[Expr] = [*shown.assumed, *func.attrs.get("facts", ())]
    for access in shown.unshown:
        if needs_no_size(access) and example_of(access, {}) == (True, None):
            continue
        condition = condition_of(access, sizes)
        if condition is not None and condition.idle and is_const(access.buffer.shape[access.axis], 0):
            conditions.append(condition.whole)  # it has no elements: the loops around the access run for none either
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
    """Values of sizes and loop variables at which an access is outside, as `example_of`."""
    if not sizes:
        return example_of(access, {})
    few = product(_SIZES, repeat=len(sizes)) if len(sizes) < 3 else ((n,) * len(sizes) for n in _SIZES)
    for values in few:
        env = dict(zip(sizes, values, strict=True))
        decided, example = example_of(access, env)
        if decided and example is not None:
            return True, {**env, **example}
    return False, None


def _refused(func: PrimFunc, access: Unshown, example: Mapping[Var, int] | None) -> VerificationError:
    """The error for an access: the spot, the range that was wanted, and what decides the index."""
    buffer, axis = access.buffer, access.axis
    node = access.node
    index = node.indices[axis] if isinstance(node, BufferLoad | BufferStore) else access.index
    name = (
        f"{buffer.name}[{', '.join(map(str, node.indices))}]"
        if isinstance(node, BufferLoad | BufferStore)
        else buffer.name
    )
    verb = "writes" if isinstance(node, BufferStore) else "reads"
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
