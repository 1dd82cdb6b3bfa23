"""Moves are of bytes where these are dequantised before or quantised behind: to the last bit what they were."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, given, settings

from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.graph.passes.moved_bytes import moved_bytes

from .quantised_networks import networks, same_results

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def stays_the_same(graph: Graph) -> None:
    """Every result of the changed network is that of the network."""
    same_results(moved_bytes(graph), graph)


@given(graph=networks())
@settings(QUICK, max_examples=150)
def test_networks_mean_what_they_did(graph: Graph) -> None:
    stays_the_same(graph)


def real(b: GraphBuilder, x: Value, scale: float = 0.5, zero: int = 3) -> Value:
    value: Value = b.op("qnn.dequantize", x, np.array(scale, "float32"), np.array(zero, "uint8"), axis=0)
    return value


def stored(b: GraphBuilder, x: Value, scale: float = 0.5, zero: int = 3) -> Value:
    value: Value = b.op(
        "qnn.quantize", x, np.array(scale, "float32"), np.array(zero, "uint8"), axis=0, out_dtype="uint8"
    )
    return value


def test_a_pool_between_bytes_is_one_of_bytes() -> None:
    b = GraphBuilder("pool")
    pooled = b.op("nn.max_pool2d", real(b, b.input("x", (1, 4, 8, 8), "uint8")), pool_size=3, strides=2, padding=1)
    new = moved_bytes(b.build(stored(b, pooled)))
    assert [item.op for item in new.nodes] == ["nn.max_pool2d"]


def test_windows_of_padding_alone_stay_pools_of_floats() -> None:
    """The greatest of nothing is minus infinity, which no byte stands for."""
    b = GraphBuilder("pool")
    pooled = b.op("nn.max_pool2d", real(b, b.input("x", (1, 4, 8, 8), "uint8")), pool_size=2, padding=2)
    assert [item.op for item in moved_bytes(b.build(pooled)).nodes] == ["qnn.dequantize", "nn.max_pool2d"]


def test_parts_of_a_concatenation_are_quantised_where_they_are_made() -> None:
    b = GraphBuilder("parts")
    x, y = (b.input(name, (1, 4, 2, 2), "uint8") for name in "xy")
    joined = b.op("concatenate", real(b, x), b.op("nn.relu", real(b, y, 0.25)), axis=1)
    new = moved_bytes(b.build(stored(b, joined)))
    assert [item.op for item in new.nodes] == ["qnn.dequantize", "nn.relu", "qnn.quantize", "concatenate"]


def test_a_table_of_bytes_is_looked_up_before_it_is_dequantised() -> None:
    b = GraphBuilder("table")
    table = b.constant(np.arange(48, dtype="uint8").reshape(8, 6))
    rows = b.op("take", real(b, table), b.input("rows", (3,), "int64"), axis=0)
    assert [item.op for item in moved_bytes(b.build(rows)).nodes] == ["take", "qnn.dequantize"]
