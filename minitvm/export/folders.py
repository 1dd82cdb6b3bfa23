"""The folder of an exported program: which folders are refused, and how its files are written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError, report


def new_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder that can be filled: it does not exist, or it is empty. Leaves no trace.

    Call it before the work whose result the folder takes. Raises `InputError` for a file, a folder with files, or a
    path that cannot be created or written, for example because it goes through a file.
    """
    place = Path(folder)
    created: list[Path] = []
    try:
        if os.path.lexists(place) and not (place.is_dir() and not any(place.iterdir())):
            raise InputError(f"{place} exists\n  wanted: a new or empty folder\n  try:    another name, or remove it")
        for part in (*reversed(place.parents), place):
            if not part.exists():
                part.mkdir()
                created.append(part)
        os.rmdir(tempfile.mkdtemp(dir=place))
    except OSError as error:
        raise _unwritable(place, error) from None
    finally:
        for part in reversed(created):
            part.rmdir()
    return place


def fill(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new or empty folder: all of them, or none. Paths may have folders.

    Raises `InputError` if the system refuses, for example because the disk is full.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder))  # on the same disk, also in a mounted folder
        try:
            for path, content in files.items():
                (temporary / path).parent.mkdir(parents=True, exist_ok=True)
                (temporary / path).write_bytes(content)
            for entry in sorted(temporary.iterdir()):
                entry.replace(folder / entry.name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> InputError:
    place = f"{error.filename or folder}: {error.strerror}"
    return InputError(
        report(
            f"{folder} cannot be written", wanted="a folder that can be created", found=place, tries=["another name"]
        )
    )
