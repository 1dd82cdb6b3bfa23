"""What won has to win once more beside the untuned program: with builds whose time stamps come from a table, and with
real ones on the CPU, on devices and on a farm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minitvm import te
from minitvm.build import compile_executable
from minitvm.errors import InputError
from minitvm.executable import Barrier, ScalarSpec, TensorSpec
from minitvm.expr import DType
from minitvm.records.database import Database
from minitvm.records.lookup import LEAST
from minitvm.records.record import IN_NETWORK
from minitvm.runtime.artifact.export import export
from minitvm.strategy import Decision
from minitvm.target import Target
from minitvm.tune import in_network
from minitvm.tune import runner as program
from minitvm.tune.builds import Network
from minitvm.tune.confirm import confirm
from minitvm.tune.in_network import SIZES, arguments, in_turn, steps_of
from minitvm.tune.measure import AskedInNetwork, Measured, MeasuredInNetwork, Runner
from minitvm.tune.network import tune_tasks
from minitvm.tune.search import Search, sure_gain
from minitvm.tune.task import extract
from tests.machines.cuda.runtime.fake_cuda import FakeDriver
from tests.machines.vta.test_networks import SMALL

from .programs import SHORT, network
from .test_devices import driver  # noqa: F401  (a fixture)
from .test_remote import a_farm_here
from .test_search import FakeRunner, begun, by_rows, seconds, without_compiling


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return without_compiling(monkeypatch)


def step(operator: str) -> Any:
    return SimpleNamespace(operator=operator)


class FakeModule:
    """Operators `first`, `own` and `last`, with a barrier behind each; seconds of each operator by the run."""

    outputs = ("results of a run",)

    def __init__(self, seconds: Mapping[str, float]) -> None:
        steps = [one for name in ("first", "own", "last") for one in (step(name), Barrier())]
        self.executable, self.seconds, self.runs = SimpleNamespace(steps=steps), seconds, 0

    def stamped(self, *, out: Any) -> Any:
        assert out == ("device" if self.runs == 0 else self.outputs)
        self.runs += 1
        parts = [self.seconds[name] / 2 for name in ("first", "own", "last") for _ in range(2)]
        ends = np.cumsum([0.0, *parts]) * 1e9
        return SimpleNamespace(times=np.round(ends)[None].astype(np.int64), outputs=self.outputs)


UNTUNED = {"first": 1e-3, "own": 2e-3, "last": 1e-3}
Answer = Callable[[AskedInNetwork], MeasuredInNetwork]


def by_stamps(tuned: Mapping[str, float]) -> Answer:
    """Of two builds whose operators take what the tables say."""

    def answer(asked: AskedInNetwork) -> MeasuredInNetwork:
        groups = in_turn([FakeModule({**UNTUNED, **tuned}), FakeModule(UNTUNED)], {}, asked.operators)
        return MeasuredInNetwork("ok", tuple(groups))

    return answer


def confirmed(search: Search, answer: Answer, target: str = "cpu") -> str:
    """What `confirm` says of a network of which the runner says that."""
    builds = Network(network(), Target(target))
    search.runner.in_network = answer  # type: ignore[method-assign]
    return confirm([search], builds, search.runner)


def won_alone(folder: Path, clock: Any = by_rows) -> Search:
    """A search whose best is another one than the untuned program."""
    search = begun(folder, clock)
    while search.best is None or search.best.untuned:
        search.step(6)
    search.task = replace(search.task, operators=("own",))
    search.runner.key = b"k" * 32
    return search


@pytest.mark.parametrize(
    ("tuned", "wins"),
    [
        ({"own": 1e-3}, True),
        ({"own": 1.99e-3}, False),  # hardly faster
        ({"own": 3e-3}, False),
        ({"own": 1e-3, "last": 3e-3}, False),  # what it gained another operator lost
        ({"own": 1e-3, "first": 1.5e-3}, True),
    ],
)
def test_what_wins_in_the_network_is_what_a_build_takes(
    faked: Any, tmp_path: Path, tuned: dict[str, float], wins: bool
) -> None:
    search = won_alone(tmp_path)
    assert search.best is not None
    decision = search.best.decision
    assert confirmed(search, by_stamps(tuned)) == ""
    best = search.database.best(search.task.key, search.task.target_key)
    assert best is not None and best.caches == IN_NETWORK and best.decision == decision
    assert (best.gain >= LEAST) == wins == (not search.best.untuned)
    assert not wins or best.gain == pytest.approx(2e-3 / tuned["own"], rel=1e-3)
    assert confirmed(search, lambda asked: pytest.fail("settled twice")) == ""


def test_the_next_session_goes_on_with_what_won_in_the_network(faked: Any, tmp_path: Path) -> None:
    confirmed(won_alone(tmp_path), by_stamps({"own": 3e-3}))
    again = begun(tmp_path)
    assert again.best is not None and again.best.untuned
    assert all(record.caches != IN_NETWORK for record in again.seen.values())


def test_what_crashes_in_the_network_is_not_taken(faked: Any, tmp_path: Path) -> None:
    search = won_alone(tmp_path)
    said = confirmed(search, lambda asked: MeasuredInNetwork("crashed", (), "SIGSEGV"))
    best = search.database.best(search.task.key, search.task.target_key)
    assert said == "SIGSEGV" and best is not None and (best.gain, best.message) == (1.0, "SIGSEGV")
    assert search.best is not None and search.best.untuned


# -- without a network


class Lucky:
    """A clock: each decision is faster than the one before in its first pair, and as slow as all in a later one."""

    def __init__(self, luck: bool) -> None:
        self.luck = luck

    def __call__(self, decision: Decision) -> Measured:
        return by_rows(decision) if self.luck else seconds(1e-3)


@pytest.mark.parametrize("reason", ["no network", "inputs", "cycles"])
@pytest.mark.parametrize("luck", [True, False])
def test_without_a_network_it_is_the_untuned_program_that_has_to_be_beaten(
    faked: Any, tmp_path: Path, reason: str, luck: bool
) -> None:
    clock = Lucky(True)
    search = won_alone(tmp_path, clock)
    assert search.best is not None
    runner, decision, clock.luck = search.runner, search.best.decision, luck
    assert isinstance(runner, FakeRunner)
    runner.ran.clear()
    if reason == "no network":
        said = confirm([search], None, search.runner)
    elif reason == "inputs":
        said = confirmed(search, lambda asked: MeasuredInNetwork("refused", (), "too long"))
    else:
        said = confirmed(search, lambda asked: pytest.fail("cycles are counted"), SMALL)
    assert said == ("too long" if reason == "inputs" else "")
    assert runner.ran == [decision, search.untuned]
    best = search.database.best(search.task.key, search.task.target_key)
    assert best is not None and search.best is not None
    assert (not search.best.untuned) == (best.gain >= LEAST) == luck


def test_a_winner_that_fails_beside_the_untuned_program_is_not_the_best(faked: Any, tmp_path: Path) -> None:
    state = {"fails": False}

    def clock(decision: Decision) -> Measured:
        return Measured("hung", (), "no end") if state["fails"] else by_rows(decision)

    search = won_alone(tmp_path, clock)
    state["fails"] = True
    confirm([search], None, search.runner)
    assert search.best is not None and search.best.untuned
    assert list(search.database.records())[-1].outcome == "hung"


def test_tuning_a_function_ends_with_a_pair_beside_the_untuned_program(faked: Any, tmp_path: Path) -> None:
    search = won_alone(tmp_path)
    runner = FakeRunner(tmp_path, by_rows)
    with Database.open(tmp_path / "other.db") as database:
        tuned = tune_tasks([search.task], database, 0.0, trials=12, runs=10**12, measuring=runner)  # type: ignore
    (one,) = tuned.searches
    assert one.best is not None and not one.best.untuned and one.is_settled
    assert runner.ran[-2:] == [one.best.decision, one.untuned]


# -- what is run


def test_a_barrier_belongs_to_the_operator_in_front_of_it() -> None:
    executable: Any = SimpleNamespace(steps=[step("a"), Barrier(), step("b"), Barrier(), step("a"), step("c")])
    assert steps_of(executable, {"a": "A", "b": "B"}) == {"A": [0, 1, 4], "B": [2, 3]}


def test_inputs_that_may_be_indices_are_zeros() -> None:
    specs = [TensorSpec("x", DType("float32"), (2, 3)), TensorSpec("i", DType("int64"), (4,))]
    (found,) = arguments(SimpleNamespace(inputs=specs))  # type: ignore[arg-type]
    assert found["x"].dtype == np.float32 and found["x"].any()
    assert found["i"].dtype == np.int64 and not found["i"].any()


def test_open_sizes_have_values_that_fit_one_another() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    specs = [TensorSpec("x", DType("float32"), (n, 3)), TensorSpec("y", DType("float32"), (2 * n, 4))]
    every = list(arguments(SimpleNamespace(inputs=[*specs, ScalarSpec("m", DType("int64"), m)])))  # type: ignore
    assert [one["x"].shape for one in every] == [(size, 3) for size in SIZES]
    assert [one["y"].shape for one in every] == [(2 * size, 4) for size in SIZES]
    assert [one["m"] for one in every] == list(SIZES)


def test_a_gain_is_that_of_the_worse_half_and_of_runs_side_by_side() -> None:
    drifting = [1.0, 2.0, 3.0, 4.0]
    assert sure_gain(drifting, [2 * one for one in drifting]) == 2.0
    assert sure_gain([1.0] * 8, [3.0] * 4 + [1.5] * 4) == 1.5
    assert sure_gain([1.0, 40.0, 40.0, 40.0, 1.0, 30.0], [2.0, 2.0, 50.0, 50.0, 50.0, 2.0]) == 2.0, "disturbances"


def test_the_first_sizes_that_the_network_takes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    class Picky(FakeModule):
        def stamped(self, *, out: Any, n: int = 0) -> Any:
            ran.append(n)
            if n > 20:
                raise InputError(f"n is {n}\nmore")
            if out != "device":
                raise InputError("data decide its shapes")
            self.runs = 0
            return super().stamped(out=out)

        def to_device(self, value: Any) -> Any:
            return value

    def asked(sizes: tuple[int, ...]) -> Any:
        monkeypatch.setattr(in_network, "SIZES", sizes)
        return in_network.measured({"artifacts": ["a", "b"], "key": "", "operators": [{"own": "key"}] * 2})

    module = Picky(UNTUNED)
    module.executable.inputs = [ScalarSpec("n", DType("int64"), te.size_var("n"))]
    monkeypatch.setattr("minitvm.runtime.load", lambda path, key: module)
    refused = asked((64, 32))
    assert (refused["outcome"], refused["message"]) == ("refused", "n is 32")
    ran.clear()
    answer = asked((64, 16, 8))
    assert answer["outcome"] == "ok" and ran[:3] == [64, 16, 16] and set(ran) == {64, 16}
    assert [set(one) for one in answer["groups"]] == [{"key", ""}] * 2


# -- with real builds


def builds(folder: Path, target: str, *, open_size: bool = False) -> AskedInNetwork:
    """The network twice."""
    machine, graph = Target(target), network(open_size=open_size)
    executable = compile_executable(graph, machine)
    paths = [folder / name for name in ("tuned", "untuned")]
    for path in paths:
        export(executable, path, key=b"k" * 32)
    tasks = extract(graph, machine)
    names = {name: task.key for task in tasks for name in task.operators}
    return AskedInNetwork(paths, [names] * len(paths), tasks[0].device)


def judged(asked: AskedInNetwork, answer: MeasuredInNetwork) -> None:
    """All operators were timed, as often, and take no longer than the whole."""
    assert (answer.outcome, answer.message) == ("ok", "") and len(answer.groups) == 2
    for group in answer.groups:
        assert set(group) == {*asked.operators[0].values(), ""}
        assert {len(times) for times in group.values()} == {len(answer.groups[0][""])}
        for number, whole in enumerate(group[""]):
            parts = [times[number] for key, times in group.items() if key]
            assert min(parts) > 0 and sum(parts) <= whole + 1e-9


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(in_network, "ROUNDS", 4)
    return


@pytest.mark.parametrize("open_size", [False, True])
def test_builds_run_in_a_process_of_their_own(short: None, tmp_path: Path, open_size: bool) -> None:
    asked = builds(tmp_path, "cpu", open_size=open_size)
    with Runner(SHORT) as runner:
        runner.key = b"k" * 32
        judged(asked, runner.in_network(asked))
        asked.artifacts[0].write_bytes(b"no artifact")  # type: ignore[union-attr]
        answer = runner.in_network(asked)
    assert answer.outcome == "crashed" and "ArtifactError" in answer.message


def test_builds_run_on_a_farm(short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = builds(tmp_path, "cpu")
    with a_farm_here(monkeypatch) as farm:
        judged(asked, farm.in_network(asked))
        assert not any(b"tuned" in one for one in farm.farm.asked)  # type: ignore[attr-defined]


def test_builds_run_on_a_cuda_device(short: None, tmp_path: Path, driver: FakeDriver) -> None:  # noqa: F811
    asked = builds(tmp_path, "cuda -arch=sm_80")
    assert asked.device == "cuda"
    request = {**asked.request, "artifacts": asked.artifacts, "key": (b"k" * 32).hex()}
    driver.commands.clear()
    judged(asked, MeasuredInNetwork.from_reply(program.answered(request)))
    assert driver.commands.count("cuMemcpyDtoH") == 0, "what a run computes stays on the device"


def test_builds_run_on_an_opencl_device(short: None, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    asked = builds(tmp_path, "opencl -model=pocl")
    with Runner(SHORT) as runner:
        runner.key = b"k" * 32
        judged(asked, runner.in_network(asked))
