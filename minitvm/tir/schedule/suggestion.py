"""Find the layout in which an access pattern runs through memory in loop order: TVM's `suggest_index_map`."""

from __future__ import annotations

from collections.abc import Sequence

from ...arith import Analyzer
from ...arith.iter_detector import IterSplit, IterSum
from ...arith.iter_map import detect
from ...expr import Expr, IntImm, Range, Var, as_expr, const
from ..index_map import IndexMap
from ..nodes import Buffer, For


def suggest_index_map(
    buffer: Buffer, indices: Sequence[Expr], loops: Sequence[For], predicate: Expr | bool = True
) -> IndexMap | None:
    """Return a layout of `buffer` in which the elements at `indices` are consecutive as `loops` (outermost first) run.

    The flattened access must be a quasi-affine map of the loops where `predicate` holds; otherwise the result is None.
    Each part of a loop in this map becomes an index of the new layout, in loop order. This is TVM's function of the
    same name.
    """
    places = {loop.var: k for k, loop in enumerate(loops)}
    domains = {loop.var: Range(as_expr(loop.start), as_expr(loop.extent)) for loop in loops}
    flat = Analyzer(domains).simplify(_flattened(buffer, [as_expr(index) for index in indices]))
    normal = detect([flat], domains, as_expr(predicate), "surjective", fuse_first=True)
    parts = _parts(normal.sums[0]) if normal else None
    if not parts or any(not split.extent.is_const for _, split in parts):
        return None
    order = sorted(range(len(parts)), key=lambda k: (places[parts[k][0]], -int(parts[k][1].lower_factor.const)))
    initial = tuple(Var(f"i{d}", dim.dtype) for d, dim in enumerate(buffer.shape))
    domain = {v: Range(const(0, dim.dtype), dim) for v, dim in zip(initial, buffer.shape, strict=True)}
    analyzer = Analyzer(domain)
    rest: Expr = _flattened(buffer, initial)
    pieces: list[Expr] = []
    for _, split in reversed(parts):
        extent = int(split.extent.const)
        rest = analyzer.simplify(rest)
        pieces.insert(0, analyzer.simplify(rest % extent))
        rest = rest // extent
    return IndexMap(initial, tuple(pieces[k] for k in order))


def _flattened(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    flat: Expr = const(0, buffer.shape[0].dtype if buffer.shape else "int32")
    for index, dim in zip(indices, buffer.shape, strict=True):
        flat = index if isinstance(flat, IntImm) else flat * dim + index
    return flat


def _parts(row: IterSum) -> list[tuple[Var, IterSplit]] | None:
    """Return (loop variable, split) for each term of a sum, largest step first, taking fused iterators apart.

    For example, `i*64 + j//4*8` gives the parts of i and of j. Returns None if only a part of a fused iterator is used.
    """
    parts: list[tuple[Var, IterSplit]] = []
    if any(not split.scale.is_const for split in row.args):
        return None
    for split in sorted(row.args, key=lambda split: -int(split.scale.const)):
        source = split.mark.source
        if isinstance(source, Var):
            parts.append((source, split))
            continue
        inner = _parts(source)
        if inner is None or split.extent != split.mark.extent or not split.lower_factor.is_const:
            return None
        parts += inner
    return parts
