"""A network, and builds of it that run in turn where candidates run, with time stamps between their operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..backend import lookup
from ..build import compile_fused, optimize_graph
from ..build_options import BuildOptions
from ..errors import TargetError, Unsupported
from ..executable import Executable
from ..graph.nodes import Graph
from ..link.levels import level_of, units_of
from ..records.database import Database
from ..records.lookup import algorithms_in
from ..records.record import REFUSED
from ..strategy import Decision
from ..strategy.algorithms import Met, decided_algorithms
from ..target import Target
from .measure import AskedInNetwork, MeasuredInNetwork, Measuring
from .search import sure_gain
from .task import Task, device_of, extract

Seconds = Mapping[str, Sequence[float]]  # of each run of a build, by group; "" is the whole network


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A graph for a target. Convolutions have these `algorithms`, by `Convolution.key`; others those of the formula."""

    graph: Graph
    target: Target
    accuracy: str = "fast"
    algorithms: Mapping[str, Decision] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """Whether its runs have times of their own: cycles that are counted are those of its operators."""
        return lookup(self.target, "timed") is None

    def recorded(self, database: Database) -> Network:
        """The same with the algorithms that won in the records."""
        return replace(self, algorithms=algorithms_in(database, self.target))

    def tasks(self) -> list[Task]:
        """Its operators, to be tuned."""
        with decided_algorithms(self.algorithms):
            return extract(self.graph, self.target, self.accuracy)

    def optimized(self) -> tuple[Graph, dict[str, Met]]:
        """The graph after its passes, and the convolutions that were met, by their keys."""
        with decided_algorithms(self.algorithms) as met:
            fused: Graph = optimize_graph(self.graph, self.target, BuildOptions(accuracy=self.accuracy))
        return fused, met

    def built(self, records: str | None = None) -> Executable:
        """The executable, with the schedules that won in the records of a database, or without any."""
        fused, _ = self.optimized()
        return compile_fused(self.graph, fused, self.target, BuildOptions(tuned=records))

    def with_convolutions(self) -> Build:
        """The executable, of which the seconds of each convolution are wanted, by its key."""
        fused, met = self.optimized()
        keys = {value: key for key, one in met.items() for value in one.values}
        names, units = dict[str, str](), units_of(level_of(fused))
        for node in fused.nodes:
            made = (keys.get(value.name) for inner in node.operators for value in inner.outputs)
            key = next(filter(None, made), None)
            if key is not None:
                names[units[node].name] = key
        return Build(compile_fused(self.graph, fused, self.target), names)


@dataclass(frozen=True, slots=True)
class Build:
    """An executable, and the group of each operator whose seconds are wanted, by the operator's name."""

    executable: Executable
    operators: Mapping[str, str]


def in_turn(builds: Sequence[Build], target: Target, runner: Measuring) -> MeasuredInNetwork:
    """Run builds of a network in turn; REFUSED where an artifact cannot hold one."""
    from ..runtime.artifact.export import export

    paths = [runner.folder / f"network-{number}.mtvm" for number in range(len(builds))]
    try:
        for build, path in zip(builds, paths, strict=True):
            export(build.executable, path, runner.key, runner.architectures(target))
        return runner.in_network(AskedInNetwork(paths, [build.operators for build in builds], device_of(target)))
    except (TargetError, Unsupported) as error:
        return MeasuredInNetwork(REFUSED, (), str(error).splitlines()[0])
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def without_gains_of_some(own: Seconds, other: Seconds) -> Seconds:
    """What the groups of one build are compared with: the seconds of the other, those of the network as it was.

    If the whole is slower for sure, what it lost is laid to all groups: none counts as faster than it was.
    """
    if sure_gain(other[""], own[""]) <= 1.0:
        return other
    return {group: list(map(min, seconds, other[group])) for group, seconds in own.items()}
