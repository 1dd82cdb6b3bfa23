"""A network, and several builds of it that run in turn on the runner, with time stamps between their operators."""

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
    """A graph and the target to build it for. `algorithms` maps the keys of convolutions to decisions; the formula
    chooses the algorithms of all other convolutions.
    """

    graph: Graph
    target: Target
    accuracy: str = "fast"
    algorithms: Mapping[str, Decision] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """Return whether runs on the target can be timed. A target that counts cycles only counts those of each
        operator.
        """
        return lookup(self.target, "timed") is None

    def recorded(self, database: Database) -> Network:
        """Return the same network with the algorithms that won in the records."""
        return replace(self, algorithms=algorithms_in(database, self.target))

    def tasks(self) -> list[Task]:
        """Return the tasks for the network's operators."""
        with decided_algorithms(self.algorithms):
            return extract(self.graph, self.target, self.accuracy)

    def optimized(self) -> tuple[Graph, dict[str, Met]]:
        """Return the graph after its passes, and the convolutions that the passes saw, by key."""
        with decided_algorithms(self.algorithms) as met:
            fused: Graph = optimize_graph(self.graph, self.target, BuildOptions(accuracy=self.accuracy))
        return fused, met

    def built(self, records: str | None = None) -> Executable:
        """Build the network, with the schedules that won in the database at the URL `records`; with None, without
        records.
        """
        fused, _ = self.optimized()
        return compile_fused(self.graph, fused, self.target, BuildOptions(tuned=records))

    def with_convolutions(self) -> Build:
        """Build the network, and group the operators of each convolution under its key, so that a run gives its
        seconds.
        """
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
    """An executable, and a map from names of operators to groups. A run gives the seconds of each group."""

    executable: Executable
    operators: Mapping[str, str]


def in_turn(builds: Sequence[Build], target: Target, runner: Measuring) -> MeasuredInNetwork:
    """Run builds of a network in turn; the outcome is REFUSED if one of them cannot be exported as an artifact."""
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
    """Return the seconds to compare the groups of one build with: usually the seconds of the other build.

    If the build as a whole is surely slower, its loss counts against all groups: no group may then count as faster.
    """
    if sure_gain(other[""], own[""]) <= 1.0:
        return other
    return {group: list(map(min, seconds, other[group])) for group, seconds in own.items()}
