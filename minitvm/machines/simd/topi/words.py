"""Words: an int32 that holds neighbours along the last axis, four bytes or two bfloat16, for instructions on words."""

from __future__ import annotations

from .... import te
from ....errors import TypeMismatch
from ....expr import Call, DType, Expr, const
from ....expr.intrin import call
from ....te import Tensor
from ....topi.shapes import constant, dims

__all__ = ["words"]

BYTES = ("int8", "uint8")


def words(x: Tensor) -> Tensor:
    """View bytes [.., 4 k] or bfloat16 [.., 2 k] as int32 [.., k]. The first element is in the lowest bits."""
    *outer, last = dims(x)
    extent = constant(last, "an axis of words")
    if x.dtype not in (*BYTES, "bfloat16") or extent % (4 // x.dtype.bytes):
        raise TypeMismatch(
            "words: wanted int8 or uint8, a multiple of four along the last axis, or bfloat16, a multiple of two; "
            f"found {x}"
        )
    bits = x.dtype.bits
    count, part = 32 // bits, DType(f"uint{bits}")

    def element(*index: Expr) -> Expr:
        *at, word = index
        total: Expr = const(0)
        for k in range(count):
            piece = Call(part, "reinterpret", (x[(*at, word * count + k)],)).astype("int32")
            shifted = call("shift_left", piece, const(bits * k)) if k else piece
            total = call("bitwise_or", total, shifted) if k else shifted
        return total

    return te.compute((*outer, extent // count), element, name="words")


def check_words(what: str, of: str, data: Tensor, weight: Tensor) -> None:
    """Raise `TypeMismatch` unless both tensors hold words."""
    if data.ndim < 1 or data.dtype != "int32" or weight.dtype != "int32":
        raise TypeMismatch(f"{what} of {of}: wanted int32 words, found {data} and {weight}")
