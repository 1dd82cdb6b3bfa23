"""What travels to workers: read back as it was, and refused if a single bit of it is another one's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import ArtifactError
from minitvm.runtime.artifact import sign
from minitvm.tune.farm import message, worker
from minitvm.tune.farm.client import Farm
from minitvm.tune.farm.message import checked, packed, signed, unpacked, version
from tests.fewer import examples

KEY = bytes(range(32))
names = st.sampled_from(["minitvm.tune.remote:measured", "tests.fuzz:one_round", "a:b"])


@given(names, st.binary())
def test_a_request_is_read_back(name: str, argument: bytes) -> None:
    assert checked(signed(name, argument, KEY), KEY) == (name, argument)


def test_a_request_of_another_version_is_refused_by_the_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sender and the board get the same words."""
    request = signed("tests.tune.farm.boards:echo", b"0 x", KEY)
    monkeypatch.setattr(worker, "worker_key", lambda: KEY)
    here = version()
    monkeypatch.setattr(minitvm, "__version__", "99.1")
    reply = worker.work(request)
    text = (
        "who sends work is of another version of minitvm\n"
        f"  wanted: minitvm 99.1, protocol 2\n"
        f"  found:  {here}\n"
        "  try:    the same version of minitvm on this machine and on all boards (`minitvm worker` prints its own)"
    )
    assert reply == b"\1" + text.encode()
    assert capsys.readouterr().err == text + "\n"


def test_a_request_without_a_version_is_refused() -> None:
    """As they were before."""
    body = b"tests.tune.farm.boards:echo\x000 x"
    with pytest.raises(ArtifactError, match="wanted: minitvm .*\n  found:  an older version\n"):
        checked(message._signature(body, KEY) + body, KEY)


class _Scheduler:
    """What a client of Dask's says of workers."""

    def __init__(self, workers: dict[str, list[str]]) -> None:
        self.workers = workers

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        infos = [{"name": name, "resources": dict.fromkeys(tags, 1)} for name, tags in self.workers.items()]
        return {"workers": dict(enumerate(infos))}


def farm_of(workers: dict[str, list[str]]) -> Farm:
    farm = Farm.__new__(Farm)
    farm.address, farm.tag, farm._client = "tcp://here", "cpu", _Scheduler(workers)
    return farm


def test_workers_of_another_version_get_no_work() -> None:
    old, other = ["cpu", worker.ANYONE], ["cpu", worker.ANYONE, "minitvm 0.0.9, protocol 1"]
    farm = farm_of({"a": old, "b": other, "c": ["cpu", worker.ANYONE, version()], "d": ["cpu"]})
    assert farm.all_workers() == {"c": ["cpu"]} and farm.workers() == ["c"]
    assert farm.other_versions() == {"a": "an older version", "b": "minitvm 0.0.9, protocol 1"}
    assert farm_of({"a": old, "b": other})._no_worker() == (
        "each worker at tcp://here is of another version of minitvm\n"
        f"  wanted: {version()}\n"
        "  found:  a: an older version; b: minitvm 0.0.9, protocol 1\n"
        "  try:    the same version of minitvm on this machine and on all boards (`minitvm worker` prints its own)"
    )


@given(names, st.binary(), st.data())
def test_a_request_with_another_bit_is_refused(name: str, argument: bytes, data: st.DataObject) -> None:
    request = bytearray(signed(name, argument, KEY))
    bit = data.draw(st.integers(0, 8 * len(request) - 1))
    request[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ArtifactError, match="was not signed with this worker's key"):
        checked(bytes(request), KEY)


@pytest.mark.parametrize("place", [0, 31, 32, -1], ids=["signature", "its end", "name", "argument"])
def test_another_byte_anywhere_is_noticed(place: int) -> None:
    request = bytearray(signed("minitvm.tune.remote:measured", b"argument", KEY))
    request[place] ^= 1
    with pytest.raises(ArtifactError, match="was not signed"):
        checked(bytes(request), KEY)


@given(names, st.binary(), st.binary(min_size=16, max_size=64))
def test_a_request_of_another_key_is_refused(name: str, argument: bytes, other: bytes) -> None:
    if other != KEY:
        with pytest.raises(ArtifactError, match="was not signed"):
            checked(signed(name, argument, other), KEY)


def test_a_signed_artifact_is_no_signed_request() -> None:
    body = b"os:system\0true"
    with pytest.raises(ArtifactError, match="was not signed"):
        checked(sign.signature(body, KEY) + body, KEY)


@examples(15)
@given(st.dictionaries(st.text(), st.integers() | st.lists(st.text())), st.lists(st.binary()))
def test_packed_bytes_are_read_back(head: dict[str, object], blobs: list[bytes]) -> None:
    head.pop("sizes", None)
    assert unpacked(packed(head, blobs)) == (head, blobs)


def test_a_worker_does_what_is_signed_and_nothing_else(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "worker_key", lambda: KEY)
    assert worker.work(signed("tests.tune.farm.boards:echo", b"0 abc", KEY)).startswith(b"\0cba ")
    assert worker.work(signed("os:fsencode", b"true", KEY)).startswith(b"\1os:fsencode is not work for a worker")
    assert b"has no tests.tune.farm.boards:none" in worker.work(signed("tests.tune.farm.boards:none", b"", KEY))
    assert worker.work(signed("tests.tune.farm.boards:echo", b"0 abc", b"x" * 32)).startswith(
        b"\1the work was not signed"
    )


def test_a_worker_without_a_key_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv(worker.KEY, raising=False)
    monkeypatch.setenv("MINITVM_CONFIG_DIR", f"{tmp_path}/nobody")
    assert worker.work(signed("tests.tune.farm.boards:echo", b"0 abc", KEY)).startswith(b"\1this worker has no key")
