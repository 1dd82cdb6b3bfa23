"""TVM's instructions `mma` and `ldmatrix`, under its names: `mma_ldmatrix_f16_a`, `mma_f16f16f32_trans_b`, ...

Their fragments are buffers of scope "warp": [thread, place in its registers], each element where the hardware has it
(`cuda.shared_16x16_to_ldmatrix_32x8_layout`). `transform_layout` puts a buffer of a program in that form. Those of
`mma_sync_m16n8k8_f16f16f32` and the like have scopes of their own and lie as the matrix does.

Like `dot_products`, they have a meaning and no spelling. `tensor_cores` has those that kernels of minitvm use.
"""

from __future__ import annotations

import re

from ....errors import InputError
from ....tir.nodes import PrimFunc
from ....tir.tensor_intrin import TensorIntrin
from . import cuda
from .fragments import Fragment, filled, moved, product

_NAME = re.compile(
    r"mma_(?:ldmatrix_(?P<load>f16_[ab](?:_trans)?|i8_(?:a|b|b_trans))(?P<from>_dyn)?"
    r"|(?P<sync>f16f16f32|f16f16f16|i8i8i32)(?P<trans_a>_trans_a)?(?P<trans_b>_trans_b)?"
    r"|fill_16x16_(?P<fill>f16|f32|i32)"
    r"|store_16x16_(?P<store>f16|f32|i32)_(?P<to>global|shared|shared_dyn)_(?:simple_)?"
    r"|(?P<small>init|load|sync|store)_m16n8k8_(?P<rest>\w+))"
)
_DTYPES = {"f16": "float16", "f32": "float32", "i8": "int8", "i32": "int32"}
# Dtypes that no program here has.
_ABSENT = {"s4": "int4", "8x8x32": "int4", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_OF_THEM = re.compile(rf"w?mma_\w*({'|'.join(_ABSENT)})\w*")
_WIDE = 16  # bytes that a load of TVM's takes at once


def register_named(name: str) -> None:
    """Make the instruction of that name known, where it is one of TVM's and not known yet."""
    match = _NAME.fullmatch(name)
    if match is None or name in TensorIntrin.KNOWN:
        return
    desc: PrimFunc | None
    if match["small"]:
        desc = _small(match["small"], match["rest"])
    elif match["fill"]:
        desc = filled(_warp("sums", match["fill"]))
    elif match["store"]:
        sums = _warp("sums", match["store"])
        desc = moved(sums, Fragment(sums.tile, sums.dtype, match["to"].replace("_", "."), align=_WIDE))
    elif match["sync"]:
        desc = _product(match["sync"], bool(match["trans_a"]), bool(match["trans_b"]))
    else:
        dtype, side, *columns = match["load"].split("_")
        target = _warp("a" if columns else side, dtype)
        desc = moved(Fragment(target.tile, target.dtype, "shared.dyn" if match["from"] else "shared", _WIDE), target)
    if desc is not None:
        TensorIntrin.register(name, desc, instruction={}, together=32)


def _warp(part: str, short: str) -> Fragment:
    """A fragment in the registers of a warp: "a", whose rows are summed along, "b", whose columns are, or "sums"."""
    dtype = _DTYPES[short]
    if part == "sums" or short == "f16":
        return Fragment((16, 16), dtype, "warp", _WIDE, cuda.shared_16x16_to_ldmatrix_32x8_layout, (32, 8))
    if part == "a":
        return Fragment((16, 32), dtype, "warp", _WIDE, cuda.shared_16x32_to_ldmatrix_32x16_layout, (32, 16))
    return Fragment((32, 16), dtype, "warp", _WIDE, cuda.shared_32x16_to_ldmatrix_32x16_layout, (32, 16))


def require_dtypes(name: str) -> None:
    """Raise `InputError` for one of TVM's instructions on a dtype that programs here do not have."""
    match = _OF_THEM.fullmatch(name)
    if match is not None:
        raise InputError(
            f"no tensor intrinsic {name!r}: TVM has one of {_ABSENT[match[1]]}, and there is no such dtype here\n"
            "  try:    the one of int8 or float16, with the operands converted"
        )


def _product(dtypes: str, trans_a: bool, trans_b: bool) -> PrimFunc | None:
    operand, sums = dtypes[: (len(dtypes) - 3) // 2], dtypes[-3:]
    if trans_a and operand != "f16":
        return None
    second = _warp("a" if trans_b else "b", operand)
    return product(_warp("a", operand), second, _warp("sums", sums), trans_a, trans_b)


def _small(part: str, rest: str) -> PrimFunc | None:
    """The description of an instruction of 16 x 8 x 8, None where TVM has none of that name."""
    if part == "sync" and rest in ("f16f16f16", "f16f16f32"):
        first, second = Fragment((16, 8), "float16", "m16n8k8.matrixA"), Fragment((8, 8), "float16", "m16n8k8.matrixB")
        return product(first, second, Fragment((16, 8), _DTYPES[rest[-3:]], "m16n8k8.matrixC"))
    if part == "load" and rest in ("f16_A_shared_dyn", "f16_B_shared_dyn"):
        tile, side = ((32, 8), "A") if rest[4] == "A" else ((8, 32), "B")
        return moved(Fragment(tile, "float16", "shared.dyn"), Fragment(tile, "float16", f"m16n8k8.matrix{side}"))
    dtype = rest.removesuffix("_global") if part == "store" else rest
    if dtype not in ("f16", "f32") or (part == "store") != rest.endswith("_global"):
        return None
    sums = Fragment((16, 8), _DTYPES[dtype], "m16n8k8.matrixC")
    if part == "init":
        return filled(sums)
    # The storage is shared in TVM, whatever the name says.
    return moved(sums, Fragment((16, 8), _DTYPES[dtype], "shared.dyn")) if part == "store" else None
