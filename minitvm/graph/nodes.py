"""The nodes of graphs: operators on whole tensors, in SSA form.

    graph    ::= Graph inputs constants nodes outputs
    constant ::= Constant value = array
    node     ::= OpNode outputs = op(inputs, attrs)
    value    ::= Value name: dtype[shape]

Every value is defined once: as an input, by a constant, or as the output of a node; nodes are in topological order. A
dimension is an int or, if symbolic, an expression over variables. A fused group is a node with the op "fused"; its attr
"graph" is the inner graph, whose inputs and outputs are those of the node, in the same order. If it has an attr
"engine", it is a *region*: that engine computes it, instead of our kernels (`passes.partition`).

A node `match_cast(x, dims=((a, b), ...))` is `x` with each dimension `a` of its shape written as `b`. It asserts that
both are equal: a run in which they are not is refused before its first kernel starts. So a shape that is derived from
such an equality is as reliable as any other.

A node `bind_size(count, size=n, most=m)` returns `count`, one int64, and makes it the value of the variable n in all
nodes after it. So n is a data-dependent size. If the count is not from 0 to m, the run stops there with an error.

A node `loop(limit, going, *carried, *outside, body=graph, carried=k, most=m)` runs its body as long as fewer than
`limit` (one int64) iterations are done and `going` (one bool) holds. `graph.loop_bodies` describes the inputs and
outputs of the body.

A node `call_tir(*inputs, func=primfunc)` calls a loop program of the level below, and `call_packed(*inputs, func=name,
types=...)` a Python function (`topi.called`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError
from ..expr import DType, Expr, IntImm, Node, SizeVar, Var, node, walk

Dim: TypeAlias = int | Expr
FUSED = "fused"
ENGINE = "engine"  # the attribute of a fused group that is a region
MATCH_CAST = "match_cast"
BIND_SIZE = "bind_size"
LOOP = "loop"
CALL_TIR = "call_tir"
CALL_PACKED = "call_packed"


@node
class Value(Node):
    """A tensor in a graph. Two values are the same only if they are the same object. `name` is used in messages, and to
    pass inputs.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: DType = DType("float32")
    _children = ("shape",)
    _renamable = True

    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(as_dim(d) for d in self.shape))
        object.__setattr__(self, "dtype", DType(self.dtype))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> str:
        """The type as text, such as `float32[1, 3, n]`."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def is_static(self) -> bool:
        """Return whether every dimension is a constant."""
        return all(isinstance(d, int) for d in self.shape)

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type})"


@node
class Constant(Node):
    """A constant: the array `data` is the value of `value`. It is never changed."""

    value: Value
    data: np.ndarray
    _children = ("value",)
    _defs = ("value",)

    def __repr__(self) -> str:
        return f"Constant({self.value.name}: {self.value.type})"


_NAMED = re.compile(r"\(node (.*?)\)(?=: |$)")


@node
class OpNode(Node):
    """A node `outputs = op(*inputs, **attrs)`. For errors, `where` names the node of the model that it comes from."""

    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[Value, ...]
    where: str = field(default="", compare=False)
    _children = ("inputs", "outputs")
    _defs = ("outputs",)

    @property
    def model_node(self) -> str:
        """The outermost model node that `where` names, or "" if it names none."""
        named = _NAMED.search(self.where)
        return named[1] if named else ""

    @property
    def output(self) -> Value:
        """The only output of the node. Raises `InputError` if it does not have exactly one."""
        if len(self.outputs) != 1:
            raise InputError(f"{self.op} has {len(self.outputs)} outputs, not one")
        return self.outputs[0]

    @property
    def graph(self) -> Graph:
        """The inner graph of a fused group. Raises `InputError` for any other node."""
        if self.op != FUSED:
            raise InputError(f"{self.op} is no fused group")
        inner: Graph = self.attrs["graph"]
        return inner

    @property
    def engine(self) -> str:
        """The name of the engine that computes this region, or "" if our kernels compute the node."""
        name: str = self.attrs.get(ENGINE, "") if self.op == FUSED else ""
        return name

    @property
    def operators(self) -> tuple[OpNode, ...]:
        """The operators of a fused group, or just the node itself if it is not fused."""
        return self.graph.nodes if self.op == FUSED else (self,)

    @property
    def body(self) -> Graph:
        """The body of a loop. Raises `InputError` for any other node."""
        if self.op != LOOP:
            raise InputError(f"{self.op} is no loop")
        inner: Graph = self.attrs["body"]
        return inner

    def bound_sizes(self) -> tuple[SizeVar, ...]:
        """Return the data-dependent sizes that the node, or a node of its group, binds.

        Sizes bound in the body of a loop are not included.
        """
        if self.op == FUSED:
            return tuple(size for item in self.graph.nodes for size in item.bound_sizes())
        return (self.attrs["size"],) if self.op == BIND_SIZE else ()

    def stops_runs(self) -> bool:
        """Return whether the node, or a node of its group, is a check that may end a run.

        No output depends on such a node, so it looks unused.
        """
        if self.op == FUSED:
            return any(item.stops_runs() for item in self.graph.nodes)
        return self.op == BIND_SIZE and bool(self.attrs.get("reason"))

    def mentioned(self) -> Iterator[Var]:
        """Yield the variables that occur in the shapes of the outputs and in the attributes."""
        for value in self.outputs:
            yield from (v for dim in value.shape if isinstance(dim, Expr) for v in walk(dim) if isinstance(v, Var))
        for item in self.graph.nodes if self.op == FUSED else self.body.nodes if self.op == LOOP else ():
            yield from item.mentioned()
        for dim in self.symbols():
            yield from (v for v in walk(dim) if isinstance(v, Var))

    def symbols(self) -> Iterator[Expr]:
        """Yield the symbolic expressions among the attributes."""
        todo = list(self.attrs.values())[::-1]
        while todo:
            value = todo.pop()
            if isinstance(value, Expr):
                yield value
            elif isinstance(value, tuple):
                todo += value[::-1]

    def __repr__(self) -> str:
        from .printer import node_script

        return node_script(self)


@node
class GraphState(Node):
    """A value that a run leaves for the next one: input number `input` is output number `output` of the previous run.

    Both have the same type, with a constant shape. In the first run, the input is the array `first`, of this type, or
    zeros if `first` is None.
    """

    input: int
    output: int
    first: np.ndarray | None = None

    def beginning(self, value: Value) -> np.ndarray:
        """Return a new array with the contents of the state `value` before the first run."""
        shape = tuple(dim for dim in value.shape if isinstance(dim, int))
        return np.zeros(shape, value.dtype.numpy) if self.first is None else self.first.copy()


@node
class Graph(Node):
    """A function from `inputs` to `outputs`. Structural equality ignores `name` and the names of values.

    In a module, each of the `states` is an input that the previous run computed; the caller passes only the other
    inputs and gets only the other outputs. As a function, the graph treats them like any other input and output, so
    interpreters and passes need no special case for states.
    """

    inputs: tuple[Value, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[OpNode, ...]
    outputs: tuple[Value, ...]
    name: str = field(default="main", compare=False)
    states: tuple[GraphState, ...] = ()
    _children = ("inputs", "constants", "nodes", "outputs")
    _defs = ("inputs",)

    def arrays(self) -> dict[Value, np.ndarray]:
        """Return the arrays of the constants, by value."""
        return {c.value: c.data for c in self.constants}

    def state_pairs(self) -> tuple[tuple[Value, Value], ...]:
        """Return the states as pairs of values (input, output)."""
        return tuple((self.inputs[state.input], self.outputs[state.output]) for state in self.states)

    def left(self) -> set[int]:
        """Return the indices of the outputs that a run leaves for the next run."""
        return {state.output for state in self.states}

    def producers(self) -> dict[Value, OpNode]:
        """Return the node that computes each value. Inputs and constants have none."""
        return {value: item for item in self.nodes for value in item.outputs}

    def consumers(self) -> dict[Value, list[OpNode]]:
        """Return the nodes that read each value, in order and without repetition. Outputs of the graph do not count
        as readers.
        """
        users: dict[Value, list[OpNode]] = {}
        for item in self.nodes:
            for value in dict.fromkeys(item.inputs):
                users.setdefault(value, []).append(item)
        return users

    def values(self) -> Iterator[Value]:
        """Yield all values in the order in which they are defined."""
        yield from self.inputs
        for constant in self.constants:
            yield constant.value
        for item in self.nodes:
            yield from item.outputs

    def symbolic_dims(self) -> tuple[Var, ...]:
        """Return the variables in the shapes of the inputs, in order of first use."""
        variables: dict[Var, None] = {}
        for value in self.inputs:
            for dim in value.shape:
                if isinstance(dim, Expr):
                    variables.update((v, None) for v in walk(dim) if isinstance(v, Var))
        return tuple(variables)

    def script(self, functions: bool = False) -> str:
        """Return the graph as Python-like text; with `functions`, the loop programs that it calls come first."""
        from .printer import script

        return script(self, functions=functions)

    def show(self, functions: bool = False) -> None:
        """Print the graph; with `functions`, the loop programs that it calls come first."""
        print(self.script(functions))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays."""
        from ..notebook import program_html

        return program_html(self.script())

    def __repr__(self) -> str:
        return self.script()


def as_dim(value: Any) -> Dim:
    """Return a dimension in normal form: a Python int if it is constant, or an expression otherwise.

    Raises `InputError` if it is neither an integer nor an expression.
    """
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool) or int(value) != value:
        raise InputError(f"a dimension is an integer or an expression, found {value!r}")
    return int(value)
