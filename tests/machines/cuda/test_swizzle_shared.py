"""Swizzled tiles: each line keeps its elements, at other places, and what cannot be swizzled is refused."""

from __future__ import annotations

import pytest

from minitvm import reference
from minitvm.errors import Unsupported
from minitvm.expr import IntImm, free_vars, walk
from minitvm.expr.visitor import substitute
from minitvm.machines.cuda.swizzle_shared import swizzle_shared
from minitvm.script import from_source
from minitvm.tir import Allocate, BufferStore
from minitvm.tir.annotations import is_within
from minitvm.tir.transform.simplify import simplify

TURNED = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float16"), B: T.Buffer((64, 16), "float16")):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        S = T.decl_buffer((16, 64), "float16", scope="shared.dyn.swizzled")
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for i, j in T.grid(16, 4):
                S[i, j * 16 + t] = A[i, j * 16 + t]
            for j in range(64):
                B[j, t] = S[t, j]
"""


def test_the_meaning_stays() -> None:
    before = from_source(TURNED)
    after = swizzle_shared(before)
    assert [n.buffer.scope for n in walk(after.body) if isinstance(n, Allocate)] == ["shared.dyn"]
    assert swizzle_shared(after) is after
    verdict = reference.check(before, after, modes=("exact", "shadow"))
    assert verdict, verdict


def test_pieces_change_places_by_the_number_of_their_line() -> None:
    func = swizzle_shared(from_source(TURNED))
    store = next(n for n in walk(func.body) if isinstance(n, BufferStore) and n.buffer.name == "S")
    loops = {var.name: var for var in free_vars(store)}
    for line, element, place in ((0, 20, 20), (1, 0, 8), (1, 15, 7), (5, 33, 9), (13, 33, 9), (7, 63, 7)):
        values = {loops["i"]: line, loops["j"]: element // 16, loops["t"]: element % 16}
        index = substitute(store.indices[1], {var: IntImm(value) for var, value in values.items()})
        found = simplify(func.with_body(BufferStore(store.buffer, store.value, (store.indices[0], index)))).body
        assert isinstance(found, BufferStore) and found.indices[1].value == place  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", ["(16, 32)", "(12, 64)", "(64,)"])
def test_other_shapes_are_refused(shape: str) -> None:
    text = TURNED.replace("T.decl_buffer((16, 64)", f"T.decl_buffer({shape}")
    if shape == "(64,)":
        text = text.replace("S[i, j * 16 + t]", "S[j * 16 + t]").replace("S[t, j]", "S[j]")
    with pytest.raises(Unsupported, match="cannot be swizzled(.|\n)*lines of 128 bytes"):
        swizzle_shared(from_source(text))


def test_instructions_for_plain_tiles_do_not_take_them() -> None:
    assert is_within("shared.dyn", "shared") and is_within("shared.dyn.swizzled", "shared.dyn.swizzled")
    assert not is_within("shared.dyn.swizzled", "shared") and not is_within("shared.dyn.swizzled", "shared.dyn")
