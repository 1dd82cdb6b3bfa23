"""The branches of the passes that no drawn program took, by coverage.py's account."""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PASSES = ("minitvm/tir/transform/*.py", "minitvm/graph/passes/*.py")


@dataclass(frozen=True, order=True)
class Branch:
    """A way that a condition can go: by what stands there, so that a row outlives a move of lines."""

    file: str
    function: str
    condition: str
    goes_to: str

    def __str__(self) -> str:
        return f"{self.file}, {self.function}: `{self.condition}` to `{self.goes_to}`"


class Coverage:
    """Follows the branches of the passes between `start` and `stop`."""

    def __init__(self) -> None:
        import coverage

        files = [str(p) for pattern in PASSES for p in sorted(ROOT.glob(pattern))]
        self.files = [f for f in files if not f.endswith("__init__.py")]
        self.coverage = coverage.Coverage(branch=True, data_file=None, include=self.files, config_file=False)

    def __enter__(self) -> Coverage:
        self.coverage.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.coverage.stop()

    def report(self) -> tuple[dict[str, tuple[int, int]], list[Branch]]:
        """For each file the number of branches taken and of all, and those not taken."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            self.coverage.json_report(outfile=str(path), morfs=self.files)
            files = json.loads(path.read_text())["files"]
        counts, missing = {}, []
        for name, entry in sorted(files.items()):
            file = str(Path(name).resolve().relative_to(ROOT)) if Path(name).is_absolute() else name
            taken, left = entry["executed_branches"], entry["missing_branches"]
            counts[file] = (len(taken), len(taken) + len(left))
            missing += _named(file, left)
        return counts, sorted(missing)


def _named(file: str, arcs: list[list[int]]) -> Iterator[Branch]:
    source = (ROOT / file).read_text(encoding="utf-8")
    lines = source.splitlines()
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    for start, end in arcs:
        inside = [f for f in functions if f.lineno <= start <= (f.end_lineno or f.lineno)]
        function = max(inside, key=lambda f: f.lineno).name if inside else "module"
        target = lines[end - 1].strip() if end > 0 else "the end"
        yield Branch(file.removeprefix("minitvm/"), function, lines[start - 1].strip(), target)
