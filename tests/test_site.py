"""The site has every page, its links lead to its own pages, and a lesson's cells keep what they print and draw."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_every_page_and_every_lesson_is_on_the_site(build: ModuleType) -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")} - {"docs/README.md"}
    pages -= {str(deck.relative_to(ROOT)) for deck in build.SLIDES}
    lessons = {f"lessons/{path.parent.name}/lesson.py" for path in (ROOT / "lessons").glob("*/lesson.py")}
    assert set(build.pages()) == pages | lessons | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "lessons/README.md"}
    assert len(set(build.pages().values())) == len(build.pages())


def test_links_lead_to_pages_of_the_site(build: ModuleType) -> None:
    places, images = build.pages(), set[Path]()

    def linked(text: str, page: str) -> str:
        return str(build.linked(text, page, places, images))

    assert linked("[a](docs/oracle.md#modes)", "README.md") == "[a](oracle.md#modes)"
    assert linked("[a](../architecture.md)", "docs/howto/pass.md") == "[a](../architecture.md)"
    assert linked("[a](../lessons/03_split_and_reorder/lesson.py)", "docs/oracle.md") == (
        "[a](lessons/03_split_and_reorder.ipynb)"
    )
    assert linked("[`f.py`](../minitvm/build.py)", "docs/oracle.md") == "`f.py`", "the site has no such page"
    assert linked("[a](https://a.b/c) [b](#c)", "README.md") == "[a](https://a.b/c) [b](#c)"
    assert linked("```\n[a](docs/oracle.md)\n```\n", "README.md") == "```\n[a](docs/oracle.md)\n```\n"
    assert linked("![a](docs/house.svg)", "README.md") == "![a](pictures/house.svg)"
    assert linked("[a](course/slides/part_1.md)", "docs/course.md") == '<a href="slides/part_1.html">a</a>'
    assert linked("![a](house.svg)", "docs/architecture.md") == "![a](pictures/house.svg)"
    assert images == {ROOT / "docs" / "house.svg"}


def test_primitives_stand_before_and_after_side_by_side(build: ModuleType) -> None:
    page = (ROOT / "docs" / "primitives.md").read_text(encoding="utf-8")
    shown = build.side_by_side(page)
    examples = len(re.findall(r"^before:$", page, re.MULTILINE))
    assert examples > 40 and shown.count("::::{grid}") == examples == shown.count("{grid-item-card} after")
    assert "before:\n" not in shown and shown.count("```") % 2 == 0
    split = shown.split("\n## split\n")[1].split("\n## ")[0]
    assert "Call: `i_0, i_1 = sch.split(i, factors=[None, 32])`" in split
    assert "- **covers**: product(factors) >= extent, if no factor is None" in split


def test_a_list_in_a_docstring_keeps_its_lines() -> None:
    as_rest = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))["as_rest"]
    lines = ["It is one of:", "- `a_b`, which", "  goes on and", "  - on;", "- c_d."]
    assert as_rest(lines) == ["It is one of:", "", "- ``a_b``, which", "  goes on and", "  \\- on;", "- c\\_d."]
    assert as_rest(["", "1. x `y", "   z`", ""]) == ["", "", "1. x ``y", "   z``", ""]
    assert as_rest(["a", "- b"]) == ["a", "\\- b"], "a minus at the beginning of a line is no list"


def test_each_word_of_the_glossary_has_an_anchor(build: ModuleType) -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    shown = build.notebooks.glossary(page)
    assert '| <span id="term-exposed-read">exposed read</span> |' in shown
    anchors = re.findall(r'id="(.*?)"', shown)
    assert len(anchors) > 70 and len(set(anchors)) == len(anchors)


def test_a_slide_fits_on_a_screen(build: ModuleType) -> None:
    """A longer slide would be cut off: the height and width of a slide are fixed."""
    assert len(build.SLIDES) == 6
    for deck in build.SLIDES:
        slides = re.split(r"(?m)^(?=#{1,2} )", deck.read_text(encoding="utf-8"))[1:]
        # A comment of a program begins like a title; there is none in the programs of slides.
        assert len(slides) >= 10, deck
        for slide in slides:
            lines = slide.splitlines()
            text = [line for line in lines if not line.startswith("|")]  # a table breaks its lines
            assert len(lines) <= 36 and max(map(len, text)) <= 120, (deck.name, lines[0])
            programs = re.findall(r"```\w+\n(.*?)```", slide, re.DOTALL)
            assert all(len(line) <= 105 for program in programs for line in program.splitlines()), (deck.name, lines[0])


def test_slides_build_without_a_warning(build: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("sphinx_revealjs", reason="the extra site is not installed")
    assert build.slides(tmp_path) == 0
    for deck in build.SLIDES:
        page = (tmp_path / f"{deck.stem}.html").read_text(encoding="utf-8")
        assert page.count("<section") >= 10
        assert not re.findall(r'(?:src|href)="(?:https?:)?//', page), "a presentation works without a network"


def test_a_lessons_cells_keep_what_they_print_and_draw(build: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("jupytext", reason="the extra site is not installed")
    folder = tmp_path / "07_two"
    folder.mkdir()
    (folder / "lesson.py").write_text(
        "# %% [markdown]\n# # Two\n#\n# See [this](../x.py).\n\n"
        "# %%\nfrom minitvm.tools.cli.lesson import open_lessons\n\n"
        "open_lessons()\nfrom lessons.picture import Picture\nfrom lessons.predict import predict\n\n"
        "# %%\npredict('What is 1 + 1?', 1 + 1)\nprint(1 + 1)\nprint(Picture(4, 2).save('two'))\n"
    )
    (folder / "lesson.toml").write_text(
        'minutes = 25\nneeds = ["05", "06"]\nknow = "two things"\nterms = ["exposed read"]\nhints = ["a", "b", "c"]\n'
        'summary = ["x.", "y.", "z."]\nexplanation = "why"\n'
        '[[papers]]\ntitle = "A paper"\nlink = "https://arxiv.org/abs/1802.04799"\n'
    )
    notebook = json.loads(build.notebooks.lesson(folder, lambda text: text.replace("[this](../x.py)", "this")))
    title, plumbing, question, code, end = notebook["cells"]
    assert "".join(question["source"]) == ":::{admonition} Predict first\n:class: tip\nWhat is 1 + 1?\n:::"
    head, _, text = "".join(title["source"]).partition("Before this one: [05](../05_dependences/lesson.py), ")
    assert head == "# 07. Two\n\n*About 25 minutes. After lessons 05 and 06. You should know two things.*\n\n"
    assert "07_two.ipynb" in text and text.endswith("\n\nSee this.")
    assert '<a href="../glossary.html#term-exposed-read">exposed read</a>' in text
    last = "".join(end["source"])
    assert ":::{dropdown} Hint 2 of 3\nb\n:::\n" in last and "- z.\n" in last
    assert last.endswith("- [A paper](https://arxiv.org/abs/1802.04799)")
    assert plumbing["metadata"]["tags"] == ["hide-input"]
    printed, drawn = code["outputs"]
    assert "".join(printed["text"]) == "2\n", "where a picture was saved says nothing on a page"
    assert "<svg" in "".join(drawn["data"]["image/svg+xml"])
