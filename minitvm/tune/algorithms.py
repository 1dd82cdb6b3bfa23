"""Which algorithm a convolution gets, decided by runs of the network.

A pass chooses it by a formula, before there are operators: a convolution on blocks is computed directly, or by
Winograd's algorithm on tiles of some size. To tell what another one takes, the network is built as the formula has it,
once more with the second choice of every convolution, once with the third, and so on. These builds run in turn, with
time stamps between their operators, so there are as many builds as one convolution has algorithms. What seems faster is
then built together, and runs once more beside the network as it was. A convolution that is faster there, in both halves
of the runs, is computed so by later builds; none is if the network as a whole became slower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..records.database import Database
from ..records.lookup import LEAST
from ..records.record import IN_NETWORK, OK, PAIRED, Record, target_key
from ..strategy import Decision
from ..strategy.algorithms import Met, algorithm_name
from ..strategy.candidate import Option
from ..workers.cores import available_cores
from .builds import Network, Seconds, in_turn, without_gains_of_some
from .measure import Measuring
from .search import sure_baseline

DOUBTFUL = 2.0  # times what the formula's choice is predicted to take: such an algorithm is not tried
SHARE = 0.3  # of the budget, at most
_EACH, _RUNS = 1.5, 5.0  # seconds of a core in which a convolution is built, and seconds of runs in turn
Decisions = dict[str, Decision]


@dataclass(frozen=True, slots=True)
class Won:
    """A convolution, the formula's choice, and the algorithm that is so many times as fast in the network."""

    conv: str
    before: str
    algorithm: str
    gain: float

    def __str__(self) -> str:
        return f"{self.conv}: {self.algorithm} is {self.gain:.2f} times as fast as {self.before}"


def alternatives(met: Mapping[str, Met], known: set[tuple[str, Decision]]) -> list[Decisions]:
    """The second choice of each convolution, the third of each, and so on; without what is `known`, by key and
    decision."""
    found: list[Decisions] = []
    for key, one in met.items():
        first, *others = one.options
        likely = [Decision.of(option) for option in others if option.cost.cycles < DOUBTFUL * first.cost.cycles]
        fresh = [decision for decision in likely if (key, decision) not in known]
        found += [{} for _ in range(len(fresh) - len(found))]
        for place, decision in enumerate(fresh):
            found[place][key] = decision
    return found


def decide(network: Network, database: Database, runner: Measuring, budget: float | None = None) -> list[Won]:
    """Measure the algorithms that were not measured yet, and keep the records; returns those that won.

    Nothing is done where it would take more than SHARE of the `budget` in seconds, where time is counted in cycles, and
    where the network cannot be run.
    """
    plain = replace(network, algorithms={})
    _, met = plain.optimized()
    known = {(record.task, record.decision) for record in database.records(target=target_key(network.target))}
    variants = alternatives(met, known) if network.is_timed else []
    if not variants or _expected(met, variants) > SHARE * (budget or float("inf")):
        return []
    untuned, *others = _timed([plain, *(replace(network, algorithms=one) for one in variants)], runner)
    records = [
        _record(network, met[key], key, decision, seconds, untuned)
        for variant, seconds in zip(variants, others, strict=True)
        for key, decision in variant.items()
        if key in seconds and key in untuned
    ]
    likely: dict[str, Record] = {}
    for record in sorted(records, key=lambda one: -one.gain):
        if record.gain >= LEAST:
            likely.setdefault(record.task, record)
    records = [record for record in records if record.gain < LEAST]  # of what seems faster, only what wins again
    if likely:
        together = replace(network, algorithms={key: record.decision for key, record in likely.items()})
        again, before = _timed([together, plain], runner)
        beside = without_gains_of_some(again, before) if again else {}
        records += [
            _record(network, met[key], key, record.decision, again, beside)
            for key, record in likely.items()
            if key in again
        ]
    database.add(records)
    return [
        Won(str(met[one.task].conv), _name(met[one.task], None), _name(met[one.task], one.decision), one.gain)
        for one in records
        if one.gain >= LEAST
    ]


def _expected(met: Mapping[str, Met], variants: Sequence[Decisions]) -> float:
    """Seconds that it should take: builds of the network as it is, of each variant, and of what seems faster."""
    built = 2 * len(met) + sum(map(len, variants))
    return built * _EACH / len(available_cores()) + 2 * _RUNS


def _timed(networks: Sequence[Network], runner: Measuring) -> list[Seconds]:
    """The seconds of the convolutions of each build, the builds run in turn; none where they cannot be run."""
    answer = in_turn([network.with_convolutions() for network in networks], networks[0].target, runner)
    return list(answer.groups) if answer.outcome == OK else [{} for _ in networks]


def _record(network: Network, met: Met, key: str, decision: Decision, own: Seconds, other: Seconds) -> Record:
    """A pair: an algorithm of a convolution, and the formula's choice in the same runs."""
    option = _option(met, decision)
    return Record(
        task=key, target=target_key(network.target), machine=network.target.brief, name=str(met.conv),
        rule=decision.rule, knobs=dict(decision.knobs), outcome=PAIRED, seconds=tuple(own[key]),
        compute=option.cost.compute, memory=option.cost.memory,
        baseline=sure_baseline(own[key], other[key]),
        threads=getattr(network.target.description, "cores", 1), caches=IN_NETWORK, when=time.time(),
    )  # fmt: skip


def _option(met: Met, decision: Decision | None) -> Option:
    """The algorithm that a decision stands for; without one the formula's choice."""
    return next((option for option in met.options if Decision.of(option) == decision), met.options[0])


def _name(met: Met, decision: Decision | None) -> str:
    return algorithm_name(_option(met, decision))
