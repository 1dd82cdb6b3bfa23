"""examples/keyword_c: a keyword spotter in int8 as C99, with the memory that the documentation states."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.errors import ModelError
from minitvm.tools.models import wheels
from tests.export.c.programs import EQUAL, call, needs_gcc

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


def require_memory(name: str, wrote: str, example: Path, *words: str) -> None:
    """Require that the memory of a program is what the page states, and its code about as large."""
    (row,) = re.findall(rf"^\| {name}.*", PAGE, re.MULTILINE)
    stated = row.strip("| ").split(" | ")[1:]
    assert stated[:3] == [
        re.findall(rf"{kind} (\d[\d,]*?)(?:, |$)", wrote)[0] for kind in ("arena", "states", "weights")
    ]
    if shutil.which("arm-none-eabi-gcc"):
        (code,) = re.findall(r"^ *(\d+).*keyword\.o$", make(example, "size", *words), re.MULTILINE)
        assert abs(int(code) - int(stated[3].replace(",", ""))) < 200  # other versions of gcc write other code


@pytest.mark.full
def test_the_network_of_the_page_has_its_memory(example: Path) -> None:
    wrote, verdict, *_ = make(example).splitlines(keepends=True)
    assert verdict == EQUAL
    require_memory("DS-CNN", wrote, example)


@pytest.mark.full
@pytest.mark.parametrize("name", ["alexa", "hey_jarvis", "hey_mycroft", "okay_nabu"])
def test_trained_detectors_of_wake_words_need_no_floats(name: str, example: Path) -> None:
    pytest.importorskip("tflite")
    try:
        model = f"MODEL={wheels.path(f'micro/{name}')}"
    except ModelError as error:
        pytest.skip(str(error).split("\n")[0])
    wrote, verdict = make(example, "check", model).splitlines(keepends=True)
    assert verdict == EQUAL
    program = example / "build" / "network"
    assert not re.search(r"float|double", (program / "keyword.c").read_text())
    flags = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-fsyntax-only")
    call("gcc", *flags, "keyword.c", "keyword_weights.c", folder=program)
    if name in PAGE:
        require_memory(name, wrote, example, model)
