"""A profile's timeline in the trace event format (Google, "Trace Event Format"), one track per thread.

chrome://tracing and https://ui.perfetto.dev open it. Times are microseconds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .report import Profile

PROCESS = 1


def trace(profile: Profile) -> dict[str, Any]:
    """The timeline as a JSON value: complete events ("X") for kernels and waits, metadata ("M") for names."""
    names = [_named("process_name", 0, f"{profile.name} on {profile.machine.name}")]
    names += [_named("thread_name", t, f"thread {t}") for t in range(profile.threads)]
    rows = {row.operator: row for row in profile.rows}
    events = []
    for operator, kernel, thread, start, end in profile.timeline:
        waits = kernel == "wait"
        event: dict[str, Any] = {
            "name": "wait" if waits else operator, "cat": "wait" if waits else "kernel", "ph": "X",
            "ts": start * 1e6, "dur": (end - start) * 1e6, "pid": PROCESS, "tid": thread,
        }  # fmt: skip
        row = rows.get(operator)
        if not waits and row is not None:
            event["args"] = {
                "kernel": kernel, "operations": row.flops, "bytes": row.bytes,
                "GFLOP/s": round(row.rate / 1e9, 3), "share of peak": round(row.share_of_peak, 4),
                "bound": row.bound, "share of bound": round(row.share_of_bound, 4),
            }  # fmt: skip
        events.append(event)
    return {"traceEvents": [*names, *events], "displayTimeUnit": "ns"}


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "ts": 0, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def save(profile: Profile, path: str | os.PathLike[str]) -> Path:
    """Write the trace."""
    file = Path(path)
    file.write_text(json.dumps(trace(profile)))
    return file
