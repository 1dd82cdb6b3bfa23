"""Constants: shared by executables if nobody can change them, and copied otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm.executable.alignment import ALIGNMENT, address, aligned_array, frozen
from minitvm.graph import GraphBuilder


def test_a_frozen_array_is_shared_and_cannot_change() -> None:
    array = frozen(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert frozen(array) is array
    assert address(array) % ALIGNMENT == 0
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(ValueError, match=r"cannot set WRITEABLE|read-only"):
        array.flags.writeable = True


def test_a_read_only_view_of_an_array_that_can_change_is_copied() -> None:
    owner = aligned_array((4,), np.dtype("float32"))
    owner[...] = 1
    view = owner.view()
    view.flags.writeable = False
    copy = frozen(view)
    owner[...] = 2
    assert copy.tolist() == [1] * 4


def test_executables_share_frozen_constants() -> None:
    weights = frozen(np.ones(1000, np.float32))
    other = np.ones(1000, np.float32)
    addresses = []
    for _ in range(2):
        b = GraphBuilder()
        x = b.input("x", (1000,))
        sums = b.op("add", b.op("multiply", x, b.constant(weights)), b.constant(other))
        executable = minitvm.lower(b.build(sums), stop_at="executable")
        addresses.append({address(c.data) for c in executable.constants})
    assert addresses[0] & addresses[1] == {address(weights)}
