"""The algorithms of convolutions, decided in the network: by seconds from a table, and by real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.graph import Graph, GraphBuilder
from minitvm.records.database import Database
from minitvm.records.lookup import LEAST, algorithms
from minitvm.records.record import IN_NETWORK, PAIRED, Record, target_key
from minitvm.reference import graph as interpreter
from minitvm.runtime import GraphModule
from minitvm.strategy import Decision
from minitvm.strategy.algorithms import DIRECT, WINOGRAD, Convolution, algorithm_name, decided_algorithms
from minitvm.strategy.candidate import Cost, Option
from minitvm.target import Target
from minitvm.tune import algorithms as deciding
from minitvm.tune.algorithms import alternatives, decide
from minitvm.tune.builds import Network
from minitvm.tune.network import tune

from .programs import runner

CPU = Target("cpu -cores=2")
OPS = {DIRECT: "nn.contrib_conv2d_NCHWc", WINOGRAD: "nn.contrib_winograd_conv2d_NCHWc"}


def picture() -> Graph:
    """Two equal convolutions, a third of more channels, and a 1x1 convolution, which has no other algorithm."""
    b, rng = GraphBuilder("picture"), np.random.default_rng(0)
    x: Any = b.input("x", (1, 16, 12, 12))
    for channels, taps in ((16, 3), (16, 3), (32, 3), (16, 1)):
        shape = (channels, int(x.shape[1]), taps, taps)
        weights = b.constant(rng.integers(-2, 3, shape).astype("float32"))
        x = b.op("nn.relu", b.op("nn.conv2d", x, weights, padding=taps // 2))
    return b.build(x)


def networks(accuracy: str = "fast") -> Network:
    return Network(picture(), CPU, accuracy)


def operators(graph: Graph) -> list[str]:
    """The convolutions of a graph, in order."""
    return [one.op for node in graph.nodes for one in node.operators if "conv2d" in one.op]


def met_by(network: Network) -> dict[str, list[str]]:
    """The names of the algorithms that convolutions may have, the formula's first."""
    return {key: list(map(algorithm_name, one.options)) for key, one in network.optimized()[1].items()}


def test_equal_convolutions_are_met_once_with_all_their_values() -> None:
    graph, met = networks().optimized()
    assert [len(one.values) for one in met.values()] == [2, 1, 1]
    assert [len(one.options) for one in met.values()] == [3, 3, 1]
    assert [str(one.conv) for one in met.values()] == [
        "conv 16 -> 16, 3x3 on 12x12", "conv 16 -> 32, 3x3 on 12x12", "conv 32 -> 16, 1x1 on 12x12",
    ]  # fmt: skip
    assert len(operators(graph)) == 4


@pytest.mark.parametrize("place", range(3))
def test_a_decision_is_carried_out_and_keeps_the_meaning(place: int) -> None:
    plain = networks()
    _, met = plain.optimized()
    taken = {key: one.options[min(place, len(one.options) - 1)] for key, one in met.items()}
    decided = replace(plain, algorithms={key: Decision.of(option) for key, option in taken.items()})
    graph, again = decided.optimized()
    assert operators(graph) == [OPS[taken[key].rule] for key, one in again.items() for _ in one.values]
    assert list(again) == list(met)
    data = np.random.default_rng(1).integers(-3, 4, (1, 16, 12, 12)).astype("float32")
    wanted = np.asarray(interpreter.run(plain.graph, [data])[0])
    scale = np.abs(wanted).max()
    assert np.abs(np.asarray(interpreter.run(graph, [data])[0]) - wanted).max() <= 1e-5 * scale
    module = GraphModule(decided.built(), threads=1)
    assert np.abs(np.asarray(module(data)) - wanted).max() <= 1e-5 * scale


def test_the_formulas_choice_counts_where_a_decision_cannot_be_had() -> None:
    key = next(iter(networks().optimized()[1]))
    strict = replace(networks("strict"), algorithms={key: Decision(WINOGRAD, {"tile": 2, "panel": 1})})
    assert operators(strict.optimized()[0]) == [OPS[DIRECT]] * 4
    unknown = replace(networks(), algorithms={key: Decision(WINOGRAD, {"tile": 64, "panel": 1})})
    with pytest.warns(RuntimeWarning, match="record of conv 16 -> 16, 3x3 on 12x12 is not used: there is no winograd"):
        graph, _ = unknown.optimized()
    assert operators(graph) == operators(networks().optimized()[0])


def test_decisions_count_inside_only() -> None:
    with decided_algorithms({}) as outer:
        with decided_algorithms({}) as inner:
            minitvm.lower(picture(), stop_at="fused", target=CPU)
        assert list(inner) == keys() and outer == {}
    conv = Convolution(1, 8, 8, (4, None), (3, 3), (1, 1), (1, 1))
    assert conv.key(8) != conv.key(16) and conv.key(8) == replace(conv).key(8)
    assert str(replace(conv, batch=2)) == "conv 2 x 8 -> 8, 3x3 on 4x?"


def option(rule: str, cycles: float) -> Option:
    return Option(rule=rule, knobs={}, price=lambda: Cost(cycles))


def test_alternatives_come_by_place_without_doubtful_and_known_ones() -> None:
    _, met = networks().optimized()
    one, two, three = met
    met[one].options = [option("a", 10), option("b", 11), option("c", 19), option("d", 21)]
    met[two].options = [option("a", 10), option("e", 10)]
    a, b, c, e = (Decision(name, {}) for name in "abce")
    assert alternatives({one: met[one]}, set()) == [{one: b}, {one: c}]
    assert alternatives(met, set()) == [{one: b, two: e}, {one: c}]
    assert alternatives(met, {(one, b), (two, a)}) == [{one: c, two: e}]
    assert alternatives({three: met[three]}, set()) == [] == alternatives({}, {(one, c)})


class Table:
    """Seconds of a convolution by its key and algorithm, of the whole by its algorithms."""

    def __init__(self, slower: float = 1.0, again: float = 1.0) -> None:
        self.runs: list[list[Mapping[str, Decision]]] = []
        self.slower, self.again = slower, again  # the whole with other algorithms; what won when it runs again
        self.faster = frozenset((WINOGRAD,))  # which algorithms are, for the first convolution

    def timed(self, networks: Sequence[Network], runner: Any) -> list[dict[str, list[float]]]:
        self.runs.append([network.algorithms for network in networks])
        return [self._seconds(network.algorithms) for network in networks]

    def _seconds(self, algorithms: Mapping[str, Decision]) -> dict[str, list[float]]:
        first, second, third = keys()
        took = {"": 10.0 * (self.slower if algorithms else 1.0), first: 2.0, second: 2.0, third: 1.0}
        for key, decision in algorithms.items():
            faster = key == first and decision.rule in self.faster
            took[key] = (1.0 if len(self.runs) == 1 else self.again) if faster else 3.0
        return {key: [seconds, seconds * 1.01] * 2 for key, seconds in took.items()}


def keys() -> list[str]:
    return list(networks().optimized()[1])


def settled(folder: Path, table: Table, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, Database]:
    monkeypatch.setattr(deciding, "_timed", table.timed)
    monkeypatch.setattr(deciding, "DOUBTFUL", 1e9)
    database = Database.open(folder / "records.db")
    return decide(networks(), database, None, **options), database  # type: ignore[arg-type]


def test_what_is_faster_in_the_network_twice_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    won, database = settled(tmp_path, table, monkeypatch)
    first, second, _ = keys()
    (formula, others), *_ = ((one[0], one[1:]) for one in met_by(networks()).values())
    assert [len(builds) for builds in table.runs] == [3, 2] and table.runs[0][0] == {}
    assert [set(algorithms) for algorithms in table.runs[0][1:]] == [{first, second}] * 2
    ((key, decision),) = table.runs[1][0].items()
    assert key == first and decision.rule in (DIRECT, WINOGRAD)
    assert [str(one) for one in won] == [
        f"conv 16 -> 16, 3x3 on 12x12: {won[0].algorithm} is 2.00 times as fast as {formula}"
    ]
    assert won[0].algorithm in others
    assert algorithms(CPU, database.url) == {first: decision}
    kept = [record for record in database.records() if record.task == first]
    assert {record.caches for record in kept} == {IN_NETWORK} and {record.outcome for record in kept} == {PAIRED}
    assert decide(networks(), database, None) == [] and len(table.runs) == 2  # type: ignore[arg-type]
    fused = minitvm.lower(picture(), stop_at="fused", target=CPU, tuned=database.url)
    plain = minitvm.lower(picture(), stop_at="fused", target=CPU)
    with decided_algorithms({first: decision}):
        assert operators(minitvm.lower(picture(), stop_at="fused", target=CPU)) == operators(fused)
    assert operators(plain) == operators(networks().optimized()[0])
    database.close()


@pytest.mark.parametrize(("slower", "again"), [(1.2, 1.0), (1.0, 2.5)])
def test_what_is_lucky_or_makes_others_slower_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float, again: float
) -> None:
    table = Table(slower, again)
    won, database = settled(tmp_path, table, monkeypatch)
    assert len(table.runs) == 2 and won == [] and algorithms(CPU, database.url) == {}
    best = database.best(keys()[0], target_key(CPU))
    assert best is not None and best.gain < LEAST
    database.close()


@pytest.mark.parametrize("slower", [1.0, 1.2])
def test_of_two_algorithms_that_seem_faster_only_what_wins_again_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float
) -> None:
    table = Table(slower)
    table.faster = frozenset((DIRECT, WINOGRAD))
    won, database = settled(tmp_path, table, monkeypatch)
    assert len(table.runs[0]) == 3 and len(table.runs[1][0]) == 1
    taken = table.runs[1][0] if slower == 1.0 else {}
    assert algorithms(CPU, database.url) == taken and len(won) == len(taken)
    database.close()


def test_a_small_budget_and_a_network_that_does_not_run_decide_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table()
    won, database = settled(tmp_path, table, monkeypatch, budget=20.0)
    assert won == [] and table.runs == []
    monkeypatch.setattr(deciding, "_timed", lambda networks, runner: [{} for _ in networks])
    assert decide(networks(), database, None) == [] and database.count() == 0  # type: ignore[arg-type]
    accel = Network(picture(), Target("accel"))
    assert decide(accel, database, None) == []  # type: ignore[arg-type]
    database.close()


def test_records_of_algorithms_are_those_of_the_target(tmp_path: Path) -> None:
    key, decision = keys()[0], Decision(DIRECT, {})
    record = Record(
        task=key, target=target_key(CPU), machine="here", name="conv", rule=decision.rule, knobs={}, outcome=PAIRED,
        seconds=(1.0,), baseline=2.0, caches=IN_NETWORK,
    )  # fmt: skip
    with Database.open(tmp_path / "records.db") as database:
        database.add(
            [record, replace(record, task="other", baseline=1.01), replace(record, task="first", untuned=True)]
        )
        url = database.url
    assert algorithms(CPU, url) == {key: decision}
    assert algorithms(Target("cpu -cores=3"), url) == {} == algorithms(CPU, None)


def test_real_builds_are_run_and_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "records.db")
    with Database.open(path) as database, runner() as measuring:
        decide(networks(), database, measuring)
        kept = list(database.records())
        known = {(record.task, record.decision) for record in kept}
        _, met = networks().optimized()
        assert kept and alternatives(met, known) == []
        assert all(record.outcome == PAIRED and record.gain > 0 for record in kept)
    tuned = tune(picture(), CPU, trials=1, runs=10**12, db=path)
    assert tuned.algorithms == [] and tuned.searches
