"""Recurrent layers: the equations of their cells. The loop over time is in `over_time`.

`x` [steps, batch, directions, gates * hidden] is the contribution of the input to the gates, including biases. It is
computed first, with one product for all steps (`nn.dense`). `r` [directions, hidden, gates * hidden] are the weights of
the state, with one row for each of its elements. States are [directions, batch, hidden]. Gates are in ONNX's order.

`activations` names the functions of the cell. `alpha` and `beta` have one element for each function (functions without
parameters ignore it), or are empty for the functions' defaults. `clip` limits the sums that go into the gates (0: no
limit). With `lengths` the last input is the number of steps of each row: after them y is zero, and the states do not
change (they are zero for a row without steps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import InputError
from ..expr import Expr, Node, const, rewrite
from ..te import Tensor
from ..te.nodes import ComputeOp, TensorLoad
from ..tir.nodes import Buffer
from . import elementwise, registry
from .over_time import LayerInputs, TimeStep, over_time
from .registry import register
from .shapes import plus

Function = Callable[[Expr], Expr]


def _affine(x: Tensor, *, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    return elementwise.elementwise(x, lambda v: v * const(alpha, v.dtype) + const(beta, v.dtype), "affine")


def _scaled_tanh(x: Tensor, *, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    return elementwise.elementwise(
        x, lambda v: const(alpha, v.dtype) * te.tanh(const(beta, v.dtype) * v), "scaled_tanh"
    )


# Gates, states, functions of gates, other functions.
_CELLS = {"nn.rnn": (1, 1, 1, 0), "nn.gru": (3, 1, 2, 0), "nn.lstm": (4, 2, 2, 1)}
# The operators of one tensor that a cell may apply, by the names of their functions.
_APPLIED = "nn.elu nn.hard_sigmoid nn.leaky_relu nn.relu sigmoid nn.softplus nn.softsign tanh nn.thresholded_relu"
OF_CELLS = {row.compute.__name__: row for row in map(registry.get, _APPLIED.split())}
# Functions of one tensor, and which of alpha and beta they take.
ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {
    "affine": (_affine, ("alpha", "beta")),
    "scaled_tanh": (_scaled_tanh, ("alpha", "beta")),
    **{name: (row.compute, tuple(row.attrs)) for name, row in OF_CELLS.items()},
}


def _types_of(op: str) -> Callable[..., Any]:
    """Return a function that infers the types of the results without building the loops."""

    def infer(*types: Any, **attrs: Any) -> Any:
        return layer_of(op, [te.placeholder(shape, dtype) for shape, dtype in types], **attrs).results

    return infer


@register("nn.rnn", infer=_types_of("nn.rnn"))
def rnn(
    x: Tensor, r: Tensor, h: Tensor, *others: Tensor, direction: str = "forward",
    activations: Sequence[str] = ("tanh",), alpha: Sequence[float] = (), beta: Sequence[float] = (),
    clip: float = 0.0, lengths: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Run a plain recurrent layer, h' = f(x + h r). Returns y [steps, directions, batch, hidden] and the last h."""
    layer = layer_of("nn.rnn", (x, r, h, *others), direction=direction, lengths=lengths)
    (f,) = _functions("nn.rnn", activations, alpha, beta, clip)

    def cell(s: TimeStep) -> list[Buffer]:
        sums = s.product(s.states[0], 0, 1)
        return [s.next_state(0, "hidden", lambda b, j: f(s.x(0, b, j) + sums[b, j]))]

    return over_time(layer, cell)


@register("nn.gru", infer=_types_of("nn.gru"))
def gru(
    x: Tensor, r: Tensor, h: Tensor, *others: Tensor, direction: str = "forward",
    activations: Sequence[str] = ("sigmoid", "tanh"), alpha: Sequence[float] = (), beta: Sequence[float] = (),
    clip: float = 0.0, linear_before_reset: bool = False, lengths: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Run a gated recurrent unit with gates z, r, h: h' = (1 - z) * g(x + (r * h) r_h) + z * h.

    With `linear_before_reset` the reset gate multiplies the product: g(x + r * (h r_h + b)), and the fourth input is
    the bias b [directions, hidden]. Returns y [steps, directions, batch, hidden] and the last h. Source: Cho et al.,
    "Learning phrase representations using RNN encoder-decoder" (2014).
    """
    late = linear_before_reset
    layer = layer_of("nn.gru", (x, r, h, *others), direction=direction, lengths=lengths, linear_before_reset=late)
    f, g = _functions("nn.gru", activations, alpha, beta, clip)

    def cell(s: TimeStep) -> list[Buffer]:
        (h,) = s.states
        sums = s.product(h, 0, 3 if late else 2)

        def gate(k: int, b: Expr, j: Expr) -> Expr:
            return f(s.x(k, b, j) + sums[b, plus(j, k * s.hidden)])

        z = s.stage("update", lambda b, j: gate(0, b, j))
        if late:
            product = s.stage(
                "candidate", lambda b, j: gate(1, b, j) * (sums[b, plus(j, 2 * s.hidden)] + s.weight(0, j))
            )
        else:
            product = s.product(s.stage("reset", lambda b, j: gate(1, b, j) * h[b, j]), 2, 1)

        def new(b: Expr, j: Expr) -> Expr:
            candidate = g(s.x(2, b, j) + product[b, j])
            return (const(1, h.dtype) - z[b, j]) * candidate + z[b, j] * h[b, j]

        return [s.next_state(0, "hidden", new)]

    return over_time(layer, cell)


@register("nn.lstm", infer=_types_of("nn.lstm"))
def lstm(
    x: Tensor, r: Tensor, h: Tensor, c: Tensor, *others: Tensor, direction: str = "forward",
    activations: Sequence[str] = ("sigmoid", "tanh", "tanh"), alpha: Sequence[float] = (),
    beta: Sequence[float] = (), clip: float = 0.0, cell_clip: float = 0.0, input_forget: bool = False,
    peepholes: bool = False, lengths: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Run a long short-term memory with gates i, o, f, c: c' = f * c + i * g(x + h r_c), h' = o * act(c').

    With `input_forget` the gate f is 1 - i. With `peepholes` the gates also read the memory: the fifth input is p
    [directions, 3 * hidden]; p_i * c and p_f * c are added to the sums of i and f, and p_o * c' to the sum of o.
    Unless `cell_clip` is 0, c' is limited to [-cell_clip, cell_clip] before it is used.
    Returns y [steps, directions, batch, hidden], the last h and the last c. Source: Hochreiter and Schmidhuber, "Long
    short-term memory" (1997), and Gers and Schmidhuber (2000).
    """
    layer = layer_of("nn.lstm", (x, r, h, c, *others), direction=direction, lengths=lengths, peepholes=peepholes)
    f, g, act = _functions("nn.lstm", activations, alpha, beta, clip)
    _check_limit("nn.lstm", "cell_clip", cell_clip)

    def cell(s: TimeStep) -> list[Buffer]:
        h, c = s.states
        sums = s.product(h, 0, 4)

        def total(k: int, b: Expr, j: Expr) -> Expr:
            return s.x(k, b, j) + sums[b, plus(j, k * s.hidden)]

        def gate(k: int, b: Expr, j: Expr, memory: Buffer) -> Expr:
            seen = total(k, b, j)
            return f(seen + s.weight(0, plus(j, k * s.hidden)) * memory[b, j] if peepholes else seen)

        def memory(b: Expr, j: Expr) -> Expr:
            i = gate(0, b, j, c)
            forget = const(1, c.dtype) - i if input_forget else gate(2, b, j, c)
            return _limited(forget * c[b, j] + i * g(total(3, b, j)), cell_clip)

        new = s.next_state(1, "memory", memory)
        return [s.next_state(0, "hidden", lambda b, j: gate(1, b, j, new) * act(new[b, j])), new]

    return over_time(layer, cell)


def layer_of(
    op: str, inputs: Sequence[Tensor], *, direction: str, lengths: bool, linear_before_reset: bool = False,
    peepholes: bool = False, **_: Any,
) -> LayerInputs:  # fmt: skip
    """Return the inputs of a recurrent operator by role, as `LayerInputs`.

    Raises `InputError` or `TypeMismatch` if they do not fit the attributes.
    """
    gates, states = _CELLS[op][:2]
    sizes = (1,) * linear_before_reset + (3,) * peepholes
    count = 2 + states + len(sizes) + lengths
    if len(inputs) != count:
        raise InputError(f"{op}: wanted {count} inputs with these attributes, found {len(inputs)}")
    (x, r), others = inputs[:2], tuple(inputs[2:])
    weights = others[states : states + len(sizes)]
    layer = LayerInputs(op, gates, direction, x, r, others[:states], weights, sizes, others[-1] if lengths else None)
    layer.check()
    return layer


def _functions(
    op: str, names: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float
) -> list[Function]:
    """Return the activation functions of a cell, each as a function of one element. Only the gates' functions use
    `clip`.
    """
    *_, gates, others = _CELLS[op]
    count = gates + others
    if len(names) != count or any(len(given) not in (0, count) for given in (alpha, beta)):
        raise InputError(
            f"{op}: wanted {count} activations, and one alpha and one beta for each or none, found {tuple(names)}, "
            f"alpha {tuple(alpha)} and beta {tuple(beta)}"
        )
    _check_limit(op, "clip", clip)
    parameters = [{k: own[n] for k, own in (("alpha", alpha), ("beta", beta)) if own} for n in range(count)]
    return [_function(op, name, parameters[n], clip if n < gates else 0.0) for n, name in enumerate(names)]


def _function(op: str, name: str, parameters: dict[str, Any], clip: float) -> Function:
    """Return the activation `name`, an operator on tensors, as a function of one element.

    Unless `clip` is 0, the function first limits its argument to [-clip, clip]. Raises `InputError` for an unknown
    activation.
    """
    if name not in ACTIVATIONS:
        raise InputError(f"{op}: activations are {', '.join(sorted(ACTIVATIONS))}, found {name!r}")
    operator, takes = ACTIVATIONS[name]
    attrs = {key: value for key, value in parameters.items() if key in takes}

    def function(value: Expr) -> Expr:
        one = te.placeholder((1,), value.dtype)
        op = operator(one, **attrs).op
        assert isinstance(op, ComputeOp)
        (body,) = op.body
        limited = _limited(value, clip)

        def change(node: Node) -> Node | None:
            return limited if isinstance(node, TensorLoad) else None

        changed: Expr = rewrite(body, change)
        return changed

    return function


def _limited(value: Expr, limit: float) -> Expr:
    """Return a value limited to [-limit, limit], or the value itself if the limit is 0."""
    return te.maximum(te.minimum(value, const(limit, value.dtype)), const(-limit, value.dtype)) if limit else value


def _check_limit(op: str, name: str, limit: float) -> None:
    if not limit >= 0:
        raise InputError(f"{op}: {name} is 0 (none) or positive, found {limit}")
