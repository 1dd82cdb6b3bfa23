"""Choose the algorithm of each convolution by runs of the network.

A graph pass chooses an algorithm by a formula, before there are operators: it computes a convolution on blocks
directly, or by Winograd's algorithm on tiles of some size. To measure the other algorithms, the network is built with
the formula's choices, once more with the second choice of every convolution, once with the third, and so on. These
builds run in turn, with time stamps between their operators, so there are only as many builds as a convolution has
algorithms. Then one more build combines the algorithms that seem faster, and runs in turn with the first build. Later
builds use an algorithm if it was faster there, in both halves of the runs. They use none of them if the network as a
whole became slower.
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
    """A convolution whose `algorithm` won: in the network it is `gain` times as fast as `before`, the formula's
    choice.
    """

    conv: str
    before: str
    algorithm: str
    gain: float

    def __str__(self) -> str:
        return f"{self.conv}: {self.algorithm} is {self.gain:.2f} times as fast as {self.before}"


def alternatives(met: Mapping[str, Met], known: set[tuple[str, Decision]]) -> list[Decisions]:
    """Return the second choice of each convolution, the third choice of each, and so on, as dictionaries by key.

    Choices that are in `known` as (key, decision) are left out.
    """
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
    """Measure the algorithms that were not measured yet, record the results, and return the algorithms that won.

    Nothing is measured if that would take more than SHARE of the `budget` (in seconds), if the target counts cycles
    instead of measuring time, or if the network cannot be run.
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
    """Return a guess of the seconds for building the network, each variant and the combined build, and for their
    runs.
    """
    built = 2 * len(met) + sum(map(len, variants))
    return built * _EACH / len(available_cores()) + 2 * _RUNS


def _timed(networks: Sequence[Network], runner: Measuring) -> list[Seconds]:
    """Run the builds in turn and return the seconds of the convolutions of each; empty if the builds cannot be run."""
    answer = in_turn([network.with_convolutions() for network in networks], networks[0].target, runner)
    return list(answer.groups) if answer.outcome == OK else [{} for _ in networks]


def _record(network: Network, met: Met, key: str, decision: Decision, own: Seconds, other: Seconds) -> Record:
    """Return the record of a pair: an algorithm of a convolution, and the formula's choice in the same runs."""
    option = _option(met, decision)
    return Record(
        task=key, target=target_key(network.target), machine=network.target.brief, name=str(met.conv),
        rule=decision.rule, knobs=dict(decision.knobs), outcome=PAIRED, seconds=tuple(own[key]),
        compute=option.cost.compute, memory=option.cost.memory,
        baseline=sure_baseline(own[key], other[key]),
        threads=getattr(network.target.description, "cores", 1), caches=IN_NETWORK, when=time.time(),
    )  # fmt: skip


def _option(met: Met, decision: Decision | None) -> Option:
    """Return the option with this decision; if there is none, or for None, the formula's choice."""
    return next((option for option in met.options if Decision.of(option) == decision), met.options[0])


def _name(met: Met, decision: Decision | None) -> str:
    return algorithm_name(_option(met, decision))
