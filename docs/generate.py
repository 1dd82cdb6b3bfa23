"""Bring the generated parts of the documentation in step with the code: `make docs`.

docs/primitives.md is written from the registry of schedule primitives, docs/house.svg is drawn from the table of
imports. In README.md, CONTRIBUTING.md and docs/oracle.md the code blocks marked `python` are run in order, each file in
a namespace of its own, and a block marked `text` right behind one is replaced by what it printed, like lines folded.
tests/test_docs.py checks that all of it is in step.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitvm.tir.schedule import Primitive

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "docs/oracle.md")
LINES, WIDTH = 60, 120  # of a printed block

_CODE = re.compile(r"```python\n(?P<code>.*?)```\n(?P<between>\s*)(?P<output>```text\n.*?```\n)?", re.DOTALL)


def refreshed(page: str, name: str = "page") -> str:
    """A page whose Python blocks have been run, with the output of each in the text block behind it."""
    from minitvm.cli.excerpt import excerpt

    names: dict[str, Any] = {"__name__": "__main__"}

    def run(match: re.Match[str]) -> str:
        line = page.count("\n", 0, match.start("code"))
        printed = io.StringIO()
        with redirect_stdout(printed):
            # Lines of the page, so that a traceback points at the page.
            exec(compile("\n" * line + match["code"], name, "exec"), names)
        shown = printed.getvalue().rstrip("\n")
        if match["output"] is None:
            if shown:
                raise SystemExit(f"{name}, line {line + 1}: the block prints, and no text block is behind it\n{shown}")
            return match[0]
        return f"```python\n{match['code']}```\n{match['between']}```text\n{excerpt(shown, LINES, WIDTH)}\n```\n"

    return _CODE.sub(run, page)


def primitives(chosen: Iterable[Primitive] | None = None) -> str:
    """The page of all schedule primitives, the spine before the shelf; or of those chosen."""
    from minitvm.tir.schedule.primitives import for_tvm
    from minitvm.tir.schedule.registry import PRIMITIVES

    tables: dict[bool, list[str]] = {False: [], True: []}  # by whether they stand on the shelf
    entries = []
    for primitive in PRIMITIVES.values() if chosen is None else chosen:
        first, *rest = primitive.document().split("\n")
        summary = next((line for line in rest if line), "")
        row = f"| [`{primitive.name}`](#{primitive.name}) | {summary.replace('|', chr(92) + '|')} |"
        tables[primitive.function.__module__.startswith(f"{for_tvm.__name__}.")].append(row)
        body = "\n".join(rest).strip("\n")
        entries.append(f"## {primitive.name}\n\n```text\n{first}\n\n{body}\n```\n")
    head = (
        "# Schedule primitives\n\nWritten by `make docs` from the registry; `minitvm explain NAME` prints an entry.\n\n"
    )
    titles = "| primitive | what it does |\n|---|---|\n"
    page = head + titles + "\n".join(tables[False])
    if tables[True]:
        page += f"\n\n{(for_tvm.__doc__ or '').strip()}\n\n{titles}" + "\n".join(tables[True])
    return page + "\n\n" + "\n".join(entries)


def generated() -> dict[Path, str]:
    """Each generated file with the text that it should have."""
    from minitvm.tir.schedule import method_types

    sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
    import house

    made = {
        ROOT / "docs" / "house.svg": house.current(),
        ROOT / "docs" / "primitives.md": primitives(),
        Path(method_types.__file__).with_name("methods.pyi"): method_types.method_types(),
    }
    for name in PAGES:
        made[ROOT / name] = refreshed((ROOT / name).read_text(encoding="utf-8"), name)
    return made


def main(arguments: Sequence[str]) -> int:
    """Write the files that are out of step; with --check only name them, and return 1 if there are any.

    `--load FILE.py` prints the page of the primitives that a file registers.
    """
    if "--load" in arguments:
        from minitvm.cli.program_file import read_primitives

        print(primitives(read_primitives(Path(arguments[-1]))))
        return 0
    check = "--check" in arguments
    stale = [(p, text) for p, text in generated().items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path, text in stale:
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{'out of step' if check else 'wrote'}: {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
