"""Attention with a cache of keys and values: new rows are written at a position, and only the rows written so far are
read.

A cache [batch, heads, places, width] has a place for each token of a text, up to a bound. `cache_update` writes the
rows of new tokens, `cached_attention` lets each new token see all places up to its own. A tensor gives the
positions, so one program decodes every token, and the cost of a token grows only with the number of places before it.

By default, row b of a batch uses entry b of the cache. With the further input `slots` [batch], it uses entry slots[b].
For example, a server keeps the keys of 8 conversations in a cache [8, ..], and a batch has a row for each conversation
that is computing: three rows with the slots 0, 5 and 6.

    for group of heads that share keys:
        for place j up to the position:   scores[head, j] = q[head] . key[j]            a key is read once for all heads
        weights = exp(scores - their maximum)
        for place j up to the position:   result[head] += weights[head, j] * value[j]   in registers
        result / sum of weights
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, IntImm, Node, Select, Var, as_expr, const, replace, rewrite
from ..te import Tensor
from ..tir import nodes as tir
from ..tir.annotations import LANES
from ..tir.nodes import Buffer, BufferStore, For, ForKind, If, PrimFunc
from .cached_blocks import CacheEntries, attention_of_blocks
from .indices import check_index
from .lines import updated
from .registry import register
from .shapes import Dim, agree, axis_of, constant, dims

_LANES = 16  # the weights of this many places are one vector
_MANY = 8  # queries
_REGISTERS = 16  # vectors of results that are in registers at a time


@register("nn.cache_update", updates=True)
def cache_update(
    data: Tensor, update: Tensor, position: Tensor, slots: Tensor | None = None, *, axis: int = -2,
    mode: str = "linear",
) -> Tensor:  # fmt: skip
    """Return `data` with the rows of `update` written into it.

    For each index b of the first axis, the rows go to positions position[b], position[b] + 1, ... along `axis`. In the
    mode "circular", positions beyond the end wrap around to the beginning. In the mode "linear", the result is
    undefined if the update does not fit; compiled code skips the rows that do not fit. The operator corresponds to
    TensorScatter in ONNX, and to a batched dynamic_update_slice in JAX.

    With `slots`, integers [batch], update[b] goes to data[slots[b]], for b in order; the result is undefined if `data`
    has no such entry.
    """
    at = axis_of(axis, data.ndim)
    if mode not in ("linear", "circular"):
        raise InputError(f"cache_update: mode is linear or circular, found {mode!r}")
    if at == 0:
        raise InputError("cache_update: the axis cannot be the first one, which the positions run along")
    alike = update.ndim == data.ndim and all(
        agree(a, b)
        for k, (a, b) in enumerate(zip(dims(data), dims(update), strict=False))
        if k != at and not (k == 0 and slots is not None)
    )
    if not alike or update.dtype != data.dtype:
        raise TypeMismatch(f"cache_update: {update} at {position} does not fit {data}")
    _check_batch("cache_update", dims(update)[0], position, slots)
    operands = [position, *([] if slots is None else [slots]), update, data]
    buffers = [Buffer(f"p{k}", t.shape, t.dtype) for k, t in enumerate(operands)]
    places, news, y = buffers[0], buffers[-2], Buffer("y", data.shape, data.dtype)
    j = Var("j", update.shape[at].dtype)
    axes = [(Var(f"v{k}", d.dtype), d) for k, d in enumerate(update.shape) if k != at]
    batch, *inner = [v for v, _ in axes]
    slot = batch if slots is None else buffers[1][(batch,)].astype("int64")
    rows = as_expr(data.shape[at]).astype("int64")
    place = places[(batch,)].astype("int64") + j.astype("int64")
    place = place % rows if mode == "circular" else place
    source, target = ((e, *inner[: at - 1], n, *inner[at - 1 :]) for e, n in ((batch, j), (slot, place)))
    inside = [place >= const(0, "int64"), place < rows]
    if slots is not None:
        inside += [slot >= const(0, "int64"), slot < as_expr(data.shape[0]).astype("int64")]
    store = If(te.all(*inside), BufferStore(y, news[source], target))
    loop = For(j, const(0, j.dtype), update.shape[at], ForKind.SERIAL, store)
    if slots is not None:
        # The loop over the batch is serial and inside of the others, because two rows may write the same place.
        (_, extent), *axes = axes
        loop = For(batch, const(0, batch.dtype), extent, ForKind.SERIAL, loop)
    return updated("cache_update", operands, [*buffers, y], axes, loop)


@register("nn.cached_attention")
def cached_attention(
    query: Tensor, key: Tensor, value: Tensor, position: Tensor, slots: Tensor | None = None, *, scale: float
) -> Tensor:
    """Return softmax(scale * query key') value, where query i of row b sees positions 0 to position[b] + i of the
    cache.

    `query` is [batch, heads, queries, width], `key` and `value` are [batch, groups, places, width]; heads / groups
    consecutive heads share a group. The result is [batch, heads, queries, width of value]. Keys and values have the
    query's dtype, or 16 bits with a query of float32; then each is widened to float32 when it is read. Positions that
    no query sees are not read. With `slots`, integers [batch], row b sees key[slots[b]] and value[slots[b]]; the result
    is undefined if there is no such entry. Vaswani et al. 2017; grouped heads: Ainslie et al. 2023.
    """
    for tensor in (query, key, value):
        if tensor.ndim != 4 or not tensor.dtype.is_float:
            raise TypeMismatch(f"cached_attention: wanted floats of four dimensions, found {tensor}")
    stored = key.dtype
    narrow = stored.is_half and query.dtype == "float32"
    if value.dtype != stored or not (narrow or stored == query.dtype):
        raise TypeMismatch(
            f"cached_attention: wanted keys and values of the query's dtype, or of 16 bits with a query of float32, "
            f"found {query}, {key} and {value}"
        )
    batch, heads, _, width = dims(query, "batch, heads, places, width")
    groups, places, depth = dims(key)[1], dims(key)[2], dims(value)[3]
    numbers = [constant(d, "cached_attention: heads, places and widths") for d in (heads, width, groups, places, depth)]
    fits = all(agree(a, b) for a, b in zip(dims(key)[:3], dims(value)[:3], strict=True))
    fits = fits and (slots is not None or agree(dims(key)[0], batch)) and agree(dims(key)[3], width)
    if not fits or numbers[2] == 0 or numbers[0] % numbers[2]:
        raise TypeMismatch(f"cached_attention: {query}, {key}, {value} and {position} do not fit")
    _check_batch("cached_attention", batch, position, slots)
    if 0 in numbers:
        raise InputError("cached_attention: an axis has no elements")
    cache = CacheEntries(key.shape[0], str(stored), str(position.dtype), None if slots is None else str(slots.dtype))
    several, single = (cache.func(write(query, cache, numbers, scale)) for write in (attention_of_blocks, _attention))
    queries = query.shape[2]
    if isinstance(queries, IntImm):
        func = several if queries.value >= _MANY else single
    else:
        func = _by_number(queries, single, several)
    operands = [query, key, value, position, *([] if slots is None else [slots])]
    result: Tensor = te.extern_primfunc(operands, func)
    return result


def _check_batch(op: str, batch: Dim, position: Tensor, slots: Tensor | None) -> None:
    """Raise `TypeMismatch` unless `position` and `slots` hold an integer for each row of the batch."""
    for tensor in (position, slots):
        if tensor is None:
            continue
        check_index(op, tensor)
        if tensor.ndim != 1 or not agree(dims(tensor)[0], batch):
            raise TypeMismatch(f"{op}: {tensor} does not fit a batch of {batch}")


def _by_number(queries: Expr, few: PrimFunc, many: PrimFunc) -> PrimFunc:
    """Return a loop program that runs the loops of `few` if there are fewer than `_MANY` queries, and otherwise those
    of `many`.

    The loops that are not selected get the extent 0.
    """
    moved = dict(zip(few.buffers, many.buffers, strict=True))

    def change(at: Node) -> Node | None:
        if isinstance(at, tir.BufferLoad | BufferStore | tir.BufferRegion) and at.buffer in moved:
            return replace(at, buffer=moved[at.buffer])
        return replace(at, name=f"{at.name}_each") if isinstance(at, tir.Block) and at.name == "attend" else None

    are_few, loops = queries < _MANY, []
    for body, runs in ((rewrite(tir.root_block(few).body, change), are_few), (tir.root_block(many).body, ~are_few)):
        assert isinstance(body, For)
        loops.append(replace(body, extent=Select(runs, body.extent, const(0, body.extent.dtype))))
    realize = many.body
    assert isinstance(realize, tir.BlockRealize)
    return many.with_body(replace(realize, block=replace(realize.block, body=tir.Seq.of(*loops))))


def _attention(query: Tensor, cache: CacheEntries, numbers: list[int], scale: float) -> Any:
    """Return a loop program whose block computes the attention of one query for one group of heads.

    `numbers` are heads, width, groups, places and width of values.
    """
    from ..tir.script import builtins as T

    heads, W, G, N, V = numbers
    B, S, E = query.shape[0], query.shape[2], cache.entries
    index, slot_index, entry = cache.index, cache.slot_index, cache.entry
    R = heads // G
    L = _LANES
    padded = -(-N // L) * L
    dtype, stored = str(query.dtype), cache.dtype
    low = float("-inf")
    tile = next(t for t in range(R, 0, -1) if R % t == 0 and (t == 1 or t * V <= _REGISTERS * L))
    tiles = R // tile
    wide = {LANES: L} if W % L == 0 else {}

    @T.prim_func
    def cached_attention(
        q: T.Buffer((B, heads, S, W), dtype), k: T.Buffer((E, G, N, W), stored), v: T.Buffer((E, G, N, V), stored),
        position: T.Buffer((B,), index), slots: T.Buffer((B,), slot_index), y: T.Buffer((B, heads, S, V), dtype),
    ) -> None:  # fmt: skip
        for t in T.parallel(B * G * S):
            with T.block("attend"):
                vb = T.axis.spatial(B, t // (G * S))
                vg = T.axis.spatial(G, t // S % G)
                vs = T.axis.spatial(S, t % S)
                T.block_attr({"op": "nn.cached_attention"})
                scores = T.alloc_buffer((R, padded), dtype)
                dot = T.alloc_buffer((R,), dtype, scope="local")
                peaks = T.alloc_buffer((R, L), dtype)
                sums = T.alloc_buffer((R, L), dtype)
                peak = T.alloc_buffer((R,), dtype)
                total = T.alloc_buffer((R,), dtype)
                acc = T.alloc_buffer((tile, V), dtype, scope="local")
                slot = entry(slots[vb], vb)
                seen = T.min(T.max(T.cast(position[vb], "int64") + T.cast(vs + 1, "int64"), T.int64(1)), T.int64(N))
                chunks = (seen + T.int64(L - 1)) // T.int64(L)
                for r in range(R):
                    for l in T.vectorized(L):
                        scores[r, (chunks - T.int64(1)) * T.int64(L) + T.cast(l, "int64")] = T.cast(low, dtype)
                for j in range(seen):
                    for r in T.unroll(R):
                        for c in T.serial(W, annotations=wide):
                            with T.block("score"):
                                vj = T.axis.opaque(T.int64(N), j)
                                vr, vc = T.axis.remap("SR", [r, c])
                                with T.init():
                                    dot[vr] = T.cast(0.0, dtype)
                                dot[vr] = dot[vr] + q[vb, vg * R + vr, vs, vc] * T.cast(k[slot, vg, vj, vc], dtype)
                    for r in T.unroll(R):
                        scores[r, j] = dot[r] * T.cast(scale, dtype)
                for r in range(R):
                    for l in T.vectorized(L):
                        peaks[r, l] = scores[r, l]
                    for c in range(chunks):
                        for l in T.vectorized(L):
                            peaks[r, l] = T.max(peaks[r, l], scores[r, c * T.int64(L) + T.cast(l, "int64")])
                    peak[r] = peaks[r, 0]
                    for l in range(L):
                        peak[r] = T.max(peak[r], peaks[r, l])
                    for l in T.vectorized(L):
                        sums[r, l] = T.cast(0.0, dtype)
                    for c in range(chunks):
                        for l in T.vectorized(L):
                            scores[r, c * T.int64(L) + T.cast(l, "int64")] = T.exp(
                                scores[r, c * T.int64(L) + T.cast(l, "int64")] - peak[r]
                            )
                        for l in T.vectorized(L):
                            sums[r, l] = sums[r, l] + scores[r, c * T.int64(L) + T.cast(l, "int64")]
                    total[r] = T.cast(0.0, dtype)
                    for l in range(L):
                        total[r] = total[r] + sums[r, l]
                for o in range(tiles):
                    for r in T.unroll(tile):
                        for e in T.vectorized(V):
                            acc[r, e] = T.cast(0.0, dtype)
                    for j in range(seen):
                        for r in T.unroll(tile):
                            for e in T.vectorized(V):
                                acc[r, e] = acc[r, e] + scores[o * tile + r, j] * T.cast(v[slot, vg, j, e], dtype)
                    for r in T.unroll(tile):
                        for e in T.vectorized(V):
                            y[vb, vg * R + o * tile + r, vs, e] = acc[r, e] / total[o * tile + r]

    return cached_attention
