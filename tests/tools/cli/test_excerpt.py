"""Programs made short enough to read."""

from __future__ import annotations

from minitvm.tools.cli.excerpt import excerpt, fold


def test_like_lines_are_folded_and_counted() -> None:
    assert fold(["a = 0", *(f"  x[{k}] = {k}.0" for k in range(5)), "b = 1"]) == [
        "a = 0", "  x[0] = 0.0", "  # ... 4 lines like this", "b = 1",
    ]  # fmt: skip


def test_pairs_of_lines_are_folded_together() -> None:
    pairs = [line for k in range(4) for line in (f"v_{k} = load({k})", f"s_{k} = fma(v_{k})")]
    assert fold(pairs) == ["v_0 = load(0)", "s_0 = fma(v_0)", "# ... 6 lines like these"]


def test_two_like_lines_and_empty_ones_stay() -> None:
    assert fold(["x1", "x2", "", "", "", "y"]) == ["x1", "x2", "", "", "", "y"]


def test_an_excerpt_says_what_it_leaves_out() -> None:
    text = excerpt("\n".join("abcdefghijklmnop"), lines=3)
    assert text == "a\nb\nc\n# ... and 13 lines more"
    assert excerpt("x" * 300, width=20) == "x" * 16 + " ..."
