"""TVM's names for instructions on fragments of tensor cores; see `wmma`.

For example, `WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN` is "wmma_sync_16x16x16_f16f16f32_trans".
"""

from __future__ import annotations

from itertools import product
from typing import Any

from ...absent import absent

_TILE = "16x16x16"


def _names() -> dict[str, str]:
    names: dict[str, str] = {}
    for dtype, side, columns, dynamic in product(("F16", "S8"), "AB", ("", "_TRANS"), ("", "_DYN")):
        text = f"wmma_load_{_TILE}_{dtype}_{side}{columns}_shared{dynamic}".lower()
        names[f"WMMA_LOAD_{_TILE}_{dtype}_{side}{columns}{dynamic}_INTRIN"] = text
    for dtype in ("F32", "F16", "S32"):
        names[f"WMMA_FILL_{_TILE}_{dtype}_INTRIN"] = f"wmma_fill_{_TILE}_{dtype.lower()}"
        for scope in ("GLOBAL", "SHARED", "SHARED_DYN"):
            names[f"WMMA_STORE_{_TILE}_{dtype}_{scope}_INTRIN"] = f"wmma_store_{_TILE}_{dtype}_{scope}".lower()
    for dtypes, rows in product(("f16f16f32", "f16f16f16", "s8s8s32"), ("", "_TRANS")):
        names[f"WMMA_SYNC_{_TILE}_{dtypes}{rows}_INTRIN"] = f"wmma_sync_{_TILE}_{dtypes}{rows.lower()}"
    return names


_NAMES = _names()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    raise absent(__name__, name, list(_NAMES))


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool = False
) -> dict[str, str]:
    """The names of the instructions of one product, by their part: init, load_a, load_b, compute, store (TVM's)."""
    short = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
    operands, sums = short[in_dtype], short[out_dtype]
    load, rows = load_scope.replace(".", "_"), "_trans" if trans_b else ""
    return {
        "init": f"wmma_fill_{_TILE}_{sums}",
        "load_a": f"wmma_load_{_TILE}_{operands}_a_{load}",
        "load_b": f"wmma_load_{_TILE}_{operands}_b{rows}_{load}",
        "compute": f"wmma_sync_{_TILE}_{operands}{operands}{sums}{rows}",
        "store": f"wmma_store_{_TILE}_{sums}_{store_scope.replace('.', '_')}",
    }


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """(thread, place in its registers) of an element of a 16 x 16 tile that `ldmatrix` has loaded."""
    return 4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + j % 2


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The same for a tile of 16 x 32 bytes."""
    return (i * 4 + (j % 16) // 4) % 32, (j // 16) * 8 + (i // 8) * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The same for a tile of 32 x 16 bytes."""
    return (i % 16) // 4 + (j % 8) * 4, (j // 8) * 8 + (i // 16) * 4 + i % 4
