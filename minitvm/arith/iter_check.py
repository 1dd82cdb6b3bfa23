"""Check whether an iteration map in normal form is independent (surjective), one-to-one (injective), or both, and
invert it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..expr import Expr, Var, as_expr
from .affine import Affine, divide_monomial, multiply
from .analyzer import Analyzer
from .iter_detector import Detector, IterMap, IterMark, IterSplit, IterSum, NotAffine

_ONE = Affine({}, 1)


def check(sums: tuple[IterSum, ...], detector: Detector, level: str) -> tuple[list[str], int | None]:
    """Return the reasons why `sums` lacks the property `level`, and the index of the sum whose values repeat.

    The list is empty if the property holds; the index is None if no sum repeats its values.
    """
    if level in ("surjective", "bijective"):
        errors = _independence(sums, detector)
        if errors:
            return errors, None
    if level in ("injective", "bijective"):
        for position, row in enumerate(sums):
            error = _steps_overlap(row, detector)
            if error:
                return [error], position
        return _injectivity(sums, detector), None
    return [], None


# A map is surjective onto the product of its bindings' values if each binding is one iterator (its terms fuse without
# gap or overlap) and no two splits, at any level of fusing, use the same digits of an iterator.
def _independence(sums: tuple[IterSum, ...], detector: Detector) -> list[str]:
    used: dict[IterMark, list[IterSplit]] = {}
    direct: set[Any] = set()
    for row in sums:
        try:
            if len(row.args) > 1:
                detector.fuse(row)
        except NotAffine as error:
            return [str(error)]
        for split in row.args:
            _collect(split, used)
            direct.add(detector.key(split))
    for steps, _ in detector.limits:
        apart = next((s for splits in used.values() for s in splits if _apart(s, steps, direct, detector)), None)
        if apart is not None:
            return [f"{apart} is used apart from the sum that the predicate bounds"]
    limited = [key for steps, _ in detector.limits for key in steps]
    if len(limited) != len(set(limited)):
        return ["two bounds of the predicate share an iterator"]
    errors = []
    for mark, splits in used.items():
        errors += _disjoint_digits(mark, splits, detector)
    return errors


def _apart(split: IterSplit, steps: dict[Any, Affine], direct: set[Any], detector: Detector) -> bool:
    """Return whether a split uses part of an iterator in a bounded sum, but is used outside of this sum.

    For example, under the predicate `i*4 + j < 30` no binding may be `i` alone. `steps` has the keys of the splits in
    the bounded sum, and `direct` the keys of the splits that are terms of a binding.
    """
    key = detector.key(split)
    if key in steps:
        return key in direct
    end = detector.times(split.lower_factor, split.extent)
    for mark, lower, extent in steps:
        if mark == id(split.mark):
            above = detector.at_most(detector.times(lower, extent), split.lower_factor)
            if not above and not detector.at_most(end, lower):
                return True
    return False


def _collect(split: IterSplit, used: dict[IterMark, list[IterSplit]]) -> None:
    first = split.mark not in used
    used.setdefault(split.mark, []).append(split)
    if first and not isinstance(split.mark.source, Var):
        for inner in split.mark.source.args:
            _collect(inner, used)


def _disjoint_digits(mark: IterMark, splits: list[IterSplit], detector: Detector) -> list[str]:
    try:
        ordered = _by_factor(splits, detector)
    except LookupError:
        return [f"the parts of {mark} cannot be put in order: {', '.join(map(str, splits))}"]
    for low, high in pairwise(ordered):
        if detector.divide(high.lower_factor, detector.times(low.lower_factor, low.extent)) is None:
            return [f"{low} and {high} use the same part of {mark}"]
    if len(ordered) > 1:
        top = ordered[-1]
        reach = detector.times(top.lower_factor, top.extent)
        if not detector.at_most(reach, mark.extent):
            return [f"{', '.join(map(str, ordered))} do not divide {mark} evenly: its last tile is not full"]
    return []


def _by_factor(splits: Sequence[IterSplit], detector: Detector) -> list[IterSplit]:
    rest, result = list(splits), []
    while rest:
        least = next((s for s in rest if all(t is s or _before(s, t, detector) for t in rest)), None)
        if least is None:
            raise LookupError
        rest.remove(least)
        result.append(least)
    return result


def _before(a: IterSplit, b: IterSplit, detector: Detector) -> bool:
    if detector.at_most(a.lower_factor, b.lower_factor):
        return True
    # A symbolic factor is not zero, because it is a divisor. So its divisors are not larger than it is.
    return detector.divide(b.lower_factor, a.lower_factor) is not None


# A map is injective if three conditions hold. Each binding's value determines its splits: each step is larger than the
# sum of all smaller ones. The splits of an iterator determine its value: their digits cover its extent without a gap.
# And in the end every loop is determined.
def _injectivity(sums: tuple[IterSum, ...], detector: Detector) -> list[str]:
    splits_of: dict[IterMark, list[IterSplit]] = {}
    for row in sums:
        for split in row.args:
            splits_of.setdefault(split.mark, []).append(split)
    determined: set[IterMark] = set()
    progress = True
    while progress:
        progress = False
        for mark, splits in list(splits_of.items()):
            if mark in determined or not _determines(mark, splits, detector):
                continue
            determined.add(mark)
            progress = True
            if not isinstance(mark.source, Var):
                for inner in mark.source.args:
                    splits_of.setdefault(inner.mark, []).append(inner)
    errors = []
    for var, mark in detector.marks.items():
        if mark in determined or detector.equal(mark.extent, _ONE):
            continue
        used = splits_of.get(mark)
        errors.append(
            f"only {', '.join(map(str, used))} of loop {var.name} is used" if used else f"loop {var.name} is not used"
        )
    return errors


def _steps_overlap(row: IterSum, detector: Detector) -> str | None:
    positive = []
    for split in row.args:
        if detector.domain.nonnegative(split.scale - 1) or detector.domain.nonnegative(split.scale):
            positive.append((split.scale, split))
        elif detector.domain.nonnegative(-split.scale):
            positive.append((-split.scale, split))
        else:
            return f"{split} has a step of unknown sign"
    below = Affine({}, 0)
    while positive:
        least = next((p for p in positive if all(q is p or detector.at_most(p[0], q[0]) for q in positive)), None)
        if least is None:
            return f"the steps of {row} cannot be put in order"
        # If two steps are equal, the one with a single iteration comes first; two longer ones overlap.
        if not detector.at_most(below + 1, least[0]):
            return f"{least[1]} overlaps with the smaller terms of {row}"
        below = below + detector.times(least[0], least[1].extent - 1)
        positive.remove(least)
    return None


def _determines(mark: IterMark, splits: list[IterSplit], detector: Detector) -> bool:
    """Return whether the values of the splits determine the value of the iterator.

    They are combined from the smallest digit up: once `mark % reach` is known, a split that begins at or below `reach`
    adds its own digits.
    """
    reach = _ONE
    rest = list(splits)
    while not detector.at_most(mark.extent, reach):
        for split in rest:
            if detector.divide(reach, split.lower_factor) is None:
                continue
            further = detector.times(split.lower_factor, split.extent)
            # A split that reaches the end of the iterator has all digits from its own upward, even if the last tile is
            # not full.
            whole = detector.at_most(mark.extent, further) or detector.divide(further, reach) is not None
            if whole and not detector.equal(further, reach):
                reach = further
                break
        else:
            return False
    return True


def values(row: IterSum) -> tuple[Affine, Affine] | None:
    """Return (first value, number of values) of a binding in a surjective map, or None if the values are not
    consecutive integers, or if their number has too many terms.
    """
    if row.args and not any(split.scale == _ONE for split in row.args):
        return None
    last = Affine({})
    for split in row.args:
        reach = multiply(split.scale, split.extent - 1)
        if reach is None:
            return None
        last = last + reach
    return row.base, last + 1


def to_expr(row: IterSum, analyzer: Analyzer, dtype: str = "int32") -> Expr:
    """Convert a sum of splits to an index expression."""
    result = analyzer.to_expr(row.base, dtype)
    for split in row.args:
        result = result + _split_expr(split, analyzer, dtype)
    return result


def _split_expr(split: IterSplit, analyzer: Analyzer, dtype: str) -> Expr:
    mark = split.mark
    value = _mark_expr(mark, analyzer, dtype)
    if split.lower_factor != _ONE:
        value = value // analyzer.to_expr(split.lower_factor, dtype)
    reach = multiply(split.lower_factor, split.extent)
    if reach is None or not analyzer.domain.nonnegative(reach - mark.extent):
        value = value % analyzer.to_expr(split.extent, dtype)
    return value * analyzer.to_expr(split.scale, dtype)


def _mark_expr(mark: IterMark, analyzer: Analyzer, dtype: str) -> Expr:
    if isinstance(mark.source, Var):
        return mark.source.astype(dtype) - analyzer.to_expr(mark.start, dtype)
    return to_expr(mark.source, analyzer, dtype)


def inverse(mapping: IterMap, outputs: Sequence[Any], analyzer: Analyzer | None = None) -> dict[Var, Expr]:
    """Return the loop variables as expressions in the values of the bindings (TVM's `inverse_affine_iter_map`).

    The map must have been detected as injective or bijective; otherwise a `ValueError` is raised. The expressions are
    correct for values that the map reaches. Loops of extent 1 are left out.
    """
    if not mapping or mapping.level not in ("injective", "bijective"):
        raise ValueError("only a map detected at level injective or bijective has an inverse")
    analyzer = analyzer or Analyzer()
    values: dict[IterMark, list[tuple[IterSplit, Expr]]] = {}
    loops: dict[Var, Expr] = {}
    for row, output in zip(mapping.sums, outputs, strict=True):
        rest = as_expr(output)
        rest = rest - analyzer.to_expr(row.base, rest.dtype)
        _take_apart(row.args, rest, values, analyzer)
    pending = list(values)
    done: set[IterMark] = set()
    # Fused iterators come before their parts: a mark is ready when no other pending mark depends on it.
    while pending:
        fed = {inner.mark for m in pending if not isinstance(m.source, Var) for inner in m.source.args}
        mark = next((m for m in pending if m not in fed), pending[0])
        pending.remove(mark)
        done.add(mark)
        value = _assemble(values[mark], analyzer)
        if isinstance(mark.source, Var):
            loops[mark.source] = value + analyzer.to_expr(mark.start, value.dtype)
            continue
        before = set(values)
        _take_apart(mark.source.args, value, values, analyzer)
        pending += [m for m in values if m not in before and m not in done]
    return {var: analyzer.simplify(value) for var, value in loops.items()}


def _take_apart(
    args: Sequence[IterSplit], value: Expr, values: dict[IterMark, list[tuple[IterSplit, Expr]]], analyzer: Analyzer
) -> None:
    """Compute the value of each split of a sum, and add it to `values`.

    The split with the largest step comes first: its value is value // step, and the others share the remainder.
    """
    domain = analyzer.domain
    rest = list(args)
    ordered: list[IterSplit] = []
    while rest:
        least = next((s for s in rest if all(t is s or _below(s, t, domain) for t in rest)), None)
        if least is None:
            raise ValueError("the order of the steps is not known")
        rest.remove(least)
        ordered.append(least)
    for split in reversed(ordered):
        negative = not domain.nonnegative(split.scale)
        scale = analyzer.to_expr(_size(split, domain), value.dtype)
        lower = [s for s in ordered[: ordered.index(split)] if not domain.nonnegative(s.scale)]
        # If lower steps are negative, the rest may be negative too: shift it by their least value first.
        shifted = value if not negative else value * -1
        sign = 1 if not negative else -1
        for s in ordered[: ordered.index(split)]:
            is_negative = s in lower
            if is_negative != negative:
                size = _size(s, domain)
                span = multiply(size, s.extent - 1)
                assert span is not None
                shifted = shifted + analyzer.to_expr(span, value.dtype)
        digit = shifted // scale
        values.setdefault(split.mark, []).append((split, digit))
        value = value - digit * scale * sign


def _below(one: IterSplit, other: IterSplit, domain: Any) -> bool:
    """Return whether `one` comes before `other` in ascending order of steps: its step is provably not larger, or
    `extent` of its steps equal one step of `other` (j in `i * n + j` for j below n).
    """
    size, next_size = _size(one, domain), _size(other, domain)
    return bool(domain.nonnegative(next_size - size)) or multiply(size, one.extent) == next_size


def _size(split: IterSplit, domain: Any) -> Affine:
    return split.scale if domain.nonnegative(split.scale) else -split.scale


def _assemble(parts: list[tuple[IterSplit, Expr]], analyzer: Analyzer) -> Expr:
    """Return the value of an iterator, given (split, value) pairs. A split whose digits are already known is
    skipped.
    """
    result: Expr | None = None
    reach = _ONE
    rest = list(parts)

    def quotient(a: Affine, b: Affine) -> Affine | None:
        if a == b:
            return _ONE
        if b.is_const:
            exact = b.const and a.const % b.const == 0 and all(c % b.const == 0 for c in a.terms.values())
            return a.divided(b.const) if exact else None
        division = divide_monomial(a, b)
        return division[0] if division is not None and division[1] == Affine({}) else None

    progress = True
    while progress:
        progress = False
        for split, value in rest:
            offset = quotient(reach, split.lower_factor)
            further = multiply(split.lower_factor, split.extent)
            if offset is None or further is None or further == reach:
                continue
            # A split that reaches the end of the iterator has all digits from its own upward, even if the last tile is
            # not full.
            if quotient(further, reach) is None and not analyzer.domain.nonnegative(further - split.mark.extent):
                continue
            if offset != _ONE:
                value = value // analyzer.to_expr(offset, value.dtype)
            piece = value * analyzer.to_expr(reach, value.dtype)
            result = piece if result is None else result + piece
            reach = further
            rest = [p for p in rest if p[0] is not split]
            progress = True
            break
    return result if result is not None else parts[0][1]
