"""Show a timeline as a self-contained page: `page.html` with the data in it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from ..timeline import Timeline

PLACE = "/* the data */ null"


def data(timeline: Timeline) -> dict[str, Any]:
    """Return the data that the page shows, as plain lists with numbers instead of names."""
    units, reasons = timeline.units, list(timeline.reasons)
    texts = [str(one) for one in timeline.program.instructions]
    spans = {i.instruction: i for i in timeline.intervals if i.unit != units[0]}
    rows = {unit: [[i.start, i.end, i.instruction] for i in timeline.intervals if i.unit == unit] for unit in units}
    rows[units[0]] = _merged(rows[units[0]])
    stalls: dict[str, list[list[int]]] = {unit: [] for unit in units}
    for s in timeline.stalls:
        stalls[s.unit].append([s.start, s.end, reasons.index(s.reason)])
    tokens = [
        [t.pushed_at, units.index(spans[t.pushed_by].unit), t.popped_at, units.index(spans[t.popped_by].unit),
         t.pushed_by, t.popped_by]
        for t in timeline.tokens
    ]  # fmt: skip
    config = timeline.config
    title = f"{timeline.program.name} on {config.name}, {config.dram.name} memory"
    return {
        "title": title, "cycles": timeline.cycles, "mhz": config.clock_mhz, "units": list(units), "texts": texts,
        "intervals": rows, "stalls": stalls, "tokens": tokens,
        "reasons": [[name, timeline.reasons[name]] for name in reasons],
        "utilisation": timeline.utilisation, "bandwidth": timeline.bandwidth,
        "table": [[what, [row[unit] for unit in units]] for what, row in timeline.table()],
    }  # fmt: skip


def _merged(sends: list[list[int]]) -> list[list[int]]:
    """Merge sends that follow each other into one interval with the first one's instruction."""
    merged: list[list[int]] = []
    for start, end, instruction in sends:
        if merged and merged[-1][1] == start:
            merged[-1][1] = end
        else:
            merged.append([start, end, instruction])
    return merged


def page(timeline: Timeline) -> str:
    """Return the page as HTML text."""
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    text = json.dumps(data(timeline), separators=(",", ":"))
    return template.replace(PLACE, text.replace("</", "<\\/"))
