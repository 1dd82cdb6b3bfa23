"""The messages to a worker: our version, the name of a function from bytes to bytes, its argument, and a signature.

The signature is HMAC-SHA256 (RFC 2104) with the key that also signs artifacts (`runtime.artifact.sign`), so there is
only one key, and Python's own `hmac` is enough. Whoever has the key can run code on all workers, and each worker has
it. If boards must not be able to do work in the user's name, give each farm its own key.
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
    """Return the version that both sides must have. Dask's scheduler also knows each worker by it, as a resource."""
    from ... import __version__

    return f"{VERSION}{__version__}, protocol {_PROTOCOL}"


def other_version(found: str, side: str) -> str:
    """Return the error message for two sides with different versions; `side` is the one with the version `found`."""
    return report(
        f"{side} is of another version of minitvm",
        wanted=version(),
        found=found,
        tries=["the same version of minitvm on this machine and on all boards (`minitvm worker` prints its own)"],
    )


def signed(function: str, argument: bytes, key: bytes) -> bytes:
    """Return a signed request to call `function` ("module:function") with `argument`."""
    body = b"\0".join([version().encode(), function.encode(), argument])
    return _signature(body, key) + body


def checked(request: bytes, key: bytes) -> tuple[str, bytes]:
    """Return the function and the argument of a request.

    Raises `ArtifactError` if it was not signed with `key`, or comes from another version.
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
    """Encode a JSON object and some byte strings as bytes."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def unpacked(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the object and the byte strings that `packed` encoded."""
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
