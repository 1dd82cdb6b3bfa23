"""Split an Einstein summation into products of two operands, in the order that takes the least work.

    einsum(x, y, z, "ij,jk,kl->il")  =  einsum(einsum(x, y, "ij,jk->ik"), z, "ik,kl->il")

As one sum, it multiplies once for each (i, j, k, l); in pairs, once for each (i, j, k) and once for each (i, k, l). A
label that occurs only in one operand and not in the result is summed there first. An intermediate result keeps the
labels that another operand or the result needs. So each label is summed once, as soon as no other operand needs it.
Legal, because multiplication distributes over addition. The best order of the pairs is found by dynamic programming
over subsets of the operands (Pfeifer, Haegeman and Verstraete, 2014).
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import prod

from ..nodes import Graph, OpNode, Value
from ..pattern import Match, op
from ..rewrite import Rewriter, RewriteRule, rewrite

_LONG = 384  # the extent that is assumed for an open one
_MOST = 8  # the most operands; with more there are too many orders
_STORED = 8  # multiplications that take as long as writing and reading an element again
_EXACT = ("float32", "float64", "int32", "int64")  # intermediates in narrower floats would be rounded more often

Tree = int | tuple["Tree", ...]  # an operand, or the parts of a product


def split_einsum(graph: Graph) -> Graph:
    """Replace Einstein summations with products of pairs where these need fewer multiplications.

    before:
        x = b.input("x", (2, 30))
        y = b.input("y", (30, 40))
        z = b.input("z", (40, 5))
        return b.op("einsum", x, y, z, equation="ij,jk,kl->il")
    after:
        def main(x: float32[2, 30], y: float32[30, 40], z: float32[40, 5]):
            einsum: float32[2, 40] = einsum(x, y, equation='ij,jk->ik')
            einsum_1: float32[2, 5] = einsum(einsum, z, equation='ik,kl->il')
            return einsum_1
    """
    return rewrite(graph, RULES)


def _in_pairs(b: Rewriter, match: Match) -> Value | None:
    item = match.root
    terms, output = _labels(item)
    order = _order(item)
    if order is None:
        return None

    def made(tree: Tree, needed: str, name: str | None = None) -> tuple[Value, str]:
        """Add the products of a subtree, and return their value and its labels. `needed` holds the labels of the
        result and of all operands outside the subtree.
        """
        if isinstance(tree, int):
            return item.inputs[tree], terms[tree]
        parts = []
        for part in tree:
            others = [terms[leaf] for other in tree if other is not part for leaf in _leaves(other)]
            parts.append(made(part, needed + "".join(others)))
        labels = needed if name else _kept("".join(labels for _, labels in parts), needed)
        equation = f"{','.join(labels for _, labels in parts)}->{labels}"
        return b.op("einsum", *(value for value, _ in parts), name=name, equation=equation), labels

    return made(order, output, item.output.name)[0]


def _order(item: OpNode) -> Tree | None:
    """Return the cheapest order of products of pairs, or None if a single sum over everything is no more work."""
    if item.output.dtype not in _EXACT or not 1 < len(item.inputs) <= _MOST:
        return None
    terms, output = _labels(item)
    extents: dict[str, int] = {}
    for term, value in zip(terms, item.inputs, strict=True):
        for label, extent in zip(term, value.shape, strict=True):
            extents[label] = max(extents.get(label, 1), extent if isinstance(extent, int) else _LONG)

    def size(labels: str) -> int:
        return prod(extents[label] for label in set(labels))

    def needed(part: frozenset[int]) -> str:
        return output + "".join(term for number, term in enumerate(terms) if number not in part)

    def all_labels(part: frozenset[int]) -> str:
        return "".join(terms[number] for number in part)

    @cache
    def best(part: frozenset[int]) -> tuple[int, Tree]:
        """Return (work, tree): the least work to multiply the operands in `part` and keep only the labels that are
        needed, and the order with this work.
        """
        kept = _kept(all_labels(part), needed(part))
        if len(part) == 1:
            (number,) = part
            if set(kept) == set(terms[number]):
                return 0, number
            return size(terms[number]) + _STORED * size(kept), (number,)
        first, *others = sorted(part)
        splits = []
        for count in range(len(others)):
            for some in combinations(others, count):
                one = frozenset((first, *some))
                (a, left), (c, right) = best(one), best(part - one)
                joined = _kept(all_labels(one), needed(one)) + _kept(all_labels(part - one), needed(part - one))
                splits.append((a + c + size(joined) + _STORED * size(kept), left, right))
        work, left, right = min(splits, key=lambda split: split[0])
        return work, (left, right)

    work, tree = best(frozenset(range(len(terms))))
    at_once = (len(terms) - 1) * size("".join(terms)) + _STORED * size(output)
    return tree if work < at_once else None


def _labels(item: OpNode) -> tuple[list[str], str]:
    """Return the labels of the operands, and the labels of the result."""
    left, arrow, output = item.attrs["equation"].replace(" ", "").partition("->")
    if not arrow:
        labels = left.replace(",", "")
        output = "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    return left.split(","), output


def _kept(labels: str, needed: str) -> str:
    """Return the needed labels, without repetition, in the order of `labels`."""
    return "".join(label for label in dict.fromkeys(labels) if label in needed)


def _leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for part in tree for leaf in _leaves(part)]


RULES = [RewriteRule(op("einsum", ...), _in_pairs)]
