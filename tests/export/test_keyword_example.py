"""examples/keyword_c: a keyword spotter in int8 as C99, with the memory that the documentation states."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.export.c.programs import EQUAL, needs_gcc

EXAMPLE = Path(__file__).parents[2] / "examples" / "keyword_c"
PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
SMALL = "OPTIONS=--channels 5 --blocks 1"

pytestmark = needs_gcc


def make(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["make", "-s", "-C", folder, f"PYTHON={sys.executable}", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "keyword", ignore=shutil.ignore_patterns("build")))


def test_a_small_network_runs(example: Path) -> None:
    wrote, verdict, *words = make(example, SMALL).splitlines(keepends=True)
    assert wrote.startswith("wrote build/network; bytes: arena ") and verdict == EQUAL
    assert [line.split(":")[0] for line in words] == [f"word {k:2d}" for k in range(12)]
    scores = [float(line.split()[2]) for line in words]
    (best,) = (k for k, line in enumerate(words) if "largest" in line)
    assert scores[best] == max(scores) > min(scores)


@pytest.mark.full
def test_the_network_of_the_page_has_its_memory(example: Path) -> None:
    lines = make(example).splitlines()
    assert lines[1] == EQUAL.strip()
    row = re.findall(r"^\| DS-CNN.*", PAGE, re.MULTILINE)[0]
    for kind in ("arena", "weights"):
        (size,) = re.findall(rf"{kind} ([\d,]+)", lines[0])
        assert f"| {size} |" in row
    if shutil.which("arm-none-eabi-gcc"):
        (code,) = re.findall(r"^ *(\d+).*keyword\.o$", make(example, "size"), re.MULTILINE)
        (stated,) = re.findall(r"\| ([\d,]+) \|$", row)
        assert abs(int(code) - int(stated.replace(",", ""))) < 200  # other versions of gcc write other code
