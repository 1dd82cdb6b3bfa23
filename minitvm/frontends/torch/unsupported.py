"""List all operators of a program without a converter at once."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from ...errors import UnsupportedOperator, report
from .context import source_line
from .control_flow import is_region
from .registry import find, refusal

LONGEST = 12  # operators that an error lists

# Operators that check their arguments and compute nothing.
ASSERTIONS = frozenset({
    "aten._assert_async.msg", "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
})  # fmt: skip

# Operators that call a module of the program in a mode that has no meaning here.
_MODES = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


def refuse_unsupported(module: Any) -> None:
    """Raise `UnsupportedOperator` if a module calls operators without a converter; it lists all of them."""
    lines: dict[str, list[str]] = {}
    for node in _unsupported(module):
        line = source_line(node)
        lines.setdefault(str(node.target), []).append(f"node {node.name}" + (f", {line}" if line else ""))
    if not lines:
        return
    texts = [_described(target, places) for target, places in lines.items()]
    left_out = [f"and {len(texts) - LONGEST} more"] if len(texts) > LONGEST else []
    if len(texts) == 1:
        raise UnsupportedOperator(texts[0])
    raise UnsupportedOperator(
        report(f"{len(texts)} operators are not supported", program="\n".join([*texts[:LONGEST], *left_out]))
    )


def is_inlined(node: Any) -> bool:
    """Return whether a node calls a module of the program in a mode that has no meaning here."""
    return str(node.target) in _MODES


def _unsupported(module: Any) -> Iterator[Any]:
    for node in module.graph.nodes:
        if node.op == "call_module":
            yield node
        if node.op != "call_function" or node.target is operator.getitem or str(node.target) in ASSERTIONS:
            continue
        if is_inlined(node) or is_region(node):
            for inner in (arg.target for arg in node.args if getattr(arg, "op", None) == "get_attr"):
                if hasattr(getattr(module, inner), "graph"):
                    yield from _unsupported(getattr(module, inner))
        elif type(node.meta.get("val")).__name__ in ("SymInt", "SymFloat", "SymBool", "int", "float", "bool"):
            if not _is_about_sizes(node):
                yield node
        elif find(str(node.target)) is None:
            yield node


def _is_about_sizes(node: Any) -> bool:
    """Return whether a number is computed only from sizes, instead of read from an element of a tensor."""
    return not str(node.target).startswith("aten.") or str(node.target).startswith("aten.sym_")


def _described(target: str, places: list[str]) -> str:
    reason = refusal(target)
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"operator {target} ({places[0]}{more}) is not supported" + (f": {reason}" if reason else "")
