"""The program of a worker: reads requests from standard input, writes results to standard output.

Started by `worker_pool` as a plain program (`python -m`), not through `multiprocessing`: that would import the user's
main script again, and fails if there is none. Messages are a length and that many bytes. A request is two messages, the
name of a function from bytes to bytes (`"module:function"`) and its argument. A reply is a status byte and the payload:
0 and a result, or 1, the name of the error's class, a zero byte and its text.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

LENGTH = struct.Struct("<Q")


def read_message(stream: BinaryIO) -> bytes | None:
    """One message, or None at the end of the stream (or in the middle of a message: the other side is gone)."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def write_message(stream: BinaryIO, body: bytes) -> None:
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()


@functools.cache
def function(name: str) -> Callable[[bytes], bytes]:
    """The function that `"module:function"` names."""
    module, _, attribute = name.partition(":")
    named: Callable[[bytes], bytes] = getattr(importlib.import_module(module), attribute)
    return named


def main() -> None:
    """Serve until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not end up in the replies
    sys.stdout = sys.stderr
    from ..errors import MinitvmError

    requests = sys.stdin.buffer
    while (name := read_message(requests)) is not None and (request := read_message(requests)) is not None:
        try:
            reply = b"\0" + function(name.decode())(request)
        except MinitvmError as error:
            reply = b"\1" + type(error).__name__.encode() + b"\0" + str(error).encode()
        write_message(replies, reply)


if __name__ == "__main__":
    main()
