"""Convert a timeline to Chrome trace events: JSON that Perfetto and chrome://tracing can open.

A cycle is shown as a microsecond. Each unit has a track with its instructions and a second track with its stalls.
Tokens are arrows from the instruction that pushed to the one that popped.
"""

from __future__ import annotations

import json
from typing import Any

from ..timeline import Timeline


def chrome_trace(timeline: Timeline) -> str:
    """Return the trace as JSON text."""
    events: list[dict[str, Any]] = []
    for number, unit in enumerate(timeline.units):
        for thread, name in ((2 * number, unit), (2 * number + 1, f"{unit} stands still")):
            events.append({"ph": "M", "pid": 0, "tid": thread, "name": "thread_name", "args": {"name": name}})
            events.append(
                {"ph": "M", "pid": 0, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}
            )
    instructions = timeline.program.instructions
    spans = {}
    for i in timeline.intervals:
        text = str(instructions[i.instruction])
        if i.unit != timeline.units[0]:
            spans[i.instruction] = i
        events.append(
            {
                "ph": "X", "pid": 0, "tid": 2 * timeline.units.index(i.unit), "ts": i.start, "dur": i.end - i.start,
                "name": text.split()[0], "cat": "instruction", "args": {"number": i.instruction, "text": text},
            }
        )  # fmt: skip
    for s in timeline.stalls:
        thread = 2 * timeline.units.index(s.unit) + 1
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": thread,
                "ts": s.start,
                "dur": s.end - s.start,
                "name": s.reason,
                "cat": "stall",
            }
        )
    for number, token in enumerate(timeline.tokens):
        common = {"pid": 0, "name": "token", "cat": "token", "id": number}
        # An arrow begins and ends inside of a slice; the end of the pusher's is behind it.
        pushed, popped = spans[token.pushed_by], spans[token.popped_by]
        begin = {"ph": "s", "tid": 2 * timeline.units.index(pushed.unit), "ts": pushed.end - 0.5}
        end = {"ph": "f", "bp": "e", "tid": 2 * timeline.units.index(popped.unit), "ts": popped.start}
        events += [{**common, **begin}, {**common, **end}]
    config = timeline.config
    other = {"accelerator": config.name, "memory": config.dram.name, "cycles": timeline.cycles}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}, separators=(",", ":"))
