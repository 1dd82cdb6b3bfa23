"""The database: nothing is lost, nothing is there twice, and a file that is not a database is left as it is."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import ArtifactError, InputError, MissingExtra
from minitvm.records import Record
from minitvm.records.database import SCHEMA, Database, default_url, file_of
from minitvm.records.record import AT_THE_END, IN_NETWORK

from .drawing import records

MANY = settings(max_examples=15)


def record(number: int = 0, **parts: object) -> Record:
    values: dict[str, object] = {"seconds": (1e-3,), "when": float(number), **parts}
    return Record(task="t", target="k", machine="cpu", name="n", rule="r", **values)  # type: ignore[arg-type]


# -- both databases ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL of this test alone, on a socket in a temporary folder; its URL."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
    if not folders or not (folders[-1] / "initdb").exists():
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    pytest.importorskip("psycopg")
    home = Path(tempfile.mkdtemp(prefix="mtvm-pg-", dir="/tmp"))  # a socket's path has 107 characters at most
    user = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("runuser") is None:
            pytest.skip("PostgreSQL does not run as root, and there is no runuser")
        user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(home, "postgres")
    data, log, run = home / "data", home / "log", {"cwd": home, "capture_output": True, "text": True}
    made = subprocess.run([*user, folders[-1] / "initdb", "-A", "trust", "-U", "tuner", data], **run)  # type: ignore
    if made.returncode:
        pytest.skip(f"PostgreSQL cannot make a database here: {made.stderr.strip().splitlines()[-1]}")
    options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off"
    control = [*user, str(folders[-1] / "pg_ctl"), "-D", str(data), "-l", str(log), "-w"]
    subprocess.run([*control, "-o", options, "start"], check=True, cwd=home, stdout=subprocess.DEVNULL)
    try:
        yield f"postgresql+psycopg://tuner@/postgres?host={home}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], cwd=home, stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "records.db")
        return
    import sqlalchemy

    server = request.getfixturevalue("server")
    engine = sqlalchemy.create_engine(server)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS records, about")
    engine.dispose()
    yield server


def test_what_was_added_is_there_once_in_its_order(url: str) -> None:
    first, second = record(1), record(2)
    with Database.open(url) as database:
        assert database.add([first, second, first]) == 2
        assert database.add([second]) == 0
        assert list(database.records()) == [first, second]
        assert database.count() == 2
    with Database.open(url) as database:  # another session
        assert list(database.records("t", "k")) == [first, second]
        assert list(database.records("u")) == [] and list(database.records(target="l")) == []
        assert list(database.records(rules=["r"])) == [first, second] and list(database.records(rules=["s"])) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_any_records_come_back(kind: str, request: pytest.FixtureRequest) -> None:
    where = request.getfixturevalue("server") if kind == "postgresql" else None

    @settings(MANY)
    @given(st.lists(records(), max_size=8, unique_by=lambda one: one.uid))
    def each(some: list[Record]) -> None:
        with tempfile.TemporaryDirectory() as folder, Database.open(where or f"{folder}/records.db") as database:
            before = database.count()
            known = {one.uid for one in database.records()}
            database.add(some)
            assert list(database.records())[before:] == [one for one in some if one.uid not in known]

    each()


def write(url: str, first: int) -> None:
    with Database.open(url) as database:
        for number in range(first, first + 25):
            database.add([record(number)])


def test_several_processes_write_at_once_and_nothing_is_lost(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(url, 100 * number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    with Database.open(url) as database:
        assert sorted(one.when for one in database.records()) == [100 * n + k for n in range(3) for k in range(25)]


def test_the_best_is_the_one_with_the_largest_gain_in_its_last_pair(url: str) -> None:
    def pair(rule: str, seconds: float, when: int, baseline: float = 1.0, **parts: object) -> Record:
        own = record(when, outcome="paired", seconds=(seconds,), baseline=baseline, **parts)
        return replace(own, rule=rule)

    with Database.open(url) as database:
        assert database.best("t", "k") is None
        database.add([pair("untuned", 1.0, 1, untuned=True), record(2, seconds=(0.01,), baseline=1.0)])
        best = database.best("t", "k")
        assert best is not None and best.untuned  # what was measured alone decides nothing
        database.add([pair("lucky", 0.2, 3), pair("good", 0.5, 4)])
        database.add([pair("slow machine", 2.0, 5, baseline=6.0)])
        best = database.best("t", "k")
        assert best is not None and best.rule == "lucky"
        database.add([pair("lucky", 0.9, 6)])  # measured again: it was luck
        best = database.best("t", "k")
        assert best is not None and best.rule == "slow machine"
        assert database.best("t", "other target") is None


def test_a_task_that_was_measured_in_a_network_has_its_best_there(url: str) -> None:
    def pair(rule: str, seconds: float, when: int, caches: str = "") -> Record:
        return replace(record(when, outcome="paired", seconds=(seconds,), baseline=1.0), rule=rule, caches=caches)

    with Database.open(url) as database:
        database.add([pair("alone", 0.2, 1), pair("both", 0.5, 2), pair("both", 0.8, 3, IN_NETWORK)])
        database.add([pair("both", 0.4, 4)])  # measured alone again, which changes nothing
        best = database.best("t", "k")
        assert best is not None and (best.rule, best.time) == ("both", 0.8)


@pytest.mark.parametrize("place", [f"warm{AT_THE_END}", IN_NETWORK])
def test_what_won_on_the_way_does_not_count_where_the_end_was_measured(url: str, place: str) -> None:
    def pair(rule: str, gain: float, when: int, caches: str) -> Record:
        return replace(record(when, outcome="paired", seconds=(1.0,), baseline=gain), rule=rule, caches=caches)

    with Database.open(url) as database:
        database.add([pair("lucky", 3.0, 1, "warm"), pair("sure", 2.0, 2, "warm"), pair("sure", 1.5, 3, place)])
        database.add([pair("lucky", 3.0, 4, "warm")])
        best = database.best("t", "k")
        assert best is not None and (best.rule, best.gain) == ("sure", 1.5)
        database.add([pair("lucky", 0.9, 5, IN_NETWORK)])
        best = database.best("t", "k")
        assert best is not None and best.gain == (0.9 if place != IN_NETWORK else 1.5)


def test_export_import_and_merge_bring_every_record_once(url: str, tmp_path: Path) -> None:
    lines = tmp_path / "records.jsonl"
    some = [record(number) for number in range(450)]
    with Database.open(url) as database, Database.open(str(tmp_path / "other.db")) as other:
        database.add(some)
        assert database.export(lines) == 450
        assert len(lines.read_text().splitlines()) == 450
        other.add(some[:100])
        assert other.import_from(lines) == 350
        assert other.import_from(lines) == 0
        other.add([record(1000)])
        assert database.merge(other) == 1
        assert {one.uid for one in database.records()} == {one.uid for one in other.records()}


# -- what is not a database, or not one of ours ------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    path.write_bytes(b"these are my notes\n" * 100)
    before = path.read_bytes()
    with pytest.raises(ArtifactError) as caught:
        Database.open(path)
    assert path.read_bytes() == before
    assert str(caught.value) == (
        f"{path} is damaged, or is not a database; it is left as it is\n"
        "  wanted: a database of records\n"
        "  found:  file is not a database\n"
        f"  try:    sqlite3 {path} .recover | sqlite3 NEW.db saves what is intact\n"
        "          another database, with --db or MINITVM_RECORDS"
    )


def test_a_damaged_database_is_reported_wherever_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with Database.open(path) as database:
        database.add(record(number) for number in range(400))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096, 7):
        damaged = bytearray(whole)
        damaged[page * 4096 : page * 4096 + 64] = b"\xff" * 64
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match="is damaged, or is not a database; it is left as it is"):
            Database.open(path)
        assert path.read_bytes() == bytes(damaged)


def test_a_newer_schema_is_refused(url: str) -> None:
    import sqlalchemy

    with Database.open(url) as database:
        table = sqlalchemy.text(f"UPDATE about SET value = '{SCHEMA + 1}' WHERE name = 'schema'")
        with database._engine.begin() as connection:
            connection.execute(table)
    with pytest.raises(ArtifactError) as caught:
        Database.open(url)
    assert str(caught.value) == (
        f"{url} is of a newer schema than this minitvm\n  wanted: schema {SCHEMA}\n  found:  schema {SCHEMA + 1}\n"
        "  try:    a newer minitvm; or another database, with --db"
    )


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    with pytest.raises(ArtifactError, match=r"music\.db is a database of something else: it has the tables songs"):
        Database.open(path)
    with sqlite3.connect(path) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["songs"]
    connection.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me@here/records", "mysql"),
        ("nonsense://x", "nonsense://x is not a database\n  wanted: a path, sqlite:///PATH, or postgresql"),
        ("/", "/ is a folder, wanted the file of a database"),
        ("/proc/none/records.db", "/proc/none cannot be made: No such file or directory"),
        ("postgresql+psycopg://me@127.0.0.1:1/none", "cannot be opened: .*connection"),
    ],
)
def test_a_database_that_cannot_be_had_is_one_message(url: str, message: str) -> None:
    with pytest.raises((InputError, MissingExtra), match=message):
        Database.open(url)


def test_a_line_that_is_not_a_record_is_named_and_nothing_is_added(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(record(1).to_json() + "\n\nnonsense\n")
    with Database.open(tmp_path / "records.db") as database:
        with pytest.raises(
            InputError, match=re.escape(f"{lines}, line 3: not a record: wanted a line of JSON, found 'nonsense'")
        ):
            database.import_from(lines)
        assert database.count() == 0
        with pytest.raises(InputError, match="none cannot be read: No such file or directory"):
            database.import_from(tmp_path / "none")
        with pytest.raises(InputError, match="no_folder/x cannot be written: No such file or directory"):
            database.export(tmp_path / "no_folder" / "x")


def test_a_full_disk_is_one_message_and_what_was_there_stays(tmp_path: Path) -> None:
    with Database.open(tmp_path / "records.db") as database:
        database.add([record(1)])
        with database._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        listen(database, f"PRAGMA max_page_count={pages}")
        with pytest.raises(InputError, match=r"records\.db cannot be written: database or disk is full"):
            database.add(record(number, message="x" * 5000) for number in range(2, 200))
        assert list(database.records()) == [record(1)]


def listen(database: Database, statement: str) -> None:
    from sqlalchemy import event

    event.listen(database._engine, "connect", lambda connection, _: connection.execute(statement))


KILLED = """
import sys, time
sys.path.insert(0, {root!r})
from tests.records.test_database import record
from minitvm.records.database import Database
with Database.open({path!r}) as database:
    for number in range(10000):
        database.add([record(number)])
        print(number, flush=True)
"""


def test_what_was_added_survives_a_kill(tmp_path: Path) -> None:
    path, root = tmp_path / "records.db", str(Path(__file__).resolve().parents[2])
    code = KILLED.format(root=root, path=str(path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while not child.stdout.readline().startswith("20"):
        pass
    time.sleep(0.013)
    child.send_signal(signal.SIGKILL)
    said = [int(line) for line in child.stdout.read().split()]
    child.stdout.close()
    child.wait()
    last = max(said, default=20)
    with Database.open(path) as database:
        assert [one.when for one in database.records()][: last + 1] == list(range(last + 1))


def test_where_records_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_RECORDS", "/tmp/here.db")
    assert default_url() == "/tmp/here.db"
    monkeypatch.delenv("MINITVM_RECORDS")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_url() == "/data/minitvm/records.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_url() == "/home/me/.local/share/minitvm/records.db"
    assert file_of("sqlite:////a/b.db") == Path("/a/b.db") and file_of("a.db") == Path("a.db")
    assert file_of("postgresql://x/y") is None


def test_without_sqlalchemy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtra, match=r"SQLAlchemy is not installed: run  pip install 'minitvm\[tune\]'"):
        Database.open("/tmp/none.db")
