"""The record of the last full draw, and the page that is made of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from .branches import Branch
from .reasons import REASONS, reason_of_branch
from .vocabulary import Row, vocabulary

HERE = Path(__file__).resolve().parent
RECORD, PAGE = HERE / "record.json", HERE.parent.parent / "docs" / "oracle.md"
BEGIN, END = "<!-- drawn: begin, written by `make drawn` -->", "<!-- drawn: end -->"
SHOWN = 6  # names without a reason that a row lists
LABELS = {  # of categories, on the page
    "requirement holds": "requirement that holds",
    "requirement refuses": "requirement that is violated",
    "pass changes": "pass that changes a program",
    "pass changes nothing": "pass that leaves a program unchanged",
    "graph pass changes": "graph pass that changes a graph",
}


@dataclass(frozen=True)
class Record:
    """How often each name was drawn, and the branches of the passes: (taken, all) a file, and those not taken.

    `open` are the names that were not drawn though nothing says why they should not be: work to do.
    """

    counts: dict[Row, int]
    files: dict[str, tuple[int, int]]
    left: list[Branch]
    open: tuple[Row, ...] = ()

    def undrawn(self) -> list[Row]:
        """What can be expressed and was not drawn."""
        return [(c, name) for c, names in vocabulary().items() for name in names if not self.counts.get((c, name))]

    def unjustified(self) -> list[Row]:
        """What was not drawn, and nobody says why."""
        return [row for row in self.undrawn() if row not in REASONS]

    def stale_reasons(self) -> list[Row]:
        """Reasons for what is drawn, or for what cannot be expressed any more."""
        known = {(c, name) for c, names in vocabulary().items() for name in names}
        return sorted(row for row in REASONS if row not in known or self.counts.get(row))

    def write(self) -> None:
        """Keep it, and bring the page in step."""
        counts: dict[str, dict[str, int]] = {}
        for (category, name), count in sorted(self.counts.items()):
            counts.setdefault(category, {})[name] = count
        data = {
            "counts": counts, "files": self.files, "left": [asdict(b) for b in self.left], "open": self.unjustified(),
        }  # fmt: skip
        RECORD.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(self.put_in(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

    def put_in(self, page: str) -> str:
        """A page with the table in its place."""
        head, rest = page.split(BEGIN)
        return f"{head}{BEGIN}\n{self.table()}{END}{rest.split(END)[1]}"

    def table(self) -> str:
        """The table of the page."""
        lines = ["", "| feature | number | reached | not reached (reason) |", "|---|---|---|---|"]
        undrawn = self.undrawn()
        for category, names in vocabulary().items():
            missing = [name for c, name in undrawn if c == category]
            why = _explained(category, missing)
            lines.append(f"| {LABELS.get(category, category)} | {len(names)} | {len(names) - len(missing)} | {why} |")
        taken, total = (sum(numbers) for numbers in zip(*self.files.values(), strict=True))
        left = sum(reason_of_branch(branch) is None for branch in self.left)
        lines += ["", f"The passes have {total} branches in {len(self.files)} files; {taken} were taken. {left} of the"]
        lines += ["others are neither a refusal nor a check after a pass."]
        return "\n".join(lines) + "\n\n"


def _explained(category: str, names: Iterable[str]) -> str:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(REASONS.get((category, name), ""), []).append(name)
    parts = []
    for reason, some in groups.items():
        listed = ", ".join(f"`{name}`" for name in (some if reason else some[:SHOWN]))
        more = f" and {len(some) - SHOWN} more" if not reason and len(some) > SHOWN else ""
        parts.append(f"{listed}{more} ({reason or 'open'})")
    return "; ".join(parts)


def counted(counts: Counter[Row], files: dict[str, tuple[int, int]], left: list[Branch]) -> Record:
    """What a draw came to, as far as it is in the vocabulary."""
    known = {(c, name) for c, names in vocabulary().items() for name in names}
    return Record({row: n for row, n in counts.items() if row in known}, files, left)


def recorded() -> Record:
    """The record as it stands in the repository."""
    data = json.loads(RECORD.read_text(encoding="utf-8"))
    counts = {(c, name): n for c, names in data["counts"].items() for name, n in names.items()}
    files = {name: (taken, total) for name, (taken, total) in data["files"].items()}
    return Record(counts, files, [Branch(**b) for b in data["left"]], tuple((c, name) for c, name in data["open"]))
