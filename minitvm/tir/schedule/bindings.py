"""Are a block's iterator values an injective quasi-affine map of its loops, and do they reach the whole domain?

Each value must be a sum of *digits* of loops, in mixed radix: a digit of loop l is `l // lower % extent`, a part of l
between two multiplicative positions. The map is injective when no digit occurs twice, every digit of every loop occurs,
and in each sum a digit's coefficient is at least the number of values that the smaller ones take together. After
TVM's DetectIterMap, restricted to what injectivity needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...arith import Analyzer
from ...expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Range, Sub, Var
from ..nodes import BlockRealize, For


@dataclass(frozen=True, slots=True)
class Digit:
    """`loop // lower % extent * coefficient`."""

    var: Var
    lower: int
    extent: int
    coefficient: int


def digits(e: Expr, extents: dict[Var, int]) -> list[Digit] | None:
    """A simplified index as a sum of digits plus anything without loops; None where it is not one."""
    if isinstance(e, Add | Sub):
        left, right = digits(e.a, extents), digits(e.b, extents)
        if left is None or right is None:
            return None
        return left + right if isinstance(e, Add) else left + [_scaled(d, -1) for d in right]
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        inner = digits(e.a, extents)
        return None if inner is None else [_scaled(d, e.b.value) for d in inner]
    if isinstance(e, Var):
        return [Digit(e, 1, extents[e], 1)] if e in extents else []
    if isinstance(e, FloorDiv | FloorMod) and isinstance(e.b, IntImm) and e.b.value > 0:
        inner = digits(e.a, extents)
        if inner is None or len(inner) > 1 or (inner and inner[0].coefficient != 1):
            return None
        return [_part(d, e.b.value, isinstance(e, FloorDiv)) for d in inner] if inner else _free(e, extents)
    return _free(e, extents)


def _free(e: Expr, extents: dict[Var, int]) -> list[Digit] | None:
    from ...expr import walk

    return None if any(part in extents for part in walk(e) if isinstance(part, Var)) else []


def _scaled(digit: Digit, factor: int) -> Digit:
    return Digit(digit.var, digit.lower, digit.extent, digit.coefficient * factor)


def _part(digit: Digit, divisor: int, quotient: bool) -> Digit:
    if quotient:
        return Digit(digit.var, digit.lower * divisor, -(-digit.extent // divisor), 1)
    return Digit(digit.var, digit.lower, min(divisor, digit.extent), 1)


def why_not_injective(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> str | None:
    """None where `loops` map injectively to the iterators of a block (other variables held fixed), else why not.

    Loops of extent 1 do not count. A symbolic extent is fine for a loop that is used whole, as the largest digit.
    """
    extents: dict[Var, int] = {}
    for loop in loops:
        extents[loop.var] = analyzer_extent(analyzer, loop)
    found: list[Digit] = []
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        parts = digits(analyzer.simplify(value), extents)
        if parts is None:
            return f"{it.var.name} = {value} is not a sum of parts of loops"
        parts = [d for d in parts if d.extent > 1]
        reach = 1
        for digit in sorted(parts, key=lambda d: abs(d.coefficient)):
            if abs(digit.coefficient) < reach:
                return f"{it.var.name} = {value} takes one value at several iterations"
            reach += abs(digit.coefficient) * (digit.extent - 1)
        found += parts
    return next((reason for loop in loops if (reason := _why_not_whole(loop, extents[loop.var], found))), None)


_UNKNOWN = 1 << 62


def analyzer_extent(analyzer: Analyzer, loop: For) -> int:
    """The most iterations of a loop; a number too large for anything to stand above it, where that is not known."""
    _, high = analyzer.bounds(loop.extent)
    return _UNKNOWN if high is None else int(high)


def _why_not_whole(loop: For, extent: int, found: Sequence[Digit]) -> str | None:
    if extent <= 1:
        return None
    parts = sorted((d for d in found if d.var is loop.var), key=lambda d: d.lower)
    position = 1
    for digit in parts:
        if digit.lower > position:
            break
        position = max(position, digit.lower * digit.extent)
    if position >= extent:
        return None
    return f"iterations of {loop.var.name} bind the same iterators" if parts else f"{loop.var.name} binds no iterator"


def covers_domain(realize: BlockRealize, loops: Sequence[For], analyzer: Analyzer) -> bool:
    """Whether every point of the block's iteration domain is reached, its predicate aside.

    Shown for values that range over their domain one by one: each is a sum of digits in mixed radix without gaps.
    """
    extents: dict[Var, int] = {}
    for loop in loops:
        if not isinstance(loop.extent, IntImm):
            extents[loop.var] = _UNKNOWN
            continue
        extents[loop.var] = loop.extent.value
    used: set[tuple[Var, int]] = set()
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        whole = isinstance(value, Var) and value in extents
        if whole and any(l.var is value and analyzer.can_prove_equal(l.extent, it.dom.extent) for l in loops):
            used.add((value, 1))  # type: ignore[arg-type]
            continue
        parts = digits(analyzer.simplify(value - it.dom.start), extents)
        if parts is None or any(d.coefficient <= 0 or d.extent == _UNKNOWN for d in parts):
            return False
        reach = 1
        for digit in sorted((d for d in parts if d.extent > 1), key=lambda d: d.coefficient):
            if digit.coefficient > reach or (digit.var, digit.lower) in used:
                return False
            used.add((digit.var, digit.lower))
            reach += digit.coefficient * (digit.extent - 1)
        low, _ = analyzer.bounds(value - it.dom.start)
        if low != 0 or not analyzer.can_prove(it.dom.extent <= reach):
            return False
    return True


def loop_ranges(loops: Sequence[For]) -> dict[Var, Range]:
    """The range of each loop's variable."""
    return {loop.var: Range(loop.start, loop.extent) for loop in loops}
