"""A farm of processes: what is asked comes back whatever happens to workers, and what cannot be done is one message."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minitvm.errors import ExecutionError, InputError
from minitvm.target import Target
from minitvm.tools.cli import main
from tests import fuzz

from .boards import SLOW, Boards, boards

pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'minitvm[farm]'")

from minitvm.tune.farm.client import Farm
from minitvm.tune.farm.worker import connection

ECHO = "tests.tune.farm.boards:echo"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    """Two workers. Starting them takes seconds, so the tests of this module share it."""
    with boards(tmp_path_factory.mktemp("farm"), workers=2) as one:
        yield one


def asked(seconds: float, count: int) -> list[bytes]:
    return [f"{seconds} number {i}".encode() for i in range(count)]


def answers(client: Farm, requests: list[bytes]) -> tuple[dict[int, bytes], set[bytes]]:
    """The result of each, and who did some."""
    results = dict(client.run(ECHO, requests))
    return {n: text.rpartition(b" ")[0] for n, text in results.items()}, {t.split()[-1] for t in results.values()}


def right(count: int) -> dict[int, bytes]:
    return {i: f"number {i}".encode()[::-1] for i in range(count)}


def test_all_workers_of_a_target_work_and_one_that_dies_loses_nothing(farm: Boards) -> None:
    with Farm(farm.address, str(Target("cpu")), farm.key) as client:
        assert len(client.workers()) == 2
        found, workers = answers(client, asked(0.2, 6))
        assert found == right(6) and len(workers) == 2
        killer = threading.Timer(0.5, lambda: farm.kill(farm.workers[0]))
        killer.start()
        found, _ = answers(client, asked(0.3, 8))
        killer.join()
        assert found == right(8) and len(farm.workers) == 1


def test_workers_fuzz_with_seeds_of_their_own_and_findings_come_back_as_files(
    farm: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a round is, tests of the project say; here it answers at once."""
    monkeypatch.setenv("FARM_KEY", str(farm.key))
    monkeypatch.setattr(fuzz, "REMOTE", "tests.tune.farm.boards:found_or_not")
    found = tmp_path / "found"
    assert fuzz.on_workers(farm.address, 2.5, ["tests/none.py"], found) == fuzz.FAILED
    files = sorted(found.iterdir())
    said = capsys.readouterr().out
    assert files and f"{len(files)} findings in " in said
    for file in files:
        assert int(file.stem) % 2 and f"again with: --hypothesis-seed={file.stem}" in file.read_text()
        assert "tests/none.py failed" in file.read_text()


def test_what_a_farm_cannot_do_is_one_message(farm: Boards, tmp_path: Path) -> None:
    if not farm.workers:
        farm.start_worker()
    with pytest.raises(InputError, match="has this target\n  wanted: toy board\n  found:  cpu -name="):
        Farm(farm.address, "toy board", farm.key)
    other = tmp_path / "other.key"
    other.write_bytes(os.urandom(32))
    with Farm(farm.address, key=other) as client, pytest.raises(InputError, match="refused: the work was not signed"):
        answers(client, asked(0, 1))
    with Farm(farm.address, key=farm.key) as client:
        with pytest.raises(InputError, match=r"refused: .* has no tests.tune.farm.boards:none"):
            list(client.run("tests.tune.farm.boards:none", [b""]))
        assert answers(client, asked(0, 1))[0] == right(1)


def test_who_only_looks_needs_no_key_and_deaths_are_counted(farm: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that kills whoever does it is sent to Dask five times, and by Dask to four workers each."""
    from distributed import KilledWorker

    from minitvm.runtime.artifact import sign

    if not farm.workers:
        farm.start_worker()
    made, sent = [], []
    monkeypatch.setattr(sign, "make_user_key", lambda: made.append(1) or b"x" * 32)

    class Dead:
        status, done, exception = "error", lambda _: True, lambda _: KilledWorker("task", None, 3)

    with Farm(farm.address) as client:
        assert client.all_workers() and not made
        monkeypatch.setattr(client, "_submit", lambda request: sent.append(request) or Dead())
        with pytest.raises(ExecutionError, match="20 workers of .* died of one request; it is given up"):
            list(client.run(ECHO, [b"0 x"]))
    assert len(sent) == 5 and made


def test_a_worker_whose_scheduler_goes_away_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from minitvm.tune.farm import worker

    class Gone(contextlib.nullcontext[None]):
        name = "board"

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        async def finished(self) -> None: ...

    async def reached(*_: Any) -> None: ...

    (tmp_path / "key").write_bytes(b"k" * 32)
    monkeypatch.setenv(worker.KEY, "")
    monkeypatch.setattr(worker, "_reached", reached)
    monkeypatch.setattr(worker, "distributed", lambda: SimpleNamespace(Nanny=Gone))
    assert main(["worker", "tcp://desk:1", "--key", str(tmp_path / "key"), "--target", "vta"]) == 2
    assert "the scheduler at tcp://desk:1 is gone" in capsys.readouterr().err


def test_a_scheduler_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitvm.tune.farm.client.TIMEOUT", 0.5)
    with pytest.raises(InputError, match=r"no scheduler answers at tcp://127.0.0.1:1\n"):
        Farm("tcp://127.0.0.1:1", key=b"x" * 32)
    assert main(["worker", "tcp://127.0.0.1:1", "--tls-cert", "x"]) == 2
    assert capsys.readouterr().err.startswith("minitvm worker: --tls-ca-file is missing: TLS needs --tls-ca-file, ")


@pytest.mark.full  # each farm takes seconds to start
def test_a_farm_that_goes_away(tmp_path: Path) -> None:
    with boards(tmp_path, workers=1) as farm:
        with Farm(farm.address, key=farm.key, patience=1.0) as client:
            results = client.run(ECHO, [b"0 first", b"30 second"])
            assert next(results)[0] == 0
            farm.kill(farm.workers[0])
            with pytest.raises(ExecutionError, match="no worker of minitvm at .*: start some"):
                next(results)
        farm.start_worker()
        with Farm(farm.address, key=farm.key) as client:
            results = client.run(ECHO, [b"0 first", b"30 second"])
            assert next(results)[0] == 0
            assert farm.scheduler is not None
            farm.kill(farm.scheduler)
            with pytest.raises(ExecutionError, match="the scheduler at .* is gone"):
                next(results)
            assert farm.workers[0].wait(SLOW) == 2


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_come_and_go_at_random(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    with boards(tmp_path, workers=3) as farm, Farm(farm.address, key=farm.key) as client:
        done = threading.Event()

        def disturb() -> None:
            while not done.wait(generator.uniform(0.3, 1.5)):
                farm.kill(generator.choice(farm.workers))
                farm.start_worker()

        trouble = threading.Thread(target=disturb)
        trouble.start()
        try:
            found, _ = answers(client, asked(0.2, 40))
        finally:
            done.set()
            trouble.join()
        assert found == right(40)


# -- TLS ------------------------------------------------------------------------------------------------------------


def certificates(folder: Path) -> dict[str, str]:
    """A certificate that signs itself, and its key, as the options have them."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, which makes the certificates of this test")
    key, certificate = folder / "tls.key", folder / "tls.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=farm",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return {"--tls-ca-file": str(certificate), "--tls-cert": str(certificate), "--tls-key": str(key)}


@pytest.mark.full  # a farm of its own
def test_a_farm_with_certificates_lets_nobody_in_without(tmp_path: Path) -> None:
    files = certificates(tmp_path)
    options = [text for pair in files.items() for text in pair]
    security: Any = connection(*files.values())
    with boards(tmp_path, workers=1, protocol="tls", options=options) as farm:
        with Farm(farm.address, key=farm.key, security=security) as client:
            assert answers(client, asked(0, 3))[0] == right(3)
        (tmp_path / "stranger").mkdir()
        stranger: Any = connection(*certificates(tmp_path / "stranger").values())
        with pytest.raises(InputError, match="no scheduler answers at tls://"):
            Farm(farm.address, key=farm.key, security=stranger)
        with pytest.raises(InputError, match="no scheduler answers"):
            Farm(farm.address.replace("tls", "tcp"), key=farm.key)


# -- hosts of their own ---------------------------------------------------------------------------------------------


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Two network namespaces behind a bridge at 10.213.7.1."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    names = [f"minitvm-{os.getpid()}-{number}" for number in (1, 2)]
    bridge = f"mtvm{os.getpid() % 100000}"
    made = []
    try:
        try:
            ip("link", "add", bridge, "type", "bridge")
            made.append(("link", "del", bridge))
            ip("addr", "add", "10.213.7.1/24", "dev", bridge)
            ip("link", "set", bridge, "up")
            for number, name in enumerate(names, 2):
                ip("netns", "add", name)
                made.append(("netns", "del", name))
                ip("link", "add", f"{bridge}{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", f"{bridge}{number}", "master", bridge, "up")
                ip("-n", name, "addr", "add", f"10.213.7.{number}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this machine makes no network namespaces: {getattr(error, 'stderr', error)!r}")
        yield names
    finally:
        for words in reversed(made):
            subprocess.run(["ip", *words], check=False, capture_output=True)


@pytest.mark.full  # a farm of its own
def test_hosts_of_a_network_work_and_one_whose_cable_is_pulled_loses_nothing(hosts: list[str], tmp_path: Path) -> None:
    with boards(tmp_path, host="10.213.7.1") as farm:
        workers = [farm.start_worker(prefix=["ip", "netns", "exec", name]) for name in hosts]
        with Farm(farm.address, key=farm.key) as client:
            found, who = answers(client, asked(0.2, 6))
            assert found == right(6) and len(who) == 2

            def pull() -> None:
                subprocess.run(["ip", "-n", hosts[0], "link", "set", "eth0", "down"], check=True)
                time.sleep(0.2)
                farm.kill(workers[0])

            cable = threading.Timer(0.5, pull)
            cable.start()
            client_results = dict(client.run(ECHO, asked(0.3, 8)))
            cable.join()
        assert sorted(client_results) == list(range(8))
