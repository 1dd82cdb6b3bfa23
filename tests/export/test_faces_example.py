"""examples/faces_cpp: the same faces in C++ as in Python, on this machine and on an emulated one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm.errors import ModelError
from minitvm.frontends import from_onnx
from minitvm.tools.cli.demo_faces import _PICTURE, opened
from minitvm.tools.models import centerface
from minitvm.tools.models.located import located

EXAMPLE = Path(__file__).parents[2] / "examples" / "faces_cpp"
SIDE = 128  # of the pictures that the network reads
NATIVE = ("TARGET=cpu", "FLAGS=-O1 -march=native")
EMULATED = (
    "TARGET=cpu -model=cortex-a76", "FLAGS=-O1 -mcpu=cortex-a76 -static", "CC=aarch64-linux-gnu-gcc",
    "CXX=aarch64-linux-gnu-g++", "RUN=qemu-aarch64",
)  # fmt: skip


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tools = (f"PYTHON={sys.executable}", f"SIZE={SIDE} {SIDE}", *words)
    return subprocess.run(["make", "-s", "-C", folder, *tools], capture_output=True, text=True, check=False)


def write_ppm(path: Path, picture: np.ndarray) -> Path:
    rows, columns, _ = picture.shape
    path.write_bytes(b"P6\n# a photograph\n%d %d\n255\n" % (columns, rows) + picture.tobytes())
    return path


@pytest.fixture(scope="module")
def photographs() -> list[np.ndarray]:
    """One face, two faces, and none."""
    try:
        centerface.path()
        whole = np.asarray(opened(located(*_PICTURE)), np.uint8)
    except ModelError as error:
        pytest.skip(str(error).split("\n")[0])
    head = whole[20:276, 96:352]
    return [np.ascontiguousarray(p) for p in (head, np.concatenate([head, head[:, ::-1]], 1), whole[400:, :200])]


@pytest.fixture(scope="module")
def expected(photographs: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    graph = centerface.pipeline(from_onnx(centerface.network(SIDE, SIDE)))
    module = minitvm.build(graph, threads=1)
    return [tuple(np.array(a) for a in module(picture)) for picture in photographs]  # type: ignore[misc]


@pytest.mark.full
@pytest.mark.parametrize("machine", [NATIVE, EMULATED], ids=["native", "aarch64"])
def test_the_same_faces(
    photographs: list[np.ndarray], expected: list[tuple[np.ndarray, ...]], machine: tuple[str, ...], tmp_path: Path
) -> None:
    for word in machine:
        tool = word.partition("=")[2]
        if word.startswith(("CC=", "CXX=", "RUN=")) and shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: apt install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user")
    folder = shutil.copytree(EXAMPLE, tmp_path / "faces", ignore=shutil.ignore_patterns("build"))
    numbers = []
    for picture, (boxes, scores, landmarks) in zip(photographs, expected, strict=True):
        run = make(folder, *machine, f"PICTURE={write_ppm(tmp_path / 'picture.ppm', picture)}")
        assert run.returncode == 0, run.stdout + run.stderr
        first, *lines = run.stdout.splitlines()
        numbers.append(len(lines))
        assert first == f"{len(scores)} face{'' if len(scores) == 1 else 's'}" and len(lines) == len(scores)
        for line, box, score, points in zip(lines, boxes, scores, landmarks, strict=True):
            printed = [float(number) for number in re.findall(r"[\d.]+", line)]
            numbers_of_face = [box[0], box[2], box[1], box[3], 100 * score, *points[0], *points[1]]
            np.testing.assert_allclose(printed, numbers_of_face, atol=0.51 if machine is NATIVE else 0.6)
    assert numbers == [1, 2, 0]
    for content, message in (
        (b"P3\n1 1 255\n0 0 0\n", "is not a binary PPM file (P6)"),
        (b"P6\n0 4 255\n", "wanted sides from 1 to 8192 pixels"),
        (b"P6\n4 4 65535\n", "wanted one byte per colour"),
        (b"P6\n4 4 255\n123", "ends before its last pixel"),
    ):
        (tmp_path / "bad.ppm").write_bytes(content)
        run = make(folder, *machine, f"PICTURE={tmp_path / 'bad.ppm'}")
        assert run.returncode != 0 and message in run.stderr


def test_a_picture_is_asked_for() -> None:
    assert "usage: make PICTURE=photograph.ppm" in make(EXAMPLE).stdout
