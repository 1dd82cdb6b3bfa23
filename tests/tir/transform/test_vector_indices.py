"""Programs may load and store vectors themselves, of buffers with any number of dimensions."""

from __future__ import annotations

import pytest

from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.transform import lower

STORES = {
    "slices": "C[i, 0:8] = A[i * 8:i * 8 + 8]",
    "backwards": "C[i, T.Ramp(15, -2, 8)] = A[T.Ramp(i * 8, 1, 8)]",
    "diagonals": "C[T.Ramp(0, 1, 4), T.Ramp(i, 2, 4)] = A[T.Ramp(i, 1, 4)]",
    "gathers": "C[i, 0:8] = A[(T.Ramp(0, 3, 8) + T.Broadcast(i, 8)) % T.Broadcast(32, 8)]",
    "gathers of a matrix": "C[i, 0:4] = B[T.Ramp(0, 3, 4) % T.Broadcast(4, 4), T.Ramp(i, 1, 4)]",
    "rows of a local matrix": "S[i, 0:8] = A[i * 8:i * 8 + 8]\n        C[i, 8:16] = S[i, 0:8] + S[i, T.Ramp(7, -1, 8)]",
}


@pytest.mark.parametrize("strides", ["", ", strides=[20, 1]", ", strides=[1, 5]"])
@pytest.mark.parametrize("stores", STORES)
def test_vectors_of_indices(stores: str, strides: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((4, 16){strides.replace("20", "16").replace("5", "4")}), C: T.Buffer((4, 16))):
    S = T.alloc_buffer((4, 8){strides})
    for i, j in T.grid(4, 16):
        C[i, j] = T.float32(0)
    for i in range(4):
        {STORES[stores]}
""")
    verdict = check(func, lower(func), modes=("exact", "shadow"))
    assert verdict, verdict


def all_vectors() -> None:
    """Each of the programs, on buffers of which some have strides."""
    for stores in STORES:
        test_vectors_of_indices(stores, ", strides=[1, 5]")
