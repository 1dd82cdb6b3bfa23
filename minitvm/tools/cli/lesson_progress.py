"""Which lessons you have read and passed, and how many hints you have seen: a small file in your state folder.

The file is a convenience: where it cannot be read or written, nothing is remembered, and nothing fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


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


def progress(number: str) -> dict[str, Any]:
    """The remembered progress of a lesson: `read` and `passed` are booleans, `hints` is a count. {} for nothing."""
    entry = _all().get(number)
    return entry if isinstance(entry, dict) else {}


def hints_seen(number: str) -> int:
    """How many hints of a lesson were shown."""
    count = progress(number).get("hints")
    return count if isinstance(count, int) else 0


def remember(number: str, **facts: bool | int) -> None:
    """Add facts about a lesson to the file."""
    path = progress_file()
    if path is None:
        return
    entries = _all()
    entries[number] = {**progress(number), **facts}
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


def _all() -> dict[str, Any]:
    path = progress_file()
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}
