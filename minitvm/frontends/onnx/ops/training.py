"""Convert steps of optimizers, which compute new weights and optimizer states from gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

DOMAIN = "ai.onnx.preview.training"
Step = Callable[[Sequence[Operand]], Sequence[Operand]]


def _each(n: NodeContext, kinds: int, step: Step) -> list[Operand]:
    """Apply a step to each weight. Inputs and outputs are grouped by kind, with all weights first."""
    tensors = n.present_from(2)
    count, rest = divmod(len(tensors), kinds)
    if rest:
        n.refuse(f"{len(tensors)} tensors are not {kinds} for each weight")
    alike = [n.fit(x, tensors[k % count].shape, "the tensors of a weight") for k, x in enumerate(tensors)]
    results = [step(alike[k::count]) for k in range(count)]
    return [one[kind] for kind in range(kinds - 1) for one in results]


def _regularized(n: NodeContext, x: Operand, gradient: Operand) -> Operand:
    total: Operand = n.op("add", n.op("multiply", x, n.attr("norm_coefficient", 0.0)), gradient)
    return total


@converter("Adagrad", domain=DOMAIN)
def adagrad(n: NodeContext) -> Any:
    """Do a step of Adagrad (Duchi, Hazan and Singer, 2011)."""
    rate, count, epsilon = n[0], n[1], n.attr("epsilon", 0.0)
    decay = n.op("add", n.op("multiply", n.cast(count, rate.dtype), n.attr("decay_factor", 0.0)), 1.0)
    rate = n.op("divide", rate, decay)

    def step(tensors: Sequence[Operand]) -> Sequence[Operand]:
        x, gradient, squares = tensors
        gradient = _regularized(n, x, gradient)
        squares = n.op("add", squares, n.op("multiply", gradient, gradient))
        move = n.op("divide", n.op("multiply", rate, gradient), n.op("add", n.op("sqrt", squares), epsilon))
        return n.op("subtract", x, move), squares

    return _each(n, 3, step)


@converter("Adam", domain=DOMAIN)
def adam(n: NodeContext) -> Any:
    """Do a step of Adam (Kingma and Ba, 2015). From the second step on, the bias correction is part of the rate."""
    rate, count, epsilon = n[0], n[1], n.attr("epsilon", 1e-6)
    alpha, beta, shrunk = n.attr("alpha", 0.9), n.attr("beta", 0.999), 1 - n.attr("norm_coefficient_post", 0.0)
    steps = n.cast(count, rate.dtype)

    def missing(factor: float) -> Operand:
        """Return 1 - factor ** steps."""
        power = n.op("power", Operand.known(rate.dtype.numpy.type(factor)), steps)
        result: Operand = n.op("add", n.op("negative", power), 1.0)
        return result

    corrected = n.op("divide", n.op("multiply", rate, n.op("sqrt", missing(beta))), missing(alpha))
    rate = n.op("where", n.op("greater", count, 0), corrected, rate)

    def step(tensors: Sequence[Operand]) -> Sequence[Operand]:
        x, gradient, mean, squares = tensors
        gradient = _regularized(n, x, gradient)
        mean = n.op("add", n.op("multiply", mean, alpha), n.op("multiply", gradient, 1 - alpha))
        square = n.op("multiply", gradient, gradient)
        squares = n.op("add", n.op("multiply", squares, beta), n.op("multiply", square, 1 - beta))
        move = n.op("divide", n.op("multiply", rate, mean), n.op("add", n.op("sqrt", squares), epsilon))
        return n.op("multiply", n.op("subtract", x, move), shrunk), mean, squares

    return _each(n, 4, step)


@converter("Momentum", domain=DOMAIN)
def momentum(n: NodeContext) -> Any:
    """Do a step of Polyak's or Nesterov's momentum. The first step uses the whole gradient."""
    rate, count, mode = n[0], n[1], n.attr("mode")
    alpha, beta = n.attr("alpha"), n.attr("beta")
    if mode not in ("standard", "nesterov"):
        n.refuse_attribute("mode")
    part = n.op("where", n.op("greater", count, 0), _like(rate, beta), _like(rate, 1.0))

    def step(tensors: Sequence[Operand]) -> Sequence[Operand]:
        x, gradient, velocity = tensors
        gradient = _regularized(n, x, gradient)
        velocity = n.op("add", n.op("multiply", velocity, alpha), n.op("multiply", gradient, part))
        ahead = n.op("add", gradient, n.op("multiply", velocity, alpha)) if mode == "nesterov" else velocity
        return n.op("subtract", x, n.op("multiply", ahead, rate)), velocity

    return _each(n, 3, step)


def _like(operand: Operand, value: float) -> Operand:
    return Operand.known(operand.dtype.numpy.type(value))
