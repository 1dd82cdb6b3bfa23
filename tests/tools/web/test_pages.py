"""The pages of `make web` in Chromium: they read what is typed, and find the face in the example."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitvm.tools.cli import main
from tests.export.wasm.browser import CHROMIUM, answer_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium"),
]
READY = "await until(() => document.body.dataset.ready);"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("web")
    assert main(["web", "-o", str(place)]) == 0
    return place


def test_the_page_reads_a_line(folder: Path, tmp_path: Path) -> None:
    """First the words that it draws itself, then longer ones, for which its picture is wider."""
    longer = "minitvm compiles this network to WebAssembly, and it reads what you type"
    script = f"""
        {READY}
        const read = document.getElementById("read"), first = read.textContent;
        const words = document.getElementById("words");
        words.value = "{longer}";
        words.dispatchEvent(new Event("input"));
        await until(() => read.textContent !== first);
        return `${{first}}\\n${{read.textContent}}`;
    """
    answer = answer_of(folder, "text.html", script, tmp_path / "profile")
    first, second = (line.replace(" ", "") for line in answer.split("\n"))
    assert (first, second) == ("Hello,tensorcompiler", longer.replace(" ", ""))


def test_the_page_finds_the_face(folder: Path, tmp_path: Path) -> None:
    script = f"document.getElementById('example').click(); {READY} return document.getElementById('found').textContent;"
    assert answer_of(folder, "faces.html", script, tmp_path / "profile").startswith("1 face, sure: 9")


def test_a_visitor_downloads_little_besides_the_weights(folder: Path) -> None:
    files = ["text.html", "text/net.js", "text/net.wasm", "text/alphabet.json"]
    assert sum((folder / name).stat().st_size for name in files) <= 300_000
