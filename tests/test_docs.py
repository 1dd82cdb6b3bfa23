"""The documentation runs, says what the code says, and points at files that exist."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


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


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_readme_names_folders_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("## Where things are", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path


NAMED = sorted(
    set(
        re.findall(
            r"\b((?:machines|frontend|graph|te|strategy|tir|codegen|runtime|executable|expr|arith|reference|errors)(?:\.\w+)+)\b",
            (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        )
    )
)


@pytest.mark.parametrize("name", NAMED)
def test_the_architecture_names_what_exists(name: str) -> None:
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
