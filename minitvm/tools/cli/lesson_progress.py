"""Which lessons you have read and passed, and how many hints you have seen: a small file in your state folder.

The file is a convenience: where it cannot be read or written, nothing is remembered, and nothing fails. The key of an
entry is the name of a lesson, such as `split_and_reorder`, because its number may change.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

# Older files have numbers as keys. These are the names of the lessons that had the numbers 00, 01 and so on. Four of
# them were split later; here they have the name of the half that kept the exercise.
_NUMBERED = (
    "three_loops", "expressions", "interpreter", "split_and_reorder", "onnx_to_number", "dependences", "tails",
    "races", "compute_at", "reductions", "blocks", "shrink", "invent_a_primitive", "cpu_ladder", "cache_model",
    "layout", "winograd", "memory_plan", "attention", "eight_bits", "open_dimensions", "threads_and_barriers",
    "a_reduction_across_threads", "eight_instructions", "tokens", "shared_tiles", "powers_of_two", "tensorize",
    "a_cost_model", "searching", "a_farm", "a_template", "a_network_as_c",
)  # fmt: skip


def progress_file() -> Path | None:
    """Return `lessons.json` in MINITVM_STATE_DIR, else in $XDG_STATE_HOME/minitvm or ~/.local/state/minitvm.

    None for a user without a home folder.
    """
    folder = os.environ.get("MINITVM_STATE_DIR")
    if folder:
        return Path(folder) / "lessons.json"
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "minitvm" / "lessons.json"
    except RuntimeError:
        return None


def progress(folder: Path) -> dict[str, Any]:
    """The remembered progress of a lesson: `read` and `passed` are booleans, `hints` is a count. {} for nothing."""
    return _all().get(name_of(folder), {})


def name_of(folder: Path) -> str:
    """The name of a lesson without its number: `split_and_reorder` for the folder `03_split_and_reorder`."""
    return folder.name.partition("_")[2]


def hints_seen(folder: Path) -> int:
    """How many hints of a lesson were shown."""
    count = progress(folder).get("hints")
    return count if isinstance(count, int) else 0


def remember(folder: Path, **facts: bool | int) -> None:
    """Add facts about a lesson to the file."""
    path = progress_file()
    if path is None:
        return
    entries = _all()
    entries[name_of(folder)] = {**entries.get(name_of(folder), {}), **facts}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed, so that the file is whole at any time.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix="lessons-", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file, indent=1, sort_keys=True)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


def _all() -> dict[str, dict[str, Any]]:
    """The entries of all lessons by name, also those that an older file has by number; damaged ones are left out."""
    path = progress_file()
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    entries = {key: entry for key, entry in entries.items() if isinstance(entry, dict)}
    numbered = {name: entries[key] for k, name in enumerate(_NUMBERED) if (key := f"{k:02}") in entries}
    return numbered | {key: entry for key, entry in entries.items() if not key.isdigit()}
