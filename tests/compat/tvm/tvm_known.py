"""Findings about TVM 0.27 that are told in docs/tvm.md: the fuzzer counts them, and shrinks only what is new."""

from __future__ import annotations

from .tvm_pair import OTHER_RESULTS, TVM_WRONG

_OUTSIDE, _BEYOND, _DIFFER = "out of bounds", "runs outside its domain", "the programs differ"

KNOWN: dict[tuple[str, str, str], str] = {
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_DIFFER}, epilogue exp"): "the function is applied in every update",
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_DIFFER}, epilogue Mul"): "the product is taken in every update",
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_DIFFER}, epilogue Max"): "the bound is taken in every update",
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_DIFFER}, epilogue Min"): "the bound is taken in every update",
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_OUTSIDE}, epilogue BufferLoad"): "the epilogue reads another element",
    (TVM_WRONG, "fuse_reduction_epilogue", "uninitialised, epilogue if_then_else"): "padding is no epilogue",
    (TVM_WRONG, "decompose_padding", "the parameters"): "a block beside it in the loop is dropped",
    (TVM_WRONG, "loop_partition", _DIFFER): "the init of a reduction runs again in each part",
    (TVM_WRONG, "reindex", _OUTSIDE): "a guarded read is copied without its guard",
    (TVM_WRONG, "reindex_cache_read", _OUTSIDE): "a guarded read is copied without its guard",
    (TVM_WRONG, "read_at", _OUTSIDE): "a guarded read is copied without its guard",
    (TVM_WRONG, "pad_einsum", _DIFFER): "a maximum is padded with zeros",
    (TVM_WRONG, "write_at", "uninitialised"): "what the block updates is not copied in",
    (TVM_WRONG, "write_at", _OUTSIDE): "the copy forgets the predicate",
    (TVM_WRONG, "reindex", _BEYOND): "the copy forgets the predicate",
    (TVM_WRONG, "reindex_cache_read", _BEYOND): "the copy forgets the predicate",
    (TVM_WRONG, "reindex_cache_write", _BEYOND): "the copy forgets the predicate",
    (TVM_WRONG, "blockize", _OUTSIDE): "the predicate of a loop that is left out is forgotten",
    (TVM_WRONG, "reverse_compute_at", "uninitialised"): "the producer of a block before is moved behind it",
    (
        TVM_WRONG,
        "cache_inplace",
        "vi is used where it has no value",
    ): "the copy's region names the block's iterator",
    (TVM_WRONG, "fuse_reduction_epilogue", f"{_DIFFER}, epilogue Add"): "a bias goes into the init of a maximum",
    (TVM_WRONG, "cache_write", "uninitialised"): "after cache_index: a reader that is not declared is not seen",
    (OTHER_RESULTS, "cache_index", "cache_index gives another number of results in TVM"): "more indices are kept",
    (
        OTHER_RESULTS,
        "transform_layout",
        "get_loops gives another number of results in TVM",
    ): "the loops are rewritten too",
}
