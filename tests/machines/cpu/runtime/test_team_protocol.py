"""The executor's text under all interleavings of a small team.

The text that is compiled for the CPU is Python as well. Here each thread runs it as a generator that stops before each
access of shared words, and a search tries every order in which the threads can go on, from every state. So it covers
the orders in which the system stops a thread at any place and for any time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeAlias

import numpy as np
import pytest

from minitvm.executable.alignment import address
from minitvm.machines.cpu.runtime import executor
from minitvm.machines.cpu.runtime.executor import (
    ASLEEP,
    BARRIER,
    ENDED,
    GATE,
    KERNEL,
    LOCK,
    LOOP_BEGIN,
    LOOP_HEAD,
    LOOP_NEXT,
    OPERATION,
    OWN,
    PARALLEL,
    PARKED,
    PHASE_SHIFT,
    PITCH,
    PROGRAM,
    REST,
    SEQUENTIAL,
    SPIN,
    START,
    STEP_WORDS,
    TAKEN,
    WORKER,
    WORKER_WORDS,
    YIELD,
)
from minitvm.machines.cpu.runtime.step_table import StepTable, step_table

_ACCESSES = {
    "atomic_load", "atomic_store", "atomic_add", "atomic_swap_if", "call_address", "lock_acquire", "lock_release",
}  # fmt: skip
_STATE = 1 << 20  # the address of the state table
_PATIENCE = 1  # turns before a thread helps
_TURNS = {"turns": 1, "waited": 2}  # locals that count turns, and numbers beyond which they make no difference
_EVER = 10**9  # turns
# Locals that are used for the next access at most, of whose arguments they are part, and what a stamp is about.
_DEAD = {"gate", "count", "last", "parts", "share", "helped"}

_FIXED = {str(SPIN), str(YIELD), f"mine + {LOCK}", f"worker + {LOCK}"}  # words of the state table that do not change

Piece = tuple[int, int, int]  # kernel, share, of how many
Body: TypeAlias = "GeneratorType[Any, Any, None]"


class _Stops(ast.NodeTransformer):
    """Makes each access of shared words a `yield`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        return self._stop(name, node.args) if name in _ACCESSES else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return self._stop("read", [node.slice]) if self._is_of_state(node) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        (target,) = node.targets
        if not self._is_of_state(target):
            return self.generic_visit(node)
        assert isinstance(target, ast.Subscript)
        return ast.Expr(self._stop("write", [self.visit(target.slice), self.visit(node.value)]))

    @staticmethod
    def _is_of_state(node: ast.AST) -> bool:
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id != "state":
            return False
        return ast.unparse(node.slice) not in _FIXED

    @staticmethod
    def _stop(name: str, args: Iterable[ast.expr]) -> ast.expr:
        return ast.Yield(ast.Tuple([ast.Constant(name), *args], ast.Load()))


def threads_text(text: str) -> Callable[[_Team, int], Body]:
    """The executor as a generator function of a team and a thread's number."""
    module = ast.parse(text)
    module.body = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    code = compile(ast.fix_missing_locations(_Stops().visit(module)), "executor", "exec")

    def start(team: _Team, thread: int) -> Body:
        def pointer(place: int) -> _Pointer:
            return _Pointer(team, place)

        names: dict[str, Any] = {"pointer_i64": pointer, "pointer_u8": pointer}
        names["pause"] = names["yield_core"] = lambda: None
        names["clock_ns"] = lambda _: team.now
        exec(code, names)
        body: Body = names[executor.ENTRY](pointer(_STATE), thread, team.threads)
        return body

    return start


class _Pointer:
    def __init__(self, team: _Team, place: int) -> None:
        self.team, self.place = team, place

    def __getitem__(self, i: int) -> int:
        self.team.check(self.place + 8 * i)
        return self.team.words[self.place + 8 * i]

    def __setitem__(self, i: int, value: int) -> None:
        self.team.check(self.place + 8 * i)
        self.team.words[self.place + 8 * i] = value


@dataclass
class _Thread:
    body: Body | None
    stop: Any  # the access that it has stopped before; None: it has ended


class _Run:
    """A step table, what it must run in each phase, and arrays that its steps use."""

    def __init__(self, rows: Sequence[Any], threads: int, *arrays: np.ndarray[Any, Any]) -> None:
        self.table: StepTable = step_table(rows, threads)
        self.threads = threads
        self.arrays = arrays
        self.phases = list(self._phases())
        words = (self.table.words.ravel(), self.table.taken, *arrays)
        self.words = {address(array) + 8 * i: int(word) for array in words for i, word in enumerate(array)}
        steps = self.table.words[self.table.words[:, OPERATION] == PARALLEL]
        self.changing = [int(row[TAKEN] + 8 * t * row[PITCH]) for row in steps for t in range(threads)]
        self.changing += [address(array) + 8 * i for array in arrays for i in range(len(array))]

    def _phases(self) -> Iterable[set[Piece]]:
        """A barrier ends a phase if it has parallel steps."""
        words = self.table.words
        at, phase, parallel, number = 0, set(), False, 0
        while True:
            row = words[at]
            at += 1
            if row[OPERATION] == SEQUENTIAL:
                phase.add((int(row[KERNEL]), 0, 1))
            elif row[OPERATION] == PARALLEL:
                parallel = True
                pieces = int(row[OWN])
                for piece in range(pieces):
                    parts = 1 << min(piece + 1, pieces - 1)
                    share = parts - 1 if piece == pieces - 1 else parts - 2
                    phase |= {(int(row[KERNEL]), parts * t + share, parts * self.threads) for t in range(self.threads)}
            elif row[OPERATION] == LOOP_BEGIN:
                number = 0
            elif row[OPERATION] == LOOP_NEXT:
                number, at = number + 1, int(row[OWN]) // STEP_WORDS
            elif row[OPERATION] == LOOP_HEAD:
                if number == int(self.arrays[0][1]):
                    at = int(row[OWN]) // STEP_WORDS
            else:
                if parallel:
                    yield phase
                    phase, parallel = set(), False
                if row[OPERATION] != BARRIER:
                    assert not phase, "end a table of these tests with a parallel step"
                    return


class _Team:
    """A team in one state: its memory, and where each thread is. It goes on by `step`."""

    def __init__(
        self, start: Callable[[_Team, int], Body], threads: int, runs: Sequence[_Run], rests: bool, parks: bool
    ) -> None:
        self.start, self.threads, self.runs = start, threads, runs
        self.words = {_STATE + 8 * i: 0 for i in range(WORKER + WORKER_WORDS * threads)}
        self.words[_STATE + 8 * GATE] = 1 << PHASE_SHIFT
        self.words[_STATE + 8 * REST] = 1 if rests else 0
        self.words[_STATE + 8 * SPIN] = 0 if parks else _EVER
        for t in range(threads):
            self.words[_STATE + 8 * (WORKER + WORKER_WORDS * t + LOCK)] = t
        self.owners: dict[int, _Run] = {}  # of words that only a run's threads may touch
        for run in runs:
            self.words.update(run.words)
            self.owners.update(dict.fromkeys(run.words, run))
        flags = [WORKER + WORKER_WORDS * t + PARKED for t in range(threads)]
        self.changing = [_STATE + 8 * i for i in (GATE, PROGRAM, START, START + 1, ASLEEP, REST, *flags)]
        self.changing += [place for run in runs for place in run.changing]
        self.locks = [0] * threads  # releases that no thread has used
        self.number, self.running = -1, False
        self.phase, self.done = 0, 0  # the phase that `begun` is about; how many phases of this run are done
        self.begun: set[Piece] = set()
        self.active: set[Piece] = set()
        self.inside: set[int] = set()  # workers that have joined the phase
        self.thread = 0  # the one that takes a step
        self.now = 0  # nanoseconds
        self.all = [_Thread(None, ("begin",))]
        for t in range(1, threads):
            body = start(self, t)
            self.all.append(_Thread(body, next(body)))

    @property
    def run(self) -> _Run:
        return self.runs[self.number]

    def check(self, place: int) -> None:
        assert place in self.words, "no table is used"
        owner = self.owners.get(place)
        if owner is not None:
            assert self.running, "a table is used after the call has returned"
            assert owner is self.run, "the table of another run is used"
            assert self.thread in self.inside or self.thread == 0, "a worker that is not inside uses a table"

    # -- steps

    def movable(self) -> list[int]:
        return [t for t, one in enumerate(self.all) if one.stop and (one.stop[0] != "lock_acquire" or self.locks[t])]

    def step(self, thread: int) -> None:
        """Let a thread make its access, and go on until the next one."""
        self.thread = thread
        one = self.all[thread]
        name, *args = one.stop
        if name in ("begin", "end", "call_address"):
            one.stop = getattr(self, f"_{name}")(*args)
            return
        assert one.body is not None
        try:
            one.stop = one.body.send(getattr(self, f"_{name}")(*args))
        except StopIteration:
            one.body = one.stop = None
            if thread == 0:
                self._returned()

    def _begin(self) -> Any:
        """Python's part of a call."""
        self.number, self.running, self.done = self.number + 1, True, 0
        self.words[_STATE + 8 * PROGRAM] = self.run.table.address
        self.all[0].body = self.start(self, 0)
        return next(self.all[0].body)

    def _end(self) -> None:
        """Python ends the workers."""
        self.words[_STATE + 8 * GATE] = ENDED
        self.locks = [n + 1 for n in self.locks]

    def _call_address(self, kernel: int, _args: int, share: int, parts: int) -> Any:
        piece = kernel, share, parts
        assert self.running, "a piece begins after the call has returned"
        phase = self.words[_STATE + 8 * GATE] >> PHASE_SHIFT
        if phase != self.phase:
            self._phase_is_done()
            self.phase = phase
        assert piece not in self.begun, f"piece {piece} runs twice"
        self.begun.add(piece)
        self.active.add(piece)
        return ("return", piece)

    def _return(self, piece: Piece) -> None:
        self.active.remove(piece)

    def _phase_is_done(self) -> None:
        if self.begun:
            assert not self.active, f"{self.active} still run when the next phase begins"
            assert self.begun == self.run.phases[self.done], "a phase ends before all of its pieces have run"
            self.done, self.begun = self.done + 1, set()

    def _returned(self) -> None:
        self._phase_is_done()
        assert self.done == len(self.run.phases), "phases are missing"
        assert not self.inside, "a worker is inside after the call"
        self.running = False
        self.all[0].stop = ("begin",) if self.number + 1 < len(self.runs) else ("end",)

    # -- accesses

    def _read(self, i: int) -> int:
        return self.words[_STATE + 8 * i]

    def _write(self, i: int, value: int) -> None:
        self.words[_STATE + 8 * i] = value

    def _atomic_load(self, words: _Pointer, i: int) -> int:
        return words[i]

    def _atomic_store(self, words: _Pointer, i: int, value: int) -> None:
        words[i] = value

    def _atomic_add(self, words: _Pointer, i: int, value: int) -> int:
        words[i] += value
        if words.place + 8 * i == _STATE + 8 * GATE:
            assert self.thread in self.inside, "the gate is changed by a worker that is not inside"
            self.inside.remove(self.thread)
        return words[i] - value

    def _atomic_swap_if(self, words: _Pointer, i: int, old: int, new: int) -> int:
        if words[i] != old:
            return 0
        words[i] = new
        if words.place + 8 * i == _STATE + 8 * GATE and self.thread > 0:
            self.inside.add(self.thread)
        return 1

    def _lock_acquire(self, lock: int) -> None:
        self.locks[lock] -= 1

    def _lock_release(self, lock: int) -> None:
        self.locks[lock] += 1
        assert self.locks[lock] <= 1, "a worker is woken twice"

    def key(self) -> Any:
        """Everything on which the future depends."""
        threads = []
        for one in self.all:
            frame = None if one.body is None else one.body.gi_frame
            local: list[Any] = [None if frame is None else frame.f_lasti]
            for name, value in () if frame is None else frame.f_locals.items():
                if name not in _DEAD:
                    local += name, min(value, _TURNS[name]) if name in _TURNS else _plain(value)
            threads.append((tuple(local), one.stop and tuple(map(_plain, one.stop))))
        words = tuple(self.words[place] for place in self.changing)
        ghosts = self.number, self.running, self.phase, self.done, frozenset(self.begun), frozenset(self.active)
        return hash((tuple(threads), words, tuple(self.locks), ghosts))


def _plain(value: Any) -> Any:
    return value.place if isinstance(value, _Pointer) else value


def explore(text: str, threads: int, runs: Sequence[_Run], rests: bool = False, parks: bool = True) -> int:
    """Try all orders; returns the number of states. Each of them must satisfy `_Team`'s assertions.

    Also, from each state the caller's call must return although no thread goes on but the caller and those inside.
    """
    start = threads_text(text)
    onward: dict[Any, Any] = {}  # the next state if nobody goes on but who must
    tried: dict[Any, list[int]] = {}  # threads with which to go on, by state
    path: list[tuple[Any, int]] = []
    team = _Team(start, threads, runs, rests, parks)
    state = team.key()
    while True:
        if state not in tried:
            tried[state] = team.movable()
            assert tried[state] or all(one.stop is None for one in team.all), "no thread can go on"
        if not tried[state]:
            while path and not tried[path[-1][0]]:
                path.pop()
            if not path:
                break
            state = path.pop()[0]
            team = _Team(start, threads, runs, rests, parks)
            for _, thread in path:
                team.step(thread)
        thread = tried[state].pop()
        needed = min(team.inside, default=0)
        path.append((state, thread))
        team.step(thread)
        after = team.key()
        if thread == needed:
            onward[state] = after if team.all[0].stop is not None else None
        state = after
    _ends(onward)
    return len(tried)


def _ends(onward: dict[Any, Any]) -> None:
    """Nobody waits for a worker that is not inside: following the steps of the others leads to the end."""
    good: set[Any] = {None}
    for state in onward:
        way: dict[Any, None] = {}
        while state not in good and state in onward:
            assert state not in way, "the caller waits for a worker that is not inside"
            way[state] = None
            state = onward[state]
        good |= way.keys()


def parallel(kernel: int, tasks: int = 1) -> Any:
    return (PARALLEL, kernel, 0, tasks)


STOP: Any = (BARRIER, 0, 0, 0)


def two_phases(threads: int, tasks: int = 1) -> _Run:
    return _Run([parallel(1, tasks), STOP, (SEQUENTIAL, 2, 0, 0), parallel(3)], threads)


def branches(threads: int) -> _Run:
    """A step of several pieces, and another one that does not depend on it."""
    return _Run([(SEQUENTIAL, 1, 0, 0), parallel(2, 4 * threads), parallel(3, 2 * threads)], threads)


def loop(threads: int, times: int = 2) -> _Run:
    """Phases in a loop; the first array has its number and its limit."""
    words = np.array([0, times], np.int64)
    args = np.array([address(words), address(words) + 8, 0, -1, 0], np.int64)
    place = address(args)
    head, behind = 2 * STEP_WORDS, 9 * STEP_WORDS
    rows = [
        STOP, (LOOP_BEGIN, 0, place, 0), STOP, (LOOP_HEAD, 0, place, behind), parallel(1), STOP, parallel(2),
        STOP, (LOOP_NEXT, 0, place, head), parallel(3),
    ]  # fmt: skip
    return _Run(rows, threads, words, args)


EVERY_ORDER: dict[str, Callable[[], list[_Run]]] = {
    "a phase": lambda: [_Run([parallel(1)], 2)],
    "a call after another": lambda: [_Run([parallel(1)], 2), _Run([parallel(2)], 2)],
    "two phases": lambda: [two_phases(2)],
    "the same call again": lambda: [two_phases(2)] * 2,
}


@pytest.mark.parametrize("name", ["a phase", "a call after another", "two phases"])
def test_every_order_of_two_threads(name: str) -> None:
    """Of workers that never sleep; and one phase with those that do."""
    assert explore(executor.source(_PATIENCE), 2, EVERY_ORDER[name](), parks=name == "a phase") > 1000


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "parks"), [("a call after another", True), ("two phases", True), ("the same call again", False)]
)
def test_every_order_of_longer_runs(name: str, parks: bool) -> None:
    assert explore(executor.source(_PATIENCE), 2, EVERY_ORDER[name](), parks=parks) > 10_000


def test_workers_stay_away_while_the_team_rests() -> None:
    """The clock is at 0 and the rest lasts until 1: workers only fall asleep."""
    assert explore(executor.source(_PATIENCE), 2, [two_phases(2)], rests=True) < 1000


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_random_orders(threads: int) -> None:
    """Longer tables, more threads; a thread often goes on for a while, as on a busy machine."""
    start = threads_text(executor.source(_PATIENCE))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        runs = [(two_phases(threads, 4 * threads), branches(threads), loop(threads))[i] for i in rng.integers(0, 3, 2)]
        team = _Team(start, threads, runs, rests=False, parks=True)
        thread = 0
        for _ in range(20_000):
            ready = team.movable()
            if not ready:
                break
            if thread not in ready or rng.random() < 0.2:
                thread = int(rng.choice(ready))
            team.step(thread)
        assert all(one.stop is None for one in team.all)


@pytest.mark.parametrize("waits", [True, False])
def test_a_team_rests_after_it_has_waited_in_vain(waits: bool) -> None:
    """The system stops the worker in the middle of a piece, or only the caller, who does not wait then."""
    team = _Team(threads_text(executor.source(_PATIENCE, long_wait=2)), 2, [_Run([parallel(1)], 2)] * 2, False, False)

    def go_on(thread: int, until: Callable[[_Thread], bool]) -> None:
        for _ in range(100):
            if until(team.all[thread]):
                return
            team.step(thread)
        raise AssertionError("it does not come so far")

    def in_a_piece(one: _Thread) -> bool:
        return one.stop[0] == "return"

    def waits_long(one: _Thread) -> bool:
        frame = one.body and one.body.gi_frame
        return frame is not None and frame.f_locals.get("waited", 0) >= 2

    go_on(0, in_a_piece)
    go_on(1, in_a_piece)
    team.now = 1000
    if waits:
        go_on(0, waits_long)
        team.now = 6000
    go_on(1, lambda _: not team.inside)
    go_on(0, lambda one: one.stop == ("begin",))
    rest = team.words[_STATE + 8 * REST]
    assert rest == (6000 + 8 * 5000 if waits else 0)
    team.now = rest - 1 if waits else 7000
    go_on(0, in_a_piece)
    for _ in range(30):
        if team.inside:
            break
        team.step(1)
    assert bool(team.inside) == (not waits)


# (text, its replacement, a program that shows the fault, how)
_FAULTS = {
    "a worker joins when no phase is open": (
        "if gate & 511 > 0 and", "if gate > 0 and", "a phase", "no table is used",
    ),
    "a worker joins without comparing": (
        f"if atomic_swap_if(state, {GATE}, gate, gate + 1) == 1", f"if atomic_add(state, {GATE}, 1) >= 0",
        "a call after another", "the gate is changed by",
    ),
    "a call ends with a worker inside": (
        "alone = gate & 511 <= 1", "alone = gate & 511 <= 2", "two phases", "inside after the call",
    ),
    "a phase ends without help": (
        "gate >> 9 & 511 < threads - 1", "gate >> 9 & 511 < 0", "a phase", "a phase ends before",
    ),
    "one place for where phases begin": (f"{START} + (", f"{START} + 0 * (", "two phases", "a phase ends before"),
    "pieces are counted without phases": (
        "base = phase << 3", "base = 0", "the same call again", "a phase ends before",
    ),
    "a barrier waits for all threads": (
        "elif alone:", "elif alone and gate >> 9 & 511 == threads - 1:", "a phase", "the caller waits",
    ),
    "a claim without comparing": (
        "if atomic_swap_if(counter, 0, count, base + piece + 1) == 1", "if atomic_add(counter, 0, 1) >= 0",
        "a phase", "runs twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _FAULTS)
def test_faults_are_noticed(name: str) -> None:
    before, after, program, message = _FAULTS[name]
    text = executor.source(_PATIENCE)
    assert before in text
    with pytest.raises(AssertionError, match=message):
        explore(text.replace(before, after), 2, EVERY_ORDER[program](), parks=False)
