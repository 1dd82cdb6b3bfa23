"""Lower a fused group to te, and to its loop program.

A function depends on the structure of its operator, and not on the operator's place in the network. `own_graph` is this
structure, and `function_key` is its hash. Nodes with equal hashes can share one function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import expr as ex
from .. import te
from ..errors import InputError
from ..expr import find
from ..expr.structural import structural_digest
from ..te.nodes import PlaceholderOp
from ..tir.analysis.by_hand import SCHEDULED, is_scheduled
from ..tir.nodes import EMPTY_SUMS, Block, PrimFunc
from ..topi import registry
from ..topi.elementwise import identity
from ..topi.shapes import assuming, condition_of
from .nodes import BIND_SIZE, CALL_TIR, FUSED, MATCH_CAST, Constant, Dim, Graph, OpNode, Value, as_dim


def to_prim_func(node: OpNode | Graph, name: str = "main") -> PrimFunc:
    """Return the loop program of a fused group or of a single node.

    Its parameters are the inputs, the outputs, and then `own_scalars`. Instead of the node, you may pass its
    `own_graph`.
    """
    graph = node if isinstance(node, Graph) else own_graph(node)
    func = te.create_prim_func([*to_te(graph), *own_scalars(graph)], name=name)
    if any(is_scheduled(item.attrs["func"]) for item in graph.nodes if item.op == CALL_TIR):
        func = func.with_attr(SCHEDULED, True)
    sums = [axis.dom.extent for block in find(func.body, Block) for axis in block.iter_vars if axis.kind == ex.REDUCE]
    if all(isinstance(extent, ex.IntImm | ex.Var) for extent in sums):
        return func
    return func.with_attr(EMPTY_SUMS, True)


def to_te(node: OpNode | Graph) -> list[te.Tensor]:
    """Return the node's inputs as placeholders, followed by its outputs as tensor expressions over them."""
    return _to_te(node)[0]


def relations(node: OpNode | Graph) -> tuple[ex.Expr, ...]:
    """Return the conditions (bool) on its own sizes that the function of a node relies on.

    They hold in every run of every network that calls the function. The operators of the network need the same
    conditions on the network's sizes: there they are either proved, or become guards of the executable
    (`link.graphs.guards`).
    """
    return tuple(condition_of(a, b) for a, b in _to_te(node)[1])


def _to_te(node: OpNode | Graph) -> tuple[list[te.Tensor], list[tuple[Dim, Dim]]]:
    """Return the tensors of a node, and the relations between sizes that their operators assumed.

    The relations are pairs, as listed by `topi.shapes.assuming`.
    """
    graph = node if isinstance(node, Graph) else own_graph(node)
    relations: list[tuple[Dim, Dim]] = []
    tensors: dict[Value, te.Tensor] = {}
    scalars: dict[te.Tensor, ex.Expr] = {}
    for value in graph.inputs:
        tensors[value] = te.placeholder(list(value.shape), value.dtype, name=value.name)
    for constant in graph.constants:
        tensor = te.placeholder(constant.value.shape, constant.value.dtype, name=constant.value.name)
        tensors[constant.value] = tensor
        scalars[tensor] = _scalar(constant)
    forms = _Forms(graph)
    for item in graph.nodes:
        operator = registry.get(item.op)
        # The graph's types are right, but the facts that show it may be lost when dimensions become variables of the
        # function.
        with assuming() as assumed:
            results = operator.to_te([tensors[v] for v in item.inputs], item.attrs)
        relations += assumed
        for value, result in zip(item.outputs, results, strict=True):
            tensors[value] = _with_shape(result, forms.of(value.shape, result.shape))
    inputs = [tensors[v] for v in graph.inputs]
    outputs = _of_their_own(_with_scalars([tensors[v] for v in graph.outputs], scalars), inputs)
    return [*inputs, *outputs], relations


def _of_their_own(outputs: list[te.Tensor], taken: list[te.Tensor]) -> list[te.Tensor]:
    """Return `outputs`, replacing each output that is an input, or that appears a second time, with a copy.

    So each parameter of the function has its own memory.
    """
    own: list[te.Tensor] = []
    for tensor in outputs:
        own.append(identity(tensor) if any(tensor is other for other in (*taken, *own)) else tensor)
    return own


class _Forms:
    """Keeps one form for each dimension of a function, so that equal dimensions are written the same way.

    This is the form in the graph if the arguments determine its value, or else the form of the first operator that
    computes it.
    """

    def __init__(self, graph: Graph) -> None:
        self.named = {d for value in (*graph.inputs, *graph.outputs) for d in value.shape if isinstance(d, ex.Var)}
        self.named |= set(own_scalars(graph))
        self.computed: list[tuple[ex.Expr, ex.Expr]] = []

    def of(self, declared: tuple[Dim, ...], computed: tuple[ex.Expr, ...]) -> tuple[ex.Expr, ...]:
        return tuple(self._form(ex.as_expr(a), b) for a, b in zip(declared, computed, strict=True))

    def _form(self, declared: ex.Expr, computed: ex.Expr) -> ex.Expr:
        if self.named.issuperset(ex.free_vars(declared)):
            return declared
        known = next((form for dim, form in self.computed if ex.structural_equal(dim, declared)), None)
        if known is None:
            self.computed.append((declared, computed))
        return computed if known is None else known


def _with_shape(tensor: te.Tensor, extents: tuple[ex.Expr, ...]) -> te.Tensor:
    """Return the tensor with its dimensions written as `extents`, which are equal to them."""
    if all(ex.structural_equal(a, b) for a, b in zip(tensor.shape, extents, strict=True)):
        return tensor
    op = tensor.op
    if not isinstance(op, te.ComputeOp) or len(op.body) != 1:
        identity: te.Tensor = te.compute(extents, lambda *i: tensor[i], name="T_match_cast")
        return identity
    axis = tuple(ex.replace(a, dom=ex.Range(a.dom.start, d)) for a, d in zip(op.axis, extents, strict=True))
    return te.Tensor(te.ComputeOp(op.name, axis, op.body, op.attrs), extents, tensor.dtype)


def function_key(graph: OpNode | Graph) -> bytes:
    """Return a 32-byte key that is equal for nodes that compute the same function of their inputs, whatever their
    names.

    The key is the same in every process. Instead of the node, you may pass its `own_graph`.
    """
    own = graph if isinstance(graph, Graph) else own_graph(graph)
    return structural_digest(own, map_free_vars=True)


def own_graph(node: OpNode) -> Graph:
    """Return a graph that computes the same as `node` but does not depend on the network around the node.

    The inputs are named `p0`, `p1`, .... The symbolic dimensions are variables whose values follow from the shapes of
    the inputs, except `own_scalars`. Dimensions that a `match_cast` assumes to be equal become one dimension.
    """
    graph = _as_graph(node)
    dims = _Dimensions(graph)
    names = {value: f"p{number}" for number, value in enumerate(graph.inputs)}
    own = {v: Value(names.get(v, ""), tuple(dims.of(d) for d in v.shape), v.dtype) for v in graph.values()}

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(own[v] for v in values)

    constants = tuple(Constant(own[c.value], c.data) for c in graph.constants)
    nodes = tuple(OpNode(n.op, of(n.inputs), dims.attrs(_impersonal(n)), of(n.outputs)) for n in graph.nodes)
    return _without_idle_casts(Graph(of(graph.inputs), constants, nodes, of(graph.outputs)))


def own_scalars(graph: Graph) -> tuple[ex.Var, ...]:
    """Return the variables in the attributes of an `own_graph` that are not dimensions of a parameter.

    They become scalar parameters. They are variables of the network, in an order that follows from the structure of the
    graph.
    """
    named = {d for value in (*graph.inputs, *graph.outputs) for d in value.shape if isinstance(d, ex.Var)}
    used: dict[ex.Var, None] = {}
    for item in graph.nodes:
        for dim in item.symbols():
            used.update((v, None) for v in ex.free_vars(dim) if v not in named and v is not _ANY_SIZE)
    return tuple(used)


# The size in the function of a `bind_size`: it is the value of the input, which the function does not use.
_ANY_SIZE = ex.SizeVar("size")


def _impersonal(item: OpNode) -> Mapping[str, Any]:
    """Return the attributes of a node on which its function depends: all except the texts of guards, and guards on
    conditions.
    """
    if item.op == BIND_SIZE:
        return {**item.attrs, "size": _ANY_SIZE, "most": 0, "where": "", "reason": ""}
    if item.op != MATCH_CAST:
        return item.attrs
    dims = [(a, b) for a, b in item.attrs["dims"] if not (isinstance(a, ex.Expr) and a.dtype.is_bool)]
    return {**item.attrs, "dims": tuple(dims), "where": ""}


def _without_idle_casts(graph: Graph) -> Graph:
    """Remove each `match_cast` whose dimensions have become equal."""
    instead: dict[Value, Value] = {}
    nodes = []
    for item in graph.nodes:
        inputs = tuple(instead.get(v, v) for v in item.inputs)
        idle = item.op == MATCH_CAST and all(
            ex.structural_equal(ex.as_expr(a), ex.as_expr(b)) for a, b in item.attrs["dims"]
        )
        if idle and item.output not in graph.outputs:
            instead[item.output] = inputs[0]
        else:
            nodes.append(OpNode(item.op, inputs, item.attrs, item.outputs))
    return Graph(graph.inputs, graph.constants, tuple(nodes), graph.outputs) if instead else graph


def _as_graph(node: OpNode) -> Graph:
    if node.op == FUSED:
        return node.graph
    inputs = tuple(dict.fromkeys(node.inputs))
    if inputs == node.inputs:
        return Graph(inputs, (), (node,), node.outputs)
    # A value that is read twice becomes two parameters: the caller passes the node's inputs in order.
    fresh = tuple(Value(v.name, v.shape, v.dtype) for v in node.inputs)
    return Graph(fresh, (), (OpNode(node.op, fresh, node.attrs, node.outputs),), node.outputs)


def _scalar(constant: Constant) -> ex.Expr:
    if constant.data.size != 1:
        raise InputError(f"{constant}: a constant inside a group has one element")
    return ex.const(constant.data.reshape(())[()].item(), constant.value.dtype)


def _taken_for_equal(graph: Graph) -> list[tuple[ex.Expr, ex.Expr]]:
    """Return pairs of dimensions such that everywhere in the graph, the first of a pair may be replaced with the
    second.

    They are the dimensions of `match_cast` nodes. If the second dimension cannot be expressed by the function's
    variables, the node stays an operator.
    """
    pairs = []
    for item in graph.nodes:
        for old, new in item.attrs["dims"] if item.op == MATCH_CAST else ():
            if not isinstance(old, ex.Expr) or old.dtype.is_bool:
                continue
            if not (isinstance(old, ex.Var) and isinstance(new, ex.Expr)):
                pairs.append((old, ex.as_expr(new)))
            elif isinstance(old, ex.Var) and isinstance(new, ex.Var):
                pairs.append((old, new))
    return pairs


class _Dimensions:
    """The symbolic dimensions of one function.

    A variable that is itself a dimension of an input or output stays, because inputs and outputs are arguments. A
    dimension such as n // 4 becomes a new variable of the function if n is not itself a dimension, because no argument
    would determine the value of n.
    """

    def __init__(self, graph: Graph) -> None:
        self.renamed: list[tuple[ex.Expr, ex.Var]] = []
        self.equal = _taken_for_equal(graph)
        unified = [self._unified(d) for value in graph.inputs for d in value.shape if isinstance(d, ex.Expr)]
        symbolic = [d for d in unified if isinstance(d, ex.Expr)]
        within = {v for d in symbolic for v in ex.free_vars(d)}
        of_outputs = [self._unified(d) for value in graph.outputs for d in value.shape if isinstance(d, ex.Expr)]
        named: set[ex.Var] = {d for d in symbolic if isinstance(d, ex.Var)}
        named |= {d for d in of_outputs if isinstance(d, ex.Var) and d in within}
        self.named = self._name(symbolic, named)
        scalars = {
            v
            for item in graph.nodes
            for dim in ex.replace(item, attrs=self.attrs(_impersonal(item))).symbols()
            for v in ex.free_vars(dim)
            if v not in self.named and v is not _ANY_SIZE
        }
        if scalars:
            # They become arguments, so that dimensions that are expressions of them need no variables of their own.
            self.renamed = []
            self.named = self._name(symbolic, named | scalars)

    def _name(self, symbolic: list[ex.Expr], named: set[ex.Var]) -> set[ex.Var]:
        """Give new variables to dimensions that the variables in `named` do not determine.

        Returns `named` together with the new variables. Small dimensions come first. For example, once n // 4 has a
        variable, n // 4 * 8 is written as 8 times that variable.
        """
        named = set(named)
        for dim in sorted(symbolic, key=lambda d: sum(1 for _ in ex.walk(d))):
            if all(v in named for v in ex.free_vars(self._rewrite(dim))):
                continue
            own = ex.SizeVar(f"d{len(self.renamed)}", dim.dtype)
            self.renamed.append((dim, own))
            named.add(own)
        return named

    def find(self, dim: ex.Node) -> ex.Var | None:
        return next((var for replaced, var in self.renamed if ex.structural_equal(replaced, dim)), None)

    def of(self, dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else as_dim(self._rewrite(self._unified(dim)))

    def attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with their dimensions written in the function's own variables."""
        if not self.renamed and not self.equal:
            return dict(attrs)
        own = {key: self._attribute(value) for key, value in attrs.items()}
        if "newshape" in own:
            own["newshape"] = self._inferred(own["newshape"])
        return own

    def _inferred(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the target shape of a reshape. If the function cannot express one dimension, that one is inferred
        (-1).
        """
        unknown = [a for a, d in enumerate(shape) if isinstance(d, ex.Expr) and set(ex.free_vars(d)) - self.named]
        return tuple(-1 if a in unknown else d for a, d in enumerate(shape)) if len(unknown) == 1 else shape

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, ex.Expr):
            return as_dim(self._rewrite(self._unified(value)))
        return tuple(map(self._attribute, value)) if isinstance(value, tuple) else value

    def _unified(self, dim: Any) -> Any:
        """Replace each dimension that a cast assumes to be equal to another with that other dimension."""
        for old, new in self.equal:
            if ex.structural_equal(old, dim):
                return new
        return ex.map_children(dim, self._unified) if self.equal else dim

    def _rewrite(self, dim: Any) -> Any:
        own = self.find(dim)
        return own if own is not None else ex.map_children(dim, self._rewrite)


def _with_scalars(outputs: list[te.Tensor], scalars: Mapping[te.Tensor, ex.Expr]) -> list[te.Tensor]:
    """Replace every load of a scalar constant in the outputs with its value."""
    if not scalars:
        return outputs
    operations: dict[te.Operation, te.Operation] = {}
    tensors: dict[te.Tensor, te.Tensor] = {}

    def go(old: Any) -> Any:
        if isinstance(old, te.TensorLoad):
            if old.tensor in scalars:
                return scalars[old.tensor]
            indices = tuple(map(go, old.indices))
            tensor = tensors[old.tensor]
            same = tensor is old.tensor and all(a is b for a, b in zip(indices, old.indices, strict=True))
            return old if same else te.TensorLoad(tensor, indices)
        return ex.map_children(old, go)

    for tensor in te.post_order(outputs):
        op = tensor.op
        if isinstance(op, PlaceholderOp):
            tensors[tensor] = _of_one_value(tensor, scalars[tensor]) if tensor in scalars else tensor
            continue
        if isinstance(op, te.ExternOp) and op not in operations:
            inputs = tuple(tensors[one] for one in op.inputs)
            same = all(a is b for a, b in zip(inputs, op.inputs, strict=True))
            operations[op] = op if same else te.ExternOp(op.name, inputs, op.func)
        if isinstance(op, te.ComputeOp) and op not in operations:
            body = tuple(map(go, op.body))
            same = all(a is b for a, b in zip(body, op.body, strict=True))
            operations[op] = op if same else te.ComputeOp(op.name, op.axis, body, op.attrs)
        new = operations[op]
        tensors[tensor] = tensor if new is op else te.Tensor(new, tensor.shape, tensor.dtype, tensor.value_index)
    return [tensors[tensor] for tensor in outputs]


def _of_one_value(tensor: te.Tensor, value: ex.Expr) -> te.Tensor:
    """Return a tensor of the shape of `tensor` whose elements all equal `value`, for loop programs, which take tensors
    and not scalars.
    """
    filled: te.Tensor = te.compute(tensor.shape, lambda *_: value, name=tensor.name)
    return filled
