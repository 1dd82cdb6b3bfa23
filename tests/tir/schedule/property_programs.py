"""Which programs each primitive is tried on, and what is done to them before: "" stands for all that are not named."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.expr import Max, Min, binary
from minitvm.reference.strategies import KINDS, pairs, prim_funcs
from minitvm.tir.nodes import PrimFunc

from . import cache_programs, layout_programs, reductions_programs, zero_programs
from .bound_programs import partly_bound_programs, partly_written_programs

BLOCKS: st.SearchStrategy[Any] = prim_funcs(min_blocks=2)
REDUCTIONS = prim_funcs(kinds=("reduce", "matmul", "stencil", "elementwise"))
# Long ones, where more than one call is legal on most.
CHAINS = prim_funcs(min_blocks=4, max_blocks=6, kinds=[k for k in KINDS if k not in ("gather", "reduce", "pad")])
PRODUCERS = prim_funcs(
    min_blocks=4, max_blocks=6, kinds=[k for k in KINDS if k not in ("columns", "total", "scan", "inplace")]
)
CONSUMERS = prim_funcs(
    min_blocks=3, max_blocks=5, kinds=("elementwise", "broadcast", "transpose", "stride", "convert", "formula")
)


@st.composite
def epilogues(draw: Any) -> PrimFunc:
    """A reduction into a temporary, and what is added to it, or the greater or the less of it and something."""
    rows, columns, depth = (draw(st.integers(1, 5)) for _ in range(3))
    dtype = draw(st.sampled_from(["float32", "int32"]))
    a = te.placeholder((rows, depth), dtype, name="A")
    b = te.placeholder((depth, columns), dtype, name="B")
    k = te.reduce_axis((0, depth), "k")
    reducer = draw(st.sampled_from([te.sum, te.sum, te.max, te.min]))
    temp = te.compute((rows, columns), lambda i, j: reducer(a[i, k] * b[k, j], axis=k), name="temp")
    kind = {te.max: "max", te.min: "min"}.get(reducer, "add")
    if draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(["add", "max", "min"]))  # now and then one that does not fit
    whole = draw(st.booleans())
    c = te.placeholder((rows, columns) if whole else (columns,), dtype, name="C")

    def combined(i: Any, j: Any) -> Any:
        other = c[i, j] if whole else c[j]
        if kind == "add":
            return temp[i, j] + other if draw(st.booleans()) else other + temp[i, j]
        return binary(Max if kind == "max" else Min, temp[i, j], other)

    return te.create_prim_func([a, b, c, te.compute((rows, columns), combined, name="D")])


PROGRAMS: dict[str, st.SearchStrategy[Any]] = {
    "": BLOCKS,
    "cache_index": cache_programs.computed_indices(),
    "cache_inplace": cache_programs.in_place(),
    "cache_read": st.one_of(BLOCKS, BLOCKS, cache_programs.ragged(), partly_written_programs()),
    "cache_write": st.one_of(BLOCKS, BLOCKS, cache_programs.ragged(), partly_written_programs()),
    "compute_at": st.one_of(BLOCKS, BLOCKS, BLOCKS, partly_bound_programs()),
    "compute_inline": st.one_of(PRODUCERS, PRODUCERS, PRODUCERS, partly_bound_programs()),
    "decompose_padding": reductions_programs.paddings(),
    "decompose_reduction": REDUCTIONS,
    "loop_partition": st.one_of(reductions_programs.in_one_loop(), BLOCKS, reductions_programs.in_one_loop()),
    "fuse_reduction_epilogue": st.one_of(epilogues(), reductions_programs.reductions(epilogue=True)),
    "merge": st.one_of(prim_funcs(kinds=("elementwise", "formula", "convert"), min_blocks=2), BLOCKS),
    "pad_einsum": reductions_programs.einsums(),
    "reverse_compute_at": st.one_of(CHAINS, CHAINS, CHAINS, partly_bound_programs()),
    "reverse_compute_inline": st.one_of(CONSUMERS, CONSUMERS, CONSUMERS, partly_bound_programs()),
    "reduce_in_passes": reductions_programs.running_softmaxes(),
    "rfactor": st.one_of(*[REDUCTIONS, reductions_programs.reductions()] * 4, reductions_programs.running_softmaxes()),
    "rolling_buffer": reductions_programs.rolled(),
    "skip_zero_terms": zero_programs.sums_with_zeros(),
    "tensorize": layout_programs.products_in_tiles(),
}

PREPARATION: dict[str, tuple[str, ...]] = {
    "": pairs.PREPARATION,
    "bind": ("split", "fuse", "reorder", "compute_at"),
    "cache_index": ("split", "reorder"),
    "cache_inplace": ("split", "reorder", "fuse"),
    "decompose_reduction": ("split", "reorder", "compute_at"),
    "decompose_padding": ("split", "compute_at"),
    "pad_einsum": ("annotate",),
    "fuse_reduction_epilogue": ("annotate",),
    "reverse_compute_at": ("split", "reorder"),
    "reverse_compute_inline": ("split",),
    "reduce_in_passes": ("split", "reorder", "rfactor"),
    "rfactor": ("split", "reorder"),
    "rolling_buffer": ("annotate",),
    "skip_zero_terms": ("split", "reorder", "decompose_reduction"),
    "tensorize": ("annotate",),
    "unannotate": ("annotate",),
}

# How many such steps at least, where a fresh program has nothing to work on.
AT_LEAST = {"unannotate": 4}
