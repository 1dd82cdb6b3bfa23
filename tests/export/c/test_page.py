"""The programs of docs/deploy.md compile without warnings, and print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from minitvm.tools import cli
from tests.export.c.programs import STRICT, call, compiled, needs_gcc, written
from tests.export.c.test_failures import open_graph

PAGE = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
PROGRAM, PLAN, OPENMP = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)

pytestmark = needs_gcc


def page_graph() -> Any:
    """The network of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.split("folder = ")[0], names)
    return names["graph"]


def test_the_complete_program_prints_the_result_of_the_page(tmp_path: Path) -> None:
    folder = written(page_graph(), tmp_path / "net")
    (folder / "main.c").write_text(PROGRAM)
    (result,) = re.findall(r"a\.out\n    (.*)\n", PAGE)
    assert call(compiled(folder, "main.c"), folder=folder) == result + "\n"
    (lines,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
    program = f'#include "net.hpp"\nint main()\n{{\n{lines}    return p.size() == 3 ? 0 : 1;\n}}\n'
    (folder / "page.cpp").write_text(program)
    call("gcc", "-std=c11", *STRICT, "-c", "net.c", "net_weights.c", folder=folder)
    call(
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        "page",
        "page.cpp",
        "net.o",
        "net_weights.o",
        folder=folder,
    )
    call("./page", folder=folder)


def test_the_other_pieces_of_c_compile(tmp_path: Path) -> None:
    folder = written(open_graph(), tmp_path / "net", checked=False)
    text = (
        f'#include "net.h"\n{OPENMP}\nint piece(net_arguments *arguments);\nint piece(net_arguments *arguments)\n{{\n'
    )
    text += f"{PLAN}\n    arguments->parallel = with_openmp;\n    return status + (int)plan.arena_bytes;\n}}\n"
    (folder / "main.c").write_text(text)
    call("gcc", "-std=c11", *STRICT, "-fopenmp", "-fsyntax-only", "main.c", folder=folder)


def test_the_commands_of_the_page_exist() -> None:
    lines = re.findall(r"^    minitvm (.*)$", PAGE, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        cli._parser().parse_args(shlex.split(line))
    options = set(re.findall(r"^\| `(-[-\w]+)", PAGE, re.MULTILINE))
    assert options == {"-o", "--name", "--weights", "--target", "--input"}
