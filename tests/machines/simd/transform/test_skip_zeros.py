"""Sums without the iterations that read only padding: what they run over, and that they mean the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import SizeVar, const, substitute, walk
from minitvm.reference import check
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.annotations import SKIP_ZEROS
from minitvm.tir.nodes import For, PrimFunc
from minitvm.tir.transform.pipeline import lower
from tests.tir.transform.padded_sums import convolution


def taken(func: PrimFunc) -> list[int]:
    """How many iterations the loop over the taps has for each tile, as its bounds say."""
    after: dict[str, PrimFunc] = {}
    lower(func, Target("cpu"), callback=lambda name, _, made: after.update({name: made}))
    loops = {node.var.name: node for node in walk(after["skip_zeros"].body) if isinstance(node, For)}
    taps, tiles, counts = loops["k"], loops.get("i_0"), []
    for tile in range(tiles.extent.value if tiles is not None else 1):  # type: ignore[attr-defined]
        extent = taps.extent if tiles is None else substitute(taps.extent, {tiles.var: const(tile)})
        counts.append(Analyzer().simplify(extent).value)  # type: ignore[attr-defined]
    return counts


def test_taps_outside_of_the_image_are_left_out() -> None:
    """Of 17 places with 12 zeros before and behind them, 3 taps 12 apart meet 2 at each end and 1 in the middle."""
    assert taken(convolution(17, 3, dilation=12, before=12, after=12)) == [2] * 5 + [1] * 7 + [2] * 5


def test_a_tile_needs_what_one_of_its_places_needs() -> None:
    assert taken(convolution(16, 3, dilation=12, before=12, after=12, tile=4)) == [2, 1, 1, 2]
    assert taken(convolution(16, 3, dilation=12, before=12, after=12, tile=16)) == [3]


def test_padding_that_is_not_zero_counts() -> None:
    assert taken(convolution(17, 3, dilation=12, before=12, after=12, fill=1.0)) == [3] * 17


def test_without_a_note_every_tap_counts() -> None:
    func = convolution(17, 3, dilation=12, before=12, after=12)
    sch = Schedule(func)
    sch.unannotate(sch.get_loops("C_update")[1], SKIP_ZEROS)
    assert taken(sch.func) == [3] * 17


def cases() -> st.SearchStrategy[dict[str, int]]:
    small = st.integers(1, 3)
    return st.fixed_dictionaries(
        {
            "extent": st.integers(1, 9), "taps": small, "stride": small, "dilation": st.integers(1, 5),
            "before": st.integers(0, 6), "after": st.integers(0, 6), "tile": st.integers(1, 4),
        }
    )  # fmt: skip


@given(cases(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_sums_are_the_same(case: dict[str, int], filled: bool) -> None:
    """Also where another block reads all of the padding, which is then written."""
    reach = case["dilation"] * (case["taps"] - 1)
    case["extent"] = max(case["extent"], reach + 1 - case["before"] - case["after"])
    func = convolution(**case, filled=filled)
    assert check(func, lower(func, Target("cpu")), modes=("exact", "shadow", "order"))


def test_images_of_open_size() -> None:
    n = SizeVar("n")
    func = convolution(n, 3, dilation=4, before=4, after=4, tile=3)
    for size in (1, 5, 12):
        assert check(func, lower(func, Target("cpu")), sizes={"n": size}, modes=("exact", "shadow"))
