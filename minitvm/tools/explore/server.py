"""The local server of `minitvm explore FILE`: one page, its assets, and requests that change the state.

It listens on 127.0.0.1 only. The address begins with a random token, without which nothing is answered, and a request
must name this server in its `Host` and `Origin`, so that no other web page can use it. What a schedule's lines do is
computed in a worker process, which is ended when its time is up.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

from ...errors import InputError, MinitvmError
from ...forks import lock
from ...workers.worker_pool import PoolTask, run
from . import state as versions
from .pages import asset, server_page
from .readable_names import written
from .state import State
from .stepwise import Subject, text

SECONDS = 60.0  # of one answer; a step of a small program takes about one
MOST = 1 << 20  # bytes of a request
KINDS = {
    "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "html": "text/html; charset=utf-8",
    "json": "application/json", "py": "text/x-python; charset=utf-8",
}  # fmt: skip
ASSETS = ("page.css", "server.css", "page.js", "server.js", "codemirror.js")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
QUESTIONS = ("draft", "steps", "levels", "next")
DIED, LATE = b'{"died": true}', b'{"late": true}'
TASK = PoolTask("minitvm.tools.explore.evaluate:evaluate", 0, 0, died=DIED, late=LATE)

ACTIONS: Mapping[str, Callable[..., State]] = {
    "edit": versions.edit, "append": versions.append, "undo": versions.undo, "redo": versions.redo,
    "fork": versions.fork, "go": versions.go,
}  # fmt: skip


def started(subject: Subject) -> State:
    """The first state of a subject: its program, and the lines of its trace with those of its refused step."""
    lines = [line for _, line in written(subject.trace)]
    lines += [subject.refusal.line] if subject.refusal else []
    return versions.start(text(subject.before), "\n".join(lines))


class Explorer:
    """The states of several schedules by name, and the answers to requests about them."""

    def __init__(self, states: Mapping[str, State], target: str, seconds: float = SECONDS) -> None:
        self.states, self.target, self.seconds = dict(states), target, seconds
        self._answers: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        self._lock = lock()

    def act(self, name: str, action: str, *arguments: Any) -> Mapping[str, Any]:
        """Change the state of a schedule; returns what the page shows of it. Raises `InputError` for a bad request."""
        self._named(name)
        if action not in (*ACTIONS, "look"):
            raise InputError(f"no action {action!r}; wanted one of look, {', '.join(ACTIONS)}")
        if any(not isinstance(argument, int if action == "go" else str) for argument in arguments):
            raise InputError(f"{action}: the argument has the wrong type")
        try:
            with self._lock:
                if action != "look":
                    self.states[name] = ACTIONS[action](self.states[name], *arguments)
                return versions.view(self.states[name])
        except TypeError:
            raise InputError(f"{action}: wrong number of arguments") from None

    def answer(self, name: str, kind: str) -> Mapping[str, Any]:
        """The steps or levels of the current version, or what is legal next; computed once for the same lines."""
        if kind not in QUESTIONS:
            raise InputError(f"no answer {kind!r}; wanted one of {', '.join(QUESTIONS)}")
        state = self._named(name)
        key = (kind, state.program, state.lines)
        if key not in self._answers:
            request = {"kind": kind, "program": state.program, "lines": state.lines, "target": self.target}
            end = time.monotonic() + self.seconds
            (reply,) = run(TASK, [json.dumps(request).encode()], workers=1, end=end)
            if reply == LATE:
                why = "a loop that never ends, or a program that is too large?"
                return {"message": f"no end after {self.seconds:g} seconds; {why}", "line": 0}
            if reply == DIED:
                return {"message": "the process that ran these lines has ended", "line": 0}
            self._answers[key] = json.loads(reply)
        return self._answers[key]

    def shared(self, name: str) -> str:
        """The current version of a schedule as a Python file."""
        return versions.shared(self._named(name))

    def _named(self, name: str) -> State:
        if name not in self.states:
            raise InputError(f"no schedule {name!r}")
        return self.states[name]


class Handler(BaseHTTPRequestHandler):
    """Answers requests; refuses those without the token, or that come from another page."""

    server_version, sys_version = "minitvm", ""

    def __init__(self, explorer: Explorer, title: str, token: str, *arguments: Any) -> None:
        self.explorer, self.title, self.token = explorer, title, token
        super().__init__(*arguments)

    def do_GET(self) -> None:
        rest = self._checked()
        if rest is None:
            return
        if rest == "":
            self._send("html", server_page(self.title, list(self.explorer.states)))
        elif rest in ASSETS:
            self._send(rest.rpartition(".")[2], asset(rest))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def do_POST(self) -> None:
        rest = self._checked()
        if rest is None:
            return
        try:
            fields = self._body()
            if rest == "act":
                self._send(
                    "json", json.dumps(self.explorer.act(fields["name"], fields["action"], *fields["arguments"]))
                )
            elif rest == "answer":
                self._send("json", json.dumps(self.explorer.answer(fields["name"], fields["kind"])))
            elif rest == "share":
                self._send("py", self.explorer.shared(fields["name"]))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "no such request")
        except MinitvmError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except (KeyError, TypeError):
            self._refuse(HTTPStatus.BAD_REQUEST, "the request lacks a part")

    def _checked(self) -> str | None:
        """The path after the token; None if the request was refused."""
        assert isinstance(self.server, HTTPServer)
        port = self.server.server_port
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts or origin not in (None, *(f"http://{host}" for host in hosts)):
            self._refuse(HTTPStatus.FORBIDDEN, "this server is for the page that it serves itself")
            return None
        token, _, rest = self.path.lstrip("/").partition("?")[0].partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that minitvm explore has printed")
            return None
        return rest

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not length.isdigit() or int(length) > MOST:
            raise InputError("wanted a body of JSON")
        try:
            fields = json.loads(self.rfile.read(int(length)))
        except ValueError:
            raise InputError("wanted a body of JSON") from None
        if not isinstance(fields, dict):
            raise InputError("wanted an object of JSON")
        return fields

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send("json", json.dumps({"error": message}), status)

    def _send(self, kind: str, body: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": KINDS[kind], "Content-Length": str(len(content)), "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: the address has the token in it."""


def server(explorer: Explorer, title: str, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """A server that is ready to serve, and its address. Port 0 is any free port."""
    token = secrets.token_urlsafe(24)
    try:
        http = ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, explorer, title, token))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}; try another one, or 0 for any free port") from None
    http.daemon_threads = True
    return http, f"http://127.0.0.1:{http.server_address[1]}/{token}/"
