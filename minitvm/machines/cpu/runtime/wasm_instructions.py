"""Multiply-adds with one rounding in WebAssembly, for which LLVM would otherwise call the C library.

Relaxed SIMD has them for vectors of 128 bits (`relaxed_madd`), so a scalar uses lane 0 of one. The engine may also
round twice, where its machine has no such instruction. For engines without relaxed SIMD they are computed from the
errors of a product and of a sum.
"""

from __future__ import annotations

from llvmlite import ir

from ...simd.vectors.float_formats import FUSES
from ...simd.vectors.lanes import F32, F64, I32, INTRINSICS, WITHOUT_HALVES, Value, declare

ARCHITECTURE = "wasm32"
_BYTES = 16  # of a vector
_SPLITTER = 2.0**27 + 1  # a multiple of a float64 from which its upper 26 bits follow


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    """Return `a * b + c`, rounded once."""
    if FUSES.get():
        return _relaxed(a, b, c)
    return _by_errors(*(x.cast(F64) for x in (a, b, c))).cast(F32) if a.element is F32 else _by_errors(a, b, c)


def _by_errors(a: Value, b: Value, c: Value) -> Value:
    """Return `a * b + c` in float64, from the errors of the product (Dekker 1971) and the sum (Knuth, TAOCP 4.2.2).

    product + product_error = a * b and total + total_error = product + c are exact. If an error is not a number,
    because a value is infinite, the total is the result.
    """
    product = a * b
    total = product + c
    a_high, b_high = (x * _SPLITTER - (x * _SPLITTER - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    product_error = a_high * b_high - product + a_high * b_low + a_low * b_high + a_low * b_low
    c_rounded = total - product
    total_error = (product - (total - c_rounded)) + (c - c_rounded)
    error = total_error + product_error
    return error.is_nan().select(total, total + error)


def _relaxed(a: Value, b: Value, c: Value) -> Value:
    """Return `a * b + c`, computed in vectors of 128 bits; the last vector may have unused lanes."""
    lanes = 8 * _BYTES // a.element.bits
    vector = ir.VectorType(a.element.llvm, lanes)
    name = f"llvm.wasm.relaxed.madd.v{lanes}f{a.element.bits}"
    function = declare(a.builder, name, ir.FunctionType(vector, [vector] * 3))
    if not a.lanes:
        result = a.builder.call(function, [_widened(x.builder, x.llvm, vector) for x in (a, b, c)])
        return a.wrap(a.builder.extract_element(result, ir.Constant(I32.llvm, 0)))
    pieces = [
        a.builder.call(function, [_piece(a.builder, x.llvm, first, lanes) for x in (a, b, c)])
        for first in range(0, a.lanes, lanes)
    ]
    return a.wrap(_joined(a.builder, pieces, a.lanes))


def _widened(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    return builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32.llvm, 0))


def _picked(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32.llvm, len(lanes)), lanes))


def _piece(builder: ir.IRBuilder, x: ir.Value, first: int, lanes: int) -> ir.Value:
    """Return `lanes` lanes of `x`, beginning at `first`; beyond the end of `x`, the last lane is repeated."""
    if x.type.count == lanes:
        return x
    return _picked(builder, x, x, [min(lane, x.type.count - 1) for lane in range(first, first + lanes)])


def _joined(builder: ir.IRBuilder, pieces: list[ir.Value], lanes: int) -> ir.Value:
    """Return the first `lanes` lanes of the concatenated pieces."""
    while len(pieces) > 1:
        if len(pieces) % 2:
            pieces = [*pieces, pieces[-1]]
        both = list(range(2 * pieces[0].type.count))
        pieces = [_picked(builder, a, b, both) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
    result = pieces[0]
    return result if result.type.count == lanes else _picked(builder, result, result, list(range(lanes)))


INTRINSICS[ARCHITECTURE] = {"fma": _multiply_add}
WITHOUT_HALVES.add(ARCHITECTURE)
