"""Find the iteration of a consumer that reads an element, by inverting the indices of its load."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...arith import Analyzer
from ...errors import InputError
from ...expr import GE, LT, Expr, IntImm, Range, Var, const, find, free_vars, substitute
from ..conditions import all_of, is_const, rising
from ..index_map import IndexMap
from ..index_sums import last_first
from ..nodes import Block, BlockRealize, Buffer, BufferLoad


def loads_of(block: BlockRealize, buffer: Buffer) -> list[BufferLoad]:
    return [n for n in find(block.block.body, BufferLoad) if n.buffer is buffer]


def at_iterators(load: BufferLoad) -> bool:
    """Return whether the indices of a load are distinct variables."""
    return len({id(i) for i in load.indices}) == len(load.indices) and all(isinstance(i, Var) for i in load.indices)


@functools.lru_cache(maxsize=64)  # every requirement needs it again
def way_back(block: Block, load: BufferLoad) -> tuple[IndexMap, tuple[Expr, ...], tuple[Expr, ...]] | str:
    """Invert the indices of a load, or return a message that says why this is not possible.

    The result is a triple: the map from the indices back to the block's iterators, the extents of the box in
    which the indices are (it starts at 0), and the conditions under which some iteration reads at these indices.
    """
    if any(not is_const(it.dom.start, 0) for it in block.iter_vars):
        return "an iterator does not start at 0"
    if {v for index in load.indices for v in free_vars(index)} - {it.var for it in block.iter_vars}:
        return "it is no function of the iterators alone"
    there = IndexMap(tuple(it.var for it in block.iter_vars), load.indices).simplified()
    extents = [it.dom.extent for it in block.iter_vars]
    try:
        back, _ = there.non_surjective_inverse(extents)
        read = there.image(extents, back)
        return back, tuple(there.map_shape(extents)), tuple(read)
    except InputError as error:
        return str(error).split("\n")[0]


def box_read(block: BlockRealize, load: BufferLoad) -> list[Range]:
    """Return the box of elements that a load reads over the block's domain: one range for each index."""
    if at_iterators(load):
        domains = {it.var: it.dom for it in block.block.iter_vars}
        return [domains.get(i, Range(i, const(1, i.dtype))) for i in load.indices if isinstance(i, Var)]
    back = way_back(block.block, load)
    assert not isinstance(back, str)  # reads_its_own_point
    return [Range(const(0, extent.dtype), extent) for extent in back[1]]


def iteration_at(block: BlockRealize, load: BufferLoad, indices: Sequence[Expr]) -> dict[Var, Expr]:
    """Return the iterator values of the iteration in which a load reads the element at `indices`."""
    values: dict[Var, Expr] = {it.var: it.dom.start for it in block.block.iter_vars}
    if at_iterators(load):
        return {**values, **dict(zip((i for i in load.indices if isinstance(i, Var)), indices, strict=True))}
    back = way_back(block.block, load)
    assert not isinstance(back, str)  # reads_its_own_point
    there = back[0]
    # TVM inverts a map in this order: from the last index to the first.
    finals = tuple(last_first(e, there.initial_indices) for e in there.final_indices)
    return dict(zip(values, IndexMap(there.initial_indices, finals).map_indices(indices), strict=True))


def where_read(block: BlockRealize, load: BufferLoad, producer: BlockRealize, indices: Sequence[Expr]) -> Expr:
    """Return the condition under which `block` reads the element that `producer` stores at `indices`."""
    needed: list[Expr] = []
    if not at_iterators(load):
        back = way_back(block.block, load)
        assert not isinstance(back, str)  # reads_its_own_point
        places = dict(zip(back[0].initial_indices, indices, strict=True))
        needed += [substitute(c, places) for c in back[2]]
    needed += [c for dom, i in zip(box_read(block, load), indices, strict=True) for c in _in_range(i, dom)]
    analyzer = Analyzer.inside(*producer.block.iter_vars)
    conditions: list[Expr] = []
    for condition in needed:
        with analyzer.constraint(*conditions):
            if not analyzer.can_prove(condition):
                conditions.append(_solved(condition, analyzer))
    return all_of(conditions)


def _solved(condition: Expr, analyzer: Analyzer) -> Expr:
    """Simplify a comparison, but keep strict comparisons strict, as TVM does (`0 < i` does not become `1 <= i`)."""
    simple = analyzer.simplify(condition)
    if isinstance(condition, LT) and isinstance(simple, GE) and isinstance(simple.b, IntImm):
        return const(simple.b.value - 1, simple.b.dtype) < simple.a
    return rising(simple)


def _in_range(index: Expr, domain: Range) -> tuple[Expr, Expr]:
    return index >= domain.start, index < domain.start + domain.extent
