"""The explorer's server: who may ask, what it refuses, and that a browser shows its page."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from minitvm.target import Target
from minitvm.tools.cli import main
from minitvm.tools.explore import Explorer, server
from minitvm.tools.explore import state as versions
from minitvm.tools.explore.evaluate import answer
from tests.patience import PATIENCE

from .test_state import LINES, PROGRAM

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TARGET = "cpu -vector_bits=256"


class Here(Explorer):
    """Answers in this process, with drafts only."""

    def answer(self, name: str, kind: str) -> Mapping[str, Any]:
        state = self._named(name)
        return answer("draft" if kind == "steps" else kind, state.program, state.lines, Target(self.target))


@pytest.fixture
def address() -> Iterator[str]:
    http, place = server(Here({"copy": versions.start(PROGRAM, LINES)}, TARGET), "copy.py")
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield place
    http.shutdown()
    http.server_close()
    thread.join()


def ask(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """A request below the address, or to an absolute path; returns status and text."""
    host, token = address.removeprefix("http://").strip("/").split("/")
    connection = HTTPConnection(host, timeout=PATIENCE)
    sent = None if body is None else body if isinstance(body, str) else json.dumps(body)
    kind = {} if body is None else {"Content-Type": "application/json"}
    place = path if path.startswith("/") else f"/{token}/{path}"
    connection.request("GET" if body is None else "POST", place, sent, kind | headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def test_only_who_has_the_token_is_answered(address: str) -> None:
    assert ask(address, "")[0] == 200
    token = address.rstrip("/").rpartition("/")[2]
    assert len(token) >= 32
    for path in ("/", "/page.css", "/wrong/", f"/{token[:-1]}/", f"/{token}x/page.js", "/%C3%A9/", f"//{token}/.."):
        status, text = ask(address, path)
        assert status in (403, 404) and token not in text, path
    assert ask(address, "/act", {"name": "copy", "action": "undo", "arguments": []})[0] == 403


def test_other_pages_cannot_ask(address: str) -> None:
    host = address.split("/")[2]
    good = {"name": "copy", "action": "look", "arguments": []}
    assert ask(address, "act", good, Origin=f"http://{host}")[0] == 200
    assert ask(address, "act", good, Origin="https://evil.example")[0] == 403
    assert ask(address, "act", good, Origin="null")[0] == 403
    assert ask(address, "", Host="evil.example")[0] == 403
    assert ask(address, "act", good, **{"Content-Type": "text/plain"})[0] == 400


@pytest.mark.parametrize("path", ["../pages.py", "nothing", "codemirror.LICENSE", "act"])
def test_only_assets_are_files(address: str, path: str) -> None:
    assert ask(address, path)[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("act", "{", "wanted a body of JSON"),
        ("act", "[]", "wanted an object of JSON"),
        ("act", {}, "the request lacks a part"),
        ("act", {"name": "x", "action": "undo", "arguments": []}, "no schedule 'x'"),
        ("act", {"name": [], "action": "undo", "arguments": []}, "the request lacks a part"),
        ("act", {"name": "copy", "action": "delete", "arguments": []}, "no action 'delete'"),
        ("act", {"name": "copy", "action": "undo", "arguments": ["x"]}, "undo: wrong number of arguments"),
        ("act", {"name": "copy", "action": "edit", "arguments": [3]}, "edit: the argument has the wrong type"),
        ("act", {"name": "copy", "action": "go", "arguments": [7]}, "there is no version 7"),
        ("share", {"name": "y"}, "no schedule 'y'"),
    ],
)
def test_bad_requests_are_refused_in_words(address: str, path: str, body: Any, message: str) -> None:
    status, text = ask(address, path, body)
    assert (status, message in json.loads(text)["error"]) == (400, True), text


def test_a_schedule_is_edited_undone_and_shared(address: str) -> None:
    def act(action: str, *arguments: Any) -> Any:
        return json.loads(ask(address, "act", {"name": "copy", "action": action, "arguments": list(arguments)})[1])

    assert act("append", "sch.vectorize(i_1)")["lines"] == LINES + "\nsch.vectorize(i_1)"
    assert act("undo")["lines"] == LINES
    assert act("redo")["at"] == 1
    status, text = ask(address, "share", {"name": "copy"})
    assert status == 200 and text.endswith("    sch.vectorize(i_1)\n") and "def copy(" in text


def test_lines_that_never_end_are_stopped_and_the_next_ones_run() -> None:
    explorer = Explorer({"copy": versions.start(PROGRAM, "while True: pass")}, TARGET, seconds=1)
    assert explorer.answer("copy", "draft")["message"].startswith("no end after 1 seconds")
    explorer.seconds = PATIENCE
    explorer.act("copy", "edit", "import os; os._exit(3)")
    assert explorer.answer("copy", "draft")["message"] == "the process that ran these lines has ended"
    explorer.act("copy", "edit", LINES)
    steps = explorer.answer("copy", "steps")
    assert steps["message"] == "" and "same result" in steps["html"]


def test_mistakes_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "copy.py"
    path.write_text(f"from minitvm.script import tir as T\n\n{PROGRAM}")
    assert main(["explore", "--no-film", str(path)]) == 2
    assert main(["explore", "--port", "70000", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "minitvm explore: --no-film goes with --static",
        "minitvm explore: --port 70000: wanted 0 to 65535",
    ]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium")
def test_a_browser_shows_the_page(address: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=20000", "--dump-dom", address],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'data-ready="true"' in done.stdout and "cm-editor" in done.stdout
    assert 'id="tab-0-1"' in done.stdout and 'id="message" role="status" aria-live="polite" class=""' in done.stdout
