"""What can be expressed is drawn, or is listed by name with a reason."""

from __future__ import annotations

import pytest

from .branches import Coverage
from .record import END, PAGE, recorded
from .sources import SOURCES
from .tally import Tally


def test_everything_is_drawn_or_has_a_reason() -> None:
    """New words of the language, passes, primitives and operators are drawn before they are in: `make drawn`."""
    record = recorded()
    assert set(record.unjustified()) <= set(record.open)


def test_what_is_open_stays_a_small_part() -> None:
    record = recorded()
    for category in ("statement", "storage scope", "loop", "thread axis", "block part", "pass changes nothing"):
        assert [name for c, name in record.open if c == category] == []


def test_no_reason_is_out_of_date() -> None:
    assert recorded().stale_reasons() == []


def test_the_page_says_what_the_record_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert END in page
    assert recorded().put_in(page) == page, "`make drawn` writes it anew"


def test_a_draw_is_counted() -> None:
    """A few programs of two sources, with the branches that they take."""
    tally, coverage = Tally(), Coverage()
    with coverage:
        for source in SOURCES[2:4]:
            source.run(tally, 4)
    assert tally.counts["statement", "BufferStore"] > 10
    assert tally.counts["pass changes", "drop_blocks"] > 0
    files, left = coverage.report()
    taken, total = files["minitvm/tir/transform/drop_blocks.py"]
    assert 0 < taken <= total
    assert len(left) == sum(total - taken for taken, total in files.values())


@pytest.mark.full
def test_a_full_draw_reaches_what_the_record_says() -> None:
    tally, coverage = Tally(), Coverage()
    with coverage:
        for source in SOURCES:
            source.run(tally, source.examples)
    before = recorded()
    drawn = {row for row, count in tally.counts.items() if count}
    assert {row for row, count in before.counts.items() if count > 20} <= drawn
    _, left = coverage.report()
    assert set(left) <= set(before.left)
