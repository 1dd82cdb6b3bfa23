"""What travels to a worker: our version, the name of a function from bytes to bytes, its argument, and a signature.

The signature is HMAC-SHA256 (RFC 2104) with the key that signs artifacts (`runtime.artifact.sign`), as the artifacts
within are signed: one key, Python's own `hmac`, no other library. Whoever has the key can run code on all workers, and
each worker has it. Where boards must not be able to do work in the user's name, give each farm a key of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ArtifactError, report

VERSION = "minitvm "  # what the text of a version begins with
_PURPOSE = b"minitvm farm\0"  # a signature of an artifact cannot be used for a request
_PROTOCOL = 2  # one more whenever requests or replies change
_SIGNATURE = hashlib.sha256().digest_size
_LENGTH = struct.Struct("<Q")


def version() -> str:
    """The version that both sides must have. It is also a resource that Dask's scheduler knows each worker by."""
    from ... import __version__

    return f"{VERSION}{__version__}, protocol {_PROTOCOL}"


def other_version(found: str, side: str) -> str:
    """The message for two sides of different versions; `side` is the one with the version `found`."""
    return report(
        f"{side} is of another version of minitvm",
        wanted=version(),
        found=found,
        tries=["the same version of minitvm on this machine and on all boards (`minitvm worker` prints its own)"],
    )


def signed(function: str, argument: bytes, key: bytes) -> bytes:
    """A request for `function` ("module:function")."""
    body = b"\0".join([version().encode(), function.encode(), argument])
    return _signature(body, key) + body


def checked(request: bytes, key: bytes) -> tuple[str, bytes]:
    """The function and the argument of a request.

    Raises `ArtifactError` unless it was signed with `key`, and for one of another version.
    """
    signature, body = request[:_SIGNATURE], request[_SIGNATURE:]
    if not hmac.compare_digest(signature, _signature(body, key)):
        raise ArtifactError(
            report(
                "the work was not signed with this worker's key, and was refused: it holds code, which would run with "
                "all rights of the worker's user",
                tries=["the same key file for `minitvm worker --key FILE` and for who sends work (`--key FILE`)"],
            )
        )
    theirs, _, work = body.partition(b"\0")
    if theirs != version().encode():
        text = theirs.decode(errors="replace")
        raise ArtifactError(other_version(text if text.startswith(VERSION) else "an older version", "who sends work"))
    name, _, argument = work.partition(b"\0")
    return name.decode(), argument


def packed(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """A JSON object and some bytes, as bytes."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def unpacked(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The inverse of `packed`."""
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    head: dict[str, Any] = json.loads(data[_LENGTH.size : start])
    blobs = []
    for size in head.pop("sizes"):
        blobs.append(data[start : start + size])
        start += size
    return head, blobs


def _signature(body: bytes, key: bytes) -> bytes:
    return hmac.new(key, _PURPOSE + body, hashlib.sha256).digest()
