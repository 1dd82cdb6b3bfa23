"""Read and write the lanes of a vector that a mask selects, by LLVM's intrinsics or lane by lane.

Values have their form in memory: bools are bytes, and bfloat16 is its bits. Masked-out lanes are not accessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .lanes import B1, I64, Element, Value, architecture, declare

_I32 = ir.IntType(32)
LANE_BY_LANE: set[str] = set()  # architectures whose LLVM does not have the intrinsics


def load(builder: ir.IRBuilder, at: ir.Value, mask: ir.Value, other: Value) -> Value:
    """Return the vector at `at`, with `other` in the masked-out lanes."""
    if architecture(builder) in LANE_BY_LANE:
        return _read(builder, lambda lane: _element(builder, at, lane), mask, other)
    operands = [at, ir.Constant(_I32, other.element.itemsize), mask, other.llvm]
    return other.wrap(_call(builder, "load", other.llvm.type, operands, _suffix(other) + ".p0"))


def store(builder: ir.IRBuilder, value: Value, at: ir.Value, mask: ir.Value) -> None:
    """Write the lanes that the mask selects to the vector at `at`."""
    if architecture(builder) in LANE_BY_LANE:
        _write(builder, value, lambda lane: _element(builder, at, lane), mask)
        return
    operands = [value.llvm, at, ir.Constant(_I32, value.element.itemsize), mask]
    _call(builder, "store", ir.VoidType(), operands, _suffix(value) + ".p0")


def gather(builder: ir.IRBuilder, pointer: ir.Value, index: Value, mask: ir.Value | None, other: Value) -> Value:
    """Return `pointer[index[l]]` in each lane l that the mask selects (None: all lanes), and `other` elsewhere."""
    if architecture(builder) in LANE_BY_LANE:
        return _read(builder, lambda lane: builder.gep(pointer, [index.lane(lane).llvm]), mask, other)
    pointers = _addresses(builder, pointer, index, other.element)
    chosen = _all_lanes(other.lanes) if mask is None else mask
    operands = [pointers, ir.Constant(_I32, other.element.itemsize), chosen, other.llvm]
    return other.wrap(_call(builder, "gather", other.llvm.type, operands, f"{_suffix(other)}.v{other.lanes}p0"))


def scatter(builder: ir.IRBuilder, value: Value, pointer: ir.Value, index: Value, mask: ir.Value | None) -> None:
    """Store `pointer[index[l]] = value[l]` for the selected lanes, in order."""
    if architecture(builder) in LANE_BY_LANE:
        _write(builder, value, lambda lane: builder.gep(pointer, [index.lane(lane).llvm]), mask)
        return
    pointers = _addresses(builder, pointer, index, value.element)
    chosen = _all_lanes(value.lanes) if mask is None else mask
    operands = [value.llvm, pointers, ir.Constant(_I32, value.element.itemsize), chosen]
    _call(builder, "scatter", ir.VoidType(), operands, f"{_suffix(value)}.v{value.lanes}p0")


# -- by intrinsics


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value], overloads: str) -> Any:
    function = declare(builder, f"llvm.masked.{name}.{overloads}", ir.FunctionType(result, [a.type for a in args]))
    return builder.call(function, args)


def _suffix(value: Value) -> str:
    return f"v{value.lanes}{'f' if value.element.kind == 'f' else 'i'}{value.element.bits}"


def _all_lanes(n: int) -> ir.Value:
    return ir.Constant(ir.VectorType(B1.llvm, n), [1] * n)


def _addresses(builder: ir.IRBuilder, pointer: ir.Value, index: Value, stored: Element) -> ir.Value:
    """Return a vector of pointers, computed by integer arithmetic because llvmlite's gep does not accept vectors of
    indices.
    """
    base = Value(builder, I64, 0, builder.ptrtoint(pointer, I64.llvm)).splat(index.lanes)
    return builder.inttoptr((base + index * stored.itemsize).llvm, ir.VectorType(ir.PointerType(), index.lanes))


# -- lane by lane


def _element(builder: ir.IRBuilder, at: ir.Value, lane: int) -> ir.Value:
    """Return the address of a lane of the vector at `at`."""
    first = builder.bitcast(at, at.type.pointee.element.as_pointer())
    return builder.gep(first, [ir.Constant(I64.llvm, lane)])


def _read(builder: ir.IRBuilder, address: Callable[[int], ir.Value], mask: ir.Value | None, other: Value) -> Value:
    total = other
    for lane in range(other.lanes):
        if mask is None:
            read = builder.load(address(lane), align=other.element.itemsize)
        else:
            outside, before = other.lane(lane).llvm, builder.block
            with builder.if_then(builder.extract_element(mask, ir.Constant(_I32, lane))):
                inside = builder.load(address(lane), align=other.element.itemsize)
                chosen = builder.block
            read = builder.phi(inside.type)
            read.add_incoming(outside, before)
            read.add_incoming(inside, chosen)
        total = total.with_lane(lane, Value(builder, other.element, 0, read))
    return total


def _write(builder: ir.IRBuilder, value: Value, address: Callable[[int], ir.Value], mask: ir.Value | None) -> None:
    for lane in range(value.lanes):
        x = value.lane(lane).llvm
        if mask is None:
            builder.store(x, address(lane), align=value.element.itemsize)
            continue
        with builder.if_then(builder.extract_element(mask, ir.Constant(_I32, lane))):
            builder.store(x, address(lane), align=value.element.itemsize)
