"""The documentation runs, says what the code says, and points at files that exist."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_generated_is_in_step_and_its_snippets_run() -> None:
    # In a process of its own: the snippets register an operator and a primitive, which other tests would find.
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"`make docs` writes it anew\n{done.stdout}{done.stderr}"


def test_output_is_put_in_place(generate: ModuleType) -> None:
    page = "a\n```python\nx = 2\nprint(x * 21)\n```\n\n```text\nold\n```\nb\n```python\nassert x == 2\n```\n"
    assert generate.refreshed(page) == page.replace("old", "42")
    with pytest.raises(ZeroDivisionError):
        generate.refreshed("```python\n1 / 0\n```\n")
    with pytest.raises(SystemExit, match="no text block is behind it"):
        generate.refreshed("```python\nprint(1)\n```\n")


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings of a page, as GitHub forms them; blocks of code have no headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = [title.lower() for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        there = page.parent / link if link else page
        assert link.startswith("https://") or there.exists(), link
        assert not anchor or there.suffix != ".md" or anchor in anchors(there), f"{link}#{anchor}"


@cache
def tree() -> frozenset[str]:
    """Each file and each folder of the project, `reference` also under its name in the package."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    files += [f"minitvm/{name}" for name in files if name.startswith(("reference/", "lessons/"))]
    return frozenset(str(part) for name in files for part in (Path(name), *Path(name).parents))


def named_files(page: Path) -> list[str]:
    """The files and folders that a page names in its prose, without those of other projects."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    tops = ("minitvm/", "reference/", "tests/", "docs/", "lessons/", "benchmarks/")
    return [
        name for name in re.findall(r"`([\w./-]+)`", text) if name.endswith((".py", ".md")) or name.startswith(tops)
    ]


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_name_files_that_exist(page: Path) -> None:
    """A page may name a file by the end of its path."""
    ends = tree() | {name[at + 1 :] for name in tree() for at, letter in enumerate(name) if letter == "/"}
    assert [name for name in named_files(page) if name.rstrip("/") not in ends] == []


def test_the_map_names_files_by_their_whole_paths() -> None:
    page = ROOT / "docs" / "architecture.md"
    tables = re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    changes = [row for row in tables if row.count("|") == 4 and ".py`" in row]
    paths = [path for row in changes for path in re.findall(r"`([\w/]+\.py|[\w]+/[\w/]+)`", row)]
    assert len(paths) > 40
    there = tree()
    assert [path for path in paths if path not in there and f"minitvm/{path}" not in there] == []


def test_the_readme_is_short_and_has_pictures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 9216
    assert len(re.findall(r"!\[[^]]+\]\(docs/\w+\.svg\)", text)) >= 2


def test_the_readme_names_commands_and_options_that_exist() -> None:
    """Each `minitvm COMMAND --option` has that option, and each `make TARGET` is in the Makefile."""
    from minitvm.tools import cli

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    run = re.findall(r"(?:`|\$ )make ([\w-]+)", text)
    assert run and set(run) <= set(targets)
    lines = [line.split("#")[0] for line in re.findall(r"(?:`|\$ )minitvm ([^`\n]*)", text)]
    assert len(lines) > 6
    for line in lines:
        cli._parser().parse_args(line.split())


def test_the_readme_quotes_measurements_of_the_documentation() -> None:
    """Each ratio of its table is a number that docs/benchmarks.md or docs/cuda.md has."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("## How fast", 1)[1].split("\n## ", 1)[0]
    measured = " ".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("benchmarks.md", "cuda.md"))
    quoted = re.findall(r"\d+\.\d+", table)
    assert len(quoted) > 8
    assert [number for number in quoted if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", measured)] == []


PACKAGES = "|".join(sorted(path.stem for path in (ROOT / "minitvm").iterdir() if not path.name.startswith("_")))
MODULES = sorted(
    {
        name
        for page in ("architecture.md", "semantics.md")
        for name in re.findall(rf"\b((?:{PACKAGES})(?:\.\w+)+)\b", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("name", MODULES)
def test_the_map_and_the_definitions_name_what_exists(name: str) -> None:
    found: object = importlib.import_module("minitvm")
    path = "minitvm"
    for part in name.removesuffix(".py").split("."):
        path += f".{part}"
        try:
            found = importlib.import_module(path)
        except ModuleNotFoundError:
            found = getattr(found, part)


def test_the_glossary_names_what_there_is() -> None:
    """Each word once, in order, and the places that the last column names exist."""
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()]
    words = [row[0] for row in rows if len(row) > 1 and row[0] not in ("word", "---")]
    assert len(words) > 50 and len(set(words)) == len(words)
    places = [place for row in rows if len(row) == 3 for place in re.findall(r"`([^`]+)`", row[2])]
    assert len(places) > 40
    for place in places:
        assert (ROOT / place).exists() or pkgutil.resolve_name(f"minitvm.{place}") is not None
