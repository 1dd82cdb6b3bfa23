"""transform_layout: change the physical layout of a buffer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from .... import expr as ex
from ....arith import simplify
from ....errors import MinitvmError
from ... import nodes as tir
from ...analysis.tree import Tree
from ...conditions import is_const
from ...index_map import IndexMap, NotInjective, checked_indices
from .. import access_remapping
from .. import programs as on
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState


def named_buffer(block: tir.BlockRealize, buffer: object) -> tir.Buffer:
    region = access_remapping.chosen_region(block, buffer)
    assert region is not None  # names_a_buffer
    return region.buffer


@requirement
def names_a_buffer(state: ScheduleState, block: tir.BlockRealize, buffer: object) -> Failure | None:
    """the buffer is one that the block accesses, given as ("read", i) or ("write", i) for the i-th region that the
    block reads or writes, as an object, or by a name that only one buffer of the block has
    """
    if access_remapping.chosen_region(block, buffer) is not None:
        return None
    names = [
        f'("{side}", {k}): {r.buffer.name}'
        for side, regions in access_remapping.SIDES.items()
        for k, r in enumerate(regions(block.block))
    ]
    return Failure({block.block: "this block"}, f"a buffer of {block.block.name}: {', '.join(names)}", repr(buffer))


def _home(tree: Tree, block: tir.BlockRealize, buffer: tir.Buffer) -> tir.BlockRealize | None:
    """Return the block that allocates a buffer. For a parameter this is the root block, for a view None."""
    if buffer in tree.func.params:
        return tree.root
    around = [block, *(b for b in tree.above(block) if isinstance(b, tir.BlockRealize))]
    return next((b for b in around if buffer in b.block.alloc_buffers), None)


@requirement
def not_a_view(state: ScheduleState, block: tir.BlockRealize, buffer: object) -> Failure | None:
    """the buffer is a parameter or allocated in a block, not a view of another buffer, which determines its layout"""
    named = named_buffer(block, buffer)
    if _home(state.home(block), block, named) is not None:
        return None
    tries = ("change the layout of the buffer that it views",)
    return Failure({block.block: "this block"}, "a parameter or an allocated buffer", f"{named.name} is a view", tries)


@requirement
def row_major(state: ScheduleState, block: tir.BlockRealize, buffer: object) -> Failure | None:
    """the buffer declares no strides and no offset, because these would describe the old layout"""
    named = named_buffer(block, buffer)
    if not named.strides and is_const(named.elem_offset, 0):
        return None
    text = f"{named.name} has strides ({', '.join(map(str, named.strides))}) and offset {named.elem_offset}"
    return Failure({block.block: "this block"}, "a buffer without strides and offset", text)


@requirement
def plain_accesses(state: ScheduleState, block: tir.BlockRealize, buffer: object) -> Failure | None:
    """all accesses of the buffer are loads and stores of single elements, without views, vectors or pointers"""
    named = named_buffer(block, buffer)
    tree = state.home(block)
    seen = {id(n.buffer) for n in ex.find(tree.func.body, tir.BufferLoad | tir.BufferStore)}
    for node in ex.walk(tree.func.body):
        what = ""
        if isinstance(node, tir.MatchBufferRegion) and node.source.buffer is named:
            what = f"{node.buffer.name} is a view of a box of it, which is no box any more"
        elif isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is named:
            if any(i.dtype.lanes > 1 for i in node.indices) or node.predicate is not None:
                what = "a vector is accessed"
        elif isinstance(node, tir.BufferRegion) and node.buffer is named and id(named) not in seen:
            what = "a block declares to touch it, but nothing shows where"
        if what:
            spot: ex.Node = node if not isinstance(node, tir.MatchBufferRegion) else node.source
            return Failure({spot: "here"}, f"loads and stores of {named.name} at single elements", what)
    return None


def made_map(index_map: Callable[..., Any], ndim: int) -> IndexMap:
    """Return the index map `index_map` that a caller passed, as an `IndexMap`; raise `InputError` if it does not take
    `ndim` indices.
    """
    return _map(index_map, ndim)[0]


def _map(index_map: Callable[..., Any], ndim: int) -> tuple[IndexMap, list[int]]:
    try:
        return _known_map(index_map, ndim)
    except TypeError:  # a function that has no hash
        return _known_map.__wrapped__(index_map, ndim)


@functools.lru_cache(maxsize=64)  # every requirement asks again
def _known_map(index_map: Callable[..., Any], ndim: int) -> tuple[IndexMap, list[int]]:
    if isinstance(index_map, IndexMap):
        if len(index_map.initial_indices) != ndim:
            raise NotInjective(f"it takes {len(index_map.initial_indices)} indices")
        return index_map.simplified(), []
    mapping, separators = IndexMap.from_func_with_separators(index_map, ndim)
    return mapping.simplified(), separators


def fitting_map(
    tree: Tree, index_map: Callable[..., Any], ndim: int, what: str, spot: ex.Node, fixed: Collection[ex.Var] = ()
) -> Failure | None:
    """Return a `Failure` if a map is not a function of `ndim` indices to one or more indices; None if it is.

    The map may also use the sizes of the function and the variables in `fixed`.
    """
    try:
        mapping, _ = _map(index_map, ndim)
    except (MinitvmError, TypeError) as error:
        return Failure({spot: what}, f"a function of {ndim} indices, to one or more", str(error))
    if not mapping.final_indices:
        return Failure({spot: what}, f"a function of {ndim} indices, to one or more", f"{mapping} gives none")
    sizes = {v for b in tree.func.buffers for d in b.shape for v in ex.free_vars(d)} | set(tree.func.params)
    for final in mapping.final_indices:
        unknown = [v.name for v in ex.free_vars(final) if v not in {*mapping.initial_indices, *sizes, *fixed}]
        if unknown:
            expected = "a map of its own indices and of the sizes of the function"
            return Failure({spot: what}, expected, f"{final} uses {', '.join(unknown)}")
    return None


@requirement
def map_fits_buffer(
    state: ScheduleState, block: tir.BlockRealize, buffer: object, index_map: Callable[..., Any]
) -> Failure | None:
    """the map takes one index for each dimension of the buffer, and returns at least one index

    The new indices depend only on the old ones, on the sizes of the function, and on variables that do not change while
    the buffer exists. These variables are the iterators of the block that allocates the buffer, and of the blocks
    around it.
    """
    named, tree = named_buffer(block, buffer), state.home(block)
    what = f"{named.name} has {named.ndim} dimensions"
    return fitting_map(tree, index_map, named.ndim, what, block.block, _fixed_for(tree, named))


def _fixed_for(tree: Tree, buffer: tir.Buffer) -> set[ex.Var]:
    """Return the iterators of the blocks around a buffer's allocation, which do not change while the buffer exists."""
    owner = next((b for b in tree.blocks.values() if buffer in b.block.alloc_buffers), None)
    if owner is None:
        return set()
    around = [outer for outer in (owner, *tree.above(owner)) if isinstance(outer, tir.BlockRealize)]
    return {it.var for outer in around for it in outer.block.iter_vars}


@requirement
def injective_map(
    state: ScheduleState,
    block: tir.BlockRealize,
    buffer: object,
    index_map: Callable[..., Any],
    assume_injective_transform: bool,
) -> Failure | None:
    """the map gives different elements of the buffer different new indices, and no index becomes negative

    minitvm decides this from the quasi-affine form of the map, or else tries every element. If neither gives an answer,
    minitvm relies on your promise (assume_injective_transform).
    """
    named = named_buffer(block, buffer)
    mapping, _ = _map(index_map, named.ndim)
    try:
        mapping.map_shape(named.shape)
        reason = mapping.why_not_injective(named.shape)
    except MinitvmError as error:
        reason = str(error)
    else:
        if reason is None or (assume_injective_transform and "both go to" not in reason):
            return None
    text = f"{named.name} of shape ({', '.join(map(str, named.shape))}): {reason}"
    tries = ("give every index its own place: lambda i: (i // 4, i % 4)",)
    return Failure({block.block: "this block"}, "no two elements in one place, and no index below zero", text, tries)


@functools.lru_cache(maxsize=64)
def _padding(mapping: IndexMap, shape: tuple[ex.Expr, ...]) -> tuple[IndexMap | None, ex.Expr | None]:
    """Return (the inverse map, the condition for a place of the new shape to be padding), or (None, None) if they are
    unknown.

    Without padding, the result is (None, False), because the inverse map is then not needed.
    """
    if mapping.fills(shape):
        return None, ex.const(False)
    try:
        return mapping.non_surjective_inverse(shape)
    except NotInjective:
        return None, None


@requirement
def padding_has_value(
    state: ScheduleState,
    block: tir.BlockRealize,
    buffer: object,
    index_map: Callable[..., Any],
    pad_value: object,
    assume_injective_transform: bool,
) -> Failure | None:
    """if the new shape has places without an element, pad_value gives their value

    With assume_injective_transform they may hold anything, as in TVM, because they are never read.
    """
    if assume_injective_transform:
        return None
    named = named_buffer(block, buffer)
    mapping, _ = _map(index_map, named.ndim)
    _, where = _padding(mapping, named.shape)
    if pad_value is not None or (where is not None and is_const(where, 0)):
        return None
    new = ", ".join(map(str, mapping.map_shape(named.shape)))
    some = "some places" if where is None else f"the places where {where}"
    return Failure(
        {block.block: "this block"},
        "a map that fills the new shape, or a pad_value",
        f"in the new shape ({new}) {some} stay empty",
        ("pad_value=0",),
    )


def _pad_expr(pad_value: object, buffer: tir.Buffer, indices: Sequence[ex.Expr]) -> ex.Expr:
    returned = pad_value(*indices) if callable(pad_value) else pad_value
    if isinstance(returned, list | tuple) and len(returned) == 1:  # the form in which an IndexMap returns it
        (returned,) = returned
    value = simplify(ex.as_expr(checked_indices(returned)))  # in the same form as when it is read from a trace
    if isinstance(value, ex.IntImm | ex.FloatImm) and value.dtype != buffer.dtype:
        number = value.value
        if not buffer.dtype.is_float and int(number) != number:
            raise NotInjective(f"{number} is not a value of dtype {buffer.dtype}")
        return ex.const(number, buffer.dtype)
    return value


@requirement
def pad_value_fits(
    state: ScheduleState, block: tir.BlockRealize, buffer: object, index_map: Callable[..., Any], pad_value: object
) -> Failure | None:
    """pad_value is a number of the buffer's dtype, or a function that maps the new indices to such a number and reads
    no memory
    """
    if pad_value is None:
        return None
    named = named_buffer(block, buffer)
    mapping, _ = _map(index_map, named.ndim)
    indices = [ex.Var(f"axis{k}") for k in range(len(mapping.final_indices))]
    reason = ""
    try:
        value = _pad_expr(pad_value, named, indices)
    except (MinitvmError, TypeError) as error:
        reason = str(error)
    else:
        strange = [v.name for v in ex.free_vars(value) if v not in indices]
        if ex.contains(value, tir.BufferLoad):
            reason = f"{value} reads memory"
        elif value.dtype != named.dtype:
            reason = f"{value} has dtype {value.dtype}"
        elif strange:
            reason = f"{value} uses {', '.join(strange)}"
    if not reason:
        return None
    expected = f"a {named.dtype}, or a function from {len(indices)} indices to one"
    return Failure({block.block: f"{named.name} is {named.dtype}"}, expected, reason)


@requirement
def known_padding(
    state: ScheduleState, block: tir.BlockRealize, buffer: object, index_map: Callable[..., Any]
) -> Failure | None:
    """if the function writes the buffer, a condition on the new indices describes the padding, so that a block can
    write it"""
    named = named_buffer(block, buffer)
    mapping, _ = _map(index_map, named.ndim)
    _, where = _padding(mapping, named.shape)
    if where is not None or not _writers(state.home(block), named):
        return None
    return Failure(
        {block.block: "this block"},
        "a map whose padding is known",
        f"{mapping} has no inverse that is known",
        ("IndexMap.from_func(..., inverse_index_map=...)",),
    )


@requirement
def padding_in_reach(
    state: ScheduleState, block: tir.BlockRealize, buffer: object, index_map: Callable[..., Any], pad_value: object
) -> Failure | None:
    """if a separate block writes the padding, that block can access the storage

    The block comes after the loops of the last writer, where storage that belongs to a thread or a block of threads no
    longer exists.
    """
    tree, named = state.home(block), named_buffer(block, buffer)
    mapping, _ = _map(index_map, named.ndim)
    _, where = _padding(mapping, named.shape)
    producers = _writers(tree, named)
    if pad_value is None or where is None or is_const(where, 0) or not producers:
        return None
    if len(producers) == 1 and access_remapping.whole_nest(tree, producers[0], named) is not None:
        return None
    home = _home(tree, block, named)
    within = [l for l in tree.all_loops_above(producers[-1]) if home is None or tree.inside(l, home)]
    grid = next((l for l in within if l.kind is tir.ForKind.THREAD and named.scope != "global"), None)
    if grid is None:
        return None
    return Failure(
        {grid: f"has {named.name}, in {named.scope} storage, for itself", producers[-1].block: "the last writer"},
        f"{named.name} in storage that the statements after the grid see",
        f"the padding of {named.name} would be written outside of the loop over {grid.var.name}",
        ("assume_injective_transform=True, if nothing reads the padding",),
    )


def _writers(tree: Tree, buffer: tir.Buffer) -> list[tir.BlockRealize]:
    """Return the innermost blocks that store to a buffer."""
    writers: list[tir.BlockRealize] = []
    for stmt in tree.order:
        if isinstance(stmt, tir.BufferStore) and stmt.buffer is buffer:
            realize = tree.scope(stmt)
            if realize not in writers:
                writers.append(realize)
    return writers


@primitive(
    past="was laid out anew in",
    requires=[
        names_a_buffer, not_a_view, row_major, plain_accesses, map_fits_buffer, injective_map, padding_has_value,
        pad_value_fits, known_padding, padding_in_reach,
    ],
)  # fmt: skip
def transform_layout(
    state: ScheduleState,
    block: tir.BlockRealize,
    buffer: object,
    index_map: Callable[..., Any],
    pad_value: object = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store a buffer in another layout: element `p` moves to `index_map(*p)`, and all blocks that use it are updated.

    before:
        B = T.alloc_buffer((8, 16))
        for i, j in T.grid(8, 16):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 16):
            with T.block("C"): C[vi, vj] = B[vi, vj] + 1.0
    call: `sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4))`
    after:
        B = T.alloc_buffer((4, 8, 4))
        for i, j in T.grid(8, 16):
            with T.block("B"): B[vj // 4, vi, vj % 4] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 16):
            with T.block("C"): C[vi, vj] = B[vj // 4, vi, vj % 4] + 1.0

    `buffer` is ("read", i), ("write", i) or a name. The new shape is the smallest shape that holds all elements. If the
    buffer is a parameter, the parameter's shape changes too, and you need to pass arrays in the new layout
    (`IndexMap.map_ndarray`). Loops do not change. If the new shape has more places than there are elements, the other
    places are padding, and a block must write them. If a single block stores every element exactly once, this block
    writes the padding too, and its loops then cover the new shape. Otherwise an additional block writes the padding,
    right after the last writer. If the function only reads the buffer, it never reads the padding.
    """
    tree = state.home(block)
    old = named_buffer(block, buffer)
    mapping, separators = _map(index_map, old.ndim)
    new = ex.replace(old, shape=tuple(mapping.map_shape(old.shape)), axis_separators=tuple(separators))
    back, where = _padding(mapping, old.shape)
    producers = _writers(tree, old)
    home = _home(tree, block, old)
    assert home is not None  # not_a_view
    changes: dict[tir.Stmt, tir.Stmt | None] = {}
    if where is not None and not is_const(where, 0) and producers and pad_value is not None:
        assert back is not None  # known_padding

        def value(indices: Sequence[ex.Expr]) -> ex.Expr:
            return _pad_expr(pad_value, old, indices)

        nest = access_remapping.whole_nest(tree, producers[0], old) if len(producers) == 1 else None
        if nest is not None:
            changes[nest] = access_remapping.over_new_shape(producers[0], new, mapping, back, where, value)
        else:

            def pad(v: tuple[ex.Var, ...]) -> tir.BufferStore:
                return tir.BufferStore(new, value(v), v)

            def outside(v: tuple[ex.Var, ...]) -> ex.Expr:
                moved: ex.Expr = ex.substitute(where, dict(zip(back.initial_indices, v, strict=False)))
                return moved

            last = _statement_of(tree, home, producers[-1])
            changes[last] = tir.Seq.of(last, access_remapping.point_block(f"{old.name}_pad", new.shape, pad, outside))
    name = next(n for n, f in state.mod.items() if f is tree.func)
    func = tree.rebuild(changes) if changes else tree.func
    body = access_remapping.relaid(func.body, old, new, mapping.map_indices)
    params = tuple(new if p is old else p for p in func.params)
    func = tir.PrimFunc(params, access_remapping.with_allocation(body, old, new), func.attrs)
    state.set_func(tree, func)
    if new in params:
        state.comparable[name] = access_remapping.in_old_layouts(func, {new: (old, mapping)})


_RELAID = "sch.transform_layout('B', ('write', 0), "
transform_layout.refuses(names_a_buffer, "sch.transform_layout('B', ('read', 1), lambda i, j: (j, i))", on.SCALED)
transform_layout.refuses(not_a_view, "sch.transform_layout('B', 'row', lambda i: (i // 4, i % 4))", on.THROUGH_A_VIEW)
transform_layout.refuses(row_major, "sch.transform_layout('B', 'A', lambda i, j: (j, i))", on.STRIDED)
transform_layout.refuses(plain_accesses, "sch.transform_layout('row', 'A', lambda i, j: (j, i))", on.THROUGH_A_VIEW)
transform_layout.refuses(map_fits_buffer, _RELAID + "lambda i: (i // 4, i % 4))", on.SCALED)
transform_layout.refuses(injective_map, _RELAID + "lambda i, j: (i // 2, j))", on.SCALED)
transform_layout.refuses(padding_has_value, _RELAID + "lambda i, j: (i // 3, j, i % 3))", on.SCALED)
transform_layout.refuses(pad_value_fits, _RELAID + "lambda i, j: (i // 3, j, i % 3), lambda i, j: 0.0)", on.SCALED)
transform_layout.refuses(known_padding, _RELAID + "lambda i, j: (i, (j + i) % 8, i % 3), 0)", on.SCALED)
transform_layout.refuses(
    padding_in_reach, "sch.transform_layout('S', ('write', 0), lambda i: (i // 2, i % 2), 0)", on.EXCHANGED
)


def _statement_of(tree: Tree, home: tir.BlockRealize, inner: tir.Stmt) -> tir.Stmt:
    """Return the top-level statement of a block's body that contains `inner`."""
    at = inner
    while tree.parent[at] is not home.block and not (
        isinstance(tree.parent[at], tir.Seq) and tree.parent[tree.parent[at]] is home.block
    ):
        at = tree.parent[at]
    return at


def _maps(buffer: tir.Buffer) -> Iterator[tuple[IndexMap, int | None]]:
    """Yield layouts of `buffer` that are worth trying, each with a pad value or None."""
    rank = buffer.ndim

    def layout(function: Callable[..., Any]) -> IndexMap:
        return IndexMap.from_func(function, ndim=rank)

    if rank > 1:
        yield layout(lambda *i: i[::-1]), None
        yield layout(lambda *i: _fused(i, buffer.shape)), None
    if rank:
        for factor in (2, 4):
            split = layout(_cut(factor))
            yield split, None
            yield split, 0
        yield layout(lambda *i: ((i[0] + 1) // 3, *i[1:], (i[0] + 1) % 3)), 1
        yield layout(lambda *i: (*i, i[0] * 0)), None


def _cut(factor: int) -> Callable[..., Any]:
    return lambda *i: (*i[:-1], i[-1] // factor, i[-1] % factor)


def _fused(indices: Sequence[ex.Expr], shape: Sequence[ex.Expr]) -> ex.Expr:
    total = indices[0]
    for index, dim in zip(indices[1:], shape[1:], strict=False):
        total = total * dim + index
    return total


@transform_layout.space
def _transform_layout_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    seen = set(tree.func.params)  # not parameters: a caller's arrays keep their layout
    for block in tree.blocks.values():
        for side, regions in reversed(access_remapping.SIDES.items()):
            for k, region in enumerate(regions(block.block)):
                if region.buffer not in seen and all(isinstance(d, ex.IntImm) for d in region.buffer.shape):
                    seen.add(region.buffer)
                    for index_map, pad in _maps(region.buffer):
                        yield block, (side, k), index_map, pad
