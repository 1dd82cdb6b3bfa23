"""The search, with a runner that answers from a table: which candidates are tried, what is kept, and what wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.records import Record
from minitvm.records.database import Database
from minitvm.strategy import Decision
from minitvm.tools.cli.tune import summary
from minitvm.tune import network as tuning
from minitvm.tune import search as searching
from minitvm.tune.measure import LATE, Measured
from minitvm.tune.network import Line, Status, tune_tasks
from minitvm.tune.prepare import Checked
from minitvm.tune.search import Options, Search
from minitvm.tune.task import Task
from tests.patience import PATIENCE

from .programs import product, task

Clock = Callable[[Decision], Measured]


class FakeRunner:
    """Answers for what `checked` and `artifacts` below made: an artifact's path is the text of its decision."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock, self.key = folder, clock, b""
        self.limits = tuning.Limits()
        self.ran: list[Decision] = []

    def __enter__(self) -> FakeRunner:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    width = 1

    def architectures(self, target: Any) -> tuple[str, ...]:
        return ()

    def each(self, asked: Any) -> Any:
        for number, one in enumerate(asked):
            yield number, self.run(one.task, one.artifacts, one.expected)

    def run(self, task: Task, paths: list[Path], expected: Path, *rest: Any, **named: Any) -> Measured:
        answers = []
        for path in paths:
            decision = Decision.from_json(path.read_text())
            self.ran.append(decision)
            answers.append(self.clock(decision))
        bad = next((answer for answer in answers if answer.outcome != "ok"), None)
        return bad or Measured("ok", tuple(answer.seconds[0] for answer in answers))


UNTUNED = Decision("contraction", {})


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Compiling is left out: each decision is its own code."""
    return without_compiling(monkeypatch)


def without_compiling(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace what compiles; the result says what is refused, late, and which decisions come to the same code."""
    state: dict[str, Any] = {"refuse": lambda decision: False, "code": lambda decision: decision.to_json()}
    state["late"] = state["not compiled"] = lambda decision: False

    def checked(asked: Any, workers: Any = None, end: float = 0.0) -> list[Checked]:
        results = []
        for one, decision in asked:
            usual = Decision.of(searching.Space(one).yielded[0])
            decision = decision or state.get("untuned", usual)
            if state["late"](decision):
                results.append(Checked(decision, LATE))
            elif state["refuse"](decision):
                results.append(Checked(decision, "refused", "it races"))
            else:
                results.append(
                    Checked(decision, "ok", "", decision.to_json(), state["code"](decision), (1e4, 1e3), {"flops": 1e6})
                )
        return results

    def artifacts(
        asked: Any, key: bytes, workers: Any = None, end: float = 0.0, architectures: Any = None
    ) -> list[str]:
        for _, one, path in asked:
            path.write_text(one.decision.to_json())
        return [LATE if state["not compiled"](one.decision) else "" for _, one, _ in asked]

    for module in (searching, tuning):
        monkeypatch.setattr(module, "checked", checked)
        monkeypatch.setattr(module, "artifacts", artifacts)
    return state


def seconds(value: float) -> Measured:
    return Measured("ok", ((value,) * 8,))


def by_rows(decision: Decision) -> Measured:
    """The more rows, the faster; sketches are slow."""
    rows = decision.knobs.get("rows", 1) if decision.rule == "contraction" else 0.5
    return seconds(1e-3 / float(rows))


def begun(folder: Path, clock: Clock = by_rows, db: str = "records.db", **options: Any) -> Search:
    """A search after its first measurement."""
    one = task(product(64, 64, 8))
    search = Search(one, Database.open(folder / db), FakeRunner(folder, clock), Options(**options))  # type: ignore
    (untuned,) = searching.checked([(one, None)])
    path = folder / "untuned"
    path.write_text(untuned.decision.to_json())
    ((_, measured),) = search.runner.each([search.first(path)])
    search.begin(untuned, path, measured)
    return search


def test_the_untuned_program_is_measured_first_and_is_the_best_until_a_pair_is_won(faked: Any, tmp_path: Path) -> None:
    search = begun(tmp_path)
    assert search.best is not None and search.best.untuned and search.best.gain == 1.0
    rows = search.untuned.knobs["rows"]
    improved = search.step(6)
    better = [d for d in search.runner.ran if d.rule == "contraction" and d.knobs["rows"] > rows]  # type: ignore
    assert bool(better) == (improved > 0) == (not search.best.untuned)
    for record in search.database.records():
        assert record.baseline > 0 and record.caches.startswith("arguments are used again")
    assert {one.outcome for one in search.database.records()} <= {"ok", "paired"}


def test_the_fastest_wins_in_the_end_and_the_database_says_so(faked: Any, tmp_path: Path) -> None:
    search = begun(tmp_path)
    for _ in range(12):
        search.step(6)
    assert search.best is not None
    most = max(d.knobs["rows"] for d in search.seen if d.rule == "contraction")
    assert search.best.knobs["rows"] == most
    assert search.database.best(search.task.key, search.task.target_key) == search.best
    assert search.best.gain == pytest.approx(float(most) / float(search.untuned.knobs["rows"]))


def test_no_candidate_is_tried_twice_and_none_of_the_same_code(faked: Any, tmp_path: Path) -> None:
    faked["code"] = lambda decision: f"{decision.rule} {decision.knobs.get('rows')}"
    search = begun(tmp_path, lambda decision: seconds(1e-3))
    for _ in range(6):
        search.step(6)
    ran = [decision for decision in search.runner.ran if decision != search.untuned]  # type: ignore[attr-defined]
    codes = [faked["code"](decision) for decision in (search.untuned, *ran)]
    assert len(codes) == len(set(codes))
    decisions = [record.decision for record in search.database.records()]
    assert len(decisions) == len(set(decisions))


def test_the_end_of_the_space_is_the_end_of_the_search(faked: Any, tmp_path: Path) -> None:
    search = begun(tmp_path, lambda decision: seconds(1e-3))
    faked["refuse"] = lambda decision: True
    search.step(6)
    assert search.finished and {one.outcome for one in search.database.records()} == {"paired", "refused"}


def test_what_looks_faster_alone_and_is_not_beside_the_best_does_not_win(faked: Any, tmp_path: Path) -> None:
    times: dict[Decision, int] = {}

    def lucky_once(decision: Decision) -> Measured:
        times[decision] = times.get(decision, 0) + 1
        return seconds(0.5e-3 if len(times) > 1 and times[decision] == 1 else 1e-3)

    search = begun(tmp_path, lucky_once)
    first = search.untuned
    search.step(6)
    assert search.best is not None and search.best.decision == first
    paired = [one for one in search.database.records() if one.outcome == "paired" and not one.untuned]
    assert len(paired) == 6 and {one.gain for one in paired} == {1.0}


@pytest.mark.parametrize("outcome", ["wrong", "crashed", "hung", "memory"])
def test_what_goes_wrong_is_recorded_and_never_wins(outcome: str, faked: Any, tmp_path: Path) -> None:
    def clock(decision: Decision) -> Measured:
        first = searching.Space(task(product(64, 64, 8))).yielded[0]
        return seconds(1e-3) if decision == Decision.of(first) else Measured(outcome, (), "because")

    search = begun(tmp_path, clock)
    search.step(4)
    bad = [one for one in search.database.records() if one.outcome == outcome]
    assert len(bad) == 4 and {one.message for one in bad} == {"because"} and all(one.seconds == () for one in bad)
    assert search.best is not None and search.best.untuned


def test_a_task_whose_untuned_program_fails_is_finished(faked: Any, tmp_path: Path) -> None:
    search = begun(tmp_path, lambda decision: Measured("hung", (), "no end after 20 s"))
    assert search.finished and search.best is not None and search.best.outcome == "hung"


def test_the_next_session_goes_on_where_the_last_one_was(faked: Any, tmp_path: Path) -> None:
    first = begun(tmp_path)
    for _ in range(4):
        first.step(6)
    assert first.best is not None and not first.best.untuned
    tried = set(first.seen)
    second = begun(tmp_path)
    assert second.best is not None and second.best.decision == first.best.decision
    assert second.best.gain == pytest.approx(first.best.gain)
    before = len(second.runner.ran)  # type: ignore[attr-defined]
    second.step(6)
    beside = {second.best.decision, first.best.decision, second.untuned}
    assert [d for d in second.runner.ran[before:] if d in tried and d not in beside] == []  # type: ignore


def test_records_of_another_target_are_priors_and_never_the_answer(faked: Any, tmp_path: Path) -> None:
    one = task(product(64, 64, 8))
    other = Record(
        task=one.key, target="another machine", machine="cpu", name="x", rule="contraction", outcome="paired",
        knobs=dict(searching.Space(one).yielded[3].knobs), seconds=(1e-9,), baseline=1.0, compute=1e4,
    )  # fmt: skip
    with Database.open(tmp_path / "records.db") as database:
        database.add([other])
        assert database.best(one.key, one.target_key) is None
    search = begun(tmp_path)
    assert search.best is not None and search.best.untuned and other.decision not in search.seen


# -- several tasks ----------------------------------------------------------------------------------------------------


def tuned(folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, list[Status]]:
    monkeypatch.setattr(tuning, "Runner", lambda limits: FakeRunner(folder, clock))
    tasks = [task(product(64, 64, 8, name="long")), task(product(32, 64, 8, name="short"))]
    said: list[Status] = []
    options.setdefault("runs", 10**12)  # any gain is worth it
    with Database.open(folder / "records.db") as database:
        return tune_tasks(tasks, database, tuning.time.monotonic(), report=said.append, **options), said


def test_trials_bound_the_measured_candidates_of_all_tasks(
    faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, said = tuned(tmp_path, by_rows, monkeypatch, trials=8)
    assert result.ended == "trials" and sum(search.trials for search in result.searches) == 8
    assert [status.name for status in said if status.finished][-2:] == ["long", "short"]


def test_nothing_is_measured_that_is_not_worth_it(faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = tuned(tmp_path, by_rows, monkeypatch, runs=1)
    assert result.ended == "gain" and not result.searches and result.waiting == 2
    assert "left alone  2 of 2 operators: they take too little for measurements to pay" in summary(result)


def test_a_task_begins_when_its_turn_comes(faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that takes twice as long is first; what the other one takes is foreseen from it."""
    monkeypatch.setattr(tuning, "available_cores", lambda: [0])
    monkeypatch.setattr(tuning, "_SECONDS", 1e-9)
    begun: list[str] = []
    usual = Search.begin

    def begin(self: Search, *arguments: Any, **named: Any) -> None:
        begun.append(self.task.name)
        usual(self, *arguments, **named)

    monkeypatch.setattr(Search, "begin", begin)
    tuned(tmp_path, by_rows, monkeypatch, trials=3)
    assert begun == ["long"]
    tuned(tmp_path, by_rows, monkeypatch, trials=40)
    assert begun == ["long", "long", "short"]


def test_time_goes_to_the_task_that_takes_the_most(faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "run", _by_size)
    result, _ = tuned(tmp_path, by_rows, monkeypatch, trials=6)
    long, short = (search.trials for search in result.searches)
    assert long > short


def test_the_first_measurements_are_asked_for_together(
    faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as run at once: on a farm, as many as it has workers."""
    asked: list[list[str]] = []
    usual = FakeRunner.each

    def each(self: FakeRunner, some: Any) -> Any:
        some = list(some)
        asked.append([one.task.name for one in some])
        yield from usual(self, some)

    monkeypatch.setattr(FakeRunner, "each", each)
    monkeypatch.setattr(FakeRunner, "width", 2)
    monkeypatch.setattr(tuning, "available_cores", lambda: [0])
    tuned(tmp_path, by_rows, monkeypatch, trials=2)
    assert asked[0] == ["long", "short"]


def test_a_farm_is_reached_with_the_security_that_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on_farm(*arguments: Any) -> Any:
        raise KeyError(arguments)

    monkeypatch.setattr(tuning, "on_farm", on_farm)
    with pytest.raises(KeyError) as caught:
        tuning.tune(product(), db=str(tmp_path / "r.db"), workers="tls://desk:8786", key="farm.key", security="TLS")
    address, _, key, _, security = caught.value.args[0]
    assert (address, key, security) == ("tls://desk:8786", "farm.key", "TLS")


def _by_size(self: FakeRunner, task: Task, paths: list[Path], *rest: Any, **named: Any) -> Measured:
    each = 1e-2 if task.name == "long" else 1e-4
    return Measured("ok", tuple((each,) * 8 for _ in paths))


def test_an_interrupt_keeps_what_was_measured(faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def clock(decision: Decision) -> Measured:
        nonlocal count
        count += 1
        if count > 9:
            raise KeyboardInterrupt
        return by_rows(decision)

    result, _ = tuned(tmp_path, clock, monkeypatch)
    assert result.ended == "interrupted"
    with Database.open(tmp_path / "records.db") as database:
        assert database.count() >= 4


def test_a_budget_ends_it(faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(decision: Decision) -> Measured:
        tuning.time.sleep(0.02)
        return by_rows(decision)

    start = tuning.time.monotonic()
    result, _ = tuned(tmp_path, slow, monkeypatch, budget=1.0)
    assert result.ended in ("budget", "gain") and tuning.time.monotonic() - start < PATIENCE


def test_tasks_that_a_budget_does_not_reach_are_counted(
    faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = tuned(tmp_path, by_rows, monkeypatch, budget=1e-9)
    assert result.ended == "budget" and not result.searches and result.waiting == 2
    assert "not begun   2 of 2 operators: run the same command again, or with a larger --budget" in summary(result)


def test_a_machine_that_is_slow_for_a_while_makes_no_candidate_slow(faked: Any, tmp_path: Path) -> None:
    disturbed = {"by": 1.0}
    search = begun(tmp_path, lambda decision: seconds(disturbed["by"] * (1e-3 if decision == untuned() else 5e-4)))
    assert search.untuned == untuned()
    disturbed["by"] = 40.0
    search.step(6)
    assert search.best is not None and not search.best.untuned and search.best.gain == pytest.approx(2.0)
    others = [one for one in search.database.records() if not one.untuned]
    assert others and {round(one.gain, 6) for one in others} <= {1.0, 2.0}
    assert search.baseline == pytest.approx(1e-3), "it is what the untuned program takes undisturbed"


@cache
def untuned() -> Decision:
    """The decision of a build for the task of these tests."""
    return Decision.of(searching.Space(task(product(64, 64, 8))).yielded[0])


def test_one_half_of_a_pair_is_not_enough() -> None:
    slow, fast = [1.0] * 10, [0.9] * 10
    assert searching.is_faster(fast * 2, slow * 2) and not searching.is_faster(slow * 2, slow * 2)
    assert not searching.is_faster(fast + slow, slow * 2) and not searching.is_faster(slow + fast, slow * 2)


def test_what_is_predicted_to_take_much_longer_is_drafted_last(
    faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = begun(tmp_path)

    def predicted(points: Any) -> Any:
        return np.array([1.0 if point.rule == "contraction" else 3.0 for point in points])

    monkeypatch.setattr(search, "predicted", predicted)
    rules = [decision.rule for decision in search.draft(1000)]
    first = rules.index("sketch")
    assert set(rules[:first]) == {"contraction"} and "contraction" not in rules[first:] and first > 20


@pytest.mark.parametrize("stage", ["late", "not compiled"])
def test_what_there_was_no_time_for_is_no_record_and_comes_again(stage: str, faked: Any, tmp_path: Path) -> None:
    search = begun(tmp_path)
    faked[stage] = lambda decision: True
    search.step(4, end=searching.time.monotonic() - 1.0)
    assert not search.finished and search.trials == 0 and search.database.count() == 1
    faked[stage] = lambda decision: False
    search.step(4)
    assert search.trials == 4


def test_a_task_whose_untuned_program_is_late_has_not_begun(
    faked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faked["late"] = lambda decision: True
    result, _ = tuned(tmp_path, by_rows, monkeypatch, budget=0.2)
    assert result.ended == "budget" and result.waiting == 2 and not result.skipped


def test_the_gain_of_a_task_is_what_a_run_of_the_model_would_save(faked: Any, tmp_path: Path) -> None:
    line = Line(begun(tmp_path, lambda decision: seconds(2e-3)), 1)
    line.search.task = replace(line.search.task, weight=3)
    assert line.gain == pytest.approx(3 * 2e-3 * tuning.FIRST)
    line.search.finished = True
    assert line.gain == 0.0


def test_a_line_reads_as_users_know_it() -> None:
    status = Status(1, 12, "conv2d", 22.37, 52.19, 544, 1000, 406.59, True)
    known = "[Task  1/12]  Current/Best:   22.37/  52.19 GFLOPS | Progress: (544/1000) | 406.59 s Done."
    assert str(status) == known
