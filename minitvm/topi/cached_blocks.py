"""Attention with a cache for many queries at a time. A vector holds the same score of 16 queries.

    for group of heads that share keys, block of 16 queries:
        q[head, feature, query] = scaled queries
        for chunk of places up to the position of the last query:
            scores[head, place, query] = q[head, :, query] . key[place]     a key serves all heads and queries
            peak', factor = max(peak, scores), exp(peak - peak')
            weights = exp(scores - peak')                                   0 for places that a query does not see
            sum, result = sum * factor, result * factor
            result[head, feature, query] += weights[head, place, query] * value[place, feature]
        result / sum

If the caches have 16 bits, a chunk of keys and values is widened once, for all heads and queries of the block.

The scores of a chunk stay in the L1 cache, whatever the length of the text: FlashAttention (Dao et al. 2022). Nothing
is summed across a vector. With one query, 15 of 16 lanes would be idle; `cached` has the kernel for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..expr import Expr
from ..te import Tensor
from ..tir.nodes import PrimFunc
from .indices import nearest

LANES = 16  # queries
_CHUNK = 128  # places
_REGISTERS = 12  # vectors of sums that are in registers at a time


@dataclass(frozen=True, slots=True)
class CacheEntries:
    """Which of the `entries` of a cache each row of a batch uses: entry slots[b], or entry b if there are no slots.

    `dtype` is that of keys and values, and `index` that of positions. `slot_dtype` is that of the slots, or None.
    """

    entries: Expr
    dtype: str
    index: str
    slot_dtype: str | None

    @property
    def slot_index(self) -> str:
        return self.slot_dtype or self.index

    def entry(self, slot: Expr, row: Expr) -> Expr:
        """Return the entry of a row. It is inside of the cache for all data."""
        return row if self.slot_dtype is None else nearest(slot, self.entries)

    def func(self, func: PrimFunc) -> PrimFunc:
        """Return a loop program without its parameter `slots` if there are no slots, since nothing reads it then."""
        if self.slot_dtype is not None:
            return func
        return PrimFunc(tuple(p for p in func.params if p.name != "slots"), func.body, func.attrs)


def attention_of_blocks(query: Tensor, cache: CacheEntries, numbers: list[int], scale: float) -> Any:
    """Return a loop program whose block computes the attention of 16 queries for one group of heads.

    `numbers` are heads, width, groups, places and width of values.
    """
    from ..tir.script import builtins as T

    heads, W, G, N, V = numbers
    B, S, M = query.shape[0], query.shape[2], cache.entries
    index, slot_index, entry = cache.index, cache.slot_index, cache.entry
    R, L, C = heads // G, LANES, min(_CHUNK, N)
    dtype, stored = str(query.dtype), cache.dtype
    narrow = stored != dtype
    low = float("-inf")
    tile = next(t for t in range(min(R, 4), 0, -1) if R % t == 0)
    tiles, most = R // tile, _REGISTERS // tile
    K = min(most, C)  # places at a time
    E = next(t for t in range(min(V, most), 0, -1) if V % t == 0)  # features of values at a time
    padded = -(-C // K) * K
    blocks = (S + (L - 1)) // L
    last = S - 1

    @T.prim_func
    def cached_attention(
        q: T.Buffer((B, heads, S, W), dtype), k: T.Buffer((M, G, N, W), stored), v: T.Buffer((M, G, N, V), stored),
        position: T.Buffer((B,), index), slots: T.Buffer((B,), slot_index), y: T.Buffer((B, heads, S, V), dtype),
    ) -> None:  # fmt: skip
        for t in T.parallel(B * G * blocks):
            with T.block("attend"):
                vb = T.axis.spatial(B, t // (G * blocks))
                vg = T.axis.spatial(G, t // blocks % G)
                vs = T.axis.spatial(blocks, t % blocks)
                T.block_attr({"op": "nn.cached_attention"})
                turned = T.alloc_buffer((R, W, L), dtype)
                scores = T.alloc_buffer((R, padded, L), dtype)
                dot = T.alloc_buffer((tile, K, L), dtype, scope="local")
                peaks = T.alloc_buffer((R, L), dtype)
                higher = T.alloc_buffer((L,), dtype, scope="local")
                factors = T.alloc_buffer((R, L), dtype)
                sums = T.alloc_buffer((R, L), dtype)
                acc = T.alloc_buffer((tile, E, L), dtype, scope="local")
                mixed = T.alloc_buffer((R, V, L), dtype)
                keys = T.alloc_buffer((C, W), dtype) if narrow else k
                values = T.alloc_buffer((C, V), dtype) if narrow else v
                slot = entry(slots[vb], vb)
                start = T.cast(position[vb], "int64") + T.cast(vs * L + 1, "int64")
                rows = T.min(T.cast(S - vs * L, "int64"), T.int64(L))
                seen = T.min(T.max(start + rows - T.int64(1), T.int64(1)), T.int64(N))
                first = T.cast(T.min(T.max(start, T.int64(-L)), T.int64(N)), "int32")
                chunks = (seen + T.int64(C - 1)) // T.int64(C)
                for r in range(R):
                    for l in range(L):
                        for c in range(W):
                            turned[r, c, l] = q[vb, vg * R + r, T.min(vs * L + l, last), c] * T.cast(scale, dtype)
                    for l in T.vectorized(L):
                        peaks[r, l] = T.cast(low, dtype)
                    for l in T.vectorized(L):
                        sums[r, l] = T.cast(0.0, dtype)
                    for e in range(V):
                        for l in T.vectorized(L):
                            mixed[r, e, l] = T.cast(0.0, dtype)
                for chunk in range(chunks):
                    begin = T.cast(chunk, "int64") * T.int64(C)
                    count = T.min(seen - begin, T.int64(C))
                    if narrow:
                        for j in range(count):
                            for c in T.vectorized(W):
                                keys[j, c] = T.cast(k[slot, vg, begin + T.cast(j, "int64"), c], dtype)
                            for e in T.vectorized(V):
                                values[j, e] = T.cast(v[slot, vg, begin + T.cast(j, "int64"), e], dtype)
                    for part in range((count + T.int64(K - 1)) // T.int64(K)):
                        offset = T.cast(part, "int64") * T.int64(K)
                        place = T.cast(begin + offset, "int32")
                        for o in range(tiles):
                            for r in T.unroll(tile):
                                for j in T.unroll(K):
                                    for l in T.vectorized(L):
                                        dot[r, j, l] = T.cast(0.0, dtype)
                            for c in range(W):
                                for r in T.unroll(tile):
                                    for j in T.unroll(K):
                                        for l in T.vectorized(L):
                                            dot[r, j, l] = dot[r, j, l] + turned[o * tile + r, c, l] * (
                                                keys[
                                                    T.max(
                                                        T.min(offset + T.cast(j, "int64"), count - T.int64(1)),
                                                        T.int64(0),
                                                    ), c,
                                                ]
                                                if narrow
                                                else k[
                                                    slot, vg,
                                                    T.min(begin + offset + T.cast(j, "int64"), seen - T.int64(1)), c,
                                                ]
                                            )  # fmt: skip
                            for r in T.unroll(tile):
                                for j in T.unroll(K):
                                    for l in T.vectorized(L):
                                        scores[o * tile + r, offset + T.cast(j, "int64"), l] = T.Select(
                                            place + j < T.max(first + l, 1), dot[r, j, l], T.cast(low, dtype)
                                        )
                    for r in range(R):
                        for l in T.vectorized(L):
                            higher[l] = peaks[r, l]
                        for j in range(count):
                            for l in T.vectorized(L):
                                higher[l] = T.max(higher[l], scores[r, j, l])
                        for l in T.vectorized(L):
                            factors[r, l] = T.exp(peaks[r, l] - higher[l])
                        for l in T.vectorized(L):
                            peaks[r, l] = higher[l]
                        for l in T.vectorized(L):
                            sums[r, l] = sums[r, l] * factors[r, l]
                        for j in range(count):
                            for l in T.vectorized(L):
                                scores[r, j, l] = T.exp(scores[r, j, l] - peaks[r, l])
                            for l in T.vectorized(L):
                                sums[r, l] = sums[r, l] + scores[r, j, l]
                    for o in range(tiles):
                        for p in range(V // E):
                            for r in T.unroll(tile):
                                for e in T.unroll(E):
                                    for l in T.vectorized(L):
                                        acc[r, e, l] = mixed[o * tile + r, p * E + e, l] * factors[o * tile + r, l]
                            for j in range(count):
                                for r in T.unroll(tile):
                                    for e in T.unroll(E):
                                        for l in T.vectorized(L):
                                            acc[r, e, l] = acc[r, e, l] + scores[o * tile + r, j, l] * (
                                                values[j, p * E + e]
                                                if narrow
                                                else v[slot, vg, begin + T.cast(j, "int64"), p * E + e]
                                            )
                            for r in T.unroll(tile):
                                for e in T.unroll(E):
                                    for l in T.vectorized(L):
                                        mixed[o * tile + r, p * E + e, l] = acc[r, e, l]
                for r in range(R):
                    for l in range(rows):
                        for e in range(V):
                            y[vb, vg * R + r, vs * L + T.cast(l, "int32"), e] = mixed[r, e, l] / sums[r, l]

    return cached_attention
