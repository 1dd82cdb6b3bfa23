"""What `minitvm accel run` writes: outputs, the page with the Gantt chart, the trace for Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .run import output_path

if TYPE_CHECKING:
    from ...machines.scratchpad.timeline import Timeline


def files(options: argparse.Namespace) -> dict[str, Path]:
    """The files that options ask for, by the option's name; raises `InputError` for one that cannot be written."""
    return {
        name: output_path(value, f"--{name}")
        for name in ("output", "timeline", "trace")
        if (value := getattr(options, name))
    }


def pictures(timeline: Timeline, targets: dict[str, Path]) -> list[Path]:
    """Write the pictures that were asked for; returns their files."""
    from ...machines.scratchpad.viz.chrome_trace import chrome_trace
    from ...machines.scratchpad.viz.page import page

    written = []
    for name, draw in (("timeline", page), ("trace", chrome_trace)):
        if name in targets:
            targets[name].write_text(draw(timeline), encoding="utf-8")
            written.append(targets[name])
    return written
