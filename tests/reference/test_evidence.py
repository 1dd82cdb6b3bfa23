"""What modes show, put together: each tells the same alone as in company."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr import FloatImm, IntImm, Node, replace, rewrite, walk
from minitvm.reference import check
from minitvm.reference.judging.evidence import NOTHING, Evidence, Shown
from minitvm.reference.judging.verdict import Verdict
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import BufferStore, PrimFunc
from tests.fewer import examples

ASKED = ("exact", "field", "special")


@given(prim_funcs(min_blocks=1), st.booleans(), st.data())
@examples(4, 12)
def test_a_mode_alone_and_in_company(func: PrimFunc, changed: bool, data: st.DataObject) -> None:
    """Together they find a difference exactly where one of them does by itself, in whatever order they are named."""
    after = one_constant_more(func, data) if changed else func
    alone = {}
    for name in ASKED:
        try:
            alone[name] = check(func, after, modes=(name,), shrink=False)
        except (Unsupported, ExecutionError):
            continue
    compared = {name: verdict for name, verdict in alone.items() if name in verdict.ran}
    if len(compared) < 2:
        return
    orders = [check(func, after, modes=order, shrink=False) for order in itertools.permutations(compared)]
    assert {bool(verdict) for verdict in orders} == {all(compared.values())}
    assert len({str(verdict) for verdict in orders}) == 1


def one_constant_more(func: PrimFunc, data: st.DataObject) -> PrimFunc:
    """The function with another constant in one of its values."""
    stores = [n for n in walk(func.body) if isinstance(n, BufferStore)]
    constants = [c for s in stores for c in walk(s.value) if isinstance(c, IntImm | FloatImm) and not c.dtype.is_bool]
    if not constants:
        return func
    chosen = data.draw(st.sampled_from(constants))

    def change(node: Node) -> Node | None:
        return replace(node, value=node.value + (1 if node.value < 100 else -1)) if node is chosen else None

    return func.with_body(rewrite(func.body, change))


def test_evidence_is_put_together() -> None:
    equal, differ = Verdict(True, "exact"), Verdict(False, "field", "they differ")
    one = Evidence(equal, shown=frozenset({Shown.EXACT}), excused=1)
    other = Evidence(differ, shown=frozenset({Shown.FLOATS}), excused=2)
    for whole in (one | other, other | one):
        assert whole.verdict is differ
        assert whole.shown == {Shown.EXACT, Shown.FLOATS} and whole.excused == 3
    assert (NOTHING | one).verdict is equal and (one | NOTHING).verdict is equal
    assert (Evidence(refusal="first") | Evidence(refusal="then")).refusal == "first"
