"""TVM's names for instructions on fragments of tensor cores; see `wmma` and `mma`.

For example, `WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN` is "wmma_sync_16x16x16_f16f16f32_trans", and
`LDMATRIX_f16_A_DYN_INTRIN` "mma_ldmatrix_f16_a_dyn".
"""

from __future__ import annotations

from itertools import product
from typing import Any

from ....absent import absent

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
    small = "8x8x32"
    for side, dynamic in product(("A", "B_TRANS"), ("", "_DYN")):
        names[f"WMMA_LOAD_{small}_S4_{side}{dynamic}_INTRIN"] = (
            f"wmma_load_{small}_s4_{side}_shared{dynamic}".lower()
        )  # fmt: skip
    names[f"WMMA_FILL_{small}_S32_INTRIN"] = f"wmma_fill_{small}_s32"
    for scope in ("GLOBAL", "SHARED", "SHARED_DYN"):
        names[f"WMMA_STORE_{small}_S32_{scope}_INTRIN"] = f"wmma_store_{small}_s32_{scope.lower()}"
    names[f"WMMA_SYNC_{small}_s4s4s32_TRANS_INTRIN"] = f"wmma_sync_{small}_s4s4s32_trans"
    return names


def _names_of_mma() -> dict[str, str]:
    names: dict[str, str] = {}
    for side, columns, dynamic in product("AB", ("", "_TRANS"), ("", "_DYN")):
        text = f"f16_{side}{columns}{dynamic}"
        names[f"LDMATRIX_{text}_INTRIN"] = f"mma_ldmatrix_{text.lower()}"
    for dtype, side in product(("i8", "e4m3", "e5m2"), ("A", "B", "B_TRANS")):
        names[f"LDMATRIX_{dtype}_{side}_INTRIN"] = f"mma_ldmatrix_{dtype}_{side.lower()}"
    for dtypes, rows in product(("f16f16f32", "f16f16f16", "i8i8i32", "e4m3e4m3f32", "e5m2e5m2f32"), ("", "_TRANS_B")):
        names[f"MMA_{dtypes}{rows}_INTRIN"] = f"mma_{dtypes}{rows.lower()}"
        if dtypes.startswith("f16"):
            names[f"MMA_{dtypes}_TRANS_A{rows}_INTRIN"] = f"mma_{dtypes}_trans_a{rows.lower()}"
    for dtype in ("f32", "f16", "i32"):
        names[f"MMA_fill_16x16_{dtype}_INTRIN"] = f"mma_fill_16x16_{dtype}"
        names[f"MMA_store_16x16_{dtype}_global_INTRIN"] = f"mma_store_16x16_{dtype}_global_"
    names["MMA_store_16x16_f32_shared_dyn_INTRIN"] = "mma_store_16x16_f32_shared_dyn_"
    for dtype in ("f32", "f16"):
        names[f"MMA_store_16x16_{dtype}_shared_dyn_INTRIN_SIMPLE"] = f"mma_store_16x16_{dtype}_shared_dyn_simple_"
    return names


_NAMES = _names() | _names_of_mma()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    raise absent("minitvm.tir.tensor_intrin.cuda", name, list(_NAMES))


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


def get_mma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_a: bool, trans_b: bool,
    not_use_mma_store_intrinic: bool = True, store_to_smem_dtype: str | None = None,
) -> dict[str, str]:  # fmt: skip
    """The same for `mma` and `ldmatrix` (TVM's, with its spelling of the arguments)."""
    short = {
        "float16": "f16", "float32": "f32", "int8": "i8", "int32": "i32",
        "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    }  # fmt: skip
    operands, sums = short[in_dtype], short[out_dtype]
    dynamic = "_dyn" if load_scope == "shared.dyn" else ""
    columns = {side: "_trans" if transposed else "" for side, transposed in (("a", trans_a), ("b", trans_b))}
    rows = "".join(f"{columns[side]}_{side}" for side in "ab" if columns[side])
    stored = short[store_to_smem_dtype] if store_to_smem_dtype else sums
    simple = "simple_" if not_use_mma_store_intrinic else ""
    return {
        "init": f"mma_fill_16x16_{sums}",
        "load_a": f"mma_ldmatrix_{operands}_a{columns['a']}{dynamic}",
        "load_b": f"mma_ldmatrix_{operands}_b{columns['b']}{dynamic}",
        "compute": f"mma_{operands}{operands}{sums}{rows}",
        "store": f"mma_store_16x16_{stored}_{store_scope.replace('.', '_')}_{simple}",
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
