"""Which folders an exported program takes, and that it writes all of its files or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitvm.errors import InputError
from minitvm.export.folders import fill, new_folder

FILES = {"net.c": b"c", "data/x.bin": b"x"}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_new_and_empty_folders_are_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the current directory, and a link to a folder; both stay what they are."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (tmp_path / "new" / "deeper", tmp_path / "empty", tmp_path / "link", Path()):
        fill(new_folder(place), FILES)
        assert content(place) == FILES
        assert {path.name for path in place.iterdir()} == {"net.c", "data"}
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "target") == FILES
    assert Path("net.c").read_bytes() == b"c"


def test_other_paths_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    exists, refused = (
        "exists\n  wanted: a new or empty folder",
        "cannot be written\n  wanted: a folder that can be created",
    )
    through_file, long = tmp_path / "file" / "a" / "b", tmp_path / "new" / ("a" * 300)
    reasons = {
        tmp_path: f"{tmp_path} {exists}",
        tmp_path / "file": f"{tmp_path / 'file'} {exists}",
        through_file: f"{through_file} {refused}\n  found:  {tmp_path / 'file' / 'a'}: Not a directory",
        long: f"{long} {refused}\n  found:  {long}: File name too long",
    }
    for place, text in reasons.items():
        with pytest.raises(InputError) as caught:
            new_folder(place)
        assert str(caught.value).startswith(text)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failure_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, leaves in (("empty", True), ("new", False)):
        with pytest.raises(InputError, match="cannot be written(.|\n)*: File name too long"):
            fill(tmp_path / name, {**FILES, "b" * 300: b"x"})
        assert (tmp_path / name).exists() == leaves and content(tmp_path) == {}
