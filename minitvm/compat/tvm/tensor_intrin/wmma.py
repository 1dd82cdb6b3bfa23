"""TVM's instructions on fragments of tensor cores, under its names: `wmma_load_16x16x16_f16_a_shared`, ...

Like `dot_products`, they have a meaning and no spelling. `tensor_cores` has those that kernels of minitvm use.
"""

from __future__ import annotations

import re

from ....tir.tensor_intrin import TensorIntrin
from .fragments import Fragment, filled, moved, product

_NAME = re.compile(
    r"wmma_(?:load_16x16x16_(?P<load>f16|s8)_(?P<side>[ab])(?:_trans)?_(?P<from>shared|shared_dyn)"
    r"|fill_16x16x16_(?P<fill>f32|f16|s32)"
    r"|store_16x16x16_(?P<store>f32|f16|s32)_(?P<to>global|shared|shared_dyn)"
    r"|sync_16x16x16_(?P<sync>f16f16f32|f16f16f16|s8s8s32)(?P<transposed>_trans)?)"
)
_DTYPES = {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}
_PRODUCTS = {
    "f16f16f32": ("float16", "float32"), "f16f16f16": ("float16", "float16"), "s8s8s32": ("int8", "int32"),
}  # fmt: skip


def register_named(name: str) -> None:
    """Make the instruction of that name known, where it is one of TVM's and not known yet."""
    match = _NAME.fullmatch(name)
    if match is None or name in TensorIntrin.KNOWN:
        return
    if match["load"]:
        dtype = _DTYPES[match["load"]]
        desc = moved(_tile(dtype, _scope(match["from"])), _tile(dtype, f"wmma.matrix_{match['side']}"))
    elif match["fill"]:
        desc = filled(_tile(_DTYPES[match["fill"]], "wmma.accumulator"))
    elif match["store"]:
        dtype = _DTYPES[match["store"]]
        desc = moved(_tile(dtype, "wmma.accumulator"), _tile(dtype, _scope(match["to"])))
    else:
        operands, sums = _PRODUCTS[match["sync"]]
        first, second = (_tile(operands, f"wmma.matrix_{side}") for side in "ab")
        desc = product(first, second, _tile(sums, "wmma.accumulator"), trans_b=bool(match["transposed"]))
    TensorIntrin.register(name, desc, instruction={}, together=32)


def _scope(text: str) -> str:
    return text.replace("_", ".")


def _tile(dtype: str, scope: str) -> Fragment:
    return Fragment((16, 16), dtype, scope)
