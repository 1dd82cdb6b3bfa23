"""Give parts of a network to engines: other people's libraries, which compute many operators in one call.

A *region* is a set of operators that becomes one node of the graph. It is a fused group whose attribute "engine" names
its engine. The inner graph of the group is its meaning, so interpreters and passes treat it like any other group.

A region grows from the matches of an engine's patterns, over edges and forks, as long as it stays convex:

    no path of values leaves the region and comes back into it.

Only then can one call compute the region: all of its inputs exist before the call, and all of its outputs after it. For
two regions it is not enough that each is convex. For example, if A reads a result of B and B reads another result of
A, neither can run first. So each merge is checked in the *condensed* graph, in which each region is one vertex. A merge
of two regions is legal if every path between them is a single edge, because any longer path would become a cycle.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...errors import InternalError
from ...expr import Expr, Var, free_vars
from ...expr.printer import fresh
from ...topi import registry
from ..nodes import BIND_SIZE, ENGINE, FUSED, LOOP, MATCH_CAST, Graph, Node, OpNode, Value
from ..pattern import GraphFacts, ValuePattern, matches


class Supporter(Protocol):
    """The properties of an engine that decide which operators it gets; see `engines.Engine`."""

    @property
    def name(self) -> str: ...
    @property
    def patterns(self) -> Sequence[ValuePattern]: ...
    @property
    def supports(self) -> Supports: ...
    @property
    def symbolic(self) -> bool: ...


class Supports(Protocol):
    def __call__(self, item: OpNode, /) -> str: ...


@dataclass(frozen=True, slots=True)
class RegionNodes:
    """A set of operators for the engine named `engine`, in the order of the graph."""

    engine: str
    nodes: tuple[OpNode, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """The regions of one engine in a graph, and for each of the other operators the reason why the engine does not
    compute it.
    """

    regions: tuple[RegionNodes, ...]
    refused: Mapping[OpNode, str]


def partition(graph: Graph, engines: Sequence[Supporter]) -> Graph:
    """Return the graph with the regions of each engine, each as one node. Earlier engines choose first."""
    regions: list[RegionNodes] = []
    for engine in engines:
        regions += survey(graph, engine, regions).regions
    names: set[str] = set()
    return placed(graph, [(region, region_node(graph, region, fresh(region.engine, names))) for region in regions])


def survey(graph: Graph, engine: Supporter, taken: Sequence[RegionNodes] = ()) -> Survey:
    """Find the regions of one engine. The operators of the regions in `taken` belong to other engines.

    The regions together with those in `taken` form no cycle. Regions that only reshape values are left out.
    """
    others = {item for region in taken for item in region.nodes}
    groups, refused = _matched(graph, engine, others)
    condensed = Condensed(graph)
    for region in taken:
        condensed.join(region.nodes, region.engine)
    for group in groups:
        condensed.join(group, engine.name)
    condensed.grow(engine.name)
    regions = []
    for nodes in condensed.regions(engine.name):
        if all(registry.get(item.op).view for item in nodes):
            refused.update(dict.fromkeys(nodes, "it would only reshape values"))
        else:
            regions.append(RegionNodes(engine.name, nodes))
    return Survey(tuple(regions), refused)


def _matched(
    graph: Graph, engine: Supporter, others: Iterable[OpNode]
) -> tuple[list[tuple[OpNode, ...]], dict[OpNode, str]]:
    """Return the groups of operators that match a pattern of an engine, without overlap, and the reasons for the rest.

    Later operators come first, so that a chain is matched from its last operator.
    """
    facts, taken, refused = GraphFacts(graph), set(others), dict[OpNode, str]()
    groups: list[tuple[OpNode, ...]] = []

    def reason_against(item: OpNode) -> str:
        return no_region(item, engine.symbolic) or engine.supports(item)

    for item in reversed(graph.nodes):
        if item in taken:
            continue
        reason = reason_against(item)
        if reason:
            refused[item] = reason
            continue
        if not engine.patterns:
            groups.append((item,))
            continue
        for nodes in _matches(item, engine, facts):
            if not taken.intersection(nodes) and not any(
                no_region(n, engine.symbolic) or engine.supports(n) for n in nodes
            ):
                groups.append(nodes)
                taken.update(nodes)
                break
        else:
            refused[item] = f"no pattern of {engine.name} matches {item.op} here"
    return groups, {item: reason for item, reason in refused.items() if item not in taken}


def _matches(item: OpNode, engine: Supporter, facts: GraphFacts) -> Iterator[tuple[OpNode, ...]]:
    """Yield the operators of each match of an engine's pattern at `item`, provided that nothing outside the match reads
    its inner values.
    """
    for pattern in engine.patterns:
        for match in matches(pattern, item, facts):
            nodes = tuple(dict.fromkeys(match.nodes))
            inner = [value for n in nodes if n is not item for value in n.outputs]
            if not any(v in facts.returned or set(facts.consumers[v]) - set(nodes) for v in inner):
                yield nodes


def no_region(item: OpNode, symbolic: bool = False) -> str:
    """Return the reason why no engine can compute an operator, or "" if engines may compute it: with `symbolic`, those
    that compute operators with symbolic sizes.
    """
    if item.op in (BIND_SIZE, FUSED, LOOP, MATCH_CAST):
        return f"{item.op} is no operator on tensors"
    structured = next((name for name, value in item.attrs.items() if isinstance(value, Node) or callable(value)), None)
    if structured is not None:
        return f"{item.op} contains a program of minitvm: {structured}"
    values = (*item.inputs, *item.outputs)
    opened = next((v for v in values if not v.is_static), None)
    if not symbolic and (opened is not None or any(True for _ in item.symbols())):
        return "its sizes are symbolic" + (f": {opened.name}: {opened.type}" if opened is not None else "")
    # Then the inputs of a region determine all sizes in it: each of its operators finds them in its own inputs.
    own = {dim for v in item.inputs for dim in v.shape if isinstance(dim, Var)}
    unknown = next((var for var in _sizes(item) if var not in own), None)
    if unknown is not None:
        return f"none of its inputs has the size {unknown.name}"
    empty = next((v for v in values if 0 in v.shape), None)
    return f"{empty.name} has no elements" if empty is not None else ""


def _sizes(item: OpNode) -> Iterator[Var]:
    """Yield the variables in the shapes and attributes of an operator."""
    yield from item.mentioned()
    for value in item.inputs:
        yield from (var for dim in value.shape if isinstance(dim, Expr) for var in free_vars(dim))


class Condensed:
    """A graph in which regions are single vertices. Vertices are the positions of nodes; a region has the position of
    one of its nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.position = {item: number for number, item in enumerate(graph.nodes)}
        self.members = {number: [number] for number in range(len(graph.nodes))}
        self.engine: dict[int, str] = {}
        self.vertex_of = list(range(len(graph.nodes)))
        self.before: dict[int, set[int]] = {number: set() for number in self.members}
        self.after: dict[int, set[int]] = {number: set() for number in self.members}
        makers = {value: number for number, item in enumerate(graph.nodes) for value in item.outputs}
        # A node that uses a data-dependent size comes after the node that binds it, although no value says so.
        binders: dict[Var, int] = {
            size: number for number, item in enumerate(graph.nodes) for size in item.bound_sizes()
        }
        for number, item in enumerate(graph.nodes):
            earlier = {makers[value] for value in item.inputs if value in makers}
            earlier |= {binders[v] for v in item.mentioned() if v in binders} if binders else set()
            self.before[number] = earlier - {number}
            for other in self.before[number]:
                self.after[other].add(number)
        constants = set(graph.arrays())
        self.readers = [
            sorted(self.position[reader] for reader in readers)
            for value, readers in graph.consumers().items()
            if value not in constants and len(readers) > 1
        ]

    def join(self, nodes: Sequence[OpNode], engine: str) -> None:
        """Make the operators in `nodes` one region of an engine, without checking whether that is legal."""
        first, *rest = sorted(self.vertex_of[self.position[item]] for item in nodes)
        self.engine[first] = engine
        for other in rest:
            if other != first:
                self.merge(first, other)

    def merge(self, a: int, b: int) -> None:
        """Merge vertex b into vertex a."""
        for number in self.members[b]:
            self.vertex_of[number] = a
        self.members[a] += self.members.pop(b)
        self.engine.pop(b, None)
        for table, opposite in ((self.before, self.after), (self.after, self.before)):
            others = table.pop(b) - {a}
            table[a] = (table[a] | others) - {b}
            for other in others:
                opposite[other].discard(b)
                opposite[other].add(a)

    def passes_around(self, a: int, b: int) -> bool:
        """Return whether some path from vertex a to vertex b goes through another vertex."""
        todo = [vertex for vertex in self.before[b] if vertex != a]
        visited = set(todo)
        while todo:
            for vertex in self.before[todo.pop()]:
                if vertex == a:
                    return True
                if vertex not in visited:
                    visited.add(vertex)
                    todo.append(vertex)
        return False

    def may_merge(self, a: int, b: int) -> bool:
        """Return whether two vertices may become one: each path between them is a single edge."""
        return not self.passes_around(a, b) and not self.passes_around(b, a)

    def grow(self, engine: str) -> None:
        """Merge the regions of one engine along edges, and across values that several of them read, as far as is
        legal.
        """
        while self._along_edges(engine) or self._across_forks(engine):
            pass

    def _along_edges(self, engine: str) -> bool:
        merged = False
        for vertex in sorted(v for v, name in self.engine.items() if name == engine):
            if self.engine.get(vertex) != engine:
                continue
            for earlier in sorted(self.before[vertex]):
                if self.engine.get(earlier) == engine and not self.passes_around(earlier, vertex):
                    self.merge(vertex, earlier)
                    merged = True
        return merged

    def _across_forks(self, engine: str) -> bool:
        merged = False
        for positions in self.readers:
            vertices = list(dict.fromkeys(self.vertex_of[number] for number in positions))
            own = [vertex for vertex in vertices if self.engine.get(vertex) == engine]
            while len(own) > 1:
                a, b = own[0], own.pop()
                if self.may_merge(a, b):
                    self.merge(a, b)
                    merged = True
        return merged

    def regions(self, engine: str) -> list[tuple[OpNode, ...]]:
        """Return the nodes of each region of an engine, in the order of the graph."""
        listed = [sorted(self.members[vertex]) for vertex, name in self.engine.items() if name == engine]
        return [tuple(self.nodes[number] for number in numbers) for numbers in sorted(listed)]

    def order(self) -> list[int]:
        """Return the vertices in an order in which each comes after those that it depends on.

        A region comes as late as its last node, if possible. The result is shorter if there is a cycle.
        """
        last = {vertex: max(numbers) for vertex, numbers in self.members.items()}
        missing = {vertex: len(earlier) for vertex, earlier in self.before.items()}
        ready = [(last[vertex], vertex) for vertex, count in missing.items() if not count]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, vertex = heapq.heappop(ready)
            ordered.append(vertex)
            for later in self.after[vertex]:
                missing[later] -= 1
                if not missing[later]:
                    heapq.heappush(ready, (last[later], later))
        return ordered


def acyclic(graph: Graph, regions: Sequence[RegionNodes]) -> bool:
    """Return whether regions without common nodes can all be nodes of one graph."""
    condensed = Condensed(graph)
    for region in regions:
        condensed.join(region.nodes, region.engine)
    return len(condensed.order()) == len(condensed.members)


def placed(graph: Graph, pairs: Sequence[tuple[RegionNodes, OpNode]]) -> Graph:
    """Return the graph in which each region is replaced by its node. Raises `InternalError` if they form a cycle."""
    condensed = Condensed(graph)
    for region, _ in pairs:
        condensed.join(region.nodes, region.engine)
    order = condensed.order()
    if len(order) != len(condensed.members):
        raise InternalError(f"{graph.name}: the regions form a cycle")
    node_of = {condensed.vertex_of[condensed.position[region.nodes[0]]]: node for region, node in pairs}
    nodes = tuple(node_of[vertex] if vertex in node_of else graph.nodes[vertex] for vertex in order)
    return Graph(graph.inputs, graph.constants, nodes, graph.outputs, graph.name, graph.states)


def region_node(graph: Graph, region: RegionNodes, name: str) -> OpNode:
    """Return the node for a region. Its inner graph is called `name`; it has its own values, and its constants are
    inputs. The outputs are the values that other operators read, or that the graph returns.
    """
    inner: dict[Value, Value] = {}
    inputs: list[Value] = []
    used: set[str] = set()

    def own(value: Value) -> Value:
        if value not in inner:
            inner[value] = Value(fresh(value.name, used), value.shape, value.dtype)
        return inner[value]

    inside = set(region.nodes)
    defined = {value: None for item in region.nodes for value in item.outputs}
    for value in dict.fromkeys(v for item in region.nodes for v in item.inputs):
        if value not in defined:
            own(value)
            inputs.append(value)
    nodes = [
        OpNode(item.op, tuple(map(own, item.inputs)), item.attrs, tuple(map(own, item.outputs)), item.where)
        for item in region.nodes
    ]
    consumers, returned = graph.consumers(), set(graph.outputs)
    results = [v for v in defined if v in returned or any(n not in inside for n in consumers.get(v, ()))]
    body = Graph(tuple(map(own, inputs)), (), tuple(nodes), tuple(map(own, results)), name)
    return OpNode(FUSED, tuple(inputs), {"graph": body, ENGINE: region.engine}, tuple(results))
