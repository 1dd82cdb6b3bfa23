"""A compiling process: reads kernels from standard input, writes object code to standard output.

Started by `compile_pool` as a plain program (`python -m`), not through `multiprocessing`: that would import the user's
main script again, and cannot work where there is none to import. Messages are a length and that many bytes: a request
is JSON, a reply is a status byte (0: object code follows, 1: an error text) and the payload.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
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


def main() -> None:
    """Serve until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not end up in the replies
    sys.stdout = sys.stderr
    from ...errors import MinitvmError
    from .compiler import compile_kernel

    while (request := read_message(sys.stdin.buffer)) is not None:
        job = json.loads(request)
        try:
            reply = b"\0" + compile_kernel(job["source"], job["entry"])
        except MinitvmError as error:
            reply = b"\1" + str(error).encode()
        write_message(replies, reply)


if __name__ == "__main__":
    main()
