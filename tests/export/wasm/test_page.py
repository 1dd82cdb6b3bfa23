"""The programs of docs/browser.md print what the page says; what a user of net.js can do wrong is explained."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.tools import cli

from .node import absent

PAGE = (Path(__file__).parents[3] / "docs" / "browser.md").read_text(encoding="utf-8")
(PYTHON,), (FILES,), (PROGRAM,) = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("python", "text", "javascript")
)

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent() or "node is here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page's program, with the network of the page in `net`."""
    place = tmp_path_factory.mktemp("page")
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(PYTHON.replace("tempfile.mkdtemp()", repr(str(place / "net"))), names)
    assert printed.getvalue() == FILES
    assert sorted(path.name for path in (place / "net").iterdir()) == sorted(FILES.split())
    return place


def output_of(program: str, folder: Path, path: str = "main.mjs") -> str:
    """Return the output of node for a program, a file of the folder, which is the current directory."""
    (folder / path).write_text(program)
    done = subprocess.run(["node", path], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def messages(expressions: list[str], folder: Path, before: str = "") -> list[str]:
    """The class and the text of the error of each expression."""
    words = 'then(() => "no error", (error) => `${error.name}: ${error.message}`)'
    tries = "".join(f"await (async () => {expression})().{words},\n" for expression in expressions)
    text = f'import {{ load }} from "./net/net.js";\n{before}\nconsole.log(JSON.stringify([{tries}]));'
    printed: list[str] = json.loads(output_of(text, folder))
    return printed


def test_the_complete_program_prints_the_result_of_the_page(folder: Path) -> None:
    printed = output_of(PROGRAM, folder)
    progress, result = printed.split("[ 1, 3 ] Float32Array(3)")
    assert progress == "1\n"
    scores = np.exp([1.0, 2.0, 3.0])
    numbers = [float(number) for number in re.findall(r"\d\.\d+", result)]
    np.testing.assert_allclose(numbers, scores / scores.sum(), rtol=1e-6)


def test_a_relative_folder_begins_at_the_current_directory(folder: Path) -> None:
    """The program may be in another folder, and a folder's name may end without a slash."""
    (folder / "programs").mkdir()
    names = ["./net/", "net", f"../{folder.name}/net", str(folder / "net"), (folder / "net").as_uri()]
    tries = "".join(f"(await load({json.dumps(name)})).name, " for name in names)
    program = f'import {{ load }} from "../net/net.js";\nconsole.log(JSON.stringify([{tries}]));'
    assert json.loads(output_of(program, folder, "programs/main.mjs")) == ["classifier"] * len(names)


def test_files_that_cannot_be_read_are_errors_with_words(folder: Path) -> None:
    (folder / "code").mkdir()
    (folder / "code" / "net.plain.wasm").write_bytes((folder / "net" / "net.plain.wasm").read_bytes())
    (folder / "other").mkdir()
    (folder / "other" / "net.plain.wasm").write_text("<!doctype html>")
    names = ["./nothing/", "code", "other", "http://127.0.0.1:9/", "http://"]
    printed = messages([f"load({json.dumps(name)}, {{ relaxed: false }})" for name in names], folder)
    place = folder.as_uri()
    assert printed[:2] == [
        f"NetError: classifier: cannot read {place}/{file}: there is no such file"
        for file in ("nothing/net.plain.wasm", "code/net.weights.bin")
    ]
    assert printed[2].startswith("NetError: classifier: this engine does not load net.plain.wasm: ")
    assert re.fullmatch(r"NetError: classifier: cannot read http://127.0.0.1:9/net.plain.wasm: .+", printed[3])
    assert printed[4] == 'NetError: classifier: "http://" is no URL of a folder'


MISTAKES = [
    ("{ x: [1, 2, 3, 4] }", "input x: float32(1, 4): wanted a Float32Array, found Array"),
    ('{ x: "abc" }', "input x: float32(1, 4): wanted a Float32Array, found String"),
    ("{ x: { shape: [1, 4] } }", "input x: float32(1, 4): wanted a Float32Array, found Object"),
    ("{ x: { data: [1, 2, 3, 4] } }", "input x: float32(1, 4): wanted a Float32Array, found Array"),
    ("{ x: new DataView(new ArrayBuffer(16)) }", "input x: float32(1, 4): wanted a Float32Array, found DataView"),
    ("{ x: new ArrayBuffer(16) }", "input x: float32(1, 4): wanted a Float32Array, found ArrayBuffer"),
    ("{ x: { data, shape: '14' } }", "input x: float32(1, 4): wanted a shape that is an array, found String"),
    ("{ x: { data, shape: 4 } }", "input x: float32(1, 4): wanted a shape that is an array, found Number"),
    ("{ x: { data, shape: ['1', '4'] } }", 'input x has shape ("1", "4")\n  wanted: x: float32(1, 4)'),
    ("{ x: { data, shape: [1, NaN] } }", "input x has shape (1, NaN)\n  wanted: x: float32(1, 4)"),
    ("undefined", "input x: float32(1, 4) is missing"),
    ("{ x: null }", "input x: float32(1, 4) is missing"),
    ("null", "run takes an object with an array for each input, found object"),
    ("data", "run takes an object with an array for each input, found Float32Array"),
    ("[data]", "run takes an object with an array for each input, found Array"),
    ("'abc'", "run takes an object with an array for each input, found String"),
]


def test_wrong_inputs_are_errors_with_words(folder: Path) -> None:
    before = "const net = await load(), data = new Float32Array(4);"
    printed = messages([f"net.run({inputs})" for inputs, _ in MISTAKES], folder, before)
    assert printed == [f"NetError: classifier: {text}" for _, text in MISTAKES]


def test_an_array_of_another_frame_is_an_array(folder: Path) -> None:
    """Its class differs from this frame's."""
    program = """
        import { runInNewContext } from "node:vm";
        import { load } from "./net/net.js";
        const x = runInNewContext("new Float32Array([1, 2, 3, 4])");
        console.log(x instanceof Float32Array, (await load()).run({ x }).p.shape);
    """
    assert output_of(program, folder) == "false [ 1, 3 ]\n"


def test_the_commands_of_the_page_exist() -> None:
    (line,) = re.findall(r"^    minitvm (.*)$", PAGE, re.MULTILINE)
    cli._parser().parse_args(line.split())
