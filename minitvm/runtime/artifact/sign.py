"""Signatures of artifacts, made with a key that only the user has.

An artifact contains machine code, which runs with all rights of the user who loads it. So it is loaded only if it was
signed with this user's key, or with a key that you pass in (`key=`, for several machines or people). The signature is
HMAC-SHA256 (RFC 2104) over the head of the file. The head contains the digests, so the signature covers everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from pathlib import Path

from ...errors import ArtifactError, InputError, report
from .format import Container

Key = bytes | str | os.PathLike[str]
_KEY_BYTES = 32
_LEAST = 16  # the fewest bytes of a key that a caller passes
_PURPOSE = b"minitvm artifact\0"


def key_path() -> Path:
    """Return the path of this user's key.

    It is in MINITVM_CONFIG_DIR, or else in ~/.config/minitvm (XDG_CONFIG_HOME is respected). Raises `ArtifactError` for
    a user without a home folder, which is common in containers.
    """
    folder = os.environ.get("MINITVM_CONFIG_DIR")
    if folder:
        return Path(folder) / "artifact.key"
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(base) if base else Path.home() / ".config") / "minitvm" / "artifact.key"
    except RuntimeError:
        raise ArtifactError(
            "artifacts are signed with a key of yours, and this user has no home folder to keep it in; "
            "set MINITVM_CONFIG_DIR, or use a key of another place (key=)"
        ) from None


def user_key() -> bytes | None:
    """Return this user's key, or None if the user has no key yet.

    Raises `ArtifactError` if other users may read or write the key, because they could sign with it in this user's
    name.
    """
    path = key_path()
    try:
        handle = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ArtifactError(f"the key {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.getuid():
            raise ArtifactError(f"the key {path} belongs to another user; it is not used")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ArtifactError(f"the key {path} is open to other users; it is not used: remove it, or chmod 600 it")
        key = file.read()
    if len(key) != _KEY_BYTES:
        raise ArtifactError(f"the key {path} is damaged: {len(key)} bytes, wanted {_KEY_BYTES}; remove it")
    return key


def make_user_key() -> bytes:
    """Return this user's key, creating it on first use. Only the user can read it.

    Concurrent processes get the same key.
    """
    existing = user_key()
    if existing is not None:
        return existing
    path = key_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(_KEY_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)  # the first one stays
        finally:
            os.unlink(partial)
    except OSError as error:
        raise ArtifactError(
            f"artifacts are signed with a key of yours, and {path} cannot be made: {error.strerror}; "
            "give export another one (key=), or another folder (MINITVM_CONFIG_DIR)"
        ) from None
    key = user_key()
    assert key is not None
    return key


def key_bytes(key: Key) -> bytes:
    """Return the bytes of a key that was passed as bytes or as the path of a file.

    Raises `InputError` if the key is too short.
    """
    if isinstance(key, bytes | bytearray):
        secret, where = bytes(key), "key"
    else:
        where = f"the key {os.fspath(key)}"
        try:
            secret = Path(key).read_bytes()
        except OSError as error:
            raise InputError(f"{where} cannot be read: {error.strerror}") from None
    if len(secret) < _LEAST:
        raise InputError(f"{where} has {len(secret)} bytes; wanted at least {_LEAST}, such as secrets.token_bytes(32)")
    return secret


def signature(head: bytes, key: bytes) -> bytes:
    """Return the 32-byte signature of `head`, which only an owner of the key can compute."""
    return hmac.new(key, _PURPOSE + head, hashlib.sha256).digest()


def demand_trust(container: Container, trust: bool, key: Key | None) -> None:
    """Raise `ArtifactError` unless the artifact is signed with `key` (default: this user's key) or `trust` is True."""
    if trust:
        if key is not None:
            raise InputError("load: trust=True asks for no signature, key= asks for one: give one of the two")
        return
    own = user_key() if key is None else key_bytes(key)
    if own is not None and hmac.compare_digest(signature(container.head, own), container.signature):
        return
    whose = "the key handed over" if key is not None else "your key on this machine"
    raise ArtifactError(
        report(
            f"{container.path} was not signed with {whose}, and was not loaded: it holds machine code, "
            "which would run with all of your rights",
            tries=[
                "trust=True (on the command line --trust), if you know where the file is from",
                "key= (--key FILE), with the key that it was exported with",
                "export it again here, from the model",
            ],
        )
    )
