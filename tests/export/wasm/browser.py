"""Opens a page of a folder in Chromium, from a plain file server, and returns what a script on the page sends back."""

from __future__ import annotations

import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120  # seconds


class _Server(ThreadingHTTPServer):
    """Serves a folder; the page at `page` ends with `script`, and what is posted is the `answer`."""

    daemon_threads = True

    def __init__(self, folder: Path, page: str, script: str) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.folder, self.page, self.script = folder, page, script
        self.answer: str | None = None
        self.answered = threading.Event()


class _Handler(SimpleHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        if self.path.lstrip("/") != self.server.page:
            super().do_GET()
            return
        text = (self.server.folder / self.server.page).read_text() + self.server.script
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self) -> None:
        self.server.answer = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        self.server.answered.set()

    def log_message(self, *args: Any) -> None:
        pass


def answer_of(folder: Path, page: str, script: str, profile: Path) -> str:
    """Open a page and return what it answers.

    `script` is the body of an asynchronous function at the end of the page, in which `until(condition)` waits; the
    answer is the text that it returns.
    """
    assert CHROMIUM is not None
    waiting = "const until = async (holds) => { while (!holds()) await new Promise((go) => setTimeout(go, 50)); };"
    sending = "fetch('/answer', { method: 'POST', body: text })"
    run = f"(async () => {{ {script} }})().catch((error) => `error: ${{error.stack}}`).then((text) => {sending});"
    server = _Server(folder, page, f'<script type="module">{waiting} {run}</script>')
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/{page}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    browser = subprocess.Popen([CHROMIUM, *options, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert server.answered.wait(PATIENCE), "the page did not answer"
    finally:
        browser.terminate()
        browser.wait()
        server.shutdown()
        server.server_close()
    assert server.answer is not None
    return server.answer
