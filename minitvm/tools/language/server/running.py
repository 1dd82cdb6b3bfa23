"""Run the application on a port of this machine, until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

from ....errors import InputError, missing_extra, report

HOST = "127.0.0.1"
_PATIENCE = 5  # seconds for responses to end


def serve(app: Any, port: int, ready: Callable[[str], None] = lambda _: None) -> None:
    """Answer requests on a port (0: a free one), until Ctrl-C or SIGTERM. `ready` is called with the server's address.

    Answers that are not complete then end with an error. Raises `InputError` if the port is in use, and `MissingExtra`
    without the package `uvicorn`.
    """
    try:
        import uvicorn
    except ImportError:
        raise missing_extra("uvicorn", "serve") from None

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if (batching := getattr(app.state, "batching", None)) is not None:  # the application has begun
                batching.stop()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(app, log_level="warning", lifespan="on", ws="none", timeout_graceful_shutdown=_PATIENCE)
    with _listening(port) as listener:
        ready(f"http://{HOST}:{listener.getsockname()[1]}")
        try:
            Server(config).run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn raises it again after it has ended
            return


def _listening(port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise InputError(f"wanted a port from 0 to {(1 << 16) - 1}, found {port}")
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise InputError(
            report(f"cannot listen on port {port}: {error}", tries=["--port 0, which takes a free port"])
        ) from None
