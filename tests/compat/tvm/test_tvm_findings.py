"""The programs of docs/tvm.md: TVM still accepts each step, and what comes out still means something else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.compat.tvm.bridge import PYTHON_VARIABLE, function_from
from minitvm.reference import check
from minitvm.reference.judging.programs import parameters
from minitvm.tir.nodes import PrimFunc
from tests.patience import PATIENCE

from .tvm_installed import needs_tvm
from .tvm_pair import runs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tvm.md"
FINDINGS = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_has_them() -> None:
    assert len(FINDINGS) > 8


def parameters_written(func: PrimFunc) -> list[bool]:
    return [parameter.written for parameter in parameters(func)]


@needs_tvm
@pytest.mark.parametrize("number", range(len(FINDINGS)))
def test_a_finding_is_one(number: int, tmp_path: Path) -> None:
    text = FINDINGS[number]
    before = function_from(text[text.index("@T.prim_func") : text.index("\nsch = ")])
    assert runs(before)
    file = tmp_path / "finding.py"  # TVM reads the source of a decorated function from its file
    file.write_text(text, encoding="utf-8")
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    done = subprocess.run([python, str(file)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    after = function_from(done.stdout)
    if parameters_written(before) != parameters_written(after):
        return  # an output is not written any more
    verdict = check(before, after)
    assert not verdict, f"TVM does this right now: {verdict}\n{done.stdout}"
