"""One measurement of one candidate, as it is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ..errors import InputError, MinitvmError
from ..strategy.candidate import Decision, Knob, checked_knobs
from ..target import Target

# What may come of a candidate. "paired": measured again, its runs in turn with those of another candidate.
OK, PAIRED, WRONG, CRASHED, HUNG, MEMORY, REFUSED = "ok", "paired", "wrong", "crashed", "hung", "memory", "refused"
OUTCOMES = (OK, PAIRED, WRONG, CRASHED, HUNG, MEMORY, REFUSED)
MEASURED = (OK, PAIRED)
IN_NETWORK = "in the network"  # `caches` of a pair whose runs were those of a network's operator, in the network
AT_THE_END = ", at the end"  # and how they end for a pair of what won and the untuned program


_TEXTS = ("task", "target", "machine", "name", "rule", "message", "caches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A candidate of a task, and what came of it.

    `task` is the structural hash of the operator's function, `target` the key of `target_key`, `machine` the target's
    text for people. `outcome` is one of OUTCOMES; `seconds` are those of single runs, `message` says why there are
    none. `compute` and `memory` are predicted cycles of one core. `untuned` says that the decision is what a build
    takes without records; `baseline` is what that takes under the conditions of these runs, in seconds (0: not known).
    `caches` states where a run finds its arguments, `when` is seconds since 1970.
    """

    task: str
    target: str
    machine: str
    name: str
    rule: str
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    outcome: str = OK
    seconds: tuple[float, ...] = ()
    message: str = ""
    compute: float = 0.0
    memory: float = 0.0
    flops: int = 0
    untuned: bool = False
    baseline: float = 0.0
    threads: int = 1
    caches: str = ""
    when: float = 0.0

    def __post_init__(self) -> None:
        """Replace what databases and files do not take in a text: zero bytes and lone surrogates.

        Names come from models, and messages from processes that crashed.
        """
        for name in _TEXTS:
            text = getattr(self, name)
            if not text.isprintable():
                storable = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
                object.__setattr__(self, name, storable)

    @property
    def decision(self) -> Decision:
        """How the function was scheduled."""
        return Decision(self.rule, self.knobs)

    @property
    def time(self) -> float:
        """Seconds of the fastest run, for what else a machine does only makes runs slower; infinity where none was
        measured."""
        return min(self.seconds) if self.outcome in MEASURED and self.seconds else float("inf")

    @property
    def gain(self) -> float:
        """How many times as fast as untuned; 0 where that is not known."""
        return self.baseline / self.time if 0 < self.time < float("inf") else 0.0

    @property
    def authority(self) -> int:
        """How much the pair counts: 2 if measured in the network, 1 at the end, else 0. Only a task's highest count."""
        return 2 if self.caches == IN_NETWORK else 1 if self.caches.endswith(AT_THE_END) else 0

    @property
    def gflops(self) -> float:
        """Billions of float operations a second; 0 where nothing was measured."""
        return self.flops / self.time / 1e9 if 0 < self.time < float("inf") else 0.0

    @property
    def uid(self) -> str:
        """A hash of all of it: one measurement that came by two ways is kept once."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps({**_plain(self), "knobs": dict(self.knobs)}, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Record:
        """The inverse of `to_json`; raises `InputError` for anything else."""
        try:
            data = json.loads(text)
        except ValueError:
            raise InputError(f"not a record: wanted a line of JSON, found {text[:60]!r}") from None
        return Record.from_data(data)

    @staticmethod
    def from_data(data: Any) -> Record:
        """A record of plain data; raises `InputError` for what is not one, and says which part."""
        if not isinstance(data, dict):
            raise InputError(f"not a record: wanted an object, found {str(data)[:60]!r}")
        known = {f.name: f for f in fields(Record)}
        strange = [name for name in data if name not in known]
        missing = [name for name in ("task", "target", "machine", "name", "rule") if name not in data]
        if strange or missing:
            what = f"no {missing[0]}" if missing else f"{strange[0]}, which is not a part of one"
            raise InputError(f"not a record: found {what}")
        try:
            values = {name: _READ.get(name, str)(value) for name, value in data.items()}
        except (TypeError, ValueError, MinitvmError) as error:
            raise InputError(f"not a record: {error}") from None
        if values.get("outcome", OK) not in OUTCOMES:
            raise InputError(f"not a record: outcome {values['outcome']!r}; wanted one of {', '.join(OUTCOMES)}")
        return Record(**values)


def _seconds(value: Any) -> tuple[float, ...]:
    return tuple(float(one) for one in value)


_READ: dict[str, Any] = {
    "knobs": checked_knobs, "seconds": _seconds, "compute": float, "memory": float, "flops": int, "untuned": bool,
    "baseline": float, "threads": int, "when": float,
}  # fmt: skip


def _plain(record: Record) -> dict[str, Any]:
    names = [f.name for f in fields(record) if f.name != "knobs"]
    return {name: getattr(record, name) for name in names}


def undisturbed(records: Sequence[Record]) -> list[float]:
    """Seconds of each, as if the machine had been as fast as when the untuned program of its task was at its fastest.

    What a candidate takes beside the untuned program repeats itself where seconds do not.
    """
    fastest: dict[tuple[str, str], float] = {}
    for record in records:
        if record.gain:
            key = record.task, record.target
            fastest[key] = min(record.baseline, fastest.get(key, float("inf")))
    return [fastest[one.task, one.target] / one.gain if one.gain else one.time for one in records]


def target_key(target: Target) -> str:
    """What two targets share if the same code is generated for them: a hash."""
    return hashlib.sha256(target.code_identity().encode()).hexdigest()[:32]
