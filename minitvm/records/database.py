"""Records in a database: SQLite by default, PostgreSQL by URL, by the same code (SQLAlchemy Core).

    with Database.open("records.db") as database:               # or "postgresql+psycopg://user@host/name"
        database.add([record])
        best = database.best(record.task, record.target)

A record is never changed and never removed, so processes that write at once cannot disagree; `uid` keeps what comes
twice from being there twice. SQLite runs in WAL mode: readers do not wait, and what was added survives the process.
The table `about` holds the version of the schema. A file that is not a database, or is damaged, is reported and left
as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import ArtifactError, InputError, MissingExtra, missing_extra, report
from .record import PAIRED, Record

SCHEMA = 1
VARIABLE = "MINITVM_RECORDS"
_WAIT = 60  # seconds for another process that writes
_AT_ONCE = 200  # records an insert: SQLite bounds the number of its parameters


def default_url() -> str:
    """MINITVM_RECORDS, or records.db in $XDG_DATA_HOME/minitvm (~/.local/share/minitvm); not created by asking."""
    setting = os.environ.get(VARIABLE)
    if setting:
        return setting
    base = os.environ.get("XDG_DATA_HOME")
    return str((Path(base) if base else Path.home() / ".local" / "share") / "minitvm" / "records.db")


def file_of(url: str) -> Path | None:
    """The file of a path or an SQLite URL; None for a database that is not a file."""
    if "://" not in url:
        return Path(url)
    return Path(url.split(":///", 1)[1]) if url.startswith("sqlite:///") and url != "sqlite:///" else None


class Database:
    """Records. `Database.open` makes one; it may be shared by threads."""

    def __init__(self, url: str, engine: Any, table: Any) -> None:
        self.url, self._engine, self._table = url, engine, table

    @classmethod
    def open(cls, url: str | os.PathLike[str] | None = None) -> Self:
        """The database of a path or URL, made if it is not there; without one the user's own (`default_url`).

        Raises `MissingExtra` without SQLAlchemy or the database's driver, `ArtifactError` for a file that is not a
        database or is damaged (it is left as it is), or of a newer schema, and `InputError` where none can be reached.
        """
        text = default_url() if url is None else os.fspath(url)
        sql = _sqlalchemy()
        engine = _engine(sql, text)
        metadata = sql.MetaData()
        about = sql.Table(
            "about", metadata, sql.Column("name", sql.String(40), primary_key=True), sql.Column("value", sql.Text)
        )
        table = _records(sql, metadata)
        database = cls(text, engine, table)
        with _reported(sql, text, "opened"):
            try:
                database._prepare(sql, metadata, about)
            except BaseException:
                engine.dispose()
                raise
        return database

    def _prepare(self, sql: Any, metadata: Any, about: Any) -> None:
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                fault = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if fault != "ok":
                    raise _damaged(self.url, str(fault))
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            names = set(sql.inspect(connection).get_table_names())
        if names and "about" not in names:
            raise ArtifactError(
                f"{self.url} is a database of something else: it has the tables {', '.join(sorted(names))}\n"
                "  wanted: a database of records, or an empty one"
            )
        insert = self._insert(about).values(name="schema", value=str(SCHEMA)).on_conflict_do_nothing()
        for attempt in range(len(metadata.tables) + 1):
            try:
                metadata.create_all(self._engine)
                break
            except (
                sql.exc.DatabaseError
            ):  # two processes made a table at once, each at most once: the other's is as good
                if attempt == len(metadata.tables):
                    raise
        with self._engine.begin() as connection:
            connection.execute(insert)
            version = connection.execute(sql.select(about.c.value).where(about.c.name == "schema")).scalar()
        if not str(version).isdigit() or int(version) > SCHEMA:
            raise ArtifactError(
                report(
                    f"{self.url} is of a newer schema than this minitvm",
                    wanted=f"schema {SCHEMA}",
                    found=f"schema {version}",
                    tries=("a newer minitvm; or another database, with --db",),
                )
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def add(self, records: Iterable[Record]) -> int:
        """Keep records; returns how many were new. All of a call are kept, or none."""
        rows = {record.uid: _row(record) for record in records}
        new = 0
        with _reported(_sqlalchemy(), self.url, "written"), self._engine.begin() as connection:
            for part in _parts(list(rows.values())):
                insert = self._insert(self._table).values(part).on_conflict_do_nothing()
                new += len(connection.execute(insert.returning(self._table.c.number)).all())
        return new

    def records(
        self, task: str | None = None, target: str | None = None, rules: Sequence[str] | None = None
    ) -> Iterator[Record]:
        """Records in the order in which they were added: of a task, of a target, of some rules, or all."""
        sql, columns = _sqlalchemy(), self._table.c
        query = sql.select(self._table).order_by(columns.number)
        for column, value in ((columns.task, task), (columns.target, target)):
            query = query if value is None else query.where(column == value)
        if rules is not None:
            query = query.where(columns.rule.in_(list(rules)))
        with _reported(sql, self.url, "read"), self._engine.connect() as connection:
            rows = connection.execute(query).mappings().all()
        for row in rows:
            yield _record(row)

    def count(self) -> int:
        """The number of records."""
        sql = _sqlalchemy()
        with _reported(sql, self.url, "read"), self._engine.connect() as connection:
            return int(connection.execute(sql.select(sql.func.count()).select_from(self._table)).scalar() or 0)

    def best(self, task: str, target: str) -> Record | None:
        """The one that is the most times as fast as untuned, on this target; None if no pair was measured."""
        return self.best_of([task], target).get(task)

    def best_of(self, tasks: Sequence[str], target: str) -> dict[str, Record]:
        """`best` of several tasks, in one query. Of each decision the last pair counts.

        Of a task only the pairs of the highest authority count: what won alone may lose in a network, and what won
        while the tuner searched may have been lucky.
        """
        sql, columns = _sqlalchemy(), self._table.c
        query = sql.select(self._table).where(columns.target == target, columns.outcome == PAIRED)
        query = query.order_by(columns.number)
        last: dict[tuple[str, int, Any], Record] = {}
        highest: dict[str, int] = {}
        with _reported(sql, self.url, "read"), self._engine.connect() as connection:
            for part in _parts(list(dict.fromkeys(tasks))):
                for row in connection.execute(query.where(columns.task.in_(part))).mappings():
                    record = _record(row)
                    last[record.task, record.authority, record.decision] = record
                    highest[record.task] = max(record.authority, highest.get(record.task, 0))
        best: dict[str, Record] = {}
        for (task, authority, _), record in last.items():
            if authority < highest[task]:
                continue
            if task not in best or record.gain > best[task].gain:
                best[task] = record
        return best

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all records as lines of JSON; returns their number. A file that is there is replaced as a whole."""
        place = Path(path)
        partial = place.with_name(f".{place.name}.{os.getpid()}.tmp")
        number = 0
        try:
            with partial.open("w", encoding="utf-8") as file:
                for record in self.records():
                    file.write(record.to_json() + "\n")
                    number += 1
            os.replace(partial, place)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InputError(f"{place} cannot be written: {error.strerror}") from None
        return number

    def import_from(self, path: str | os.PathLike[str]) -> int:
        """Add the records of a file of JSON lines; returns how many were new.

        Raises `InputError` for a line that is not a record, with its number; then nothing was added.
        """
        place = Path(path)
        try:
            lines = place.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        records = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                records.append(Record.from_json(line))
            except InputError as error:
                raise InputError(f"{place}, line {number}: {error}") from None
        return self.add(records)

    def merge(self, other: Database) -> int:
        """Add the records of another database; returns how many were new."""
        return self.add(other.records())

    def _insert(self, table: Any) -> Any:
        """SQLite and PostgreSQL have `on conflict do nothing` under one name, in a module each."""
        from importlib import import_module

        return import_module(f"sqlalchemy.dialects.{self._engine.dialect.name}").insert(table)


# -- rows -----------------------------------------------------------------------------------------------------------

_TEXT = ("task", "target", "machine", "name", "rule", "outcome", "message", "caches")
_NUMBERS = ("compute", "memory", "baseline", "when")
_WHOLE = ("flops", "threads")


def _records(sql: Any, metadata: Any) -> Any:
    return sql.Table(
        "records",
        metadata,
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("uid", sql.String(32), nullable=False, unique=True),
        *(sql.Column(name, sql.Text, nullable=False) for name in _TEXT),
        *(sql.Column(name, sql.Float(53), nullable=False) for name in _NUMBERS),
        *(sql.Column(name, sql.BigInteger, nullable=False) for name in _WHOLE),
        sql.Column("untuned", sql.Boolean, nullable=False),
        sql.Column("knobs", sql.Text, nullable=False),
        sql.Column("seconds", sql.Text, nullable=False),
        sql.Index("records_of_a_task", "task", "target"),
    )


def _row(record: Record) -> dict[str, Any]:
    same = {name: getattr(record, name) for name in (*_TEXT, *_NUMBERS, *_WHOLE, "untuned")}
    knobs, seconds = json.dumps(dict(record.knobs), sort_keys=True), json.dumps(list(record.seconds))
    return {"uid": record.uid, **same, "knobs": knobs, "seconds": seconds}


def _record(row: Any) -> Record:
    same = {name: row[name] for name in (*_TEXT, *_NUMBERS, *_WHOLE, "untuned")}
    return Record.from_data({**same, "knobs": json.loads(row["knobs"]), "seconds": json.loads(row["seconds"])})


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


# -- engines and their errors ---------------------------------------------------------------------------------------


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise missing_extra("SQLAlchemy", "tune") from None
    return sqlalchemy


def _engine(sql: Any, url: str) -> Any:
    place = file_of(url)
    if place is not None:
        if place.is_dir():
            raise InputError(f"{place} is a folder, wanted the file of a database")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{place.parent} cannot be made: {error.strerror}") from None
        url = f"sqlite:///{place.absolute()}"
    try:
        options = {"timeout": _WAIT} if place is not None else {}
        engine = sql.create_engine(url, connect_args=options, poolclass=sql.pool.NullPool)
    except (sql.exc.ArgumentError, sql.exc.NoSuchModuleError):
        raise InputError(
            f"{url} is not a database\n  wanted: a path, sqlite:///PATH, or postgresql+psycopg://USER@HOST/NAME"
        ) from None
    except ImportError as error:
        raise MissingExtra(f"{error.name} is not installed, which {url.split(':', 1)[0]} needs: "
                           "run  pip install 'minitvm[tune]'") from None  # fmt: skip
    if engine.dialect.name not in ("sqlite", "postgresql"):
        raise InputError(f"a database of {engine.dialect.name}: wanted SQLite or PostgreSQL")
    return engine


class _reported:
    """Turns what a driver raises into one message for a person: damaged, full, not reachable, not writable."""

    def __init__(self, sql: Any, url: str, done: str) -> None:
        self.sql, self.url, self.done = sql, url, done

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, self.sql.exc.DBAPIError):
            return
        text = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        if "not a database" in text or "malformed" in text or "disk image" in text:
            raise _damaged(self.url, text) from None
        raise InputError(f"the database {self.url} cannot be {self.done}: {text}") from None


def _damaged(url: str, fault: str) -> ArtifactError:
    return ArtifactError(
        report(
            f"{url} is damaged, or is not a database; it is left as it is",
            wanted="a database of records",
            found=fault,
            tries=(
                f"sqlite3 {url} .recover | sqlite3 NEW.db saves what is intact",
                "another database, with --db or MINITVM_RECORDS",
            ),
        )
    )
